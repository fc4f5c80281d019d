//! `rutter show`.

use std::io::Write;
use std::net::IpAddr;

use api::{CallError, Family, Reply, Request, What};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::view;

/// Show state and counters of the running data plane
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter show ports
  rutter show routes 203.0.113.0/24
  rutter show routes 192.0.2.1          the route that this address takes
  rutter show drops --all
  rutter show runtime -j")]
pub struct Args {
    #[command(subcommand)]
    what: Show,
}

#[derive(clap::Subcommand)]
enum Show {
    /// Devices, their links and their own counters
    Ports,
    /// Layer-3 interfaces, addresses and counters
    Interfaces,
    /// Routes of the data plane
    Routes {
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
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Hosts on connected networks
    #[command(visible_alias = "neighbors")]
    Neighbours,
    /// Bridges, their VLANs and counters
    Bridges,
    /// Stations of bridges: address, port, age
    Macs {
        #[command(flatten)]
        which: super::mac::Which,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 1000)]
        limit: u64,
    },
    /// The graph of nodes, drawn, with the packets on its edges
    Graph {
        /// Also edges that no packet took
        #[arg(short, long)]
        all: bool,
    },
    /// Cycles per packet, vector sizes, busy share
    Runtime,
    /// Packets dropped, by reason, and (but for -j) what devices lost
    Drops {
        /// Also reasons that dropped none
        #[arg(short, long)]
        all: bool,
    },
    /// Forwarding tables: engine, size, memory
    Fib,
    /// Limits: used, free, refused
    Capacity,
    /// The daemon, its feeds, the kernel settings it changed
    System,
}

/// Asks and prints.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let what = match args.what {
        Show::Routes { which, vrf, ipv4, ipv6, limit } => {
            return routes(which, vrf, family(ipv4, ipv6), limit, cx);
        }
        Show::Ports => What::Ports,
        Show::Interfaces => What::Interfaces,
        Show::Neighbours => What::Neighbours,
        Show::Graph { all } => What::Graph { all },
        Show::Bridges => What::Bridges,
        Show::Macs { which, limit } => What::Macs { which: which.into(), limit: Some(limit) },
        Show::Runtime => What::Runtime,
        Show::Drops { all } => return drops(all, cx),
        Show::Fib => What::Fib,
        Show::Capacity => What::Capacity,
        Show::System => What::System,
    };
    match cx.call(&Request::Show { what })? {
        Reply::Ports(all) => print(cx, &all[..], view::ports),
        Reply::Interfaces(all) => print(cx, &all[..], view::interfaces),
        Reply::Neighbours(all) => print(cx, &all[..], view::neighbours),
        Reply::Bridges(all) => print(cx, &all[..], super::mac::bridges),
        Reply::Macs((all, count)) => print(cx, &all[..], |all| super::mac::macs(all, count)),
        Reply::Graph { nodes, drawing } => print(cx, &nodes, |_| drawing),
        Reply::Runtime(runtime) => print(cx, &runtime, view::runtime),
        Reply::Fib(all) => print(cx, &all[..], view::fib),
        Reply::Capacity(all) => print(cx, &all[..], view::capacity),
        Reply::System(system) => print(cx, &*system, view::system),
        _ => Err(CallError::Unexpected.into()),
    }
}

fn family(ipv4: bool, ipv6: bool) -> Option<Family> {
    match (ipv4, ipv6) {
        (true, _) => Some(Family::Ipv4),
        (_, true) => Some(Family::Ipv6),
        _ => None,
    }
}

fn print<T: serde::Serialize + ?Sized>(
    cx: &mut Context,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<Status, Error> {
    if cx.json {
        cx.print_json(&value)?;
    } else {
        write!(cx.out, "{}", text(value))?;
    }
    Ok(Status::Success)
}

fn drops(all: bool, cx: &mut Context) -> Result<Status, Error> {
    let Reply::Drops(mut drops) = cx.call(&Request::Show { what: What::Drops })? else {
        return Err(CallError::Unexpected.into());
    };
    if !cx.json {
        let Reply::Ports(ports) = cx.call(&Request::Show { what: What::Ports })? else {
            return Err(CallError::Unexpected.into());
        };
        drops.extend(ports.iter().flat_map(view::lost_by));
        drops.retain(|drop| all || drop.packets > 0);
    }
    print(cx, &drops[..], view::drops)
}

/// Routes come in parts: a million are printed as they come. Status 1 where
/// there is none.
fn routes(
    which: Option<String>,
    vrf: Option<String>,
    family: Option<Family>,
    limit: Option<u64>,
    cx: &mut Context,
) -> Result<Status, Error> {
    let to = which.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
    let inside = which.filter(|_| to.is_none());
    let one = to.is_some() || inside.is_some();
    let what = What::Routes { vrf, family, inside, to, limit };
    let mut client = cx.connect()?;
    let mut count = 0_u64;
    if cx.json {
        write!(cx.out, "[")?;
    }
    for part in client.stream(&Request::Show { what })? {
        let Reply::Routes(routes) = part? else { return Err(CallError::Unexpected.into()) };
        for route in &routes {
            if cx.json {
                let comma = if count == 0 { "" } else { ",\n" };
                write!(cx.out, "{comma}")?;
                serde_json::to_writer(&mut cx.out, route).map_err(std::io::Error::from)?;
            } else {
                writeln!(cx.out, "{}", view::route(route))?;
            }
            count += 1;
        }
    }
    if cx.json {
        writeln!(cx.out, "]")?;
    }
    Ok(if one && count == 0 { Status::No } else { Status::Success })
}
