//! Workers take turns at the request channel, and hold back what their port does not take.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use graph::clock;
use tables::event::{Event, LinkId, Neighbour, NeighbourState};
use tables::{Action, Named, Protect, VrfId};
use wire::build::Frame;

use super::super::solicit::Solicit;
use super::super::solicitor::OVERHEAD;
use super::super::times::Times;
use super::pair::Pair;
use super::rig::{GRANTOR, Rig};
use crate::testbed::to_p0;

/// A request, of 100 bytes as a frame when it is encapsulated, from this client.
fn ask(client: u32) -> Vec<u8> {
    let from = SocketAddrV4::new((0xc612_0000 + client).into(), 9);
    to_p0(Frame::udp4(from, "10.20.0.1:53".parse().unwrap()).payload(&[7; 38]))
}

fn waiting(pair: &mut Pair, worker: usize) -> usize {
    pair.seats[worker].graph.node_mut::<Solicit>().unwrap().waiting()
}

/// By a clock of the test's own: worker 0 does not poll for 1 s with level 42 queued, and worker
/// 1's requests flow within 1 ms. No token is lost or made.
#[test]
fn a_worker_that_stops_for_a_second_bars_nobody_for_a_millisecond() {
    let cost = 100 + OVERHEAD;
    let rate = 10_000 * cost;
    let mut pair = Pair::new(64, rate);
    let micros = |n: u64| clock::ticks(Duration::from_micros(n));
    let start = clock::now();
    // What was made until then, and a full bucket at the start: to a request's worth.
    let made = |now: u64| {
        let time = clock::rate().time(now - start).as_nanos();
        u64::try_from(u128::from(rate) * time / 1_000_000_000).unwrap()
    };
    // They ask a first time, which all may.
    let mut now = start + micros(100_000);
    (0..300).for_each(|i| pair.seats[0].front.push(&ask(i)));
    let mut sent = 0;
    while sent < 300 {
        pair.poll_at(0, now);
        now += micros(50);
        sent += pair.seats[0].back.take().len() as u64;
    }
    // Others empty the bucket, and still queue.
    now += micros(600_000);
    let mut n = 1_000;
    while waiting(&mut pair, 1) < 400 {
        (n..n + 32).for_each(|i| pair.seats[1].front.push(&ask(i)));
        n += 32;
        pair.poll_at(1, now);
        sent += pair.seats[1].back.take().len() as u64;
    }
    // Those that have waited ask again, and worker 0 stops.
    (0..300).for_each(|i| pair.seats[0].front.push(&ask(i)));
    (0..12).for_each(|_| pair.poll_at(0, now));
    assert!(pair.seats[0].back.take().is_empty(), "the bucket is empty");
    assert_eq!(waiting(&mut pair, 0), 300);
    let (stopped, before) = (now, sent);
    let mut flows = None;
    while now < stopped + micros(1_000_000) {
        now += micros(10);
        if n % 3 == 0 {
            pair.seats[1].front.push(&ask(n));
        }
        n += 1;
        pair.poll_at(1, now);
        let got = pair.seats[1].back.take();
        assert!(got.iter().all(|frame| frame[15] >> 2 == 41));
        sent += got.len() as u64;
        flows = flows.or((!got.is_empty()).then_some(now - stopped));
    }
    let flows = flows.expect("worker 1's requests flow");
    assert!(flows > micros(100), "barred while worker 0 may yet come: {flows}");
    assert!(flows <= micros(1_000), "barred for {flows} ticks");
    assert_eq!(waiting(&mut pair, 0), 300);
    // The bucket was empty and is: what left is what was made, to a request's worth.
    let (spent, since) = ((sent - before) * cost, made(now) - made(stopped));
    assert!(spent.abs_diff(since) <= 2 * cost, "{spent} of {since}");
    assert!(sent * cost <= rate + made(now), "{sent}: tokens were made");
    // Worker 0 comes back, and its level goes first.
    now += micros(10);
    pair.poll_at(0, now);
    while pair.seats[0].back.take().is_empty() {
        now += micros(50);
        pair.poll_at(1, now);
        assert!(pair.seats[1].back.take().is_empty(), "level 41 before level 42");
        pair.poll_at(0, now);
    }
    pair.stop();
}

/// A port that takes nothing: what waits for it waits, and is tried again, one at a time.
#[test]
fn requests_wait_for_a_port_that_takes_nothing() {
    let mut rig = Rig::new();
    rig.back.accept(0);
    let asks: Vec<_> = (0..200).map(ask).collect();
    asks.iter().for_each(|frame| rig.front.push(frame));
    let begun = Instant::now();
    let mut polls = 0;
    while begun.elapsed() < Duration::from_millis(3) || polls < 100 {
        rig.graph.poll(rig.thread.guard());
        rig.thread.quiesce();
        polls += 1;
    }
    let lost = rig.graph.stats().snapshot().dropped("output", "transmit_full");
    let held = rig.graph.stats().balance().held;
    assert_eq!(lost + held, 200);
    let most = 32 * 4 + u128::from(begun.elapsed().as_micros() as u64) / 200;
    assert!(u128::from(lost) < most.min(200) && held > 0, "{lost} lost, {held} wait");
    rig.back.accept(usize::MAX);
    rig.run();
    assert_eq!(rig.back.take().len() as u64, held);
}

/// Two back ports, one of which takes nothing: the other's requests leave, those of a lower
/// priority too, and what waits leaves in its order once its port takes it.
#[test]
fn a_port_that_takes_nothing_holds_up_no_other_ports_requests() {
    let mut rig = Rig::new();
    // A Grantor behind the other port.
    let mac = Some(GRANTOR);
    let (ip, state) = ("10.0.3.9".parse().unwrap(), NeighbourState::Reachable);
    let grantors = vec![Named { ip, weight: 1, shadow: false }];
    let net = "10.24.0.0/16".parse().unwrap();
    let protect = Protect { net, action: Action::Protect, options: 0, grantors };
    rig.control.protect(VrfId(0), &protect).unwrap();
    rig.control.commit();
    rig.control.handle(&[Event::Neighbour(Neighbour { link: LinkId(3), ip, mac, state })]);
    rig.control.commit();
    let asks = |host: [u8; 4], n: u32| {
        let to = SocketAddrV4::new(host.into(), 53);
        let from = |client: u32| SocketAddrV4::new((0xc633_6400 + client).into(), 4_000);
        (0..n).map(move |client| to_p0(Frame::udp4(from(client), to).payload(&[0; 8])))
    };

    rig.back.accept(0);
    let mut now = clock::now();
    let micro = Times::new(clock::rate()).second() / 1_000_000;
    let mut poll = |rig: &mut Rig| {
        now += 10 * micro;
        rig.graph.poll_at(now, rig.thread.guard());
        rig.thread.quiesce();
    };
    asks([10, 20, 0, 1], 100).for_each(|frame| rig.front.push(&frame));
    (0..20).for_each(|_| poll(&mut rig));
    // The second port's come behind them, and in between.
    for frames in [asks([10, 24, 0, 1], 100), asks([10, 20, 0, 2], 50), asks([10, 24, 0, 2], 50)] {
        frames.for_each(|frame| rig.front.push(&frame));
        (0..4).for_each(|_| poll(&mut rig));
    }
    (0..30).for_each(|_| poll(&mut rig));
    let left = |frames: &[Vec<u8>]| -> Vec<_> {
        frames.iter().map(|frame| (frame[20 + 14 + 19], frame[20 + 14 + 15])).collect()
    };
    let others = left(&rig.other_back.take());
    let want: Vec<_> = (0..100).map(|n| (1, n)).chain((0..50).map(|n| (2, n))).collect();
    assert_eq!(others, want, "within half a millisecond");

    let lost = rig.graph.stats().snapshot().dropped("output", "transmit_full");
    assert!(lost <= 32 * 2 + 8, "{lost} lost");
    rig.back.accept(usize::MAX);
    (0..200).for_each(|_| poll(&mut rig));
    let waited = left(&rig.back.take());
    assert_eq!(waited.len() as u64 + lost, 150);
    assert!(waited.is_sorted(), "{waited:?}");
}
