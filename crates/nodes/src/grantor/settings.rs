//! Settings of a Grantor's nodes, and their counters.

use std::sync::Arc;

use graph::Counter;
pub use policy::ask::Instead;
use wire::ggu::Ports;

use super::nets::Nets;

/// What may change while packets flow; published.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Outer sources of requests that are answered.
    pub gatekeepers: Nets,
    /// Inner destinations that are forwarded to.
    pub serves: Nets,
    /// The UDP ports of decisions.
    pub ports: Ports,
    /// What becomes of congestion that the outer header reports.
    pub ecn: Ecn,
    /// Requests are copies, of a shadow: nothing is forwarded.
    pub shadow: bool,
    /// Bytes of each frame that the policy gets at most.
    pub question: usize,
    /// Milliseconds that a packet waits for its verdict at most.
    pub limit_ms: u32,
    /// What becomes of packets that have waited so long.
    pub on_limit: Instead,
    /// What becomes of packets for which there is no room to wait.
    pub on_full: Instead,
    /// Milliseconds that a fragment waits for the others of its packet at most.
    pub fragment_ms: u32,
    /// What is granted goes on as one packet, where that fits its way and its first fragment's
    /// buffer.
    pub reassemble: bool,
    /// Questions that wait for an answer at a time; further ones wait in the order of their
    /// priorities.
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

/// Bytes of a frame that go to the policy, unless configured otherwise.
pub const QUESTION: usize = 256;
/// Milliseconds that packets wait, unless configured otherwise.
pub const LIMIT_MS: u32 = 100;
/// Milliseconds that fragments wait, unless configured otherwise.
pub const FRAGMENT_MS: u32 = 1_000;
/// Questions at a time, unless configured otherwise.
pub const ASKED: usize = 1_024;
/// Packets that wait, unless configured otherwise.
pub const CAPACITY: usize = 4_096;

/// What becomes of congestion that the outer header reports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Ecn {
    /// As deployed: the inner header reports it, too, even one that says it cannot.
    #[default]
    Deployed,
    /// RFC 6040 §4.2: such a packet is dropped, and ECT(1) comes through.
    Rfc6040,
}

/// One worker's counters.
#[derive(Debug, Default)]
#[repr(align(64))]
#[allow(missing_docs)]
pub struct Counters {
    /// Packets of flows that are granted: DSCP 0 and 1.
    pub passed: Counter,
    /// Packets that ask for a renewal: they go on at once, a copy asks.
    pub renewals: Counter,
    /// Renewals for which there was no buffer, so that nobody was asked.
    pub no_copy: Counter,
    /// Packets that ask.
    pub requests: Counter,
    /// Packets that wait, for an answer or to be asked about.
    pub waiting: Counter,
    /// Fragments that waited for the others of their packet.
    pub fragments: Counter,
    /// Packets whose fragments were all there.
    pub whole: Counter,
    /// Of those: they went on as one packet.
    pub joined: Counter,
    /// Of those: they went on in fragments, too long for their way or for a buffer.
    pub apart: Counter,
    /// Packets whose fragments came to nothing, so that the policy is asked what their flow
    /// deserves.
    pub punished: Counter,
    /// Questions put to the policy.
    pub asked: Counter,
    /// Questions that it did not take: as many waited there as may.
    pub refused: Counter,
    /// Answers: the packet goes on.
    pub forwarded: Counter,
    /// Answers: it does not.
    pub denied: Counter,
    /// Answers without a decision.
    pub undecided: Counter,
    /// Answers about packets that have left before.
    pub late: Counter,
    /// Packets that waited too long.
    pub overdue: Counter,
    /// Packets that made room, or found none.
    pub shed: Counter,
    /// Of those: the highest priority so far.
    pub shed_highest: Counter,
    /// Decisions sent.
    pub decisions: Counter,
    /// Messages in which they went.
    pub messages: Counter,
    /// Decisions that could not be sent.
    pub unsent: Counter,
}

impl Counters {
    /// Counters at zero.
    pub fn new() -> Arc<Counters> {
        Arc::new(Counters::default())
    }
}
