//! Loads, reloads, rollbacks, chunks.

use std::time::{Duration, Instant};

use policy::ask::Asker;
use policy::cell::{Error, Event, Settings, Source};

use crate::Test;
use crate::deciders::{BAD, honest};
use crate::rig::{Rig, settings};

pub const TESTS: &[Test] = &[
    ("a_reload_loses_no_packet", reload),
    ("a_policy_that_does_not_begin_changes_nothing", refused),
    ("too_many_failures_roll_back_to_the_policy_before", rollback),
    ("failures_roll_back_past_a_policy_that_fails_too", rollback_past),
    ("chunks_run_in_every_process", chunks),
    ("files_come_as_they_are", files),
    ("several_processes_and_workers_share_the_work", shared),
    ("a_stuck_process_does_not_hold_up_others", stuck),
    ("a_lone_packet_comes_back_soon", round_trip),
    ("a_spare_sleeps_however_long_others_look", spares),
    ("a_first_question_is_as_old_as_itself", young),
];

fn reload() {
    let mut rig = Rig::new(Settings { processes: 2, depth: 4096, ..settings() }, "a");
    let over = std::sync::atomic::AtomicBool::new(false);
    let (handle, over) = (rig.handle.clone(), &over);
    let loads = std::thread::scope(|s| {
        let loads = s.spawn(move || {
            let names = ["b", "c", "d", "e", "f"];
            for name in names {
                handle.load(crate::rig::source(name)).unwrap();
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            names.len()
        });
        let mut seen = std::collections::BTreeSet::new();
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            (0..8).for_each(|_| _ = rig.ask(0));
            for (verdict, _) in rig.poll() {
                assert!(verdict.forward, "lost");
                seen.extend(verdict.decision.map(|decision| decision.expire_s()));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(seen.len() >= 3, "{seen:?}");
        loads.join().unwrap()
    });
    rig.settle(Duration::from_secs(5)).iter().for_each(|(verdict, _)| assert!(verdict.forward));
    rig.ask(0).unwrap();
    let (verdict, _) = rig.settle(Duration::from_secs(5))[0];
    assert_eq!(verdict, honest(verdict.id, "f"));
    let status = rig.status();
    assert_eq!((status.policy.as_deref(), status.before.as_deref()), (Some("f"), Some("e")));
    assert_eq!((status.counts.lost, status.counts.failed, loads), (0, 0, 5));
    rig.until("the others are gone", |rig| {
        rig.status().processes.iter().all(|one| one.policy == "f")
    });
    rig.handle.rollback().unwrap();
    assert_eq!(rig.status().policy.as_deref(), Some("e"));
    assert_eq!(rig.handle.rollback(), Err(Error::NothingBefore));
}

fn refused() {
    let load = Duration::from_millis(500);
    let mut rig = Rig::new(Settings { load, ..settings() }, "a");
    let refused = |rig: &Rig, policy: &str, cause: &str| match rig.load(policy) {
        Err(Error::Refused { policy: of, cause: said }) => {
            assert!(of == policy && said.contains(cause), "{policy}: {said}");
        }
        other => panic!("{other:?}"),
    };
    refused(&rig, "refuse", "refuse:1: unexpected symbol");
    refused(&rig, "opens", "system call");
    let begun = Instant::now();
    refused(&rig, "endless", "it is not ready after 500 ms");
    assert!(begun.elapsed() < Duration::from_secs(3));
    rig.ask(0).unwrap();
    let (verdict, _) = rig.settle(Duration::from_secs(5))[0];
    assert_eq!(verdict, honest(verdict.id, "a"));
    assert_eq!(rig.status().failures, 0);
    assert_eq!(rig.events().last(), Some(&Event::Serves { policy: "a".into() }));
    // Nor does a daemon begin with it.
    let rig = Rig::idle(settings());
    refused(&rig, "refuse", "unexpected symbol");
    assert_eq!(rig.status().policy, None);
}

/// A policy that was replaced before it failed too often is no end: the one before it decides.
fn rollback_past() {
    let mut rig = Rig::new(settings(), "good");
    (0..2).for_each(|_| rig.load("segv").unwrap());
    for _ in 0..600 {
        let _ = rig.ask(BAD);
        rig.poll();
        std::thread::sleep(Duration::from_millis(5));
        if rig.status().policy.as_deref() == Some("good") {
            break;
        }
    }
    let (status, events) = (rig.status(), rig.events());
    assert_eq!((status.policy.as_deref(), status.rollbacks), (Some("good"), 2), "{events:?}");
    rig.settle(Duration::from_secs(5));
    rig.ask(BAD).unwrap();
    let (verdict, _) = rig.settle(Duration::from_secs(5))[0];
    assert_eq!(verdict, honest(verdict.id, "good"));
    // It is the last to go back to, and no failed policy comes after it.
    assert!(!events.iter().any(|event| matches!(event, Event::NothingBefore { .. })));
}

fn rollback() {
    let mut rig = Rig::new(settings(), "good");
    rig.load("segv").unwrap();
    let fail = |rig: &mut Rig| {
        for _ in 0..200 {
            let _ = rig.ask(BAD);
            rig.poll();
            std::thread::sleep(Duration::from_millis(5));
            if rig.status().policy.as_deref() == Some("good") {
                return;
            }
        }
        panic!("{:?} {:?}", rig.status(), rig.events());
    };
    fail(&mut rig);
    rig.settle(Duration::from_secs(5));
    rig.ask(BAD).unwrap();
    let (verdict, _) = rig.settle(Duration::from_secs(5))[0];
    assert_eq!(verdict, honest(verdict.id, "good"));
    let (from, to) = ("segv".to_owned(), "good".to_owned());
    let events = rig.events();
    assert!(events.contains(&Event::RolledBack { from, to, failures: 5 }), "{events:?}");
    let failed = events.iter().filter(|event| matches!(event, Event::Failed { .. })).count();
    assert_eq!((failed, rig.status().rollbacks), (1, 1));

    // Without one before it, it is started again, later and later, but soon enough for others.
    let mut rig = Rig::new(settings(), "segv");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let _ = rig.ask(BAD);
        rig.poll();
        std::thread::sleep(Duration::from_millis(5));
    }
    let (policy, events) = ("segv".to_owned(), rig.events());
    assert!(events.contains(&Event::NothingBefore { policy, failures: 5 }), "{events:?}");
    let status = rig.status();
    // At once after three failures, then after 50, 100, and each 150 ms, all that are to be there.
    assert!((4..100).contains(&status.restarts), "{} restarts", status.restarts);
    assert_eq!(status.policy.as_deref(), Some("segv"));
}

fn chunks() {
    let rig = Rig::new(Settings { processes: 2, spares: 0, ..settings() }, "a");
    let run = |chunk: &str| -> Vec<_> {
        rig.handle.exec(chunk).unwrap().into_iter().map(|one| one.result).collect()
    };
    assert_eq!(run("text"), [Ok("a".to_owned()), Ok("a".to_owned())]);
    assert_eq!(run("fail"), [Err("chunk:1: no".to_owned()), Err("chunk:1: no".to_owned())]);
    assert!(run("long").iter().all(|said| said.as_ref().is_ok_and(|said| said.len() > 60_000)));
    assert!(matches!(rig.handle.exec(&"x".repeat(1 << 16)), Err(Error::TooLong(_))));
    let begun = Instant::now();
    assert!(run("loop").iter().all(|said| *said == Err("chunk:1: interrupted".to_owned())));
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(run("asked"), [Ok("0".to_owned()), Ok("0".to_owned())]);
    assert!(run("deaf").iter().all(|said| *said == Err("the process ended".to_owned())));
    assert_eq!(rig.status().policy.as_deref(), Some("a"));
}

fn files() {
    let rig = Rig::idle(Settings { spares: 0, ..settings() });
    let large: Vec<u8> = (0..5_000_000_u32).map(|i| b'a' + (i % 26) as u8).collect();
    let files = [("policy", &b"the text"[..]), ("empty", b""), ("prefixes", &large)];
    rig.handle.load(Source::new("a", &files).unwrap()).unwrap();
    assert_eq!(rig.handle.exec("text").unwrap()[0].result, Ok("the text".to_owned()));
    assert!(Source::new("a", &[("", &b""[..]); 65]).is_err());
}

fn shared() {
    let settings = Settings { processes: 3, spares: 0, ..settings() };
    let mut rig = Rig::new(settings, "a");
    for _ in 0..20 {
        (0..192).for_each(|_| _ = rig.ask(0).unwrap());
        rig.settle(Duration::from_secs(5));
    }
    let status = rig.status();
    assert_eq!((status.counts.asked, status.counts.decided), (3840, 3840));
    assert!(status.processes.iter().all(|one| one.counts.asked >= 640), "{status:?}");
}

fn stuck() {
    let mut rig = Rig::new(Settings { processes: 2, ..settings() }, "deaf_loop");
    rig.ask(BAD).unwrap();
    rig.poll();
    let begun = Instant::now();
    let mut slow = 0;
    while begun.elapsed() < Duration::from_millis(80) {
        let id = rig.ask(0).unwrap();
        rig.desk.flush();
        let asked = Instant::now();
        while rig.open.contains_key(&id) {
            rig.poll();
        }
        slow += usize::from(asked.elapsed() > Duration::from_millis(20));
    }
    assert!(slow <= 2, "{slow} packets waited for the process that is stuck");
    rig.settle(Duration::from_secs(5));
}

/// The figure is the lab's (`gatekeeper/policies`); here it is that nothing sleeps over it.
fn round_trip() {
    for spin in [None, Some(Duration::ZERO)] {
        let mut rig = Rig::new(Settings { spares: 0, spin, ..settings() }, "a");
        let mut times = Vec::new();
        for _ in 0..2_000 {
            let id = rig.ask(0).unwrap();
            let asked = Instant::now();
            rig.desk.flush();
            while rig.open.contains_key(&id) {
                rig.poll();
            }
            times.push(asked.elapsed());
        }
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!("round trip with spin {spin:?}: median {median:?}");
        assert!(median < Duration::from_millis(5), "{median:?}");
    }
}

/// One that waits to take another's place keeps no core from it.
fn spares() {
    let mut rig = Rig::new(Settings { spin: None, ..settings() }, "a");
    rig.ask(0).unwrap();
    rig.settle(Duration::from_secs(5));
    let spare = |rig: &Rig| {
        let all = rig.status().processes;
        all.iter().find(|one| one.stage == "ready").map(|one| one.pid)
    };
    rig.until("a spare", |rig| spare(rig).is_some());
    let pid = spare(&rig).unwrap();
    // Hundredths of a second, of user and system.
    let spent = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        fields.skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    std::thread::sleep(Duration::from_millis(50));
    let before = spent();
    std::thread::sleep(Duration::from_millis(400));
    let spent = spent() - before;
    assert!(spent <= 5, "{spent} of 40 hundredths");
    // It serves when it is needed.
    let first = rig.status().processes.iter().find(|one| one.stage == "serving").unwrap().pid;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(first as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    rig.until("another serves", |rig| {
        rig.status().processes.iter().any(|one| one.pid == pid && one.stage == "serving")
    });
    rig.ask(0).unwrap();
    assert!(rig.settle(Duration::from_secs(5))[0].0.forward);
}

/// Not as old as the supervisor, which would end a process that has hardly begun.
fn young() {
    let mut rig = Rig::new(Settings { spares: 0, ..settings() }, "a");
    std::thread::sleep(20 * SILENCE + Duration::from_millis(100));
    for _ in 0..3 {
        rig.load("deaf_loop").unwrap();
        rig.ask(BAD).unwrap();
        let (_, took) = rig.settle(Duration::from_secs(5))[0];
        assert!(took >= SILENCE, "it was given up after {took:?}");
        rig.load("a").unwrap();
    }
}

/// How long a process may say nothing by its usual limit.
const SILENCE: Duration = Duration::from_millis(100);
