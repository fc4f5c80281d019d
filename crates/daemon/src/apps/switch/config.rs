//! Bridges of the configuration: `[bridge.NAME]`, its ports and VLANs.

use tables::bridge::{FloodRates, LinkLocal};
use tables::switch::{LoopDetection, Mode, WhenFull};

use crate::config::{Config, Interface, Mac};

/// All bridges of a configuration, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bridges(pub Vec<Bridge>);

impl Bridges {
    /// The bridges of `config`.
    pub fn of(config: &Config) -> &[Bridge] {
        config.settings.get::<Bridges>().map_or(&[], |bridges| &bridges.0)
    }
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Bridge {
    /// Its name, and that of its routed interface.
    pub name: String,
    /// Its ports.
    pub ports: Vec<BridgePort>,
    /// Its routed interface, where it has one and ignores tags.
    pub interface: Option<Interface>,
    /// Routed interfaces of its VLANs.
    pub vlans: Vec<(u16, Interface)>,
    /// The most stations that it learns.
    pub max_macs: u64,
    /// What happens to further stations.
    pub when_full: WhenFull,
    /// Seconds after which a silent station is forgotten.
    pub ageing: u32,
    /// Reserved group addresses (BPDUs and the like) that are flooded, not dropped.
    pub link_local: LinkLocal,
    /// Its action against loops.
    pub loops: LoopDetection,
    /// Static stations.
    pub macs: Vec<StaticMac>,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgePort {
    /// Its name; such a port exists.
    pub port: String,
    /// How it treats tags.
    pub mode: Mode,
    /// Frames do not go from it to another isolated port.
    pub isolated: bool,
    /// The most stations learnt at the port; `None`: as many as the bridge takes.
    pub max_macs: Option<u64>,
    /// The share of its bandwidth that may be flooded.
    pub flood: FloodRates,
}

/// A static station.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StaticMac {
    /// Its address.
    pub mac: Mac,
    /// Its VLAN; 0 where the bridge ignores tags.
    pub vlan: u16,
    /// The name of its port, one of the bridge's.
    pub port: String,
}

impl Bridge {
    /// True where tags choose the forwarding domain.
    pub fn looks_at_tags(&self) -> bool {
        self.ports.iter().any(|member| member.mode != Mode::Plain)
    }

    /// Its VLANs in order; 0 alone where it ignores tags.
    pub fn domains(&self) -> Vec<u16> {
        if !self.looks_at_tags() {
            return vec![0];
        }
        let mut all: Vec<u16> = self.ports.iter().flat_map(|member| member.mode.vlans()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
