//! Each hostile policy, under traffic.

use std::time::{Duration, Instant};

use policy::ask::{Asker, Verdict};
use policy::cell::{Event, Settings};

use crate::deciders::{BAD, honest};
use crate::rig::{Rig, settings};

/// A policy that does harm.
pub struct Case {
    /// Its name.
    pub policy: &'static str,
    /// A part of the cause that is reported; empty: none is.
    pub cause: &'static str,
    /// Its process is another afterwards.
    pub ends: bool,
}

const fn ended(policy: &'static str, cause: &'static str) -> Case {
    Case { policy, cause, ends: true }
}

const fn lives(policy: &'static str, cause: &'static str) -> Case {
    Case { policy, cause, ends: false }
}

/// Every case.
pub const CASES: &[Case] = &[
    lives("loop", "it took too long and was stopped: loop:3: interrupted"),
    ended("deaf_loop", "it gave no verdict for 100 ms"),
    lives("slow", ""),
    lives("error", "error:7: attempt to index a nil value"),
    lives("panic", "panic: at the disco"),
    lives("nothing", "the policy gave no verdict"),
    ended("segv", "SIGSEGV"),
    ended("abort", "SIGABRT"),
    ended("exit", "it ended by itself (status 3)"),
    ended("memory", "SIGABRT"),
    ended("file", "system call"),
    ended("socket", "system call"),
    ended("fork", "system call"),
    ended("thread", "system call"),
    ended("kill", "system call"),
    ended("trace", "system call"),
    ended("blocking", "system call"),
    ended("twice", "what is no verdict"),
    ended("strangers", "what is no verdict"),
    ended("garbage", "what is no verdict"),
    ended("jump", "what is no verdict"),
    ended("questions", "SIGSEGV"),
    ended("unmap", "SIGSEGV"),
    ended("chatter", "it said what no process of a policy says"),
    ended("babble", "it said more than a process of a policy says"),
];

/// A bad packet among good ones: what is asked about it gets a verdict, the configured one
/// where the policy has none, and of good packets that come later none waits longer than
/// [`MOST`].
pub fn run(case: &Case) {
    in_time(case.policy, || attempt(case));
}

/// Each attempt returns how long the slowest packet waited. A machine that is busy with others' work
/// may be late now and then: what is late three times is not.
pub fn in_time(name: &str, attempt: impl Fn() -> Duration) {
    let waits: Vec<_> = (0..3).map(|_| attempt()).take_while(|waited| *waited >= MOST).collect();
    assert!(waits.len() < 3, "{name}: packets waited {waits:?}");
}

/// A bad packet among good ones.
pub struct Among {
    pub bad: u32,
    /// Each good packet, and how long after the bad one it was asked about.
    pub good: Vec<(u32, Duration)>,
    /// The verdicts about all, each with the time that it took.
    pub found: Vec<(Verdict, Duration)>,
}

impl Among {
    /// Asks about the bad packet, then about a good one each millisecond for three times [`MOST`].
    pub fn ask(rig: &mut Rig) -> Among {
        let begun = Instant::now();
        let bad = rig.ask(BAD).unwrap();
        rig.desk.flush();
        let mut found = Vec::new();
        let (mut good, mut last) = (Vec::new(), begun);
        while begun.elapsed() < 3 * MOST {
            if last.elapsed() > Duration::from_millis(1) {
                last = Instant::now();
                good.extend(rig.ask(0).ok().map(|id| (id, begun.elapsed())));
            }
            found.extend(rig.poll());
            std::thread::sleep(Duration::from_micros(200));
        }
        found.extend(rig.settle(Duration::from_secs(5)));
        Among { bad, good, found }
    }
}

/// How long the slowest good packet waited.
fn attempt(case: &Case) -> Duration {
    let mut rig = Rig::new(Settings { processes: 1, failures: 1000, ..settings() }, case.policy);
    rig.until("ready, and a spare", |rig| {
        let status = rig.status();
        status.processes.iter().filter(|one| one.stage == "ready").count() == 1
    });
    (0..100).for_each(|_| _ = rig.ask(0).unwrap());
    for (verdict, _) in rig.settle(Duration::from_secs(5)) {
        assert_eq!(verdict, honest(verdict.id, case.policy));
    }
    let before = rig.status();

    let Among { bad, good, found } = Among::ask(&mut rig);
    let of = |id| found.iter().find(|(verdict, _)| verdict.id == id).expect("settled");
    let configured = Verdict { id: bad, forward: false, decision: None };
    if !case.cause.is_empty() && !["twice", "unmap"].contains(&case.policy) {
        assert_eq!(of(bad).0, configured, "{} of the bad packet", case.policy);
    }
    let slowest = good.iter().map(|(id, _)| of(*id).1).max().expect("some were asked");
    if slowest >= MOST {
        return slowest;
    }
    let lost = |(id, _): &&(u32, Duration)| of(*id).0 != honest(*id, case.policy);
    let late = good.iter().filter(|(_, asked)| *asked > MOST);
    assert_eq!(late.clone().filter(lost).count(), 0, "decisions go on");
    assert!(late.count() > 50);

    if case.cause.is_empty() {
        assert_eq!(rig.status().failures, 0, "{:?}", rig.events());
        return slowest;
    }
    let cause = case.cause;
    rig.until(cause, |rig| rig.status().failures > 0);
    let failed = |event: &&Event| matches!(event, Event::Failed { .. });
    let events: Vec<_> = rig.events();
    let reported: Vec<_> = events.iter().filter(failed).map(Event::to_string).collect();
    // Some are noticed on both sides of the rings.
    let once = reported.iter().filter(|reported| reported.contains(cause)).count() == 1;
    assert!(once && reported.len() <= 2, "{reported:?}");
    // Where the policy's own work ended it, with the flow that it was asked about.
    let of = std::net::Ipv4Addr::from([bad as u8; 4]);
    let flow = format!(", in lookup_policy about {of} > {of}");
    let names = ["SIG", "system call", "status", "gave no verdict"];
    if case.ends && names.iter().any(|name| cause.contains(name)) {
        assert!(reported.iter().any(|reported| reported.ends_with(&flow)), "{reported:?}");
    }
    let pids = |status: &policy::cell::Status| {
        let serving = status.processes.iter().filter(|one| one.stage == "serving");
        serving.map(|one| one.pid).collect::<Vec<_>>()
    };
    assert_eq!(pids(&before) != pids(&rig.status()), case.ends, "{:?}", rig.status());
    slowest
}

/// Of any good packet, and after this long all is as before.
pub const MOST: Duration = Duration::from_millis(200);
