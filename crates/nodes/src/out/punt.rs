//! `punt`: copies packets to the kernel, at a limited rate for each class and interface.
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

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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
    /// The kernel has no room for another unresolved host.
    const NEIGHBOURS_FULL: Why = Why(Class::ALL.len() as u8 + 1);
}

impl Label for Why {
    const NAMES: &'static [&'static str] = &reasons(["ring_full", "neighbours_full"]);
    const HELP: &'static [&'static str] = &meanings([
        "The ring to the kernel thread is full: the thread is behind.",
        "Unresolved host: the kernel has no room for neighbours (`gc_thresh3`, `rutter show capacity`).",
    ]);

    #[inline(always)]
    fn code(self) -> u8 {
        self.0
    }
}

/// The node.
pub struct Punt {
    forwarding: Arc<Forwarding>,
    ring: Producer,
    /// Bytes of the ring that are reserved for the classes that come first.
    spare: usize,
    budget: Budget,
    recent: Recent,
}

impl Punt {
    /// A node that fills `ring`, in a router with this many devices. A record holds the interface
    /// that the packet came in by and the number of its [`Class`]; its frame is untagged.
    pub fn new(forwarding: Arc<Forwarding>, ring: Producer, rates: &Rates, ports: u16) -> Self {
        let spare = ring.capacity() / 4;
        let budget = Budget::new(rates, ports);
        Punt { forwarding, ring, spare, budget, recent: Recent::new() }
    }

    /// The reason why a packet of `class` is not punted.
    fn refused(&self, class: Class) -> Why {
        let full = class == Class::NoNeighbour && self.forwarding.neighbours_full.load(Relaxed);
        if full { Why::NEIGHBOURS_FULL } else { Why(class as u8) }
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
        let mut given = false;
        for i in 0..v.n() {
            let iface = v.get(Iface, i);
            let class = refine(v.get(PuntClass, i), iface, v.rest(i), peers);
            let asked = (class == Class::NoNeighbour).then(|| (iface, destination(v.head(i))));
            // A host that the kernel was asked for a moment ago uses no budget.
            if asked.is_some_and(|asked| self.recent.has(asked, now, hz))
                || !self.budget.take((iface, v.port()), ifaces, class, (now, hz))
            {
                v.count_dropped(self.refused(class), 1);
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
            // Only a packet that the kernel gets makes it resolve the host.
            if let Some(asked) = asked {
                self.recent.note(asked, now);
            }
            v.account(Account::Punted, 1);
            if v.capturing(Point::Punted) {
                v.capture(i, Point::Punted);
            }
            given = true;
        }
        if given {
            self.ring.ring();
        }
        v.free();
    }
}

/// The hardware addresses, and the frame from its innermost EtherType on.
fn untagged(frame: &[u8], l3: usize) -> (&[u8], &[u8]) {
    let from = frame.len().saturating_sub(l3 + 2);
    (&frame[..from.min(12)], &frame[from..])
}

/// The budget of each interface: a flood on one leaves the others theirs.
///
/// Members of a bridge share one interface, its routed side; each has a bucket by its port.
struct Budget {
    rates: [u64; CLASSES],
    /// By interface, then by port.
    levels: Box<[[Level; CLASSES]]>,
    ports: u16,
}

impl Budget {
    fn new(rates: &Rates, ports: u16) -> Budget {
        // The system backs zeroed memory only where it is used.
        let levels = vec![[[0; 2]; CLASSES]; MOST + usize::from(ports)];
        let rates = Class::ALL.map(|class| rates.get(class).into());
        Budget { rates, levels: levels.into_boxed_slice(), ports }
    }

    /// Takes one packet of this class from the bucket of its interface and port; false where the
    /// bucket is empty. `now` and `hz` are the clock's.
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

/// The destination in an IP header.
fn destination(head: &[u8; 64]) -> IpAddr {
    if head[0] >> 4 == 4 {
        return Ipv4Addr::from(array(head, ipv4::DST)).into();
    }
    Ipv6Addr::from(array(head, ipv6::DST)).into()
}

/// The interface that a packet came in by, which gives the destination's VRF, and the destination.
/// Hosts are compared in full: another host's packet never suppresses one for this host.
type Asked = (IfaceId, IpAddr);

/// Destinations that were punted in the last second. The table is direct-mapped, so a collision
/// lets one packet more through.
struct Recent {
    seen: Box<[(Asked, u64)]>,
}

impl Recent {
    fn new() -> Recent {
        let nobody = ((IfaceId::NONE, IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0);
        Recent { seen: vec![nobody; 1 << RECENT_BITS].into_boxed_slice() }
    }

    /// Whether `asked` was punted in the last second, of `hz` ticks.
    fn has(&self, asked: Asked, now: u64, hz: u64) -> bool {
        let (seen, then) = self.seen[slot(asked)];
        seen == asked && then != 0 && now.wrapping_sub(then) < hz
    }

    /// Notes that it was punted at `now`.
    fn note(&mut self, asked: Asked, now: u64) {
        self.seen[slot(asked)] = (asked, now);
    }
}

/// The entry for `asked`.
fn slot((iface, destination): Asked) -> usize {
    let folded = match destination {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => {
            let address = u128::from(address);
            (address >> 64) as u64 ^ (address as u64).rotate_left(32)
        }
    };
    let key = folded ^ u64::from(iface.0).rotate_right(16);
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize
}

const RECENT_BITS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_what_another_has_asked() {
        let mut recent = Recent::new();
        let hz = 1_000;
        let v4 = |text: &str| IpAddr::V4(text.parse().unwrap());
        let v6 = |text: &str| IpAddr::V6(text.parse().unwrap());
        let hosts = [
            v4("10.0.0.9"),
            v6("::10.0.0.9"),
            v6("::ffff:10.0.0.9"),
            v6("2001:db8::9"),
            // Both destinations have the same sum of their halves.
            v6("1:2:3:4:3:4:1:3"),
            v6("1:2:3:5:3:5:1:3"),
        ];
        for (second, iface) in (1..=3).flat_map(|s| (1..=40).map(move |iface| (s, iface))) {
            for host in hosts {
                let (asked, now) = ((IfaceId(iface), host), second * hz);
                assert!(!recent.has(asked, now, hz), "{asked:?}");
                recent.note(asked, now);
                assert!(recent.has(asked, now + hz - 1, hz), "one a second: {asked:?}");
            }
        }
    }
}
