//! `ip6_input`: the header checks and scope rules of a router.
//!
//! ```text
//!  packet ─► version, length, addresses ─┬ global ────────────────► ip6_lookup   Dst6
//!                                        ├ link-local, multicast ─► punt (never forwarded)
//!                                        ├ longer frame ────────► cut, ip6_lookup ("longer")
//!                                        └ wrong ─────────────────► drop, by name
//! ```
//!
//! | cost | 40 bytes of the header, one branch a packet, taken by the others only |
//! |------|------------------------------------------------------------------------|
//!
//! Source: RFC 8200 §3 (header), §4.3 (hop-by-hop options are passed over, as a
//! router may); RFC 4291 §2.5.2, §2.5.3, §2.5.5, §2.5.6, §2.7; RFC 4007 §9.
//!
//! We differ: IPv4-mapped addresses are dropped on the wire, though lookups take
//! them like any other (RFC 4942 §2.2 warns of them). The hop limit is checked
//! by `ip6_rewrite`, because a packet to this machine may have 1.

use graph::{Node, View, labels};
use wire::bytes::{array, be16};
use wire::{ipv6, protocol};

use crate::class::Class;
use crate::lanes::{Dst6, PuntClass};
use crate::parse::cut::Uncut;

labels! {
    /// Where packets go.
    pub enum To {
        Lookup = "ip6_lookup" carries [Dst6],
        /// To the same node, unless an application looks at what has been cut off.
        Longer = "longer" carries [Dst6],
        Punt = "punt" carries [PuntClass],
    }
}

labels! {
    /// Why packets are dropped.
    pub enum Why {
        /// The version is not 6.
        BadVersion = "bad_version",
        /// Shorter than a header, or payload longer than the frame.
        BadLength = "bad_length",
        /// From a multicast, unspecified or loopback address: RFC 4291 §2.5.2, §2.5.3, §2.7.
        BadSource = "bad_source",
        /// To the unspecified or loopback address: RFC 4291 §2.5.2, §2.5.3.
        BadDestination = "bad_destination",
        /// From or to `::ffff:0:0/96`.
        V4Mapped = "v4_mapped",
        /// A payload of more than 65,535 bytes (RFC 2675).
        Jumbogram = "jumbogram",
    }
}

/// The node.
#[derive(Default)]
pub struct Ip6Input(pub Uncut);

impl Node for Ip6Input {
    type Edge = To;
    type Drop = Why;
    const NAME: &'static str = "ip6_input";
    const HELP: &'static str = "checks IPv6 headers and the scope of addresses";

    fn process(&mut self, v: &mut View<'_, Self>) {
        for i in 0..v.n() {
            let head = v.head(i);
            let word = |at| u64::from_be_bytes(array(head, at));
            let dst = (word(24), word(32));
            let total = be16(head, ipv6::PAYLOAD_LEN).wrapping_add(ipv6::LEN as u16);
            let plain = (head[ipv6::VERSION] >> 4 == 6)
                & (total == v.len(i)) // a minimal frame's padding is cut off
                & (total > ipv6::LEN as u16)
                & is_global(word(8))
                & is_global(dst.0);
            v.set(Dst6, i, u128::from(dst.0) << 64 | u128::from(dst.1));
            if plain {
                v.leave(i, To::Lookup);
            } else {
                other(v, i, &self.0);
            }
        }
    }
}

/// True for a first half that is surely of neither kind that needs a closer
/// look: all zero (unspecified, loopback, IPv4-mapped), or from link-local
/// (`fe80::/10`) to multicast (`ff00::/8`).
#[inline(always)]
fn is_global(upper: u64) -> bool {
    upper.wrapping_sub(1) < (0xfe80 << 48) - 1
}

/// Packets that stay on their link or have something behind them, and wrong ones.
#[cold]
fn other(v: &mut View<'_, Ip6Input>, i: usize, uncut: &Uncut) {
    let (head, len) = (v.head(i), usize::from(v.len(i)));
    if head[ipv6::VERSION] >> 4 != 6 && len > 0 {
        return v.drop(i, Why::BadVersion);
    }
    let payload = usize::from(be16(head, ipv6::PAYLOAD_LEN));
    if len < ipv6::LEN || payload + ipv6::LEN > len {
        return v.drop(i, Why::BadLength);
    }
    if payload == 0 && head[ipv6::NEXT_HEADER] == protocol::HOP_BY_HOP {
        return v.drop(i, Why::Jumbogram);
    }
    let src = u128::from_be_bytes(array(head, ipv6::SRC));
    let dst = u128::from_be_bytes(array(head, ipv6::DST));
    let (from, to) = (Scope::of(src), Scope::of(dst));
    match (from, to) {
        (Scope::Mapped, _) | (_, Scope::Mapped) => v.drop(i, Why::V4Mapped),
        (Scope::None | Scope::Multicast, _) => v.drop(i, Why::BadSource),
        (_, Scope::None) => v.drop(i, Why::BadDestination),
        (_, Scope::Multicast) => punt(v, i, Class::Multicast),
        // RFC 4291 §2.5.6: never forwarded. The kernel knows whether they are for us.
        (Scope::Link, _) | (_, Scope::Link) => punt(v, i, Class::ForUs),
        (Scope::Global, Scope::Global) => {
            let total = (payload + ipv6::LEN) as u16;
            let exact = total == v.len(i); // of an address that needed a closer look
            uncut.cut(v, i, total);
            v.leave(i, if exact { To::Lookup } else { To::Longer });
        }
    }
}

fn punt(v: &mut View<'_, Ip6Input>, i: usize, class: Class) {
    v.set(PuntClass, i, class);
    v.leave(i, To::Punt);
}

/// How far an address reaches.
#[derive(Clone, Copy)]
enum Scope {
    /// Unspecified or loopback.
    None,
    Mapped,
    Link,
    Multicast,
    Global,
}

impl Scope {
    fn of(address: u128) -> Scope {
        if address <= 1 {
            Scope::None
        } else if address >> 32 == 0xffff {
            Scope::Mapped
        } else if address >> 118 == 0x3fa {
            Scope::Link
        } else if address >> 120 == 0xff {
            Scope::Multicast
        } else {
            Scope::Global
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Net, one, to_p0, udp6};
    use graph::testing::Outcome;
    use wire::build::Frame;

    fn run(frame: Frame<'_>) -> Outcome {
        one(&mut Net::new().bench(), &mut Ip6Input::default(), &to_p0(frame))
    }

    fn between(src: &str, dst: &str) -> String {
        let got = run(Frame::ipv6(src.parse().unwrap(), dst.parse().unwrap(), 17).payload(&[0; 8]));
        match got.to.as_str() {
            "punt" => got.get(PuntClass).name().to_owned(),
            to => to.to_owned(),
        }
    }

    #[test]
    fn a_right_header_goes_on_with_its_destination() {
        let got = run(udp6("2001:db8::1"));
        assert_eq!((got.to.as_str(), got.get(Dst6)), ("ip6_lookup", 0x2001_0db8 << 96 | 1));
        let bare = Frame::ipv6("2001:db8::2".parse().unwrap(), "2001:db8::1".parse().unwrap(), 59);
        assert_eq!(run(bare).to, "ip6_lookup");
    }

    #[test]
    fn what_follows_the_packet_is_cut_off() {
        let exact = udp6("2001:db8::1").payload(&[9; 30]);
        let got = run(exact.pad_to(200));
        assert_eq!((got.to.as_str(), got.frame), ("longer", to_p0(exact)));
        let got = run(udp6("2001:db8::1").pad_to(60));
        assert_eq!((got.to.as_str(), got.frame.len()), ("ip6_lookup", 62));
    }

    #[test]
    fn scopes() {
        let global = "2001:db8::1";
        assert_eq!(between("fe80::1", global), "for_us");
        assert_eq!(between(global, "fe80::1"), "for_us");
        assert_eq!(between("febf::1", global), "for_us");
        assert_eq!(between("fec0::1", global), "ip6_lookup");
        assert_eq!(between(global, "ff02::1"), "multicast");
        assert_eq!(between("::", global), "drop: bad_source");
        assert_eq!(between("::1", global), "drop: bad_source");
        assert_eq!(between("ff02::1", global), "drop: bad_source");
        assert_eq!(between(global, "::1"), "drop: bad_destination");
        assert_eq!(between(global, "::"), "drop: bad_destination");
        assert_eq!(between(global, "::ffff:10.0.0.1"), "drop: v4_mapped");
        assert_eq!(between("::ffff:10.0.0.1", global), "drop: v4_mapped");
        assert_eq!(between(global, "64:ff9b::10.0.0.1"), "ip6_lookup");
        assert_eq!(between(global, "::10.0.0.1"), "ip6_lookup");
    }

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(run(udp6("2001:db8::1").claim_len(1000)).to, "drop: bad_length");
        let mut frame = to_p0(udp6("2001:db8::1"));
        for len in 14..54 {
            let got = one(&mut Net::new().bench(), &mut Ip6Input::default(), &frame[..len]);
            assert_eq!(got.to, "drop: bad_length", "{len}");
        }
        frame[14] = 0x45;
        assert_eq!(
            one(&mut Net::new().bench(), &mut Ip6Input::default(), &frame).to,
            "drop: bad_version"
        );
        let jumbo = udp6("2001:db8::1").extension(0, [0xc2, 4, 0, 1, 0, 0]).claim_len(0);
        assert_eq!(run(jumbo).to, "drop: jumbogram");
    }
}
