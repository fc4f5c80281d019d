//! A message in the making.

use core::net::IpAddr;

use super::{Decision, HEADER, Ports};
use crate::checksum::Sum;
use crate::protocol::UDP;
use crate::{Error, ipv4, ipv6, room, udp};

/// Writes an IP packet with decisions, as a Grantor sends it: IPv4 with "don't fragment",
/// TTL 64, identification 0; IPv6 with hop limit 255.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    /// Bytes written; those before `udp_at` come at the end.
    len: usize,
    udp_at: usize,
    ends: Ends,
    ports: Ports,
}

#[derive(Clone, Copy, Debug)]
enum Ends {
    V4(core::net::Ipv4Addr, core::net::Ipv4Addr),
    V6(core::net::Ipv6Addr, core::net::Ipv6Addr),
}

impl<'a> Writer<'a> {
    /// Begins a message from a Grantor's address to a Gatekeeper's.
    ///
    /// # Errors
    /// When the buffer has no room for the headers, or the addresses are of two families.
    pub fn new(
        buffer: &'a mut [u8],
        from: IpAddr,
        to: IpAddr,
        ports: Ports,
    ) -> Result<Self, Error> {
        let (ends, udp_at) = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => (Ends::V4(from, to), ipv4::MIN_LEN),
            (IpAddr::V6(from), IpAddr::V6(to)) => (Ends::V6(from, to), ipv6::LEN),
            (_, to) => {
                let found = if to.is_ipv4() { 4 } else { 6 };
                return Err(Error::Field { header: "ggu", field: "receiver's family", found });
            }
        };
        let (payload, len) = (udp_at + udp::LEN, udp_at + udp::LEN + HEADER.len());
        room(buffer, len, "ggu")?[payload..].copy_from_slice(&HEADER);
        Ok(Writer { buffer, len, udp_at, ends, ports })
    }

    /// Bytes of the packet so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True while there is no decision in it.
    pub fn is_empty(&self) -> bool {
        self.len == self.udp_at + udp::LEN + HEADER.len()
    }

    /// Appends a decision.
    ///
    /// # Errors
    /// When there is no room for it; the message is as before.
    pub fn push(&mut self, decision: &Decision) -> Result<(), Error> {
        let most = self.buffer.len().min(MAX_PACKET);
        let have = most.saturating_sub(self.len);
        let free = self.buffer.get_mut(self.len..most).unwrap_or_default();
        let need = decision.wire_len();
        if need > have {
            return Err(Error::NoRoom { header: "ggu decision", need, have });
        }
        self.len += decision.emit(free)?;
        Ok(())
    }

    /// Writes the headers and gives the packet.
    pub fn finish(self) -> &'a [u8] {
        // cannot panic: `new` and `push` wrote up to `len`, at most `MAX_PACKET` bytes.
        let packet = &mut self.buffer[..self.len];
        let (network, datagram) = packet.split_at_mut(self.udp_at);
        let len = datagram.len() as u16;
        let header = udp::Header { src: self.ports.src, dst: self.ports.dst, len };
        header.emit(datagram).expect("a datagram has room for its header");
        let pseudo = match self.ends {
            Ends::V4(src, dst) => {
                let total_len = self.len as u16;
                let (tos, ident, fragment, ttl) = (0, 0, ipv4::DONT_FRAGMENT, 64);
                let (protocol, options) = (UDP, &[][..]);
                ipv4::Header { tos, total_len, ident, fragment, ttl, protocol, src, dst, options }
                    .emit(network)
                    .expect("the packet has room for its header");
                Sum::pseudo4(src, dst, UDP, len)
            }
            Ends::V6(src, dst) => {
                let (traffic_class, flow_label, hop_limit) = (0, 0, 255);
                let (payload_len, next_header) = (len, UDP);
                let header = ipv6::Header {
                    traffic_class,
                    flow_label,
                    payload_len,
                    next_header,
                    hop_limit,
                    src,
                    dst,
                };
                header.emit(network).expect("the packet has room for its header");
                Sum::pseudo6(src, dst, UDP, len.into())
            }
        };
        udp::fill_checksum(pseudo, datagram).expect("a datagram has room for its header");
        packet
    }
}

/// A packet's length, IPv6's too, fits into 16 bits.
const MAX_PACKET: usize = u16::MAX as usize;
