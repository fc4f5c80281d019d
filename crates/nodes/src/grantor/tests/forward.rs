//! Forwarded packets, byte for byte.

use policy::ask::{Facts, Verdict};
use wire::build::Frame;
use wire::checksum;

use super::super::settings::Ecn;
use super::rig::{
    Rig, datagram, datagram6, decline, grant, in_v4, in_v4_from, in_v6, inside, settings,
};
use crate::testbed::{P0, PEER};

/// Easy version 3, this side: no TTL is decremented, no DSCP changed.
#[test]
fn what_is_granted_comes_out_as_the_client_sent_it() {
    for dscp in 0..64 {
        let mut rig = Rig::new(grant);
        let (mut four, mut six) = (datagram(1, 33), datagram6(1, 33));
        (four[1], four[8]) = (0xb8, 1);
        four[10..12].fill(0);
        let sum = checksum::checksum(&four[..20]).to_be_bytes();
        four[10..12].copy_from_slice(&sum);
        (six[0], six[1], six[7]) = (0x6b, 0x8f, 1);
        let got = rig.send(&[in_v4(dscp, &four), in_v6(dscp, 0, &six)]);
        assert_eq!(got, [inside(&four), inside(&six)], "{dscp}");
        let asked = rig.policy.lock().asked.clone();
        assert_eq!(asked.len(), if dscp < 2 { 0 } else { 2 });
        let count = &rig.counters;
        let counts = [&count.passed, &count.renewals, &count.requests].map(|count| count.get());
        let want = [(0..2).contains(&dscp), dscp == 2, dscp > 2];
        assert_eq!(counts, want.map(|is| if is { 2 } else { 0 }));
        assert!(rig.kernel.is_empty());
    }
}

#[test]
fn what_is_denied_does_not() {
    for (dscp, passes) in [(0, true), (1, true), (2, true), (3, false), (41, false), (63, false)] {
        let mut rig = Rig::new(decline);
        let got = rig.send(&[in_v4(dscp, &datagram(1, 33)), in_v6(dscp, 0, &datagram6(1, 33))]);
        assert_eq!(got.len(), if passes { 2 } else { 0 }, "{dscp}");
        let denied = rig.dropped("grantor", "denied");
        assert_eq!(denied, if passes { 0 } else { 2 });
        assert_eq!(rig.dropped("grantor", "copied"), if dscp == 2 { 2 } else { 0 });
        let sent = rig.decisions().into_iter().map(|(_, decisions)| decisions.len());
        assert_eq!(sent.sum::<usize>(), if dscp < 2 { 0 } else { 2 }, "of renewals, too");
        assert_eq!(rig.held(), 0);
    }
}

#[test]
fn a_question_says_what_the_packet_is() {
    let mut rig = Rig::new(grant);
    let four = datagram(1, 300);
    let later = Frame::udp4("198.51.100.7:1".parse().unwrap(), "10.20.0.1:2".parse().unwrap())
        .fragment(9, 1_480, true)
        .payload(&[3; 40])
        .build()[14..]
        .to_vec();
    let six =
        Frame::udp6("[2001:db8:9::7]:1".parse().unwrap(), "[2001:db8:20::1]:2".parse().unwrap())
            .extension(60, [1, 4, 0, 0, 0, 0])
            .fragment(9, 0, true)
            .payload(&[3; 40])
            .build()[14..]
            .to_vec();
    let frames =
        [in_v4_from([10, 0, 1, 7], 41 << 2 | 1, &four), in_v4(2, &later), in_v6(9, 3, &six)];
    rig.send(&frames);
    let asked = rig.policy.lock().asked.clone();
    let [second, first, third] = &asked[..] else { panic!("{asked:?}") };
    let facts = Facts {
        outer_ethertype: 0x0800,
        inner_ethertype: 0x0800,
        l4_proto: 17,
        priority: 41,
        outer_ecn: 1,
        frag: false,
        upper_len: 308,
        outer_l3: 14,
        inner_l3: 34,
        l4: 54,
    };
    assert_eq!((first.facts, &first.bytes[..]), (facts, &frames[0][..256]));
    // The policy is asked about a renewal before all requests.
    let want = Facts { priority: 2, outer_ecn: 0, frag: true, upper_len: 40, ..facts };
    let upper_len = (later.len() - 20) as u16;
    assert_eq!((second.facts, &second.bytes), (Facts { upper_len, ..want }, &frames[1]));
    let facts = Facts {
        outer_ethertype: 0x86dd,
        inner_ethertype: 0x86dd,
        l4_proto: 17,
        priority: 9,
        outer_ecn: 3,
        frag: true,
        upper_len: 48,
        outer_l3: 14,
        inner_l3: 54,
        l4: 110,
    };
    assert_eq!((third.facts, &third.bytes), (facts, &frames[2]));
    // The whole packet, if the policy wants it; and the tags of its frame.
    rig.change(|settings| settings.question = usize::MAX);
    rig.policy.lock().asked.clear();
    rig.send(&frames[..1]);
    assert_eq!(rig.policy.lock().asked[0].bytes, frames[0]);
}

#[test]
fn congestion_comes_through_as_deployed_or_as_rfc_6040_says() {
    let with = |packet: &[u8], ecn: u8| {
        let mut packet = packet.to_vec();
        if packet[0] >> 4 == 4 {
            packet[1] = packet[1] & !3 | ecn;
            packet[10..12].fill(0);
            let sum = checksum::checksum(&packet[..20]).to_be_bytes();
            packet[10..12].copy_from_slice(&sum);
        } else {
            packet[1] = packet[1] & !(3 << 4) | ecn << 4;
        }
        packet
    };
    for dscp in [1, 2, 41] {
        for (outer, inner) in (0..4).flat_map(|outer| (0..4).map(move |inner| (outer, inner))) {
            for mode in [Ecn::Deployed, Ecn::Rfc6040] {
                let mut rig = Rig::with(
                    grant,
                    64,
                    super::super::settings::Settings { ecn: mode, ..settings() },
                );
                let want = match (mode, outer, inner) {
                    (Ecn::Rfc6040, 3, 0) => None,
                    (_, 3, _) => Some(3),
                    (Ecn::Rfc6040, 1, 2) => Some(1),
                    _ => Some(inner),
                };
                let (four, six) = (datagram(1, 20), datagram6(1, 20));
                let frames = [
                    in_v4_from([10, 0, 2, 1], dscp << 2 | outer, &with(&four, inner)),
                    in_v6(dscp, outer, &with(&six, inner)),
                ];
                let want: Vec<_> = want
                    .into_iter()
                    .flat_map(|ecn| [inside(&with(&four, ecn)), inside(&with(&six, ecn))])
                    .collect();
                assert_eq!(rig.send(&frames), want, "{dscp} {outer} {inner} {mode:?}");
                let node = if dscp == 1 { "ip6_tunnel" } else { "grantor" };
                let dropped = rig.dropped(node, "congested");
                assert_eq!(dropped > 0, want.is_empty());
            }
        }
    }
}

/// The padding of a short frame that was wrapped with its packet is not forwarded.
#[test]
fn what_follows_the_inner_packet_is_cut_off() {
    let mut rig = Rig::new(grant);
    let (four, six) = (datagram(1, 0), datagram6(1, 0));
    let padded = |packet: &[u8]| [packet, &[0xee; 18]].concat();
    for dscp in [0, 2, 41] {
        let got = rig.send(&[in_v4(dscp, &padded(&four)), in_v6(dscp, 0, &padded(&six))]);
        assert_eq!(got, [inside(&four), inside(&six)]);
    }
}

/// Packets that are not for the Grantor take their usual way.
#[test]
fn transit_and_its_own_are_the_routers() {
    let mut rig = Rig::new(grant);
    let mut transit = in_v4(41, &datagram(1, 20));
    transit[30..34].copy_from_slice(&[10, 20, 0, 9]);
    transit[24..26].fill(0);
    let sum = checksum::checksum(&transit[14..34]).to_be_bytes();
    transit[24..26].copy_from_slice(&sum);
    assert_eq!(rig.send(&[transit]).len(), 1);
    let plain = Frame::udp4("198.51.100.7:1".parse().unwrap(), "10.20.0.1:2".parse().unwrap());
    let (from, to) = (wire::ethernet::Mac(PEER), wire::ethernet::Mac(P0));
    let frame = plain.macs(from, to).build().to_vec();
    let got = rig.send(&[frame]);
    assert_eq!((got.len(), got[0][22]), (1, 63), "a router decrements");
    let ours = Frame::udp4("10.0.2.1:1".parse().unwrap(), "10.0.2.9:2".parse().unwrap());
    assert!(rig.send(&[ours.macs(from, to).build().to_vec()]).is_empty());
    assert!(!rig.kernel.is_empty());
    assert!(rig.policy.lock().asked.is_empty());
}

#[test]
fn a_shadow_decides_and_forwards_nothing() {
    let settings = super::super::settings::Settings { shadow: true, ..settings() };
    let mut rig = Rig::with(grant, 64, settings);
    let frames: Vec<_> = (0..64).map(|dscp| in_v4(dscp, &datagram(dscp.into(), 20))).collect();
    assert!(rig.send(&frames).is_empty());
    assert_eq!(rig.dropped("ip4_tunnel", "shadow"), 2);
    assert_eq!(rig.dropped("grantor", "shadow"), 62);
    let sent = rig.decisions().into_iter().map(|(_, decisions)| decisions.len());
    assert_eq!(sent.sum::<usize>(), 62);
    assert_eq!(rig.counters.forwarded.get(), 62, "what it would have done");
}

/// A slow policy: answers come some polls later, in another order.
#[test]
fn a_slow_policy_gets_all_of_them_out() {
    let mut rig = Rig::new(|_| None);
    let frames: Vec<_> = (0..200).map(|n| in_v4(41, &datagram(n, 20))).collect();
    assert!(rig.send(&frames).is_empty());
    assert_eq!((rig.held(), rig.counters.waiting.get()), (200, 200));
    assert!(rig.policy.lock().flushes > 0);
    let mut got = Vec::new();
    for step in 0..10 {
        let mut state = rig.policy.lock();
        let ids: Vec<_> = state.asked.iter().skip(step).step_by(10).map(|asked| asked.id).collect();
        state.answers.extend(ids.iter().rev().map(|&id| Verdict {
            id,
            forward: true,
            decision: None,
        }));
        drop(state);
        rig.run();
        got.extend(rig.inside.take());
    }
    let mut want: Vec<_> = (0..200).map(|n| inside(&datagram(n, 20))).collect();
    got.sort_unstable();
    want.sort_unstable();
    assert_eq!((got, rig.held()), (want, 0));
    assert_eq!((rig.counters.undecided.get(), rig.counters.messages.get()), (200, 0));
}
