//! Fragments that wait for one another: the questions to the policy, the packets that are
//! forwarded, and those that are not.

use std::time::Duration;

use policy::ask::{Matter, Verdict};
use wire::{checksum, ipv4};

use super::super::settings::{Instead, Settings};
use super::rig::{
    Asked, DECLINED, GRANTED, Rig, datagram, datagram6, decline, grant, in_v4, in_v6, inside,
    settings,
};

pub(super) fn rig(decide: fn(&Asked) -> Option<Verdict>) -> Rig {
    Rig::gathering(decide, (64, 16), settings())
}

/// `len` bytes of an IPv4 datagram, from byte `at` on, as a fragment.
fn piece(id: u16, at: usize, len: usize, more: bool) -> Vec<u8> {
    let mut packet = datagram(id.into(), 1_500);
    let bytes = packet.drain(20..).skip(at % 1_508).take(len).collect::<Vec<_>>();
    packet.extend(bytes);
    packet[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    let word = (at / 8) as u16 | if more { ipv4::MORE_FRAGMENTS } else { 0 };
    packet[6..8].copy_from_slice(&word.to_be_bytes());
    summed(packet)
}

pub(super) fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10..12].fill(0);
    let sum = checksum::checksum(&packet[..20]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet
}

/// The same for IPv6, behind an options header; the client chooses `id`.
fn piece6(id: u8, at: usize, len: usize, more: bool) -> Vec<u8> {
    let mut packet = datagram6(id.into(), 1_500);
    let bytes = packet.drain(40..).skip(at % 1_508).take(len).collect::<Vec<_>>();
    let word = (at as u16 | u16::from(more)).to_be_bytes();
    packet.extend([44, 0, 1, 4, 0, 0, 0, 0, 17, 0, word[0], word[1], 0, 0, 0, id]);
    packet.extend(&bytes);
    packet[4..6].copy_from_slice(&(16 + len as u16).to_be_bytes());
    packet[6] = 60;
    packet
}

/// A packet of 3,008 bytes in three fragments.
const PARTS: [(usize, usize, bool); 3] = [(0, 720, true), (720, 720, true), (1_440, 68, false)];

fn three(id: u16) -> [Vec<u8>; 3] {
    PARTS.map(|(at, len, more)| piece(id, at, len, more))
}

/// A packet in two fragments.
pub(super) fn two(id: u16) -> [Vec<u8>; 2] {
    [piece(id, 0, 80, true), piece(id, 80, 40, false)]
}

#[test]
fn a_policy_is_asked_about_the_whole_and_the_parts_go_on() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut rig = rig(grant);
        rig.change(|settings| settings.question = 4_000);
        let (four, six) = (three(7), PARTS.map(|(at, len, more)| piece6(9, at, len, more)));
        assert_eq!(rig.send(&[in_v4(41, &four[order[0]]), in_v6(41, 0, &six[order[0]])]).len(), 0);
        assert_eq!(rig.send(&[in_v4(41, &four[order[1]])]).len(), 0);
        assert_eq!((rig.held(), rig.policy.lock().asked.len()), (3, 0));
        let all = four.each_ref().map(|part| inside(part));
        assert_eq!(rig.send(&[in_v4(41, &four[order[2]])]), all);
        let got = rig.send(&[in_v6(41, 0, &six[order[1]]), in_v6(41, 0, &six[order[2]])]);
        assert_eq!(got, six.each_ref().map(|part| inside(part)));
        let asked = rig.policy.lock().asked.clone();
        let [of_four, of_six] = &asked[..] else { panic!("{asked:?}") };
        // The question is that about a whole packet, except for the id, and for IPv6 an atomic
        // Fragment header.
        let mut whole = datagram(7, 1_500);
        whole[4..6].copy_from_slice(&7_u16.to_be_bytes());
        whole[6..8].fill(0);
        assert_eq!(of_four.bytes[34..], summed(whole));
        assert_eq!(
            (of_four.facts.frag, of_four.facts.upper_len, of_four.facts.l4),
            (false, 1_508, 54)
        );
        assert_eq!(of_four.facts.l4_proto, 17);
        let l4 = 14 + 40 + 40 + 16;
        assert_eq!(of_six.bytes[l4..], datagram6(9, 1_500)[40..]);
        assert_eq!(of_six.bytes[14 + 40 + 4..][..2], 1_524_u16.to_be_bytes());
        assert_eq!(of_six.bytes[l4 - 8..l4], [17, 0, 0, 0, 0, 0, 0, 9]);
        let facts = &of_six.facts;
        assert_eq!((facts.frag, facts.upper_len, usize::from(facts.l4)), (false, 1_508, l4));
        assert_eq!((rig.counters.fragments.get(), rig.counters.whole.get()), (6, 2));
        assert_eq!((rig.held(), rig.decisions().len()), (0, 2));
    }
}

#[test]
fn a_question_has_so_many_bytes_and_no_more() {
    for most in [64, 256, 900, 1_500] {
        let mut rig = rig(grant);
        rig.change(|settings| settings.question = most);
        rig.send(&three(7).map(|part| in_v4(41, &part)));
        assert_eq!(rig.policy.lock().asked[0].bytes.len(), most);
    }
}

#[test]
fn what_is_denied_or_not_answered_loses_all_parts() {
    let mut rig = rig(decline);
    assert!(rig.send(&three(7).map(|part| in_v4(41, &part))).is_empty());
    assert_eq!((rig.dropped("grantor", "denied"), rig.held(), rig.decisions().len()), (3, 0, 1));
    let on_limit = Instead { forward: true, decision: None };
    let mut rig =
        Rig::gathering(|_| None, (64, 16), Settings { limit_ms: 1, on_limit, ..settings() });
    rig.send(&three(7).map(|part| in_v4(41, &part)));
    rig.later(Duration::from_millis(3));
    rig.run();
    assert_eq!((rig.inside.take().len(), rig.held()), (3, 0));
}

/// Fragments from a shield in shadow mode are decided, and none goes on; those of a renewal go on
/// and ask for nothing.
#[test]
fn shadows_and_renewals() {
    let mut shadow = Rig::gathering(grant, (64, 16), Settings { shadow: true, ..settings() });
    assert!(shadow.send(&three(7).map(|part| in_v4(41, &part))).is_empty());
    assert_eq!((shadow.dropped("grantor", "shadow"), shadow.decisions().len()), (3, 1));
    let mut rig = rig(grant);
    let [first, ..] = three(7);
    assert_eq!(rig.send(&[in_v4(2, &first)]), [inside(&first)]);
    assert_eq!(rig.send(&[in_v4(1, &first)]), [inside(&first)]);
    assert_eq!(rig.held(), 0);
    assert!(rig.policy.lock().asked.is_empty());
}

/// The policy's answer about fragments that never become whole.
fn punished(asked: &Asked) -> Option<Verdict> {
    let decision = match asked.matter {
        Matter::Punish => Some(DECLINED),
        Matter::Packet => Some(GRANTED),
    };
    Some(Verdict { id: asked.id, forward: true, decision })
}

fn decided(rig: &mut Rig) -> Vec<wire::ggu::Verdict> {
    rig.decisions().into_iter().flat_map(|(_, all)| all).map(|of| of.verdict).collect()
}

#[test]
fn parts_that_come_too_late_are_punished() {
    let mut rig = rig(punished);
    rig.change(|settings| settings.fragment_ms = 1);
    let [first, second, third] = three(7).map(|part| in_v4(41, &part));
    rig.send(&[third, first]);
    rig.later(Duration::from_millis(3));
    assert_eq!((rig.dropped("grantor", "fragment_late"), rig.held()), (2, 0));
    assert_eq!((decided(&mut rig), rig.counters.punished.get()), (vec![DECLINED], 1));
    rig.send(&[second]);
    assert_eq!(rig.held(), 1, "of a packet that begins anew");
    assert!(rig.inside.take().is_empty());
}

#[test]
fn parts_that_find_no_room_are_punished_the_oldest_first() {
    let mut rig = rig(punished);
    let firsts: Vec<_> = (0..18).map(|id| in_v4(41, &piece(id, 0, 80, true))).collect();
    rig.send(&firsts);
    assert_eq!((rig.dropped("grantor", "fragment_full"), rig.held()), (2, 16));
    assert_eq!((decided(&mut rig), rig.counters.punished.get()), (vec![DECLINED; 2], 2));
    // A packet that comes at once gets through a flood of other packets' fragments.
    let mut flood: Vec<_> = (20..60).map(|id| in_v4(41, &piece(id, 0, 80, true))).collect();
    flood.extend(three(7).map(|part| in_v4(41, &part)));
    flood.extend((60..90).map(|id| in_v4(41, &piece(id, 0, 80, true))));
    assert_eq!(rig.send(&flood).len(), 3);
    // Fragments of a packet that waits for its verdict keep their room.
    let mut rig = Rig::gathering(|_| None, (64, 3), settings());
    rig.send(&three(7).map(|part| in_v4(41, &part)));
    rig.send(&firsts[..5]);
    assert_eq!((rig.counters.whole.get(), rig.counters.punished.get(), rig.held()), (1, 4, 8));
    let answers: Vec<_> = rig.policy.lock().asked.iter().filter_map(punished).collect();
    rig.policy.lock().answers.extend(answers);
    rig.run();
    assert_eq!((rig.inside.take().len(), rig.held()), (3, 1));
    assert_eq!(rig.dropped("grantor", "fragment_full"), 4);
}

#[test]
fn too_many_parts_are_punished_once() {
    let mut rig = Rig::gathering(punished, (64, 100), settings());
    let parts: Vec<_> = (0..70).map(|n| in_v4(41, &piece(7, 8 * n, 8, true))).collect();
    rig.send(&parts);
    assert_eq!((rig.dropped("grantor", "fragment_many"), rig.held()), (70, 0));
    assert_eq!((decided(&mut rig), rig.counters.punished.get()), (vec![DECLINED], 1));
}

#[test]
fn parts_that_are_wrong_have_a_name_each() {
    let mut rig = rig(grant);
    let [first, second, third] = three(7).map(|part| in_v4(41, &part));
    rig.send(&[first.clone(), first]);
    assert_eq!(rig.dropped("grantor", "fragment_again"), 1);
    rig.send(&[in_v4(41, &piece(7, 712, 16, true)), second, third]);
    assert_eq!((rig.dropped("grantor", "fragment_overlap"), rig.held()), (4, 0));
    let mut long = piece(8, 0, 80, false);
    long[6..8].copy_from_slice(&0x1fff_u16.to_be_bytes());
    let empty = piece(8, 8, 0, true);
    rig.send(&[in_v4(41, &piece(8, 0, 81, true)), in_v4(41, &summed(long)), in_v4(41, &empty)]);
    rig.send(&[in_v6(41, 0, &piece6(8, 0, 81, true)), in_v6(41, 0, &piece6(8, 65_528, 80, false))]);
    assert_eq!((rig.dropped("grantor", "fragment_length"), rig.held()), (5, 0));
    assert!(rig.inside.take().is_empty() && rig.policy.lock().asked.is_empty());
}

/// The first fragment has options that the last one lacks: each alone is not too long.
#[test]
fn a_whole_that_no_packet_can_be_is_refused() {
    let mut rig = Rig::gathering(grant, (64, 64), settings());
    let most = |head: usize| (65_535 - head) / 8 * 8;
    let parts = |end: usize| {
        let starts: Vec<usize> = (0..end).step_by(1_440).collect();
        starts.into_iter().map(move |at| (at, (end - at).min(1_440), at + 1_440 < end))
    };
    for (end, options, goes) in [(most(24), 4, 46), (most(20), 4, 0), (most(20), 0, 46)] {
        let all = parts(end).map(|(at, len, more)| {
            let mut packet = long_piece(9, at, len, more);
            if at == 0 && options > 0 {
                packet.splice(20..20, [1; 4]);
                packet[0] = 0x46;
                packet[2..4].copy_from_slice(&(24 + len as u16).to_be_bytes());
                packet[10..12].fill(0);
                let sum = checksum::checksum(&packet[..24]).to_be_bytes();
                packet[10..12].copy_from_slice(&sum);
            }
            in_v4(41, &packet)
        });
        assert_eq!(rig.send(&all.collect::<Vec<_>>()).len(), goes, "{end} {options}");
        assert_eq!(rig.held(), 0);
    }
    assert_eq!(rig.dropped("grantor", "fragment_long"), 46);
    assert_eq!(rig.counters.whole.get(), 2);
    let asked = rig.policy.lock().asked.clone();
    assert_eq!(asked.iter().map(|one| one.facts.upper_len).max(), Some(65_512));
    // For IPv6, options before the Fragment header.
    let all = parts(65_535 - 8 - 7).map(|(at, len, more)| {
        let mut packet = long_piece6(9, at, len, more);
        if at > 0 {
            packet.drain(40..48);
            packet[4..6].copy_from_slice(&(8 + len as u16).to_be_bytes());
            packet[6] = 44;
        }
        in_v6(41, 0, &packet)
    });
    assert_eq!(rig.send(&all.collect::<Vec<_>>()).len(), 0);
    assert_eq!((rig.dropped("grantor", "fragment_long"), rig.held()), (92, 0));
}

/// The same as [`piece`], but as long as a fragment may be.
fn long_piece(id: u16, at: usize, len: usize, more: bool) -> Vec<u8> {
    let mut packet = piece(id, at, 0, more);
    packet.extend(vec![7; len]);
    packet[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
    summed(packet)
}

fn long_piece6(id: u8, at: usize, len: usize, more: bool) -> Vec<u8> {
    let mut packet = piece6(id, at, 0, more);
    packet.extend(vec![7; len]);
    packet[4..6].copy_from_slice(&(16 + len as u16).to_be_bytes());
    packet
}

/// Fragments from a shield in shadow mode, in another VRF: their packet has the same addresses and
/// id there.
#[test]
fn fragments_of_different_worlds_never_meet() {
    let mut rig = rig(grant);
    let [first, second] = two(7);
    rig.change(|settings| settings.shadow = true);
    rig.send(&[in_v4(41, &first)]);
    rig.change(|settings| settings.shadow = false);
    assert!(rig.send(&[in_v4(41, &second)]).is_empty(), "a shadow's never go on");
    assert_eq!((rig.held(), rig.policy.lock().asked.len()), (2, 0));
    // Each fragment finds its own packet.
    assert_eq!(rig.send(&[in_v4(41, &first)]), [inside(&first), inside(&second)]);
    rig.change(|settings| settings.shadow = true);
    assert!(rig.send(&[in_v4(41, &second)]).is_empty());
    assert_eq!((rig.dropped("grantor", "shadow"), rig.held()), (2, 0));
    rig.change(|settings| settings.shadow = false);
    rig.send(&[in_v4(41, &first)]);
    rig.leave_vrf();
    assert!(rig.send(&[in_v4(41, &second)]).is_empty());
    assert_eq!(rig.held(), 2);
}

#[test]
fn a_stop_gives_parts_back_wherever_they_are() {
    let mut rig = rig(|_| None);
    rig.send(&three(7).map(|part| in_v4(41, &part)));
    rig.send(&[in_v4(41, &three(8)[0])]);
    assert_eq!(rig.held(), 4);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let counts = rig.graph.stats().snapshot();
    assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
    assert_eq!(counts.dropped("grantor", "stopped"), 4);
    assert_eq!(rig.pool.available(), rig.pool.size());
}
