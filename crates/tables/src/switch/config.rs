//! What a bridge shall be, and what the data path makes of it.

use std::ops::RangeInclusive;

use super::loops::LoopDetection;
use crate::PortId;
use crate::bridge::{
    Bridges, Direct, Domain, DomainId, Egress, FloodRates, Ingress, LinkLocal, Way,
};

/// A bridge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BridgeConfig {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub members: Vec<Member>,
    /// VLANs that its routed interface is in; 0 for that of a bridge that does
    /// not look at tags.
    pub routed: Vec<u16>,
    /// The most stations that are learnt.
    pub max_macs: u64,
    /// What happens beyond.
    pub when_full: WhenFull,
    /// Seconds after which a silent station is forgotten.
    pub ageing: u32,
    /// Which reserved group addresses are flooded, not dropped.
    pub link_local: LinkLocal,
    /// What it does about loops.
    pub loops: LoopDetection,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its number.
    pub port: PortId,
    /// What it does with tags.
    pub mode: Mode,
    /// Frames do not go to another isolated port.
    pub isolated: bool,
    /// The most stations learnt at it; `None`: as many as the bridge takes.
    pub max_macs: Option<u64>,
    /// How much of it may be flooded.
    pub flood: FloodRates,
    /// The longest packet that it takes and sends, in bytes behind link header and tags.
    pub mtu: u16,
}

/// A link header without tags.
const LINK_LEN: u16 = 14;

/// What a port does with tags.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Nothing: they are payload.
    #[default]
    Plain,
    /// Its frames are untagged and of this VLAN.
    Access(u16),
    /// Its frames are of this VLAN, tags in them are payload (802.1ad).
    Tunnel(u16),
    /// Its frames are tagged with one of these VLANs; untagged ones are of `native`.
    Trunk {
        /// VLANs; they include `native`.
        vlans: Vec<RangeInclusive<u16>>,
        /// The VLAN of untagged frames.
        native: Option<u16>,
    },
}

/// What happens to new stations when a table is full.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// They are not learnt.
    #[default]
    Refuse,
    /// Each takes the place of one of the same bridge that was silent for long: the
    /// oldest of about a dozen. Another bridge's share is never touched, and a
    /// port's limit refuses all the same.
    Replace,
}

impl BridgeConfig {
    /// True where tags tell the forwarding domain.
    pub fn looks_at_tags(&self) -> bool {
        self.members.iter().any(|member| member.mode != Mode::Plain)
    }

    /// Its VLANs in order; 0 alone where it does not look at tags.
    pub fn vlans(&self) -> Vec<u16> {
        if !self.looks_at_tags() {
            return vec![0];
        }
        let vlans = |member: &Member| member.mode.vlans().collect::<Vec<u16>>();
        let mut all: Vec<u16> = self.members.iter().flat_map(vlans).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Mode {
    /// The VLANs of its frames.
    pub fn vlans(&self) -> impl Iterator<Item = u16> {
        let ranges = match self {
            Mode::Plain => Vec::new(),
            Mode::Access(vlan) | Mode::Tunnel(vlan) => vec![*vlan..=*vlan],
            Mode::Trunk { vlans, .. } => vlans.clone(),
        };
        ranges.into_iter().flatten()
    }

    /// How its frames of `vlan` leave.
    fn egress(&self, vlan: u16) -> Egress {
        match self {
            Mode::Plain => Egress::AsIs,
            Mode::Access(own) | Mode::Tunnel(own) if *own == vlan => Egress::Untagged,
            Mode::Trunk { native: Some(native), .. } if *native == vlan => Egress::Untagged,
            Mode::Trunk { vlans, .. } if vlans.iter().any(|range| range.contains(&vlan)) => {
                Egress::Tagged
            }
            _ => Egress::Closed,
        }
    }

    /// What happens to its frames as they come in; `domain` says the same of a VLAN.
    fn ingress(&self, domain: impl Fn(u16) -> DomainId) -> Ingress {
        let mut tagged = vec![DomainId::NONE; 4096].into_boxed_slice();
        let untagged = match self {
            Mode::Plain => return Ingress::Whole(domain(0)),
            Mode::Tunnel(vlan) => return Ingress::Whole(domain(*vlan)),
            Mode::Access(vlan) => domain(*vlan),
            Mode::Trunk { native, .. } => {
                self.vlans().for_each(|vlan| tagged[usize::from(vlan)] = domain(vlan));
                native.map_or(DomainId::NONE, domain)
            }
        };
        Ingress::ByTag { untagged, tagged }
    }
}

/// How a port is at the moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct PortState {
    pub up: bool,
    /// Taken out: there is a loop behind it.
    pub out: bool,
    /// Rounds of the sweep until what was learnt at it is forgotten.
    pub flushing: u8,
}

/// Lays all bridges out for the data path. `ports` are the devices; bridge `i`'s
/// routed interface is port `ports.len() + i`.
pub(super) fn layout(configs: &[BridgeConfig], ports: &[PortState]) -> Bridges {
    let all = ports.len() + configs.len();
    let mut bridges = Bridges {
        ingress: vec![Ingress::Routed; all],
        domains: vec![Domain::default()],
        isolated: vec![false; all],
        rates: vec![FloodRates::default(); all],
        mtu: vec![u16::MAX; all],
        fits_all: u16::MAX,
        first_routed: ports.len() as u16,
        probed: Vec::new(),
    };
    for (config, i) in configs.iter().zip(0..) {
        let first = bridges.domains.len() as u16;
        let vlans = config.vlans();
        let domain = |vlan| {
            let at = vlans.binary_search(&vlan);
            at.map_or(DomainId::NONE, |at| DomainId(first + at as u16))
        };
        let routed = routed_member(config, ports.len() as u16 + i);
        for member in config.members.iter().chain(&routed) {
            let port = usize::from(member.port.0);
            let Some(ingress) = bridges.ingress.get_mut(port) else { continue };
            let state = ports.get(port).copied().unwrap_or_default();
            *ingress = member.mode.ingress(domain);
            if state.out {
                *ingress = Ingress::Out(Box::new(std::mem::take(ingress)));
            }
            if state.up && config.loops != LoopDetection::Off {
                let vlans = if member.mode == Mode::Plain {
                    vec![0]
                } else {
                    member.mode.vlans().collect()
                };
                bridges.probed.extend(vlans.into_iter().map(|vlan| {
                    let tag = (member.mode.egress(vlan) == Egress::Tagged).then_some(vlan);
                    Way { port: member.port, domain: domain(vlan), tag }
                }));
            }
            bridges.isolated[port] = member.isolated;
            bridges.rates[port] = member.flood;
            bridges.mtu[port] = member.mtu;
            bridges.fits_all = bridges.fits_all.min(member.mtu.saturating_add(LINK_LEN));
        }
        let members = || config.members.iter().chain(&routed);
        bridges.domains.extend(vlans.iter().map(|&vlan| {
            let mut egress = vec![Egress::Closed; all];
            for member in members() {
                let port = usize::from(member.port.0);
                let state = ports.get(port).copied();
                let state = state.unwrap_or(PortState { up: true, ..PortState::default() });
                let open = state.up && !state.out;
                let way = if open { member.mode.egress(vlan) } else { Egress::Closed };
                if let Some(slot) = egress.get_mut(port) {
                    *slot = if state.flushing > 0 { way.flushing() } else { way };
                }
            }
            let direct =
                egress.iter().zip(&bridges.isolated).zip(0..).map(|((&way, &isolated), port)| {
                    let way = if port < bridges.first_routed { way } else { Egress::Closed };
                    Direct::of(way, isolated)
                });
            let direct = direct.collect();
            let open = (0..).zip(&egress).filter(|(_, way)| **way != Egress::Closed);
            Domain {
                bridge: config.name.clone(),
                vlan,
                link_local: config.link_local,
                looks_for_loops: config.loops != LoopDetection::Off,
                members: open.map(|(port, _)| PortId(port)).collect(),
                egress,
                direct,
            }
        }));
    }
    // In a domain the lower port's first: see `loops`.
    bridges.probed.sort_by_key(|way| (way.domain, way.port));
    bridges.probed.dedup();
    bridges
}

/// The routed interface as a member: a trunk of its VLANs.
fn routed_member(config: &BridgeConfig, port: u16) -> Option<Member> {
    let mode = match config.routed.as_slice() {
        [] => return None,
        [0, ..] => Mode::Plain,
        vlans => Mode::Trunk { vlans: vlans.iter().map(|&v| v..=v).collect(), native: None },
    };
    let (isolated, max_macs, flood) = (false, None, FloodRates::default());
    Some(Member { port: PortId(port), mode, isolated, max_macs, flood, mtu: u16::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_frames_leave_follows_from_mode_and_vlan() {
        use Egress::{AsIs, Closed, Tagged, Untagged};
        let trunk = |native| Mode::Trunk { vlans: vec![10..=20, 30..=30], native };
        let ways = |mode: Mode| [5, 10, 15, 21, 30].map(|vlan| mode.egress(vlan));
        assert_eq!(ways(Mode::Plain), [AsIs; 5]);
        for mode in [Mode::Access(15), Mode::Tunnel(15)] {
            assert_eq!(ways(mode), [Closed, Closed, Untagged, Closed, Closed]);
        }
        assert_eq!(ways(trunk(None)), [Closed, Tagged, Tagged, Closed, Tagged]);
        assert_eq!(ways(trunk(Some(10))), [Closed, Untagged, Tagged, Closed, Tagged]);
        assert_eq!(ways(trunk(Some(30))), [Closed, Tagged, Tagged, Closed, Untagged]);
    }
}
