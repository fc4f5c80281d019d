//! Decisions a second, and that a batch is more than a loop of calls.
//!
//! `cargo test --profile count -p policy --lib speed -- --ignored --nocapture` prints them:
//! a figure, of which nothing is asserted. Times are of this thread on its core, the best
//! of many short slices: what others do to the core is in most of them, but not in all.

use std::cell::RefCell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::trial::BATCH;

/// Nanoseconds of this thread for one of 64 decisions, of which each call of a `work`
/// makes so many: the best slice of each, in turns.
fn best<const N: usize>(mut works: [(usize, &mut dyn FnMut()); N], slices: usize) -> [f64; N] {
    let now =
        || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("no time below 0");
    let mut best = [f64::INFINITY; N];
    for _ in 0..slices {
        for ((decisions, work), best) in works.iter_mut().zip(&mut best) {
            let start = now();
            (0..SLICE / *decisions).for_each(|_| work());
            *best = best.min((now() - start).as_nanos() as f64 / SLICE as f64);
        }
    }
    best
}

fn sixty_four() -> Vec<Asked> {
    let sources = ["8.8.8.8", "10.0.0.1", "9.9.9.9", "1.2.3.4"];
    (0..64)
        .map(|i| asked(sources[i % 4], [6, 17][i / 4 % 2], 64, &to_port([80, 443][i / 8 % 2])))
        .collect()
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let asked = sixty_four();
    let questions: Vec<_> = asked.iter().zip(0..).map(|(asked, id)| asked.question(id)).collect();
    for (what, source) in [("stock", STOCK.to_owned()), ("batch", format!("{STOCK}{BATCH}"))] {
        let mut policy = load(&source);
        let mut verdicts = Vec::with_capacity(64);
        for len in [64, 1] {
            let mut at = 0;
            let mut work = || {
                verdicts.clear();
                policy.decide(&questions[at..at + len], &mut verdicts).expect("it decides");
                at = (at + len) % 64;
            };
            let [ns] = best([(len, &mut work)], 200);
            println!("{what} by {len}: {ns:.1} ns, {:.1} M/s", 1e3 / ns);
        }
    }
}

/// A third, where nobody disturbs (`rutter lab run gatekeeper/policies` measures both); a loop
/// of calls, or pointers made for each packet, would cost as much as calls do. Without the
/// tables, which this build may not optimise: what differs is the border.
#[test]
fn a_batch_is_more_than_a_loop_of_calls() {
    let asked = sixty_four();
    let questions: Vec<_> = asked.iter().zip(0..).map(|(asked, id)| asked.question(id)).collect();
    let mut policy = load(&format!("{STOCK}\nfunction lpmlib.lpm_lookup() return -1 end"));
    policy.decide(&questions, &mut Vec::new()).expect("it decides");
    let policy = RefCell::new(policy);
    let ask = |at_once| policy.borrow_mut().ask_again(at_once);
    let (mut calls, mut batch) = (|| ask(false), || ask(true));
    let [calls, batch] = best([(64, &mut calls), (64, &mut batch)], 300);
    assert!(calls >= 2.0 * batch, "{calls:.1} ns one by one, {batch:.1} ns in a batch");
}

/// Decisions in a slice: some 0.1 ms.
const SLICE: usize = 1 << 12;
