//! The layers of a frame, written one by one.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{Frame, Network, Upper};
use crate::checksum::Sum;
use crate::protocol::FRAGMENT;
use crate::{Error, ethernet, icmp, icmpv6, ipv4, ipv6, room, tcp, udp};

impl Frame<'_> {
    /// MAC addresses, tags, EtherType.
    pub(super) fn emit_link(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let payload = match self.network {
            Network::V4(..) => ethernet::IPV4,
            Network::V6(..) => ethernet::IPV6,
            Network::Arp(_) => ethernet::ARP,
            Network::Other(ethertype) => ethertype,
        };
        let kind = |i: usize| self.tags.get(i).copied().flatten().map_or(payload, |tag| tag.tpid);
        let header = ethernet::Header { dst: self.dst_mac, src: self.src_mac, ethertype: kind(0) };
        let mut at = header.emit(buffer)?;
        for (i, tag) in self.tags.iter().flatten().enumerate() {
            at += tag.emit(kind(i + 1), &mut buffer[at..])?;
        }
        Ok(at)
    }

    pub(super) fn emit_ipv4(
        &self,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let at = ipv4::MIN_LEN + self.options.len();
        room(out, at, "ipv4")?;
        let protocol = self.upper.protocol(false);
        let pseudo = |len: usize| Sum::pseudo4(src, dst, protocol, len as u16);
        let total = at + self.emit_upper(pseudo, &mut out[at..])?;
        let fragment = self.fragment.map_or(ipv4::DONT_FRAGMENT, |fragment| {
            (fragment.offset / 8) | if fragment.more { ipv4::MORE_FRAGMENTS } else { 0 }
        });
        let header = ipv4::Header {
            tos: self.tos,
            total_len: length(total, "ipv4")?,
            ident: self.fragment.map_or(0, |fragment| fragment.ident as u16),
            fragment,
            ttl: self.ttl,
            protocol,
            src,
            dst,
            options: self.options,
        };
        header.emit(out)?;
        if let Some(len) = self.claimed_len {
            set_claimed_len(out, at, len);
        }
        out[ipv4::CHECKSUM] ^= u8::from(self.wrong_ip_checksum);
        Ok(total)
    }

    pub(super) fn emit_ipv6(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let protocol = self.upper.protocol(true);
        let fragment = self.fragment.map(|_| FRAGMENT);
        let kinds = self.extensions.iter().flatten().map(|&(kind, _)| kind);
        let mut kinds = kinds.chain(fragment).chain([protocol]);
        let next_header = kinds.next().unwrap_or(protocol);
        let mut at = ipv6::LEN;
        for &(_, content) in self.extensions.iter().flatten() {
            let header = room(tail(out, at), 8, "ipv6 extension")?;
            header[0] = kinds.next().unwrap_or(protocol);
            header[1] = 0;
            header[2..].copy_from_slice(&content);
            at += 8;
        }
        if let Some(fragment) = self.fragment {
            at += fragment.emit(protocol, tail(out, at))?;
        }
        room(out, at, "ipv6")?;
        let pseudo = |len: usize| Sum::pseudo6(src, dst, protocol, len as u32);
        let total = at + self.emit_upper(pseudo, &mut out[at..])?;
        let header = ipv6::Header {
            traffic_class: self.tos,
            flow_label: 0,
            payload_len: self.claimed_len.unwrap_or(length(total - ipv6::LEN, "ipv6")?),
            next_header,
            hop_limit: self.ttl,
            src,
            dst,
        };
        header.emit(out)?;
        Ok(total)
    }

    /// Upper-layer header, payload, checksum.
    fn emit_upper(&self, pseudo: impl Fn(usize) -> Sum, out: &mut [u8]) -> Result<usize, Error> {
        if self.fragment.is_some_and(|fragment| fragment.offset != 0) {
            return put(self.payload, out);
        }
        let header_len = match self.upper {
            Upper::Udp(src, dst) => {
                let len = length(udp::LEN + self.payload.len(), "udp")?;
                udp::Header { src, dst, len }.emit(out)?
            }
            Upper::Tcp(header) => header.emit(out)?,
            Upper::Icmp(header) => header.emit(out)?,
            Upper::Neighbour(message) => message.emit(out)?,
            Upper::Raw(_) => 0,
        };
        let len = header_len + put(self.payload, &mut out[header_len..])?;
        let out = &mut out[..len];
        let checksum_at = match (self.upper, self.network) {
            (Upper::Udp(..), _) => {
                udp::fill_checksum(pseudo(len), out)?;
                udp::CHECKSUM
            }
            (Upper::Tcp(_), _) => {
                tcp::fill_checksum(pseudo(len), out)?;
                tcp::CHECKSUM
            }
            (Upper::Icmp(_) | Upper::Neighbour(_), Network::V6(src, dst)) => {
                icmpv6::fill_checksum(src, dst, out)?;
                icmp::CHECKSUM
            }
            (Upper::Icmp(_) | Upper::Neighbour(_), _) => {
                icmp::fill_checksum(out)?;
                icmp::CHECKSUM
            }
            (Upper::Raw(_), _) => return Ok(len),
        };
        out[checksum_at] ^= u8::from(self.wrong_checksum);
        Ok(len)
    }
}

pub(super) fn put(bytes: &[u8], buffer: &mut [u8]) -> Result<usize, Error> {
    room(buffer, bytes.len(), "payload")?.copy_from_slice(bytes);
    Ok(bytes.len())
}

/// The buffer from `at` on; nothing where it ends before.
fn tail(buffer: &mut [u8], at: usize) -> &mut [u8] {
    buffer.get_mut(at..).unwrap_or_default()
}

fn length(len: usize, header: &'static str) -> Result<u16, Error> {
    u16::try_from(len).map_err(|_| Error::Field { header, field: "length", found: len as u32 })
}

/// A wrong length under a right checksum: else the checksum would be what is wrong.
fn set_claimed_len(header: &mut [u8], header_len: usize, len: u16) {
    use crate::bytes::put16;
    put16(header, ipv4::TOTAL_LEN, len);
    put16(header, ipv4::CHECKSUM, 0);
    let sum = crate::checksum::checksum(&header[..header_len]);
    put16(header, ipv4::CHECKSUM, sum);
}
