//! Gatekeeper's lanes.
//!
//! ```text
//!        shield │ solicit          shield, solicit, decisions, unsent │ icmp_error
//!  A64   Asked ─┼►                                              Faulty ─┼►
//! ```

use tables::SetId;

use super::fault::Fault;

graph::lanes! {
    /// Whom a request asks, and how urgently.
    pub Asked = "asked": A64 as Request;
    /// Why the source hears of a packet that goes no further.
    pub Faulty = "faulty": A64 as Fault;
}

/// A protection's Grantors and a DSCP, as one number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request(u64);

impl Request {
    /// Of the protection `set`, with the DSCP `dscp`.
    #[inline]
    pub fn new(set: SetId, dscp: u8) -> Request {
        Request(u64::from(set.index) << 32 | u64::from(set.generation) << 16 | u64::from(dscp))
    }

    /// Whose Grantors.
    #[inline]
    pub fn set(self) -> SetId {
        SetId { index: (self.0 >> 32) as u32, generation: (self.0 >> 16) as u16 }
    }

    /// The same of a protection that is a shadow: the packet itself goes on.
    #[inline]
    pub fn in_shadow(self) -> Request {
        Request(self.0 | SHADOW)
    }

    /// Whether it is [`Request::in_shadow`].
    #[inline]
    pub fn is_in_shadow(self) -> bool {
        self.0 & SHADOW != 0
    }

    /// The level.
    #[inline]
    pub fn dscp(self) -> u8 {
        self.0 as u8
    }
}

const SHADOW: u64 = 1 << 8;

impl From<u64> for Request {
    #[inline(always)]
    fn from(bits: u64) -> Request {
        Request(bits)
    }
}

impl From<Request> for u64 {
    #[inline(always)]
    fn from(request: Request) -> u64 {
        request.0
    }
}
