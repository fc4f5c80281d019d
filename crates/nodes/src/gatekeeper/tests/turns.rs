//! Workers take turns at the request channel, and hold back what their port does not take.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use graph::clock;
use wire::build::Frame;

use super::super::solicit::Solicit;
use super::super::solicitor::OVERHEAD;
use super::pair::Pair;
use super::rig::Rig;
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
