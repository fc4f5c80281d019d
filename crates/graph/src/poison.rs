//! Poison in lanes that no node may read: only in builds with debug assertions.
//!
//! ```text
//!  before a node runs    0 ─── its packets ─── n ────── no packets ────── end
//!   slots it needs       as others left them   │ poison
//!   the others           poison ───────────────┘
//! ```
//!
//! The builder proves that every path carries each lane that is read. It cannot prove that a
//! node fills the lane for every packet on such an edge. Without poison a forgotten packet
//! has the value of an earlier packet, which is often right.

use lookup::Hop;
use lookup::exact::Key;

/// A type that slots hold.
pub(crate) trait Poison {
    /// No index that there is; as an IPv4 address one that is nobody's (RFC 1112 §4).
    const POISON: Self;
}

impl Poison for u16 {
    const POISON: u16 = 0xfdfd;
}

impl Poison for u32 {
    const POISON: u32 = 0xfdfd_fdfd;
}

impl Poison for u64 {
    const POISON: u64 = 0xfdfd_fdfd_fdfd_fdfd;
}

impl Poison for u128 {
    const POISON: u128 = 0xfdfd_fdfd_fdfd_fdfd_fdfd_fdfd_fdfd_fdfd;
}

impl Poison for Hop {
    const POISON: Hop = Hop(u32::POISON);
}

impl Poison for Key {
    const POISON: Key = Key::new(u64::POISON, u16::POISON);
}
