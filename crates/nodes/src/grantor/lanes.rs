//! A Grantor's lane.
//!
//! ```text
//!        ip4_tunnel, ip6_tunnel, asked_here │ grantor
//!  A64                                Asks ─┼►
//! ```

graph::lanes! {
    /// The sender of a request, and the places of its headers.
    pub Asks = "asks": A64 as Inner;
}

/// A checked inner packet, packed into one number.
///
/// Offsets count from the outer header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Inner {
    /// Offset of the inner header: 20 or 40, the length of the outer header; 0 where there is no
    /// outer header, because a shield in this graph asks.
    pub at: u8,
    /// The packet is IPv6.
    pub v6: bool,
    /// The packet is a copy from a shield in shadow mode; the original has gone on.
    pub copy: bool,
    /// The DSCP of the outer header, or the one that it would have.
    pub dscp: u8,
    /// The ECN bits of that header.
    pub ecn: u8,
    /// The inner packet is a fragment.
    pub frag: bool,
    /// The protocol behind the inner headers.
    pub protocol: u8,
    /// Bytes of the inner headers.
    pub headers: u16,
    /// Bytes of the inner packet.
    pub total: u16,
}

impl From<u64> for Inner {
    #[inline(always)]
    fn from(bits: u64) -> Inner {
        Inner {
            total: bits as u16,
            headers: (bits >> 16) as u16,
            at: (bits >> 32) as u8,
            protocol: (bits >> 40) as u8,
            dscp: (bits >> 48) as u8,
            ecn: (bits >> 56) as u8 & 3,
            v6: bits >> 61 & 1 != 0,
            copy: bits >> 62 & 1 != 0,
            frag: bits >> 63 != 0,
        }
    }
}

impl From<Inner> for u64 {
    #[inline(always)]
    fn from(inner: Inner) -> u64 {
        u64::from(inner.total)
            | u64::from(inner.headers) << 16
            | u64::from(inner.at) << 32
            | u64::from(inner.protocol) << 40
            | u64::from(inner.dscp) << 48
            | u64::from(inner.ecn & 3) << 56
            | u64::from(inner.v6) << 61
            | u64::from(inner.copy) << 62
            | u64::from(inner.frag) << 63
    }
}
