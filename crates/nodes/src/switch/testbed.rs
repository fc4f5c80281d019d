//! A small switch for tests.
//!
//! ```text
//!  plain bridge `lan`:  ports 0, 1, 2            domain 1; port 1 with an MTU of 1500
//!  VLAN bridge `dc`:    port 3 access to 10      domain 2: VLAN 10
//!                       port 4 trunk 10, 20, native 10
//!                       port 5 tunnel into 20    domain 3: VLAN 20
//!  port 6: routed       ports 7, 8: the routed sides of `lan` and of VLAN 10 of `dc`
//! ```

use std::sync::Arc;
use std::time::Instant;

use lookup::sync::Domain;
use tables::bridge::{DomainId, FloodRates, LinkLocal};
use tables::macs::Learn;
use tables::switch::{BridgeConfig, LoopDetection, Member, Mode, Switch, WhenFull};
use tables::{Forwarding, Iface, Ifaces, PortId, Tags};
use wire::build::Frame;
use wire::ethernet::Mac;

/// The address of the routed sides.
pub(crate) const OWN: [u8; 6] = [2, 0xff, 0, 0, 0, 0];

pub(crate) struct Lan {
    pub domain: Arc<Domain>,
    pub forwarding: Arc<Forwarding>,
    pub switch: Switch,
}

pub(crate) fn member(port: u16, mode: Mode) -> Member {
    let (isolated, max_macs, flood) = (false, None, FloodRates::default());
    let mtu = if port == 1 { 1500 } else { u16::MAX };
    Member { port: PortId(port), mode, isolated, max_macs, flood, mtu }
}

pub(crate) fn bridges() -> Vec<BridgeConfig> {
    let config = |name: &str, members, routed, link_local| BridgeConfig {
        name: name.into(),
        members,
        routed,
        max_macs: 1000,
        when_full: WhenFull::Refuse,
        ageing: 300,
        link_local,
        loops: LoopDetection::Off,
    };
    let plain = (0..3).map(|port| member(port, Mode::Plain)).collect();
    let trunk = Mode::Trunk { vlans: vec![10..=10, 20..=20], native: Some(10) };
    let dc = vec![member(3, Mode::Access(10)), member(4, trunk), member(5, Mode::Tunnel(20))];
    vec![
        config("lan", plain, vec![0], LinkLocal::NONE),
        config("dc", dc, vec![10], LinkLocal::PROVIDER),
    ]
}

impl Lan {
    pub fn new() -> Lan {
        Lan::of(bridges())
    }

    pub fn of(bridges: Vec<BridgeConfig>) -> Lan {
        let domain = Domain::new();
        let forwarding = Forwarding::new(&domain);
        let iface = |name: &str, port, tags| Iface {
            name: name.into(),
            port: PortId(port),
            tags,
            mac: OWN,
            mtu: 1500,
            up: true,
            ..Iface::default()
        };
        forwarding.ifaces.publish(Ifaces::new([
            iface("p6", 6, Tags::None),
            iface("lan", 7, Tags::None),
            iface("dc.10", 8, Tags::Dot1q(10)),
        ]));
        let own = vec![OWN; bridges.len()];
        let switch = Switch::new(&forwarding, &domain, bridges, (7, &own));
        let mut switch = switch.unwrap();
        (0..7).for_each(|port| switch.set_link(port, true));
        Lan { domain, forwarding, switch }
    }

    /// Station `n` is known at `port`, in `domain`.
    pub fn station(&mut self, n: u8, port: u16, domain: u16) {
        let key = lookup::exact::Key::of(mac(n), DomainId(domain).0);
        self.switch.learn(Learn { key, port }, Instant::now());
    }
}

/// The address of station `n`.
pub(crate) fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// A frame from station `src` to station `dst`.
pub(crate) fn frame(dst: u8, src: u8) -> Frame<'static> {
    Frame::other(0x88b5).payload(&[0xab; 46]).macs(Mac(mac(src)), Mac(mac(dst)))
}
