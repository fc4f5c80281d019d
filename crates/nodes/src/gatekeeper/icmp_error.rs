//! `icmp_error`: reports to the source of a packet from the front why the packet is dropped.
//!
//! ```text
//!  too long, TTL used up, no route ─► due, and within the rate ─┬ yes ─► output   OutPort
//!                                                               └ no ──► drop, by name
//!  link header, ends swapped │ IP from the interface's own address │ ICMP │ the packet, cut
//! ```
//!
//! | cost | such packets alone: a checksum over what is quoted, at most 576 or 1,280 bytes |
//! |------|---------------------------------------------------------------------------------|
//!
//! The error leaves by the interface that the packet came in by, to the neighbour that sent
//! the packet: no lookup follows a source that may be forged. The kernel sends no error,
//! because it gets no protected packet.
//!
//! Source: RFC 1812 §4.3.2 (length, service, rate, what none is about), RFC 1191 §4, RFC 4443
//! §2.4, §3.2, §3.3.

use std::sync::Arc;

use graph::{Lanes, Node, View, clock, labels};
use lookup::sync::Published;
use tables::{Forwarding, Iface as Interface, Own};
use wire::bytes::{array, be16, put16};
use wire::checksum::Sum;
use wire::{checksum, ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

use super::fault::{Kind, is_due};
use super::lanes::Faulty;
use super::outer::packet_len;
use super::settings::{Counters, Settings};
use crate::class::Bucket;
use crate::counters::IfaceCounters;
use crate::lanes::{Iface, OutPort};

labels! {
    /// Where errors go.
    pub enum To {
        Output = "output" carries [OutPort, Iface],
    }
}

labels! {
    /// Why packets are dropped without an error.
    pub enum Why {
        /// Too long, and no error is due: it is one itself, a later fragment, or to a group.
        TooLong = "too_long",
        /// Its TTL is used up, and no error is due.
        Expired = "ttl_exceeded",
        /// No route leads to its destination, and no error is due.
        Unreachable = "unreachable",
        /// More than `errors_per_s` errors.
        Rate = "rate",
        /// The interface has no address of the family to send from.
        NoAddress = "no_address",
        /// No room before the packet for the headers.
        NoRoom = "no_headroom",
    }
}

/// The node.
pub struct IcmpError {
    forwarding: Arc<Forwarding>,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    ifaces: Arc<IfaceCounters>,
    rate: (u32, Bucket),
}

impl IcmpError {
    /// A node that sends from the addresses in `forwarding`.
    pub fn new(
        forwarding: Arc<Forwarding>,
        settings: Arc<Published<Settings>>,
        counters: Arc<Counters>,
        ifaces: Arc<IfaceCounters>,
    ) -> Self {
        IcmpError { forwarding, settings, counters, ifaces, rate: (0, Bucket::new(0)) }
    }
}

impl Node for IcmpError {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "icmp_error";
    const HELP: &'static str = "sends ICMP errors about packets from the front";
    const READS: Lanes = Lanes::of::<(Faulty, Iface)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        let wanted = self.settings.load(v.guard()).errors_per_s;
        if wanted != self.rate.0 {
            self.rate = (wanted, Bucket::new(wanted));
        }
        let ifaces = self.forwarding.ifaces.load(v.guard());
        let (now, hz) = (v.now(), clock::hz());
        v.leave_all(To::Output);
        for i in 0..v.n() {
            let (kind, iface) = (v.get(Faulty, i).kind(), v.get(Iface, i));
            let Some(interface) = ifaces.get(iface) else {
                v.drop(i, Why::NoAddress);
                continue;
            };
            if !is_due(v.rest(i)) {
                v.drop(i, why(kind));
                continue;
            }
            if !has_address(v.head(i), ifaces.own(iface)) {
                v.drop(i, Why::NoAddress);
                continue;
            }
            if !self.rate.1.take(now, hz) {
                v.drop(i, Why::Rate);
                continue;
            }
            if answer(v, i, kind, interface, ifaces.own(iface)).is_none() {
                v.drop(i, Why::NoRoom);
                continue;
            }
            self.counters.errors.of(kind).add(1);
            self.ifaces.sent(iface, 1, v.frame_len(i).into());
            v.set(OutPort, i, interface.port);
            v.set(Iface, i, iface);
        }
    }
}

fn why(kind: Kind) -> Why {
    match kind {
        Kind::TooLong(_) => Why::TooLong,
        Kind::Expired => Why::Expired,
        Kind::Unreachable => Why::Unreachable,
    }
}

fn has_address(head: &[u8; 64], own: Own) -> bool {
    if head[0] >> 4 == 4 { own.v4.is_some() } else { own.v6.is_some() }
}

/// Makes packet `i` the error about itself; `None` where there is no room.
fn answer(
    v: &mut View<'_, IcmpError>,
    i: usize,
    kind: Kind,
    interface: &Interface,
    own: Own,
) -> Option<()> {
    let head = *v.head(i);
    let link = usize::from(v.frame_len(i).wrapping_sub(v.len(i)));
    let mut before = [0; graph::L2_ROOM];
    let before = before.get_mut(..link)?;
    before.copy_from_slice(v.packet(i).data().get(..link)?);
    let (header, most) = match head[0] >> 4 {
        4 => (ipv4::MIN_LEN + icmp::LEN, MOST4),
        _ => (ipv6::LEN + icmp::LEN, ipv6::MIN_MTU),
    };
    let quoted = usize::from(packet_len(&head).min(v.len(i))).min(most - header);
    if !v.retreat(i, header) || !v.frame(i, link, header + quoted) {
        return None;
    }
    let room = v.before_mut(i);
    let at = room.len().checked_sub(link)?;
    room[at..].copy_from_slice(before);
    let to: [u8; 6] = array(before, ethernet::SRC);
    room[at..at + 6].copy_from_slice(&to);
    room[at + 6..at + 12].copy_from_slice(&interface.mac);
    match head[0] >> 4 {
        4 => four(v, i, kind, (own.v4?.octets(), array(&head, ipv4::SRC)), quoted),
        _ => six(v, i, kind, (own.v6?.octets(), array(&head, ipv6::SRC)), quoted),
    }
    Some(())
}

/// Writes the headers of an error of `quoted` bytes, from one address to the other.
fn four(
    v: &mut View<'_, IcmpError>,
    i: usize,
    kind: Kind,
    (from, to): ([u8; 4], [u8; 4]),
    quoted: usize,
) {
    let (kind, code, mtu) = match kind {
        Kind::TooLong(mtu) => (icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED, mtu),
        Kind::Expired => (icmp::TIME_EXCEEDED, 0, 0),
        Kind::Unreachable => (icmp::UNREACHABLE, icmp::NETWORK, 0),
    };
    let head = v.head_mut(i);
    let (ip, message) = head.split_at_mut(ipv4::MIN_LEN);
    ip.fill(0);
    (ip[ipv4::VERSION_IHL], ip[ipv4::TOS]) = (ipv4::PLAIN, INTERNETWORK_CONTROL);
    (ip[ipv4::TTL], ip[ipv4::PROTOCOL]) = (LIMIT, protocol::ICMP);
    put16(ip, ipv4::TOTAL_LEN, (ipv4::MIN_LEN + icmp::LEN + quoted) as u16);
    ip[ipv4::SRC..ipv4::SRC + 4].copy_from_slice(&from);
    ip[ipv4::DST..ipv4::DST + 4].copy_from_slice(&to);
    let sum = checksum::checksum(ip);
    put16(ip, ipv4::CHECKSUM, sum);
    put(message, kind, code, u32::from(mtu));
    let sum = Sum::new().bytes(&v.rest(i)[ipv4::MIN_LEN..]).checksum();
    put16(v.head_mut(i), ipv4::MIN_LEN + icmp::CHECKSUM, sum);
}

/// The same of IPv6.
fn six(
    v: &mut View<'_, IcmpError>,
    i: usize,
    kind: Kind,
    (from, to): ([u8; 16], [u8; 16]),
    quoted: usize,
) {
    let (kind, code, mtu) = match kind {
        Kind::TooLong(mtu) => (icmpv6::PACKET_TOO_BIG, 0, mtu),
        Kind::Expired => (icmpv6::TIME_EXCEEDED, 0, 0),
        Kind::Unreachable => (icmpv6::UNREACHABLE, icmpv6::NO_ROUTE, 0),
    };
    let len = (icmp::LEN + quoted) as u16;
    let head = v.head_mut(i);
    let (ip, message) = head.split_at_mut(ipv6::LEN);
    ip.fill(0);
    ip[ipv6::VERSION] = 6 << 4;
    (ip[ipv6::NEXT_HEADER], ip[ipv6::HOP_LIMIT]) = (protocol::ICMPV6, LIMIT);
    put16(ip, ipv6::PAYLOAD_LEN, len);
    ip[ipv6::SRC..ipv6::SRC + 16].copy_from_slice(&from);
    ip[ipv6::DST..ipv6::DST + 16].copy_from_slice(&to);
    put(message, kind, code, u32::from(mtu));
    let pseudo = Sum::pseudo6(from.into(), to.into(), protocol::ICMPV6, len.into());
    let sum = pseudo.bytes(&v.rest(i)[ipv6::LEN..]).checksum();
    put16(v.head_mut(i), ipv6::LEN + icmp::CHECKSUM, sum);
}

/// Type, code, no checksum, and what belongs to them.
fn put(message: &mut [u8], kind: u8, code: u8, rest: u32) {
    message[..4].copy_from_slice(&[kind, code, 0, 0]);
    message[4..icmp::LEN].copy_from_slice(&rest.to_be_bytes());
    debug_assert_eq!(be16(message, icmp::CHECKSUM), 0);
}

/// Bytes of an ICMP error at most: RFC 1812 §4.3.2.3. Of ICMPv6: the minimal MTU.
const MOST4: usize = 576;
/// Precedence 6: RFC 1812 §4.3.2.5.
const INTERNETWORK_CONTROL: u8 = 0xc0;
const LIMIT: u8 = 64;
