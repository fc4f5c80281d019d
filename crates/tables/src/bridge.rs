//! Bridges as the data path sees them: which forwarding domain a frame enters,
//! and by which ports it may leave, tagged or not.
//!
//! ```text
//!  port + tag ─► Ingress ─► domain (bridge × VLAN, 12 bits) ─► MAC table ─► port ─► Egress: how it leaves
//! ```
//!
//! A bridge's routed interface is a port, too: one of the numbers behind those
//! of the devices, on which no device receives.

use crate::PortId;

/// A forwarding domain by index: a bridge, or one VLAN of a bridge. 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct DomainId(pub u16);

impl DomainId {
    /// No domain.
    pub const NONE: DomainId = DomainId(0);
    /// Domains fit into 12 bits, of which 0 and 4,095 stay free.
    pub const MOST: usize = 4_094;
}

/// What happens to frames that come in by a port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Ingress {
    /// It is no bridge's.
    #[default]
    Routed,
    /// All belong to one domain; tags are payload.
    Whole(DomainId),
    /// The outermost tag decides.
    ByTag {
        /// Untagged frames, and priority-tagged ones.
        untagged: DomainId,
        /// By VLAN id, 4,096 entries.
        tagged: Box<[DomainId]>,
    },
    /// None is taken: the port is part of a loop. Else it would be as this says.
    Out(Box<Ingress>),
}

impl Ingress {
    /// The domain of frames without a tag; none where they are not taken.
    #[inline]
    pub fn untagged(&self) -> DomainId {
        match self {
            Ingress::Routed | Ingress::Out(_) => DomainId::NONE,
            Ingress::Whole(domain) | Ingress::ByTag { untagged: domain, .. } => *domain,
        }
    }
}

/// How frames of a domain leave by a port.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Egress {
    /// Not at all: the port is no member, or down.
    #[default]
    Closed,
    /// As they came in.
    AsIs,
    /// Without the domain's tag.
    Untagged,
    /// With the domain's tag.
    Tagged,
    /// The port was down, and what was learnt there is still being forgotten:
    /// to known addresses by flooding, then with the tag or without.
    FlushingAsIs,
    /// Likewise.
    FlushingUntagged,
    /// Likewise.
    FlushingTagged,
}

impl Egress {
    /// True where what was learnt at the port counts.
    #[inline(always)]
    pub fn trusts(self) -> bool {
        matches!(self, Egress::AsIs | Egress::Untagged | Egress::Tagged)
    }

    /// The way itself, without the flushing.
    #[must_use]
    pub fn way(self) -> Egress {
        match self {
            Egress::FlushingAsIs => Egress::AsIs,
            Egress::FlushingUntagged => Egress::Untagged,
            Egress::FlushingTagged => Egress::Tagged,
            other => other,
        }
    }

    /// The same way while what was learnt is being forgotten.
    #[must_use]
    pub fn flushing(self) -> Egress {
        match self {
            Egress::AsIs => Egress::FlushingAsIs,
            Egress::Untagged => Egress::FlushingUntagged,
            Egress::Tagged => Egress::FlushingTagged,
            other => other,
        }
    }
}

/// One forwarding domain.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Domain {
    /// The name of its bridge.
    pub bridge: String,
    /// Its VLAN; 0 where the bridge does not look at tags.
    pub vlan: u16,
    /// Which reserved group addresses (BPDUs and the like) are flooded, not dropped.
    pub link_local: LinkLocal,
    /// Probes are sent in it, and what comes by several ports is flooded a few times only.
    pub looks_for_loops: bool,
    /// By port: how its frames leave.
    pub egress: Vec<Egress>,
    /// By port: whose frames leave by it as they came, at once; a digest of `egress`.
    pub direct: Vec<Direct>,
    /// The ports of `egress` that are not closed.
    pub members: Vec<PortId>,
}

/// Which of the group addresses 01:80:c2:00:00:00 to :0f a bridge forwards. IEEE 802.1Q
/// reserves them all (table 8-1): what they carry is for the station at the other end of
/// the cable. Some have a use behind a bridge, others do harm there, and are never in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkLocal(u16);

impl LinkLocal {
    /// None of them.
    pub const NONE: LinkLocal = LinkLocal(0);

    /// Those that a provider's bridge (802.1Q table 8-2) forwards between customers:
    /// spanning tree and what is not the provider's own.
    pub const PROVIDER: LinkLocal = LinkLocal(1 << 0x0 | 1 << 0xb | 1 << 0xc | 1 << 0xd | 1 << 0xf);

    /// Those that may be forwarded, by name and last byte.
    pub const NAMED: &[(&str, u8)] = &[
        ("stp", 0x0),
        ("eapol", 0x3),
        ("elmi", 0x7),
        ("provider_stp", 0x8),
        ("ede", 0xb),
        ("provider_mvrp", 0xd),
        ("lldp", 0xe),
    ];

    /// Control of the link itself: PAUSE (1), slow protocols such as LACP (2), MAC control
    /// (4); and what is reserved for protocols to come.
    const NEVER: u16 = 1 << 0x1 | 1 << 0x2 | 1 << 0x4 | 1 << 0x5 | 1 << 0x6 | 1 << 0x9 | 1 << 0xa;

    /// With 01:80:c2:00:00:0`last`; `None` where no bridge may forward that.
    #[must_use]
    pub const fn with(self, last: u8) -> Option<LinkLocal> {
        if last > 0xf || LinkLocal::NEVER >> last & 1 != 0 {
            return None;
        }
        Some(LinkLocal(self.0 | 1 << last))
    }

    /// Is 01:80:c2:00:00:0`last` among them?
    #[inline]
    pub const fn passes(self, last: u8) -> bool {
        self.0 >> (last & 0xf) & 1 != 0
    }
}

/// Which frames for a station at a port leave by it with no more ado: as a set of
/// bits, so that one mask shows all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(transparent)]
pub struct Direct(pub u8);

impl Direct {
    /// Those that have no tag, or only ones that are payload.
    pub const UNTAGGED: u8 = 1;
    /// Those with the domain's tag.
    pub const TAGGED: u8 = 2;
    /// Those with a tag of priority and no VLAN.
    pub const PRIORITY: u8 = 4;
    /// The port is isolated: none from another such port.
    pub const ISOLATED: u8 = 8;

    /// Of a port whose frames leave by `way`.
    #[must_use]
    pub fn of(way: Egress, isolated: bool) -> Direct {
        let as_they_came = match way {
            Egress::AsIs => Direct::UNTAGGED | Direct::TAGGED | Direct::PRIORITY,
            Egress::Untagged => Direct::UNTAGGED,
            Egress::Tagged => Direct::TAGGED,
            _ => 0,
        };
        Direct(as_they_came | if isolated { Direct::ISOLATED } else { 0 })
    }
}

/// Frames a second that one port may have flooded, by kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FloodRates {
    /// To single stations that nobody has seen.
    pub unknown: u32,
    /// To all stations.
    pub broadcast: u32,
    /// To groups.
    pub multicast: u32,
}

impl Default for FloodRates {
    fn default() -> Self {
        FloodRates { unknown: 100_000, broadcast: 10_000, multicast: 100_000 }
    }
}

/// All bridges; small, replaced whole when something changes.
#[derive(Clone, Debug, Default)]
pub struct Bridges {
    /// By port.
    pub ingress: Vec<Ingress>,
    /// By [`DomainId`]; entry 0 is a blank.
    pub domains: Vec<Domain>,
    /// By port: true where frames may not go to another isolated port.
    pub isolated: Vec<bool>,
    /// By port.
    pub rates: Vec<FloodRates>,
    /// By port: the most bytes behind link header and tags, as of an interface.
    pub mtu: Vec<u16>,
    /// Frames of so many bytes, link header included, fit through every port.
    pub fits_all: u16,
    /// Ports from this number on are bridges' routed interfaces.
    pub first_routed: u16,
    /// Where probes are sent, domain by domain, and port by port.
    pub probed: Vec<Way>,
}

/// A way that frames may leave by: a port, one of its domains, the tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Way {
    /// The port; its link is up, but it may be out.
    pub port: PortId,
    /// The domain.
    pub domain: DomainId,
    /// The VLAN of the tag.
    pub tag: Option<u16>,
}

impl Bridges {
    /// What to do with frames that come in by `port`.
    #[inline]
    pub fn ingress(&self, port: u16) -> &Ingress {
        self.ingress.get(usize::from(port)).unwrap_or(&Ingress::Routed)
    }

    /// The most bytes that a port takes behind link header and tags.
    #[inline]
    pub fn mtu(&self, port: u16) -> u16 {
        self.mtu.get(usize::from(port)).copied().unwrap_or(u16::MAX)
    }

    /// The domain of this number; 0 and unknown ones are the blank.
    #[inline]
    pub fn domain(&self, id: DomainId) -> Option<&Domain> {
        self.domains.get(usize::from(id.0))
    }

    /// True where a frame must not go from one port to the other.
    #[inline]
    pub fn separates(&self, from: u16, to: u16) -> bool {
        let isolated = |port: u16| self.isolated.get(usize::from(port)) == Some(&true);
        from == to || isolated(from) && isolated(to)
    }
}

impl Domain {
    /// How frames leave by `port`.
    #[inline]
    pub fn egress(&self, port: u16) -> Egress {
        self.egress.get(usize::from(port)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_not_there_are_closed() {
        let bridges = Bridges { isolated: vec![true, false, true], ..Bridges::default() };
        assert_eq!(bridges.ingress(9), &Ingress::Routed);
        assert!(bridges.domain(DomainId(1)).is_none());
        assert_eq!(Domain::default().egress(3), Egress::Closed);
        let apart = [(0, 2), (2, 0), (1, 1)].map(|(a, b)| bridges.separates(a, b));
        let together = [(0, 1), (1, 2), (2, 7)].map(|(a, b)| bridges.separates(a, b));
        assert_eq!((apart, together), ([true; 3], [false; 3]));
    }

    #[test]
    fn what_controls_a_link_is_never_forwarded() {
        let all = |set: LinkLocal, last| set.with(last).unwrap_or(set);
        let most = (0..=0xff).fold(LinkLocal::PROVIDER, all);
        let passing = |set: LinkLocal| (0..16).filter(|&last| set.passes(last)).collect::<Vec<_>>();
        assert_eq!(passing(most), [0x0, 0x3, 0x7, 0x8, 0xb, 0xc, 0xd, 0xe, 0xf]);
        assert_eq!(passing(LinkLocal::PROVIDER), [0x0, 0xb, 0xc, 0xd, 0xf]);
        assert!(LinkLocal::NAMED.iter().all(|(_, last)| LinkLocal::NONE.with(*last).is_some()));
    }

    #[test]
    fn flushing_changes_only_trust() {
        for way in [Egress::AsIs, Egress::Untagged, Egress::Tagged] {
            assert!(way.trusts() && !way.flushing().trusts());
            assert_eq!((way.flushing().way(), way.way()), (way, way));
        }
        assert!(!Egress::Closed.trusts());
        assert_eq!(Egress::Closed.flushing(), Egress::Closed);
    }
}
