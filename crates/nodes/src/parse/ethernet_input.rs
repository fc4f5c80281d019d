//! `ethernet_input`: finds the interface of each frame, checks that it is meant
//! for this machine, and steps over the link header.
//!
//! ```text
//!                       ┌ ours, IPv4 ──► ip4_input      head at layer 3
//!  frame ─► tags ─► iface ┼ ours, IPv6 ──► ip6_input    iface set
//!                       ├ broadcast, multicast, ARP, other EtherTypes ──► punt, with a class
//!                       └ someone else's, unknown VLAN, … ──► drop
//!  all frames of a port that is in a bridge ──► bridge_input
//! ```
//!
//! | cost (reads a packet) | one line of the frame, cold |
//! |-----------------------|-----------------------------|
//! | untagged and ours     | one compare, no call        |
//! | tagged, to a macvlan  | one more, in the demux      |
//!
//! Source: IEEE 802.3, 802.1Q, 802.1ad; RFC 1812 §5.3.4 (a packet in a link-layer broadcast is
//! never forwarded: it is punted, and the kernel decides).

use std::sync::Arc;

use graph::{Node, View, labels};
use tables::bridge::Ingress;
use tables::{Forwarding, Iface, IfaceId, Ifaces, Outer, Tags};
use wire::bytes::be16;
use wire::{ethernet, vlan};

use crate::class::Class;
use crate::counters::IfaceCounters;
use crate::lanes::{self, PuntClass};

labels! {
    /// Where frames go.
    pub enum To {
        Ip4 = "ip4_input" carries [lanes::Iface],
        Ip6 = "ip6_input" carries [lanes::Iface],
        Punt = "punt" carries [lanes::Iface, PuntClass],
        Bridge = "bridge_input",
    }
}

labels! {
    /// Why frames are dropped.
    pub enum Why {
        /// Shorter than its link header.
        Runt = "runt",
        /// To another machine's hardware address: the port is promiscuous.
        NotForUs = "not_for_us",
        /// The port has no interface for untagged frames.
        NoInterface = "no_interface",
        /// The port has no interface for these tags.
        UnknownVlan = "unknown_vlan",
        /// The types of its tags differ from those of the port's interfaces: a service tag in the
        /// place of a customer tag, or an outer tag of the other type.
        TagType = "tag_type",
        /// More than two tags.
        NestedTags = "nested_tags",
        /// From a group address, which no station may have: IEEE 802.3 §3.2.3.
        GroupSource = "group_source",
        /// From the interface's own hardware address: forged, or two stations have the same address.
        OwnSource = "own_source",
    }
}

/// The node.
pub struct EthernetInput {
    forwarding: Arc<Forwarding>,
    counters: Arc<IfaceCounters>,
}

impl EthernetInput {
    /// A node that finds interfaces in `forwarding` and counts in `counters`.
    pub fn new(forwarding: Arc<Forwarding>, counters: Arc<IfaceCounters>) -> Self {
        EthernetInput { forwarding, counters }
    }
}

impl Node for EthernetInput {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ethernet_input";
    const HELP: &'static str = "finds the interface by port and tags, strips the link header";

    fn process(&mut self, v: &mut View<'_, Self>) {
        if *self.forwarding.bridges.load(v.guard()).ingress(v.port()) != Ingress::Routed {
            return v.leave_all(To::Bridge);
        }
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let untagged = Untagged::of(ifaces, v.port());
        let (mut packets, mut bytes) = (0, 0);
        for i in 0..v.n() {
            let head = v.head(i);
            let dst = u64::from_le_bytes(wire::bytes::array(head, 0)) & DST_AND_GROUP;
            let kind = u16::from_le_bytes(wire::bytes::array(head, ethernet::ETHERTYPE));
            let src_end = u16::from_le_bytes(wire::bytes::array(head, ethernet::SRC + 4));
            let len = v.len(i);
            let (four, six) = (kind == IPV4, kind == IPV6);
            if (dst == untagged.mac) & (four | six)
                && src_end != untagged.mac_end
                && v.advance(i, ethernet::LEN)
            {
                (packets, bytes) = (packets + 1, bytes + u64::from(len));
                v.set(lanes::Iface, i, untagged.iface);
                v.leave(i, if six { To::Ip6 } else { To::Ip4 });
            } else {
                self.other(v, i, ifaces);
            }
        }
        if packets > 0 {
            self.counters.received(untagged.iface, packets, bytes);
        }
    }
}

impl EthernetInput {
    /// Handles frames that are tagged, not unicast to this machine, or not IP.
    #[inline(never)]
    fn other(&self, v: &mut View<'_, Self>, i: usize, ifaces: &Ifaces) {
        let len = v.len(i);
        let (id, link, arrival) = match arrival(ifaces, v.port(), v.head(i), len) {
            Ok(found) => found,
            Err(why) => return v.drop(i, why),
        };
        self.counters.received(id, 1, u64::from(len));
        v.set(lanes::Iface, i, id);
        v.advance(i, link); // `arrival` saw to it that the frame is longer
        match arrival {
            Arrival::Ip4 => v.leave(i, To::Ip4),
            Arrival::Ip6 => v.leave(i, To::Ip6),
            Arrival::Punt(class) => {
                v.set(PuntClass, i, class);
                v.leave(i, To::Punt);
            }
        }
    }
}

/// What a frame is to this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Arrival {
    Ip4,
    Ip6,
    Punt(Class),
}

/// Returns the interface of a frame that came in by `port`, the length of its link header, and its kind.
pub(crate) fn arrival(
    ifaces: &Ifaces,
    port: u16,
    head: &[u8; 64],
    len: u16,
) -> Result<(IfaceId, usize, Arrival), Why> {
    let link = link(head, len)?;
    let demux = ifaces.demux.get(usize::from(port));
    let find = |tags| demux.map_or(IfaceId::NONE, |demux| demux.find(tags));
    let id = find(link.tags);
    let Some(iface) = ifaces.get(id) else {
        return Err(match link.tags {
            Tags::None | Tags::Dot1q(0) => Why::NoInterface,
            Tags::QinQ(_, outer, inner)
                if Outer::ALL.map(|kind| find(Tags::QinQ(kind, outer, inner)))
                    != [IfaceId::NONE; 2] =>
            {
                Why::TagType
            }
            _ => Why::UnknownVlan,
        });
    };
    let dst = wire::bytes::array(head, ethernet::DST);
    let group = ethernet::Mac(dst).is_group();
    if !group && !iface.has_mac(dst) {
        return Err(Why::NotForUs);
    }
    let src = ethernet::Mac(wire::bytes::array(head, ethernet::SRC));
    if src.is_group() {
        return Err(Why::GroupSource);
    }
    if src.0 == iface.mac {
        return Err(Why::OwnSource);
    }
    let arrival = match link.kind {
        ethernet::IPV4 if !group => Arrival::Ip4,
        ethernet::IPV6 if !group => Arrival::Ip6,
        ethernet::IPV4 | ethernet::IPV6 => Arrival::Punt(Class::Multicast),
        ethernet::ARP => Arrival::Punt(Class::ArpNd),
        _ => Arrival::Punt(Class::Unknown),
    };
    Ok((id, link.len, arrival))
}

/// The port's interface for untagged frames, in the form that the loop compares.
struct Untagged {
    iface: IfaceId,
    /// Its MAC address as the first six bytes of a little-endian number; the other two are zero.
    /// Without such an interface, those two bytes are not zero, and no frame matches.
    mac: u64,
    /// The last two bytes of the address. A source that ends with them is compared in full: it may
    /// be the interface's own.
    mac_end: u16,
}

impl Untagged {
    fn of(ifaces: &Ifaces, port: u16) -> Untagged {
        let demux = ifaces.demux.get(usize::from(port));
        let iface = demux.map_or(IfaceId::NONE, |demux| demux.untagged);
        let mac = ifaces.get(iface).map_or(u64::MAX, mac);
        Untagged { iface, mac, mac_end: (mac >> 32) as u16 }
    }
}

fn mac(iface: &Iface) -> u64 {
    let [a, b, c, d, e, f] = iface.mac;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// A link header.
struct Link {
    tags: Tags,
    kind: u16,
    len: usize,
}

fn link(head: &[u8; 64], len: u16) -> Result<Link, Why> {
    let is_tag = |kind| kind == ethernet::VLAN || kind == ethernet::QINQ;
    let mut link =
        Link { tags: Tags::None, kind: be16(head, ethernet::ETHERTYPE), len: ethernet::LEN };
    let outer = if link.kind == ethernet::QINQ { Outer::Dot1ad } else { Outer::Dot1q };
    let mut innermost = ethernet::VLAN;
    while is_tag(link.kind) {
        let vlan = be16(head, link.len) & vlan::ID_MASK;
        innermost = link.kind;
        link.tags = match link.tags {
            Tags::None => Tags::Dot1q(vlan),
            Tags::Dot1q(first) => Tags::QinQ(outer, first, vlan),
            Tags::QinQ(..) => return Err(Why::NestedTags),
        };
        link.kind = be16(head, link.len + 2);
        link.len += vlan::LEN;
    }
    if link.len > usize::from(len) {
        return Err(Why::Runt);
    }
    // A service provider's VLAN is not the customer's VLAN of the same number.
    let is_service = innermost == ethernet::QINQ && link.tags != Tags::Dot1q(0);
    if is_service { Err(Why::TagType) } else { Ok(link) }
}

/// The destination in the first eight bytes of a frame, and the bit that marks the source as a
/// group address. An interface's `mac` has zero in place of that bit.
const DST_AND_GROUP: u64 = 0x0001_ffff_ffff_ffff;

/// EtherTypes in memory order.
const IPV4: u16 = ethernet::IPV4.swap_bytes();
const IPV6: u16 = ethernet::IPV6.swap_bytes();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, P0, PEER, VIRTUAL, to_p0, udp4, udp6};
    use graph::testing::Outcome;
    use wire::arp;
    use wire::build::Frame;
    use wire::ethernet::Mac;
    use wire::vlan::Tag;

    fn run(frame: &[u8]) -> Outcome {
        let net = Net::new();
        let mut node = EthernetInput::new(net.forwarding.clone(), IfaceCounters::new());
        let outcome = net.bench().run(&mut node, &[frame], |_, _| ()).remove(0);
        assert_eq!(outcome.frame, frame, "the node changes no byte");
        outcome
    }

    #[test]
    fn frames_find_their_interface_and_family() {
        let plain = to_p0(udp4("10.0.0.1"));
        let got = run(&plain);
        let want = ("ip4_input", 1, plain.len() as u16 - 14);
        assert_eq!((got.to.as_str(), got.get(lanes::Iface).0, got.len), want);
        assert_eq!(run(&to_p0(udp6("2001:db8::1"))).to, "ip6_input");
        let tags = udp4("10.0.0.1").tag(Tag::outer(5)).tag(Tag::new(6));
        let got = run(&to_p0(tags));
        assert_eq!(
            (got.to.as_str(), got.get(lanes::Iface).0, got.len),
            ("ip4_input", 4, plain.len() as u16 - 14)
        );
        let priority = run(&to_p0(udp4("10.0.0.1").tag(Tag::new(0))));
        assert_eq!((priority.to.as_str(), priority.get(lanes::Iface).0), ("ip4_input", 1));
    }

    #[test]
    fn tags_of_other_types_are_others() {
        let tag = |tpid, tci| Tag { tpid, tci };
        let run = |tags: &[Tag]| {
            let frame = tags.iter().fold(udp4("10.0.0.1"), |frame, tag| frame.tag(*tag));
            let got = run(&to_p0(frame));
            match got.to.as_str() {
                "ip4_input" => format!("interface {}", got.get(lanes::Iface).0),
                other => other.into(),
            }
        };
        let two = |outer, inner| run(&[tag(outer, 5), tag(inner, 6)]);
        assert_eq!(two(0x88a8, 0x8100), "interface 4");
        for (outer, inner) in [(0x8100, 0x8100), (0x88a8, 0x88a8), (0x8100, 0x88a8)] {
            assert_eq!(two(outer, inner), "drop: tag_type", "{outer:#x} over {inner:#x}");
        }
        let older = |outer| run(&[tag(outer, 7), tag(0x8100, 8)]);
        assert_eq!([older(0x8100), older(0x88a8)], ["interface 5", "drop: tag_type"]);
        assert_eq!(run(&[tag(0x8100, 5), tag(0x8100, 7)]), "drop: unknown_vlan");
        assert_eq!(run(&[tag(0x88a8, 5)]), "drop: tag_type");
        assert_eq!(run(&[tag(0x88a8, 0)]), "interface 1", "a priority is no VLAN");
    }

    #[test]
    fn what_is_not_ours_is_dropped_by_name() {
        let other = udp4("10.0.0.1").macs(Mac(PEER), Mac([2, 9, 9, 9, 9, 9])).build();
        assert_eq!(run(&other).to, "drop: not_for_us");
        assert_eq!(run(&to_p0(udp4("10.0.0.1").tag(Tag::new(77)))).to, "drop: unknown_vlan");
        let deep = udp4("10.0.0.1").tag(Tag::outer(5)).tag(Tag::new(6)).tag(Tag::new(7));
        assert_eq!(run(&to_p0(deep)).to, "drop: nested_tags");
        for len in 0..14 {
            assert_eq!(run(&to_p0(udp4("10.0.0.1"))[..len]).to, "drop: runt", "{len}");
        }
        let tagged = to_p0(udp4("10.0.0.1").tag(Tag::outer(5)).tag(Tag::new(6)));
        assert_eq!(run(&tagged[..21]).to, "drop: runt");
    }

    #[test]
    fn a_macvlan_s_address_is_its_interface_s_own() {
        let to = |mac, frame: Frame<'static>| {
            let got = run(&frame.macs(Mac(PEER), Mac(mac)).build());
            (got.to.clone(), got.to.starts_with("ip").then(|| got.get(lanes::Iface).0))
        };
        assert_eq!(to(VIRTUAL, udp4("10.0.0.1")), ("ip4_input".into(), Some(1)));
        assert_eq!(to(VIRTUAL, udp6("2001:db8::1")), ("ip6_input".into(), Some(1)));
        let mut other = VIRTUAL;
        other[5] ^= 1;
        assert_eq!(to(other, udp4("10.0.0.1")).0, "drop: not_for_us");
        let tagged = udp4("10.0.0.1").tag(Tag::outer(5)).tag(Tag::new(6));
        assert_eq!(to(VIRTUAL, tagged).0, "drop: not_for_us", "it is p0's");
    }

    #[test]
    fn no_station_sends_from_a_group() {
        let from = |src: [u8; 6], frame: Frame<'static>| {
            let (mut plain, mut arp) = (to_p0(frame), to_p0(frame));
            for frame in [&mut plain, &mut arp] {
                frame[6..12].copy_from_slice(&src);
            }
            arp[..6].fill(0xff);
            let tagged = [&plain[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &plain[12..]].concat();
            [plain, arp, tagged].map(|frame| run(&frame).to)
        };
        for frame in [udp4("10.0.0.1"), udp6("2001:db8::1")] {
            assert_eq!(from([3, 0, 0, 0, 0, 9], frame), ["drop: group_source"; 3]);
            assert_eq!(from([0xff; 6], frame), ["drop: group_source"; 3]);
        }
    }

    #[test]
    fn nobody_else_sends_from_our_address() {
        let from = |src: [u8; 6]| {
            let mut plain = to_p0(udp4("10.0.0.1"));
            plain[6..12].copy_from_slice(&src);
            let tagged = [&plain[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &plain[12..]].concat();
            let mut arp = plain.clone();
            arp[..6].fill(0xff);
            [plain, tagged, arp].map(|frame| run(&frame).to)
        };
        assert_eq!(from(P0), ["drop: own_source"; 3]);
        let [.., e, f] = P0;
        assert_eq!(from([2, 9, 9, 9, e, f]), ["ip4_input", "ip4_input", "punt"]);
    }

    #[test]
    fn the_kernel_gets_the_rest_by_class() {
        let class = |frame: &[u8]| {
            let got = run(frame);
            assert_eq!((got.to.as_str(), got.get(lanes::Iface).0), ("punt", 1));
            got.get(PuntClass)
        };
        let request = arp::Header {
            operation: arp::REQUEST,
            sender_mac: Mac(PEER),
            sender_ip: [192, 0, 2, 2].into(),
            target_mac: Mac([0; 6]),
            target_ip: [192, 0, 2, 1].into(),
        };
        assert_eq!(class(&Frame::arp(request).build()), Class::ArpNd);
        let broadcast = udp4("10.0.0.1").macs(Mac(PEER), Mac::BROADCAST).build();
        assert_eq!(class(&broadcast), Class::Multicast);
        let lldp = Frame::other(wire::ethernet::LLDP).payload(&[0; 50]);
        assert_eq!(
            class(&lldp.macs(Mac(PEER), Mac([1, 0x80, 0xc2, 0, 0, 0xe])).build()),
            Class::Unknown
        );
        assert_eq!(class(&to_p0(Frame::other(0x26).payload(&[0; 50]))), Class::Unknown);
    }

    #[test]
    fn interfaces_are_counted() {
        let net = Net::new();
        let counters = IfaceCounters::new();
        let mut node = EthernetInput::new(net.forwarding.clone(), counters.clone());
        let (plain, tagged) = (to_p0(udp4("10.0.0.1")), udp4("10.0.0.1").tag(Tag::outer(5)));
        let tagged = to_p0(tagged.tag(Tag::new(6)));
        let frames: Vec<&[u8]> = vec![&plain, &tagged, &plain];
        net.bench().run(&mut node, &frames, |_, _| ());
        let of = |id| {
            (counters.of(IfaceId(id)).rx_packets.get(), counters.of(IfaceId(id)).rx_bytes.get())
        };
        assert_eq!((of(1), of(4)), ((2, 2 * plain.len() as u64), (1, tagged.len() as u64)));
        assert_eq!(P0[5], 0xa0);
    }
}
