//! What is built before the first operation, from the first bytes: interfaces, VRFs,
//! bridges, workers.
//!
//! ```text
//!  both: devices 0 to 8; bridge i's routed side is port 9 + i
//!
//!  `graph`   p0, p1 (with .100 and .7.8), p2   routed
//!            3, 4, 5   bridge `lan`, plain; or p3 routed
//!            6, 7, 8   bridge `dc`: access, trunk, tunnel; or p6 routed
//!  `switch`  0 to 7    bridges `a` and `b`, by a byte each        p8 routed
//! ```

use std::ops::RangeInclusive;

use nodes::{Class, Rates};
use tables::bridge::{FloodRates, LinkLocal};
use tables::oracle::Interface;
use tables::switch::{BridgeConfig, LoopDetection, Member, Mode, WhenFull};
use tables::{Outer, PortId, Tags};

use super::input::Input;
use super::peers::Known;

/// Devices.
pub const DEVICES: u16 = 9;

/// What is built.
pub struct Plan {
    /// By VRF: the engines of both families.
    pub vrfs: Vec<[&'static str; 2]>,
    pub ifaces: Vec<Interface>,
    pub bridges: Vec<BridgeConfig>,
    pub workers: usize,
    /// Classes that nothing is punted in; of the others everything is.
    pub closed: u16,
    /// Who speaks routing protocols with the router.
    pub known: Known,
}

/// The address that bridge `i`'s routed side answers to.
pub fn own_mac(i: usize) -> [u8; 6] {
    [2, 0xff, 0, 0, 0, i as u8]
}

impl Plan {
    /// Of the target `graph`: eight bytes.
    pub fn of_graph(input: &mut Input<'_>) -> Plan {
        let [shape, vrfs, engines, closed, options, modes, more, known] = input.array();
        let count = 1 + u16::from(shape & 3) % 3;
        let by_vrf = |i: u16| {
            let [v4, v6] = [usize::from(engines & 15), usize::from(engines >> 4)];
            let at = |of: usize, list: &[&'static str]| list[(of + usize::from(i)) % list.len()];
            [at(v4, &ENGINES4), at(v6, &ENGINES6)]
        };
        let mut plan = Plan {
            vrfs: (0..count).map(by_vrf).collect(),
            ifaces: Vec::new(),
            bridges: Vec::new(),
            workers: 1 + usize::from(shape >> 2 & 1),
            closed: closed_classes(closed),
            known: Known::default(),
        };
        let mut iface = |name: &str, port, tags| {
            let turn = plan.ifaces.len() as u32;
            let vrf = u16::from(vrfs.rotate_right(turn * 2 % 8) & 3) % count;
            plan.ifaces.push(Interface { name: name.into(), port, tags, vrf });
        };
        iface("p0", 0, Tags::None);
        iface("p1", 1, Tags::None);
        iface("p1.100", 1, Tags::Dot1q(100));
        iface("p1.7.8", 1, Tags::QinQ(Outer::ALL[usize::from(more & 1)], 7, 8));
        iface("p2", 2, Tags::None);
        let (lan, dc) = (shape & 8 != 0, shape & 16 != 0);
        if lan {
            iface("lan", DEVICES, Tags::None);
            plan.bridges.push(plain_bridge(options, loops(more & 2, more & 8)));
        } else {
            iface("p3", 3, Tags::None);
        }
        let mut iface = |name: &str, port, tags| {
            let turn = plan.ifaces.len() as u32;
            let vrf = u16::from(vrfs.rotate_right(turn * 2 % 8) & 3) % count;
            plan.ifaces.push(Interface { name: name.into(), port, tags, vrf });
        };
        if dc {
            let side = DEVICES + u16::from(lan);
            iface("dc.10", side, Tags::Dot1q(10));
            iface("dc.20", side, Tags::Dot1q(20));
            plan.bridges.push(vlan_bridge(options, modes, loops(more & 4, more & 8)));
        } else {
            iface("p6", 6, Tags::None);
        }
        plan.known = Known::new(known, plan.ifaces.len());
        plan
    }

    /// Of the target `switch`: twelve bytes.
    pub fn of_switch(input: &mut Input<'_>) -> Plan {
        let [shape, options, ports @ ..] = input.array::<10>();
        let [closed, limits] = input.array();
        let by_tag = [shape & 1 != 0, shape & 2 != 0];
        let bridge = |i: usize, name: &str| BridgeConfig {
            name: name.into(),
            members: Vec::new(),
            routed: routed(by_tag[i], shape >> (4 + 2 * i) & 3),
            max_macs: if limits & (1 << i) != 0 { 6 } else { 100 },
            when_full: if limits & (4 << i) != 0 { WhenFull::Replace } else { WhenFull::Refuse },
            ageing: if limits & (16 << i) != 0 { 80 } else { 300 },
            link_local: link_local(options & (1 << i) != 0),
            loops: loops(options & (8 << i), options & 32),
        };
        let mut bridges = vec![bridge(0, "a"), bridge(1, "b")];
        for (port, byte) in (0..).zip(ports) {
            let i = usize::from(byte & 1);
            let mode = if by_tag[i] { mode(byte >> 1 & 7) } else { Mode::Plain };
            bridges[i].members.push(Member {
                port: PortId(port),
                mode,
                isolated: byte & 16 != 0,
                max_macs: (byte & 32 != 0).then_some(3),
                flood: flood(byte >> 6 & options >> 6),
                mtu: if byte & 64 != 0 && options & 4 != 0 { 1400 } else { 1500 },
            });
        }
        bridges.retain(|bridge| !bridge.members.is_empty());
        for bridge in &mut bridges {
            let vlans = bridge.vlans();
            bridge.routed.retain(|vlan| vlans.contains(vlan));
        }
        let p8 = Interface { name: "p8".into(), port: 8, tags: Tags::None, vrf: 0 };
        let mut ifaces = vec![p8];
        for (bridge, side) in bridges.iter().zip(DEVICES..) {
            for &vlan in &bridge.routed {
                let tags = if vlan == 0 { Tags::None } else { Tags::Dot1q(vlan) };
                let name = format!("{}.{vlan}", bridge.name);
                ifaces.push(Interface { name, port: side, tags, vrf: 0 });
            }
        }
        let workers = 1 + usize::from(shape >> 2 & 1);
        let vrfs = vec![["bsd-radix"; 2]];
        let known = Known::new(if limits & 64 != 0 { 0x7f } else { 0 }, ifaces.len());
        Plan { vrfs, ifaces, bridges, workers, closed: closed_classes(closed), known }
    }

    /// What may be punted.
    pub fn rates(&self) -> Rates {
        let mut rates = Rates::default();
        for class in Class::ALL {
            let closed = self.closed & 1 << class as u16 != 0;
            rates.set(class, if closed { 0 } else { u32::MAX });
        }
        rates
    }
}

/// Seven eighths of all inputs punt everything.
fn closed_classes(byte: u8) -> u16 {
    if byte & 7 == 7 { u16::from(byte) << 2 & 0x7ff } else { 0 }
}

fn plain_bridge(options: u8, loops: LoopDetection) -> BridgeConfig {
    let few = options & 64 != 0;
    let member = |port: u16| Member {
        port: PortId(port),
        mode: Mode::Plain,
        isolated: options & 1 != 0 && port < 5,
        max_macs: (few && port == 3).then_some(3),
        flood: flood(if port == 4 { options >> 4 & 3 } else { 0 }),
        mtu: if options & 4 != 0 && port == 5 { 1400 } else { u16::MAX },
    };
    BridgeConfig {
        name: "lan".into(),
        members: (3..6).map(member).collect(),
        routed: vec![0],
        max_macs: if options & 128 != 0 { 6 } else { 100 },
        when_full: if options & 8 != 0 { WhenFull::Replace } else { WhenFull::Refuse },
        ageing: 80,
        link_local: link_local(options & 2 != 0),
        loops,
    }
}

fn vlan_bridge(options: u8, modes: u8, loops: LoopDetection) -> BridgeConfig {
    let member = |port: u16| Member {
        port: PortId(port),
        mode: match port {
            6 => Mode::Access(if modes & 4 != 0 { 20 } else { 10 }),
            7 => trunk(&[10..=10, 20..=30], (modes & 1 != 0).then_some(10)),
            _ => mode(modes >> 1 & 7),
        },
        isolated: options & 1 != 0 && port > 6,
        max_macs: None,
        flood: FloodRates { unknown: u32::MAX, broadcast: u32::MAX, multicast: u32::MAX },
        mtu: if options & 4 != 0 && port == 6 { 1500 } else { u16::MAX },
    };
    BridgeConfig {
        name: "dc".into(),
        members: (6..9).map(member).collect(),
        routed: vec![10, 20],
        max_macs: 100,
        when_full: WhenFull::Refuse,
        ageing: 300,
        link_local: link_local(options & 2 == 0),
        loops,
    }
}

/// Whether a bridge looks for loops, and whether it does no more than that.
fn loops(looks: u8, reports: u8) -> LoopDetection {
    match (looks, reports) {
        (0, _) => LoopDetection::Off,
        (_, 0) => LoopDetection::Block,
        _ => LoopDetection::Report,
    }
}

/// Those of providers and one more, or none.
fn link_local(forwards: bool) -> LinkLocal {
    let most = LinkLocal::PROVIDER.with(0xe).expect("LLDP may be forwarded");
    if forwards { most } else { LinkLocal::NONE }
}

/// Three VLANs, in each mode.
fn mode(bits: u8) -> Mode {
    match bits & 7 {
        0 => Mode::Access(10),
        1 => Mode::Access(20),
        2 => Mode::Tunnel(20),
        3 => Mode::Tunnel(30),
        4 => trunk(&[10..=30], None),
        5 => trunk(&[10..=30], Some(10)),
        6 => trunk(&[20..=20, 30..=30], Some(30)),
        _ => trunk(&[1..=40, 4000..=4094], Some(20)),
    }
}

fn trunk(vlans: &[RangeInclusive<u16>], native: Option<u16>) -> Mode {
    Mode::Trunk { vlans: vlans.to_vec(), native }
}

fn routed(by_tag: bool, bits: u8) -> Vec<u16> {
    match (by_tag, bits) {
        (_, 0) => Vec::new(),
        (false, _) => vec![0],
        (true, 1) => vec![10],
        (true, 2) => vec![10, 20],
        (true, _) => vec![20, 30],
    }
}

/// Everything may be flooded, but for the kinds that are closed.
fn flood(closed: u8) -> FloodRates {
    let rate = |bit| if closed & bit != 0 { 0 } else { u32::MAX };
    FloodRates { unknown: rate(1), broadcast: rate(2), multicast: rate(2) }
}

/// Those that begin small; the last are built anew for each change.
pub const ENGINES4: [&str; 6] =
    ["rutter4", "bsd-radix", "poptrie", "tree-bitmap", "lc-trie", "lulea"];
/// Likewise.
pub const ENGINES6: [&str; 6] =
    ["rutter6", "bsd-radix", "poptrie", "tree-bitmap", "lc-trie", "vpp-hash"];
