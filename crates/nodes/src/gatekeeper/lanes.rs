//! Gatekeeper's lanes.
//!
//! ```text
//!        shield │ solicit
//!  A64   Asked ─┼►
//!  B32   Mixed ─┼►
//! ```

use tables::SetId;

graph::lanes! {
    /// Whom a request asks, and how urgently.
    pub Asked = "asked": A64 as Request;
    /// A hash of its flow's two addresses, by which a Grantor of the set is chosen.
    pub Mixed = "mixed": B32 as u32;
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

    /// The level.
    #[inline]
    pub fn dscp(self) -> u8 {
        self.0 as u8
    }
}

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
