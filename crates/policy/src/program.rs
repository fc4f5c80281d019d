//! The seam between a Gatekeeper and what says, packet by packet, what a flow may do.

/// The state of a decided flow, which its program alone reads and writes.
pub type Page = [u8; 64];

/// A packet as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When, in ticks.
    pub now: u64,
    /// Bytes of the frame: with the Ethernet header and its tags, without preamble and
    /// checksum, before anything is put around it.
    pub len: u32,
    /// The frame's bytes before the packet: its Ethernet header, with its tags.
    pub link: &'a [u8],
    /// The packet from its IP header on, or as much of it as there is at hand.
    pub packet: &'a [u8],
}

/// What is to be done with a packet of a decided flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// To a Grantor with this DSCP, at most 63: [`GRANTED`] or [`RENEWAL`] of what is
    /// built in.
    Send(u8),
    /// Straight to the destination, with DSCP [`GRANTED`] in its own header.
    Direct,
    /// It is dropped.
    Decline,
    /// It is dropped, because the flow has used what it may.
    OverBudget,
    /// It is dropped, because the program failed.
    Fail,
    /// The program cannot say: the flow is a request again, this packet its first.
    Undecided,
}

/// A program refused the parameters of a decision, which is then none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadParameters;

/// Says what becomes of each packet, from the flow's own [`Page`]. It knows the length of
/// a tick from when it was loaded.
pub trait Program: Send + Sync {
    /// A decision came at `now`: makes state of the parameters in `page`, once for each
    /// decision.
    ///
    /// # Errors
    /// When the parameters make no sense; the decision is dropped.
    fn init(&self, now: u64, page: &mut Page) -> Result<(), BadParameters>;

    /// A packet came, before the decision's end at `expires` (ticks).
    fn packet(&self, arrival: &Arrival<'_>, expires: u64, page: &mut Page) -> Answer;
}

/// DSCP of a packet that was granted.
pub const GRANTED: u8 = 1;
/// DSCP of one that was, and asks for the decision's renewal.
pub const RENEWAL: u8 = 2;
