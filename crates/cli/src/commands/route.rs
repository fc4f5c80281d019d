//! `rutter route`: static routes at run time; and `rutter show routes`.

use std::fmt::Write as _;
use std::io::Write;
use std::net::IpAddr;

use api::apps::router::{Reply, Request, Route, RouteKind, Via, What, shown};
use api::{CallError, Family};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::cut;

/// Add and delete static routes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter route add 203.0.113.0/24 via 192.0.2.2
  rutter route add 203.0.113.0/24 via 192.0.2.2 weight 2 via 192.0.2.3 dev p1 metric 10
  rutter route add 198.51.100.0/24 blackhole vrf red
  rutter route add default via 192.0.2.1
  rutter route add default via 2001:db8::1
  rutter route -6 del default
  rutter route del 203.0.113.0/24

Routes go into the kernel's table (protocol 198) and come from there into the
data plane; they last until the router ends. Permanent ones: [[route]] in rutter.toml.")]
pub struct Args {
    /// `default` means ::/0, even if no other word is an IPv6 address
    #[arg(short = '6', global = true)]
    ipv6: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Add a route, or replace the one with the same prefix and metric
    Add {
        /// The destination: 203.0.113.0/24, or `default`
        prefix: String,
        /// via ADDRESS [dev INTERFACE] [weight N] …, or blackhole, unreachable,
        /// prohibit; then metric N, vrf NAME
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
    },
    /// Delete a route
    Del {
        /// As it was added
        prefix: String,
        /// metric N, vrf NAME
        words: Vec<String>,
    },
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let request = match args.action {
        Action::Add { prefix, words } => {
            let mut route = parse(&words)?;
            route.prefix = written_out(prefix, args.ipv6, &route.via);
            if route.kind == RouteKind::Unicast && route.via.is_empty() {
                return Err(Error::Usage(
                    "a route needs `via ADDRESS`, `dev INTERFACE` or `blackhole`",
                ));
            }
            Request::RouteAdd(route)
        }
        Action::Del { prefix, words } => {
            let Route { vrf, metric, via, .. } = parse(&words)?;
            Request::RouteDel { prefix: written_out(prefix, args.ipv6, &via), vrf, metric }
        }
    };
    cx.change(request)
}

/// `default` as a prefix: as for `ip route`, IPv6's if all gateways are IPv6's.
fn written_out(prefix: String, ipv6: bool, via: &[Via]) -> String {
    if prefix != "default" {
        return prefix;
    }
    let mut gateways = via.iter().filter_map(|via| via.gateway).peekable();
    let all_ipv6 = gateways.peek().is_some() && gateways.all(|gateway| gateway.is_ipv6());
    if ipv6 || all_ipv6 { "::/0".into() } else { "0.0.0.0/0".into() }
}

/// The words behind the prefix, as `ip route` has them.
fn parse(words: &[String]) -> Result<Route, Error> {
    let (prefix, vrf) = (String::new(), "main".to_string());
    let mut route = Route { prefix, vrf, kind: RouteKind::Unicast, via: vec![], metric: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(Error::Usage("the last word needs a value"));
        match word.as_str() {
            "via" => {
                let gateway: IpAddr = number(value()?, "an address")?;
                route.via.push(Via { gateway: Some(gateway), interface: None, weight: 1 });
            }
            "dev" => match route.via.last_mut().filter(|via| via.interface.is_none()) {
                Some(via) => via.interface = Some(value()?.clone()),
                None => {
                    let interface = Some(value()?.clone());
                    route.via.push(Via { gateway: None, interface, weight: 1 });
                }
            },
            "weight" => match route.via.last_mut() {
                Some(via) => via.weight = number(value()?, "1 to 256")?,
                None => return Err(Error::Usage("`weight` must follow `via` or `dev`")),
            },
            "blackhole" => route.kind = RouteKind::Blackhole,
            "unreachable" => route.kind = RouteKind::Unreachable,
            "prohibit" => route.kind = RouteKind::Prohibit,
            "metric" => route.metric = Some(number(value()?, "a number")?),
            "vrf" => route.vrf = value()?.clone(),
            _ => {
                let expected = "via, dev, weight, metric, vrf, blackhole, unreachable or prohibit";
                return Err(Error::Word { word: word.clone(), expected });
            }
        }
    }
    Ok(route)
}

fn number<T: std::str::FromStr>(word: &str, expected: &'static str) -> Result<T, Error> {
    word.parse().map_err(|_| Error::Word { word: word.into(), expected })
}

/// Routes of the data plane
#[derive(clap::Args)]
pub struct Routes {
    /// A prefix and what lies inside it, or the route that an address takes
    which: Option<String>,
    /// Only these routing tables
    #[arg(long)]
    vrf: Option<String>,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Show at most this many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Routes {
    /// Routes come in parts: a million are printed as they come. Status 1 where
    /// there is none.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let Routes { which, vrf, ipv4, ipv6, limit } = self;
        let to = which.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
        let inside = which.filter(|_| to.is_none());
        let one = to.is_some() || inside.is_some();
        let family = match (ipv4, ipv6) {
            (true, _) => Some(Family::Ipv4),
            (_, true) => Some(Family::Ipv6),
            _ => None,
        };
        // One more than is shown: then it is known whether there are more.
        let asked = limit.map(|limit| limit.saturating_add(1));
        let what = What::Routes { vrf, family, inside, to, limit: asked }.into();
        let mut client = cx.connect()?;
        let mut count = 0_u64;
        if cx.json {
            write!(cx.out, "[")?;
        }
        for part in client.stream(&api::Request::Show { what })? {
            let api::Reply::Router(Reply::Routes(routes)) = part? else {
                return Err(CallError::Unexpected.into());
            };
            for route in &routes {
                if limit.is_some_and(|limit| count == limit) {
                    cut(format_args!("the first {count} routes"));
                    break;
                }
                if cx.json {
                    let comma = if count == 0 { "" } else { ",\n" };
                    write!(cx.out, "{comma}")?;
                    serde_json::to_writer(&mut cx.out, route).map_err(std::io::Error::from)?;
                } else {
                    writeln!(cx.out, "{}", line(route))?;
                }
                count += 1;
            }
        }
        if cx.json {
            writeln!(cx.out, "]")?;
        }
        Ok(if one && count == 0 { Status::No } else { Status::Success })
    }
}

/// One route, as `ip route` writes it.
pub fn line(route: &shown::Route) -> String {
    let mut line = match route.kind.as_str() {
        "unicast" => route.prefix.clone(),
        kind => format!("{kind} {}", route.prefix),
    };
    let several = route.via.len() > 1;
    for hop in &route.via {
        // Writing to a String cannot fail.
        if let Some(gateway) = hop.gateway {
            let _ = write!(line, " via {gateway}");
        }
        if !hop.interface.is_empty() {
            let _ = write!(line, " dev {}", hop.interface);
        }
        if several {
            let _ = write!(line, " weight {}", hop.weight);
        }
        if hop.state != "forward" {
            let _ = write!(line, " ({})", hop.state);
        }
    }
    let _ = write!(line, " proto {} metric {}", route.protocol, route.metric);
    if let Some(mtu) = route.mtu {
        let _ = write!(line, " mtu {mtu}");
    }
    if route.vrf != "main" {
        let _ = write!(line, " vrf {}", route.vrf);
    }
    if !route.best {
        line.push_str(" (not the best)");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Route, Error> {
        parse(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn default_is_of_the_gateways_family() {
        let of = |words, ipv6| written_out("default".into(), ipv6, &read(words).unwrap().via);
        assert_eq!(of("via 192.0.2.1", false), "0.0.0.0/0");
        assert_eq!(of("via 2001:db8::1 dev p1", false), "::/0");
        assert_eq!(of("via 192.0.2.1 via 2001:db8::1", false), "0.0.0.0/0");
        assert_eq!(
            (of("blackhole", false), of("dev p1", true)),
            ("0.0.0.0/0".into(), "::/0".into())
        );
        assert_eq!(written_out("10.0.0.0/8".into(), true, &[]), "10.0.0.0/8");
    }

    #[test]
    fn words_as_ip_route_has_them() {
        let route = read("via 192.0.2.2 weight 2 via ::1 dev p1 dev p2 metric 7 vrf red").unwrap();
        assert_eq!(route.via.len(), 3);
        assert_eq!((route.via[0].weight, route.via[2].gateway), (2, None));
        assert_eq!(route.via[1].interface.as_deref(), Some("p1"));
        assert_eq!((route.metric, route.vrf.as_str()), (Some(7), "red"));
        assert_eq!(read("blackhole").unwrap().kind, RouteKind::Blackhole);
        for bad in ["via", "via x", "weight 2", "to 1.2.3.4", "metric x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_route_reads_as_ip_route_writes_it() {
        let hop = |gateway: &str, weight, state: &str| shown::NextHop {
            gateway: Some(gateway.parse().unwrap()),
            interface: "p1".into(),
            weight,
            state: state.into(),
        };
        let mut route = shown::Route {
            vrf: "main".into(),
            prefix: "10.0.0.0/8".into(),
            kind: "unicast".into(),
            protocol: "bird".into(),
            metric: 32,
            mtu: None,
            best: true,
            via: vec![hop("10.0.2.2", 1, "forward")],
        };
        assert_eq!(super::line(&route), "10.0.0.0/8 via 10.0.2.2 dev p1 proto bird metric 32");
        route.via.push(hop("10.0.2.3", 2, "no-neighbour"));
        let line = super::line(&route);
        assert!(line.contains("weight 1 via 10.0.2.3 dev p1 weight 2 (no-neighbour)"), "{line}");
        route.kind = "blackhole".into();
        (route.via, route.vrf, route.mtu) = (vec![], "red".into(), Some(1400));
        assert_eq!(
            super::line(&route),
            "blackhole 10.0.0.0/8 proto bird metric 32 mtu 1400 vrf red"
        );
    }
}
