//! `punt`: copies packets to the kernel, so many a second of each class and interface.
//!
//! ```text
//!  PuntClass ─► finer class ─► bucket of class and interface ─► copy into the ring ─► kernel thread ─► tap
//!                 (refine)        └ empty: dropped, counted by class              (tags taken off)
//! ```
//!
//! | cost   | beyond its rate, a packet costs a compare and its free: a flood of TTL 1 is cheap;  |
//! |        | one of a routing protocol up to three lookups in a small hash table more            |
//! |--------|-------------------------------------------------------------------------------------|
//! | memory | a worker: 16 bytes a class for each of 4,096 interfaces and each port, backed where |
//! |        | they are used                                                                       |
//!
//! Source: RFC 1812 §4.3.2.8 (rate limits of ICMP errors), RFC 6192 (protection of the
//! control plane). The bucket comes before the copy, and each worker has its own.

use std::sync::Arc;

use graph::ring::frames::{Meta, Producer};
use graph::{Account, Label, Lanes, NoEdge, Node, Point, View, clock};
use tables::{Forwarding, IfaceId, Ifaces};
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::refine::refine;
use crate::class::{CLASSES, Class, Level, Rates, meanings, reasons, take};
use crate::counters::MOST;
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
    forwarding: Arc<Forwarding>,
    ring: Producer,
    /// Bytes of the ring that are for the classes that come first.
    spare: usize,
    budget: Budget,
    recent: Recent,
}

impl Punt {
    /// A node that fills `ring`, of a router with so many devices. Its records have the
    /// interface that the packet came in by, and the [`Class`]'s number; frames are untagged.
    pub fn new(forwarding: Arc<Forwarding>, ring: Producer, rates: &Rates, ports: u16) -> Self {
        let spare = ring.capacity() / 4;
        let budget = Budget::new(rates, ports);
        Punt { forwarding, ring, spare, budget, recent: Recent::new() }
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
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let peers = self.forwarding.peers.load(v.guard());
        for i in 0..v.n() {
            let iface = v.get(Iface, i);
            let class = refine(v.get(PuntClass, i), iface, v.rest(i), peers);
            let wanted = (class == Class::NoNeighbour).then(|| destination(v.head(i)));
            // One that is asked for already is no use of the rate.
            if wanted.is_some_and(|wanted| self.recent.has(wanted, now, hz))
                || !self.budget.take((iface, v.port()), ifaces, class, (now, hz))
            {
                v.count_dropped(Why(class as u8), 1);
                continue;
            }
            let meta = Meta { iface: iface.0, kind: class as u16, info: 0, time: now };
            let frame = v.packet(i).data();
            let (macs, rest) = untagged(frame, usize::from(v.len(i)));
            let spare = if class.comes_first() { 0 } else { self.spare };
            if !self.ring.push_leaving(spare, meta, &[macs, rest]) {
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

/// What each interface may hand to the kernel: one that is flooded leaves the others theirs.
///
/// Members of a bridge share an interface, its routed side: each has a bucket by its port.
struct Budget {
    rates: [u64; CLASSES],
    /// By interface, then by port.
    levels: Box<[[Level; CLASSES]]>,
    ports: u16,
}

impl Budget {
    fn new(rates: &Rates, ports: u16) -> Budget {
        // Zeros: the system backs only what is used.
        let levels = vec![[[0; 2]; CLASSES]; MOST + usize::from(ports)];
        let rates = Class::ALL.map(|class| rates.get(class).into());
        Budget { rates, levels: levels.into_boxed_slice(), ports }
    }

    /// True, and a packet is paid for, where the interface and the port by which it came may
    /// hand over one more of this class; `now` and `hz` are the clock's.
    fn take(
        &mut self,
        (iface, port): (IfaceId, u16),
        ifaces: &Ifaces,
        class: Class,
        (now, hz): (u64, u64),
    ) -> bool {
        let is_inner = ifaces.get(iface).is_some_and(|of| of.port.0 >= self.ports);
        let slot = match is_inner && port < self.ports {
            true => MOST + usize::from(port),
            false => usize::from(iface.0) % MOST,
        };
        take(&mut self.levels[slot][class as usize], self.rates[class as usize], now, hz)
    }
}

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
