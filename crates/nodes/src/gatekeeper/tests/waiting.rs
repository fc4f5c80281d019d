//! More decisions than a poll passes on, in messages of any length: no message costs the packets
//! their time, and no decision is lost for it.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use graph::ring::spsc;
use graph::{Due, Node, clock};
use io::{Pool, PoolConfig};
use lookup::sync::{Domain, Thread};
use wire::build::Frame;
use wire::ggu::{COOKIE_LEN, Decision as Sent, Flow, Verdict as Decision};

use super::super::decisions::Decisions;
use super::super::listing::State;
use super::super::shield::Shield;
use super::super::solicitor::Channel;
use super::decisions::{FAST, GRANT, V4, client, hear, message, messages};
use super::pair::Pair;
use super::rig::{Of, Rig, Seat, control, in_v4};
use crate::testbed::to_p0;

/// Decisions that wait at worker 0.
fn waiting(pair: &mut Pair) -> usize {
    pair.seats[0].graph.node_mut::<Decisions>().unwrap().waiting()
}

fn known(pair: &mut Pair, state: State) -> usize {
    (0..2).map(|worker| pair.flows(worker, state).len()).sum()
}

fn count(pair: &Pair, of: impl Fn(&super::super::settings::Decisions) -> u64) -> u64 {
    pair.seats.iter().map(|seat| of(&seat.counters.decisions)).sum()
}

#[test]
fn what_a_poll_hears_is_bounded_and_the_rest_waits() {
    let mut pair = Pair::new(4_096, FAST);
    messages(0..3_000, GRANT).iter().for_each(|message| pair.seats[0].back.push(message));
    let poll = |pair: &mut Pair| {
        pair.seats[0].graph.poll(pair.thread.guard());
        pair.thread.quiesce();
    };
    poll(&mut pair);
    let counts = pair.seats[0].graph.stats().snapshot();
    let heard = counts.dropped("decisions", "heard") as usize;
    assert_eq!(heard * 50 - waiting(&mut pair), 1_024, "{heard} messages");
    assert!(heard * 50 > 1_024 && counts.law.holds() && counts.law.held == 0);
    // Without another packet, as fast as the tables take them in.
    while waiting(&mut pair) > 0 {
        let before = waiting(&mut pair);
        poll(&mut pair);
        assert_eq!(before - waiting(&mut pair), before.min(512));
    }
    (0..20).for_each(|_| pair.poll());
    assert_eq!(known(&mut pair, State::Granted), 3_000);
    assert_eq!(count(&pair, |of| of.all.too_many.get() + of.all.ring_full.get()), 0);
}

#[test]
fn decisions_that_wait_keep_their_order() {
    let mut pair = Pair::new(4_096, FAST);
    for verdict in [GRANT, Decision::Declined { expire_s: 60 }, GRANT] {
        messages(0..600, verdict).iter().for_each(|m| pair.seats[0].back.push(m));
    }
    let mut more = messages(0..600, Decision::Declined { expire_s: 60 }).into_iter();
    (0..20).for_each(|_| {
        // Heard while others wait.
        more.next().into_iter().for_each(|message| pair.seats[0].back.push(&message));
        pair.poll();
    });
    let known = [State::Declined, State::Granted].map(|state| known(&mut pair, state));
    assert_eq!(known, [600, 0]);
}

#[test]
fn beyond_what_may_wait_decisions_are_a_named_loss() {
    const ALL: u32 = 20_000;
    let mut pair = Pair::new(4_096, FAST);
    let declined = Decision::Declined { expire_s: 60 };
    let flow = |i| Flow::V4 { src: client(i), dst: V4.parse().unwrap() };
    let all: Vec<_> = (0..ALL).map(|i| Sent { flow: flow(i), verdict: declined }).collect();
    let messages = all.chunks(91).map(|part| message("10.0.2.9", part));
    messages.for_each(|message| pair.seats[0].back.push(&message));
    pair.seats[0].graph.poll(pair.thread.guard());
    assert_eq!(waiting(&mut pair), 16_384);
    let lost = ALL as u64 - 1_024 - 16_384;
    assert_eq!(count(&pair, |of| of.all.too_many.get()), lost);
    // All of them of one protection: the first there is.
    let its = tables::SetId { index: 0, generation: 0 };
    assert_eq!(pair.seats[0].counters.decided(its).unwrap().too_many.get(), lost);
    while waiting(&mut pair) > 0 {
        pair.poll();
    }
    (0..4).for_each(|_| pair.poll());
    assert_eq!(count(&pair, |of| of.all.ring_full.get()), 0, "not faster than they are taken in");
    assert_eq!(known(&mut pair, State::Declined) as u64, u64::from(ALL) - lost);
}

#[test]
fn decisions_that_wait_outlast_their_graph() {
    let [mut old, mut new] = [(), ()].map(|()| Pair::new(4_096, FAST));
    messages(0..2_000, GRANT).iter().for_each(|message| old.seats[0].back.push(message));
    old.seats[0].graph.poll(old.thread.guard());
    let before = waiting(&mut old);
    assert!(before > 0 && waiting(&mut new) == 0);
    Node::take_over(
        new.seats[0].graph.node_mut::<Decisions>().unwrap(),
        old.seats[0].graph.node_mut::<Decisions>().unwrap(),
    );
    assert_eq!((waiting(&mut old), waiting(&mut new)), (0, before));
    (0..20).for_each(|_| new.poll());
    assert_eq!((waiting(&mut new), known(&mut new, State::Granted)), (0, before));
}

/// As deployed Grantors send them where the back has an MTU of 2,048: the programs of the stock
/// policies, of both families.
#[test]
fn a_message_as_long_as_an_mtu_of_2048_is_heard() {
    let mut rig = Rig::new();
    let mut cookie = [0; COOKIE_LEN];
    cookie[..4].copy_from_slice(&1_024_u32.to_le_bytes());
    cookie[4..8].copy_from_slice(&240_000_u32.to_le_bytes());
    cookie[8..12].copy_from_slice(&3_000_u32.to_le_bytes());
    let verdict = Decision::Program { expire_s: 300, index: 0, cookie };
    let flow = |i| Flow::V4 { src: client(i), dst: V4.parse().unwrap() };
    let all: Vec<_> = (0..63).map(|i| Sent { flow: flow(i), verdict }).collect();
    let frame = message("10.0.2.9", &all);
    assert_eq!(frame.len() - 14, 20 + 8 + 4 + 63 * 32);
    assert_eq!(frame.len() - 14, 2_048);
    hear(&mut rig, &frame);
    assert_eq!(rig.counters.decisions.all.by_program.get(), 63);
    for i in [0, 62] {
        let from = SocketAddrV4::new(client(i), 9);
        let frame = to_p0(Frame::udp4(from, SocketAddrV4::new(V4.parse().unwrap(), 53)));
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [in_v4(1, &frame[14..])]);
    }
}

fn poll(seat: &mut Seat, thread: &mut Thread) -> Due {
    seat.graph.poll(thread.guard());
    thread.quiesce();
    seat.graph.due()
}

fn falls_asleep(seat: &mut Seat, thread: &mut Thread) {
    let (ms, begun) = (clock::ticks(Duration::from_millis(1)), Instant::now());
    while poll(seat, thread).ticks() < clock::now() + 10 * ms {
        assert!(begun.elapsed().as_secs() < 10, "it is woken again and again");
    }
}

/// Its table takes in what waits without a packet; then nothing wakes it before its next sweep.
#[test]
fn a_shield_alone_sleeps_when_no_decision_waits() {
    let domain = Domain::new();
    let (control, mut thread) = (control(&domain), domain.register("alone"));
    let thread = &mut thread;
    let pool = Pool::new(&PoolConfig { packets: 4096, mtu: 9000, large_pages: false }).unwrap();
    let (hears, heard) = spsc::ring(4_096);
    let of = Of { domain: &domain, control: &control, pool: &pool, owners: None };
    let member = Channel::new(FAST, 1, clock::now()).member(0);
    let mut seat = of.seat(member, (vec![heard], vec![hears]), 4_096, "");
    falls_asleep(&mut seat, thread);
    messages(0..3_000, GRANT).iter().for_each(|message| seat.back.push(message));
    assert_eq!(poll(&mut seat, thread), Due::NOW, "decisions wait");
    let known = |seat: &mut Seat| {
        let shield = seat.graph.node_mut::<Shield>().unwrap();
        shield.flows().unwrap().table().capacity().entries
    };
    let begun = Instant::now();
    while known(&mut seat) < 3_000 {
        poll(&mut seat, thread);
        assert!(begun.elapsed().as_secs() < 10, "{} of 3,000 are taken in", known(&mut seat));
    }
    falls_asleep(&mut seat, thread);
}
