//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, ipv4, put16};
use crate::ethernet::{IPV4, Mac};
use crate::{Error, room, split};

/// Bytes of a packet for Ethernet and IPv4.
pub const LEN: usize = 28;
/// Place of the operation.
pub const OPERATION: usize = 6;
/// Place of the sender's MAC address.
pub const SENDER_MAC: usize = 8;
/// Place of the sender's IPv4 address.
pub const SENDER_IP: usize = 14;
/// Place of the target's MAC address.
pub const TARGET_MAC: usize = 18;
/// Place of the target's IPv4 address.
pub const TARGET_IP: usize = 24;

/// Operation: who has the target's address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has it.
pub const REPLY: u16 = 2;

/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const KIND: [u8; 6] = [0, 1, (IPV4 >> 8) as u8, IPV4 as u8, 6, 4];

/// An ARP packet's fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// [`REQUEST`], [`REPLY`] or another operation.
    pub operation: u16,
    /// The sender's MAC address.
    pub sender_mac: Mac,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's MAC address; of no meaning in a request.
    pub target_mac: Mac,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Header {
    /// Reads a packet; bytes behind it are Ethernet's padding.
    ///
    /// # Errors
    /// When it is cut off or not for IPv4 over Ethernet (RFC 826, "Packet
    /// Reception": the first two questions).
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let (bytes, _) = split(bytes, LEN, "arp")?;
        if bytes[..OPERATION] != KIND {
            let found = be16(bytes, 2).into();
            return Err(Error::Field { header: "arp", field: "protocol type", found });
        }
        Ok(Header {
            operation: be16(bytes, OPERATION),
            sender_mac: Mac(array(bytes, SENDER_MAC)),
            sender_ip: ipv4(bytes, SENDER_IP),
            target_mac: Mac(array(bytes, TARGET_MAC)),
            target_ip: ipv4(bytes, TARGET_IP),
        })
    }

    /// Writes [`LEN`] bytes and returns their number.
    ///
    /// # Errors
    /// When the buffer is shorter.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let out = room(buffer, LEN, "arp")?;
        out[..OPERATION].copy_from_slice(&KIND);
        put16(out, OPERATION, self.operation);
        out[SENDER_MAC..SENDER_IP].copy_from_slice(&self.sender_mac.0);
        out[SENDER_IP..TARGET_MAC].copy_from_slice(&self.sender_ip.octets());
        out[TARGET_MAC..TARGET_IP].copy_from_slice(&self.target_mac.0);
        out[TARGET_IP..LEN].copy_from_slice(&self.target_ip.octets());
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_emitted_parses(tail: [u8; LEN - OPERATION]) {
            let mut bytes = [0; LEN];
            bytes[..OPERATION].copy_from_slice(&KIND);
            bytes[OPERATION..].copy_from_slice(&tail);
            let header = Header::parse(&bytes).unwrap();
            let mut out = [0; LEN];
            header.emit(&mut out).unwrap();
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Header::parse(&bytes);
        }
    }
}
