//! `rutter mac`: stations of bridges at run time.

use api::Request;
use api::request::WhichMacs;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

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
        /// Its address: 02:00:00:00:00:09
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
        /// Its address
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
pub struct Which {
    /// Only of this bridge
    #[arg(short, long)]
    bridge: Option<String>,
    /// Only of this VLAN
    #[arg(long)]
    vlan: Option<u16>,
    /// Only at this port
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
    cx.change(&match args.action {
        Action::Add { mac, port, vlan } => Request::MacAdd { mac, port, vlan },
        Action::Del { mac, bridge, vlan } => Request::MacDel { mac, bridge, vlan },
        Action::Flush(which) => Request::MacFlush(which.into()),
    })
}
