//! `grantor`: holds packets until a policy has decided about them.
//!
//! ```text
//!  ip4_tunnel, ip6_tunnel,
//!              asked_here ─► 64 levels ─► asked ─┬ granted ─► unwrapped ► ip4_lookup, ip6_lookup
//!                                                ├ denied ──► drop
//!                                                └ decided ─┬ messages ─► output   OutPort
//!                                                           └ the shield of this graph hears it
//!        no room: the lowest ─► drop, or as configured; so too long
//! ```
//!
//! | cost | of a packet that asks: its move in and out, its first bytes once more; of a renewal: a copy |
//! |------|-----------------------------------------------------------------------------------------------|
//!
//! A renewal goes on at once, because its flow is granted: a copy asks, before all requests. (In
//! the deployed Grantor the packet waits for the verdict. Here a granted flow never waits for a
//! slow policy; if the policy declines, one packet has gone on too many.) The policy behind the
//! [`Asker`] may be slow, silent, or late: this node keeps the packets.
//!
//! Where fragments wait for one another ([`Fragments`]), the policy is asked about the whole
//! packet, and what it grants goes on in fragments or as one packet. If fragments come too late,
//! are too many or find no room, the policy is asked how to punish their flow, after all requests.
//! A fragment asks for no renewal then: the other fragments of its packet came as granted ones.

mod fragmented;

use std::collections::VecDeque;
use std::sync::Arc;

use graph::{Due, Kept, Lanes, Node, Unsent, View, clock};
use io::VECTOR;
use lookup::sync::Published;
use policy::ask::{Asker, Verdict};
use policy::program::RENEWAL;
use tables::Forwarding;
use wire::bytes::array;
use wire::ggu::{self, Decision};
use wire::{ipv4, ipv6};

use super::fates::{To, Why};
use super::fragments::Fragments;
use super::gather::Chain;
use super::lanes::{Asks, Inner};
use super::messages::Messages;
use super::park::Park;
use super::parked::{Goes, Parked, copy, is_v4, level};
use super::post::Post;
use super::settings::{Counters, Instead, Settings};
use super::unwrap::{Unfit, unwrap};
use crate::assembly::Hearing;
use crate::counters::IfaceCounters;
use crate::lanes::{Dst4, Dst6, Iface};

/// The asker of the policy, and the shield in this graph that receives decisions.
pub type Who = (Option<Box<dyn Asker>>, Option<Box<dyn Hearing>>);

/// The node.
pub struct Grantor {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    ifaces: Arc<IfaceCounters>,
    /// The asker; `None` before there is a policy.
    asker: Option<Box<dyn Asker>>,
    /// The time of the last poll in which the asker handed its questions over.
    flushed: u64,
    /// Receives the decisions about packets with [`Parked::is_here`].
    hearing: Option<Box<dyn Hearing>>,
    park: Park<Parked>,
    fragments: Fragments,
    /// Packets that go on.
    ready: VecDeque<Parked>,
    answers: Vec<Verdict>,
    messages: Messages,
}

impl Grantor {
    /// A node with room for this many packets and this many fragments. Without an asker it takes
    /// over the asker of the graph that it replaces.
    pub fn new(
        forwarding: Arc<Forwarding>,
        settings: Arc<Published<Settings>>,
        (counters, ifaces): (Arc<Counters>, Arc<IfaceCounters>),
        (asker, hearing): Who,
        (capacity, fragments): (usize, usize),
    ) -> Self {
        Grantor {
            forwarding,
            settings,
            counters,
            ifaces,
            asker,
            flushed: 0,
            hearing,
            park: Park::new(capacity),
            fragments: Fragments::new(fragments),
            ready: VecDeque::with_capacity(READY),
            answers: Vec::with_capacity(VECTOR),
            messages: Messages::new(),
        }
    }

    /// The number of packets that wait.
    pub fn waiting(&self) -> usize {
        self.park.len()
    }

    /// Whether all places are taken, and no packet of a lower level could make room.
    fn is_full(&self, level: u8) -> bool {
        self.park.len() == self.park.capacity()
            && self.park.lowest().is_none_or(|lowest| lowest >= level)
    }

    /// Takes packet `i` in, or leads it on without an answer.
    fn take(&mut self, v: &mut View<'_, Self>, i: usize, settings: &Settings) {
        let (inner, iface) = (v.get(Asks, i), v.get(Iface, i));
        let link = v.frame_len(i).wrapping_sub(v.len(i));
        let level = level(&inner, settings.shadow);
        let goes = match settings.shadow {
            _ if inner.copy => Goes::Shadow,
            true => Goes::Shadow,
            false if inner.dscp == RENEWAL => Goes::Copied,
            false => Goes::On,
        };
        let parked = |kept| Parked { kept, inner, link, iface, goes, rest: Chain::EMPTY, whole: 0 };
        let waits = inner.frag && self.fragments.wait();
        if goes == Goes::Copied {
            self.counters.renewals.add(1);
            if !waits {
                match copy(v, i) {
                    Some(kept) => self.put_in(v, level, parked(kept), settings),
                    None => self.counters.no_copy.add(1),
                }
            }
            return lead_on(v, i, link, &inner, settings);
        }
        self.counters.requests.add(1);
        if waits {
            return self.gather(v, i, parked, settings);
        }
        if self.is_full(level) && goes == Goes::On && settings.on_full.forward {
            self.shed(inner.dscp);
            return lead_on(v, i, link, &inner, settings);
        }
        // A kept packet is whole: its head returns to the frame's first byte.
        if let Some(kept) = v.keep(i) {
            self.put_in(v, level, parked(kept), settings);
        }
    }

    /// Drops a packet and the fragments behind it.
    fn discard(&mut self, v: &mut View<'_, Self>, parked: Parked, why: Why) {
        let mut next = Some(parked);
        while let Some(parked) = next {
            v.discard(parked.kept, why);
            next = self.fragments.next(parked.rest);
        }
    }

    /// Puts a packet in; without room it replaces the last packet of the lowest level.
    fn put_in(&mut self, v: &mut View<'_, Self>, level: u8, parked: Parked, settings: &Settings) {
        if self.is_full(level) {
            return self.give_up(v, parked, &settings.on_full, Why::Full);
        }
        let Err(parked) = self.park.put(level, v.now(), parked) else { return };
        if let Some(lowest) = self.park.take_lowest() {
            self.give_up(v, lowest, &settings.on_full, Why::Full);
        }
        if let Err(parked) = self.park.put(level, v.now(), parked) {
            self.discard(v, parked, Why::Full); // cannot be: one has just left
        }
    }

    /// Applies to a packet the configured substitute for a verdict.
    fn give_up(&mut self, v: &mut View<'_, Self>, parked: Parked, instead: &Instead, why: Why) {
        match why {
            _ if matches!(parked.goes, Goes::Punished(_)) => {
                return self.end(v, parked, false, why);
            }
            Why::Full => self.shed(parked.inner.dscp),
            _ => self.counters.overdue.add(1),
        }
        self.decide(v, &parked, instead.decision);
        self.end(v, parked, instead.forward, why);
    }

    fn shed(&self, dscp: u8) {
        self.counters.shed.add(1);
        self.counters.shed_of.add(dscp);
    }

    /// Ends a packet that has left the park.
    fn end(&mut self, v: &mut View<'_, Self>, parked: Parked, forward: bool, why: Why) {
        let why = match parked.goes {
            Goes::On if forward && self.ready.len() < READY => {
                return self.ready.push_back(parked);
            }
            Goes::On => why,
            Goes::Copied => Why::Copied,
            Goes::Shadow => Why::Shadow,
            Goes::Punished(why) => why,
        };
        self.discard(v, parked, why);
    }

    /// Puts a decision into a message.
    fn decide(&mut self, v: &View<'_, Self>, parked: &Parked, verdict: Option<ggu::Verdict>) {
        let Some(verdict) = verdict else { return };
        let Some(flow) = parked.flow() else { return };
        if parked.is_here() {
            let Some(hearing) = &mut self.hearing else { return self.counters.unsent.add(1) };
            hearing.hear(v.guard(), parked.iface, v.now(), &Decision { flow, verdict });
            return self.counters.decisions.add(1);
        }
        let Some(ends) = parked.ends() else { return };
        let post = Post { forwarding: &self.forwarding, guard: v.guard() };
        if !self.messages.add(ends, &Decision { flow, verdict }, || post.mtu(&ends.0)) {
            self.counters.unsent.add(1);
        }
    }

    /// Takes the answers that have arrived; returns their number.
    fn hear(&mut self, v: &mut View<'_, Self>) -> usize {
        let Some(asker) = &mut self.asker else { return 0 };
        // Each answer may open a message.
        let most = VECTOR.min(READY - self.ready.len()).min(self.messages.room());
        let mut answers = std::mem::take(&mut self.answers);
        asker.verdicts(most, &mut |verdict| {
            if answers.len() < most {
                answers.push(verdict);
            }
        });
        let heard = answers.len();
        for Verdict { id, forward, decision } in answers.drain(..) {
            let Some(parked) = self.park.answered(id) else {
                self.counters.late.add(1);
                continue;
            };
            if !matches!(parked.goes, Goes::Punished(_)) {
                let count = if forward { &self.counters.forwarded } else { &self.counters.denied };
                count.add(1);
            }
            if decision.is_none() {
                self.counters.undecided.add(1);
            }
            self.decide(v, &parked, decision);
            self.end(v, parked, forward, Why::Denied);
        }
        self.answers = answers;
        heard
    }

    /// Gives up packets that have waited too long; returns whether there may be more of them.
    fn give_up_overdue(&mut self, v: &mut View<'_, Self>, settings: &Settings) -> bool {
        let Some(until) = v.now().checked_sub(ticks(settings.limit_ms)) else { return false };
        for _ in 0..VECTOR {
            let no_message = settings.on_limit.decision.is_some() && self.messages.room() == 0;
            if no_message || settings.on_limit.forward && self.ready.len() == READY {
                return true;
            }
            let Some(parked) = self.park.overdue(until) else { return false };
            self.give_up(v, parked, &settings.on_limit, Why::Overdue);
        }
        true
    }

    /// Hands over what was asked, once a poll, which may have several ticks: it may take a system call.
    /// Returns whether the next poll should come at once, to hand over more.
    fn flush(&mut self, now: u64) -> bool {
        let again = std::mem::replace(&mut self.flushed, now) == now;
        self.asker.as_mut().is_some_and(|asker| {
            if !again {
                asker.flush();
            }
            again || asker.owes()
        })
    }

    /// Asks about as many packets as may be asked about, the highest level first.
    fn ask(&mut self, settings: &Settings) {
        let Some(asker) = &mut self.asker else { return };
        // A packet that was asked about makes no room: half of the places keep their order.
        let most = settings.asked.min(self.park.capacity().div_ceil(2));
        while self.park.asked() < most {
            let Some((id, parked)) = self.park.next() else { break };
            if asker.ask(&self.fragments.question(id, parked, settings.question)).is_err() {
                self.counters.refused.add(1);
                break;
            }
            self.counters.asked.add(1);
            self.park.ask();
        }
    }

    /// Puts granted packets into the vector; returns whether all of them fitted.
    fn send_ready(&mut self, v: &mut View<'_, Self>, settings: &Settings) -> bool {
        while let Some(parked) = self.ready.pop_front() {
            let Some(parked) = self.join(v, parked, settings) else { continue };
            let Parked { kept, inner, link, iface, rest, .. } = parked;
            match v.emit(kept) {
                Ok(i) => {
                    v.set(Iface, i, iface);
                    lead_on(v, i, link, &inner, settings);
                }
                Err(Unsent::Full(kept)) => {
                    self.ready.push_front(Parked { kept, ..parked });
                    return false;
                }
                Err(Unsent::Gone(kept)) => v.discard(kept, Why::NoPort),
            }
            if let Some(next) = self.fragments.next(rest) {
                self.ready.push_front(next);
            }
        }
        true
    }

    /// Puts finished messages into the vector, past those of other ports, whose order stays;
    /// returns whether all of them fitted.
    fn send_messages(&mut self, v: &mut View<'_, Self>, settings: &Settings) -> bool {
        let mut all = true;
        for _ in 0..self.messages.ready() {
            let Some(message) = self.messages.next() else { break };
            if !v.has_room(message.reply.port) && v.ports().world(message.reply.port).is_some() {
                self.messages.put_back(message);
                all = false;
                continue;
            }
            let count = message.count();
            let post = Post { forwarding: &self.forwarding, guard: v.guard() };
            match post.send(v, &message, settings.ports, &self.ifaces) {
                Some(()) => {
                    self.counters.messages.add(1);
                    self.counters.decisions.add(count);
                }
                None => self.counters.unsent.add(count),
            }
            self.messages.done(message);
        }
        all
    }
}

impl Node for Grantor {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "grantor";
    const HELP: &'static str = "asks a policy about packets, and sends its decisions";
    const READS: Lanes = Lanes::of::<(Asks, Iface)>();
    const TICKS: bool = true;
    const KEEPS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        let settings = self.settings.load(v.guard());
        for i in 0..v.n() {
            self.take(v, i, settings);
        }
        self.ask(settings);
    }

    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let settings = self.settings.load(v.guard());
        let heard = self.hear(v);
        let more = self.give_up_overdue(v, settings) | self.give_up_fragments(v, settings);
        let all = self.send_ready(v, settings);
        self.ask(settings);
        let owes = self.flush(v.now());
        self.messages.round(heard);
        let sent = self.send_messages(v, settings);
        self.counters.waiting.set(self.park.len() as u64);
        if more || owes || !all || !sent || heard == VECTOR || !self.messages.is_empty() {
            return Due::NOW;
        }
        let whole = self.fragments.all.oldest();
        let whole = whole.map(|since| since.saturating_add(ticks(settings.fragment_ms)));
        let soon = v.now() + clock::hz() / POLLS_PER_S;
        let answer = self
            .park
            .oldest()
            .map(|since| soon.min(since.saturating_add(ticks(settings.limit_ms))));
        match answer.into_iter().chain(whole).min() {
            Some(due) => Due::at(due.max(1)),
            None => Due::NEVER,
        }
    }

    fn abandon(&mut self) -> Option<(Kept, Why)> {
        let parked = self.ready.pop_front().or_else(|| self.park.overdue(u64::MAX));
        let parked = parked.or_else(|| self.fragments.all.abandon())?;
        Some((parked.kept, Why::Stopped))
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.messages, &mut old.messages);
        let room = |of: &Grantor| (of.park.capacity(), of.fragments.all.capacity());
        if room(self) == room(old) {
            // A packet that moves alone would lose the fragments behind it.
            std::mem::swap(&mut self.ready, &mut old.ready);
            std::mem::swap(&mut self.park, &mut old.park);
            std::mem::swap(&mut self.fragments, &mut old.fragments);
        }
        match &self.asker {
            // The former asker is not there to answer.
            Some(_) => self.park.ask_again(),
            None => self.asker = old.asker.take(),
        }
    }
}

/// Sends packet `i`, whose frame has `link` bytes before the outer header, by its route.
fn lead_on(v: &mut View<'_, Grantor>, i: usize, link: u16, inner: &Inner, settings: &Settings) {
    match unwrap(v, i, link.into(), inner, settings.ecn) {
        Ok(()) if is_v4(inner) => {
            let dst = u32::from_be_bytes(array(v.head(i), ipv4::DST));
            v.set(Dst4, i, dst);
            v.leave(i, To::Lookup4);
        }
        Ok(()) => {
            let dst = u128::from_be_bytes(array(v.head(i), ipv6::DST));
            v.set(Dst6, i, dst);
            v.leave(i, To::Lookup6);
        }
        Err(Unfit::Congested) => v.drop(i, Why::Congested),
        Err(Unfit::NoRoom) => v.drop(i, Why::NoRoom),
    }
}

/// Milliseconds as ticks.
fn ticks(ms: u32) -> u64 {
    (clock::hz() / 1_000).saturating_mul(ms.into())
}

/// The level of questions about punishment; no request has it.
const LOWEST: u8 = 0;
/// The most granted packets that wait for room in a vector.
const READY: usize = 256;
/// How often a worker without packets looks for answers.
const POLLS_PER_S: u64 = 200_000;
