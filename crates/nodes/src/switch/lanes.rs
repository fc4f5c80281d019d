//! The switch's lanes.
//!
//! ```text
//!        bridge_input │ bridge_learn │ bridge_forward │ bridge_flood, bridge_local, output
//!  Keys   Destination ┼──────────────┼►               │
//!  A32    Arrived ────┼──────────────┼────────────────┼►
//!  A16                │              │ Sender or OutPort ─►
//! ```

use lookup::exact::Key;
use tables::PortId;

graph::lanes! {
    /// Where a frame goes: MAC address and forwarding domain.
    pub Destination = "destination": Keys as Key;
    /// The forwarding domain, and how the frame came into it.
    pub(super) Arrived = "arrived": A32 as Code;
    /// The port of the bridge that a frame to be flooded came in by.
    pub Sender = "sender": A16 as PortId;
}

/// A forwarding domain and how a frame came into it, as one number: two of them are
/// compared at once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Code(u32);

impl From<u32> for Code {
    #[inline(always)]
    fn from(bits: u32) -> Code {
        Code(bits)
    }
}

impl From<Code> for u32 {
    #[inline(always)]
    fn from(code: Code) -> u32 {
        code.0
    }
}
