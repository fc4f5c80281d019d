//! `rutter neighbour`: permanent neighbours at run time; and `rutter show neighbours`.

use std::net::IpAddr;

use api::apps::router::{Reply, Request, What, shown};

use crate::columns::Table;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Add and delete permanent neighbours
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter neighbour add 192.0.2.2 --interface p0 --mac 02:00:00:00:00:02
  rutter neighbour del 192.0.2.2 --interface p0")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Add or replace a neighbour
    Add {
        /// Its IP address
        address: IpAddr,
        /// Its interface: p0
        #[arg(short, long)]
        interface: String,
        /// Its MAC address: 02:00:00:00:00:02
        #[arg(short, long)]
        mac: String,
    },
    /// Delete a neighbour
    Del {
        /// Its IP address
        address: IpAddr,
        /// Its interface
        #[arg(short, long)]
        interface: String,
    },
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    cx.change(match args.action {
        Action::Add { interface, address, mac } => {
            Request::NeighbourAdd { interface, address, mac }
        }
        Action::Del { interface, address } => Request::NeighbourDel { interface, address },
    })
}

/// Hosts on connected networks
#[derive(clap::Args)]
#[command(visible_alias = "neighbors")]
pub struct Neighbours;

impl Neighbours {
    /// Asks and prints.
    pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
        let all = cx.ask_list(What::Neighbours, |reply| match reply {
            api::Reply::Router(Reply::Neighbours(part)) => Some(part),
            _ => None,
        })?;
        cx.print(&all[..], table)
    }
}

/// Hosts on connected networks.
fn table(all: &[shown::Neighbour]) -> String {
    let mut table = Table::new(&["address", "interface", "mac", "state"]);
    for neighbour in all {
        table.row([
            neighbour.address.to_string(),
            neighbour.interface.clone(),
            neighbour.mac.clone().unwrap_or_else(|| "-".into()),
            neighbour.state.clone(),
        ]);
    }
    table.to_string()
}
