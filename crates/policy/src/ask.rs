//! The seam between a Grantor's worker and the policies that it asks.
//!
//! ```text
//!   worker ── Question (id, facts, first bytes) ──► policy, elsewhere
//!   worker ◄── Verdict (id, forward?, decision?) ── policy
//! ```
//!
//! The worker keeps the packet until its verdict arrives or its time is over. The worker knows the
//! packet's flow itself: a verdict does not name it.

use wire::ggu;

/// The kind of a question.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Matter {
    /// A packet that asks for a decision.
    Packet,
    /// A flow whose fragments never became whole: only a decision is wanted.
    Punish,
}

/// The worker's findings about the packet. Offsets count from the frame's first byte; bytes at or
/// behind the end of [`Question::bytes`] were not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facts {
    /// EtherType of the outer header: 0x0800, 0x86dd.
    pub outer_ethertype: u16,
    /// EtherType of the inner header: 0x0800, 0x86dd.
    pub inner_ethertype: u16,
    /// Protocol behind the inner header and its extension headers.
    pub l4_proto: u8,
    /// DSCP of the outer header: 2 for a renewal, 3 to 63 for a request's priority.
    pub priority: u8,
    /// ECN bits of the outer header.
    pub outer_ecn: u8,
    /// The inner packet is a fragment.
    pub frag: bool,
    /// Bytes of the packet from [`Facts::l4`] on, whether they were sent or not.
    pub upper_len: u16,
    /// Offset of the outer IP header.
    pub outer_l3: u16,
    /// Offset of the inner IP header.
    pub inner_l3: u16,
    /// Offset of the inner packet's upper-layer header; in a fragment that is not the first, of the
    /// bytes behind its headers.
    pub l4: u16,
}

/// A packet about which a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The verdict carries the same id.
    pub id: u32,
    /// The kind of the question.
    pub matter: Matter,
    /// The worker's findings.
    pub facts: Facts,
    /// The frame's first bytes, from its Ethernet header on.
    pub bytes: &'a [u8],
}

/// A policy's answer about a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// The id of the question.
    pub id: u32,
    /// Whether the packet goes on to its destination.
    pub forward: bool,
    /// The decision about the flow; `None`: nothing is decided, and nothing is sent.
    pub decision: Option<ggu::Verdict>,
}

/// The configured substitute for a verdict that does not come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Instead {
    /// Whether the packet goes on.
    pub forward: bool,
    /// The decision about its flow; `None`: nothing is decided, and nothing is sent.
    pub decision: Option<ggu::Verdict>,
}

impl Instead {
    /// The substitute as the verdict of a question.
    #[inline]
    pub fn verdict(&self, id: u32) -> Verdict {
        Verdict { id, forward: self.forward, decision: self.decision }
    }
}

/// A question was refused: the most questions wait already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Full;

/// Puts questions to a policy and returns its verdicts: a worker's side. It never waits and
/// allocates nothing for a question. Whatever the policy does, each accepted question gets at most
/// one verdict, with every field in range.
pub trait Asker: Send {
    /// Puts a question. The ids of questions without a verdict must differ.
    ///
    /// # Errors
    /// When the most questions wait already.
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full>;

    /// Appends at most `most` verdicts that have arrived; returns their number.
    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize;

    /// Called once a poll, after the questions: wakes the policy if it sleeps. Of several processes
    /// it wakes one, as that takes a system call.
    fn flush(&mut self);

    /// Whether another process is to be woken: the next [`Asker::flush`] should come at once.
    fn owes(&self) -> bool {
        false
    }
}
