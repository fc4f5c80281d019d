//! What a program sees of a packet: its context, the descriptor, and the bytes.
//!
//! ```text
//!  buf_addr ─► 0          128 = data_off                                 1,152
//!              │ headroom │ frame as it was received, and zeros behind it │
//!              │ refused  │ up to where the program was seen to read      │
//! ```
//!
//! The deployed programs read `buf_addr`, `data_off`, `pkt_len` and the lengths of headers
//! from DPDK's descriptor of a packet. This is one of our own, with the frame's beginning
//! behind it: whatever passes the check reads inside of that.

use wire::bytes::array;
use wire::{ipv4, ipv6};

use crate::program::Arrival;

/// Where the frame begins in the buffer: DPDK's headroom, which its check takes for granted.
pub(super) const DATA_OFF: usize = 128;
/// Bytes of the buffer. `l2_len` and `l3_len` come to 638 at most.
pub(super) const BUFFER: usize = DATA_OFF + 1_024;
/// Bytes of the descriptor up to where a program may read.
pub(super) const DESCRIPTOR: usize = 80;

/// What a program is called with for a decision.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct InitContext {
    pub(super) now: u64,
}

/// What a program is called with for a packet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PacketContext {
    now: u64,
    expires: u64,
    l3_proto: u16,
    l4_proto: u8,
    fragmented: u8,
    unused: u32,
}

impl PacketContext {
    /// As a program reads it.
    pub(super) fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.now.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.expires.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.l3_proto.to_le_bytes());
        (bytes[18], bytes[19]) = (self.l4_proto, self.fragmented);
        bytes
    }
}

/// DPDK's descriptor of a packet, as far as a program may read it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Descriptor {
    /// The buffer's address.
    pub(super) buf_addr: u64,
    unused_8: u64,
    data_off: u16,
    unused_18: [u16; 9],
    pkt_len: u32,
    unused_40: [u64; 4],
    /// `l2_len` 7 bits, `l3_len` 9, `l4_len` 8.
    tx_offload: u64,
}

const _: () = assert!(size_of::<Descriptor>() == DESCRIPTOR);

impl Descriptor {
    /// Of a packet in the buffer at `buf_addr`.
    #[inline]
    pub(super) fn new(buf_addr: u64, arrival: &Arrival<'_>, headers: &Headers) -> Descriptor {
        Descriptor {
            buf_addr,
            unused_8: 0,
            data_off: DATA_OFF as u16,
            unused_18: [0; 9],
            pkt_len: arrival.len,
            unused_40: [0; 4],
            tx_offload: headers.lengths,
        }
    }

    /// As a program reads it.
    pub(super) fn bytes(&self) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&self.buf_addr.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.data_off.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.pkt_len.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.tx_offload.to_le_bytes());
        bytes
    }
}

/// A packet's headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Headers {
    l3_proto: u16,
    l4_proto: u8,
    fragmented: bool,
    lengths: u64,
}

impl Headers {
    /// `None` where they cannot be read.
    #[inline]
    pub(super) fn parse(arrival: &Arrival<'_>) -> Option<Headers> {
        let packet = arrival.packet;
        let (l3_proto, l4_proto, fragmented, l3_len) = match packet.first()? >> 4 {
            4 if packet.len() >= ipv4::MIN_LEN => {
                let word = u16::from_be_bytes(array(packet, ipv4::FRAGMENT));
                let fragmented = word & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0;
                let len = usize::from(packet[ipv4::VERSION_IHL] & 0xf) * 4;
                (0x0800, packet[ipv4::PROTOCOL], fragmented, len)
            }
            6 => {
                let (fixed, rest) = packet.split_at_checked(ipv6::LEN)?;
                let chain = ipv6::walk(fixed[ipv6::NEXT_HEADER], rest).ok()?;
                (0x86dd, chain.protocol, chain.fragment.is_some(), ipv6::LEN + chain.at)
            }
            _ => return None,
        };
        let l2_len = arrival.link.len();
        let rest = packet.len().checked_sub(l3_len)?;
        if !(ipv4::MIN_LEN..=MOST_L3).contains(&l3_len) || l2_len > MOST_L2 {
            return None;
        }
        let lengths = l2_len | l3_len << 7 | rest.min(MOST_L4) << 16;
        Some(Headers { l3_proto, l4_proto, fragmented, lengths: lengths as u64 })
    }

    /// The context of a packet with these.
    #[inline]
    pub(super) fn context(&self, now: u64, expires: u64) -> PacketContext {
        let Headers { l3_proto, l4_proto, fragmented, .. } = *self;
        let fragmented = u8::from(fragmented);
        PacketContext { now, expires, l3_proto, l4_proto, fragmented, unused: 0 }
    }
}

/// Writes the frame into a buffer of zeros, as far as a program reaches.
#[inline]
pub(super) fn fill(buffer: &mut [u8; BUFFER], reach: usize, arrival: &Arrival<'_>) {
    let mut room = buffer.get_mut(DATA_OFF..reach).unwrap_or_default();
    for part in [arrival.link, arrival.packet] {
        let (to, rest) = room.split_at_mut(part.len().min(room.len()));
        to.copy_from_slice(&part[..to.len()]);
        room = rest;
    }
}

const MOST_L2: usize = 0x7f;
const MOST_L3: usize = 0x1ff;
const MOST_L4: usize = 0xff;
