//! From a packet to a frame on its way to a Grantor.
//!
//! ```text
//!  link header │ outer IP header │ packet as it came          encapsulated
//!  link header │ packet with its DSCP changed                  direct
//! ```
//!
//! No TTL is decremented and nothing is fragmented: what the way cannot carry is a drop.

use core::net::IpAddr;

use graph::Packets;
use tables::{AdjacencyId, Grantor, HopTable, IfaceId, PortId};
use wire::bytes::{array, be16, put16};
use wire::ipip::{Tunnel4, Tunnel6};
use wire::{checksum, ethernet, ipv4, ipv6};

use super::settings::Ends;
use crate::counters::IfaceCounters;
use crate::out::leave::leave;

/// Why a packet does not leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unfit {
    /// No Grantor can be reached.
    Unresolved,
    /// No address of this machine to send from.
    NoSource,
    /// Longer than the way carries, or than a packet can be: than so many bytes, without
    /// what is put before it.
    TooLong(u16),
    /// No room before the packet for the headers.
    NoRoom,
}

/// Where it leaves.
pub(super) type Out = (PortId, IfaceId);

/// What is needed to send a packet.
pub(super) struct Ways<'g> {
    pub hops: &'g HopTable,
    pub from: Ends,
    pub counters: &'g IfaceCounters,
}

impl Ways<'_> {
    /// Puts packet `i` into another, to `grantor`.
    #[inline]
    pub fn encapsulate<N>(
        &self,
        v: &mut Packets<N>,
        i: usize,
        grantor: Option<&Grantor>,
        (mixed, dscp): (u32, u8),
    ) -> Result<Out, Unfit> {
        let grantor = grantor.ok_or(Unfit::Unresolved)?;
        let id = self.way(grantor, mixed).ok_or(Unfit::Unresolved)?;
        let mtu = self.hops.adjacency(id).out().mtu();
        let (len, ethertype) = self.wrap(v, i, grantor.ip, dscp, mtu)?;
        self.send(v, i, id, len, ethertype)
    }

    /// Sends packet `i` by the way to `grantor`, with `dscp` in its own header.
    #[inline]
    pub fn direct<N>(
        &self,
        v: &mut Packets<N>,
        i: usize,
        grantor: Option<&Grantor>,
        (mixed, dscp): (u32, u8),
    ) -> Result<Out, Unfit> {
        let grantor = grantor.ok_or(Unfit::Unresolved)?;
        let id = self.way(grantor, mixed).ok_or(Unfit::Unresolved)?;
        let (head, is_v4) = (v.head_mut(i), grantor.ip.is_ipv4());
        let len = packet_len(head);
        let mtu = self.hops.adjacency(id).out().mtu();
        if len > mtu {
            return Err(Unfit::TooLong(mtu));
        }
        let old = be16(head, 0);
        if is_v4 {
            let new = old & !(63 << 2) | u16::from(dscp & 63) << 2;
            let sum = checksum::update(be16(head, ipv4::CHECKSUM), old, new);
            put16(head, ipv4::VERSION_IHL, new);
            put16(head, ipv4::CHECKSUM, sum);
        } else {
            put16(head, ipv6::VERSION, old & !(63 << 6) | u16::from(dscp & 63) << 6);
        }
        self.send(v, i, id, len, if is_v4 { ethernet::IPV4 } else { ethernet::IPV6 })
    }

    /// Bytes of the frame that a packet of `packet_len` would be on its way to `grantor`.
    #[inline]
    pub fn frame_len(
        &self,
        packet_len: u16,
        grantor: Option<&Grantor>,
        mixed: u32,
    ) -> Result<u32, Unfit> {
        let grantor = grantor.ok_or(Unfit::Unresolved)?;
        let id = self.way(grantor, mixed).ok_or(Unfit::Unresolved)?;
        let (outer, has_source) = match grantor.ip {
            IpAddr::V4(_) => (ipv4::MIN_LEN, self.from.v4.is_some()),
            IpAddr::V6(_) => (ipv6::LEN, self.from.v6.is_some()),
        };
        let out = self.hops.adjacency(id).out();
        match packet_len.checked_add(outer as u16) {
            _ if !has_source => Err(Unfit::NoSource),
            Some(len) if len <= out.mtu() => Ok(u32::from(len) + u32::from(out.len())),
            _ => Err(Unfit::TooLong(out.mtu().saturating_sub(outer as u16))),
        }
    }

    /// The port that packets of a flow leave by on their way to `grantor`.
    #[inline]
    pub fn port(&self, grantor: &Grantor, mixed: u32) -> Option<PortId> {
        self.way(grantor, mixed).map(|id| self.hops.adjacency(id).out().port())
    }

    #[inline]
    fn way(&self, grantor: &Grantor, mixed: u32) -> Option<AdjacencyId> {
        self.hops.step_of_flow(grantor.hop(), mixed).forward()
    }

    /// Writes the outer header of packet `i`; gives the length of both.
    #[inline]
    fn wrap<N>(
        &self,
        v: &mut Packets<N>,
        i: usize,
        to: IpAddr,
        dscp: u8,
        mtu: u16,
    ) -> Result<(u16, u16), Unfit> {
        match to {
            IpAddr::V4(to) => {
                let tunnel = Tunnel4::new(self.from.v4.ok_or(Unfit::NoSource)?, to);
                let inner = array(v.head(i), 0);
                let beyond = Unfit::TooLong(mtu.saturating_sub(ipv4::MIN_LEN as u16));
                let header = tunnel.header(dscp, &inner).ok_or(beyond)?;
                let len = be16(&header, ipv4::TOTAL_LEN);
                put(v, i, &header, len, mtu)?;
                Ok((len, ethernet::IPV4))
            }
            IpAddr::V6(to) => {
                let from = self.from.v6.ok_or(Unfit::NoSource)?;
                let inner = array(v.head(i), 0);
                let tunnel = Tunnel6::new(from, to, self.from.hop_limit);
                let beyond = Unfit::TooLong(mtu.saturating_sub(ipv6::LEN as u16));
                let header = tunnel.header(dscp, &inner).ok_or(beyond)?;
                let len = be16(&header, ipv6::PAYLOAD_LEN).checked_add(ipv6::LEN as u16);
                let len = len.ok_or(beyond)?;
                put(v, i, &header, len, mtu)?;
                Ok((len, ethernet::IPV6))
            }
        }
    }

    /// Makes packet `i`, of `len` bytes, a frame on its way.
    #[inline]
    fn send<N>(
        &self,
        v: &mut Packets<N>,
        i: usize,
        id: AdjacencyId,
        len: u16,
        ethertype: u16,
    ) -> Result<Out, Unfit> {
        let cell = self.hops.adjacency(id);
        leave(v, i, cell, (len, ethertype), self.counters).ok_or(Unfit::NoRoom)
    }
}

/// Bytes of the packet that begins with `head`, without what a frame is filled up with.
#[inline]
pub(super) fn packet_len(head: &[u8; 64]) -> u16 {
    if head[0] >> 4 == 4 {
        be16(head, ipv4::TOTAL_LEN)
    } else {
        be16(head, ipv6::PAYLOAD_LEN).saturating_add(ipv6::LEN as u16)
    }
}

/// Puts an outer header before packet `i`, if both, of `len` bytes, fit into the way's MTU.
#[inline]
fn put<N>(v: &mut Packets<N>, i: usize, header: &[u8], len: u16, mtu: u16) -> Result<(), Unfit> {
    if len > mtu {
        return Err(Unfit::TooLong(mtu.saturating_sub(header.len() as u16)));
    }
    if !v.retreat(i, header.len()) {
        return Err(Unfit::NoRoom);
    }
    v.head_mut(i)[..header.len()].copy_from_slice(header); // cannot panic: 20 or 40 of 64
    Ok(())
}
