//! `ip4_input`: the header checks of a router.
//!
//! ```text
//!  packet ─► version, length, checksum, source ─┬ right ──► ip4_lookup   Dst4
//!                                               ├ longer frame ► cut, ip4_lookup ("longer")
//!                                               ├ from 169.254/16 ► ip4_link_local
//!                                               ├ options ─► punt
//!                                               └ wrong ──► drop, by name
//! ```
//!
//! | cost              | 20 bytes of the header, one branch a packet, taken by bad ones only |
//! |-------------------|---------------------------------------------------------------------|
//!
//! Source: RFC 1812 §5.2.2 (checks), §5.3.7 (martian sources); RFC 791; RFC 3927 §2.7.
//!
//! Not checked here: the TTL, because a packet to this machine may have 1
//! (`ip4_rewrite` does), and martian destinations, which are routes. From here on
//! the vector's length is the packet's: what follows it in the frame is cut off.

use graph::{Node, View, labels};
use wire::bytes::{array, be16};
use wire::{checksum, ipv4};

use crate::class::Class;
use crate::lanes::{Dst4, PuntClass};
use crate::parse::cut::{MIN_PAYLOAD, Uncut};

labels! {
    /// Where packets go.
    pub enum To {
        Lookup = "ip4_lookup" carries [Dst4],
        /// To the same node, unless an application looks at what has been cut off.
        Longer = "longer" carries [Dst4],
        LinkLocal = "ip4_link_local" carries [Dst4],
        Punt = "punt" carries [PuntClass],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The version is not 4: RFC 1812 §5.2.2 (3).
        BadVersion = "bad_version",
        /// Header or total length too short, or longer than the frame: RFC 1812 §5.2.2 (1), (4), (5).
        BadLength = "bad_length",
        /// The header's checksum is wrong: RFC 1812 §5.2.2 (2).
        BadChecksum = "bad_checksum",
        /// From 0/8, 127/8, a multicast or a reserved address: RFC 1812 §5.3.7.
        BadSource = "bad_source",
    }
}

/// The node.
#[derive(Default)]
pub struct Ip4Input(pub Uncut);

impl Node for Ip4Input {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip4_input";
    const HELP: &'static str = "checks IPv4 headers";

    fn process(&mut self, v: &mut View<'_, Self>) {
        for i in 0..v.n() {
            let header = Header::of(v.head(i));
            v.set(Dst4, i, header.dst.swap_bytes());
            if header.plain(v.len(i)) {
                v.leave(i, To::Lookup);
            } else {
                other(v, i, &self.0);
            }
        }
    }
}

/// A header in three loads; numbers in memory order (little-endian).
struct Header {
    /// Version, header length, service, total length, identification, fragment.
    first: u64,
    /// TTL, protocol, checksum, source.
    second: u64,
    dst: u32,
}

impl Header {
    #[inline(always)]
    fn of(head: &[u8; 64]) -> Header {
        Header {
            first: u64::from_le_bytes(array(head, 0)),
            second: u64::from_le_bytes(array(head, 8)),
            dst: u32::from_le_bytes(array(head, 16)),
        }
    }

    /// True for a right header without options. All tests are made and joined:
    /// one branch a packet.
    #[inline(always)]
    fn plain(&self, len: u16) -> bool {
        let (a, b) = (self.first, self.second);
        let total = ((a >> 16) as u16).swap_bytes();
        (a as u8 == ipv4::PLAIN)
            & checksum::is_right_words(a, b, self.dst)
            & (total >= ipv4::MIN_LEN as u16)
            & is_exact(total, len)
            & IS_PLAIN_SOURCE[usize::from((b >> 32) as u8)]
    }
}

/// True when nothing follows a packet of `total` bytes in the `len` that its
/// frame has for it, but for the padding of a minimal frame.
#[inline(always)]
fn is_exact(total: u16, len: u16) -> bool {
    // Wraps to more than is allowed where the packet is longer than its frame.
    len.wrapping_sub(total) <= MIN_PAYLOAD.saturating_sub(total)
}

/// RFC 1812 §5.3.7: not "this network" (0/8), loopback (127/8), multicast or
/// reserved (224/3), the limited broadcast included.
const fn source_is_right(first_octet: u8) -> bool {
    first_octet.wrapping_sub(1) < 223 && first_octet != 127
}

/// By the first octet of a source, whether it is surely right and of no link alone. A table,
/// because a load is less than two compares; its four lines are always at hand.
static IS_PLAIN_SOURCE: [bool; 256] = {
    let mut plain = [false; 256];
    let mut octet = 0;
    while octet < plain.len() {
        plain[octet] = source_is_right(octet as u8) && octet != LINK_LOCAL as usize >> 8;
        octet += 1;
    }
    plain
};

/// The first two octets of link-local addresses, which no router forwards from or to:
/// RFC 3927 §2.7.
const LINK_LOCAL: u16 = 0xa9fe;

/// Packets with options or something behind them, of one link alone, and wrong ones.
#[cold]
fn other(v: &mut View<'_, Ip4Input>, i: usize, uncut: &Uncut) {
    let (head, len) = (v.head(i), usize::from(v.len(i)));
    let header_len = usize::from(head[ipv4::VERSION_IHL] & 15) * 4;
    let total = usize::from(be16(head, ipv4::TOTAL_LEN));
    let source = head[ipv4::SRC];
    if len < ipv4::MIN_LEN || header_len < ipv4::MIN_LEN || total < header_len || total > len {
        let version = len > 0 && head[ipv4::VERSION_IHL] >> 4 != 4;
        return v.drop(i, if version { Why::BadVersion } else { Why::BadLength });
    }
    if head[ipv4::VERSION_IHL] >> 4 != 4 {
        return v.drop(i, Why::BadVersion);
    }
    // cannot panic: a header has at most 60 bytes, and `head` 64.
    if !checksum::is_right(&head[..header_len]) {
        return v.drop(i, Why::BadChecksum);
    }
    if !source_is_right(source) {
        return v.drop(i, Why::BadSource);
    }
    let plain = header_len == ipv4::MIN_LEN;
    let from_link = be16(head, ipv4::SRC) == LINK_LOCAL;
    // The kernel, which takes what has options, would forward to such a destination.
    if from_link || !plain && be16(head, ipv4::DST) == LINK_LOCAL {
        return v.leave(i, To::LinkLocal);
    }
    if plain {
        let exact = is_exact(total as u16, len as u16); // from an address that may be of a link
        uncut.cut(v, i, total as u16);
        return v.leave(i, if exact { To::Lookup } else { To::Longer });
    }
    v.set(PuntClass, i, Class::Options);
    v.leave(i, To::Punt);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, one, to_p0, udp4};
    use wire::build::Frame;

    fn run(frame: Frame<'_>) -> String {
        one(&mut Net::new().bench(), &mut Ip4Input::default(), &to_p0(frame)).to
    }

    #[test]
    fn a_right_header_goes_on_with_its_destination() {
        let frame = to_p0(udp4("10.0.0.1").payload(&[7; 100]));
        let got = one(&mut Net::new().bench(), &mut Ip4Input::default(), &frame);
        assert_eq!((got.to.as_str(), got.get(Dst4), got.frame), ("ip4_lookup", 0x0a00_0001, frame));
        assert_eq!(run(udp4("10.0.0.1").ttl(1)), "ip4_lookup");
    }

    #[test]
    fn what_follows_the_packet_is_cut_off() {
        let cut = |frame: Frame<'_>| {
            let got = one(&mut Net::new().bench(), &mut Ip4Input::default(), &to_p0(frame));
            assert_eq!(usize::from(got.len) + 14, got.frame.len());
            (got.to, got.frame)
        };
        let as_it_is = |frame: Frame<'_>| ("ip4_lookup".to_owned(), to_p0(frame));
        let as_cut = |frame: Frame<'_>| ("longer".to_owned(), to_p0(frame));
        let exact = udp4("10.0.0.1").payload(&[9; 30]);
        assert_eq!(cut(exact.pad_to(200)), as_cut(exact));
        let padded = udp4("10.0.0.1").pad_to(60);
        assert_eq!(cut(padded), as_it_is(padded));
        assert_eq!(cut(udp4("10.0.0.1").pad_to(64)), as_cut(padded));
        assert_eq!(cut(udp4("10.0.0.1")), as_it_is(udp4("10.0.0.1")));
    }

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(run(udp4("10.0.0.1").wrong_ip_checksum()), "drop: bad_checksum");
        assert_eq!(run(udp4("10.0.0.1").claim_len(19)), "drop: bad_length");
        assert_eq!(run(udp4("10.0.0.1").claim_len(300)), "drop: bad_length");
        let from = |src: &str| run(Frame::ipv4(src.parse().unwrap(), [10, 0, 0, 1].into(), 17));
        for src in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"]
        {
            assert_eq!(from(src), "drop: bad_source", "{src}");
        }
        for src in ["169.0.0.1", "169.253.255.255", "169.255.0.0", "223.255.255.255"] {
            assert_eq!(from(src), "ip4_lookup", "{src}");
        }
        assert_eq!(from("1.0.0.0"), "ip4_lookup");
    }

    #[test]
    fn damaged_first_bytes() {
        let with = |first: u8| {
            let mut frame = to_p0(udp4("10.0.0.1").payload(&[0; 60]));
            frame[14] = first;
            one(&mut Net::new().bench(), &mut Ip4Input::default(), &frame).to
        };
        assert_eq!(with(0x44), "drop: bad_length");
        assert_eq!(with(0x65), "drop: bad_version");
        assert_eq!(with(0x46), "drop: bad_checksum");
        let frame = to_p0(udp4("10.0.0.1"));
        for len in 14..34 {
            let got = one(&mut Net::new().bench(), &mut Ip4Input::default(), &frame[..len]);
            assert_eq!(got.to, "drop: bad_length", "{len}");
        }
    }

    #[test]
    fn what_is_of_one_link_is_set_apart() {
        let from =
            |src: &str, dst: &str| Frame::ipv4(src.parse().unwrap(), dst.parse().unwrap(), 17);
        for src in ["169.254.0.0", "169.254.255.255"] {
            assert_eq!(run(from(src, "10.0.0.1")), "ip4_link_local", "{src}");
            assert_eq!(run(from(src, "10.0.0.1").options(&[148, 4, 0, 0])), "ip4_link_local");
            assert_eq!(run(from(src, "10.0.0.1").wrong_ip_checksum()), "drop: bad_checksum");
        }
        // A route's business, but for what the kernel would take.
        assert_eq!(run(from("10.0.0.9", "169.254.0.1")), "ip4_lookup");
        let options = from("10.0.0.9", "169.254.0.1").options(&[148, 4, 0, 0]);
        assert_eq!(run(options), "ip4_link_local");
    }

    #[test]
    fn options_are_the_kernels() {
        let frame = to_p0(udp4("10.0.0.1").options(&[148, 4, 0, 0]));
        let got = one(&mut Net::new().bench(), &mut Ip4Input::default(), &frame);
        assert_eq!((got.to.as_str(), got.get(PuntClass)), ("punt", Class::Options));
        let wrong = udp4("10.0.0.1").options(&[148, 4, 0, 0]).wrong_ip_checksum();
        assert_eq!(run(wrong), "drop: bad_checksum");
    }
}
