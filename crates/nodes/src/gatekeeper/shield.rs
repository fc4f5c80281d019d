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
use lookup::exact::flow::FlowKey;
use lookup::sync::Published;
use tables::{Forwarding, HopTable, Kind, Protection, Protections, SetId};
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::fault::{Fault, Kind as Fate, may_not_be_fragmented};
use super::flows::{Flows, Heard};
use super::lanes::{Asked, Faulty, Mixed, Request};
use super::machine::Verdict;
use super::mix::Mix;
use super::outer::{Out, Unfit, Ways, packet_len};
use super::request::LOWEST_DSCP;
use super::rule::{Arrival, GRANTED};
use super::settings::{Counters, SHADOW, Settings};
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
        let mut sender = Sender { ways, protections, counters, mix, last: None };
        let (now, unbacked) = (v.now(), flows.unbacked);
        let Batch { keys, at, sets, .. } = &**batch;
        flows.meet(now, &keys[..n], |entries| {
            for (k, (&i, &set)) in at[..n].iter().zip(sets).enumerate() {
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
    for i in 0..v.n() {
        let step = hops.step(v.get(Answer, i));
        match step.kind() {
            Kind::Protected => {
                let Some(protection) = protections.at(step.index()) else {
                    v.drop(i, Why::Changed);
                    continue;
                };
                // cannot panic: `n` is at most `i`, which is within a vector.
                (batch.keys[n], batch.at[n]) = (key(v.head(i)), i as u16);
                batch.sets[n] = protection.id;
                n += 1;
            }
            Kind::Bypass => pass(v, i),
            Kind::Discard => v.drop(i, Why::Discarded),
            _ => v.drop(i, Why::Changed),
        }
    }
    n
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
}

impl<'g> Sender<'g> {
    #[inline]
    fn protection(&mut self, set: SetId) -> Option<&'g Protection> {
        if self.last.is_none_or(|last| last.id != set) {
            self.last = self.protections.get(set);
        }
        self.last
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
        let in_shadow = protection.options & SHADOW != 0;
        self.count((set, in_shadow), verdict, bytes, v.head(i)[0] >> 4 == 4);
        if in_shadow {
            let total = packet_len(v.head(i));
            cut(v, i, total);
            let Some(Verdict::Request(dscp)) = verdict else { return pass(v, i) };
            v.set(Asked, i, Request::new(set, dscp).in_shadow());
            v.set(Mixed, i, self.mix.of(key));
            return v.leave(i, To::Solicit);
        }
        // Not of what is dropped.
        let mixed = || self.mix.of(key);
        let sent = match verdict {
            Some(Verdict::Request(dscp)) => {
                v.set(Asked, i, Request::new(set, dscp));
                v.set(Mixed, i, mixed());
                return v.leave(i, To::Solicit);
            }
            Some(Verdict::Granted(dscp)) => {
                let mixed = mixed();
                self.ways.encapsulate(v, i, protection.grantor(mixed), (mixed, dscp))
            }
            Some(Verdict::Direct) => {
                let mixed = mixed();
                self.ways.direct(v, i, protection.grantor(mixed), (mixed, GRANTED))
            }
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
                v.set(Faulty, i, Fault::new(Fate::TooLong(most)));
                v.leave(i, To::Error);
            }
            Err(Unfit::TooLong(_)) => v.drop(i, Why::TooLong),
            Err(Unfit::NoRoom) => v.drop(i, Why::NoRoom),
        }
    }

    #[inline]
    fn count(
        &self,
        (set, in_shadow): (SetId, bool),
        verdict: Option<Verdict>,
        bytes: u64,
        is_v4: bool,
    ) {
        let outer = if is_v4 { ipv4::MIN_LEN } else { ipv6::LEN } as u64;
        self.counters.count(set, in_shadow, |verdicts| match verdict {
            Some(Verdict::Request(_)) => verdicts.request(bytes + outer),
            Some(Verdict::Granted(_) | Verdict::Direct) => verdicts.grant(bytes),
            Some(Verdict::Declined | Verdict::OverBudget) => verdicts.decline(bytes),
            Some(Verdict::Failed) | None => verdicts.drop(bytes),
        });
    }
}

#[inline]
fn leave(v: &mut View<'_, Shield>, i: usize, (port, iface): Out) {
    v.set(OutPort, i, port);
    v.set(Iface, i, iface);
    v.leave(i, To::Output);
}
