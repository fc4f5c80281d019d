//! Packets that no Gatekeeper can have sent are dropped by name; no bytes do harm.

use proptest::prelude::*;
use tables::{IfaceId, Side};
use wire::build::Frame;
use wire::checksum;

use super::rig::{Rig, datagram, datagram6, grant, in_v4, in_v6};

/// The packet with the checksums of both headers corrected.
fn summed(mut frame: Vec<u8>, inner: bool) -> Vec<u8> {
    let mut sum = |at: usize| {
        frame[at + 10..at + 12].fill(0);
        let sum = checksum::checksum(&frame[at..at + 20]).to_be_bytes();
        frame[at + 10..at + 12].copy_from_slice(&sum);
    };
    sum(14);
    if inner {
        sum(34);
    }
    frame
}

fn changed(frame: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

#[test]
fn each_fault_of_ipv4_has_its_name() {
    let good = in_v4(41, &datagram(1, 60));
    let outer = |at: usize, bytes: &[u8]| summed(changed(&good, 14 + at, bytes), false);
    let inner = |at: usize, bytes: &[u8]| summed(changed(&good, 34 + at, bytes), true);
    let len = good.len() as u16 - 34;
    let rows = [
        (outer(12, &[10, 0, 9, 9]), "stranger"),
        (outer(9, &[41]), "mixed_families"),
        (outer(6, &[0x20, 0]), "outer_fragment"),
        (outer(6, &[0, 9]), "outer_fragment"),
        (outer(2, &[0, 20]), "inner_length"),
        (outer(2, &[0, 39]), "inner_length"),
        (outer(2, &(20 + len - 1).to_be_bytes()), "inner_length"),
        (inner(0, &[0x65]), "inner_version"),
        (inner(0, &[0x55]), "inner_version"),
        (inner(0, &[0x44]), "inner_length"),
        (inner(2, &[0, 19]), "inner_length"),
        (inner(2, &(len + 1).to_be_bytes()), "inner_length"),
        (changed(&good, 44, &[1, 2]), "inner_checksum"),
        (inner(12, &[0]), "inner_source"),
        (inner(12, &[127]), "inner_source"),
        (inner(12, &[224]), "inner_source"),
        (inner(12, &[255; 4]), "inner_source"),
        (inner(12, &[169, 254]), "inner_source"),
        (inner(9, &[4]), "nested"),
        (inner(9, &[41]), "nested"),
        (inner(16, &[10, 21, 0, 1]), "not_served"),
        (inner(16, &[10, 0, 2, 9]), "not_served"),
        (inner(16, &[224, 0, 0, 1]), "not_served"),
    ];
    for dscp in [0_u8, 2, 41] {
        let mut rig = Rig::new(grant);
        for (n, (frame, why)) in rows.iter().enumerate() {
            let frame = changed(frame, 15, &[dscp << 2]);
            let frame = summed(frame, false);
            let before = rig.dropped("ip4_tunnel", why);
            assert!(rig.send(&[frame]).is_empty(), "{n} {why}");
            assert_eq!(rig.dropped("ip4_tunnel", why), before + 1, "{n} {why}");
        }
        assert!(rig.kernel.is_empty() && rig.policy.lock().asked.is_empty());
        assert_eq!(rig.send(std::slice::from_ref(&good)).len(), 1);
    }
}

#[test]
fn each_fault_of_ipv6_has_its_name() {
    let good = in_v6(41, 0, &datagram6(1, 60));
    let outer = |at: usize, bytes: &[u8]| changed(&good, 14 + at, bytes);
    let inner = |at: usize, bytes: &[u8]| changed(&good, 54 + at, bytes);
    let len = good.len() as u16 - 54;
    // An outer packet with an extension header of each kind before the inner packet.
    let extended = |kind: u8, content: &[u8]| {
        let mut frame = good[..54].to_vec();
        frame[20] = kind;
        frame[18..20].copy_from_slice(&(len + content.len() as u16).to_be_bytes());
        frame.extend(content);
        frame.extend(&good[54..]);
        frame
    };
    let chain = |next| {
        Frame::udp6("[2001:db8:9::7]:1".parse().unwrap(), "[2001:db8:20::1]:2".parse().unwrap())
            .extension(next, [1, 4, 0, 0, 0, 0])
    };
    let cut = {
        let mut packet = chain(60).build()[14..].to_vec();
        packet[41] = 200;
        in_v6(41, 0, &packet)
    };
    let nested = {
        let mut packet = chain(60).build()[14..].to_vec();
        packet[40] = 41;
        in_v6(41, 0, &packet)
    };
    let rows = [
        (outer(8, &[0x20, 1, 0xd, 0xb8, 0, 9]), "stranger"),
        (outer(6, &[4]), "mixed_families"),
        (extended(60, &[41, 0, 1, 4, 0, 0, 0, 0]), "outer_extensions"),
        (extended(0, &[41, 0, 1, 4, 0, 0, 0, 0]), "outer_extensions"),
        (extended(60, &[4, 0, 1, 4, 0, 0, 0, 0]), "outer_extensions"),
        (extended(43, &[41, 0, 0, 0, 0, 0, 0, 0]), "outer_extensions"),
        (extended(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(9)), "outer_extensions"), // more than are followed
        (extended(60, &[41, 200, 1, 4, 0, 0, 0, 0]), "outer_extensions"),
        (extended(60, &[0, 0, 1, 4, 0, 0, 0, 0, 41, 0, 1, 4, 0, 0, 0, 0]), "outer_extensions"),
        (extended(44, &[41, 0, 0, 1, 0, 0, 0, 7]), "outer_fragment"),
        (extended(44, &[41, 0, 0, 8, 0, 0, 0, 7]), "outer_fragment"),
        (outer(4, &[0, 39]), "inner_length"),
        (outer(4, &(len - 1).to_be_bytes()), "inner_length"),
        (inner(0, &[0x45]), "inner_version"),
        (inner(4, &(len - 39).to_be_bytes()), "inner_length"),
        (inner(8, &[0xff; 16]), "inner_source"),
        (inner(8, &[0; 16]), "inner_source"),
        (inner(8, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "inner_source"),
        (inner(8, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]), "inner_source"),
        (inner(8, &[0xfe, 0x80]), "inner_source"),
        (cut, "inner_extensions"),
        (inner(6, &[4]), "nested"),
        (inner(6, &[41]), "nested"),
        (nested, "nested"),
        (inner(24, &[0x20, 1, 0xd, 0xb8, 0, 0x21]), "not_served"),
    ];
    for dscp in [0_u8, 2, 41] {
        let mut rig = Rig::new(grant);
        for (n, (frame, why)) in rows.iter().enumerate() {
            let class = (0x6000 | u16::from(dscp) << 6).to_be_bytes();
            let frame = changed(frame, 14, &class);
            let before = rig.dropped("ip6_tunnel", why);
            assert!(rig.send(&[frame]).is_empty(), "{n} {why}");
            assert_eq!(rig.dropped("ip6_tunnel", why), before + 1, "{n} {why}");
        }
        assert!(rig.kernel.is_empty() && rig.policy.lock().asked.is_empty());
        assert_eq!(rig.send(std::slice::from_ref(&good)).len(), 1);
    }
}

#[test]
fn outer_options_are_not_the_kernels() {
    let mut rig = Rig::new(grant);
    let inner = datagram(1, 30);
    let with = |dst: &str, protocol: u8, options: &'static [u8]| {
        let frame = Frame::ipv4([10, 0, 2, 1].into(), dst.parse().unwrap(), protocol);
        let frame = crate::testbed::to_p0(frame.options(options).payload(&inner));
        frame.to_vec()
    };
    assert!(rig.send(&[with("10.0.2.9", 4, &[1; 4]), with("10.0.2.9", 41, &[1; 4])]).is_empty());
    assert_eq!(rig.dropped("ip4_wrapped", "outer_options"), 2);
    assert!(rig.kernel.is_empty());
    rig.send(&[with("10.0.2.9", 89, &[1; 4]), with("10.20.0.9", 4, &[1; 4])]);
    assert!(!rig.kernel.is_empty());
    assert_eq!(rig.dropped("ip4_wrapped", "outer_options"), 2);
}

/// In a router with a shield, nodes before these take such packets. These do not rely on it.
#[test]
fn what_comes_in_at_the_front_is_the_kernels_whole() {
    let mut rig = Rig::new(grant);
    let inner = datagram(1, 30);
    let outer = Frame::ipv4([10, 0, 2, 1].into(), [10, 0, 2, 9].into(), 4);
    let options = crate::testbed::to_p0(outer.options(&[1; 4]).payload(&inner)).to_vec();
    let frames = [0, 2, 41].map(|dscp| in_v4(dscp, &inner));
    let frames6 = [0, 2, 41].map(|dscp| in_v6(dscp, 0, &datagram6(1, 30)));
    let all = [&frames[..], &frames6[..], &[options]].concat();
    assert!(rig.control.set_side(IfaceId(1), Side::Front));
    rig.control.commit();
    for (n, frame) in all.iter().enumerate() {
        assert!(rig.send(std::slice::from_ref(frame)).is_empty(), "{n}");
        let same = |_, got: &[u8]| assert!(got.ends_with(&frame[14..]), "{n}");
        assert!(rig.kernel.pop(same).is_some(), "{n}");
    }
    assert!(rig.policy.lock().asked.is_empty());
    assert!(rig.control.set_side(IfaceId(1), Side::Back));
    rig.control.commit();
    assert_eq!(rig.send(&all).len(), 6);
    assert_eq!(rig.dropped("ip4_wrapped", "outer_options"), 1);
}

#[test]
fn each_truncation_ends_somewhere() {
    let mut rig = Rig::new(grant);
    for good in [in_v4(41, &datagram(1, 9)), in_v6(41, 0, &datagram6(1, 9))] {
        for dscp in [0_u8, 2, 41] {
            for len in 15..good.len() {
                // Once truncated on the way, and once with an outer header that gives the shorter length.
                let cut = good[..len].to_vec();
                let mut said = cut.clone();
                if good[12] == 8 && len >= 34 {
                    said[15] = dscp << 2;
                    said[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
                    said = summed(said, false);
                } else if len >= 54 {
                    said[14..16].copy_from_slice(&(0x6000 | u16::from(dscp) << 6).to_be_bytes());
                    said[18..20].copy_from_slice(&(len as u16 - 54).to_be_bytes());
                }
                assert!(rig.send(&[cut, said]).is_empty(), "{len}");
            }
        }
    }
    assert!(rig.policy.lock().asked.is_empty());
}

/// Every single bit of both headers and of the bytes behind them is flipped; with the old
/// checksums, and with corrected ones.
#[test]
fn each_bit_that_flips_ends_somewhere() {
    for good in [in_v4(41, &datagram(1, 9)), in_v6(2, 0, &datagram6(1, 9))] {
        let mut rig = Rig::new(grant);
        let end = good.len().min(14 + 40 + 48);
        for bit in 14 * 8..end * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let right = if good[12] == 8 { summed(bad.clone(), true) } else { bad.clone() };
            rig.back.push(&bad);
            rig.back.push(&right);
            rig.poll();
        }
        rig.run();
        assert_eq!(rig.held(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_inside(inner in proptest::collection::vec(any::<u8>(), 0..120), dscp in 0_u8..64,
                        first: bool) {
        let mut rig = Rig::new(grant);
        let mut inner = inner;
        if let (true, Some(byte)) = (first, inner.first_mut()) {
            *byte = 0x45; // otherwise nearly all are refused at once
        }
        rig.send(&[in_v4(dscp, &inner)]);
        if let (true, Some(byte)) = (first, inner.first_mut()) {
            *byte = 0x60;
        }
        rig.send(&[in_v6(dscp, 0, &inner)]);
        prop_assert_eq!(rig.held(), 0);
    }
}
