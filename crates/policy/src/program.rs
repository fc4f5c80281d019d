//! The seam between a Gatekeeper and a program that decides about each packet of a flow.

/// The state of a decided flow. Only its program reads and writes it.
pub type Page = [u8; 64];

/// A packet as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The time of its reception, in ticks.
    pub now: u64,
    /// Bytes of the frame: with the Ethernet header and its tags, without preamble and checksum,
    /// before any encapsulation.
    pub len: u32,
    /// The bytes before the packet: its Ethernet header, with its tags.
    pub link: &'a [u8],
    /// The packet from its IP header on, as much of it as is at hand.
    pub packet: &'a [u8],
}

/// What happens to a packet of a decided flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// To a Grantor with this DSCP, at most 63; built-in programs use [`GRANTED`] and [`RENEWAL`].
    Send(u8),
    /// Straight to the destination, with DSCP [`GRANTED`] in its own header.
    Direct,
    /// It is dropped.
    Decline,
    /// It is dropped, because the flow has used its allowance.
    OverBudget,
    /// It is dropped, because the program failed.
    Fail,
    /// The program cannot decide: the flow becomes a request again, with this packet as its first.
    Undecided,
}

/// A program refused the parameters of a decision; the decision is dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadParameters;

/// Decides about each packet, from the flow's own [`Page`]. The program learnt the length of a tick
/// when it was loaded.
pub trait Program: Send + Sync {
    /// A decision came at `now`: turns its parameters in `page` into the program's state, once for
    /// each decision.
    ///
    /// # Errors
    /// When the parameters make no sense; the decision is dropped.
    fn init(&self, now: u64, page: &mut Page) -> Result<(), BadParameters>;

    /// A packet came, before the decision's end at `expires` (ticks).
    fn packet(&self, arrival: &Arrival<'_>, expires: u64, page: &mut Page) -> Answer;
}

/// DSCP of a granted packet.
pub const GRANTED: u8 = 1;
/// DSCP of a granted packet that also asks for the decision's renewal.
pub const RENEWAL: u8 = 2;
