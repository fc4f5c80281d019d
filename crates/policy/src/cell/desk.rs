//! A worker's end of the rings to all processes; a Grantor's node asks it.
//!
//! ```text
//!  questions ── 64 in turn, or up to the next poll ──► the line with the fewest open ones
//!  verdicts  ◄── of all lines, also of those that drain and of processes that ended
//!  bells     ── one a poll, in turn, to a process that sleeps and is asked
//!  the supervisor puts lines into the mail, and takes those back that are over
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::gauge::{Gauge, State};
use super::line::Line;
use crate::ask::{Asker, Full, Question, Verdict};

/// A worker's end.
#[derive(Debug)]
pub struct Desk {
    /// Room for [`LINES`] of them.
    #[expect(clippy::vec_box, reason = "they move between threads as one pointer")]
    lines: Vec<Box<Line>>,
    /// The line that is asked now, and how often it was asked in a row.
    at: usize,
    run: u32,
    /// The line whose verdicts are taken first.
    first: usize,
    /// The line whose process was woken last, and whether others are to be woken.
    woken: usize,
    owes: bool,
    mail: Arc<Mail>,
}

/// The mail between a worker and the supervisor.
#[derive(Debug)]
pub(crate) struct Mail {
    /// The mail has something for the worker.
    flag: AtomicBool,
    /// Questions that were refused.
    full: AtomicU64,
    letters: Mutex<Letters>,
}

/// Each list has room for [`LINES`].
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "they move between threads as one pointer")]
struct Letters {
    new: Vec<Box<Line>>,
    over: Vec<Box<Line>>,
    /// Lines that the worker has or will have.
    out: usize,
}

impl Desk {
    pub(crate) fn new() -> (Desk, Arc<Mail>) {
        let room = || Vec::with_capacity(LINES);
        let letters = Mutex::new(Letters { new: room(), over: room(), out: 0 });
        let flag = AtomicBool::new(false);
        let mail = Arc::new(Mail { flag, full: AtomicU64::new(0), letters });
        let lines = room();
        (Desk { lines, at: 0, run: 0, first: 0, woken: 0, owes: false, mail: mail.clone() }, mail)
    }

    /// Chooses the line with the fewest open questions that has room.
    fn turn(&mut self) -> Option<&mut Line> {
        let open = self.lines.iter().enumerate().filter(|(_, line)| line.state() == State::Open);
        let (at, _) = open.min_by_key(|(at, line)| {
            // Among equal lines, the one behind the last.
            let behind = (at + LINES - self.at - 1) % LINES;
            (line.asked(), behind)
        })?;
        (self.at, self.run) = (at, 0);
        Some(&mut self.lines[at])
    }

    /// Wakes one process: a system call a poll, however many there are.
    #[cold]
    fn wake(&mut self) {
        let all = self.lines.len();
        for behind in 1..=all {
            let at = (self.woken + behind) % all;
            if self.lines[at].ring() {
                self.woken = at;
                break;
            }
        }
        self.owes = self.lines.iter().any(|line| line.owes());
    }

    /// Takes lines from the mail, and puts finished ones into it.
    #[cold]
    fn post(&mut self) {
        // The supervisor holds the lock for moments: the next poll is early enough.
        let Ok(mut letters) = self.mail.letters.try_lock() else { return };
        self.mail.flag.store(false, Ordering::Relaxed);
        let letters = &mut *letters;
        let mut at = 0;
        while at < self.lines.len() {
            if self.lines[at].is_over() {
                letters.over.push(self.lines.swap_remove(at));
            } else {
                at += 1;
            }
        }
        // `out` bounds all of them: neither grows beyond its room.
        self.lines.append(&mut letters.new);
        (self.at, self.run) = (0, 0);
    }
}

impl Asker for Desk {
    #[inline]
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        let stays = self.run < RUN;
        self.run += 1;
        let line = self.lines.get_mut(self.at).filter(|line| stays && line.state() == State::Open);
        let asked = match line {
            Some(line) => line.ask(question),
            None => Err(Full),
        };
        if asked.is_ok() {
            return Ok(());
        }
        if self.mail.flag.load(Ordering::Relaxed) {
            self.post();
        }
        let asked = self.turn().map_or(Err(Full), |line| line.ask(question));
        if asked.is_err() {
            Gauge::add(&self.mail.full, 1);
        }
        asked
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let mut given = 0;
        let mut over = false;
        // Each line is first in its turn: a busy one leaves room for the others.
        self.first = self.first.wrapping_add(1);
        let (behind, before) = match self.lines.len() {
            0 => return 0,
            n => self.lines.split_at_mut(self.first % n),
        };
        for line in before.iter_mut().chain(behind) {
            given += line.verdicts(most - given, take);
            over |= line.is_over();
        }
        if over {
            self.post();
        }
        given
    }

    #[inline]
    fn flush(&mut self) {
        let mut sleeps = false;
        for line in &mut self.lines {
            sleeps |= line.flush();
        }
        if sleeps {
            self.wake();
        }
        self.run = RUN;
        if self.mail.flag.load(Ordering::Relaxed) {
            self.post();
        }
    }

    #[inline]
    fn owes(&self) -> bool {
        self.owes
    }
}

impl Mail {
    /// Sends a line to the worker, if it has room.
    pub fn send(&self, line: Box<Line>) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.out < LINES {
            letters.out += 1;
            letters.new.push(line);
            self.flag.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the worker may have another line. Only one thread sends lines.
    pub fn has_room(&self) -> bool {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).out < LINES
    }

    /// Questions that were refused.
    pub fn refused(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Drops the lines that the worker has finished with.
    pub fn collect(&self) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.out -= letters.over.len();
        let over: Vec<_> = letters.over.drain(..).collect();
        drop(letters);
        drop(over); // unmapped without the lock
    }
}

/// The most lines of a worker at a time, including those that drain.
pub(crate) const LINES: usize = 64;
/// Questions to one line in a row, so that a policy gets a batch.
const RUN: u32 = 64;

#[cfg(test)]
mod tests;
