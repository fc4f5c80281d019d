//! The programs that look into packets, `web` and `tcp-services`, over the whole graph: real frames
//! with all kinds of link headers and extension headers, and what a program sees of them.

use std::sync::Mutex;

use policy::bpf::assemble::{
    Lines, arithmetic, arithmetic_by, call, copy, exit, load as read, mov, object, store,
};
use policy::bpf::insn::{ADD, AND, RSH};
use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use policy::program::Program;
use tables::event::{Event, Link, LinkId};
use tables::{Iface, Outer, PortId, Side, Tags};
use wire::build::Frame;
use wire::ggu::Flow;
use wire::tcp::{ACK, FIN, RST, SYN};
use wire::vlan::Tag;
use wire::{icmp, protocol};

use super::decisions::{V4, decided, hear};
use super::direct::{LATE, V6, about, decide, straight};
use super::rig::{Rig, in_v4, in_v6};
use super::stock::{by_number, put};
use super::*;
use crate::testbed::{P0, to_p0, udp4, udp6};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// It passes, and has the first limit alone.
    Pass,
    /// It passes as far as the second limit lets it.
    Pay,
    Refuse,
    /// The program is not asked: its flow asks again.
    Ask,
}

use Fate::{Ask, Pass, Pay, Refuse};

/// A rig whose front has interfaces with one tag and with two.
fn rig() -> Rig {
    let mut rig = Rig::new();
    add_tagged(&mut rig);
    rig
}

/// Interfaces of the front with one tag, 5, and with two, 7 and 6.
pub(super) fn add_tagged(rig: &mut Rig) {
    let tags = [("p0.5", Tags::Dot1q(5)), ("p0.7.6", Tags::QinQ(Outer::Dot1ad, 7, 6))];
    for (n, (name, tags)) in tags.into_iter().enumerate() {
        let (name, port, mac, side) = (name.to_owned(), PortId(0), P0, Side::Front);
        let iface =
            Iface { name: name.clone(), port, tags, mac, mtu: 1500, side, ..Iface::default() };
        rig.control.add_iface(iface).unwrap();
        let index = LinkId(20 + n as u32);
        let link = Link { index, name, up: true, mtu: 1500, mac, ..Link::default() };
        rig.control.handle(&[Event::Link(link)]);
    }
    rig.control.commit();
}

/// `frame` as it comes: without a tag, with one of priority alone, with one, with two.
fn tagged(frame: Frame<'static>) -> [Vec<u8>; 4] {
    [
        to_p0(frame),
        to_p0(frame.tag(Tag::new(0))),
        to_p0(frame.tag(Tag::new(5))),
        to_p0(frame.tag(Tag::outer(7)).tag(Tag::new(6))),
    ]
}

/// Without its tags.
fn untagged(frame: &[u8]) -> Vec<u8> {
    let tags = frame[12..].chunks(4).take_while(|tag| [0x81, 0x88].contains(&tag[0])).count();
    [&frame[..12], &frame[12 + 4 * tags..]].concat()
}

/// A program, and cookies by which the second limit has room, and none.
struct Filter {
    index: u8,
    cookies: [Vec<u32>; 2],
}

/// Never direct.
fn web() -> Filter {
    let words = |second| vec![1 << 20, second, LATE, LATE, 0];
    Filter { index: 3, cookies: [words(1_024), words(0)] }
}

/// The second limit is a twentieth of the first: of 1 KiB less than any frame. Always direct.
fn tcp_services(listening: &[u16], remote: &[u16]) -> Filter {
    let mut ports = [0; 12];
    ports[..listening.len()].copy_from_slice(listening);
    ports.iter_mut().rev().zip(remote).for_each(|(port, of)| *port = *of);
    let counts = (listening.len() as u32) << 24 | (remote.len() as u32) << 28;
    let ports = ports.chunks(2).map(|two| u32::from(two[0]) | u32::from(two[1]) << 16);
    let words = |first| [first, LATE, 3_000 | counts].into_iter().chain(ports.clone()).collect();
    Filter { index: 4, cookies: [words(1 << 20), words(1)] }
}

impl Filter {
    /// What `rig` does with `frame`, each time of a flow that was decided just before.
    fn does(&self, rig: &mut Rig, frame: &[u8]) -> Fate {
        let plain = untagged(frame);
        let is_v4 = plain[12..14] == [8, 0];
        let of: Flow = decided(Decision::Declined { expire_s: 1 })[usize::from(!is_v4)].flow;
        let fates = self.cookies.each_ref().map(|cookie| {
            hear(rig, &about(of, by_number(self.index, cookie)));
            let all = &rig.counters.all;
            let before = [&all.granted, &all.declined, &all.requests].map(|count| count.get());
            let sent = rig.send(&[frame.to_vec()]);
            let all = &rig.counters.all;
            let after = [&all.granted, &all.declined, &all.requests].map(|count| count.get());
            let counted: [u64; 3] = std::array::from_fn(|n| after[n] - before[n]);
            let wrapped = |dscp| match is_v4 {
                true => in_v4(dscp, &plain[14..]),
                false => in_v6(dscp, &plain[14..]),
            };
            let granted = if self.index == 4 { straight(&plain) } else { wrapped(1) };
            match counted {
                [1, 0, 0] => assert_eq!(sent, [granted]),
                [0, 1, 0] => assert!(sent.is_empty()),
                [0, 0, 1] => assert_eq!(sent, [wrapped(41)]),
                _ => panic!("{counted:?}: {frame:x?}"),
            }
            counted
        });
        match fates {
            [[1, 0, 0], [1, 0, 0]] => Pass,
            [[1, 0, 0], [0, 1, 0]] => Pay,
            [[0, 1, 0], [0, 1, 0]] => Refuse,
            [[0, 0, 1], [0, 0, 1]] => Ask,
            _ => panic!("{fates:?}: {frame:x?}"),
        }
    }

    /// Segments between these ports, of both families, with any link header.
    fn judges(&self, rig: &mut Rig, (from, to): (u16, u16), rows: &[(u16, Fate)]) {
        let end = |ip: &str, port| format!("{ip}:{port}");
        for &(flags, wanted) in rows {
            let [four, host] = [end("198.51.100.7", from), end(V4, to)].map(|end| end.parse());
            let four = Frame::tcp4(four.unwrap(), host.unwrap(), flags);
            let six = [end("[2001:db8:9::7]", from), end(&format!("[{V6}]"), to)];
            let [six, host] = six.map(|end| end.parse());
            let six = Frame::tcp6(six.unwrap(), host.unwrap(), flags);
            // A destination option, a routing header that is done, an option of each hop.
            let longer = [
                six.extension(60, [1, 4, 0, 0, 0, 0]),
                six.extension(43, [0; 6]).extension(60, [1, 4, 0, 0, 0, 0]),
                six.extension(0, [1, 4, 0, 0, 0, 0]),
            ];
            let frames = [four, six].into_iter().flat_map(tagged).chain(longer.map(to_p0));
            for frame in frames {
                let fate = self.does(rig, &frame);
                assert_eq!(fate, wanted, "{from} to {to}, {flags:x}: {frame:x?}");
            }
        }
    }

    /// What is no whole TCP segment, and what is no TCP.
    fn judges_others(&self, rig: &mut Rig) {
        let (client, host) = ([198, 51, 100, 7].into(), V4.parse().unwrap());
        let (client6, host6) = ("2001:db8:9::7".parse().unwrap(), V6.parse().unwrap());
        let icmp = |kind| icmp::Header { kind, code: 0, rest: [0; 4] };
        let four = |kind| Frame::icmp4(client, host, icmp(kind)).payload(&[1; 40]);
        let six = |kind| Frame::icmp6(client6, host6, icmp(kind)).payload(&[1; 40]);
        let other4 = |number| Frame::ipv4(client, host, number);
        let other6 = |number| Frame::ipv6(client6, host6, number);
        let mut rows = vec![
            (udp4(V4).payload(&[7; 40]), Refuse),
            (udp6(V6).payload(&[7; 40]), Refuse),
            // Of the other version, and too short for its header.
            (other4(protocol::ICMPV6).payload(&[128; 16]), Refuse),
            (other6(protocol::ICMP).payload(&[8; 16]), Refuse),
            (other4(protocol::ICMP).payload(&[8; 7]), Refuse),
            (other6(protocol::ICMPV6).payload(&[128; 7]), Refuse),
            (other4(protocol::TCP).payload(&[0; 19]), Refuse),
            (other6(protocol::TCP).payload(&[0; 19]), Refuse),
            (other6(59).payload(&[0; 40]), Refuse),
            // Fragments, whatever they begin with.
            (four(8).fragment(7, 0, true), Refuse),
            (six(128).fragment(7, 0, true), Refuse),
            (other4(protocol::TCP).payload(&[0; 40]).fragment(7, 0, true), Pay),
            (other4(protocol::TCP).payload(&[0; 40]).fragment(7, 1_480, false), Pay),
            (other6(protocol::TCP).payload(&[0; 40]).fragment(7, 0, true), Pay),
            (other6(protocol::TCP).payload(&[0; 40]).fragment(7, 1_480, false), Pay),
            // Extension headers that end behind the packet.
            (other6(60).payload(&[6, 9, 1, 4, 0, 0, 0, 0]), Ask),
            (other6(60).payload(&[6, 0, 1]), Ask),
        ];
        rows.extend(
            (0..=20).map(|kind| {
                (four(kind), if [0, 3, 4, 8, 11].contains(&kind) { Pay } else { Refuse })
            }),
        );
        rows.extend([0, 1, 2, 3, 4, 5, 127, 128, 129, 130, 133, 137, 160].map(|kind| {
            (six(kind), if [1, 2, 3, 4, 128, 129].contains(&kind) { Pay } else { Refuse })
        }));
        for (n, (frame, wanted)) in rows.into_iter().enumerate() {
            for frame in tagged(frame) {
                assert_eq!(self.does(rig, &frame), wanted, "row {n}: {frame:x?}");
            }
        }
    }
}

const AT_AN_OPEN_PORT: [(u16, Fate); 7] = [
    (SYN, Pay),
    (SYN | ACK, Refuse),
    (ACK, Pass),
    (RST, Pass),
    (RST | ACK, Pass),
    (FIN | ACK, Pass),
    (0, Pass),
];
/// From a port at which others are asked.
const ANSWERS: [(u16, Fate); 4] = [(SYN, Refuse), (SYN | ACK, Pass), (ACK, Pass), (RST, Pass)];
const AT_NO_PORT: [(u16, Fate); 4] =
    [(SYN, Refuse), (SYN | ACK, Refuse), (ACK, Refuse), (RST, Refuse)];

#[test]
fn web_looks_at_ports_and_flags() {
    let (mut rig, web) = (rig(), web());
    put(&mut rig, 3, STOCK[3].object);
    for port in [21, 22, 80, 443, 51_000, 51_999] {
        web.judges(&mut rig, (4_000, port), &AT_AN_OPEN_PORT);
    }
    web.judges(&mut rig, (4_000, 20), &ANSWERS);
    for port in [19, 23, 81, 442, 50_999, 52_000] {
        web.judges(&mut rig, (4_000, port), &AT_NO_PORT[..3]);
    }
    for port in [80, 443] {
        web.judges(&mut rig, (port, 4_000), &ANSWERS);
    }
    for port in [20, 79, 81, 444] {
        web.judges(&mut rig, (port, 4_000), &AT_NO_PORT[2..]);
    }
}

#[test]
fn web_judges_what_is_no_segment() {
    let mut rig = rig();
    put(&mut rig, 3, STOCK[3].object);
    web().judges_others(&mut rig);
    assert_eq!(rig.counters.program(3).failed.get(), 0);
}

#[test]
fn tcp_services_looks_at_the_ports_of_its_decision() {
    let mut rig = rig();
    put(&mut rig, 4, STOCK[4].object);
    let some = tcp_services(&[25, 8_443, 51_000], &[443, 5_432]);
    for port in [25, 51_000] {
        some.judges(&mut rig, (4_000, port), &AT_AN_OPEN_PORT);
    }
    for port in [443, 5_432] {
        some.judges(&mut rig, (port, 4_000), &ANSWERS);
    }
    for ends in [(4_000, 20), (4_000, 80), (4_000, 443), (25, 4_000), (5_433, 4_000), (0, 0)] {
        some.judges(&mut rig, ends, &AT_NO_PORT);
    }
    some.judges_others(&mut rig);
    // All are one's own, or others'; none are any's.
    let ports: Vec<_> = (1..=12).collect();
    let rows = [(SYN, Pay), (ACK, Pass)];
    tcp_services(&ports, &[]).judges(&mut rig, (4_000, 12), &rows);
    tcp_services(&[], &ports).judges(&mut rig, (12, 12), &ANSWERS[..2]);
    tcp_services(&[], &[]).judges(&mut rig, (0, 0), &AT_NO_PORT);
    // One port too many is no decision.
    let mut bad = tcp_services(&ports, &[]).cookies[0].clone();
    bad[2] |= 1 << 28;
    let before = rig.counters.program(4).refused.get();
    decide(&mut rig, by_number(4, &bad));
    assert_eq!(rig.counters.program(4).refused.get(), before + 2);
}

/// Asks a program, and keeps what it was shown, and its page.
struct Watched {
    program: Arc<dyn Program>,
    seen: Mutex<Vec<Seen>>,
}

/// Link header, packet, length of the frame; and the page.
type Seen = (Vec<u8>, Vec<u8>, u32, Page);

impl Rule for Watched {
    fn init(&self, _: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        Program::init(&*self.program, now, page)
    }

    fn packet(&self, _: &Times, arrival: &Arrival<'_>, end: u64, page: &mut Page) -> Answer {
        let answer = Program::packet(&*self.program, arrival, end, page);
        let (link, packet) = (arrival.link.to_vec(), arrival.packet.to_vec());
        self.seen.lock().unwrap().push((link, packet, arrival.len, *page));
        answer
    }
}

/// Writes into its page: the frame's length, the lengths of headers, the context's protocols, the
/// first byte of the IP header, and that of what is behind it.
fn writes_what_it_sees() -> Lines {
    [
        copy(6, 1),
        call("pkt_ctx_to_cookie"),
        copy(7, 0),
        copy(1, 6),
        call("pkt_ctx_to_pkt"),
        copy(8, 0),
        read(4, 2, 8, 36),
        store(8, 7, 0, 2),
        read(8, 3, 8, 72),
        store(8, 7, 8, 3),
        read(4, 2, 6, 16),
        store(8, 7, 16, 2),
        read(8, 4, 8, 0),
        read(2, 5, 8, 16),
        arithmetic_by(ADD, 4, 5),
        copy(2, 3),
        arithmetic(AND, 2, 0x7f),
        arithmetic_by(ADD, 4, 2),
        read(1, 2, 4, 0),
        store(1, 7, 24, 2),
        arithmetic(RSH, 3, 7),
        arithmetic(AND, 3, 0x1ff),
        arithmetic_by(ADD, 4, 3),
        read(1, 2, 4, 0),
        store(1, 7, 25, 2),
        copy(1, 6),
        mov(2, 1),
        mov(3, 0),
        call("gk_bpf_prep_for_tx"),
        mov(0, 0),
        exit(),
    ]
    .concat()
}

/// A frame whose packet has these lengths of headers, protocol, and perhaps parts.
type Row = (Frame<'static>, usize, u8, bool);

#[test]
fn a_program_sees_the_frame_as_it_came() {
    let mut rig = rig();
    let clock = Clock { cycles_per_sec: 1_000_000, cycles_per_ms: 1_000 };
    let init = [mov(0, 0), exit()].concat();
    let program = load(&object(&init, &writes_what_it_sees()), clock).unwrap();
    let watched = Arc::new(Watched { program, seen: Mutex::default() });
    let mut programs = Programs::default();
    programs.set(9, Some(watched.clone()));
    rig.programs.publish(programs);
    decide(&mut rig, by_number(9, &[]));
    let six = || udp6(V6).payload(&[6; 60]);
    let rows: [Row; 12] = [
        (udp4(V4).payload(&[4; 60]), 20, 17, false),
        (udp4(V4).payload(&[4; 600]), 20, 17, false),
        (udp4(V4).payload(&[4; 3]).pad_to(60), 20, 17, false),
        (udp4(V4).payload(&[4; 60]).options(&[1, 1, 1, 0]), 24, 17, false),
        (udp4(V4).payload(&[4; 60]).fragment(7, 0, true), 20, 17, true),
        (udp4(V4).payload(&[4; 60]).fragment(7, 1_480, false), 20, 17, true),
        (six(), 40, 17, false),
        (six().pad_to(200), 40, 17, false),
        (six().extension(0, [1, 4, 0, 0, 0, 0]), 48, 17, false),
        (six().extension(43, [0; 6]).extension(60, [1, 4, 0, 0, 0, 0]), 56, 17, false),
        (six().extension(60, [1, 4, 0, 0, 0, 0]).fragment(7, 0, true), 56, 17, true),
        (six().fragment(7, 1_480, false), 48, 17, true),
    ];
    for (n, (frame, l3_len, l4_proto, fragmented)) in rows.into_iter().enumerate() {
        for (frame, l2_len) in tagged(frame).into_iter().zip([14, 18, 18, 22]) {
            assert_eq!(rig.send(std::slice::from_ref(&frame)).len(), 1, "row {n}");
            let (link, packet, len, page) = watched.seen.lock().unwrap().pop().unwrap();
            let whole = [&link[..], &packet].concat();
            assert_eq!((&whole, len), (&frame, frame.len() as u32), "row {n}");
            assert_eq!(link, frame[..l2_len], "row {n}");
            let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
            let l4_len = (frame.len() - l2_len - l3_len).min(255);
            let lengths = (l2_len | l3_len << 7 | l4_len << 16) as u64;
            assert_eq!((word(0), word(8)), (frame.len() as u64, lengths), "row {n}: {frame:x?}");
            let l3_proto = if frame[l2_len] >> 4 == 4 { 0x0800 } else { 0x86dd };
            let context = l3_proto | u64::from(l4_proto) << 16 | u64::from(fragmented) << 24;
            assert_eq!(word(16), context, "row {n}");
            assert_eq!(page[24..26], [frame[l2_len], frame[l2_len + l3_len]], "row {n}");
        }
    }
}
