//! Decisions: nothing panics, what a message says is what it is given, and emitting what
//! was parsed changes nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use wire::build::Frame;
use wire::ethernet;
use wire::ggu::{
    COOKIE_LEN, Decision, Decisions, Flow, HEADER, MAX_LEN, Message, Ports, Refusal, Verdict,
    Writer,
};

/// Bytes as an IP packet, and as the payload of one whose headers are right.
pub fn messages(bytes: &[u8]) {
    if let Ok(message) = Message::receive(bytes, Ports::default(), |_| true) {
        decisions(message.decisions());
    }
    let Ports { src, dst } = Ports::default();
    let [a, b] = [Ipv4Addr::new(10, 0, 2, 9), Ipv4Addr::new(10, 0, 2, 1)];
    let [a6, b6] = [a, b].map(|address| address.to_ipv6_mapped());
    let payload = &bytes[..bytes.len().min(1_400)];
    let four = Frame::udp4(SocketAddrV4::new(a, src), SocketAddrV4::new(b, dst));
    let ends = (SocketAddrV6::new(a6, src, 0, 0), SocketAddrV6::new(b6, dst, 0, 0));
    let six = Frame::udp6(ends.0, ends.1);
    for (frame, to) in [(four, IpAddr::from(b)), (six, IpAddr::from(b6))] {
        let frame = frame.payload(payload).build();
        let packet = &frame[ethernet::LEN..];
        match Message::receive(packet, Ports::default(), |found| found == to) {
            Ok(message) => {
                let rest = payload.strip_prefix(&HEADER).expect("it was checked");
                assert!(message.decisions().eq(Decisions::new(rest)));
                decisions(message.decisions());
            }
            Err(Refusal::MessageCutOff) => assert!(payload.len() < HEADER.len()),
            Err(Refusal::Version) => assert_ne!(payload[0], HEADER[0]),
            Err(Refusal::Reserved) => assert_ne!(payload[1..4], HEADER[1..]),
            Err(other) => panic!("{other}: the headers are right"),
        }
        assert!(Message::receive(packet, Ports::default(), |_| false).is_err());
    }
}

fn decisions(found: Decisions<'_>) {
    let mut left = found.left();
    let mut good = Vec::new();
    for (i, decision) in found.enumerate() {
        let Ok(decision) = decision else {
            assert_eq!(found.count(), i + 1, "a refusal is the last item");
            break;
        };
        let mut out = [0xee; MAX_LEN];
        let len = decision.emit(&mut out).unwrap();
        assert!(len <= left, "no decision is longer than what it was read from");
        left -= len;
        assert_eq!(Decision::parse(&out[..len]), Ok((decision, &[][..])));
        good.push(decision);
    }
    let [a, b] = [1, 2].map(|host| IpAddr::from([10, 0, 2, host]));
    let mut buffer = vec![0; 32 + good.len() * MAX_LEN];
    let mut writer = Writer::new(&mut buffer, a, b, Ports::default()).unwrap();
    let fitted = good.iter().take_while(|decision| writer.push(decision).is_ok()).count();
    let message = Message::receive(writer.finish(), Ports::default(), |to| to == b).unwrap();
    assert!(message.decisions().eq(good[..fitted].iter().copied().map(Ok)));
}

/// A message of each type, whole and as a payload; some that are wrong.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let v4 = Flow::V4 { src: [10, 0, 1, 2].into(), dst: [203, 0, 113, 5].into() };
    let [src, dst]: [Ipv6Addr; 2] =
        ["2001:db8::2", "2001:db8:5::5"].map(|text| text.parse().unwrap());
    let v6 = Flow::V6 { src, dst };
    let granted = Verdict::Granted {
        rate_kib: 1_024,
        expire_s: 300,
        next_renewal_ms: 240_000,
        renewal_step_ms: 3_000,
    };
    let program = |words: usize| {
        let mut cookie = [0; COOKIE_LEN];
        cookie[..4 * words].fill(7);
        Verdict::Program { expire_s: 300, index: 2, cookie }
    };
    let declined = Verdict::Declined { expire_s: 60 };
    let verdicts = [
        ("declined", declined),
        ("granted", granted),
        ("program", program(5)),
        ("program_bare", program(0)),
        ("program_full", program(16)),
    ];
    let [a, b] = [9, 1].map(|host| IpAddr::from([10, 0, 2, host]));
    let mut buffer = [0; 2_048];
    let mut packet = |decisions: &[Decision]| {
        let mut writer = Writer::new(&mut buffer, a, b, Ports::default()).unwrap();
        decisions.iter().for_each(|decision| writer.push(decision).unwrap());
        writer.finish().to_vec()
    };
    let mut found = Vec::new();
    let mut all = Vec::new();
    for (name, verdict) in verdicts {
        let both = [v4, v6].map(|flow| Decision { flow, verdict });
        found.push((name.to_owned(), packet(&both)));
        all.extend(both);
    }
    let whole = packet(&all);
    let mut payload = whole[28..].to_vec();
    found.push(("all".into(), whole));
    found.push(("payload".into(), payload.clone()));
    payload.push(0);
    found.push(("payload_trailing".into(), payload.clone()));
    payload[4 + 16] = 6;
    found.push(("payload_unknown".into(), payload));
    found.into_iter().map(|(name, bytes)| ("wire_ggu", name, bytes)).collect()
}
