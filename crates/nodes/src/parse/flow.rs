//! The flow of a whole frame, for spreading packets over workers before any node
//! has seen them.

use wire::bytes::be16;
use wire::flow::Hasher;
use wire::{ethernet, vlan};

/// The hash of the flow of `frame`, behind up to two tags. It is 0 for frames that are not IP,
/// which therefore stay with the worker that received them.
pub fn of_frame(hasher: &Hasher, frame: &[u8]) -> u32 {
    match packet(frame) {
        Some((ethernet::IPV4, packet)) => hasher.ipv4(packet),
        Some((_, packet)) => hasher.ipv6(packet),
        None => 0,
    }
}

/// The IPv4 or IPv6 packet in a frame, behind up to two tags, with its EtherType.
#[inline(always)]
pub(super) fn packet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = ethernet::ETHERTYPE;
    for _ in 0..3 {
        if frame.len() < at + 2 {
            return None;
        }
        match be16(frame, at) {
            ip @ (ethernet::IPV4 | ethernet::IPV6) => return Some((ip, &frame[at + 2..])),
            ethernet::VLAN | ethernet::QINQ => at += vlan::LEN,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{to_p0, udp4, udp6};
    use wire::vlan::Tag;

    #[test]
    fn tags_do_not_change_the_flow() {
        let hasher = Hasher::new(1);
        let flow = |frame| of_frame(&hasher, &to_p0(frame));
        for (frame, other) in
            [(udp4("10.0.0.1"), udp4("10.0.0.2")), (udp6("2001:db8::1"), udp6("2001:db8::2"))]
        {
            assert_eq!(flow(frame), flow(frame.tag(Tag::outer(5)).tag(Tag::new(6))));
            assert_ne!(flow(frame), flow(other));
        }
    }

    #[test]
    fn any_bytes_have_one() {
        let frame = to_p0(udp6("2001:db8::1").tag(Tag::new(6)));
        for len in 0..frame.len() {
            of_frame(&Hasher::new(1), &frame[..len]);
        }
        assert_eq!(of_frame(&Hasher::new(1), &[0x81; 60]), 0);
    }
}
