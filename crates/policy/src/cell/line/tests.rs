use std::sync::atomic::AtomicBool;

use super::*;
use crate::cell::child::End;
use crate::cell::layout::tests::{decisions, question};
use crate::cell::shared::within;

/// Both ends within this process.
fn ends(depth: u32, captured: u32) -> (Line, End, Arc<Gauge>) {
    let layout = Layout::new(depth, captured);
    let (questions, asked) = within(layout.questions());
    let (verdicts, said) = within(layout.verdicts());
    let gauge = Arc::new(Gauge::default());
    let instead = Instead { forward: true, decision: None };
    let line = Line::new(layout, questions, Arc::new(said), None, gauge.clone(), instead);
    (line, End::new(layout, asked, verdicts), gauge)
}

fn taken(line: &mut Line, most: usize) -> Vec<Verdict> {
    let mut found = Vec::new();
    assert_eq!(line.verdicts(most, &mut |verdict| found.push(verdict)), found.len());
    found
}

#[test]
fn a_policy_sees_what_was_asked_and_the_worker_what_it_said() {
    let (mut line, mut end, gauge) = ends(4, 64);
    let bytes: Vec<u8> = (0..100).collect();
    for round in 0..40_u32 {
        let ids: Vec<u32> = (0..4).map(|i| round << 8 | i).collect();
        for id in &ids {
            line.ask(&question(*id, &bytes[..*id as usize % 2 * 36 + 64])).unwrap();
        }
        assert_eq!(line.ask(&question(9, &[])), Err(Full));
        assert_eq!(end.take(|_| panic!("nothing was handed over yet")), 0);
        line.flush();
        let mut tokens = Vec::new();
        let n = end.take(|questions| {
            for (found, id) in questions.iter().zip(&ids) {
                let asked = question(*id, &bytes);
                assert_eq!((found.matter, found.facts), (asked.matter, asked.facts));
                assert_eq!(found.bytes, &bytes[..64], "as many as go over");
                tokens.push(found.id);
            }
        });
        assert_eq!(n, 4);
        // Out of turn, and not all at once.
        let verdict = |i: usize| Verdict {
            id: tokens[i],
            forward: i.is_multiple_of(2),
            decision: decisions()[i],
        };
        end.give(&[verdict(2), verdict(0)], std::iter::empty());
        end.give(&[verdict(3)], [tokens[1]].into_iter());
        let mut found = taken(&mut line, 1);
        found.extend(taken(&mut line, 64));
        let want = [(2, true, 2), (0, true, 0), (3, false, 3), (1, true, 0)];
        let want = want.map(|(i, forward, decision)| Verdict {
            id: ids[i],
            forward,
            decision: decisions()[decision],
        });
        assert_eq!(found, want);
        assert_eq!((line.asked(), gauge.oldest()), (0, None));
    }
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((load(&gauge.decided), load(&gauge.failed), load(&gauge.refused)), (120, 40, 0));
}

#[test]
fn a_verdict_counts_once_and_of_what_was_asked() {
    let (mut line, mut end, gauge) = ends(4, 64);
    line.ask(&question(70, &[])).unwrap();
    line.flush();
    let mut token = 0;
    end.take(|questions| token = questions[0].id);
    let say = |end: &mut End, id| {
        end.give(&[Verdict { id, forward: false, decision: None }], std::iter::empty());
    };
    // The other place, another generation, and then itself, twice.
    for id in [token ^ 1, token ^ 4, token, token] {
        say(&mut end, id);
    }
    assert_eq!(taken(&mut line, 9).iter().map(|verdict| verdict.id).collect::<Vec<_>>(), [70]);
    assert_eq!(gauge.refused.load(Ordering::Relaxed), 3);
    line.ask(&question(71, &[])).unwrap();
    say(&mut end, token); // of that place, but of the question before
    assert!(taken(&mut line, 9).is_empty());
    assert_eq!(gauge.refused.load(Ordering::Relaxed), 4);
}

#[test]
fn what_a_process_said_before_its_end_counts_and_the_rest_is_lost() {
    let (mut line, mut end, gauge) = ends(8, 64);
    (0..5).for_each(|id| line.ask(&question(id, &[])).unwrap());
    line.flush();
    end.take(|_| {});
    gauge.set_clock(77);
    line.ask(&question(5, &[])).unwrap(); // never handed over
    let (mut first, mut end2, _) = ends(8, 64);
    assert_eq!((first.is_over(), end2.take(|_| {})), (false, 0));
    assert!(taken(&mut first, 1).is_empty());
    assert_eq!(gauge.oldest(), Some(0));
    gauge.advance(State::Over);
    assert!(!line.is_over());
    assert_eq!(taken(&mut line, 4).len(), 4);
    assert_eq!(taken(&mut line, 4).len(), 2);
    assert!(line.is_over() && gauge.oldest().is_none());
    assert_eq!(gauge.lost.load(Ordering::Relaxed), 6);
}

/// Nothing asked is slept over: not explored is the eventfd, which is the kernel's.
#[test]
fn two_threads_pass_questions_and_verdicts() {
    let (mut line, mut end, _) = ends(64, 64);
    let all = if cfg!(miri) { 200 } else { 200_000 };
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let mut verdicts = Vec::new();
                end.take(|questions| {
                    for found in questions {
                        let first = u32::from_ne_bytes(*found.bytes.first_chunk().unwrap());
                        let decision = wire::ggu::Verdict::Declined { expire_s: first };
                        let decision = Some(decision);
                        verdicts.push(Verdict { id: found.id, forward: true, decision });
                    }
                });
                end.give(&verdicts, std::iter::empty());
                std::hint::spin_loop();
            }
        });
        let (mut asked, mut said) = (0_u32, 0_u32);
        while said < all {
            while asked < all && line.ask(&question(asked, &asked.to_ne_bytes())).is_ok() {
                asked += 1;
            }
            line.flush();
            for verdict in taken(&mut line, 7) {
                let decision = Some(wire::ggu::Verdict::Declined { expire_s: verdict.id });
                assert_eq!((verdict.id, verdict.decision), (said, decision));
                said += 1;
            }
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
    });
}
