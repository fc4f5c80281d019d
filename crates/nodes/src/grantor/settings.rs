//! Settings of a Grantor's nodes, and their counters.

use std::sync::Arc;

use graph::Counter;
pub use policy::ask::Instead;
use wire::ggu::Ports;

use super::nets::Nets;

/// Settings that may change while packets flow; published.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Outer sources whose requests are answered.
    pub gatekeepers: Nets,
    /// Inner destinations to which packets are forwarded.
    pub serves: Nets,
    /// The UDP ports of decisions.
    pub ports: Ports,
    /// How congestion in the outer header is handled.
    pub ecn: Ecn,
    /// Requests are copies from a shield in shadow mode: nothing is forwarded.
    pub shadow: bool,
    /// The most bytes of a frame that the policy gets.
    pub question: usize,
    /// The longest time that a packet waits for its verdict, in milliseconds.
    pub limit_ms: u32,
    /// The fate of packets that have waited that long.
    pub on_limit: Instead,
    /// The fate of packets that find no room to wait.
    pub on_full: Instead,
    /// The longest time that a fragment waits for the rest of its packet, in milliseconds.
    pub fragment_ms: u32,
    /// Granted fragments go on as one packet, if it fits its route's MTU and the buffer of its
    /// first fragment.
    pub reassemble: bool,
    /// The most questions that wait for an answer at a time. Further ones wait in the order of
    /// their priorities.
    pub asked: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            gatekeepers: Nets::default(),
            serves: Nets::default(),
            ports: Ports::default(),
            ecn: Ecn::default(),
            shadow: false,
            question: QUESTION,
            limit_ms: LIMIT_MS,
            on_limit: Instead::default(),
            on_full: Instead::default(),
            fragment_ms: FRAGMENT_MS,
            reassemble: false,
            asked: ASKED,
        }
    }
}

/// Default: bytes of a frame that the policy gets.
pub const QUESTION: usize = 256;
/// Default: milliseconds that packets wait for a verdict.
pub const LIMIT_MS: u32 = 100;
/// Default: milliseconds that fragments wait for the rest of their packet.
pub const FRAGMENT_MS: u32 = 1_000;
/// Default: questions that wait for an answer at a time.
pub const ASKED: usize = 1_024;
/// Default: packets that may wait.
pub const CAPACITY: usize = 4_096;

/// How congestion in the outer header is handled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Ecn {
    /// As deployed: the inner header reports it too, even a header whose ECN bits are Not-ECT.
    #[default]
    Deployed,
    /// RFC 6040 §4.2: a Not-ECT packet is dropped, and ECT(1) is kept.
    Rfc6040,
}

/// One worker's counters.
#[derive(Debug, Default)]
#[repr(align(64))]
#[allow(missing_docs)]
pub struct Counters {
    /// Packets of granted flows: DSCP 0 and 1.
    pub passed: Counter,
    /// Packets that ask for a renewal: each goes on at once, and a copy waits for the answer.
    pub renewals: Counter,
    /// Renewals that found no buffer for the copy, so that the policy was not asked.
    pub no_copy: Counter,
    /// Packets that ask for a decision.
    pub requests: Counter,
    /// Packets that wait to be asked about, or for the answer.
    pub waiting: Counter,
    /// Fragments that waited for the rest of their packet.
    pub fragments: Counter,
    /// Packets whose fragments all arrived.
    pub whole: Counter,
    /// Of these: packets that went on as one.
    pub joined: Counter,
    /// Of these: packets that went on in fragments, too long for their route's MTU or for a buffer.
    pub apart: Counter,
    /// Packets whose fragments never became whole; the policy is asked about their flow.
    pub punished: Counter,
    /// Questions to the policy.
    pub asked: Counter,
    /// Questions that the policy did not take: its queue was full.
    pub refused: Counter,
    /// Answers that granted.
    pub forwarded: Counter,
    /// Answers that declined.
    pub denied: Counter,
    /// Answers without a decision.
    pub undecided: Counter,
    /// Answers about packets that had left already.
    pub late: Counter,
    /// Packets that waited too long.
    pub overdue: Counter,
    /// Packets that were shed: they made room, or found none.
    pub shed: Counter,
    /// The same by their priorities.
    pub shed_of: ByPriority,
    /// Decisions that were sent.
    pub decisions: Counter,
    /// Messages that carried them.
    pub messages: Counter,
    /// Decisions that could not be sent.
    pub unsent: Counter,
}

/// A counter for each priority, the DSCP of the outer header.
#[derive(Debug)]
pub struct ByPriority([Counter; PRIORITIES]);

impl Default for ByPriority {
    fn default() -> Self {
        ByPriority(std::array::from_fn(|_| Counter::default()))
    }
}

impl ByPriority {
    /// Counts a packet of this priority.
    #[inline]
    pub fn add(&self, priority: u8) {
        self.0[usize::from(priority) % PRIORITIES].add(1);
    }

    /// The counters, from priority 0 on.
    pub fn all(&self) -> &[Counter; PRIORITIES] {
        &self.0
    }
}

/// Priorities that there are: a DSCP has six bits.
pub const PRIORITIES: usize = 64;

impl Counters {
    /// Counters at zero.
    pub fn new() -> Arc<Counters> {
        Arc::new(Counters::default())
    }
}
