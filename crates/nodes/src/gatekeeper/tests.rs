//! The state machine against the specification's tables and a plain model of its text.

use std::sync::Arc;
use std::time::Duration;

use graph::clock::Rate;
use proptest::prelude::*;
use wire::ggu::{COOKIE_LEN, Verdict as Decision};

use super::machine::{Decided, Flow, Machine, NoPage, Refused, Step, Verdict};
use super::programs::{Declined, Programs};
use super::request::{ALLOWANCE, FIRST, Request};
use super::rule::{Answer, Arrival, BadParameters, Page, Rule};
use super::state::{Bytes, CALLERS, Kind, last_used};
use super::times::{MAX_BASE, Times};

mod by_protection;
mod decisions;
mod direct;
mod filters;
mod full;
mod hours;
mod leaks;
mod links;
mod listing;
mod model;
mod pair;
mod programs;
mod replay;
mod rig;
mod shadow;
mod shield;
mod stock;
mod turns;
mod waiting;

const PS: u64 = 1;
const US: u64 = 1_000_000 * PS;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;

/// So many ticks in so many nanoseconds.
fn rate(ticks: u64, ns: u64) -> Rate {
    Rate::measured(ticks, Duration::from_nanos(ns)).unwrap()
}

/// 1 ps, 408 ps as the deployed Gatekeeper rounds 2.445 GHz, that clock as it is, 2.8 and
/// 3 GHz (no whole number either), and nanoseconds.
fn rates() -> [Rate; 6] {
    [rate(1_000, 1), deployed(), exact(), rate(28, 10), rate(3, 1), rate(1, 1)]
}

fn deployed() -> Rate {
    rate(1_000, 408)
}

fn exact() -> Rate {
    rate(2_445_000_000, 1_000_000_000)
}

/// A flow outside of any table.
#[derive(Clone)]
struct Entry {
    expires: u64,
    state: Bytes,
    page: Option<Page>,
}

impl Entry {
    fn fresh(machine: &Machine<'_>, now: u64) -> Entry {
        let (expires, state) = machine.fresh(now);
        Entry { expires, state, page: None }
    }

    fn flow(&mut self) -> Flow<'_> {
        let Entry { expires, state, page } = self;
        Flow { expires, state, page: page.as_mut() }
    }

    /// A packet of so many bytes; a page that is not needed any more goes back.
    fn packet(&mut self, machine: &Machine<'_>, now: u64, len: u32) -> Verdict {
        let arrival = Arrival { now, len, link: &[], packet: &[] };
        let Step { verdict, fell_back, .. } = machine.packet(&mut self.flow(), &arrival);
        if fell_back {
            self.page = None;
        }
        assert_eq!(self.page.is_some(), Kind::of(&self.state).uses_page());
        verdict
    }

    fn decide(&mut self, machine: &Machine<'_>, now: u64, decision: &Decision) {
        let decided = machine.decision(decision, now).unwrap();
        self.page = decided.kind.uses_page().then(|| self.page.unwrap_or([0xee; 64]));
        decided.apply(&mut self.flow()).unwrap();
    }
}

/// The state machine with a clock of its own.
fn with(rate: Rate, run: impl FnOnce(&Machine<'_>)) {
    run(&Machine { times: &Times::new(rate), programs: &Programs::default() });
}

fn granted(rate_kib: u32, expire_s: u32) -> Decision {
    let (next_renewal_ms, renewal_step_ms) = (240_000, 3_000);
    Decision::Granted { rate_kib, expire_s, next_renewal_ms, renewal_step_ms }
}

/// Easy version 1: the table of the specification, to the picosecond.
#[test]
fn priorities_of_the_specifications_spacings() {
    let day = 86_400 * S;
    let table = [
        (US, 19, 22),
        (10 * US, 23, 26),
        (MS, 29, 32),
        (10 * MS, 33, 36),
        (100 * MS, 36, 39),
        (275 * MS, 38, 41),
        (549 * MS, 38, 41),
        (S, 39, 42),
        (60 * S, 45, 48),
        (3_600 * S, 51, 54),
        (13 * day + day / 2, 60, 63),
        (100 * day, 62, 63),
        (107 * day, 63, 63),
        (u64::MAX, 63, 63),
    ];
    for rate in rates() {
        let times = Times::new(rate);
        for (spacing, base, dscp) in table {
            let ticks = rate.ticks(spacing.into());
            assert_eq!(times.base(ticks), base, "{spacing} ps at {rate:?}");
            let mut request = Request { seen: 1_000, priority: 0, allowance: 0 };
            let asked = request.packet(&times, 1_000_u64.saturating_add(ticks));
            // The very longest ends with the 64 bits, a thousand ticks short.
            assert_eq!(asked.dscp, dscp, "{spacing} ps at {rate:?}");
        }
    }
}

#[test]
fn a_priority_begins_with_the_first_tick_that_is_long_enough() {
    for rate in rates() {
        let times = Times::new(rate);
        for base in 0..=MAX_BASE {
            let first = rate.ticks_until(1 << base);
            assert!(times.base(first) >= base, "{base} at {rate:?}");
            assert!(base == 0 || times.base(first - 1) < base, "{base} at {rate:?}");
            let ps = rate.ps(first);
            assert_eq!(u32::from(times.base(first)), ps.ilog2().min(63));
        }
        assert_eq!(times.base(0), 0);
        assert_eq!(times.base(u64::MAX), 63);
    }
}

#[test]
fn a_life_is_sixteen_times_its_priority_in_whole_ticks() {
    for rate in rates() {
        let times = Times::new(rate);
        for base in 0..=MAX_BASE {
            let ps = 1_u128 << (base + 4).min(63);
            let life = times.life(base);
            assert!(rate.ps(life) <= ps, "{base} at {rate:?}");
            assert!(rate.ps(life + 1) >= ps, "{base} at {rate:?}");
        }
        assert_eq!(times.life(255), times.life(63));
        assert_eq!(times.seconds(1), times.second());
        assert_eq!(times.seconds(3), times.millis(3_000));
        assert_eq!(times.seconds(u32::MAX), rate.ticks(u128::from(u32::MAX) * u128::from(S)));
    }
    // In picoseconds: a new entry lasts 4.398 s, one hit every microsecond 8.4 µs.
    let times = Times::new(rate(1_000, 1));
    assert_eq!(times.life(38), 4_398_046_511_104);
    assert_eq!(times.life(19), 8_388_608);
    assert_eq!((times.life(58), times.life(59), times.life(60)), (1 << 62, 1 << 63, 1 << 63));
}

/// What the deployed integer of 408 ps a cycle changes: a priority begins, and a life
/// ends, 0.244 % later than they should at 2.445 GHz. Spacings between the two starts
/// get one priority less there, and no spacing gets more than one.
#[test]
fn the_deployed_rounding_asks_for_a_little_more_patience() {
    let (ours, theirs) = (Times::new(exact()), Times::new(deployed()));
    assert_eq!(exact().ps_per_tick(), 408);
    for base in 12..MAX_BASE {
        let [first, later] = [exact(), deployed()].map(|rate| rate.ticks_until(1 << base));
        assert!(first < later || base < 17, "base {base}: {first} and {later} ticks");
        for ticks in [first, later - 1].into_iter().filter(|ticks| (first..later).contains(ticks)) {
            assert_eq!((ours.base(ticks), theirs.base(ticks)), (base, base - 1));
        }
        assert_eq!((ours.base(later), theirs.base(later)), (base, base));
        // In parts of 100,000; below 2^28 ps whole ticks hide it.
        if base >= 28 {
            let parts =
                |first: u64, later: u64| u128::from(later - first) * 100_000 / u128::from(first);
            assert_eq!(parts(first, later), 244, "base {base}");
            let [life, longer] = [&ours, &theirs].map(|times| times.life(base - 4));
            assert_eq!(parts(life, longer), 244);
        }
    }
}

/// Easy version 2: the first packet is paid from the allowance.
#[test]
fn seven_packets_leave_with_41_and_the_eighth_with_the_truth() {
    let spacings = [(0, 3), (US, 22), (100 * MS, 39), (200 * MS, 40)];
    for (rate, (spacing, truth)) in rates().into_iter().flat_map(|rate| spacings.map(|s| (rate, s)))
    {
        with(rate, |machine| {
            let step = rate.ticks_until(spacing.into());
            let mut entry = Entry::fresh(machine, 5);
            let dscp: Vec<_> = (0..9)
                .map(|n| entry.packet(machine, 5 + n * step, 60))
                .map(|verdict| match verdict {
                    Verdict::Request(dscp) => dscp,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(dscp, [41, 41, 41, 41, 41, 41, 41, truth, truth], "{spacing} at {rate:?}");
        });
    }
}

/// A client that waits is believed at once, and has its allowance again.
#[test]
fn a_retransmission_after_a_second_has_42() {
    with(exact(), |machine| {
        let mut entry = Entry::fresh(machine, 0);
        let second = machine.times.second();
        assert_eq!(entry.packet(machine, 0, 60), Verdict::Request(41));
        assert_eq!(entry.expires, machine.times.life(38));
        assert_eq!(entry.packet(machine, second, 60), Verdict::Request(42));
        assert_eq!(entry.expires, second + machine.times.life(39));
        for _ in 0..7 {
            assert_eq!(entry.packet(machine, second + 1, 60), Verdict::Request(42));
        }
        assert_eq!(entry.expires, second + machine.times.life(39), "an allowance buys no life");
        assert_eq!(entry.packet(machine, second + 2, 60), Verdict::Request(11), "408 ps");
        assert_eq!(entry.expires, second + 2 + machine.times.life(8));
    });
}

#[test]
fn an_equal_priority_is_earned_and_costs_no_allowance() {
    with(rate(1_000, 1), |machine| {
        let mut entry = Entry::fresh(machine, 0);
        entry.packet(machine, 0, 60);
        let at = 1 << 38;
        assert_eq!(entry.packet(machine, at, 60), Verdict::Request(41));
        assert_eq!(entry.expires, at + (1 << 42));
        assert_eq!(entry.state[9], ALLOWANCE);
        // One picosecond less is paid.
        assert_eq!(entry.packet(machine, 2 * at - 1, 60), Verdict::Request(41));
        assert_eq!((entry.expires, entry.state[9]), (at + (1 << 42), ALLOWANCE - 1));
    });
}

#[test]
fn where_time_ran_backwards_the_spacing_is_none() {
    with(exact(), |machine| {
        let now = 1_u64 << 60;
        let mut entry = Entry::fresh(machine, now);
        for back in 0..7 {
            assert_eq!(entry.packet(machine, now - back * 1_000, 60), Verdict::Request(41));
        }
        assert_eq!(entry.packet(machine, 7, 60), Verdict::Request(3));
        assert_eq!(entry.expires, 7 + machine.times.life(0));
        // The time that it was last seen goes back with the clock.
        let later = 7 + machine.times.second();
        assert_eq!(entry.packet(machine, later, 60), Verdict::Request(42));
        assert_eq!(entry.packet(machine, 0, 60), Verdict::Request(42), "of the allowance");
        assert_eq!(entry.packet(machine, u64::MAX, 60), Verdict::Request(63));
        assert_eq!(entry.expires, u64::MAX, "no end wraps");
    });
}

#[test]
fn a_request_never_ends_by_a_packet() {
    with(exact(), |machine| {
        let mut entry = Entry::fresh(machine, 0);
        entry.packet(machine, 0, 60);
        let late = entry.expires * 100;
        // 440 s: 2^48.6 ps. A new entry would say 41.
        assert_eq!(entry.packet(machine, late, 60), Verdict::Request(51));
    });
}

/// Easy version 5: bytes of the frame, tags included.
#[test]
fn two_kib_a_second_are_four_frames_of_442_bytes() {
    for rate in rates() {
        with(rate, |machine| {
            // 509: four fit without a tag (2,036 bytes), three with one (4 × 513 = 2,052).
            for (len, most) in [(442, 4), (446, 4), (509, 4), (513, 3), (2_048, 1), (2_049, 0)] {
                let mut entry = Entry::fresh(machine, 0);
                entry.decide(machine, 0, &granted(2, 60));
                for second in 0..5 {
                    let start = second * machine.times.second();
                    let verdicts = (0..10).map(|n| entry.packet(machine, start + n, len));
                    let passed = verdicts.filter(|verdict| *verdict == Verdict::Granted(1));
                    assert_eq!(passed.count(), most, "{len} bytes, second {second}");
                    assert_eq!(entry.packet(machine, start + 10, len), Verdict::OverBudget);
                }
            }
        });
    }
}

#[test]
fn a_window_begins_with_the_first_packet_behind_the_last_and_nothing_is_carried_over() {
    with(exact(), |machine| {
        let second = machine.times.second();
        let mut entry = Entry::fresh(machine, 0);
        entry.decide(machine, 100, &granted(1, 60));
        assert_eq!(entry.packet(machine, 100, 1_000), Verdict::Granted(1));
        assert_eq!(entry.packet(machine, 100, 25), Verdict::OverBudget);
        assert_eq!(entry.packet(machine, 100, 24), Verdict::Granted(1), "what fits passes");
        assert_eq!(entry.packet(machine, 100, 0), Verdict::Granted(1));
        assert_eq!(entry.packet(machine, 100 + second - 1, 1), Verdict::OverBudget);
        assert_eq!(entry.packet(machine, 100 + second, 1_000), Verdict::Granted(1));
        // Idle for 2.5 s: one budget, from now on.
        let late = 100 + second * 7 / 2;
        assert_eq!(entry.packet(machine, late, 1_024), Verdict::Granted(1));
        assert_eq!(entry.packet(machine, late + second - 1, 1), Verdict::OverBudget);
        assert_eq!(entry.packet(machine, late + second, 1_025), Verdict::OverBudget);
        // That one began the window, although it did not pass.
        assert_eq!(entry.packet(machine, late + 2 * second - 1, 1_024), Verdict::Granted(1));
        assert_eq!(entry.packet(machine, late + 2 * second, 1_024), Verdict::Granted(1));
        // Back in time there is no new window.
        assert_eq!(entry.packet(machine, 0, 1), Verdict::OverBudget);
    });
}

#[test]
fn a_grant_asks_for_renewal_at_its_times() {
    for rate in rates() {
        with(rate, |machine| {
            let at = |ms: u32| 9 + machine.times.millis(ms);
            let mut entry = Entry::fresh(machine, 0);
            let (next_renewal_ms, renewal_step_ms) = (2_500, 300);
            let decision =
                Decision::Granted { rate_kib: 1, expire_s: 9, next_renewal_ms, renewal_step_ms };
            entry.decide(machine, 9, &decision);
            assert_eq!(entry.packet(machine, at(2_500) - 1, 1_024), Verdict::Granted(1));
            assert_eq!(entry.packet(machine, at(2_500), 1), Verdict::OverBudget);
            assert_eq!(entry.packet(machine, at(3_500), 1), Verdict::Granted(2), "still due");
            let next = at(3_500) + machine.times.millis(300);
            assert_eq!(entry.packet(machine, next - 1, 1), Verdict::Granted(1));
            assert_eq!(entry.packet(machine, next, 1), Verdict::Granted(2));
            assert_eq!(entry.packet(machine, next, 1), Verdict::Granted(1));
            // The renewal comes: everything begins anew.
            entry.decide(machine, next, &decision);
            assert_eq!(entry.packet(machine, next, 1_024), Verdict::Granted(1));
            assert_eq!(entry.expires, next + machine.times.seconds(9));
        });
    }
}

#[test]
fn a_decision_ends_at_its_tick_and_the_flow_is_a_new_request() {
    for rate in rates() {
        let cookie = cookie(&[1_u32, 240_000, 3_000].map(u32::to_le_bytes).concat());
        let program = Decision::Program { expire_s: 7, index: 0, cookie };
        for decision in [granted(1, 7), Decision::Declined { expire_s: 7 }, program] {
            with(rate, |machine| {
                let mut entry = Entry::fresh(machine, 0);
                entry.state[CALLERS..].copy_from_slice(b"caller");
                entry.decide(machine, 3, &decision);
                let end = 3 + machine.times.seconds(7);
                assert_eq!(entry.expires, end);
                let before = entry.packet(machine, end - 1, 60);
                assert!(!matches!(before, Verdict::Request(_)), "{before:?}");
                // Time runs backwards: the decision holds.
                assert_eq!(entry.packet(machine, 0, 60), before);
                for n in 0..7 {
                    assert_eq!(entry.packet(machine, end + n, 60), Verdict::Request(41));
                    assert_eq!(entry.expires, end + machine.times.life(38));
                }
                assert_eq!(Kind::of(&entry.state), Kind::Request);
                assert_eq!(entry.state[CALLERS..], *b"caller");
            });
        }
    }
}

#[test]
fn a_decision_writes_over_any_state() {
    let program = Decision::Program { expire_s: 9, index: 1, cookie: [0; COOKIE_LEN] };
    let decisions = [
        (granted(1, 5), Kind::Granted, Verdict::Granted(1)),
        (Decision::Declined { expire_s: 6 }, Kind::Declined, Verdict::Declined),
        (program, Kind::Program(1), Verdict::Declined),
    ];
    with(exact(), |machine| {
        for (first, ..) in &decisions {
            for (second, kind, verdict) in &decisions {
                let mut entry = Entry::fresh(machine, 0);
                entry.decide(machine, 10, first);
                entry.packet(machine, 10, 1_024);
                entry.decide(machine, 20, second);
                assert_eq!(Kind::of(&entry.state), *kind);
                assert_eq!(entry.expires, 20 + machine.times.seconds(second.expire_s()));
                assert_eq!(entry.packet(machine, 20, 1_024), *verdict, "a full budget");
            }
        }
        let mut entry = Entry::fresh(machine, 0);
        entry.decide(machine, 0, &granted(1, 0));
        assert_eq!(entry.packet(machine, 0, 60), Verdict::Request(41), "ended as it came");
    });
}

/// What a table that is full may throw away depends on it.
#[test]
fn use_is_known_to_the_second_and_outlasts_a_renewal() {
    with(exact(), |machine| {
        let second = machine.times.second();
        let mut entry = Entry::fresh(machine, 0);
        entry.decide(machine, 0, &granted(1, 60));
        assert_eq!(last_used(&entry.state), None);
        entry.packet(machine, 5, 2_000);
        assert_eq!(last_used(&entry.state), None, "over the budget is no use");
        entry.packet(machine, 0, 60);
        assert_eq!(last_used(&entry.state), Some(1), "0 would say never");
        entry.packet(machine, second, 60);
        assert_eq!(last_used(&entry.state), Some(1));
        entry.packet(machine, second + 1, 60);
        assert_eq!(last_used(&entry.state), Some(second + 1));
        entry.packet(machine, 77, 60);
        assert_eq!(last_used(&entry.state), Some(77), "time ran backwards");
        entry.decide(machine, 78, &granted(1, 60));
        assert_eq!(last_used(&entry.state), Some(77));
        entry.decide(machine, 79, &Decision::Declined { expire_s: 1 });
        assert_eq!(last_used(&entry.state), None);
        entry.decide(machine, 80, &granted(1, 60));
        assert_eq!(last_used(&entry.state), None);
    });
}

#[test]
fn without_a_page_a_decision_is_none() {
    with(exact(), |machine| {
        let mut entry = Entry::fresh(machine, 0);
        let before = entry.clone();
        let decided = machine.decision(&granted(1, 60), 0).unwrap();
        assert_eq!(decided.apply(&mut entry.flow()), Err(NoPage));
        assert_eq!((entry.expires, entry.state), (before.expires, before.state));
        let decided = machine.decision(&Decision::Declined { expire_s: 1 }, 0).unwrap();
        assert_eq!(decided.apply(&mut entry.flow()), Ok(()));
        // A page that is lost is a request again, and no panic.
        entry.decide(machine, 0, &granted(1, 60));
        entry.page = None;
        assert_eq!(entry.packet(machine, 1, 60), Verdict::Request(41));
    });
}

/// `start`, and zeros.
fn cookie(start: &[u8]) -> [u8; COOKIE_LEN] {
    let mut cookie = [0; COOKIE_LEN];
    cookie[..start.len()].copy_from_slice(start);
    cookie
}

#[test]
fn a_page_is_a_cookie() {
    assert_eq!(size_of::<Page>(), COOKIE_LEN);
    assert_eq!(size_of::<Bytes>(), 16);
    assert!(size_of::<Decided>() <= 96, "what travels to a flow's owner");
    assert_eq!(FIRST + 3, 41);
}

/// What the shield writes into entries that are new is what their first packet makes of them.
#[test]
fn a_flow_is_born_as_its_first_packet_leaves_it() {
    let programs = Programs::default();
    for rate in rates() {
        let times = Times::new(rate);
        let machine = Machine { times: &times, programs: &programs };
        for now in [0, 1, times.second(), u64::MAX] {
            let mut entry = Entry::fresh(&machine, now);
            let verdict = entry.packet(&machine, now, 60);
            let (expires, state, dscp) = machine.born(now);
            assert_eq!((entry.expires, entry.state), (expires, state));
            assert_eq!(verdict, Verdict::Request(dscp));
            assert_eq!(expires, machine.fresh(now).0, "the table need not be asked again");
        }
    }
}
