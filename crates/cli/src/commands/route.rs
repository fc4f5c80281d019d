//! `rutter route`: static routes at run time.

use std::net::IpAddr;

use api::Request;
use api::request::{Route, RouteKind, Via};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

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
data plane; they last until the router ends. Lasting ones: [[route]] in rutter.toml.")]
pub struct Args {
    /// `default` is ::/0, also where no IPv6 address says so
    #[arg(short = '6', global = true)]
    ipv6: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Add a route, or replace the one of the same prefix and metric
    Add {
        /// Where to: 203.0.113.0/24, or `default`
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
                    "where to? `via ADDRESS`, `dev INTERFACE` or `blackhole`",
                ));
            }
            Request::RouteAdd(route)
        }
        Action::Del { prefix, words } => {
            let Route { vrf, metric, via, .. } = parse(&words)?;
            Request::RouteDel { prefix: written_out(prefix, args.ipv6, &via), vrf, metric }
        }
    };
    cx.change(&request)
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
        let mut value = || words.next().ok_or(Error::Usage("a value is missing at the end"));
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
                None => return Err(Error::Usage("`weight` belongs behind `via` or `dev`")),
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
}
