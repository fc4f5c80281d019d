//! From a packet to a frame on its way to a Grantor.
//!
//! ```text
//!  link header │ outer IP header │ packet as it came          encapsulated
//!  link header │ packet with its DSCP changed                  direct
//! ```
//!
//! It decrements no TTL and fragments nothing: a packet that exceeds the path's MTU is dropped.

use core::net::IpAddr;

use graph::Packets;
use tables::{AdjacencyId, Cell, Grantor, HopTable, IfaceId, PortId, Protection};
use wire::bytes::{array, be16, put16};
use wire::ipip::{Tunnel4, Tunnel6};
use wire::{checksum, ethernet, ipv4, ipv6};

use super::settings::{Ends, Sum};
use crate::counters::IfaceCounters;
use crate::parse::cut::MIN_PAYLOAD;

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

/// The way to one Grantor, as it was when it was asked for: for many packets.
pub(super) struct Way<'g> {
    cell: &'g Cell,
    /// The cell's first word, in use once a packet has left.
    out: tables::Out,
    /// `None` where this machine has no address to send from.
    tunnel: Option<Tunnel>,
    is_v4: bool,
    /// Frames and bytes that are not counted yet.
    sent: Sum,
}

/// What is put before packets.
enum Tunnel {
    Four(Tunnel4),
    Six(Tunnel6),
}

impl<'g> Ways<'g> {
    /// Puts packet `i` into another, to `grantor`.
    #[inline]
    pub fn encapsulate<N>(
        &self,
        v: &mut Packets<N>,
        i: usize,
        grantor: Option<&Grantor>,
        (mixed, dscp): (u32, u8),
    ) -> Result<Out, Unfit> {
        let mut way = self.to(grantor, mixed).ok_or(Unfit::Unresolved)?;
        let left = way.encapsulate(v, i, dscp);
        self.count(&mut way);
        left
    }

    /// The way to `grantor`, if there is one.
    #[inline]
    pub fn to(&self, grantor: Option<&Grantor>, mixed: u32) -> Option<Way<'g>> {
        let grantor = grantor?;
        let cell = self.hops.adjacency(self.way(grantor, mixed)?);
        let tunnel = match grantor.ip {
            IpAddr::V4(to) => self.from.v4.map(|from| Tunnel::Four(Tunnel4::new(from, to))),
            IpAddr::V6(to) => {
                let tunnel = |from| Tunnel6::new(from, to, self.from.hop_limit);
                self.from.v6.map(|from| Tunnel::Six(tunnel(from)))
            }
        };
        let (out, is_v4) = (cell.out(), grantor.ip.is_ipv4());
        Some(Way { cell, out, tunnel, is_v4, sent: Sum::default() })
    }

    /// The way of all packets of `protection`, where they have one Grantor and one way to it.
    pub fn only(&self, protection: &Protection) -> Option<Way<'g>> {
        let grantor = protection.only()?;
        let is_one = self.hops.step(grantor.hop()).multipath().is_none();
        if is_one { self.to(Some(grantor), 0) } else { None }
    }

    /// Counts what left by `way`.
    #[inline]
    pub fn count(&self, way: &mut Way<'_>) {
        let sent = std::mem::take(&mut way.sent);
        if sent.packets() > 0 {
            self.counters.sent(way.out.iface(), sent.packets(), sent.bytes());
        }
    }

    /// Bytes of the frame that a packet of `packet_len` would be on its way to `grantor`.
    #[inline]
    pub fn frame_len(
        &self,
        packet_len: u16,
        grantor: Option<&Grantor>,
        mixed: u32,
    ) -> Result<u32, Unfit> {
        self.to(grantor, mixed).ok_or(Unfit::Unresolved)?.frame_len(packet_len)
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
}

impl Way<'_> {
    /// Puts packet `i` into another.
    #[inline(always)]
    pub fn encapsulate<N>(&mut self, v: &mut Packets<N>, i: usize, dscp: u8) -> Result<Out, Unfit> {
        let mtu = self.out.mtu();
        match self.tunnel.as_ref().ok_or(Unfit::NoSource)? {
            Tunnel::Four(tunnel) => {
                let outer = tunnel.outer(dscp, &array(v.head(i), 0));
                let Some(outer) = outer.filter(|outer| outer.len() <= mtu) else {
                    return Err(Unfit::TooLong(mtu.saturating_sub(ipv4::MIN_LEN as u16)));
                };
                let put = |head: &mut [u8; 64]| {
                    // cannot be `None`: 64 bytes are more.
                    if let Some(header) = head.first_chunk_mut() {
                        outer.put(header);
                    }
                };
                self.wrap(v, i, (ipv4::MIN_LEN, put), outer.len(), ethernet::IPV4)
            }
            Tunnel::Six(tunnel) => {
                let inner = array(v.head(i), 0);
                let beyond = Unfit::TooLong(mtu.saturating_sub(ipv6::LEN as u16));
                let header = tunnel.header(dscp, &inner).ok_or(beyond)?;
                let len = be16(&header, ipv6::PAYLOAD_LEN).checked_add(ipv6::LEN as u16);
                let len = len.filter(|&len| len <= mtu).ok_or(beyond)?;
                let put = |head: &mut [u8; 64]| head[..ipv6::LEN].copy_from_slice(&header);
                self.wrap(v, i, (ipv6::LEN, put), len, ethernet::IPV6)
            }
        }
    }

    /// As [`Ways::frame_len`].
    #[inline]
    pub fn frame_len(&self, packet_len: u16) -> Result<u32, Unfit> {
        let outer = if self.is_v4 { ipv4::MIN_LEN } else { ipv6::LEN } as u16;
        match packet_len.checked_add(outer) {
            _ if self.tunnel.is_none() => Err(Unfit::NoSource),
            Some(len) if len <= self.out.mtu() => Ok(u32::from(len) + u32::from(self.out.len())),
            _ => Err(Unfit::TooLong(self.out.mtu().saturating_sub(outer))),
        }
    }

    /// Sends packet `i`, with `dscp` in its own header.
    #[inline]
    pub fn direct<N>(&mut self, v: &mut Packets<N>, i: usize, dscp: u8) -> Result<Out, Unfit> {
        let (head, mtu) = (v.head_mut(i), self.out.mtu());
        let len = packet_len(head);
        if len > mtu {
            return Err(Unfit::TooLong(mtu));
        }
        let old = be16(head, 0);
        if self.is_v4 {
            let new = old & !(63 << 2) | u16::from(dscp & 63) << 2;
            let sum = checksum::update(be16(head, ipv4::CHECKSUM), old, new);
            put16(head, ipv4::VERSION_IHL, new);
            put16(head, ipv4::CHECKSUM, sum);
        } else {
            put16(head, ipv6::VERSION, old & !(63 << 6) | u16::from(dscp & 63) << 6);
        }
        self.wrap(
            v,
            i,
            (0, |_: &mut _| ()),
            len,
            if self.is_v4 { ethernet::IPV4 } else { ethernet::IPV6 },
        )
    }

    /// Makes packet `i`, with the header that `put` writes in front of it and then of `len`
    /// bytes, a frame on its way.
    #[inline(always)]
    fn wrap<N>(
        &mut self,
        v: &mut Packets<N>,
        i: usize,
        (outer, put): (usize, impl FnOnce(&mut [u8; 64])),
        len: u16,
        ethertype: u16,
    ) -> Result<Out, Unfit> {
        // What a minimal frame was filled up with may stay behind a packet.
        let kept = len.max(v.len(i).saturating_add(outer as u16).min(MIN_PAYLOAD));
        if !v.wrap(i, outer, self.out.len().into(), kept.into()) {
            return Err(Unfit::NoRoom);
        }
        put(v.head_mut(i));
        if !self.out.is_used() {
            self.cell.mark_used();
            self.out = self.out.used();
        }
        self.cell.write(self.out, v.before_mut(i), ethertype);
        self.sent.add(u32::from(self.out.len()) + u32::from(kept));
        Ok((self.out.port(), self.out.iface()))
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
