use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::build::Frame;
use crate::bytes::put16;
use crate::{Error, ethernet};

const GRANTOR: &str = "10.0.2.9";
const GATEKEEPER: &str = "10.0.2.1";

/// `from`, `to`, `decisions` as a packet.
fn packet(from: &str, to: &str, decisions: &[Decision]) -> Vec<u8> {
    let mut buffer = [0; 2048];
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    let mut writer = Writer::new(&mut buffer, from, to, Ports::default()).unwrap();
    decisions.iter().for_each(|decision| writer.push(decision).unwrap());
    writer.finish().to_vec()
}

fn receive(packet: &[u8]) -> Result<Message<'_>, Refusal> {
    let ours: [IpAddr; 2] = [GATEKEEPER.parse().unwrap(), "2001:db8:2::1".parse().unwrap()];
    Message::receive(packet, Ports::default(), |to| ours.contains(&to))
}

/// The payload of a datagram with right checksum as a packet.
fn around(payload: &[u8]) -> Vec<u8> {
    let ends = ("10.0.2.9:41120".parse().unwrap(), "10.0.2.1:45232".parse().unwrap());
    Frame::udp4(ends.0, ends.1).payload(payload).build()[ethernet::LEN..].to_vec()
}

fn flow4() -> Flow {
    Flow::V4 { src: [10, 0, 1, 2].into(), dst: [203, 0, 113, 5].into() }
}

fn declined(expire_s: u32) -> Decision {
    Decision { flow: flow4(), verdict: Verdict::Declined { expire_s } }
}

/// A program's decision whose cookie begins with `cookie`.
fn program(expire_s: u32, index: u8, start: &[u8]) -> Decision {
    let mut cookie = [0; COOKIE_LEN];
    cookie[..start.len()].copy_from_slice(start);
    Decision { flow: flow4(), verdict: Verdict::Program { expire_s, index, cookie } }
}

/// Hexadecimal digits as bytes.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(|byte| *byte != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn what_a_deployed_grantor_sends() {
    let granted =
        "01000000 04000000 0a000102 cb007105 0000012c 00 0000 03 00040000 80a90300 b80b0000";
    // 1,024 KiB/s, 240,000 ms and 3,000 ms in the program's order, little-endian.
    let words = [1024_u32, 240_000, 3_000].map(u32::to_le_bytes).concat();
    let declined = "01000000 04000000 0a000102 cb007105 0000003c 01 0000 00";
    for (payload, wanted) in [(granted, program(300, 0, &words)), (declined, program(60, 1, &[]))] {
        let packet = around(&hex(payload));
        let found: Vec<_> = receive(&packet).unwrap().decisions().collect();
        assert_eq!(found, [Ok(wanted)]);
        let mut out = [0; MAX_LEN];
        let n = wanted.emit(&mut out).unwrap();
        assert_eq!(out[..n], hex(payload)[HEADER.len()..]);
        assert_eq!(n, wanted.wire_len());
    }
}

#[test]
fn all_types_have_their_lengths_and_both_families_share_a_message() {
    let flow6 =
        Flow::V6 { src: "2001:db8::1".parse().unwrap(), dst: "2001:db8:5::2".parse().unwrap() };
    let granted = Verdict::Granted {
        rate_kib: 2,
        expire_s: 300,
        next_renewal_ms: 240_000,
        renewal_step_ms: 3_000,
    };
    let declined = Verdict::Declined { expire_s: 60 };
    let Decision { verdict: program, .. } = program(9, 7, &[1, 0, 0, 0, 2]);
    let mut decisions = Vec::new();
    let lens = [(declined, 16, 40), (granted, 28, 52), (program, 28, 52)];
    for (kind, (verdict, four, six)) in lens.into_iter().enumerate() {
        for (v6, flow, len) in [(0, flow4(), four), (1, flow6, six)] {
            let decision = Decision { flow, verdict };
            let mut out = [0xff; MAX_LEN];
            assert_eq!(decision.emit(&mut out), Ok(len));
            assert_eq!(usize::from(out[0]), 2 * kind + v6);
            let short = Error::NoRoom { header: "ggu decision", need: len, have: len - 1 };
            assert_eq!(decision.emit(&mut out[..len - 1]), Err(short));
            decisions.push(decision);
        }
    }
    for (from, to) in [(GRANTOR, GATEKEEPER), ("2001:db8:2::9", "2001:db8:2::1")] {
        let packet = packet(from, to, &decisions);
        let message = receive(&packet).unwrap();
        assert_eq!(message.from, from.parse::<IpAddr>().unwrap());
        assert!(message.decisions().eq(decisions.iter().copied().map(Ok)));
    }
}

#[test]
fn a_sender_writes_the_headers_of_the_specification() {
    let four = packet(GRANTOR, GATEKEEPER, &[declined(60)]);
    assert_eq!(four.len() + ethernet::LEN, 62, "the shortest of all");
    let header = ipv4::Header::parse(&four).unwrap();
    assert_eq!((header.tos, header.ident, header.fragment, header.ttl), (0, 0, 0x4000, 64));
    assert!(ipv4::View::new(&four).unwrap().checksum_ok());
    let six = packet("2001:db8:2::9", "2001:db8:2::1", &[declined(60)]);
    let header = ipv6::Header::parse(&six).unwrap();
    assert_eq!((header.traffic_class, header.flow_label, header.hop_limit), (0, 0, 255));
    assert_eq!(&six[40..44], [0xa0, 0xa0, 0xb0, 0xb0]);
}

/// Easy version 12: a fault at a time, and its counter.
#[test]
fn each_fault_of_a_message_has_its_refusal() {
    use Refusal::*;
    let good = packet(GRANTOR, GATEKEEPER, &[declined(60)]);
    let refused = |packet: &[u8]| receive(packet).map(|_| ()).unwrap_err();
    // IPv4's header checksum is for `ip4_input` to check; UDP's does not cover the header.
    let changed = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        refused(&bad)
    };
    assert!(receive(&good).is_ok());
    assert_eq!(refused(&[]), Malformed);
    assert_eq!(refused(&good[..good.len() - 1]), Malformed);
    assert_eq!(changed(0, 0x55), Malformed);
    assert_eq!(changed(9, 6), NotUdp);
    assert_eq!(changed(6, 0x20), Fragment);
    assert_eq!(changed(7, 1), Fragment);
    assert_eq!(changed(19, 2), NotForUs);
    assert_eq!(changed(28, 2), BadChecksum, "the version, with the old sum");
    assert_eq!(changed(27, good[27] ^ 1), BadChecksum);
    let mut bad = good.clone();
    bad[26..28].fill(0);
    assert_eq!(refused(&bad), NoChecksum);
    assert_eq!(refused(&[&good[..], &[0]].concat()), Length, "the link's padding");
    assert_eq!(changed(25, good[25] + 1), Length);
    assert_eq!(changed(25, good[25] - 1), Length);
    // A port wrong, and nothing else.
    for (at, value) in [(20, 0xa1), (23, 0xb1)] {
        let mut bad = good.clone();
        bad[at] = value;
        let pseudo = Sum::pseudo4([10, 0, 2, 9].into(), [10, 0, 2, 1].into(), UDP, 28);
        udp::fill_checksum(pseudo, &mut bad[20..]).unwrap();
        assert_eq!(refused(&bad), Ports);
    }
    for (payload, wanted) in [
        (&[][..], MessageCutOff),
        (&[1, 0, 0], MessageCutOff),
        (&[0, 0, 0, 0], Version),
        (&[2, 0, 0, 0], Version),
        (&[1, 1, 0, 0], Reserved),
        (&[1, 0, 1, 0], Reserved),
        (&[1, 0, 0, 1], Reserved),
    ] {
        assert_eq!(refused(&around(payload)), wanted, "{payload:?}");
    }
    assert!(receive(&around(&HEADER)).unwrap().decisions().next().is_none());

    let mut six = packet("2001:db8:2::9", "2001:db8:2::1", &[declined(60)]);
    assert!(receive(&six).is_ok());
    assert_eq!(refused(&[&six[..], &[0]].concat()), Length);
    six[6] = FRAGMENT;
    assert_eq!(refused(&six), Fragment);
    six[6] = 0;
    assert_eq!(refused(&six), NotUdp, "extension headers");
    six[6] = UDP;
    six[39] = 2;
    assert_eq!(refused(&six), NotForUs);
    six[39] = 1;
    put16(&mut six, 46, 0);
    assert_eq!(refused(&six), NoChecksum);
}

#[test]
fn options_of_ipv4_are_stepped_over() {
    let (from, to) = ("10.0.2.9:41120".parse().unwrap(), "10.0.2.1:45232".parse().unwrap());
    let frame = Frame::udp4(from, to).options(&[1; 4]).payload(&HEADER).build();
    assert!(receive(&frame[ethernet::LEN..]).is_ok());
}

/// Easy version 13.
#[test]
fn a_bad_decision_leaves_those_before_it() {
    use Refusal::*;
    let mut good = [0; 16];
    declined(60).emit(&mut good).unwrap();
    let mut program_bytes = [0; MAX_LEN];
    let n = program(1, 2, &[9; COOKIE_LEN]).emit(&mut program_bytes).unwrap();
    let program_bytes = &program_bytes[..n];
    let changed = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        bytes
    };
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 1].to_vec();
    for (bad, last, wanted) in [
        (changed(&good, 0, 6), false, UnknownType),
        (changed(&good, 0, 255), false, UnknownType),
        (changed(&good, 1, 1), false, DecisionReserved),
        (changed(&good, 2, 1), false, DecisionReserved),
        (changed(&good, 3, 1), false, DecisionReserved),
        (changed(program_bytes, 17, 1), false, ProgramReserved),
        (changed(program_bytes, 18, 1), false, ProgramReserved),
        (changed(program_bytes, 19, 17), false, CookieTooLong),
        (changed(program_bytes, 19, 255), false, CookieTooLong),
        (cut(&good), true, DecisionCutOff),
        (cut(program_bytes), true, DecisionCutOff),
        (program_bytes[..19].to_vec(), true, DecisionCutOff),
        (vec![0], true, TrailingBytes),
        (vec![2, 0, 0], true, TrailingBytes),
    ] {
        let behind = if last { &[][..] } else { &good };
        let packet = around(&[&HEADER[..], &good, &bad, behind].concat());
        let mut decisions = receive(&packet).unwrap().decisions();
        assert_eq!(decisions.next(), Some(Ok(declined(60))));
        assert_eq!(decisions.next(), Some(Err(wanted)), "{bad:?}");
        assert_eq!((decisions.next(), decisions.left()), (None, 0));
    }
}

#[test]
fn a_walk_goes_on_where_it_stopped() {
    let packet = packet(GRANTOR, GATEKEEPER, &[declined(1), declined(2), declined(3)]);
    let mut decisions = receive(&packet).unwrap().decisions();
    assert_eq!(decisions.by_ref().take(2).count(), 2);
    let kept = packet[packet.len() - decisions.left()..].to_vec();
    assert!(Decisions::new(&kept).eq([Ok(declined(3))]));
}

/// Easy version 14, the codec's part.
#[test]
fn cookies_of_all_lengths_keep_their_bytes_and_end_in_zeros() {
    for words in 0..=COOKIE_LEN / 4 {
        let bytes: Vec<u8> = (1..=4 * words as u8).collect();
        let decision = program(1, 2, &bytes);
        let mut out = [0xee; MAX_LEN];
        let n = decision.emit(&mut out).unwrap();
        assert_eq!((n, usize::from(out[19])), (20 + 4 * words, words));
        assert_eq!(Decision::parse(&out[..n]), Ok((decision, &[][..])));
        // Words of zero that a sender did not leave out are no others.
        if words < COOKIE_LEN / 4 {
            out[19] += 1;
            out[n..n + 4].fill(0);
            assert_eq!(Decision::parse(&out[..n + 4]), Ok((decision, &[][..])));
        }
    }
    // The last word counts when one of its bytes does.
    assert_eq!(program(1, 2, &[0, 0, 0, 0, 0, 0, 0, 1]).wire_len(), 28);
    assert_eq!(program(1, 2, &[0, 0, 0, 0, 1]).wire_len(), 28);
}

#[test]
fn a_full_writer_refuses_and_stays_as_it_is() {
    let (from, to) = (GRANTOR.parse().unwrap(), GATEKEEPER.parse().unwrap());
    let mut buffer = [0; 32 + 16 + 15];
    let mut writer = Writer::new(&mut buffer, from, to, Ports::default()).unwrap();
    assert!(writer.is_empty());
    writer.push(&declined(1)).unwrap();
    let no_room = Error::NoRoom { header: "ggu decision", need: 16, have: 15 };
    assert_eq!(writer.push(&declined(2)), Err(no_room));
    assert_eq!((writer.len(), writer.is_empty()), (48, false));
    let packet = writer.finish();
    assert!(receive(packet).unwrap().decisions().eq([Ok(declined(1))]));

    assert!(Writer::new(&mut [0; 31], from, to, Ports::default()).is_err());
    assert!(Writer::new(&mut [0; 64], from, "::1".parse().unwrap(), Ports::default()).is_err());
    let mut long = vec![0; 70_000];
    let mut writer = Writer::new(&mut long, from, to, Ports::default()).unwrap();
    while writer.push(&declined(1)).is_ok() {}
    assert_eq!(writer.len(), 65_520);
    assert_eq!(receive(writer.finish()).unwrap().decisions().count(), 4_093);
}

#[test]
fn reasons_have_numbers_names_and_help() {
    for (number, reason) in Refusal::ALL.iter().enumerate() {
        assert_eq!(*reason as usize, number);
        assert_eq!(std::format!("{reason}"), reason.name());
        assert!(!Refusal::HELP[number].is_empty());
    }
    let names: std::collections::BTreeSet<_> = Refusal::NAMES.iter().collect();
    assert_eq!(names.len(), Refusal::ALL.len());
}

fn any_decision() -> impl Strategy<Value = Decision> {
    let flow = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| Flow::V4 { src: a.into(), dst: b.into() }),
        any::<([u16; 8], [u16; 8])>().prop_map(|(a, b)| Flow::V6 { src: a.into(), dst: b.into() }),
    ];
    let verdict = prop_oneof![
        any::<u32>().prop_map(|expire_s| Verdict::Declined { expire_s }),
        any::<[u32; 4]>().prop_map(|[rate_kib, expire_s, next_renewal_ms, renewal_step_ms]| {
            Verdict::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms }
        }),
        (any::<u32>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..=COOKIE_LEN))
            .prop_map(|(expire_s, index, start)| program(expire_s, index, &start).verdict),
    ];
    (flow, verdict).prop_map(|(flow, verdict)| Decision { flow, verdict })
}

proptest! {
    #[test]
    fn parse_after_emit_is_the_identity(decisions in proptest::collection::vec(any_decision(), 0..12)) {
        let packet = packet(GRANTOR, GATEKEEPER, &decisions);
        let found: Result<Vec<_>, _> = receive(&packet).unwrap().decisions().collect();
        prop_assert_eq!(found, Ok(decisions));
    }

    /// What a flipped byte leaves is a beginning of what was sent, or refused as a whole.
    #[test]
    fn a_flipped_byte_is_noticed(decisions in proptest::collection::vec(any_decision(), 1..6),
                                 at: prop::sample::Index, flip in 1_u8..) {
        let mut packet = packet(GRANTOR, GATEKEEPER, &decisions);
        let at = 20 + at.index(packet.len() - 20);
        packet[at] ^= flip;
        prop_assert!(receive(&packet).is_err());
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..8) {
        let _ = receive(&bytes);
        let mut bytes = bytes;
        if let Some([first, reserved @ .., _]) = bytes.first_chunk_mut::<5>() {
            (*first, *reserved) = (kind, [0; 3]); // else nearly all are refused at once
        }
        if let Ok((decision, rest)) = Decision::parse(&bytes) {
            let mut out = [0; MAX_LEN];
            let n = decision.emit(&mut out).unwrap();
            prop_assert!(n <= bytes.len() - rest.len());
            prop_assert_eq!(Decision::parse(&out[..n]), Ok((decision, &[][..])));
        }
    }
}
