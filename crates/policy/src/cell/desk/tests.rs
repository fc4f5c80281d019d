use super::*;
use crate::ask::Instead;
use crate::cell::child::End;
use crate::cell::layout::Layout;
use crate::cell::layout::tests::question;
use crate::cell::shared::within;

fn line(depth: u32) -> (Box<Line>, End, Arc<Gauge>) {
    let layout = Layout::new(depth, 64);
    let (questions, asked) = within(layout.questions());
    let (verdicts, said) = within(layout.verdicts());
    let gauge = Arc::new(Gauge::default());
    let instead = Instead::default();
    let line = Line::new(layout, questions, Arc::new(said), None, gauge.clone(), instead);
    (Box::new(line), End::new(layout, asked, verdicts), gauge)
}

fn answer(end: &mut End) -> usize {
    let mut verdicts = Vec::new();
    let n = end.take(|questions| {
        let said =
            |question: &Question<'_>| Verdict { id: question.id, forward: true, decision: None };
        verdicts.extend(questions.iter().map(said));
    });
    end.give(&verdicts, std::iter::empty());
    n
}

#[test]
fn questions_are_dealt_by_runs_and_a_stuck_process_gets_no_more_than_others_have() {
    let (mut desk, mail) = Desk::new();
    assert_eq!(desk.ask(&question(0, &[])), Err(Full));
    let [mut a, mut b] = [(); 2].map(|()| {
        let (line, end, _) = line(1024);
        mail.send(line);
        end
    });
    desk.flush();
    // Nothing of `b` comes back: it has one run, and `a` all others.
    let mut all = 0;
    for round in 0..50 {
        for id in 0..64 {
            desk.ask(&question(round * 64 + id, &[])).unwrap();
        }
        desk.flush();
        all += answer(&mut a);
        desk.verdicts(64, &mut |_| {});
    }
    assert_eq!(all, 49 * 64);
    assert_eq!(answer(&mut b), 64);
}

#[test]
fn lines_that_drain_are_asked_nothing_and_go_home_with_their_last_verdict() {
    let (mut desk, mail) = Desk::new();
    let (old, mut old_end, old_gauge) = line(64);
    mail.send(old);
    desk.flush();
    (0..3).for_each(|id| desk.ask(&question(id, &[])).unwrap());
    desk.flush();
    let (new, mut new_end, new_gauge) = line(64);
    mail.send(new);
    desk.flush();
    old_gauge.advance(State::Draining);
    (3..9).for_each(|id| desk.ask(&question(id, &[])).unwrap());
    desk.flush();
    assert_eq!((answer(&mut old_end), answer(&mut new_end)), (3, 6));
    let mut ids = Vec::new();
    desk.verdicts(64, &mut |verdict| {
        assert!(verdict.forward);
        ids.push(verdict.id);
    });
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    mail.collect();
    assert_eq!((Arc::strong_count(&old_gauge), Arc::strong_count(&new_gauge)), (1, 2));
    // The last goes, too: what it was asked gets the configured verdict.
    desk.ask(&question(9, &[])).unwrap();
    new_gauge.advance(State::Over);
    assert_eq!(desk.ask(&question(10, &[])), Err(Full));
    assert_eq!(desk.verdicts(64, &mut |verdict| assert!(!verdict.forward)), 1);
    desk.verdicts(64, &mut |_| {});
    mail.collect();
    assert_eq!(Arc::strong_count(&new_gauge), 1);
    assert_eq!(mail.refused(), 1);
}

#[test]
fn a_worker_has_as_many_lines_as_it_may() {
    let (mut desk, mail) = Desk::new();
    let gauges: Vec<_> = (0..LINES)
        .map(|_| {
            let (line, _, gauge) = line(1);
            assert!(mail.has_room());
            mail.send(line);
            gauge
        })
        .collect();
    assert!(!mail.has_room());
    desk.flush();
    gauges.iter().for_each(|gauge| gauge.advance(State::Draining));
    desk.verdicts(1, &mut |_| {});
    mail.collect();
    assert!(mail.has_room() && gauges.iter().all(|gauge| Arc::strong_count(gauge) == 1));
}

#[cfg(not(miri))]
mod bells {
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    /// A process with a bell of its own, asleep from the beginning.
    fn sleeper() -> (Box<Line>, End, Arc<OwnedFd>) {
        let layout = Layout::new(1024, 64);
        let (questions, asked) = within(layout.questions());
        let (verdicts, said) = within(layout.verdicts());
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor"));
        let rings = Some(bell.clone());
        let line =
            Line::new(layout, questions, Arc::new(said), rings, Arc::default(), Instead::default());
        let mut end = End::new(layout, asked, verdicts);
        end.lie_down();
        (Box::new(line), end, bell)
    }

    /// The number of writes to it since the last look.
    fn writes(bell: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(bell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn a_flush_wakes_one_process_and_each_has_its_turn() {
        let (mut desk, mail) = Desk::new();
        let mut all: Vec<_> = (0..3)
            .map(|_| {
                let (line, end, bell) = sleeper();
                mail.send(line);
                (end, bell)
            })
            .collect();
        let rung = |all: &[(End, Arc<OwnedFd>)]| -> Vec<u64> {
            all.iter().map(|(_, bell)| writes(bell)).collect()
        };
        desk.flush();
        assert_eq!((rung(&all), desk.owes()), (vec![0; 3], false), "nobody is asked");
        // Each has a run of questions.
        (0..192).for_each(|id| desk.ask(&question(id, &[])).unwrap());
        let mut seen = vec![0; 3];
        for owes in [true, true, false] {
            desk.flush();
            let now = rung(&all);
            assert_eq!((now.iter().sum::<u64>(), desk.owes()), (1, owes));
            seen.iter_mut().zip(now).for_each(|(seen, now)| *seen += now);
        }
        assert_eq!(seen, [1, 1, 1]);
        // A sleep has one bell, however many questions come.
        (192..384).for_each(|id| desk.ask(&question(id, &[])).unwrap());
        desk.flush();
        assert_eq!((rung(&all), desk.owes()), (vec![0; 3], false));

        // All sleep again after each answer: nobody waits longer than there are processes.
        let (mut id, mut waits) = (384, [0; 3]);
        for _ in 0..60 {
            for (end, _) in &mut all {
                if answer(end) > 0 {
                    end.get_up();
                    end.lie_down();
                }
            }
            desk.verdicts(1024, &mut |_| {});
            for _ in 0..192 {
                desk.ask(&question(id, &[])).unwrap();
                id += 1;
            }
            desk.flush();
            let now = rung(&all);
            assert_eq!(now.iter().sum::<u64>(), 1);
            for (wait, now) in waits.iter_mut().zip(now) {
                *wait = if now > 0 { 0 } else { *wait + 1 };
                assert!(*wait < 3, "{waits:?}");
            }
        }
    }

    /// A process that another worker has woken needs no bell.
    #[test]
    fn a_process_that_is_up_is_not_woken() {
        let (mut desk, mail) = Desk::new();
        let [(first, mut end, one), (second, _, other)] = [(); 2].map(|()| sleeper());
        mail.send(first);
        mail.send(second);
        desk.flush();
        (0..128).for_each(|id| desk.ask(&question(id, &[])).unwrap());
        desk.flush();
        assert_eq!((writes(&one), writes(&other), desk.owes()), (0, 1, true));
        end.get_up();
        desk.flush();
        assert_eq!((writes(&one), writes(&other), desk.owes()), (0, 0, false));
    }
}
