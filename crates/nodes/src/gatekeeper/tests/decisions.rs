//! Decisions over a whole graph: real messages at the back, and elsewhere.

use std::net::{Ipv4Addr, SocketAddrV4, SocketAddrV6};

use graph::{Job, Progress};
use tables::event::{Event, Link, LinkId};
use tables::{Action, Iface, Named, PortId, Protect, SetId, Side, Tags, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::{Decision as Sent, Flow, Ports, Refusal, Verdict as Decision, Writer};
use wire::vlan::Tag;

use super::super::listing::{Filter, List, State};
use super::super::settings::{DecisionsFrom, Settings};
use super::super::shield::Shield;
use super::pair::Pair;
use super::rig::{P2, Rig, in_v4, settings};
use crate::testbed::{P0, P1, PEER, to_p0, udp4};

pub(super) const V4: &str = "10.20.0.1";
const V6: &str = "2001:db8:20::1";

pub(super) const GRANT: Decision = Decision::Granted {
    expire_s: 300,
    rate_kib: 1_024,
    next_renewal_ms: 3_600_000,
    renewal_step_ms: 3_000,
};

/// A message of the Grantor `from`, as a frame at the back.
pub(super) fn message(from: &str, decisions: &[Sent]) -> Vec<u8> {
    let mut buffer = [0; 2_048];
    let ends = (from.parse().unwrap(), "10.0.2.1".parse().unwrap());
    let mut writer = Writer::new(&mut buffer, ends.0, ends.1, Ports::default()).unwrap();
    decisions.iter().for_each(|decision| writer.push(decision).unwrap());
    [&P1[..], &PEER, &[8, 0], writer.finish()].concat()
}

pub(super) fn decided(verdict: Decision) -> [Sent; 2] {
    let v4 = Flow::V4 { src: [198, 51, 100, 7].into(), dst: V4.parse().unwrap() };
    let v6 = Flow::V6 { src: "2001:db8:9::7".parse().unwrap(), dst: V6.parse().unwrap() };
    [v4, v6].map(|flow| Sent { flow, verdict })
}

pub(super) fn hear(rig: &mut Rig, frame: &[u8]) {
    rig.back.push(frame);
    rig.run();
}

/// UDP between these ports, with a payload of any bytes, from the Grantor to the back.
fn datagram(ports: (u16, u16), payload: &'static [u8]) -> Frame<'static> {
    let from = SocketAddrV4::new([10, 0, 2, 9].into(), ports.0);
    let to = SocketAddrV4::new([10, 0, 2, 1].into(), ports.1);
    Frame::udp4(from, to).macs(Mac(PEER), Mac(P1)).payload(payload)
}

const BOTH: (u16, u16) = (0xa0a0, 0xb0b0);

/// The flow of `udp4(V4)` is declined for 60 s.
const DECLINED: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, 1, 0, 0, 0, 60];

#[test]
fn decisions_are_heard_from_the_grantors_of_a_protection() {
    let mut rig = Rig::new();
    let [v4, v6] = decided(GRANT);
    // The protection of the second one names another Grantor.
    hear(&mut rig, &message("10.0.2.9", &[v4, v6]));
    let counts = rig.counters.clone();
    let counts = &counts.decisions;
    assert_eq!((counts.all.granted.get(), counts.all.not_its_grantor.get()), (1, 1));
    let by = |rig: &Rig, dst: &str| {
        let of = rig.counters.decided(rig.set(dst)).unwrap();
        [of.granted.get(), of.not_its_grantor.get(), of.unknown_program.get()]
    };
    assert_eq!((by(&rig, V4), by(&rig, V6)), ([1, 0, 0], [0, 1, 0]));
    let four = to_p0(udp4(V4).ttl(1).payload(&[7; 60]));
    assert_eq!(rig.send(std::slice::from_ref(&four)), [in_v4(1, &four[14..])]);
    // A stranger's, and one for nobody's destination.
    hear(&mut rig, &message("10.0.2.8", &decided(Decision::Declined { expire_s: 9 })));
    assert_eq!(counts.all.not_its_grantor.get(), 3);
    let nobody = Flow::V4 { src: [1, 2, 3, 4].into(), dst: [10, 99, 0, 1].into() };
    hear(&mut rig, &message("10.0.2.9", &[Sent { flow: nobody, verdict: GRANT }]));
    assert_eq!(counts.unprotected.get(), 1);
    let program = Decision::Program { expire_s: 9, index: 200, cookie: [0; 64] };
    hear(&mut rig, &message("10.0.2.9", &decided(program)[..1]));
    assert_eq!(counts.all.unknown_program.get(), 1);
    assert_eq!((by(&rig, V4), by(&rig, V6)), ([1, 1, 1], [0, 2, 0]));
    assert_eq!(rig.dropped("decisions", "heard"), 4);
    assert_eq!(counts.all.granted.get(), 1);
}

#[test]
fn each_refusal_has_its_counter() {
    let good = datagram(BOTH, DECLINED);
    let of = |payload: &'static [u8]| datagram(BOTH, payload).build().to_vec();
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = good.build().to_vec();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let mut elsewhere = datagram(BOTH, DECLINED).build().to_vec();
    elsewhere[30..34].copy_from_slice(&[10, 0, 0, 1]); // the front's address
    elsewhere[24..26].fill(0);
    let sum = wire::checksum::checksum(&elsewhere[14..34]).to_be_bytes();
    elsewhere[24..26].copy_from_slice(&sum);
    let rows: Vec<(Refusal, Vec<u8>)> = vec![
        (Refusal::Fragment, good.fragment(7, 0, true).build().to_vec()),
        (Refusal::NotForUs, elsewhere),
        (Refusal::Ports, datagram((0xa0a1, BOTH.1), DECLINED).build().to_vec()),
        // UDP's own length, one less; and a frame that is longer than its packet.
        (Refusal::Length, changed(38, &27_u16.to_be_bytes())),
        (Refusal::Length, [good.build().to_vec(), vec![0]].concat()),
        (Refusal::Length, [good.build().to_vec(), vec![0; 90]].concat()),
        // A message without a decision, filled up to a minimal frame.
        (Refusal::Length, datagram(BOTH, &DECLINED[..4]).pad_to(60).build().to_vec()),
        (Refusal::NoChecksum, changed(40, &[0, 0])),
        (Refusal::BadChecksum, changed(40, &[0x12, 0x34])),
        (Refusal::MessageCutOff, of(&[1, 0, 0])),
        (Refusal::Version, of(&[2, 0, 0, 0])),
        (Refusal::Reserved, of(&[1, 0, 0, 1])),
        (Refusal::TrailingBytes, of(&[1, 0, 0, 0, 0])),
        (Refusal::UnknownType, of(&[1, 0, 0, 0, 6, 0, 0, 0])),
        (Refusal::DecisionReserved, of(&[1, 0, 0, 0, 0, 0, 1, 0])),
        (Refusal::DecisionCutOff, of(&DECLINED[..19])),
        (
            Refusal::ProgramReserved,
            of(&[1, 0, 0, 0, 4, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, 1, 0, 0, 0, 9, 0, 0, 1, 0]),
        ),
        (
            Refusal::CookieTooLong,
            of(&[1, 0, 0, 0, 4, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, 1, 0, 0, 0, 9, 0, 0, 0, 17]),
        ),
    ];
    let mut rig = Rig::new();
    for (why, frame) in &rows {
        let counter = |rig: &Rig| rig.counters.decisions.refused[*why as usize].get();
        let before = counter(&rig);
        hear(&mut rig, frame);
        assert_eq!(counter(&rig), before + 1, "{why}: {frame:x?}");
    }
    let refused: u64 = rig.counters.decisions.refused.iter().map(|count| count.get()).sum();
    let longer = rig.dropped("ip4_longer", "longer_frame");
    assert_eq!((refused, longer), (rows.len() as u64, 2));
    assert_eq!(rig.dropped("decisions", "refused"), refused - longer);
    // Header checks lead those with options elsewhere.
    hear(&mut rig, &good.options(&[7, 4, 4, 0]).build());
    hear(&mut rig, &good.options(&[1; 40]).fragment(7, 0, true).build());
    assert_eq!(
        (rig.dropped("ip4_special", "decision"), rig.counters.decisions.options.get()),
        (2, 2)
    );
    let names = [Refusal::Malformed, Refusal::NotUdp];
    let unmet = Refusal::ALL.iter().filter(|why| rows.iter().all(|(row, _)| row != *why));
    assert!(unmet.eq(&names), "what comes before: header checks, and the look at the protocol");
    assert_eq!(rig.flows().table().capacity().entries, 0, "nothing was applied");
    hear(&mut rig, &good.build());
    assert_eq!(rig.counters.decisions.all.declined.get(), 1);
}

#[test]
fn messages_of_ipv6_are_heard_and_refused_likewise() {
    let mut rig = Rig::new();
    let from = SocketAddrV6::new("2001:db8:2::9".parse().unwrap(), BOTH.0, 0, 0);
    let to = SocketAddrV6::new("2001:db8:2::1".parse().unwrap(), BOTH.1, 0, 0);
    let mut payload = vec![1, 0, 0, 0, 1, 0, 0, 0];
    for ip in ["2001:db8:9::7", V6] {
        payload.extend(ip.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    payload.extend([0, 0, 0, 60]);
    let frame = Frame::udp6(from, to).macs(Mac(PEER), Mac(P1)).payload(&payload);
    // In a fragment, behind other headers, and both.
    let refused = |rig: &Rig| {
        [Refusal::Fragment, Refusal::NotUdp]
            .map(|why| rig.counters.decisions.refused[why as usize].get())
    };
    let padded = frame.extension(60, [1, 4, 0, 0, 0, 0]);
    for (frame, counted) in [
        (frame.fragment(7, 0, true), [1, 0]),
        (frame.fragment(7, 0, false), [2, 0]),
        (padded, [2, 1]),
        (padded.extension(60, [1, 4, 0, 0, 0, 0]).fragment(7, 0, true), [2, 2]),
    ] {
        hear(&mut rig, &frame.build());
        assert_eq!(refused(&rig), counted);
    }
    // Ones that say nothing of ports, and of others, are the kernel's.
    rig.back.push(&frame.fragment(7, 1_480, false).build());
    rig.work();
    assert!(rig.kernel.pop(|_, _| ()).is_some());
    assert_eq!(refused(&rig), [2, 2]);
    let frame = frame.build().to_vec();
    hear(&mut rig, &[&frame[..], &[0]].concat());
    assert_eq!(rig.dropped("ip6_longer", "longer_frame"), 1);
    assert_eq!(rig.counters.decisions.refused[Refusal::Length as usize].get(), 1);
    hear(&mut rig, &frame);
    assert_eq!(rig.counters.decisions.all.declined.get(), 1);
}

#[test]
fn what_precedes_a_bad_decision_holds() {
    let mut payload = vec![1, 0, 0, 0];
    payload.extend(&DECLINED[4..]);
    payload.extend([9, 0, 0, 0]); // no such type
    let mut other = DECLINED[4..].to_vec();
    other[11] = 2; // for 10.20.0.2
    payload.extend(other);
    let mut rig = Rig::new();
    hear(&mut rig, &datagram(BOTH, payload.leak()).build());
    let counts = &rig.counters.decisions;
    let unknown = counts.refused[Refusal::UnknownType as usize].get();
    assert_eq!((counts.all.declined.get(), unknown), (1, 1));
    assert!(rig.send(&[to_p0(udp4(V4))]).is_empty());
    assert_eq!(rig.send(&[to_p0(udp4("10.20.0.2"))]).len(), 1, "behind it: it asks");
}

/// Neither from the front, nor from an interface of no side, nor at another port does anybody decide.
#[test]
fn what_is_no_message_is_punted_as_anything_else() {
    let mut rig = Rig::new();
    for to in ["10.0.0.1", "10.0.2.1"] {
        let to = SocketAddrV4::new(to.parse().unwrap(), BOTH.1);
        let frame = Frame::udp4("10.0.2.9:41120".parse().unwrap(), to).payload(DECLINED);
        rig.front.push(&frame.macs(Mac(PEER), Mac(P0)).build());
    }
    // An interface of no side: a VLAN of the other back port.
    let (name, mac, tags) = ("p2.5".to_owned(), Mac(P2), Tags::Dot1q(5));
    let side = Side::Neither;
    let iface =
        Iface { name: name.clone(), port: PortId(2), tags, mac: P2, side, ..Iface::default() };
    rig.control.add_iface(iface).unwrap();
    let link = Link { index: LinkId(20), name, up: true, mtu: 1500, mac: P2, ..Link::default() };
    rig.control.handle(&[Event::Link(link)]);
    rig.control.commit();
    let of_no_side = datagram(BOTH, DECLINED).macs(Mac(PEER), mac).tag(Tag::new(5));
    rig.other_back.push(&of_no_side.build());
    rig.back.push(&datagram((BOTH.0, 53), DECLINED).build());
    rig.back.push(&datagram(BOTH, DECLINED).fragment(7, 1_480, false).build());
    rig.work();
    let mut punted = 0;
    while rig.kernel.pop(|_, _| punted += 1).is_some() {}
    assert_eq!(punted, 5);
    assert_eq!(rig.counters.decisions.refused.iter().map(|count| count.get()).sum::<u64>(), 0);
    assert_eq!(rig.flows().table().capacity().entries, 0);
}

/// A host behind the back may answer to that port of a client: the first packet is the kernel's,
/// which looks for the neighbour, and nothing is refused.
#[test]
fn what_passes_to_a_client_at_the_port_of_decisions_is_no_message() {
    let mut rig = Rig::new();
    let from: SocketAddrV4 = "10.0.2.9:7".parse().unwrap();
    for (last, after) in [(55, 0), (56, 9)] {
        let to = SocketAddrV4::new([10, 0, 0, last].into(), BOTH.1);
        let frame = Frame::udp4(from, to).payload(DECLINED).macs(Mac(PEER), Mac(P1)).build();
        rig.back.push(&[&frame[..], &vec![0; after]].concat());
    }
    rig.work();
    let mut punted = 0;
    while rig.kernel.pop(|_, _| punted += 1).is_some() {}
    assert_eq!(punted, 2);
    assert_eq!(rig.counters.decisions.refused.iter().map(|count| count.get()).sum::<u64>(), 0);
}

#[test]
fn options_widen_who_decides() {
    let mut rig = Rig::new();
    let ip = "10.0.2.8".parse().unwrap();
    let other = Protect {
        net: "10.24.0.0/16".parse().unwrap(),
        action: Action::Protect,
        options: 0,
        grantors: vec![Named { ip, weight: 1, shadow: false }],
    };
    rig.control.protect(VrfId(0), &other).unwrap();
    rig.control.commit();
    // Of the Grantor of another protection, of nobody's, and whether they count.
    let rows = [
        (DecisionsFrom::ItsGrantors, [false, false]),
        (DecisionsFrom::Grantors, [true, false]),
        (DecisionsFrom::Anybody, [true, true]),
    ];
    for (decisions_from, count) in rows {
        rig.settings.publish(Settings { decisions_from, ..settings() });
        for (from, counts) in ["10.0.2.8", "10.0.2.7"].into_iter().zip(count) {
            let before = rig.counters.decisions.all.declined.get();
            hear(&mut rig, &message(from, &decided(Decision::Declined { expire_s: 9 })[..1]));
            let declined = rig.counters.decisions.all.declined.get() - before;
            assert_eq!(declined, u64::from(counts), "{decisions_from:?} {from}");
        }
    }
    assert_eq!(rig.counters.decisions.all.not_its_grantor.get(), 3);
    // A Grantor that no protection names any more.
    rig.settings.publish(Settings { decisions_from: DecisionsFrom::Grantors, ..settings() });
    rig.control.unprotect(VrfId(0), other.net).unwrap();
    rig.control.commit();
    hear(&mut rig, &message("10.0.2.8", &decided(Decision::Declined { expire_s: 9 })[..1]));
    assert_eq!(rig.counters.decisions.all.not_its_grantor.get(), 4);
}

/// Easy version 13: a flow of IPv4 may be decided in a datagram of IPv6. A protection of IPv4 has
/// Grantors of IPv4 alone, so that only others can be its sender.
#[test]
fn a_flow_of_ipv4_is_decided_by_ipv6_where_others_may_decide() {
    let mut rig = Rig::new();
    let from = SocketAddrV6::new("2001:db8:2::9".parse().unwrap(), BOTH.0, 0, 0);
    let to = SocketAddrV6::new("2001:db8:2::1".parse().unwrap(), BOTH.1, 0, 0);
    let frame = Frame::udp6(from, to).macs(Mac(PEER), Mac(P1)).payload(DECLINED).build().to_vec();
    let rows = [
        (DecisionsFrom::ItsGrantors, [0, 1]),
        (DecisionsFrom::Grantors, [1, 1]),
        (DecisionsFrom::Anybody, [2, 1]),
    ];
    for (decisions_from, counted) in rows {
        rig.settings.publish(Settings { decisions_from, ..settings() });
        hear(&mut rig, &frame);
        let all = &rig.counters.decisions.all;
        let counts = [&all.declined, &all.not_its_grantor].map(|of| of.get());
        assert_eq!(counts, counted, "{decisions_from:?}");
        let sent = rig.send(&[to_p0(udp4(V4))]).len();
        assert_eq!(sent, usize::from(counted[0] == 0), "{decisions_from:?}");
    }
    assert_eq!(rig.dropped("decisions", "heard"), 3);
}

/// Bytes a second of a channel that has room for all.
pub(super) const FAST: u64 = 125_000_000;

pub(super) fn client(i: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0000 + i)
}

/// Messages of at most fifty decisions about the clients `of`.
pub(super) fn messages(of: std::ops::Range<u32>, verdict: Decision) -> Vec<Vec<u8>> {
    let flow = |i| Flow::V4 { src: client(i), dst: V4.parse().unwrap() };
    let all: Vec<_> = of.map(|i| Sent { flow: flow(i), verdict }).collect();
    all.chunks(50).map(|part| message("10.0.2.9", part)).collect()
}

#[test]
fn decisions_come_to_the_owners_of_their_flows_in_order() {
    const CLIENTS: u32 = 10_000;
    let mut pair = Pair::new(4_096, FAST);
    for (i, message) in messages(0..CLIENTS, GRANT).iter().enumerate() {
        pair.seats[i % 2].back.push(message);
        if i % 16 == 15 {
            pair.poll();
        }
    }
    (0..20).for_each(|_| pair.poll());
    let mut all = 0;
    for worker in 0..2 {
        let flows = pair.flows(worker, State::Granted);
        for [from, to] in &flows {
            let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) = (from, to) else {
                panic!()
            };
            assert_eq!(pair.owners.ipv4(*from, *to), worker);
        }
        assert!(flows.len() > 3_000, "{} of worker {worker}", flows.len());
        all += flows.len();
    }
    assert_eq!(all, CLIENTS as usize, "each of them");
    // Packets of each meet their grant.
    let to = "10.20.0.1:53".parse().unwrap();
    for some in (0..CLIENTS).collect::<Vec<_>>().chunks(128) {
        let mut sent = [Vec::new(), Vec::new()];
        for client in some.iter().map(|i| client(*i)) {
            let frame = to_p0(Frame::udp4(SocketAddrV4::new(client, 9), to));
            let owner = pair.owners.ipv4(client, V4.parse().unwrap());
            pair.seats[owner].front.push(&frame);
            sent[owner].push(in_v4(1, &frame[14..]));
        }
        pair.poll();
        for (seat, sent) in pair.seats.iter_mut().zip(sent) {
            assert_eq!(seat.back.take(), sent);
        }
    }
    // Of two decisions of one Grantor, heard by one worker, the later one holds.
    for round in 0..50 {
        let of = 0..50;
        let last = if round % 2 == 0 { Decision::Declined { expire_s: 60 } } else { GRANT };
        let first = if round % 2 == 0 { GRANT } else { Decision::Declined { expire_s: 60 } };
        for verdict in [first, last] {
            messages(of.clone(), verdict).iter().for_each(|m| pair.seats[round % 2].back.push(m));
        }
        (0..4).for_each(|_| pair.poll());
        let declined: usize = (0..2).map(|worker| pair.flows(worker, State::Declined).len()).sum();
        assert_eq!(declined, if round % 2 == 0 { 50 } else { 0 }, "round {round}");
    }
    let lost: u64 = pair.seats.iter().map(|seat| seat.counters.decisions.all.ring_full.get()).sum();
    assert_eq!(lost, 0);
}

#[test]
fn a_full_ring_is_a_named_loss() {
    let mut pair = Pair::new(64, FAST);
    // Worker 1 does not come by.
    messages(0..400, GRANT).iter().for_each(|message| pair.seats[0].back.push(message));
    let seat = &mut pair.seats[0];
    (0..10).for_each(|_| _ = seat.graph.poll(pair.thread.guard()));
    let its =
        (0..400).filter(|i| pair.owners.ipv4(client(*i), V4.parse().unwrap()) == 1).count() as u64;
    // What worker 0 passes on to itself in one vector may be more than its ring holds, too.
    let own = 400 - its - pair.flows(0, State::Granted).len() as u64;
    assert_eq!(pair.seats[0].counters.decisions.all.ring_full.get(), its - 64 + own);
    (0..10).for_each(|_| pair.poll());
    assert_eq!(pair.flows(1, State::Granted).len(), 64, "what there was room for");
}

/// Where a device spreads packets as nobody knows, each worker may meet any flow.
#[test]
fn decisions_come_to_all_workers_where_the_spread_is_unknown() {
    const CLIENTS: u32 = 1_000;
    let mut pair = Pair::spread(4_096, FAST, false);
    for (i, message) in messages(0..CLIENTS, GRANT).iter().enumerate() {
        pair.seats[i % 2].back.push(message);
    }
    (0..20).for_each(|_| pair.poll());
    for worker in 0..2 {
        let mut flows = pair.flows(worker, State::Granted);
        flows.sort();
        flows.dedup();
        assert_eq!(flows.len() as u32, CLIENTS, "worker {worker}");
    }
}

/// A grant for which there is no page: its flow asks on, and is its protection's.
#[test]
fn a_flow_whose_decision_has_no_page_is_of_the_decisions_protection() {
    let mut rig = Rig::with(8, "");
    let hosts: Vec<_> = (1..=8).map(|host| format!("10.23.0.{host}")).collect();
    for (n, host) in hosts.iter().enumerate() {
        rig.decide(host, GRANT);
        // A grant that was just used keeps its page.
        (n < 6).then(|| rig.send(&[to_p0(udp4(host))]));
    }
    let set = rig.set(&hosts[0]);
    assert_ne!(set, SetId { index: 0, generation: 0 });
    let decisions = &rig.counters.decisions.all;
    let (granted, no_page) = (decisions.granted.get(), decisions.no_page.get());
    assert_eq!((granted, no_page), (6, 2));
    let mut list = List::new(Filter::default());
    let Progress::Last(rows) = list.step(rig.graph.node_mut::<Shield>().unwrap(), 4_096) else {
        panic!("it is a small table");
    };
    assert!(rows.len() == 8 && rows.iter().all(|row| row.set == set), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.known.state() == State::Request).count(), 2);
}
