//! `bridge_flood`: a copy for every member of the domain but the one that the
//! frame came in by, at a limited rate.
//!
//! ```text
//!  frame ─► came round? ─► token bucket of its port and kind ─► per member: copy, tag edited ─► ring ─► bridge_copies
//!            └ a probe, or too often: dropped   └ empty: dropped, counted   (the last member gets the frame itself)
//! ```
//!
//! | cost | a packet and a copy of its bytes a member |
//! |------|-------------------------------------------|
//!
//! The copies pass through a ring of this worker and leave in its next poll: a burst of
//! broadcasts to many ports makes more packets than a vector holds.
//!
//! Source: IEEE 802.1Q-2022 §8.6.1, §8.8; the rates are those of vendors' "storm
//! control".

use std::sync::Arc;

use graph::ring::spsc::Producer;
use graph::{Account, Lanes, NoEdge, Node, View, clock, labels};
use tables::Forwarding;
use tables::bridge::{Bridges, Domain, Egress, FloodRates, Ingress};
use tables::switch::Sighting;
use wire::bytes::array;
use wire::ethernet::{self, Mac};

use super::bridge_input::Found;
use super::decide::Frame;
use super::lanes::{Arrived, Sender};
use super::loops::{self, Look, Loops};
use super::tag::Edit;
use crate::class::Bucket;
use crate::counters::DomainCounters;
use crate::out::detour::{self, Detour};

labels! {
    /// Why frames and copies are dropped.
    pub enum Why {
        /// Beyond the port's rate for stations that nobody has seen.
        Unknown = "unknown_rate",
        /// Beyond the port's rate for broadcasts.
        Broadcast = "broadcast_rate",
        /// Beyond the port's rate for multicasts.
        Multicast = "multicast_rate",
        /// The domain has no other member.
        Alone = "alone",
        /// Longer than the MTU of the port that the copy is for.
        TooLong = "too_long",
        /// The pool has no packet for a copy, or none long enough.
        NoBuffer = "no_buffer",
        /// More copies than a poll takes.
        RingFull = "ring_full",
        /// A probe of this switch that came back: there is a loop (`rutter show bridges`).
        LoopProbe = "loop_probe",
        /// The same frame came in again and again, by other ports than at first.
        CameRound = "came_round",
    }
}

/// The node.
pub struct BridgeFlood {
    forwarding: Arc<Forwarding>,
    counters: Arc<DomainCounters>,
    loops: Arc<Loops>,
    ring: Producer<Detour>,
    /// The share of the rates that this worker has.
    workers: u32,
    /// By port: unknown, broadcast, multicast; and the rates that they are for.
    buckets: Vec<(FloodRates, [Bucket; 3])>,
    /// Members that get the frame in hand.
    targets: Vec<(u16, Edit)>,
}

impl BridgeFlood {
    /// A node of one of `workers` workers, for ports below `ports`, whose copies
    /// go by `ring` to its `bridge_copies`.
    pub fn new(
        forwarding: Arc<Forwarding>,
        (counters, loops): (Arc<DomainCounters>, Arc<Loops>),
        ring: Producer<Detour>,
        (ports, workers): (u16, u32),
    ) -> Self {
        let rates = FloodRates::default();
        let buckets = (0..ports).map(|_| (rates, buckets(rates, workers))).collect();
        let targets = Vec::with_capacity(ports.into());
        BridgeFlood { forwarding, counters, loops, ring, workers, buckets, targets }
    }
}

impl Node for BridgeFlood {
    type Edge = NoEdge;
    type Drop = Why;
    const NAME: &'static str = "bridge_flood";
    const HELP: &'static str = "copies frames to all members of a domain, at a limited rate";
    const READS: Lanes = Lanes::of::<(Arrived, Sender)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let bridges = self.forwarding.bridges.load(v.guard());
        for i in 0..v.n() {
            let (found, from) = (Found::from_code(v.get(Arrived, i)), v.get(Sender, i).0);
            let Some(domain) = bridges.domain(found.domain) else {
                v.count_dropped(Why::Alone, 1);
                continue;
            };
            if domain.looks_for_loops {
                let (domain, tag, head) = (found.domain, found.tag(), v.head(i));
                let frame = loops::Frame { port: from, domain, tag, head, len: v.len(i) };
                let why = match self.loops.look(frame, v.now()) {
                    Look::New => None,
                    Look::Probe(sender) => {
                        // What leaves by a port that is out comes in here by no other loop.
                        if !matches!(bridges.ingress(sender), Ingress::Out(_)) {
                            self.loops.note(Sighting { port: from, sender, domain });
                        }
                        Some(Why::LoopProbe)
                    }
                    Look::Round => Some(Why::CameRound),
                };
                if let Some(why) = why {
                    v.count_dropped(why, 1);
                    continue;
                }
            }
            let dst = Mac(array(v.head(i), ethernet::DST));
            if let Err(why) = self.admit(bridges, from, dst, v.now()) {
                v.count_dropped(why, 1);
                continue;
            }
            let frame = Frame { found, from, head: v.head(i), len: v.len(i) };
            let too_long = self.aim(bridges, domain, frame);
            self.counters.of(found.domain).flooded.add(1);
            self.leave_out(v, too_long);
            self.copy(v, i);
        }
        v.free(); // packets that no member took
    }
}

impl BridgeFlood {
    /// May another frame of this kind be flooded now?
    fn admit(&mut self, bridges: &Bridges, from: u16, dst: Mac, now: u64) -> Result<(), Why> {
        let (kind, why) = match (dst == Mac::BROADCAST, dst.is_group()) {
            (true, _) => (1, Why::Broadcast),
            (_, true) => (2, Why::Multicast),
            _ => (0, Why::Unknown),
        };
        let Some((known, buckets)) = self.buckets.get_mut(usize::from(from)) else { return Ok(()) };
        let rates = bridges.rates.get(usize::from(from)).copied().unwrap_or_default();
        if *known != rates {
            (*known, *buckets) = (rates, self::buckets(rates, self.workers));
        }
        if buckets[kind].take(now, clock::hz()) { Ok(()) } else { Err(why) }
    }

    /// Fills `targets` with the members that get the frame; returns for how many
    /// others it is too long.
    fn aim(&mut self, bridges: &Bridges, domain: &Domain, frame: Frame<'_>) -> usize {
        self.targets.clear();
        let mut too_long = 0;
        for port in domain.members.iter().map(|port| port.0) {
            let way = domain.egress(port).way();
            if way == Egress::Closed || bridges.separates(frame.from, port) {
                continue;
            }
            let edit = Edit::of(way, frame.found.came, domain.vlan);
            if !frame.fits(bridges, port, edit) {
                too_long += 1;
                continue;
            }
            if self.targets.len() < self.targets.capacity() {
                self.targets.push((port, edit));
            }
        }
        too_long
    }

    /// Counts the copies that are too long for their port, and a frame that nobody gets.
    fn leave_out(&self, v: &View<'_, Self>, too_long: usize) {
        // Where no member gets it, the frame itself is one of those.
        let nobody = self.targets.is_empty();
        v.account(Account::Copies, too_long.saturating_sub(usize::from(nobody)));
        v.count_dropped(Why::TooLong, too_long);
        v.count_dropped(Why::Alone, usize::from(nobody && too_long == 0));
    }

    /// Sends copies of packet `i` to all targets but the last, and itself to that.
    fn copy(&mut self, v: &mut View<'_, Self>, i: usize) {
        let Some(((last, edit), others)) = self.targets.split_last() else { return };
        let pool = v.port();
        for (out, edit) in others {
            let Some(mut copy) = v.ports().get(pool).and_then(|port| port.allocate()) else {
                v.account(Account::Copies, 1);
                v.count_dropped(Why::NoBuffer, 1);
                continue;
            };
            v.account(Account::Copies, 1);
            if !copy.copy_from(v.packet(i)) || !edit.apply(&mut copy) {
                v.count_dropped(Why::NoBuffer, 1);
                v.ports().free(pool, &mut [Some(copy)]);
                continue;
            }
            pass(v, &mut self.ring, Detour { packet: copy, pool, out: *out });
        }
        let Some(mut packet) = v.take(i) else { return };
        if !edit.apply(&mut packet) {
            v.count_dropped(Why::NoBuffer, 1);
            return v.ports().free(pool, &mut [Some(packet)]);
        }
        pass(v, &mut self.ring, Detour { packet, pool, out: *last });
    }
}

/// Puts a packet into the ring; frees it where that is full.
fn pass(v: &mut View<'_, BridgeFlood>, ring: &mut Producer<Detour>, detour: Detour) {
    let pool = detour.pool;
    if let Err(packet) = detour::send(v, ring, detour) {
        v.count_dropped(Why::RingFull, 1);
        v.ports().free(pool, &mut [Some(packet)]);
    }
}

fn buckets(rates: FloodRates, workers: u32) -> [Bucket; 3] {
    [rates.unknown, rates.broadcast, rates.multicast]
        .map(|rate| Bucket::new(rate.div_ceil(workers.max(1))))
}
