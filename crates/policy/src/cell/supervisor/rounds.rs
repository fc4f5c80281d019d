//! The steps of a supervisor's round.

use std::time::Instant;

use super::{Error, Event, Next, Supervisor};
use crate::cell::gauge::State;
use crate::cell::history::{CAUSES, History, Kind, News};
use crate::cell::process::{Process, Stage, cause};
use crate::cell::source::Source;
use crate::cell::word::Word;

impl Supervisor {
    pub(super) fn round(&mut self, now: Instant, buffer: &mut [u8]) {
        for at in 0..self.processes.len() {
            self.hear(at, now, buffer);
            self.look(at, now);
        }
        self.mails.iter().for_each(|mail| mail.collect());
        self.reap(now);
        self.fill(now);
    }

    /// Handles the messages of a process, a limited number at a time.
    fn hear(&mut self, at: usize, now: Instant, buffer: &mut [u8]) {
        for _ in 0..WORDS {
            let process = &mut self.processes[at];
            if process.stage == Stage::Over {
                return;
            }
            let Some(word) = Word::of(process, buffer) else { return };
            if process.says_too_much(now) {
                return self.give_up(at, "it said more than a process of a policy says".into());
            }
            match word {
                Word::Shut(missing) if process.stage == Stage::Starting && !process.shut => {
                    process.shut = true;
                    self.note_missing(missing);
                }
                Word::Ready if process.stage == Stage::Starting && process.shut => {
                    process.stage = Stage::Ready;
                }
                Word::Refused(cause) if process.stage == Stage::Starting => self.give_up(at, cause),
                Word::Failed(kind, cause) => {
                    let source = process.source.clone();
                    self.failed(&source, now, (kind, cause), None);
                }
                Word::Remark(remark) => process.remark = Some(remark),
                Word::Done(number, result) => {
                    let pid = process.id();
                    if process.chunk.is_some_and(|(open, _)| open == number) {
                        process.chunk = None;
                        self.chunks.answer(number, pid, result);
                    }
                }
                Word::Gone => self.over(at),
                _ => self.give_up(at, "it said what no process of a policy says".into()),
            }
        }
    }

    /// Checks whether a process works as it should.
    fn look(&mut self, at: usize, now: Instant) {
        let clock = self.clock(now);
        let process = &mut self.processes[at];
        let age = now.duration_since(process.since);
        let silence = self.settings.silence();
        match process.stage {
            Stage::Starting if age > self.settings.load + silence => {
                let cause = format!("it is not ready after {} ms", self.settings.load.as_millis());
                self.give_up(at, cause);
            }
            Stage::Serving | Stage::Draining => {
                if process.refused() > 0 {
                    self.give_up(at, "it wrote into its rings what is no verdict".into());
                } else if process.is_silent(now, clock, &self.settings) {
                    let cause = format!("it gave no verdict for {} ms", silence.as_millis());
                    self.give_up(at, cause);
                } else if process.stage == Stage::Draining && process.is_alone() {
                    self.over(at);
                } else if process.stage == Stage::Draining && age > DRAIN * silence {
                    // Its open questions get the configured verdict.
                    self.over(at);
                }
            }
            _ => {}
        }
        let process = &self.processes[at];
        let late = |given: Instant| now.duration_since(given) > 2 * silence;
        if process.stage != Stage::Over && process.chunk.is_some_and(|(_, given)| late(given)) {
            self.give_up(at, format!("a chunk took more than {} ms", 2 * silence.as_millis()));
        }
    }

    /// Ends a process because of a fault.
    fn give_up(&mut self, at: usize, cause: String) {
        self.processes[at].killed = Some(cause);
        self.over(at);
    }

    /// Ends a process, or notes that it has ended.
    fn over(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.stage == Stage::Draining && process.killed.is_none() {
            process.killed = Some(String::new()); // not a fault
        }
        process.stage = Stage::Over;
        let killed = process.kill();
        let (pid, chunk) = (process.id(), process.chunk.take());
        if let Some((number, _)) = chunk {
            self.chunks.answer(number, pid, Err("the process ended".into()));
        }
        if let Err(error) = killed {
            self.system(format!("process {pid} cannot be ended: {error}"));
        }
    }

    /// Removes processes that have ended, and reports why they ended. A process stays until the
    /// workers have counted its unanswered questions.
    fn reap(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.processes.len() {
            let process = &mut self.processes[at];
            if process.stage == Stage::Over
                && !process.reported
                && let Some(status) = process.ended()
            {
                process.reported = true;
                self.ended(at, status, now);
            }
            let process = &self.processes[at];
            if process.reported && process.is_alone() {
                self.past = self.past.and(process.counts());
                self.processes.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    fn ended(&mut self, at: usize, status: std::process::ExitStatus, now: Instant) {
        let process = &mut self.processes[at];
        process.lines.clear();
        let cause = cause(process.killed.take(), status);
        let asked = process.asked();
        if !cause.is_empty() {
            let cause = process.with_line(cause);
            let source = process.source.clone();
            if self.current.as_ref().is_some_and(|current| current.is(&source)) {
                self.history.note_end(now);
                self.owed += 1;
            }
            self.failed(&source, now, (Kind::End, cause), asked);
        }
    }

    /// Notes a failure of a policy, and what it was asked: one cause with many flows is one.
    fn failed(
        &mut self,
        source: &Source,
        now: Instant,
        (kind, cause): (Kind, String),
        asked: Option<String>,
    ) {
        if let Some(next) = self.next.take_if(|next| next.source.is(source)) {
            self.discard(&next.source);
            return self.refuse(next, cause);
        }
        if !self.current.as_ref().is_some_and(|current| current.is(source)) {
            return; // a process that is ending anyway
        }
        let policy = source.name().to_owned();
        let news = self.history.note(now, kind, &cause);
        let cause = asked.map_or(cause.clone(), |asked| format!("{cause}, {asked}"));
        self.last_failure = Some(cause.clone());
        match news {
            News::Cause => self.events.push(Event::Failed { policy: policy.clone(), cause }),
            News::TooMany => {
                self.events.push(Event::TooManyCauses { policy: policy.clone(), causes: CAUSES });
            }
            News::Known => {}
        }
        let failures = self.history.recent(now);
        if failures < self.settings.failures || self.next.is_some() {
            return;
        }
        match self.good.pop() {
            Some(good) => {
                self.rollbacks += 1;
                let to = good.name().to_owned();
                self.events.push(Event::RolledBack { from: policy, to, failures });
                self.next = Some(Next { source: good, reply: None, back: true, started: false });
            }
            None if !self.stuck => {
                self.stuck = true;
                self.events.push(Event::NothingBefore { policy, failures });
            }
            None => {}
        }
    }

    /// A policy does not start.
    fn refuse(&mut self, next: Next, cause: String) {
        let policy = next.source.name().to_owned();
        if next.back {
            self.before = None;
            self.good.retain(|good| !good.is(&next.source));
        }
        match next.reply {
            Some(reply) => _ = reply.send(Err(Error::Refused { policy, cause })),
            None => self.events.push(Event::Failed { policy, cause }),
        }
    }

    /// Its processes are ended.
    fn discard(&mut self, source: &Source) {
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            if process.source.is(source) && process.stage != Stage::Over {
                process.killed = Some(String::new());
                self.over(at);
            }
        }
    }

    /// Starts processes until the configured number runs.
    fn fill(&mut self, now: Instant) {
        let wanted = self.settings.processes.max(1);
        if let Some(next) = &mut self.next {
            let source = next.source.clone();
            if !std::mem::replace(&mut next.started, true) {
                (0..wanted).for_each(|_| self.start(&source));
            }
            if self.count(&source, |stage| stage == Stage::Ready) >= wanted {
                self.change();
            } else if !self.processes.iter().any(|one| one.source.is(&source) && !one.reported) {
                let cause = self.system.clone().unwrap_or_else(|| "no process started".into());
                if let Some(next) = self.next.take() {
                    self.refuse(next, cause);
                }
            }
        }
        let Some(current) = self.current.clone() else { return };
        let mut missing = wanted.saturating_sub(self.count(&current, |s| s == Stage::Serving));
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            if missing > 0 && process.stage == Stage::Ready && process.source.is(&current) {
                missing -= usize::from(self.serve(at));
            }
        }
        let there = |stage| matches!(stage, Stage::Starting | Stage::Ready | Stage::Serving);
        let there = self.count(&current, there);
        for _ in there..wanted + self.settings.spares {
            if now >= self.history.next_start(now) {
                // The first spare replaces nothing.
                self.restarts += u64::from(self.owed > 0);
                self.owed = self.owed.saturating_sub(1);
                self.start(&current);
            }
        }
    }

    /// Makes the next policy the one that decides; the processes of the former one drain.
    fn change(&mut self) {
        let Some(next) = self.next.take() else { return };
        let old = self.current.replace(next.source.clone());
        self.good.retain(|good| !good.is(&next.source));
        let failures = self.history.recent(Instant::now());
        if let Some(old) = old.as_ref().filter(|_| !next.back && failures < self.settings.failures)
        {
            self.good.push(old.clone());
            self.good.drain(..self.good.len().saturating_sub(MOST_GOOD));
        }
        (self.history, self.owed, self.stuck) = (History::default(), 0, false);
        // A policy that was rolled back is never the target of a rollback.
        self.before = if next.back { None } else { old.clone() };
        for at in 0..self.processes.len() {
            if self.processes[at].source.is(&next.source) {
                self.serve(at);
            }
        }
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            if old.as_ref().is_none_or(|old| !process.source.is(old)) {
                continue;
            }
            match process.stage {
                Stage::Serving => {
                    process.advance(State::Draining);
                    (process.stage, process.since) = (Stage::Draining, Instant::now());
                }
                Stage::Starting | Stage::Ready => {
                    process.killed = Some(String::new());
                    self.over(at);
                }
                Stage::Draining | Stage::Over => {}
            }
        }
        self.events.push(Event::Serves { policy: next.source.name().to_owned() });
        if let Some(reply) = next.reply {
            let _ = reply.send(Ok(()));
        }
    }

    /// Makes workers ask a process that is ready. False: the workers have no room for it.
    fn serve(&mut self, at: usize) -> bool {
        let clock = self.clock(Instant::now());
        let process = &mut self.processes[at];
        if process.stage != Stage::Ready || !self.mails.iter().all(|mail| mail.has_room()) {
            return false;
        }
        process.stage = Stage::Serving;
        // The clock is set before the first question, which would otherwise be as old as the supervisor.
        process.set_clock(clock);
        for (mail, line) in self.mails.iter().zip(process.lines.drain(..)) {
            mail.send(line);
        }
        true
    }

    /// Milliseconds since the supervisor began.
    fn clock(&self, now: Instant) -> u32 {
        now.duration_since(self.begun).as_millis() as u32
    }

    fn start(&mut self, source: &Source) {
        self.started = self.started.wrapping_add(1);
        let is_free = |place: &u32| self.processes.iter().all(|process| process.place != *place);
        let place = (0..).find(is_free).unwrap_or(0);
        match Process::start((self.started, place), source, &self.settings) {
            Ok(process) => self.processes.push(process),
            Err(error) => self.system(format!("a process cannot be started: {error}")),
        }
    }

    fn count(&self, source: &Source, stage: impl Fn(Stage) -> bool) -> usize {
        let of = |process: &&Process| process.source.is(source) && stage(process.stage);
        self.processes.iter().filter(of).count()
    }

    fn note_missing(&mut self, missing: Vec<String>) {
        if missing != self.missing {
            if !missing.is_empty() {
                self.events.push(Event::NotShutIn { missing: missing.clone() });
            }
            self.missing = missing;
        }
    }

    /// Reports an error of the system, once.
    fn system(&mut self, error: String) {
        if self.system.as_ref() != Some(&error) {
            self.events.push(Event::System { error: error.clone() });
            self.system = Some(error);
        }
    }
}

/// The most messages of a process in a round.
const WORDS: usize = 16;
/// Policies to go back to that are kept.
const MOST_GOOD: usize = 8;
/// How many silences a process may drain.
const DRAIN: u32 = 20;
