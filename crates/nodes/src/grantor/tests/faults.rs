//! A policy that is full, silent, late or wrong; a Grantor that has no room.

use std::time::Duration;

use policy::ask::Verdict;

use super::super::grantor::Grantor;
use super::super::settings::{Instead, Settings};
use super::rig::{DECLINED, Rig, datagram, grant, highest_shed, in_v4, inside, settings};

fn full(capacity: usize, asked: usize) -> Rig {
    Rig::with(|_| None, capacity, Settings { asked, ..settings() })
}

/// The lowest priorities are dropped first; packets that were asked about stay.
#[test]
fn without_room_the_lowest_go_first() {
    let mut rig = full(16, 4);
    let frames = |dscp: u8, range: std::ops::Range<u32>| -> Vec<_> {
        range.map(|n| in_v4(dscp, &datagram(n, 20))).collect()
    };
    rig.send(&frames(10, 0..4)); // asked
    rig.send(&frames(20, 4..10));
    rig.send(&frames(30, 10..16));
    assert_eq!((rig.held(), rig.policy.lock().asked.len()), (16, 4));
    rig.send(&frames(20, 20..22)); // no higher than the lowest that waits
    assert_eq!((rig.counters.shed.get(), highest_shed(&rig.counters)), (2, 20));
    rig.send(&frames(40, 30..36));
    assert_eq!((rig.counters.shed.get(), highest_shed(&rig.counters)), (8, 20));
    rig.send(&frames(30, 40..41));
    assert_eq!((rig.counters.shed.get(), highest_shed(&rig.counters)), (9, 30));
    assert_eq!((rig.held(), rig.dropped("grantor", "full")), (16, 9));
    // The policy is asked in the order of priorities, and every packet that was left comes out.
    let mut order = Vec::new();
    loop {
        let asked: Vec<_> = rig.policy.lock().asked.drain(..).collect();
        if asked.is_empty() {
            break;
        }
        order.extend(asked.iter().map(|asked| asked.facts.priority));
        rig.policy.lock().answers.extend(asked.iter().filter_map(grant));
        rig.run();
    }
    assert_eq!(order, [[10; 4].as_slice(), &[40; 6], &[30; 6]].concat());
    assert_eq!(rig.inside.take().len(), 16);
    assert_eq!(rig.held(), 0);
}

/// Renewals belong to granted flows: requests do not starve them.
#[test]
fn a_renewal_makes_room_and_is_asked_about_first() {
    let mut rig = full(4, 1);
    let requests: Vec<_> = (0..4).map(|n| in_v4(63, &datagram(n, 20))).collect();
    rig.send(&requests);
    assert_eq!(rig.send(&[in_v4(2, &datagram(9, 20))]), [inside(&datagram(9, 20))]);
    assert_eq!(rig.dropped("grantor", "full"), 1);
    let id = rig.policy.lock().asked[0].id;
    rig.policy.lock().answers.push_back(Verdict { id, forward: true, decision: None });
    rig.run();
    assert_eq!(rig.policy.lock().asked[1].facts.priority, 2);
}

#[test]
fn a_policy_that_takes_nothing_leaves_them_waiting() {
    let mut rig = full(64, 64);
    rig.policy.lock().room = 3;
    rig.send(&(0..10).map(|n| in_v4(41, &datagram(n, 20))).collect::<Vec<_>>());
    assert_eq!((rig.held(), rig.policy.lock().asked.len()), (10, 3));
    assert!(rig.counters.refused.get() > 0);
    rig.policy.lock().room = usize::MAX;
    rig.policy.lock().decide = grant;
    let ids: Vec<_> = rig.policy.lock().asked.iter().map(|asked| asked.id).collect();
    let answer = |id| Verdict { id, forward: true, decision: None };
    rig.policy.lock().answers.extend(ids.into_iter().map(answer));
    rig.later(Duration::from_millis(1));
    rig.run();
    assert_eq!((rig.inside.take().len(), rig.held()), (10, 0));
}

#[test]
fn who_is_not_answered_for_leaves_as_configured() {
    let decision = Some(DECLINED);
    for (forward, decision) in [(false, None), (true, None), (false, decision), (true, decision)] {
        let on_limit = Instead { forward, decision };
        let settings = Settings { limit_ms: 20, on_limit, asked: 3, ..settings() };
        let mut rig = Rig::with(|_| None, 64, settings);
        rig.send(&(0..10).map(|n| in_v4(41, &datagram(n, 20))).collect::<Vec<_>>());
        assert_eq!(rig.held(), 10);
        rig.later(Duration::from_millis(20));
        rig.run();
        assert_eq!((rig.held(), rig.counters.overdue.get()), (0, 10));
        assert_eq!(rig.inside.take().len(), if forward { 10 } else { 0 });
        assert_eq!(rig.dropped("grantor", "overdue"), if forward { 0 } else { 10 });
        let sent = rig.decisions().into_iter().map(|(_, decisions)| decisions.len());
        assert_eq!(sent.sum::<usize>(), if decision.is_some() { 10 } else { 0 });
        // The answers come after all, and match no packet.
        let ids: Vec<_> = rig.policy.lock().asked.iter().map(|asked| asked.id).collect();
        let late = ids.into_iter().map(|id| Verdict { id, forward: true, decision });
        rig.policy.lock().answers.extend(late);
        rig.send(&[in_v4(0, &datagram(99, 20))]);
        assert_eq!(rig.counters.late.get(), 3);
        assert!(rig.decisions().is_empty());
    }
}

#[test]
fn without_room_it_goes_on_where_that_is_configured() {
    let on_full = Instead { forward: true, decision: Some(DECLINED) };
    let mut rig = Rig::with(|_| None, 4, Settings { on_full, asked: 1, ..settings() });
    rig.send(&(0..4).map(|n| in_v4(10, &datagram(n, 20))).collect::<Vec<_>>());
    assert_eq!(rig.send(&[in_v4(10, &datagram(7, 20))]), [inside(&datagram(7, 20))]);
    assert_eq!(rig.send(&[in_v4(11, &datagram(8, 20))]), [inside(&datagram(3, 20))]);
    assert_eq!(rig.decisions().len(), 1, "of what had waited");
    assert_eq!((rig.counters.shed.get(), rig.held()), (2, 4));
}

#[test]
fn answers_of_nobody_are_counted_and_nothing_else() {
    let mut rig = Rig::new(|_| None);
    rig.send(&[in_v4(41, &datagram(1, 20))]);
    let id = rig.policy.lock().asked[0].id;
    let all = [id ^ 1, id ^ 1 << 16, id ^ 1 << 31, u32::MAX, 0xffff, id, id, id];
    let answer = |id| Verdict { id, forward: true, decision: Some(DECLINED) };
    rig.policy.lock().answers.extend(all.map(answer));
    rig.send(&[in_v4(0, &datagram(2, 20))]);
    assert_eq!((rig.counters.late.get(), rig.counters.forwarded.get()), (7, 1));
    assert_eq!((rig.held(), rig.decisions().len()), (0, 1));
}

#[test]
fn a_stop_gives_all_of_them_back() {
    let mut rig = full(64, 8);
    rig.send(&(0..40).map(|n| in_v4(41, &datagram(n, 20))).collect::<Vec<_>>());
    rig.send(&[in_v4(2, &datagram(50, 20))]);
    assert_eq!(rig.held(), 41);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let counts = rig.graph.stats().snapshot();
    assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
    assert_eq!(counts.dropped("grantor", "stopped"), 41);
    assert_eq!(rig.pool.available(), rig.pool.size());
}

/// The port of some waiting packets is gone when they are granted.
#[test]
fn without_their_port_they_are_dropped() {
    let mut rig = full(64, 8);
    rig.send(&[in_v4(41, &datagram(1, 20))]);
    let id = rig.policy.lock().asked[0].id;
    let port = rig.graph.ports().remove(0);
    let decision = Some(DECLINED);
    rig.policy.lock().answers.push_back(Verdict { id, forward: true, decision });
    for _ in 0..10 {
        rig.poll();
    }
    let counts = rig.graph.stats().snapshot();
    assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
    assert_eq!(counts.dropped("grantor", "no_port"), 1);
    assert_eq!(rig.counters.unsent.get(), 1);
    drop(port);
    assert_eq!(rig.graph.node_mut::<Grantor>().unwrap().waiting(), 0);
}

/// Ten times as many requests as answers: the highest priorities get through.
#[test]
fn a_flood_takes_nothing_from_those_who_wait_longer() {
    let mut rig = full(256, 32);
    let (mut patient, mut answered) = (0, 0);
    for round in 0..200_u32 {
        let flood = (0..60).map(|n| in_v4(10 + (n % 20) as u8, &datagram(round * 64 + n, 20)));
        let higher = (60..64).map(|n| in_v4(50, &datagram(round * 64 + n, 20)));
        flood.chain(higher).for_each(|frame| rig.back.push(&frame));
        rig.poll();
        // Six answers a poll.
        let mut state = rig.policy.lock();
        let n = state.asked.len().min(6);
        let asked: Vec<_> = state.asked.drain(..n).collect();
        answered += n;
        patient += asked.iter().filter(|asked| asked.facts.priority == 50).count();
        let answers: Vec<_> = asked.iter().filter_map(grant).collect();
        state.answers.extend(answers);
    }
    assert!(patient >= 4 * 190 - 32, "{patient} of {answered}");
    assert!(rig.counters.shed.get() > 9_000 && highest_shed(&rig.counters) < 50);
    rig.run();
}

/// Ten times as many requests as answers, of all priorities: the lowest are shed, and the counters
/// are true.
#[test]
fn of_ten_times_too_many_the_lowest_are_shed() {
    const POLLS: u32 = 400;
    let mut rig = full(256, 32);
    let (mut came, mut answered) = ([0_u64; 64], [0_u64; 64]);
    for poll in 0..POLLS {
        for n in 0..60 {
            let dscp = 4 + ((poll * 7 + n) % 60) as u8;
            came[usize::from(dscp)] += 1;
            rig.back.push(&in_v4(dscp, &datagram(poll * 64 + n, 20)));
        }
        rig.poll();
        let mut state = rig.policy.lock();
        let n = state.asked.len().min(6);
        let asked: Vec<_> = state.asked.drain(..n).collect();
        asked.iter().for_each(|asked| answered[usize::from(asked.facts.priority)] += 1);
        state.answers.extend(asked.iter().filter_map(grant));
    }
    // Six answers a poll: the six highest priorities get them, except the last packets, which still wait.
    let polls = u64::from(POLLS);
    let of = |range: std::ops::Range<usize>| -> u64 { answered[range].iter().sum() };
    assert_eq!(came[63], polls);
    assert!(of(58..64) >= 6 * polls - 320, "{answered:?}");
    assert!(of(4..50) <= 320, "what was asked before there was a queue: {answered:?}");
    let held = rig.held();
    let shed = rig.counters.shed.get();
    assert_eq!(came.iter().sum::<u64>(), of(0..64) + shed + held);
    assert_eq!(rig.dropped("grantor", "full"), shed);
    let highest = highest_shed(&rig.counters);
    assert!((50..58).contains(&highest), "{highest}");
}
