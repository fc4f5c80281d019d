//! `shield`: what a protection does with a packet from the front.
//!
//! ```text
//!  ip4_front, ip6_front ─► protection ─┬ bypass ─────────────────► ip4_lookup, ip6_lookup  Dst
//!                                      ├ drop ───────────────────► drop
//!                                      └ protect ─► flow ─► verdict ─┬ request ─► solicit  Asked, Mixed
//!                                          granted: encapsulated     ├ granted ─► output
//!                                          direct: as it is          ├ direct ──► output
//!                                                                    ├ too long ► icmp_error  Faulty
//!                                                                    └ others ──► drop, by name
//! ```
//!
//! | cost | a batch of the flow table; of a granted packet a page, and 20 or 40 bytes in front |
//! |------|--------------------------------------------------------------------------------------|
//!
//! One node for both families: a worker has one table. It sweeps the table by time, and
//! takes decisions from the rings of those who hear them. No packet goes from here to the
//! kernel.
//!
//! We differ: all packets of a poll have come at one time, so that those of one flow are
//! 0 ps apart, and priority 3 is theirs behind the allowance; the deployed Gatekeeper reads
//! the clock for each.

use std::sync::Arc;

use graph::ring::spsc::Consumer;
use graph::{Due, Lanes, Node, View, labels};
use io::VECTOR;
use lookup::Hop;
use lookup::exact::flow::FlowKey;
use lookup::sync::Published;
use tables::{Forwarding, HopTable, Kind, Protection, Protections, SetId};
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::fault::{Fault, Kind as Trouble, may_not_be_fragmented};
use super::flows::{Flows, Heard};
use super::lanes::{Asked, Faulty, Mixed, Request};
use super::machine::Verdict;
use super::mix::Mix;
use super::outer::{Out, Unfit, Way, Ways, packet_len};
use super::request::LOWEST_DSCP;
use super::rule::{Arrival, GRANTED};
use super::settings::{Counters, Fate, SHADOW, Settings, Tally};
use crate::counters::IfaceCounters;
use crate::lanes::{Answer, Dst4, Dst6, Iface, OutPort};
use crate::parse::cut::cut;

labels! {
    /// Where packets go.
    pub enum To {
        Solicit = "solicit" carries [Asked, Mixed, Iface],
        Output = "output" carries [OutPort, Iface],
        Lookup4 = "ip4_lookup" carries [Dst4, Iface],
        Lookup6 = "ip6_lookup" carries [Dst6, Iface],
        Error = "icmp_error" carries [Faulty, Iface],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// A protection that drops.
        Discarded = "discarded",
        /// The flow is declined.
        Declined = "declined",
        /// The flow has used what it may.
        OverBudget = "over_budget",
        /// The flow's program failed.
        Failed = "failed",
        /// The table had no place for the flow.
        NoPlace = "no_place",
        /// No Grantor of the protection can be reached.
        Unresolved = "unresolved",
        /// No address of this machine to ask Grantors from.
        NoSource = "no_source",
        /// Longer, with the outer header, than the way to the Grantor carries, and its source
        /// has not forbidden to fragment it.
        TooLong = "too_long",
        /// No room before the packet for the outer header.
        NoRoom = "no_headroom",
        /// The protection came, or went, while the packet was on its way.
        Changed = "changed",
    }
}

/// The node.
pub struct Shield {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    ifaces: Arc<IfaceCounters>,
    counters: Arc<Counters>,
    mix: Mix,
    /// `None` until a node before it hands its own over.
    flows: Option<Flows>,
    heard: Vec<Consumer<Heard>>,
    batch: Box<Batch>,
}

/// Packets that a protection asks about, in their order.
struct Batch {
    keys: [FlowKey; VECTOR],
    /// Which of the vector's.
    at: [u16; VECTOR],
    /// By which protection.
    sets: [SetId; VECTOR],
    heard: [Option<Heard>; VECTOR],
}

/// What a [`Shield`] is made of.
pub struct Parts {
    /// The tables.
    pub forwarding: Arc<Forwarding>,
    /// What may change.
    pub settings: Arc<Published<Settings>>,
    /// This worker's counters of interfaces.
    pub ifaces: Arc<IfaceCounters>,
    /// This worker's counters of verdicts.
    pub counters: Arc<Counters>,
    /// Spreads flows over Grantors: the same for all workers.
    pub mix: Mix,
    /// The worker's flows; `None`: those of the graph that this one replaces.
    pub flows: Option<Flows>,
    /// Decisions, from each worker that hears them.
    pub heard: Vec<Consumer<Heard>>,
}

impl Shield {
    /// A node that decides by `parts`.
    pub fn new(parts: Parts) -> Self {
        let Parts { forwarding, settings, ifaces, counters, mix, flows, heard } = parts;
        let batch = Box::new(Batch {
            keys: [FlowKey::v4(0, 0); VECTOR],
            at: [0; VECTOR],
            sets: [SetId::default(); VECTOR],
            heard: [None; VECTOR],
        });
        Shield { forwarding, settings, ifaces, counters, mix, flows, heard, batch }
    }

    /// The worker's flows: to be listed, flushed, counted. `None` in a node whose flows
    /// another has taken over.
    pub fn flows(&mut self) -> Option<&mut Flows> {
        self.flows.as_mut()
    }

    /// What spreads its flows over Grantors.
    pub fn mix(&self) -> Mix {
        self.mix
    }

    /// Writes decisions that came by the rings into the table: a vector's a ring.
    /// There may be more where one had so many.
    fn listen(&mut self, v: &View<'_, Self>) -> bool {
        let Shield { forwarding, counters, flows, heard, batch, .. } = self;
        let Some(flows) = flows else { return false };
        let protections = forwarding.protections.load(v.guard());
        let mut more = false;
        for ring in heard {
            let (mut n, mut taken) = (0, 0);
            while taken < VECTOR
                && let Some(next) = ring.pop()
            {
                taken += 1;
                if protections.get(next.set).is_none() {
                    counters.decisions.stale.add(1);
                    continue;
                }
                (batch.keys[n], batch.heard[n]) = (next.key, Some(next));
                n += 1;
            }
            if n > 0 {
                let heard = batch.heard[..n].iter().flatten();
                flows.decide(v.now(), heard, &batch.keys[..n], counters);
            }
            more |= taken == VECTOR;
        }
        more
    }
}

impl Node for Shield {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "shield";
    const HELP: &'static str = "does what a flow's decision, or the want of one, says";
    const READS: Lanes = Lanes::of::<(Answer, Iface)>();
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let Shield { forwarding, settings, ifaces, counters, mix, flows, batch, .. } = self;
        let protections = forwarding.protections.load(v.guard());
        let hops: &HopTable = forwarding.hops.load(v.guard());
        let n = gather(v, hops, protections, batch);
        let Some(flows) = flows else {
            return batch.at[..n].iter().for_each(|&i| v.drop(i.into(), Why::NoPlace));
        };
        if n == 0 {
            return;
        }
        let from = settings.load(v.guard()).from;
        let ways = Ways { hops, from, counters: ifaces };
        let tally = (SetId::default(), Tally::default());
        let mut sender = Sender { ways, protections, counters, mix, last: None, way: None, tally };
        let (now, unbacked) = (v.now(), flows.unbacked);
        let Batch { keys, at, sets, .. } = &**batch;
        flows.meet(now, &keys[..n], |entries| {
            for (k, (&i, &set)) in at[..n].iter().zip(sets).enumerate() {
                if let Some(&next) = at[..n].get(k + AHEAD) {
                    v.ask(next.into());
                    if entries.is_kept(k + AHEAD) {
                        v.ask_before(next.into());
                    }
                }
                let i = usize::from(i);
                let len = v.frame_len(i).into();
                let (link, packet) = v.parts(i);
                let arrival = Arrival { now, len, link, packet };
                let verdict = match entries.packet(k, set, &arrival) {
                    Some(step) => Some(step.verdict),
                    None => unbacked.then_some(Verdict::Request(LOWEST_DSCP)),
                };
                sender.carry_out(v, i, (set, &keys[k]), verdict);
            }
        });
        sender.count();
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let more = self.listen(v);
        let Some(flows) = &mut self.flows else { return Due::NEVER };
        let due = flows.sweep(v.now());
        if more {
            return Due::NOW;
        }
        // Whoever hears a decision on another worker rings no bell.
        if self.heard.len() > 1 {
            due.min(Due::at(v.now().saturating_add(flows.pause())))
        } else {
            due
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        if self.flows.is_none() {
            self.flows = old.flows.take();
        }
    }
}

/// Sends on what passes and drops what is dropped; gives how many packets there are about
/// which a flow must be asked.
fn gather(
    v: &mut View<'_, Shield>,
    hops: &HopTable,
    protections: &Protections,
    batch: &mut Batch,
) -> usize {
    let mut n = 0;
    // The answer of the packet before, and its protection: mostly the next one's, too.
    let mut last = (Hop::NONE, SetId::default());
    for i in 0..v.n() {
        let answer = v.get(Answer, i);
        if answer == last.0 && answer != Hop::NONE {
            n = take(v, batch, n, i, last.1);
            continue;
        }
        let step = hops.step(answer);
        match step.kind() {
            Kind::Protected => {
                let Some(protection) = protections.at(step.index()) else {
                    v.drop(i, Why::Changed);
                    continue;
                };
                last = (answer, protection.id);
                n = take(v, batch, n, i, protection.id);
            }
            Kind::Bypass => pass(v, i),
            Kind::Discard => v.drop(i, Why::Discarded),
            _ => v.drop(i, Why::Changed),
        }
    }
    n
}

/// Puts packet `i` behind the `n` of the batch; gives how many there are then.
#[inline(always)]
fn take(v: &View<'_, Shield>, batch: &mut Batch, n: usize, i: usize, set: SetId) -> usize {
    // cannot panic: `n` is at most `i`, which is within a vector.
    (batch.keys[n], batch.at[n]) = (key(v.head(i)), i as u16);
    batch.sets[n] = set;
    n + 1
}

/// Sends packet `i` by its route.
#[inline]
fn pass(v: &mut View<'_, Shield>, i: usize) {
    let head = v.head(i);
    if head[0] >> 4 == 4 {
        let dst = u32::from_be_bytes(array(head, ipv4::DST));
        v.set(Dst4, i, dst);
        v.leave(i, To::Lookup4);
    } else {
        let dst = u128::from_be_bytes(array(head, ipv6::DST));
        v.set(Dst6, i, dst);
        v.leave(i, To::Lookup6);
    }
}

/// The flow of a packet.
#[inline]
fn key(head: &[u8; 64]) -> FlowKey {
    let v4 = |at| u32::from_be_bytes(array(head, at));
    let v6 = |at| u128::from_be_bytes(array(head, at));
    if head[0] >> 4 == 4 {
        FlowKey::v4(v4(ipv4::SRC), v4(ipv4::DST))
    } else {
        FlowKey::v6(v6(ipv6::SRC), v6(ipv6::DST))
    }
}

/// What verdicts are carried out with.
struct Sender<'g> {
    ways: Ways<'g>,
    protections: &'g Protections,
    counters: &'g Counters,
    mix: &'g Mix,
    /// The protection of the packet before: mostly the next one's, too.
    last: Option<&'g Protection>,
    /// The way of its packets, where all have one.
    way: Option<Way<'g>>,
    /// What is not counted yet, of that protection.
    tally: (SetId, Tally),
}

impl<'g> Sender<'g> {
    #[inline]
    fn protection(&mut self, set: SetId) -> Option<&'g Protection> {
        if self.last.is_none_or(|last| last.id != set) {
            self.turn_to(set);
        }
        self.last
    }

    #[inline(never)]
    fn turn_to(&mut self, set: SetId) {
        self.count();
        (self.last, self.tally.0) = (self.protections.get(set), set);
        let only = self.last.and_then(Protection::only);
        let only = only.filter(|grantor| self.ways.is_one(grantor));
        self.way = only.and_then(|grantor| self.ways.to(Some(grantor), 0));
    }

    /// Adds what was not counted yet to the counters.
    fn count(&mut self) {
        let (set, tally) = &mut self.tally;
        let in_shadow = self.last.is_some_and(is_shadow);
        self.counters.count(*set, in_shadow, &std::mem::take(tally));
        if let Some(way) = &mut self.way {
            self.ways.count(way);
        }
    }

    /// Has `send` send a packet of the flow of `key` by its way to a Grantor.
    #[inline(always)]
    fn send(
        &mut self,
        protection: &Protection,
        key: &FlowKey,
        send: impl FnOnce(&mut Way<'g>) -> Result<Out, Unfit>,
    ) -> Result<Out, Unfit> {
        if let Some(way) = &mut self.way {
            return send(way);
        }
        let mixed = self.mix.of(key);
        let mut way = self.ways.to(protection.grantor(mixed), mixed).ok_or(Unfit::Unresolved)?;
        let sent = send(&mut way);
        self.ways.count(&mut way);
        sent
    }

    /// `None`: the flow has no place.
    #[inline]
    fn carry_out(
        &mut self,
        v: &mut View<'_, Shield>,
        i: usize,
        (set, key): (SetId, &FlowKey),
        verdict: Option<Verdict>,
    ) {
        let Some(protection) = self.protection(set) else { return v.drop(i, Why::Changed) };
        let bytes = u64::from(v.frame_len(i));
        let (fate, outer) = match verdict {
            Some(Verdict::Request(_)) if key.is_v4() => (Fate::Request, ipv4::MIN_LEN),
            Some(Verdict::Request(_)) => (Fate::Request, ipv6::LEN),
            Some(Verdict::Granted(_) | Verdict::Direct) => (Fate::Granted, 0),
            Some(Verdict::Declined | Verdict::OverBudget) => (Fate::Declined, 0),
            Some(Verdict::Failed) | None => (Fate::Dropped, 0),
        };
        self.tally.1.add(fate, bytes + outer as u64);
        if is_shadow(protection) {
            let total = packet_len(v.head(i));
            cut(v, i, total);
            let Some(Verdict::Request(dscp)) = verdict else { return pass(v, i) };
            v.set(Asked, i, Request::new(set, dscp).in_shadow());
            v.set(Mixed, i, self.mix.of(key));
            return v.leave(i, To::Solicit);
        }
        let sent = match verdict {
            Some(Verdict::Request(dscp)) => {
                v.set(Asked, i, Request::new(set, dscp));
                v.set(Mixed, i, self.mix.of(key));
                return v.leave(i, To::Solicit);
            }
            Some(Verdict::Granted(dscp)) => {
                self.send(protection, key, |way| way.encapsulate(v, i, dscp))
            }
            Some(Verdict::Direct) => self.send(protection, key, |way| way.direct(v, i, GRANTED)),
            Some(Verdict::Declined) => return v.drop(i, Why::Declined),
            Some(Verdict::OverBudget) => return v.drop(i, Why::OverBudget),
            Some(Verdict::Failed) => return v.drop(i, Why::Failed),
            None => return v.drop(i, Why::NoPlace),
        };
        match sent {
            Ok(out) => leave(v, i, out),
            Err(Unfit::Unresolved) => v.drop(i, Why::Unresolved),
            Err(Unfit::NoSource) => v.drop(i, Why::NoSource),
            Err(Unfit::TooLong(most)) if may_not_be_fragmented(v.head(i)) => {
                v.set(Faulty, i, Fault::new(Trouble::TooLong(most)));
                v.leave(i, To::Error);
            }
            Err(Unfit::TooLong(_)) => v.drop(i, Why::TooLong),
            Err(Unfit::NoRoom) => v.drop(i, Why::NoRoom),
        }
    }
}

/// Whether verdicts on its packets are only counted.
#[inline]
fn is_shadow(protection: &Protection) -> bool {
    protection.options & SHADOW != 0
}

#[inline]
fn leave(v: &mut View<'_, Shield>, i: usize, (port, iface): Out) {
    v.set(OutPort, i, port);
    v.set(Iface, i, iface);
    v.leave(i, To::Output);
}

/// Packets between the one whose verdict is carried out and the one whose descriptor, and
/// room for an outer header, are asked for.
const AHEAD: usize = 16;
