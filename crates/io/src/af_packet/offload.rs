//! Does the work that the kernel leaves to a network card, where there is no card. A host on this
//! machine (a veth pair, a bridge) sends frames without a computed checksum, and one frame of up to
//! 64 KiB for many TCP or UDP segments. A header beside each frame describes that (`struct
//! virtio_net_hdr`):
//!
//! ```text
//!  flags u8 │ gso kind u8 │ header bytes u16 │ segment u16 │ sum from u16 │ sum at u16
//!
//!  unfinished   Ethernet │ IP │ TCP │ data                the sum from TCP on goes to its field
//!  super-frame  Ethernet │ IP │ TCP │ data data data da   cut into segments:
//!               Ethernet │ IP │ TCP │ data
//!               Ethernet │ IP │ TCP │ data                length, id, sequence, flags, sums are each one's own
//! ```
//!
//! Source: virtio 1.2 §5.1.6; for cutting, the kernel's `tcp_gso_segment` and
//! `__udp_gso_segment`. All numbers come from outside: each is checked.

/// The work that is left on a frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Offload {
    /// The start of the checksum's range, and the offset of its field from there.
    sum: Option<(usize, usize)>,
    /// How a super-frame is cut; `None`: it is an ordinary frame.
    cut: Option<Cut>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Cut {
    tcp: bool,
    /// Bytes of data in each segment.
    size: usize,
}

impl Offload {
    /// Reads the header; `None` for a super-frame of a kind that cannot be cut here.
    #[inline]
    pub(super) fn parse(header: &[u8; HEADER]) -> Option<Offload> {
        if header[0] & NEEDS_SUM == 0 && header[1] == 0 {
            return Some(Offload::default());
        }
        let half = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let sum = (header[0] & NEEDS_SUM != 0).then(|| (half(6), half(8)));
        let tcp = match header[1] & !WITH_ECN {
            0 => return Some(Offload { sum, cut: None }),
            KIND_TCP4 | KIND_TCP6 => true,
            KIND_UDP => false,
            _ => return None,
        };
        let size = half(4);
        (size > 0).then_some(Offload { sum, cut: Some(Cut { tcp, size }) })
    }

    /// Whether the frame is one for many.
    #[inline]
    pub(super) fn is_super_frame(&self) -> bool {
        self.cut.is_some()
    }

    /// Whether nothing is left to do.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        *self == Offload::default()
    }

    /// The same for a frame that has become `by` bytes longer before its type: by a tag.
    #[inline]
    pub(super) fn moved(self, by: usize) -> Offload {
        Offload { sum: self.sum.map(|(from, at)| (from + by, at)), ..self }
    }

    /// Computes the checksum that an ordinary frame lacks. Returns false, and changes nothing,
    /// where its field is not in the frame.
    pub(super) fn finish(&self, frame: &mut [u8]) -> bool {
        let Some((from, at)) = self.sum else { return true };
        let Some(rest) = frame.get_mut(from..) else { return false };
        if at + 2 > rest.len() {
            return false;
        }
        // The field holds the sum of the pseudo-header, which is thereby included.
        let sum = !fold(add(0, rest));
        // A UDP checksum of 0 would mean that there is none (RFC 768).
        let sum = if sum == 0 && at == UDP_SUM { 0xffff } else { sum };
        rest[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
        true
    }
}

/// The segments of a super-frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments {
    /// Where its IP header begins.
    l3: usize,
    /// Where TCP or UDP begins; `l3` + 20 or more.
    l4: usize,
    /// Where the data begins: the header's end, `l4` + 8 or more.
    data: usize,
    /// The super-frame's end: more than `data`.
    end: usize,
    ipv6: bool,
    cut: Cut,
    /// Where the next segment's data begins.
    next: usize,
}

impl Segments {
    /// The segments of a super-frame; `None` where its header is wrong.
    pub(super) fn of(frame: &[u8], offload: &Offload) -> Option<Segments> {
        let (cut, (l4, at)) = (offload.cut?, offload.sum?);
        let mut l3 = 14;
        while is_tag(frame.get(l3 - 2..l3)?) {
            l3 += 4;
        }
        let ipv6 = match (frame.get(l3 - 2..l3)?, frame.get(l3)? >> 4) {
            ([0x08, 0x00], 4) => false,
            ([0x86, 0xdd], 6) => true,
            _ => return None,
        };
        let ip = if ipv6 { 40 } else { usize::from(frame[l3] & 15) * 4 };
        // IPv6 may have headers in between; IPv4 has none.
        let follows = if ipv6 { l4 >= l3 + ip } else { ip >= 20 && l4 == l3 + ip };
        let right = if cut.tcp { TCP_SUM } else { UDP_SUM };
        if !follows || at != right {
            return None;
        }
        let data = match cut.tcp {
            true => l4 + (usize::from(frame.get(l4 + 12)? >> 4) * 4).max(20),
            false => l4 + 8,
        };
        let end = frame.len();
        (data < end && data <= MOST_HEADERS).then_some(Segments {
            l3,
            l4,
            data,
            end,
            ipv6,
            cut,
            next: data,
        })
    }

    /// Bytes of the next segment; 0 after the last.
    pub(super) fn next_len(&self) -> usize {
        match self.end - self.next {
            0 => 0,
            left => self.data + left.min(self.cut.size),
        }
    }

    /// Writes the next segment of `frame`, the super-frame that this was made from. The segment,
    /// like `into`, has [`Segments::next_len`] bytes.
    pub(super) fn write(&mut self, frame: &[u8], into: &mut [u8]) {
        let (l3, l4, from) = (self.l3, self.l4, self.next);
        let (first, len) = (from == self.data, self.next_len());
        let to = from + len - self.data;
        into[..self.data].copy_from_slice(&frame[..self.data]);
        into[self.data..].copy_from_slice(&frame[from..to]);
        self.next = to;
        let last = to == self.end;
        if self.ipv6 {
            put16(into, l3 + 4, len - l3 - 40);
        } else {
            put16(into, l3 + 2, len - l3);
            let number = (from - self.data) / self.cut.size;
            put16(into, l3 + 4, usize::from(get16(into, l3 + 4)) + number);
            put16(into, l3 + 10, 0);
            let sum = !fold(add(0, &into[l3..l4]));
            into[l3 + 10..l3 + 12].copy_from_slice(&sum.to_ne_bytes());
        }
        let at = if self.cut.tcp {
            let sequence: [u8; 4] = into[l4 + 4..l4 + 8].try_into().expect("4 bytes");
            let sequence = u32::from_be_bytes(sequence).wrapping_add((from - self.data) as u32);
            into[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            // RFC 3168: the sender has reduced its window once. FIN and PSH: at the end.
            let keep = if first { 0xff } else { !CWR } & if last { 0xff } else { !(FIN | PSH) };
            into[l4 + 13] &= keep;
            TCP_SUM
        } else {
            put16(into, l4 + 4, len - l4);
            UDP_SUM
        };
        put16(into, l4 + at, 0);
        let sum = !fold(self.pseudo(into, add(0, &into[l4..])));
        let sum = if sum == 0 && !self.cut.tcp { 0xffff } else { sum };
        into[l4 + at..l4 + at + 2].copy_from_slice(&sum.to_ne_bytes());
    }

    /// Adds the pseudo-header (RFC 793 §3.1, RFC 8200 §8.1).
    fn pseudo(&self, segment: &[u8], sum: u64) -> u64 {
        let addresses =
            if self.ipv6 { self.l3 + 8..self.l3 + 40 } else { self.l3 + 12..self.l3 + 20 };
        let protocol = if self.cut.tcp { 6_u16 } else { 17 };
        let len = (segment.len() - self.l4) as u16;
        add(sum, &segment[addresses]) + u64::from(protocol.to_be()) + u64::from(len.to_be())
    }
}

/// The header of a super-frame of TCP: where its data and TCP begin, and the size of its
/// segments' data.
pub(super) fn header_of(ipv6: bool, data: usize, size: usize, l4: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    (header[0], header[1]) = (NEEDS_SUM, if ipv6 { KIND_TCP6 } else { KIND_TCP4 });
    let mut put = |at: usize, value: usize| {
        header[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    };
    put(2, data);
    put(4, size);
    put(6, l4);
    put(8, TCP_SUM);
    header
}

/// A VLAN tag's type: 802.1Q, 802.1ad, or what came before it.
fn is_tag(kind: &[u8]) -> bool {
    matches!(kind, [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00])
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes the lower 16 bits.
pub(super) fn put16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// Adds the bytes as 16-bit words in the machine's byte order (RFC 1071 §2.B: any order will do).
pub(super) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let words = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word)));
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + words.sum::<u64>() + u64::from(u32::from_ne_bytes(last))
}

pub(super) fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Bytes of the header.
pub(super) const HEADER: usize = 10;
const NEEDS_SUM: u8 = 1;
const KIND_TCP4: u8 = 1;
const KIND_TCP6: u8 = 4;
/// Datagrams of one size (`UDP_L4`); no present kernel makes the older fragments (`UDP`, 3).
const KIND_UDP: u8 = 5;
const WITH_ECN: u8 = 0x80;
const TCP_SUM: usize = 16;
const UDP_SUM: usize = 6;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// Bytes of headers in front of a segment's data: two tags, IPv6 with some extension
/// headers, TCP with all its options.
const MOST_HEADERS: usize = 256;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The checksum of the pseudo-header and all from `l4` on: 0 where it is right.
    fn check(frame: &[u8], l3: usize, l4: usize, protocol: u16) -> u16 {
        let ipv6 = frame[l3] >> 4 == 6;
        let addresses = if ipv6 { l3 + 8..l3 + 40 } else { l3 + 12..l3 + 20 };
        let len = (frame.len() - l4) as u16;
        let sum = add(add(0, &frame[addresses]), &frame[l4..]);
        !fold(sum + u64::from(protocol.to_be()) + u64::from(len.to_be()))
    }

    /// A frame with `tags`, whose transport checksum is that of its pseudo-header.
    pub(in super::super) fn unfinished(
        ipv6: bool,
        tcp: bool,
        tags: usize,
        data: usize,
    ) -> (Vec<u8>, usize, usize) {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|i| frame.extend([[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]][i % 2]));
        frame.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
        let l3 = frame.len();
        let (header, protocol) = if tcp { (32, 6) } else { (8, 17) };
        let len = (header + data) as u16;
        if ipv6 {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend((0..32).map(|i| i + 0x20));
        } else {
            frame.extend([0x45, 0]);
            frame.extend((len + 20).to_be_bytes());
            frame.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2]);
            let sum = !fold(add(0, &frame[l3..]));
            frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_ne_bytes());
        }
        let l4 = frame.len();
        frame.extend([0x30, 0x39, 0, 80]);
        if tcp {
            frame.extend(0xffff_fff0_u32.to_be_bytes());
            frame.extend([0, 0, 0, 1, 0x80, CWR | PSH | FIN | 0x10, 1, 0, 0, 0, 0, 0]);
            frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else {
            frame.extend(len.to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend((0..data).map(|i| i as u8));
        let addresses = if ipv6 { l3 + 8..l3 + 40 } else { l3 + 12..l3 + 20 };
        let sum = add(0, &frame[addresses]) + u64::from(u16::from(protocol).to_be());
        let sum = fold(sum + u64::from(len.to_be()));
        let at = l4 + if tcp { TCP_SUM } else { UDP_SUM };
        frame[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
        (frame, l3, l4)
    }

    fn header(kind: u8, size: u16, l4: usize, at: usize) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        (header[0], header[1]) = (NEEDS_SUM, kind);
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        header[6..8].copy_from_slice(&(l4 as u16).to_ne_bytes());
        header[8..].copy_from_slice(&(at as u16).to_ne_bytes());
        header
    }

    const KINDS: [(bool, bool); 4] = [(false, true), (true, true), (false, false), (true, false)];

    #[test]
    fn a_checksum_is_finished() {
        for (ipv6, tcp) in KINDS {
            for data in [0, 1, 2, 7, 1400] {
                let (mut frame, l3, l4) = unfinished(ipv6, tcp, 1, data);
                let at = if tcp { TCP_SUM } else { UDP_SUM };
                // As the kernel has it: the tag lies beside the frame.
                let offload = Offload::parse(&header(0, 0, l4 - 4, at)).unwrap().moved(4);
                assert!(!offload.is_super_frame() && !offload.is_done());
                assert!(offload.finish(&mut frame));
                assert_eq!(
                    check(&frame, l3, l4, if tcp { 6 } else { 17 }),
                    0,
                    "{ipv6} {tcp} {data}"
                );
            }
        }
        assert!(Offload::parse(&[0; HEADER]).unwrap().is_done());
    }

    #[test]
    fn a_udp_checksum_of_zero_is_written_as_all_ones() {
        let (mut frame, _, l4) = unfinished(false, false, 0, 2);
        let sum = fold(add(0, &frame[l4..]));
        let last = frame.len() - 2;
        let old = u16::from_ne_bytes([frame[last], frame[last + 1]]);
        // Makes the sum all ones, so the checksum 0.
        let new = u64::from(!sum) + u64::from(old);
        frame[last..].copy_from_slice(&fold(new).to_ne_bytes());
        assert!(Offload::parse(&header(0, 0, l4, UDP_SUM)).unwrap().finish(&mut frame));
        assert_eq!(frame[l4 + 6..l4 + 8], [0xff, 0xff]);
    }

    #[test]
    fn a_super_frame_becomes_frames_that_a_host_would_have_sent() {
        for (ipv6, tcp) in KINDS {
            for (tags, data, size) in [(0, 4000, 1000), (1, 4001, 1448), (2, 10, 1448), (0, 9, 3)] {
                let (frame, l3, l4) = unfinished(ipv6, tcp, tags, data);
                let kind = [[KIND_UDP, KIND_UDP], [KIND_TCP4, KIND_TCP6]][usize::from(tcp)];
                let kind = kind[usize::from(ipv6)] | WITH_ECN;
                let at = if tcp { TCP_SUM } else { UDP_SUM };
                let offload = Offload::parse(&header(kind, size, l4, at)).unwrap();
                let mut segments = Segments::of(&frame, &offload).unwrap();
                let (mut whole, mut count) = (Vec::<u8>::new(), 0_u16);
                while segments.next_len() > 0 {
                    let mut one = vec![0xee; segments.next_len()];
                    segments.write(&frame, &mut one);
                    assert_eq!(check(&one, l3, l4, if tcp { 6 } else { 17 }), 0);
                    if ipv6 {
                        assert_eq!(usize::from(get16(&one, l3 + 4)), one.len() - l3 - 40);
                    } else {
                        assert_eq!(!fold(add(0, &one[l3..l4])), 0, "the IPv4 header's sum");
                        assert_eq!(usize::from(get16(&one, l3 + 2)), one.len() - l3);
                        assert_eq!(get16(&one, l3 + 4), 0xffff_u16.wrapping_add(count));
                    }
                    let rest = segments.next_len() == 0;
                    if tcp {
                        let offset = u32::from(count) * u32::from(size);
                        let sequence = 0xffff_fff0_u32.wrapping_add(offset).to_be_bytes();
                        assert_eq!(one[l4 + 4..l4 + 8], sequence);
                        let ends = if rest { PSH | FIN } else { 0 };
                        let begins = if count == 0 { CWR } else { 0 };
                        assert_eq!(one[l4 + 13], 0x10 | ends | begins);
                        whole.extend(&one[l4 + 32..]);
                    } else {
                        assert_eq!(usize::from(get16(&one, l4 + 4)), one.len() - l4);
                        whole.extend(&one[l4 + 8..]);
                    }
                    assert!(one.len() <= segments.data + usize::from(size));
                    count += 1;
                }
                assert_eq!(usize::from(count), data.div_ceil(usize::from(size)));
                assert!(whole.iter().copied().eq((0..data).map(|i| i as u8)));
            }
        }
    }

    #[test]
    fn lies_are_refused() {
        let (mut frame, _, l4) = unfinished(false, true, 0, 100);
        let of = |kind, size, l4, at| {
            Offload::parse(&header(kind, size, l4, at))
                .and_then(|offload| Segments::of(&frame, &offload))
                .is_some()
        };
        assert!(of(KIND_TCP4, 10, l4, TCP_SUM));
        assert!(!of(KIND_TCP4, 0, l4, TCP_SUM), "segments of nothing");
        assert!(!of(3, 10, l4, TCP_SUM) && !of(77, 10, l4, TCP_SUM), "another kind");
        assert!(!of(KIND_TCP4, 10, l4, UDP_SUM) && !of(KIND_TCP4, 10, l4 + 4, TCP_SUM));
        assert!(!of(KIND_TCP4, 10, 0, TCP_SUM) && !of(KIND_TCP4, 10, 65_535, TCP_SUM));
        let offload = Offload::parse(&header(KIND_TCP4, 10, l4, TCP_SUM)).unwrap();
        for len in 0..frame.len() {
            let segments = Segments::of(&frame[..len], &offload);
            assert_eq!(segments.is_some(), len > l4 + 32, "cut off at {len}");
        }
        frame[14] = 0x4f; // options up to where there are none
        assert!(Segments::of(&frame, &offload).is_none());
        for (from, at) in
            [(65_535, 0), (frame.len() - 1, 0), (frame.len(), 0), (0, frame.len() - 1)]
        {
            let offload = Offload::parse(&header(0, 0, from, at)).unwrap();
            assert!(!offload.finish(&mut frame), "{from} {at}");
        }
    }

    #[cfg(not(miri))] // it wants a folder
    proptest::proptest! {
        /// Whatever lies in the ring: no panic, and no more than is asked for.
        #[test]
        fn nothing_panics(
            header: [u8; HEADER],
            l4 in 0_u16..120,
            mut frame in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            shape in 0..4_usize,
        ) {
            let mut header = header;
            header[1] = [KIND_TCP4, KIND_UDP, KIND_TCP6, header[1]][shape];
            header[6..8].copy_from_slice(&l4.to_ne_bytes());
            header[8..].copy_from_slice(&[TCP_SUM as u16, UDP_SUM as u16][shape % 2].to_ne_bytes());
            if frame.len() > 14 && shape < 3 {
                let ip = if shape == 2 { [0x86, 0xdd, 0x60] } else { [8, 0, 0x45] };
                frame[12..15].copy_from_slice(&ip);
            }
            if let Some(offload) = Offload::parse(&header) {
                offload.finish(&mut frame.clone());
                if let Some(mut segments) = Segments::of(&frame, &offload) {
                    while segments.next_len() > 0 {
                        let mut one = vec![0; segments.next_len()];
                        segments.write(&frame, &mut one);
                    }
                }
            }
        }
    }
}
