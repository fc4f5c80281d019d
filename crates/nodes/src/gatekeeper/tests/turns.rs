//! Workers take turns at the request channel, and hold back what their port does not take.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

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

/// Worker 0 stops for a second with patient requests in its queue: worker 1 is held up for no
/// longer than what worker 0 published counts, and the budget is what it was.
#[test]
fn a_stopped_worker_bars_nobody() {
    // Ten thousand requests a second; a second's are saved up.
    let rate = 10_000 * (100 + OVERHEAD);
    let begun = Instant::now();
    let mut pair = Pair::new(64, rate);
    // Clients of worker 0 that have waited for 0.6 s: DSCP 42.
    (0..300).for_each(|i| pair.seats[0].front.push(&ask(i)));
    while waiting(&mut pair, 0) > 0 || begun.elapsed() < Duration::from_millis(10) {
        pair.poll_one(0);
    }
    std::thread::sleep(Duration::from_millis(600));
    let mut sent = pair.seats[0].back.take().len() as u64;
    // The bucket is emptied by worker 1.
    let mut n = 1_000;
    let mut drained = 0;
    while drained < 100 {
        (n..n + 32).for_each(|i| pair.seats[1].front.push(&ask(i)));
        n += 32;
        pair.poll_one(1);
        drained = waiting(&mut pair, 1);
    }
    (0..300).for_each(|i| pair.seats[0].front.push(&ask(i)));
    (0..6).for_each(|_| pair.poll_one(0));
    let stopped = Instant::now();
    let held = waiting(&mut pair, 0);
    assert!(held > 100, "{held}");
    sent += pair.seats.iter().map(|seat| seat.back.take().len() as u64).sum::<u64>();
    let sent_before = sent;
    // While worker 0 polls, its level bars worker 1's; then not, for at most 1 ms of polls.
    let mut flows = None;
    let mut polls = 0;
    while flows.is_none() {
        let before = stopped.elapsed();
        pair.poll_one(1);
        polls += 1;
        let got = pair.seats[1].back.take();
        if !got.is_empty() {
            assert!(got.iter().all(|frame| frame[15] >> 2 == 41));
            sent += got.len() as u64;
            flows = Some(before);
        }
        assert!(before < Duration::from_millis(500), "barred for {before:?}");
    }
    // By a clock that nobody stole time from: a poll is some microseconds.
    let flows = flows.unwrap();
    assert!(flows < Duration::from_millis(1) || polls < 50, "after {flows:?}, {polls} polls");
    while stopped.elapsed() < Duration::from_secs(1) {
        pair.poll_one(1);
        (n..n + 16).for_each(|i| pair.seats[1].front.push(&ask(i)));
        n += 16;
    }
    // Worker 0 comes back: its own go first.
    sent += pair.seats[1].back.take().len() as u64;
    let second = stopped.elapsed();
    // In that second nothing was lost of what was made, but for the last polls' part.
    let cost = 100 + OVERHEAD;
    let made = |time: Duration| u128::from(rate) * time.as_nanos() / 1_000_000_000;
    let since = u128::from((sent - sent_before) * cost);
    assert!(since + u128::from(100 * cost) > made(second), "{since} of {}", made(second));
    while waiting(&mut pair, 0) == held {
        pair.poll_one(0);
        assert!(stopped.elapsed() < Duration::from_secs(10));
    }
    let got = pair.seats[0].back.take();
    assert!(!got.is_empty() && got.iter().all(|frame| frame[15] >> 2 == 42));
    sent += got.len() as u64;
    let made = made(begun.elapsed());
    let bytes = u128::from(sent * cost);
    assert!(bytes <= made + u128::from(rate), "{bytes} of {made}: some were made up");
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
