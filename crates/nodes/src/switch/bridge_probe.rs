//! `bridge_probe`: sends probes out of every port of the bridges that look for loops.
//!
//! ```text
//!  each second ─► VLAN by VLAN, and port by port in their order ─┬─► output
//!  when somebody asks, for one VLAN: at once ────────────────────┘
//! ```
//!
//! | cost | a frame a second for each port and VLAN; 4,000 a second at most, where a round takes longer |
//! |------|-----------------------------------------------------------------------------------------------|
//!
//! A worker sends by the ports whose queues it has. `bridge_flood` receives returning probes,
//! or `bridge_input` at a port that is taken out; the bridge thread judges them.
//!
//! Source: no standard's. Vendors call it loop protection or loop detection; spanning tree
//! (IEEE 802.1Q clause 13) needs every switch on the way to take part.

use std::sync::Arc;

use graph::{Account, Due, Node, View, clock, labels};
use io::VECTOR;
use tables::bridge::{DomainId, Way};
use tables::{Forwarding, IfaceId};

use super::loops::Loops;
use super::tag::Edit;
use crate::lanes::{Iface, OutPort};

labels! {
    /// Where probes go.
    pub enum To { Output = "output" carries [OutPort, Iface] }
}

labels! {
    /// Why a probe is not sent.
    pub enum Why {
        /// The pool has no packet for it.
        NoBuffer = "no_buffer",
    }
}

/// The node.
pub struct BridgeProbe {
    forwarding: Arc<Forwarding>,
    loops: Arc<Loops>,
    /// Where the round is that is under way.
    at: usize,
    /// When the round continues, or the next one begins.
    next: u64,
    /// When this one began.
    begun: u64,
    /// The request for which probes were last sent.
    asked: u64,
    /// When they may be again.
    patience: u64,
}

impl BridgeProbe {
    /// A node that sends probes of `loops`.
    pub fn new(forwarding: Arc<Forwarding>, loops: Arc<Loops>) -> Self {
        BridgeProbe { forwarding, loops, at: 0, next: 0, begun: 0, asked: 0, patience: 0 }
    }
}

impl Node for BridgeProbe {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "bridge_probe";
    const HELP: &'static str = "sends probes that come back where there is a loop";
    const TICKS: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(To::Output); // no edge leads here: none comes
    }

    #[inline]
    fn tick(&mut self, v: &mut View<'_, Self>) -> Due {
        let now = v.now();
        let (asked, domain) = self.loops.asked();
        let due = if asked == self.asked { self.next } else { self.next.min(self.patience) };
        if now < due {
            return Due::at(due);
        }
        if asked != self.asked && now >= self.patience {
            (self.asked, self.patience) = (asked, now + clock::hz() / ASKED);
            self.answer(v, domain, now);
        } else {
            self.go_on(v, now);
        }
        Due::at(self.next)
    }
}

impl BridgeProbe {
    /// Probes of a domain, out of turn.
    #[cold]
    fn answer(&self, v: &mut View<'_, Self>, domain: DomainId, now: u64) {
        let probed = &self.forwarding.bridges.load(v.guard()).probed;
        let first = probed.partition_point(|way| way.domain < domain);
        let ways = probed[first..].iter().take_while(|way| way.domain == domain);
        ways.take(VECTOR).for_each(|way| self.put(v, *way, now));
    }

    /// The next probes of the round.
    #[cold]
    fn go_on(&mut self, v: &mut View<'_, Self>, now: u64) {
        let probed = &self.forwarding.bridges.load(v.guard()).probed;
        if self.at == 0 {
            self.begun = now;
        }
        let left = probed.get(self.at..).unwrap_or_default();
        let ways = &left[..left.len().min(AT_ONCE)];
        ways.iter().for_each(|way| self.put(v, *way, now));
        if ways.len() < left.len() {
            self.at += ways.len();
            self.next = now + PAUSE_MS * clock::hz() / 1000;
        } else {
            self.at = 0;
            self.next = (now + PAUSE_MS * clock::hz() / 1000).max(self.begun + clock::hz());
        }
    }

    /// One probe, where this worker has the port. All of a vector are from one port's pool.
    fn put(&self, v: &mut View<'_, Self>, way: Way, now: u64) {
        let Way { port, domain, tag } = way;
        if v.ports().get(port.0).is_none() {
            return;
        }
        let pool = if v.n() == 0 { port.0 } else { v.port() };
        let packet = v.ports().get(pool).and_then(|queue| queue.allocate());
        v.account(Account::Copies, 1); // made here, as copies are
        let Some(mut packet) = packet else { return v.count_dropped(Why::NoBuffer, 1) };
        let filled = packet.fill(&self.loops.probe(port.0, domain, now))
            && tag.is_none_or(|vlan| Edit::Push(vlan).apply(&mut packet));
        match if filled { v.push(packet, pool) } else { Err(packet) } {
            Ok(i) => {
                v.set(OutPort, i, port);
                v.set(Iface, i, IfaceId::NONE);
                v.leave(i, To::Output);
            }
            Err(packet) => {
                v.count_dropped(Why::NoBuffer, 1);
                v.ports().free(pool, &mut [Some(packet)]);
            }
        }
    }
}

/// Probes of a poll.
const AT_ONCE: usize = 8;
/// Between two such polls.
const PAUSE_MS: u64 = 2;
/// So often a second probes are sent out of turn.
const ASKED: u64 = 10;
