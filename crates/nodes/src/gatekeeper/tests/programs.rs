//! Programs behind the trait.

use std::sync::atomic::{AtomicU64, Ordering};

use super::decisions::{FAST, messages};
use super::pair::Pair;
use super::*;
use crate::gatekeeper::listing::State;

/// A token bucket that goes into debt, as `grantedv2` of the deployed set: who stays over
/// the limit stays blocked. Whole seconds are refilled at the windows' own rhythm.
struct Debt;

impl Debt {
    fn words(page: &Page) -> [i64; 3] {
        [0, 1, 2].map(|n| i64::from_le_bytes(page[8 * n..8 * n + 8].try_into().unwrap()))
    }

    fn store(page: &mut Page, words: [i64; 3]) {
        page[..24].copy_from_slice(words.map(i64::to_le_bytes).as_flattened());
    }
}

impl Rule for Debt {
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        let rate = i64::from(u32::from_le_bytes(page[..4].try_into().unwrap())) * 1_024;
        if rate == 0 {
            return Err(BadParameters);
        }
        *page = [0; 64];
        Debt::store(page, [rate, rate, (now + times.second()) as i64]);
        Ok(())
    }

    fn packet(&self, times: &Times, arrival: &Arrival<'_>, _: u64, page: &mut Page) -> Answer {
        let [rate, mut left, mut end] = Debt::words(page);
        while arrival.now as i64 >= end {
            end += times.second() as i64;
            left = rate.min(left + rate);
        }
        left -= i64::from(arrival.len);
        Debt::store(page, [rate, left, end]);
        match (left < 0, arrival.packet.first()) {
            (true, _) => Answer::OverBudget,
            (false, Some(0xd1)) => Answer::Direct,
            (false, Some(0xbd)) => Answer::Undecided,
            (false, Some(0xee)) => Answer::Fail,
            (false, _) => Answer::Send(1),
        }
    }
}

fn with_debt(run: impl FnOnce(&Machine<'_>)) {
    let mut programs = Programs::default();
    programs.set(2, Some(Arc::new(Debt)));
    run(&Machine { times: &Times::new(exact()), programs: &programs });
}

fn debt(expire_s: u32, rate_kib: u8) -> Decision {
    Decision::Program { expire_s, index: 2, cookie: cookie(&[rate_kib]) }
}

/// Easy version 6, as far as the seam goes: a program keeps debts in its cookie.
#[test]
fn ten_seconds_over_the_limit_stay_blocked() {
    with_debt(|machine| {
        let second = machine.times.second();
        let mut entry = Entry::fresh(machine, 0);
        entry.decide(machine, 0, &debt(60, 1));
        let mut passed = 0;
        for ms in 0..10_000 {
            let verdict = entry.packet(machine, ms * (second / 1_000), 100);
            passed += u32::from(verdict == Verdict::Granted(1));
        }
        assert_eq!(passed, 10, "the first window's: 100,000 bytes a second for a 1,024");
        assert_eq!(entry.packet(machine, 30 * second, 100), Verdict::OverBudget);
        // Not so with the built-in grant.
        entry.decide(machine, 0, &granted(1, 60));
        let verdicts = (0..10_000).map(|ms| entry.packet(machine, ms * (second / 1_000), 100));
        let passed = verdicts.filter(|verdict| *verdict == Verdict::Granted(1)).count();
        assert!((90..=110).contains(&passed), "{passed}");
    });
}

#[test]
fn each_answer_of_a_program_is_a_verdict() {
    with_debt(|machine| {
        let mut entry = Entry::fresh(machine, 0);
        entry.decide(machine, 0, &debt(60, 200));
        let mut step = |first: u8| {
            let arrival = Arrival { now: 1, len: 60, link: &[], packet: &[first] };
            machine.packet(&mut entry.flow(), &arrival)
        };
        let stays = |verdict| Step { verdict, fell_back: false, by_program: true };
        assert_eq!(step(0x45), stays(Verdict::Granted(1)));
        assert_eq!(step(0xd1), stays(Verdict::Direct));
        assert_eq!(step(0xee), stays(Verdict::Failed(2)));
        let fell_back = Step { verdict: Verdict::Request(41), fell_back: true, by_program: false };
        assert_eq!(step(0xbd), fell_back, "not prepared, or not parsed");
        assert_eq!(step(0xbd), Step { fell_back: false, ..fell_back });
    });
}

#[test]
fn a_decision_that_is_refused_changes_nothing() {
    with_debt(|machine| {
        assert_eq!(machine.decision(&debt(60, 0), 0), Err(Refused::BadParameters));
        let unknown = Decision::Program { expire_s: 1, index: 3, cookie: [0; COOKIE_LEN] };
        assert_eq!(machine.decision(&unknown, 0), Err(Refused::UnknownProgram));
    });
}

#[test]
fn without_its_program_a_flow_is_a_request() {
    with_debt(|machine| {
        let mut entry = Entry::fresh(machine, 0);
        entry.decide(machine, 0, &debt(60, 1));
        assert_eq!(entry.packet(machine, 1, 60), Verdict::Granted(1));
        with(exact(), |without| {
            assert_eq!(entry.packet(without, 2, 60), Verdict::Request(41));
        });
    });
}

/// Programs 0 and 1 of the stock policies are the built-in states, until they are others.
#[test]
fn numbers_0_and_1_are_what_is_built_in_until_they_are_replaced() {
    let cookie = cookie(&[2_u32, 240_000, 3_000].map(u32::to_le_bytes).concat());
    let program = Decision::Program { expire_s: 300, index: 0, cookie };
    with(exact(), |machine| {
        let [mut one, mut two] = [Entry::fresh(machine, 0), Entry::fresh(machine, 0)];
        one.decide(machine, 0, &program);
        two.decide(machine, 0, &granted(2, 300));
        assert_eq!((one.page, one.expires), (two.page, two.expires));
        for n in 0..2_000 {
            let now = n * machine.times.millis(160);
            let found = one.packet(machine, now, 700);
            assert_eq!(found, two.packet(machine, now, 700), "{n}");
        }
        // A flow in the table meets the program that is there then.
        let mut others = Programs::default();
        others.set(0, Some(Arc::new(Declined)));
        let other = Machine { programs: &others, ..*machine };
        one.decide(machine, 0, &program);
        assert_eq!(one.packet(machine, 0, 60), Verdict::Granted(1));
        assert_eq!(one.packet(&other, 0, 60), Verdict::Declined);
    });
}

/// Easy version 14, the table's part: nothing of the page before shows through.
#[test]
fn a_cookie_fills_the_page_over_what_was_there() {
    struct AsItCame;
    impl Rule for AsItCame {
        fn init(&self, _: &Times, _: u64, _: &mut Page) -> Result<(), BadParameters> {
            Ok(())
        }
        fn packet(&self, _: &Times, _: &Arrival<'_>, _: u64, _: &mut Page) -> Answer {
            Answer::Decline
        }
    }
    let mut programs = Programs::default();
    programs.set(9, Some(Arc::new(AsItCame)));
    let machine = Machine { times: &Times::new(exact()), programs: &programs };
    for words in 0..=COOKIE_LEN / 4 {
        let bytes: Vec<u8> = (1..=4 * words as u8).collect();
        let mut entry = Entry::fresh(&machine, 0);
        entry.page = Some([0xee; 64]);
        entry.state[8] = 0x40; // a grant, so that the page is its own
        let decision = Decision::Program { expire_s: 1, index: 9, cookie: cookie(&bytes) };
        entry.decide(&machine, 0, &decision);
        assert_eq!(entry.page, Some(cookie(&bytes)));
        assert_eq!(entry.packet(&machine, 0, 60), Verdict::Declined);
    }
}

/// Easy version 15: once for each decision, whichever worker has its flow; an error refuses that one alone.
#[test]
fn init_is_called_once_for_each_decision() {
    struct Counts(AtomicU64);
    impl Rule for Counts {
        fn init(&self, _: &Times, _: u64, page: &mut Page) -> Result<(), BadParameters> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if page[0] == 0 { Err(BadParameters) } else { Ok(()) }
        }
        fn packet(&self, _: &Times, _: &Arrival<'_>, _: u64, _: &mut Page) -> Answer {
            Answer::Send(1)
        }
    }
    let mut pair = Pair::new(4_096, FAST);
    let counts = Arc::new(Counts(AtomicU64::new(0)));
    let mut programs = Programs::default();
    programs.set(9, Some(counts.clone()));
    for seat in &mut pair.seats {
        seat.programs.publish(programs.clone());
    }
    let by = |first| Decision::Program { expire_s: 60, index: 9, cookie: cookie(&[first]) };
    // Good ones, bad ones, and good ones again, of which some are of flows that are decided.
    for (of, first) in [(0..100, 1), (100..150, 0), (50..200, 1)] {
        for (n, message) in messages(of, by(first)).iter().enumerate() {
            pair.seats[n % 2].back.push(message);
        }
        (0..10).for_each(|_| pair.poll());
    }
    assert_eq!(counts.0.load(Ordering::Relaxed), 100 + 50 + 150);
    let refused = pair.seats.iter().map(|seat| seat.counters.program(9).refused.get());
    assert_eq!(refused.sum::<u64>(), 50);
    let flows: usize = (0..2).map(|worker| pair.flows(worker, State::Program).len()).sum();
    assert_eq!(flows, 200);
}
