//! The switch: `rutter mac`, stations of bridges at run time; and what `rutter show` prints
//! of bridges and stations.

use std::cell::Cell;
use std::fmt::Write;

use api::CallError;
use api::apps::switch::{Bridge, Mac, Reply, Request, What, WhichMacs};

use crate::columns::{Table, number};
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::{cut, warn};

/// Add, delete and flush stations of bridges
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter mac add 02:00:00:00:00:09 --port p2 --vlan 10
  rutter mac del 02:00:00:00:00:09 --vlan 10
  rutter mac flush --port p3")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Add a station that is not learnt and does not age
    Add {
        /// Its MAC address: 02:00:00:00:00:09
        mac: String,
        /// The port where it is
        #[arg(short, long)]
        port: String,
        /// Its VLAN, where the bridge's ports have VLANs
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        vlan: u16,
    },
    /// Delete a station, static or learnt
    Del {
        /// Its MAC address
        mac: String,
        /// Its bridge, where there are several
        #[arg(short, long)]
        bridge: Option<String>,
        /// Its VLAN, where the bridge's ports have VLANs
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        vlan: u16,
    },
    /// Forget learnt stations: all, or those that the options name
    Flush(Which),
}

/// Which stations.
#[derive(clap::Args)]
struct Which {
    /// Only stations of this bridge
    #[arg(short, long)]
    bridge: Option<String>,
    /// Only stations of this VLAN
    #[arg(long)]
    vlan: Option<u16>,
    /// Only stations at this port
    #[arg(short, long)]
    port: Option<String>,
    /// Only this address
    #[arg(short, long)]
    mac: Option<String>,
}

impl From<Which> for WhichMacs {
    fn from(Which { bridge, vlan, port, mac }: Which) -> Self {
        WhichMacs { bridge, vlan, port, mac }
    }
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    cx.change(match args.action {
        Action::Add { mac, port, vlan } => Request::MacAdd { mac, port, vlan },
        Action::Del { mac, bridge, vlan } => Request::MacDel { mac, bridge, vlan },
        Action::Flush(which) => Request::MacFlush(which.into()),
    })
}

/// Bridges, their VLANs and counters
#[derive(clap::Args)]
pub struct Bridges;

impl Bridges {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let api::Reply::Switch(Reply::Bridges(all)) = cx.ask(What::Bridges)? else {
            return Err(CallError::Unexpected.into());
        };
        for bridge in all.iter().filter(|bridge| cx.json && bridge.silent > 0) {
            warn(format_args!("{}", silent(bridge)));
        }
        cx.print(&all[..], bridges)
    }
}

/// Stations of bridges: address, port, age
#[derive(clap::Args)]
pub struct Macs {
    #[command(flatten)]
    which: Which,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u64,
}

impl Macs {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let what = What::Macs { which: self.which.into(), limit: Some(self.limit) };
        let count = Cell::new(0);
        let all = cx.ask_list(what, |reply| match reply {
            api::Reply::Switch(Reply::Macs((part, all))) => {
                count.set(all);
                Some(part)
            }
            _ => None,
        })?;
        if cx.json && count.get() > all.len() as u64 {
            cut(format_args!("{} of {} stations", all.len(), number(count.get())));
        }
        cx.print(&all[..], |all| macs(all, count.get()))
    }
}

/// Bridges and their VLANs.
fn bridges(all: &[Bridge]) -> String {
    let mut table = Table::new(&[
        "bridge",
        ">ports",
        ">macs",
        ">max macs",
        ">vlan",
        ">frames",
        ">bytes",
        ">flooded",
        "held",
    ]);
    for bridge in all {
        for (i, domain) in bridge.domains.iter().enumerate() {
            let first = |text: String| if i == 0 { text } else { String::new() };
            table.row([
                first(bridge.name.clone()),
                first(bridge.ports.to_string()),
                first(number(bridge.macs)),
                first(number(bridge.max_macs)),
                vlan(domain.vlan),
                number(domain.frames),
                number(domain.bytes),
                number(domain.flooded),
                first(bridge.held.join(" ")),
            ]);
        }
    }
    let mut text = table.to_string();
    for bridge in all.iter().filter(|bridge| bridge.silent > 0) {
        let _ = writeln!(text, "{}", silent(bridge)); // a String takes all
    }
    for found in all.iter().flat_map(|bridge| &bridge.loops) {
        let is = if found.out { "out of use" } else { "only reported" };
        let vlan = if found.vlan == 0 { String::new() } else { format!(" in VLAN {}", found.vlan) };
        let _ = writeln!(
            text,
            "loop: {} has been {is} for {} s: it receives the probes of {}{vlan}; tested again in \
             {} s",
            found.port, found.since_s, found.sender, found.retry_s
        );
    }
    for bridge in all {
        let counters = bridge.counters.iter().filter(|(_, count)| *count > 0);
        let counters: Vec<_> =
            counters.map(|(name, count)| format!("{} {name}", number(*count))).collect();
        if !counters.is_empty() {
            text += &format!("stations of {}: {}\n", bridge.name, counters.join(", "));
        }
    }
    text
}

/// Parts that are left out of a bridge's lines.
fn silent(bridge: &Bridge) -> String {
    format!("{}: {} VLANs that never had a frame are not shown", bridge.name, bridge.silent)
}

/// Stations; `count` is how many there are.
pub fn macs(all: &[Mac], count: u64) -> String {
    let mut table = Table::new(&["mac", "bridge", ">vlan", "port", ">age"]);
    for mac in all {
        table.row([
            mac.mac.clone(),
            mac.bridge.clone(),
            vlan(mac.vlan),
            mac.port.clone(),
            mac.age_s.map_or("static".into(), |age| format!("{age} s")),
        ]);
    }
    let mut text = table.to_string();
    if count > all.len() as u64 {
        let _ = writeln!(text, "{} of {} (--limit N for more)", all.len(), number(count));
    }
    text
}

fn vlan(vlan: u16) -> String {
    if vlan == 0 { "-".into() } else { vlan.to_string() }
}
