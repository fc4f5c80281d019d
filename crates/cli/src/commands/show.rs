//! `rutter show`: its views are a registry ([`super::View`]); here are those of what every
//! instance has.

use api::{CallError, Reply, What};

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
    view: super::View,
}

/// Asks and prints.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    args.view.show(cx)
}

/// Devices, their links and their own counters
#[derive(clap::Args)]
pub struct Ports;

impl Ports {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let Reply::Ports(all) = cx.ask(What::Ports)? else { return unexpected() };
        cx.print(&all[..], view::ports)
    }
}

/// Layer-3 interfaces, addresses and counters
#[derive(clap::Args)]
pub struct Interfaces;

impl Interfaces {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let all = cx.ask_list(What::Interfaces, |reply| match reply {
            Reply::Interfaces(part) => Some(part),
            _ => None,
        })?;
        cx.print(&all[..], view::interfaces)
    }
}

/// The graph of nodes, drawn, with the packets on its edges
#[derive(clap::Args)]
pub struct Graph {
    /// Also edges that no packet took
    #[arg(short, long)]
    all: bool,
}

impl Graph {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let what = What::Graph { all: self.all };
        let Reply::Graph { nodes, drawing } = cx.ask(what)? else { return unexpected() };
        cx.print(&nodes, |_| drawing)
    }
}

/// Cycles per packet, vector sizes, busy share
#[derive(clap::Args)]
pub struct Runtime;

impl Runtime {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let Reply::Runtime(runtime) = cx.ask(What::Runtime)? else { return unexpected() };
        cx.print(&runtime, view::runtime)
    }
}

/// Packets dropped, by reason, and (without -j) packets that devices lost
#[derive(clap::Args)]
pub struct Drops {
    /// Also reasons that dropped no packet
    #[arg(short, long)]
    all: bool,
}

impl Drops {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let Reply::Drops(mut drops) = cx.ask(What::Drops)? else { return unexpected() };
        if !cx.json {
            let Reply::Ports(ports) = cx.ask(What::Ports)? else { return unexpected() };
            drops.extend(ports.iter().flat_map(view::lost_by));
            drops.retain(|drop| self.all || drop.packets > 0);
        }
        cx.print(&drops[..], view::drops)
    }
}

/// Limits: used, free, refused
#[derive(clap::Args)]
pub struct Capacity;

impl Capacity {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let Reply::Capacity(all) = cx.ask(What::Capacity)? else { return unexpected() };
        cx.print(&all[..], view::capacity)
    }
}

/// The daemon, its feeds, the kernel settings it changed
#[derive(clap::Args)]
pub struct System;

impl System {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let Reply::System(system) = cx.ask(What::System)? else { return unexpected() };
        cx.print(&*system, view::system)
    }
}

fn unexpected() -> Result<Status, Error> {
    Err(CallError::Unexpected.into())
}
