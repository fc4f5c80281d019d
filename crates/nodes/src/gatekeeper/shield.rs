//! `shield`: applies a protection to a packet from the front.
//!
//! ```text
//!  ip4_front, ip6_front ─► protection ─┬ bypass ─────────────────► ip4_lookup, ip6_lookup  Dst
//!                                      ├ drop ───────────────────► drop
//!                                      └ protect ─► flow ─► verdict ─┬ request ─► solicit  Asked
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
//! takes decisions from the rings of the workers that receive them. No packet goes from here
//! to the kernel. Granted packets of a protection that this machine decides
//! ([`tables::LOCAL`]), those that a program sends straight on too, pass `asked_here`, which checks
//! them as a Grantor would and does not change them.
//!
//! We differ: all packets of a poll have one arrival time, but a request behind another one of its
//! flow has its own; the deployed Gatekeeper reads the clock for each.

mod sender;

use std::sync::Arc;

use graph::ring::spsc::Consumer;
use graph::{Due, Lanes, Node, View, labels};
use io::VECTOR;
use lookup::Hop;
use lookup::exact::flow::FlowKey;
use lookup::hint::prefetch;
use lookup::sync::Published;
use tables::{Forwarding, HopTable, Kind, Protections};
use wire::bytes::array;
use wire::{ipv4, ipv6};

use super::flows::{Entries, Flows, Heard, Named, Usual, key_of};
use super::lanes::{Asked, Faulty};
use super::machine::{Step, Verdict};
use super::mix::Mix;
use super::outer::Ways;
use super::programs::Programs;
use super::request::LOWEST_DSCP;
use super::rule::Arrival;
use super::settings::{Bypassed, Counters, SHIELD_DROPS, Settings};
use crate::counters::IfaceCounters;
use crate::lanes::{Answer, Dst4, Dst6, Iface, OutPort};
use sender::{Granted, Sender};

labels! {
    /// Where packets go.
    pub enum To {
        Solicit = "solicit" carries [Asked, Iface],
        /// Of a protection that is decided here: what is granted, or asks without its turn.
        Here = "asked_here" carries [Asked, Iface],
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
    programs: Arc<Published<Programs>>,
    ifaces: Arc<IfaceCounters>,
    counters: Arc<Counters>,
    mix: Mix,
    /// `None` until a node before it hands its own over.
    flows: Option<Flows>,
    heard: Vec<Consumer<Heard>>,
    /// Some are made in this graph: they are there before the next packets.
    at_once: bool,
    batch: Box<Batch>,
}

/// Packets that a protection asks about, in their order.
struct Batch {
    keys: [FlowKey; VECTOR],
    /// Which of the vector's, or of a ring's.
    at: [u16; VECTOR],
    /// By which protection.
    sets: [Named; VECTOR],
    /// Those that a budget lets through, of one protection.
    granted: [Granted; VECTOR],
}

/// What a [`Shield`] is made of.
pub struct Parts {
    /// The tables.
    pub forwarding: Arc<Forwarding>,
    /// What may change.
    pub settings: Arc<Published<Settings>>,
    /// What decisions name by a number.
    pub programs: Arc<Published<Programs>>,
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
    /// Some of them are made in this graph.
    pub at_once: bool,
}

impl Shield {
    /// A node that decides by `parts`.
    pub fn new(parts: Parts) -> Self {
        let Parts { forwarding, settings, programs, ifaces, counters, mix, flows, heard, at_once } =
            parts;
        let batch = Box::new(Batch {
            keys: [FlowKey::v4(0, 0); VECTOR],
            at: [0; VECTOR],
            sets: [Named::NONE; VECTOR],
            granted: [Granted::default(); VECTOR],
        });
        Shield {
            forwarding,
            settings,
            programs,
            ifaces,
            counters,
            mix,
            flows,
            heard,
            at_once,
            batch,
        }
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
    fn listen(&mut self, v: &View<'_, Self>) -> Came {
        let Shield { forwarding, programs, counters, flows, heard, batch, .. } = self;
        let Some(flows) = flows else { return Came::None };
        let programs = programs.load(v.guard());
        let protections = forwarding.protections.load(v.guard());
        let mut came = Came::None;
        for ring in heard {
            let (mut n, waiting) = (0, ring.waiting().min(VECTOR));
            for (at, next) in (0..waiting).filter_map(|at| Some((at, ring.peek_at(at)?))) {
                // Another core may have written it: what is decided is read when all keys are
                // found, the key of one that follows soon.
                prefetch(&next.decided);
                ring.peek_at(at + HEARD_AHEAD).iter().for_each(|soon| prefetch(&soon.set));
                if protections.get(next.set).is_none() {
                    counters.count_decision(next.set, |of| &of.stale);
                    continue;
                }
                (batch.keys[n], batch.at[n]) = (next.key, at as u16);
                n += 1;
            }
            if n > 0 {
                let heard = batch.at[..n].iter().filter_map(|&at| ring.peek_at(at.into()));
                flows.decide((programs, v.now()), heard, &batch.keys[..n], counters);
            }
            ring.discard(waiting);
            came = came.max(match waiting {
                0 => Came::None,
                VECTOR => Came::Many,
                _ => Came::Some,
            });
        }
        came
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
        if self.at_once {
            self.listen(v);
        }
        let Shield { forwarding, settings, programs, ifaces, counters, mix, flows, batch, .. } =
            self;
        let protections = forwarding.protections.load(v.guard());
        let hops: &HopTable = forwarding.hops.load(v.guard());
        let n = gather(v, (hops, protections), counters, batch);
        let Some(flows) = flows else {
            return batch.at[..n].iter().for_each(|&i| v.drop(i.into(), Why::NoPlace));
        };
        if n == 0 {
            return;
        }
        let from = settings.load(v.guard()).from;
        let programs = programs.load(v.guard());
        let ways = Ways { hops, from, counters: ifaces };
        let mut sender = Sender::new(ways, protections, counters, mix);
        let (now, unbacked) = (v.now(), flows.unbacked);
        let Batch { keys, at, sets, granted, .. } = &mut **batch;
        let mut sending = 0;
        flows.meet((programs, now), &keys[..n], |entries| {
            for k in 0..n {
                if k + AHEAD < n {
                    v.ask(at[(k + AHEAD) % VECTOR].into());
                }
                let (i, named) = (usize::from(at[k % VECTOR]), sets[k % VECTOR]);
                if named != sender.named {
                    sender.send(v, &granted[..sending], keys);
                    sending = 0;
                    sender.turn_to(named);
                }
                let len = v.frame_len(i).into();
                // What most packets meet, each by itself and without a detour.
                let usual = match sender.is_plain {
                    true => entries.usual(k, named, now, len),
                    false => Usual::No,
                };
                let (dscp, counted) = match usual {
                    Usual::Send(dscp) => (dscp, len),
                    Usual::Over => {
                        sender.decline(v, i, len, Why::OverBudget);
                        continue;
                    }
                    Usual::Declined => {
                        sender.decline(v, i, len, Why::Declined);
                        continue;
                    }
                    Usual::Request(dscp) => {
                        sender.ask(v, i, &keys[k % VECTOR], (len, dscp));
                        continue;
                    }
                    Usual::No => {
                        let step = judge(v, i, (k, named), now, entries);
                        let step = step.or(unbacked.then_some(LEAST));
                        match sender.carry_out(v, i, &keys[k % VECTOR], step) {
                            Some(sent) => sent,
                            None => continue,
                        }
                    }
                };
                sender.grant(v, i, counted);
                // No more than packets so far.
                granted[sending % VECTOR] = Granted { i: i as u8, k: k as u8, dscp };
                sending += 1;
            }
        });
        sender.send(v, &granted[..sending], keys);
        sender.count();
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let came = self.listen(v);
        let Some(flows) = &mut self.flows else { return Due::NEVER };
        let due = flows.sweep(v.now());
        match came {
            Came::Many => Due::NOW,
            // Nobody else hears decisions, and none has waited until it was passed on.
            Came::None if self.heard.len() == 1 => due,
            // Whoever passes on a decision without a packet rings no bell.
            _ => due.min(Due::at(v.now().saturating_add(flows.pause()))),
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        if self.flows.is_none() {
            self.flows = old.flows.take();
        }
    }
}

/// Decisions in the rings, when they were looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    None,
    Some,
    /// As many as are taken in at once: there may be more.
    Many,
}

/// Sends on what passes and drops what is dropped; gives how many packets there are about
/// which a flow must be asked.
fn gather(
    v: &mut View<'_, Shield>,
    (hops, protections): (&HopTable, &Protections),
    counters: &Counters,
    batch: &mut Batch,
) -> usize {
    let mut n = 0;
    // The answer of the packet before, and its protection: mostly the next one's, too.
    let mut last = (Hop::NONE, Named::NONE);
    let mut bypassed = Bypassed::default();
    for i in 0..v.n() {
        let answer = v.get(Answer, i);
        if answer == last.0 && last.1 != Named::NONE {
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
                last = (answer, Named::of(protection.id));
                n = take(v, batch, n, i, last.1);
            }
            Kind::Bypass => {
                bypassed.add(counters, step.index(), v.frame_len(i).into());
                pass(v, i);
            }
            Kind::Discard => {
                if let Some(of) = protections.at(step.index()) {
                    let bytes = v.frame_len(i).into();
                    counters.count_discarded(of.id, Why::Discarded as usize, bytes);
                }
                v.drop(i, Why::Discarded);
            }
            _ => v.drop(i, Why::Changed),
        }
    }
    bypassed.count(counters);
    n
}

/// Puts packet `i` behind the `n` of the batch; gives how many there are then.
#[inline(always)]
fn take(v: &View<'_, Shield>, batch: &mut Batch, n: usize, i: usize, named: Named) -> usize {
    let head = v.head(i);
    // `n` is at most `i`, which is within a vector.
    (batch.at[n % VECTOR], batch.sets[n % VECTOR]) = (i as u16, named);
    if head[0] >> 4 == 4 {
        let v4 = |at| u32::from_be_bytes(array(head, at));
        batch.keys[n % VECTOR] = FlowKey::v4(v4(ipv4::SRC), v4(ipv4::DST));
    } else {
        take6(head, &mut batch.keys[n % VECTOR]);
    }
    n + 1
}

/// A call of its own: else all words of either family's key would be put through registers.
#[inline(never)]
fn take6(head: &[u8; 64], key: &mut FlowKey) {
    *key = key_of(head);
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

/// What is to be done with packet `i`, the `k`th of the batch, whatever its flow is; `None`: the
/// flow has no place.
#[inline(never)]
fn judge(
    v: &View<'_, Shield>,
    i: usize,
    (k, named): (usize, Named),
    now: u64,
    entries: &mut Entries<'_>,
) -> Option<Step> {
    let (link, packet) = v.parts(i);
    // In the poll of the request before it: the time between them is the flow's patience.
    let now = if entries.asked_since(k, now) { v.time() } else { now };
    let arrival = Arrival { now, len: v.frame_len(i).into(), link, packet };
    entries.packet(k, named.set(), &arrival)
}

const _: () = assert!(<Why as graph::Label>::NAMES.len() == SHIELD_DROPS + 1);
const _: () = assert!(Why::Changed as usize == SHIELD_DROPS);

/// What becomes of a packet whose flow has no place, where it is not dropped.
const LEAST: Step =
    Step { verdict: Verdict::Request(LOWEST_DSCP), fell_back: false, by_program: false };
/// Packets between the one whose verdict is reached and the one whose descriptor is asked for.
const AHEAD: usize = 16;
/// Decisions between one whose key is read and one whose line is asked for.
const HEARD_AHEAD: usize = 8;
