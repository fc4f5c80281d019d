//! The reverse of `offload`: segments of one TCP stream leave as one large frame, which the
//! kernel cuts at the exit (in the card, if the card can; for a host on this machine not at
//! all). This takes one system call and one pass through the kernel instead of one for each
//! segment.
//!
//! Segments are joined only if the kernel will cut the very same frames again: successive
//! segments of one size (except the last), with the same headers except for length, id,
//! sequence and checksum. Their checksums must be known to be right, because they were
//! computed here ([`Packet::SUMMED`](crate::Packet)): the kernel computes them anew, and
//! would correct a wrong one.
//!
//! Source: the kernel's `tcp_gro_receive`, `tcp_gso_segment`.

use super::offload::{self, HEADER, fold, put16};
use crate::Owned;

/// A frame's TCP segment.
#[derive(Clone, Copy)]
struct Segment<'f> {
    frame: &'f [u8],
    ipv6: bool,
    /// Where TCP begins.
    l4: usize,
    /// Where the data begin; there are some.
    data: usize,
}

impl<'f> Segment<'f> {
    /// Without tags, options of IPv4, extension headers, padding; no fragment.
    fn of(frame: &'f [u8]) -> Option<Segment<'f>> {
        let ipv6 = match frame.get(12..15)? {
            [0x08, 0x00, 0x45] => false,
            [0x86, 0xdd, version] if version >> 4 == 6 => true,
            _ => return None,
        };
        let l4 = if ipv6 { 54 } else { 34 };
        let data = l4 + usize::from(frame.get(l4 + 12)? >> 4) * 4;
        let len = if ipv6 { 40 + number(frame, 18) } else { number(frame, 16) };
        let whole = ipv6 || number(frame, 20) & !DONT_FRAGMENT == 0;
        let tcp = frame[if ipv6 { 20 } else { 23 }] == 6;
        let right = tcp && whole && len + 14 == frame.len();
        (right && data >= l4 + 20 && data < frame.len()).then_some(Segment {
            frame,
            ipv6,
            l4,
            data,
        })
    }

    fn len(self) -> usize {
        self.frame.len() - self.data
    }

    fn sequence(self) -> u32 {
        let at = self.l4 + 4;
        self.frame[at..at + 4].iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
    }

    fn flags(self) -> u8 {
        self.frame[self.l4 + 13]
    }

    /// Whether this is the `nth` segment after `first`, with `before` bytes of data in between.
    fn follows(self, first: Segment<'_>, nth: usize, before: usize) -> bool {
        let same = |from: usize, to: usize| self.frame[from..to] == first.frame[from..to];
        let l4 = self.l4;
        if (self.ipv6, l4, self.data) != (first.ipv6, first.l4, first.data) {
            return false;
        }
        let ip = if self.ipv6 {
            same(0, 18) && same(20, l4)
        } else {
            let id = number(first.frame, 18).wrapping_add(nth) as u16;
            same(0, 16) && usize::from(id) == number(self.frame, 18) && same(20, 24) && same(26, l4)
        };
        // Ports; acknowledgement and length; window; urgent pointer and options.
        let tcp = same(l4, l4 + 4) && same(l4 + 8, l4 + 13) && same(l4 + 14, l4 + 16);
        let stream = first.sequence().wrapping_add(before as u32) == self.sequence();
        let plain = self.flags() & !LAST_ONLY == ACK;
        ip && tcp && same(l4 + 18, self.data) && stream && plain && self.len() <= first.len()
    }
}

/// How many packets from the front go as one; 1 where the first goes alone.
#[inline]
pub(super) fn run(packets: &[Option<Owned>]) -> usize {
    let Some(Some(first)) = packets.first() else { return 1 };
    if !first.packet().is_summed() { 1 } else { run_of(packets) }
}

fn run_of(packets: &[Option<Owned>]) -> usize {
    let summed = |packet: &Option<Owned>| packet.as_ref().is_some_and(|p| p.packet().is_summed());
    let frames = packets.iter().take_while(|packet| summed(packet)).flatten().map(Owned::data);
    run_of_frames(frames)
}

fn run_of_frames<'f>(mut frames: impl Iterator<Item = &'f [u8]>) -> usize {
    let Some(first) = frames.next().and_then(Segment::of) else { return 1 };
    if first.flags() != ACK {
        return 1;
    }
    let (mut n, mut data) = (1, first.len());
    for frame in frames {
        let Some(next) = Segment::of(frame).filter(|next| next.follows(first, n, data)) else {
            break;
        };
        if data + next.len() > MOST_DATA {
            break;
        }
        (n, data) = (n + 1, data + next.len());
        if next.flags() != ACK || next.len() < first.len() {
            break;
        }
    }
    n
}

/// The bytes before the data of a run of frames: the header beside the frame, and the frame's own headers.
pub(super) struct Joined {
    pub(super) beside: [u8; HEADER],
    headers: [u8; MOST_HEADERS],
    /// Bytes of headers of each frame.
    pub(super) data: usize,
}

impl Joined {
    /// The headers of a run for which [`run`] was more than 1.
    pub(super) fn of<'f>(mut run: impl Iterator<Item = &'f [u8]>) -> Option<Joined> {
        let first = Segment::of(run.next()?)?;
        let (mut len, mut flags) = (first.frame.len(), first.flags());
        for next in run {
            len += next.len() - first.data;
            flags |= next[first.l4 + 13];
        }
        let mut headers = [0; MOST_HEADERS];
        let head = &mut headers[..first.data];
        head.copy_from_slice(&first.frame[..first.data]);
        let (addresses, l4) = if first.ipv6 {
            put16(head, 18, len - 54);
            (22..54, first.l4)
        } else {
            put16(head, 16, len - 14);
            put16(head, 24, 0);
            let sum = !fold(offload::add(0, &head[14..34]));
            head[24..26].copy_from_slice(&sum.to_ne_bytes());
            (26..34, first.l4)
        };
        head[l4 + 13] = flags;
        // The kernel continues from the sum of the pseudo-header.
        let pseudo = offload::add(0, &head[addresses]) + u64::from(6_u16.to_be());
        let sum = fold(pseudo + u64::from(((len - l4) as u16).to_be()));
        head[l4 + 16..l4 + 18].copy_from_slice(&sum.to_ne_bytes());
        let beside = offload::header_of(first.ipv6, first.data, first.len(), l4);
        Some(Joined { beside, headers, data: first.data })
    }

    pub(super) fn headers(&self) -> &[u8] {
        &self.headers[..self.data]
    }
}

fn number(frame: &[u8], at: usize) -> usize {
    usize::from(frame[at]) << 8 | usize::from(frame[at + 1])
}

const ACK: u8 = 0x10;
/// PSH and FIN: they end a run.
const LAST_ONLY: u8 = 0x09;
const DONT_FRAGMENT: usize = 0x4000;
/// Link, IPv6, TCP with all its options.
const MOST_HEADERS: usize = 14 + 40 + 60;
/// Of data: the packet's length has 16 bits.
const MOST_DATA: usize = 65_535 - 40 - 60;

#[cfg(test)]
mod tests {
    use super::super::offload::{Offload, Segments, tests::unfinished};
    use super::*;

    /// The segments that a super-frame is cut into.
    fn cut(ipv6: bool, data: usize, size: u16) -> Vec<Vec<u8>> {
        let (mut frame, _, l4) = unfinished(ipv6, true, 0, data);
        frame[l4 + 13] = ACK | LAST_ONLY;
        let header = offload::header_of(ipv6, l4 + 32, size.into(), l4);
        let offload = Offload::parse(&header).unwrap();
        let mut segments = Segments::of(&frame, &offload).unwrap();
        let mut all = Vec::new();
        while segments.next_len() > 0 {
            let mut one = vec![0; segments.next_len()];
            segments.write(&frame, &mut one);
            all.push(one);
        }
        all
    }

    fn of(frames: &[Vec<u8>]) -> usize {
        run_of_frames(frames.iter().map(|frame| &frame[..]))
    }

    #[test]
    fn what_was_cut_is_joined_and_cut_again_the_same() {
        for ipv6 in [false, true] {
            for (data, size) in [(4000, 1000), (4001, 1000), (60_000, 1448), (2, 1)] {
                let frames = cut(ipv6, data, size);
                let n = frames.len();
                assert_eq!(of(&frames), n, "{ipv6} {data} {size}");
                let joined = Joined::of(frames.iter().map(|frame| &frame[..])).unwrap();
                let mut whole = joined.headers().to_vec();
                frames.iter().for_each(|frame| whole.extend(&frame[joined.data..]));
                let offload = Offload::parse(&joined.beside).unwrap();
                let mut segments = Segments::of(&whole, &offload).unwrap();
                for frame in &frames {
                    let mut one = vec![0; segments.next_len()];
                    segments.write(&whole, &mut one);
                    assert!(one == *frame, "{ipv6} {data} {size}");
                }
                assert_eq!(segments.next_len(), 0);
            }
        }
    }

    /// If any byte differs from the expected one, the frame is not joined.
    #[test]
    fn nothing_else_goes_together() {
        for ipv6 in [false, true] {
            let frames = cut(ipv6, 3000, 1000);
            let headers = if ipv6 { 86 } else { 66 };
            let sums = if ipv6 { vec![70, 71] } else { vec![24, 25, 50, 51] };
            for at in (0..headers).filter(|at| !sums.contains(at)) {
                let mut changed = frames.clone();
                changed[1][at] ^= 0x20;
                assert_eq!(of(&changed), 1, "{ipv6}, byte {at}");
            }
            let mut other = frames.clone();
            other.swap(1, 2);
            assert_eq!(of(&other), 1, "out of order");
            other = frames.clone();
            let flags = if ipv6 { 67 } else { 47 };
            other[1][flags] |= 8;
            assert_eq!(of(&other), 2, "PSH ends a run");
            other = frames;
            other[0][flags] |= 8;
            assert_eq!(of(&other), 1, "and begins none");
        }
        for len in 0..80 {
            assert_eq!(of(&[cut(false, 2000, 1000)[0][..len].to_vec(), vec![0; len]]), 1);
        }
    }
}
