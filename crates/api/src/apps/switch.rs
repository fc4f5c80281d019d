//! Bridges and their stations.

use serde::{Deserialize, Serialize};

/// What the switch is to change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A station of a bridge that does not age.
    MacAdd {
        /// Its address, `02:00:00:00:00:01`.
        mac: String,
        /// The port where it is, one of a bridge's.
        port: String,
        /// Its VLAN; 0 where the bridge does not look at tags.
        vlan: u16,
    },
    /// Takes a station out, static or learnt.
    MacDel {
        /// Its address.
        mac: String,
        /// In which bridge; may be left out where there is one.
        bridge: Option<String>,
        /// Its VLAN; 0 where the bridge does not look at tags.
        vlan: u16,
    },
    /// Forgets learnt stations.
    MacFlush(WhichMacs),
}

/// What of it can be shown.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Bridges, their VLANs and counters.
    Bridges,
    /// Stations of bridges.
    Macs {
        /// Which.
        which: WhichMacs,
        /// At most so many.
        limit: Option<u64>,
    },
}

/// What it shows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`What::Bridges`].
    Bridges(Vec<Bridge>),
    /// To [`What::Macs`]: the first of them, in several parts; in each, how many there are.
    Macs((Vec<Mac>, u64)),
}

/// Which stations: all of these hold that are given.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct WhichMacs {
    /// Of this bridge.
    pub bridge: Option<String>,
    /// Of this VLAN.
    pub vlan: Option<u16>,
    /// At this port.
    pub port: Option<String>,
    /// With this address.
    pub mac: Option<String>,
}

/// A bridge.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Bridge {
    pub name: String,
    pub ports: u16,
    /// Stations learnt.
    pub macs: u64,
    pub max_macs: u64,
    pub domains: Vec<BridgeDomain>,
    /// VLANs that are not listed, since they never had a frame.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub silent: u64,
    /// Stations that moved too often, and are held.
    pub held: Vec<String>,
    /// Ports with a loop behind them.
    #[serde(default)]
    pub loops: Vec<Loop>,
    /// What happened to its stations, by name: reports of workers, stations learnt,
    /// moved, aged …
    pub counters: Vec<(String, u64)>,
}

/// A port with a loop behind it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Loop {
    pub port: String,
    /// Whose probes come in by it.
    pub sender: String,
    /// The VLAN in which it was found; 0 where the bridge does not look at tags.
    pub vlan: u16,
    /// The port takes and sends no frames; false where loops are only reported.
    pub out: bool,
    /// Seconds since it was found.
    pub since_s: u64,
    /// Seconds until the port is tested again.
    pub retry_s: u64,
}

/// A VLAN of a bridge.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct BridgeDomain {
    /// 0 where the bridge does not look at tags.
    pub vlan: u16,
    pub frames: u64,
    pub bytes: u64,
    /// Frames that went to every member.
    pub flooded: u64,
}

/// A station of a bridge.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Mac {
    pub mac: String,
    pub bridge: String,
    /// 0 where the bridge does not look at tags.
    pub vlan: u16,
    pub port: String,
    /// Seconds since it was seen, to an eighth of the ageing time; none: static.
    pub age_s: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
