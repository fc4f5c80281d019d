//! Bridges of the configuration: `[bridge.NAME]`, its ports and VLANs.

use tables::bridge::{FloodRates, LinkLocal};
use tables::switch::{LoopDetection, Mode, WhenFull};

use crate::config::{Config, Interface, Mac};

/// All of a configuration, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bridges(pub Vec<Bridge>);

impl Bridges {
    /// Those of `config`.
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
    /// Its routed interface, where it has one and does not look at tags.
    pub interface: Option<Interface>,
    /// Routed interfaces of its VLANs.
    pub vlans: Vec<(u16, Interface)>,
    /// The most stations that are learnt.
    pub max_macs: u64,
    /// What happens beyond.
    pub when_full: WhenFull,
    /// Seconds after which a silent station is forgotten.
    pub ageing: u32,
    /// Which reserved group addresses (BPDUs and the like) are flooded, not dropped.
    pub link_local: LinkLocal,
    /// What it does about loops.
    pub loops: LoopDetection,
    /// Stations that are not learnt.
    pub macs: Vec<StaticMac>,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgePort {
    /// Its name; such a port exists.
    pub port: String,
    /// What it does with tags.
    pub mode: Mode,
    /// Frames do not go to another isolated port.
    pub isolated: bool,
    /// The most stations learnt at it; `None`: as many as the bridge takes.
    pub max_macs: Option<u64>,
    /// How much of it may be flooded.
    pub flood: FloodRates,
}

/// A station that is not learnt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StaticMac {
    /// Its address.
    pub mac: Mac,
    /// Its VLAN; 0 where the bridge does not look at tags.
    pub vlan: u16,
    /// The name of its port, one of the bridge's.
    pub port: String,
}

impl Bridge {
    /// True where tags choose the forwarding domain.
    pub fn looks_at_tags(&self) -> bool {
        self.ports.iter().any(|member| member.mode != Mode::Plain)
    }

    /// Its VLANs in order; 0 alone where it does not look at tags.
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
