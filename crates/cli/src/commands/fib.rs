//! `rutter fib`: forwarding tables at run time; and `rutter show fib`.

use std::fmt::Write;
use std::net::IpAddr;

use api::apps::router::shown::{self, Fib};
use api::apps::router::{Reply, Request, What};
use api::{CallError, Family};
use lookup::lpm::Choice;

use crate::columns::{Table, bytes, number, ratio};
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// Query a forwarding table, or change its engine, while packets flow
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter fib engine set dxr
  rutter fib engine set dxr:k=18 --vrf red
  rutter fib lookup 192.0.2.1            the route of packets to this address

Rutter builds the new table beside the running one and compares it with the
routes: at both ends of every prefix, and at addresses that the workers looked up
recently. Then it swaps the tables; no packet is lost. A table with a wrong answer
is refused.
`rutter engines` lists the engines, `rutter show fib` the ones in use.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// The engine of a table
    Engine {
        #[command(subcommand)]
        action: EngineAction,
    },
    /// Look an address up in the running table, and in the prefixes it is built from
    ///
    /// Exit status: 0 both agree, 1 there is no route, 2 they differ.
    Lookup {
        /// The address
        address: IpAddr,
        /// Routing tables
        #[arg(long, default_value = "main")]
        vrf: String,
    },
}

#[derive(clap::Subcommand)]
enum EngineAction {
    /// Rebuild with another engine
    Set {
        /// Its name, and options as NAME:OPTION=VALUE,…
        #[arg(value_parser = crate::engine::Name, hide_possible_values = true)]
        engine: Choice,
        /// Routing tables
        #[arg(long, default_value = "main")]
        vrf: String,
        /// Only ipv4 or ipv6; without it, all that the engine serves
        #[arg(long, value_parser = family)]
        family: Option<Family>,
        /// An option of the engine, as NAME=VALUE; may be repeated
        #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = option)]
        options: Vec<(String, String)>,
    },
}

fn family(text: &str) -> Result<Family, &'static str> {
    match text {
        "ipv4" => Ok(Family::Ipv4),
        "ipv6" => Ok(Family::Ipv6),
        _ => Err("expected ipv4 or ipv6"),
    }
}

fn option(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.into(), value.into()))
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let (mut choice, vrf, family, more) = match args.action {
        Action::Engine { action: EngineAction::Set { engine, vrf, family, options } } => {
            (engine, vrf, family, options)
        }
        Action::Lookup { address, vrf } => return lookup(vrf, address, cx),
    };
    for (name, value) in more {
        choice.set(&name, &value).map_err(|_| Error::OptionTwice { name })?;
    }
    let engine = choice.name;
    let options: Vec<_> = choice.options.0.into_iter().collect();
    let families = match family {
        Some(family) => vec![family],
        None => families(&engine),
    };
    let names: Vec<_> = families.iter().map(Family::to_string).collect();
    let mut status = Status::Success;
    for family in families {
        let (engine, vrf, options) = (engine.clone(), vrf.clone(), options.clone());
        status = status.max(cx.change(Request::FibEngine { vrf, family, engine, options })?);
    }
    if family.is_none() {
        let names = names.join(" and ");
        warn(format_args!("{engine} now serves {names} of VRF {vrf} (--family selects one)"));
    }
    Ok(status)
}

fn lookup(vrf: String, address: IpAddr, cx: &mut Context) -> Result<Status, Error> {
    let asked = cx.ask(What::Lookup { vrf, address })?;
    let api::Reply::Router(Reply::Lookup(found)) = asked else {
        return Err(CallError::Unexpected.into());
    };
    cx.print(&*found, looked_up)?;
    if !found.same {
        let why = found.why.as_deref().unwrap_or("this is a fault in Rutter");
        warn(format_args!("the engine and its prefixes differ: {why}"));
        return Ok(Status::Fault);
    }
    Ok(if found.served.hop == 0 { Status::No } else { Status::Success })
}

/// The answers of engine, prefixes and routes about an address, one line each.
fn looked_up(found: &shown::Lookup) -> String {
    let shown::Lookup { engine, served, stored, .. } = found;
    let mut text = format!("engine {engine}: {}\n", meaning(served));
    let _ = match stored {
        Some(stored) => writeln!(text, "prefix {}: {}", stored.prefix, meaning(&stored.answer)),
        None => writeln!(text, "prefix: none"),
    };
    if let Some(route) = &found.route {
        let _ = writeln!(text, "route  {}", super::route::line(route));
    }
    text
}

fn meaning(answer: &shown::Answer) -> String {
    let mut text = match answer.hop {
        0 => return answer.action.clone(),
        hop => format!("hop {hop}, {}", answer.action),
    };
    for way in &answer.ways {
        let _ = write!(text, ", dev {} to {}", way.interface, way.mac); // a String takes all
    }
    text
}

/// The families that an engine serves. An unknown one is left to the daemon,
/// which may know more than this client, to refuse.
fn families(engine: &str) -> Vec<Family> {
    use lookup::lpm::Engines;
    let mut families = Vec::new();
    if u32::engine(engine).is_some() {
        families.push(Family::Ipv4);
    }
    if u128::engine(engine).is_some() {
        families.push(Family::Ipv6);
    }
    if families.is_empty() { vec![Family::Ipv4] } else { families }
}

/// Forwarding tables: engine, size, memory
#[derive(clap::Args)]
pub struct Tables;

impl Tables {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let api::Reply::Router(Reply::Fib(all)) = cx.ask(What::Fib)? else {
            return Err(CallError::Unexpected.into());
        };
        cx.print(&all[..], table)
    }
}

/// Forwarding tables.
fn table(all: &[Fib]) -> String {
    let mut table = Table::new(&[
        "vrf",
        "family",
        "engine",
        ">routes",
        ">prefixes",
        ">table",
        ">B/prefix",
        ">routes' store",
        ">writer",
        ">updates",
        ">rebuilds",
        ">refused",
    ]);
    for fib in all {
        table.row([
            fib.vrf.clone(),
            fib.family.to_string(),
            fib.engine.clone(),
            number(fib.routes),
            number(fib.prefixes),
            bytes(fib.table_bytes),
            ratio(fib.table_bytes, fib.prefixes),
            bytes(fib.rib_bytes),
            bytes(fib.writer_bytes),
            number(fib.updates),
            number(fib.rebuilds),
            number(fib.refused),
        ]);
    }
    let mut text = table.to_string();
    for fib in all.iter().filter(|fib| !fib.counters.is_empty()) {
        let counters =
            fib.counters.iter().map(|(name, value)| format!("{name} {}", number(*value)));
        let counters: Vec<_> = counters.collect();
        let _ =
            writeln!(text, "{} {} {}: {}", fib.vrf, fib.family, fib.engine, counters.join(", "));
    }
    text
}
