//! `punt`: copies packets to the kernel, so many a second of each class.
//!
//! ```text
//!  PuntClass        ─► finer class ─► token bucket ─► copy into the ring ─► kernel thread ─► tap
//!                                        └ empty: dropped, counted by class      (tags taken off)
//! ```
//!
//! | cost | beyond its rate, a packet costs a compare and its free: a flood of TTL 1 is cheap |
//! |------|-----------------------------------------------------------------------------------|
//!
//! Source: RFC 1812 §4.3.2.8 (rate limits of ICMP errors). The bucket comes
//! before the copy, and each worker has its own.

use graph::ring::frames::{Meta, Producer};
use graph::{Account, Label, Lanes, NoEdge, Node, Point, View, clock};
use wire::bytes::{array, be16};
use wire::{icmpv6, ipv4, ipv6, protocol};

use crate::class::{Bucket, Class, Rates, meanings, reasons};
use crate::lanes::{Iface, PuntClass};

/// Why packets are dropped: the class whose rate is used up, or a full ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Why(u8);

impl Why {
    /// The ring to the kernel thread is full.
    const RING_FULL: Why = Why(Class::ALL.len() as u8);
}

impl Label for Why {
    const NAMES: &'static [&'static str] = &reasons("ring_full");
    const HELP: &'static [&'static str] =
        &meanings("The ring to the kernel thread is full: the thread is behind.");

    #[inline(always)]
    fn code(self) -> u8 {
        self.0
    }
}

/// The node.
pub struct Punt {
    ring: Producer,
    buckets: [Bucket; Class::ALL.len()],
    recent: Recent,
}

impl Punt {
    /// A node that fills `ring`. Its records have the interface that the packet
    /// came in by, and the [`Class`]'s number; frames are untagged.
    pub fn new(ring: Producer, rates: &Rates) -> Self {
        let buckets = Class::ALL.map(|class| Bucket::new(rates.get(class)));
        Punt { ring, buckets, recent: Recent::new() }
    }
}

impl Node for Punt {
    type Edge = NoEdge;
    type Drop = Why;
    const NAME: &'static str = "punt";
    const HELP: &'static str = "copies packets to the kernel, at a limited rate by class";
    const READS: Lanes = Lanes::of::<(PuntClass, Iface)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let (now, hz) = (v.now(), clock::hz());
        for i in 0..v.n() {
            let class = refine(v.get(PuntClass, i), v.rest(i));
            let wanted = (class == Class::NoNeighbour).then(|| destination(v.head(i)));
            // One that is asked for already is no use of the rate.
            if wanted.is_some_and(|wanted| self.recent.has(wanted, now, hz))
                || !self.buckets[class as usize].take(now, hz)
            {
                v.count_dropped(Why(class as u8), 1);
                continue;
            }
            let meta = Meta { iface: v.get(Iface, i).0, kind: class as u16, info: 0, time: now };
            let frame = v.packet(i).data();
            let (macs, rest) = untagged(frame, usize::from(v.len(i)));
            if !self.ring.push(meta, &[macs, rest]) {
                v.count_dropped(Why::RING_FULL, 1);
                continue;
            }
            // Only what the kernel gets makes it ask.
            if let Some(wanted) = wanted {
                self.recent.note(wanted, now);
            }
            v.account(Account::Punted, 1);
            if v.capturing(Point::Punted) {
                v.capture(i, Point::Punted);
            }
        }
        v.free();
    }
}

/// The hardware addresses, and the frame from its last EtherType on.
fn untagged(frame: &[u8], l3: usize) -> (&[u8], &[u8]) {
    let from = frame.len().saturating_sub(l3 + 2);
    (&frame[..from.min(12)], &frame[from..])
}

/// The finer class of packets to this machine, by what they carry.
fn refine(class: Class, packet: &[u8]) -> Class {
    if !matches!(class, Class::ForUs | Class::Multicast) {
        return class;
    }
    let (proto, upper) = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= ipv4::MIN_LEN => {
            let header_len = usize::from(packet[0] & 15) * 4;
            let offset = be16(packet, ipv4::FRAGMENT) & ipv4::OFFSET_MASK;
            let upper = packet.get(header_len..).filter(|_| offset == 0).unwrap_or_default();
            (packet[ipv4::PROTOCOL], upper)
        }
        Some(6) if packet.len() >= ipv6::LEN => {
            let payload = &packet[ipv6::LEN..];
            match ipv6::walk(packet[ipv6::NEXT_HEADER], payload) {
                Ok(chain) => (chain.protocol, &payload[chain.at.min(payload.len())..]),
                Err(_) => return class,
            }
        }
        _ => return class,
    };
    by_protocol(class, proto, upper)
}

fn by_protocol(class: Class, proto: u8, upper: &[u8]) -> Class {
    let port = |at: usize| upper.get(at..at + 2).map_or(0, |port| be16(port, 0));
    match proto {
        protocol::ICMPV6 => {
            let kind = upper.first().copied().unwrap_or(0);
            if icmpv6::is_neighbour_discovery(kind) { Class::ArpNd } else { class }
        }
        protocol::OSPF | protocol::VRRP | protocol::PIM | protocol::IGMP => Class::Control,
        protocol::TCP if TCP.contains(&port(0)) || TCP.contains(&port(2)) => Class::Control,
        protocol::UDP if UDP.contains(&port(2)) => Class::Control,
        _ => class,
    }
}

/// TCP ports of routing protocols; either side may have opened the session.
const TCP: [u16; 2] = [protocol::PORT_BGP, protocol::PORT_LDP];
/// UDP ports of routing protocols.
const UDP: [u16; 6] = [
    protocol::PORT_BFD,
    protocol::PORT_BFD_ECHO,
    protocol::PORT_BFD_MULTIHOP,
    protocol::PORT_RIP,
    protocol::PORT_RIPNG,
    protocol::PORT_LDP,
];

/// The destination in an IP header, folded into 64 bits.
fn destination(head: &[u8; 64]) -> u64 {
    if head[0] >> 4 == 4 {
        return u64::from(u32::from_be_bytes(array(head, ipv4::DST)));
    }
    let dst = u128::from_be_bytes(array(head, ipv6::DST));
    (dst >> 64) as u64 ^ (dst as u64).rotate_left(32)
}

/// Destinations that were punted for in the last second: direct-mapped, so a
/// collision lets one packet more through.
struct Recent {
    seen: Box<[(u64, u64)]>,
}

impl Recent {
    fn new() -> Recent {
        Recent { seen: vec![(0, 0); 1 << RECENT_BITS].into_boxed_slice() }
    }

    /// True when `destination` was punted for in the last second, of `hz` ticks.
    fn has(&self, destination: u64, now: u64, hz: u64) -> bool {
        let (seen, then) = self.seen[Recent::slot(destination)];
        seen == destination && then != 0 && now.wrapping_sub(then) < hz
    }

    /// It was punted for now.
    fn note(&mut self, destination: u64, now: u64) {
        self.seen[Recent::slot(destination)] = (destination, now);
    }

    fn slot(destination: u64) -> usize {
        (destination.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize
    }
}

const RECENT_BITS: u32 = 10;
