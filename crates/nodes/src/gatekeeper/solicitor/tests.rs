//! Workers that share a channel, in a time of their own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use graph::clock::Rate;
use graph::testing::Counting;

use super::*;
use crate::gatekeeper::times::Times;

/// 5 % of 1 Gbit/s, a second of which is its capacity too.
const BYTES: u64 = 6_250_000;
/// Bytes of each request as a frame, and in the channel.
const LEN: u32 = 100;
const COST: u64 = LEN as u64 + OVERHEAD;

fn times() -> Times {
    let second = Duration::from_secs(1);
    Times::new(Rate::measured(2_445_000_000, second).unwrap())
}

/// A worker, its requests' numbers, and what became of them.
struct Worker {
    member: Member,
    queue: Queue<u64>,
    sent: Vec<(u8, u64)>,
    dropped: Vec<(u8, u64)>,
    takes: bool,
}

impl Worker {
    fn new(channel: &Arc<Channel>, number: usize) -> Self {
        let (member, queue) = (channel.member(number), Queue::new(CAPACITY));
        Worker { member, queue, sent: Vec::new(), dropped: Vec::new(), takes: true }
    }

    fn push(&mut self, level: u8, item: u64) {
        let dropped = self.queue.push(level, item);
        self.dropped.extend(dropped.map(|dropped| (dropped.level, dropped.item)));
    }

    fn poll(&mut self, times: &Times, now: u64) -> usize {
        let poll = Poll { times, now, most: BURST };
        let Worker { member, queue, sent, takes, .. } = self;
        let send = |level, item| {
            sent.push((level, item));
            Ok(true)
        };
        member.poll(&poll, queue, |_| takes.then_some(LEN), send)
    }

    fn sent_at(&self, level: u8) -> usize {
        self.sent.iter().filter(|(found, _)| *found == level).count()
    }
}

fn workers(channel: &Arc<Channel>) -> [Worker; 2] {
    [0, 1].map(|number| Worker::new(channel, number))
}

/// The budget of a channel that began full at 0, until `now`.
fn budget(times: &Times, now: u64) -> u64 {
    BYTES + Bucket::new(BYTES, 0).made(times, now)
}

/// All that there is, taken by a request that nobody waits for.
fn empty(channel: &Arc<Channel>, times: &Times, now: u64) {
    let mut worker = Worker::new(channel, 0);
    while {
        worker.push(63, 0);
        worker.poll(times, now) > 0
    } {}
}

/// Easy version 23.
#[test]
fn a_flood_on_one_worker_leaves_the_patient_ones_of_another() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    let [mut flooded, mut other] = workers(&channel);
    let (poll, polls) = (times.second() / 50_000, 150_000); // 20 µs, 3 s
    let (mut number, mut patient) = (0, 0);
    for n in 0..polls {
        let now = n * poll;
        for _ in 0..16 {
            number += 1; // 800,000 a second, for 50,000
            flooded.push(41, number);
        }
        if n % 50 == 0 {
            patient += 1;
            other.push(42, patient);
        }
        flooded.poll(&times, now);
        other.poll(&times, now);
        // A frame's tokens are made in the time of one poll.
        assert!(other.queue.len() <= 1, "poll {n}");
    }
    other.poll(&times, polls * poll);
    assert_eq!((other.sent_at(42), other.dropped.len()), (patient as usize, 0));
    assert!(other.sent.is_sorted(), "in their order");
    let sent = (flooded.sent.len() + other.sent.len()) as u64 * COST;
    let made = budget(&times, polls * poll);
    assert!(sent <= made && sent > made - 3 * COST, "{sent} of {made}");
    let rest = number as usize - flooded.sent.len() - flooded.queue.len();
    assert_eq!(flooded.dropped.len(), rest);
}

#[test]
fn one_worker_alone_uses_the_whole_channel() {
    let times = times();
    let channel = Channel::new(BYTES, 8, 0);
    let mut alone = Worker::new(&channel, 5);
    let (poll, polls) = (times.second() / 10_000, 20_000);
    for n in 0..=polls {
        (0..BURST as u64).for_each(|item| alone.push(3, item));
        alone.poll(&times, n * poll);
    }
    let sent = alone.sent.len() as u64 * COST;
    let made = budget(&times, polls * poll);
    assert!(sent <= made && sent > made - COST, "{sent} of {made}");
}

#[test]
fn the_higher_level_is_first_over_all_workers() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    empty(&channel, &times, 0);
    let [mut low, mut high] = workers(&channel);
    (0..100).for_each(|item| low.push(41, item));
    (0..100).for_each(|item| high.push(42, item));
    high.poll(&times, 0);
    let mut now = 0;
    while high.sent.len() < 100 {
        assert_eq!(low.sent.len(), 0);
        now += times.second() / 20_000;
        low.poll(&times, now);
        high.poll(&times, now);
    }
    // The tokens left over are the other's at its next poll.
    assert!(low.poll(&times, now + times.second() / 20_000) >= 2);
    // Equal levels bar neither.
    now += times.second() / 20_000;
    high.push(41, 0);
    high.poll(&times, now);
    assert!(low.poll(&times, now + times.second() / 20_000) > 0);
}

#[test]
fn a_worker_that_stops_bars_the_others_for_200_us() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    let [mut stopped, mut other] = workers(&channel);
    empty(&channel, &times, 0);
    stopped.push(42, 0);
    stopped.poll(&times, 0);
    assert_eq!(stopped.sent, [], "there is no token");
    let (poll, second) = (times.second() / 100_000, times.second()); // 10 µs
    let mut first = None;
    for n in 1..=100_000 {
        other.push(41, n);
        if other.poll(&times, n * poll) > 0 {
            first.get_or_insert(n * poll);
        }
    }
    let first = first.unwrap();
    assert!(first > times.published() && first < second / 1_000, "{first} ticks");
    // Meanwhile no token was lost, and none was made.
    let sent = other.sent.len() as u64 * COST;
    let made = budget(&times, 100_000 * poll) - BYTES;
    assert!(sent < made + COST && sent > made - COST, "{sent} of {made}");
    // It comes back, and is first again.
    other.push(41, 0);
    let now = second + 10 * poll;
    stopped.poll(&times, now);
    assert_eq!((stopped.sent_at(42), stopped.queue.len()), (1, 0));
}

/// By two threads and one clock, which goes on by each poll of the second: the first sleeps for a
/// second of it with level 42 queued, and then fights for the tokens, as often as the system lets it.
#[test]
fn a_thread_that_sleeps_bars_the_other_for_200_us() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    let [mut sleeper, mut other] = workers(&channel);
    empty(&channel, &times, 0);
    let (poll, second) = (times.second() / 100_000, times.second()); // 10 µs
    let (clock, asleep, awake) = (AtomicU64::new(0), Barrier::new(2), Barrier::new(2));
    let first = std::thread::scope(|scope| {
        scope.spawn(|| {
            sleeper.push(42, 0);
            sleeper.poll(&times, 0);
            asleep.wait();
            awake.wait();
            while clock.load(Relaxed) < 2 * second {
                sleeper.push(42, 0);
                sleeper.poll(&times, clock.load(Relaxed));
            }
        });
        asleep.wait();
        let mut poll = || {
            let now = clock.fetch_add(poll, Relaxed) + poll;
            other.push(41, now);
            (other.poll(&times, now) > 0, now)
        };
        let mut first = None;
        while clock.load(Relaxed) < second {
            let (sent, now) = poll();
            first = first.or(sent.then_some(now));
        }
        awake.wait();
        while clock.load(Relaxed) < 2 * second {
            poll();
        }
        first.unwrap()
    });
    assert!(first > times.published() && first < second / 1_000, "{first} ticks");
    // What neither took while each barred the other is there still.
    let now = clock.into_inner();
    drop(sleeper.member);
    while {
        other.push(41, 0);
        other.poll(&times, now) > 0
    } {}
    let sent = (sleeper.sent.len() + other.sent.len()) as u64 * COST;
    let made = budget(&times, now) - BYTES;
    assert!(sent < made + COST && sent > made - COST, "{sent} of {made}");
}

#[test]
fn a_worker_whose_port_takes_nothing_bars_nobody_and_takes_nothing() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    let [mut shut, mut other] = workers(&channel);
    shut.push(42, 0);
    (0..40).for_each(|item| other.push(41, item));
    shut.takes = false;
    shut.poll(&times, 0);
    assert_eq!(other.poll(&times, 0), BURST);
    assert_eq!((shut.sent.len(), shut.queue.len()), (0, 1));
    // It shuts after it has published.
    shut.takes = true;
    shut.queue.take_back();
    empty(&channel, &times, 0);
    shut.poll(&times, 0);
    let later = times.second() / 10_000;
    assert_eq!(other.poll(&times, later), 0);
    shut.takes = false;
    shut.poll(&times, later);
    assert!(other.poll(&times, later) > 0);
}

#[test]
fn a_worker_that_is_gone_bars_nobody() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    let [mut gone, mut other] = workers(&channel);
    empty(&channel, &times, 0);
    gone.push(42, 0);
    gone.poll(&times, 0);
    drop(gone);
    other.push(41, 0);
    assert_eq!(other.poll(&times, times.second() / 10_000), 1);
}

/// A member of a channel with 300 tokens, for two requests, and a queue of so many.
fn with_300_tokens(requests: u64) -> (Member, Queue<u64>) {
    let mut queue = Queue::new(CAPACITY);
    for item in 0..requests {
        queue.push(41, item);
    }
    (Channel::new(300, 1, 0).member(0), queue)
}

#[test]
fn what_is_not_sent_keeps_its_place_and_its_tokens() {
    let times = times();
    let (mut member, mut queue) = with_300_tokens(4);
    let poll = Poll { times: &times, now: 0, most: BURST };
    let mut sent = Vec::new();
    for room in [1, 0, 5] {
        let mut room = room;
        member.poll(
            &poll,
            &mut queue,
            |_| Some(LEN),
            |_, item| {
                if room == 0 {
                    return Err(item);
                }
                room -= 1;
                sent.push(item);
                Ok(true)
            },
        );
    }
    assert_eq!(sent, [0, 1], "300 tokens");
    assert_eq!(queue.pop(), Some((41, 2)));
}

#[test]
fn what_is_dropped_in_its_turn_costs_no_tokens() {
    let times = times();
    let (mut member, mut queue) = with_300_tokens(9);
    let poll = Poll { times: &times, now: 0, most: BURST };
    let mut sent = Vec::new();
    let is_sent = |item: u64| !item.is_multiple_of(3);
    let send = |_, item| {
        sent.extend(is_sent(item).then_some(item));
        Ok(is_sent(item))
    };
    assert_eq!(member.poll(&poll, &mut queue, |_| Some(LEN), send), 3);
    assert_eq!(sent, [1, 2], "300 tokens");
    assert_eq!(queue.pop(), Some((41, 3)));
}

#[test]
fn who_cannot_send_bars_nobody() {
    let times = times();
    let channel = Channel::new(BYTES, 2, 0);
    let (mut member, mut other) = (channel.member(0), Worker::new(&channel, 1));
    let mut queue = Queue::new(CAPACITY);
    queue.push(42, 0);
    other.push(41, 1);
    let poll = Poll { times: &times, now: 0, most: BURST };
    member.poll(&poll, &mut queue, |_| Some(LEN), |_, item| Err(item));
    assert_eq!(other.poll(&times, 0), 1);
}

#[test]
fn a_poll_sends_a_burst_at_most() {
    let times = times();
    let channel = Channel::new(BYTES, 1, 0);
    let mut worker = Worker::new(&channel, 0);
    (0..100).for_each(|item| worker.push(41, item));
    assert_eq!([0; 4].map(|now| worker.poll(&times, now)), [32, 32, 32, 4]);
}

#[test]
fn clocks_that_jump_do_not_shut_the_channel() {
    let times = times();
    let second = times.second();
    let channel = Channel::new(BYTES, 2, 0);
    let [mut worker, mut other] = workers(&channel);
    for now in [0, second, 1 << 60, u64::MAX, 2 * second, 0] {
        (0..100).for_each(|item| worker.push(41, item));
        worker.poll(&times, now);
        other.poll(&times, now);
    }
    let before = worker.sent.len();
    for n in 0..1_000 {
        worker.poll(&times, 3 * second + n * (second / 10_000));
    }
    assert!(worker.sent.len() > before && worker.queue.is_empty());
}

#[test]
fn the_share_of_a_bandwidth() {
    assert_eq!(channel_bytes(1_000_000_000, SHARE), BYTES);
    assert_eq!(channel_bytes(100_000_000_000, SHARE), 625_000_000);
    assert_eq!(channel_bytes(1_000, SHARE), 6, "6.25");
    assert_eq!(channel_bytes(u64::MAX, u32::MAX), u64::MAX);
}

#[test]
fn nothing_is_allocated_for_a_request() {
    let times = times();
    let channel = Channel::new(BYTES, 1, 0);
    let mut member = channel.member(0);
    let mut queue = Queue::new(CAPACITY);
    let before = Counting::allocations();
    let mut sent = 0;
    for now in 0..100 {
        (0..40).for_each(|level| _ = queue.push(level, now));
        let poll = Poll { times: &times, now, most: BURST };
        sent += member.poll(&poll, &mut queue, |_| Some(LEN), |_, _| Ok(true));
    }
    assert_eq!(Counting::allocations(), before);
    assert_eq!(sent, 100 * BURST);
}
