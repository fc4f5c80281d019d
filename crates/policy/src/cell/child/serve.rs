//! The loop of a process: questions, verdicts, chunks, sleep.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::rings::{BATCH, End};
use super::watch::Watch;
use super::{Decider, MOST, exit};
use crate::ask::{Question, Verdict};
use crate::cell::control;

/// The state of the loop.
pub(super) struct Server {
    pub ends: Vec<End>,
    pub watch: Arc<Watch>,
    pub bell: Arc<OwnedFd>,
    pub control: Arc<OwnedFd>,
    /// How long it polls for questions before it sleeps; `None`: for ever.
    pub spin: Option<Duration>,
    /// It has been asked, so it is not a spare. A polling spare would take a core from those that work.
    pub is_asked: bool,
}

/// The result of a batch.
#[derive(Default)]
struct Batch {
    verdicts: Vec<Verdict>,
    /// Questions without a verdict.
    failed: Vec<u32>,
    /// How the policy failed, and whether it was stopped.
    fault: Option<(String, bool)>,
}

impl Server {
    /// Serves until the process ends.
    pub fn run(&mut self, decider: &mut dyn Decider) {
        let mut batch = Batch {
            verdicts: Vec::with_capacity(2 * BATCH),
            failed: Vec::with_capacity(BATCH),
            fault: None,
        };
        let mut reported = Reported::default();
        self.remark(decider);
        loop {
            if !self.round(decider, &mut batch, &mut reported) {
                self.idle();
            }
        }
    }

    /// Answers all waiting questions, one batch for each ring. False: there were none.
    fn round(
        &mut self,
        decider: &mut dyn Decider,
        batch: &mut Batch,
        reported: &mut Reported,
    ) -> bool {
        let mut any = false;
        for end in &mut self.ends {
            let watch = &self.watch;
            let n = end.take(|questions| decide(decider, watch, questions, batch));
            if n == 0 {
                continue;
            }
            any = true;
            self.is_asked = true;
            end.give(&batch.verdicts, batch.failed.drain(..));
            if let Some((fault, stopped)) = batch.fault.take() {
                reported.report(&self.control, &fault, stopped);
            }
        }
        if self.watch.called.load(Ordering::Relaxed) {
            any = true;
            self.exec(decider);
        }
        if any {
            self.remark(decider);
        }
        any
    }

    /// Reports news to the supervisor.
    fn remark(&self, decider: &mut dyn Decider) {
        if let Some(remark) = decider.remark() {
            let _ = control::say(&self.control, control::REMARK, &[remark.as_bytes()]);
        }
    }

    /// Polls for a while; true when there is work.
    fn look(&self) -> bool {
        let begun = Instant::now();
        loop {
            for _ in 0..SPINS {
                if self.is_called() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.spin.is_some_and(|most| begun.elapsed() >= most) {
                return false;
            }
        }
    }

    /// Without work: polls for a while, then sleeps. A spare sleeps at once.
    fn idle(&mut self) {
        if self.is_asked && self.look() {
            return;
        }
        self.ends.iter_mut().for_each(End::lie_down);
        if !self.is_called() {
            let _ = control::wait(&[self.bell.as_fd()], None);
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
        self.ends.iter_mut().for_each(End::get_up);
    }

    #[inline]
    fn is_called(&self) -> bool {
        self.ends.iter().any(End::is_asked) || self.watch.called.load(Ordering::Relaxed)
    }

    #[cold]
    fn exec(&mut self, decider: &mut dyn Decider) {
        let Some((number, chunk)) = self.watch.chunk() else { return };
        let most = self.watch.allow(CHUNK * self.watch.most());
        self.watch.begin();
        let result = catch_unwind(AssertUnwindSafe(|| decider.exec(&chunk)));
        if self.watch.end() {
            decider.resume();
        }
        self.watch.allow(most);
        let result = result.unwrap_or_else(|panic| Err(words(&*panic)));
        let failed = u8::from(result.is_err());
        let text = result.unwrap_or_else(|error| error);
        let text = &text.as_bytes()[..text.len().min(MOST)];
        let parts = [&number.to_ne_bytes()[..], &[failed], text];
        if control::say(&self.control, control::DONE, &parts).is_err() {
            exit(1);
        }
    }
}

fn decide(decider: &mut dyn Decider, watch: &Watch, questions: &[Question<'_>], batch: &mut Batch) {
    let Batch { verdicts, failed, fault } = batch;
    verdicts.clear();
    watch.begin();
    let result = catch_unwind(AssertUnwindSafe(|| decider.decide(questions, verdicts)));
    let stopped = watch.end();
    if stopped {
        decider.resume();
    }
    let mut error = result.unwrap_or_else(|panic| Err(words(&*panic))).err();
    // Most say one thing of each, in turn.
    let in_turn = verdicts.len() == questions.len()
        && verdicts.iter().zip(questions).all(|(verdict, question)| verdict.id == question.id);
    if !in_turn {
        let without =
            |question: &&Question<'_>| !verdicts.iter().any(|verdict| verdict.id == question.id);
        failed.extend(questions.iter().filter(without).map(|question| question.id));
        // The worker refuses more verdicts than questions; fewer are allowed.
        verdicts.truncate(2 * BATCH);
        if error.is_none() && !failed.is_empty() {
            error = Some("the policy gave no verdict".to_owned());
        }
    }
    *fault = error.map(|error| (error, stopped));
}

/// The reports that the supervisor already has.
#[derive(Default)]
struct Reported {
    last: Option<Instant>,
}

impl Reported {
    /// Failures are reported only now and then: every text may be new.
    #[cold]
    fn report(&mut self, control: &OwnedFd, fault: &str, stopped: bool) {
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        self.last = Some(Instant::now());
        let fault = &fault.as_bytes()[..fault.len().min(MOST)];
        // A supervisor that is slow gets the report later; a process never waits for it.
        let _ = control::say(control, control::FAILED, &[&[u8::from(stopped)], fault]);
    }
}

/// The message of a panic.
pub(super) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}

/// A chunk may take as long as this many batches: less than the time that a process may be silent.
const CHUNK: u32 = 5;
/// Polls between two reads of the clock.
const SPINS: u32 = 64;
/// The time between two reports of failures.
const PAUSE: Duration = Duration::from_millis(5);
