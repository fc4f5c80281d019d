//! Protocol headers as offsets, checked views and values; checksums.
//!
//! Each protocol is one module with three ways in, from the fastest to the
//! most comfortable:
//!
//! - **constants**: offsets and field values, for nodes that read the first
//!   64 bytes of a packet directly;
//! - a **`View`**: a byte slice whose lengths were checked once, so that its
//!   accessors cannot fail;
//! - a **`Header`**: a value with `parse` and `emit`, where parsing what was
//!   emitted gives the value back.
//!
//! Beside them: [`checksum`] (RFC 1071, 1624), [`flow`] (the hash that keeps a
//! flow on one path), [`pair`] (the one that keeps a pair of hosts at one worker),
//! [`ggu`] (decisions of a Grantor), [`ipip`] (outer headers), [`describe`] (a packet
//! in one line), [`mod@build`] (frames for tests and generators). Numbers are in host
//! byte order; only [`bytes`] knows about the wire's. Nothing here allocates: there is
//! no `std` to do it with.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   build describe pair
//!   arp flow ggu icmpv6 ipip vlan
//!   ethernet icmp ipv4 ipv6 tcp udp
//!   bytes checksum protocol
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arp;
pub mod build;
pub mod bytes;
pub mod checksum;
pub mod describe;
pub mod ethernet;
pub mod flow;
pub mod ggu;
pub mod icmp;
pub mod icmpv6;
pub mod ipip;
pub mod ipv4;
pub mod ipv6;
pub mod pair;
pub mod protocol;
pub mod tcp;
pub mod udp;
pub mod vlan;

/// Why bytes are not the header that they were taken for, or do not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fewer bytes than the header says or needs.
    #[error("{header}: {have} bytes where {need} are needed")]
    Truncated {
        /// The protocol.
        header: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A field has a value that the protocol forbids.
    #[error("{header}: {field} is {found}")]
    Field {
        /// The protocol.
        header: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        found: u32,
    },
    /// An IPv6 packet with more extension headers than [`ipv6::MAX_EXTENSIONS`].
    #[error("ipv6: more than {most} extension headers")]
    TooManyExtensions {
        /// The bound.
        most: usize,
    },
    /// The buffer to write into is too short.
    #[error("{header}: no room: {need} bytes into {have}")]
    NoRoom {
        /// What was to be written.
        header: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
}

/// `bytes`' first `need` bytes and the rest, or what is missing.
fn split<'a>(
    bytes: &'a [u8],
    need: usize,
    header: &'static str,
) -> Result<(&'a [u8], &'a [u8]), Error> {
    bytes.split_at_checked(need).ok_or(Error::Truncated { header, need, have: bytes.len() })
}

/// The first `need` bytes of a buffer to write into.
fn room<'a>(
    buffer: &'a mut [u8],
    need: usize,
    header: &'static str,
) -> Result<&'a mut [u8], Error> {
    let have = buffer.len();
    buffer.get_mut(..need).ok_or(Error::NoRoom { header, need, have })
}
