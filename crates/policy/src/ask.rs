//! The seam between a Grantor's worker and the policies that it asks.
//!
//! ```text
//!   worker ── Question (id, facts, first bytes) ──► policy, elsewhere
//!   worker ◄── Verdict (id, forward?, decision?) ── policy
//! ```
//!
//! The worker keeps the packet until its verdict is there or its time is over. It knows the
//! packet's flow itself: a verdict does not name it.

use wire::ggu;

/// What a policy is asked about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Matter {
    /// A packet that asks.
    Packet,
    /// A flow whose fragments came to nothing: its decision only.
    Punish,
}

/// What the worker has found out about the packet. Offsets count from the frame's first
/// byte; what lies at or behind the end of [`Question::bytes`] did not go over.
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
    /// Bytes of the packet from [`Facts::l4`] on, whether they go over or not.
    pub upper_len: u16,
    /// Where the outer IP header is.
    pub outer_l3: u16,
    /// Where the inner IP header is.
    pub inner_l3: u16,
    /// Where the inner packet's upper header is; of a fragment that is not the first, what
    /// is behind its headers.
    pub l4: u16,
}

/// A packet about which a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Comes back with the verdict.
    pub id: u32,
    /// What is asked.
    pub matter: Matter,
    /// What the worker has found out.
    pub facts: Facts,
    /// The frame's first bytes, from its Ethernet header on.
    pub bytes: &'a [u8],
}

/// What a policy says about a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Of which question.
    pub id: u32,
    /// The packet goes on to its destination.
    pub forward: bool,
    /// What the flow may do from now on; `None`: nothing is decided, and nothing is sent.
    pub decision: Option<ggu::Verdict>,
}

/// What stands for a verdict that does not come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Instead {
    /// The packet goes on.
    pub forward: bool,
    /// What is decided about its flow; `None`: nothing, and nothing is sent.
    pub decision: Option<ggu::Verdict>,
}

impl Instead {
    /// As the verdict of a question.
    #[inline]
    pub fn verdict(&self, id: u32) -> Verdict {
        Verdict { id, forward: self.forward, decision: self.decision }
    }
}

/// A question could not be put: as many wait as may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Full;

/// Puts questions to a policy and hands its verdicts over: a worker's side. It never waits,
/// allocates nothing for a question, and gives a verdict of each question that it took, at
/// most once, with every field in range, whatever the policy does.
pub trait Asker: Send {
    /// Puts a question. Ids of questions without a verdict differ.
    ///
    /// # Errors
    /// When as many wait as may.
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full>;

    /// Hands at most `most` verdicts over that have come; gives their number.
    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize;

    /// Once a poll, behind the questions: wakes the policy if it sleeps.
    fn flush(&mut self);
}
