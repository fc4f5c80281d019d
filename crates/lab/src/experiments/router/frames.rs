//! Frames of 64 bytes for the router, and what must be brought back after a lap.
//!
//! ```text
//!  0        6        12   14                       34 / 54
//!  │ to the router │ from │ type │ IPv4 / IPv6 header │ UDP, zeros … 64
//! ```
//!
//! A forwarded frame comes in again: the router writes the address of a next hop
//! to `to`, so every next hop has the router's own; `from`, which is the next
//! hop's mark here, shows which one was taken.

use std::net::{SocketAddrV4, SocketAddrV6};

use std::sync::Arc;

use io::mem::Stamp;
use lookup::lpm::Lpm;
use lookup::{Addr, Hop};
use tables::Vrf;
use wire::build::Frame;
use wire::checksum;
use wire::ethernet::Mac;

use crate::contestants::Family;

/// The router's address on every port, and that of every next hop.
pub(in crate::experiments) const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Bytes of a frame.
pub(super) const LEN: usize = 64;

/// Laps after which hop limits must be brought back.
pub(super) const MOST_LAPS: u64 = 250;

/// The source address that frames of a next hop carry; 0 is none.
pub(super) fn mark(hop: Hop) -> [u8; 6] {
    let [a, b, c, d] = hop.0.to_be_bytes();
    [2, 0x10, a, b, c, d]
}

/// Frames of one address family.
pub(in crate::experiments) trait Frames: Family {
    /// The offset of the destination.
    const DST: usize;

    /// Writes a frame to `dst` and returns its length.
    fn write(dst: Self, frame: &mut [u8]) -> usize;

    /// Where it goes.
    fn dst(frame: &[u8]) -> Self;

    /// Brings the hop limit and the source address back.
    fn refresh(frame: &mut [u8]);

    /// Puts the family's table into a VRF.
    fn install(vrf: &mut Vrf, table: Arc<dyn Lpm<Self>>);

    /// Gives every packet the next of these destinations, and a full hop limit.
    fn stamp(dsts: &[Self]) -> Stamp;
}

/// Which next hop the frame left by; [`Hop::NONE`] when it has not been forwarded
/// since it was refreshed.
pub(super) fn taken(frame: &[u8]) -> Hop {
    let mut id = [0; 4];
    id.copy_from_slice(&frame[8..12]);
    if frame[6..8] == [2, 0x10] { Hop(u32::from_be_bytes(id)) } else { Hop::NONE }
}

fn forget(frame: &mut [u8]) {
    frame[6..12].copy_from_slice(&HOST);
}

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 2];
const IP: usize = 14;

impl Frames for u32 {
    const DST: usize = IP + 16;

    fn write(dst: u32, frame: &mut [u8]) -> usize {
        let from = SocketAddrV4::new([198, 51, 100, 7].into(), 4000);
        let to = SocketAddrV4::new(dst.to_ip(), 4001);
        let built = Frame::udp4(from, to).macs(Mac(HOST), Mac(ROUTER)).ttl(255).payload(&[0; 22]);
        built.emit(frame).expect("64 bytes of room")
    }

    fn dst(frame: &[u8]) -> u32 {
        wire::bytes::be32(frame, Self::DST)
    }

    fn refresh(frame: &mut [u8]) {
        forget(frame);
        frame[IP + 8] = 255;
        frame[IP + 10..IP + 12].fill(0);
        let sum = checksum::checksum(&frame[IP..IP + 20]);
        frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn install(vrf: &mut Vrf, table: Arc<dyn Lpm<u32>>) {
        vrf.v4 = table;
    }

    fn stamp(dsts: &[u32]) -> Stamp {
        // TTL, protocol, checksum, source, destination: 12 bytes at once.
        let part = |dst: &u32| {
            let mut frame = [0; LEN];
            Self::write(*dst, &mut frame);
            let part: [u8; 12] = wire::bytes::array(&frame, IP + 8);
            part
        };
        stamp::<12>(dsts.iter().map(part).collect(), IP + 8)
    }
}

impl Frames for u128 {
    const DST: usize = IP + 24;

    fn write(dst: u128, frame: &mut [u8]) -> usize {
        let from = SocketAddrV6::new("2001:db8:ffff::7".parse().expect("an address"), 4000, 0, 0);
        let to = SocketAddrV6::new(dst.to_ip(), 4001, 0, 0);
        let built = Frame::udp6(from, to).macs(Mac(HOST), Mac(ROUTER)).ttl(255).payload(&[0; 2]);
        built.emit(frame).expect("64 bytes of room")
    }

    fn dst(frame: &[u8]) -> u128 {
        wire::bytes::be128(frame, Self::DST)
    }

    fn refresh(frame: &mut [u8]) {
        forget(frame);
        frame[IP + 7] = 255;
    }

    fn install(vrf: &mut Vrf, table: Arc<dyn Lpm<u128>>) {
        vrf.v6 = table;
    }

    fn stamp(dsts: &[u128]) -> Stamp {
        // From the hop limit on, source and destination: 33 bytes at once.
        let part = |dst: &u128| {
            let mut frame = [0; LEN];
            Self::write(*dst, &mut frame);
            let part: [u8; 33] = wire::bytes::array(&frame, IP + 7);
            part
        };
        stamp::<33>(dsts.iter().map(part).collect(), IP + 7)
    }
}

/// Writes the next of `parts` into each frame, `at` so many bytes from its start.
pub(in crate::experiments) fn stamp<const N: usize>(parts: Vec<[u8; N]>, at: usize) -> Stamp {
    let mut next = 0;
    Box::new(move |mut frames| {
        for frame in frames.iter_mut() {
            frame[at..at + N].copy_from_slice(&parts[next]);
            next = if next + 1 == parts.len() { 0 } else { next + 1 };
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refreshes<A: Frames>(dst: A) {
        let mut frame = [0; LEN];
        assert_eq!(A::write(dst, &mut frame), LEN);
        assert_eq!((A::dst(&frame), taken(&frame)), (dst, Hop::NONE));
        let fresh = frame;
        frame[6..12].copy_from_slice(&mark(Hop(70_000)));
        frame[IP + if A::WIDTH == 32 { 8 } else { 7 }] -= 9;
        assert_eq!(taken(&frame), Hop(70_000));
        A::refresh(&mut frame);
        assert_eq!(frame, fresh);
    }

    #[test]
    fn a_refreshed_frame_is_as_it_was() {
        refreshes(0x0a01_0203_u32);
        refreshes(0x2001_0db8_u128 << 96 | 7);
    }
}
