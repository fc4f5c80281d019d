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
