//! A worker's end of the rings to one process.
//!
//! It trusts nothing that the process writes: it copies a verdict once and then checks it, the
//! verdict's token must belong to a question without a verdict, and an index that jumps ends
//! the line. The worker's own records are in its own memory.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::gauge::{Gauge, State};
use super::layout::{self, FACTS, HEAD, Layout, SLEEPS, Said, WORDS, WORDS_BEFORE};
use super::shared::{Own, Window};
use crate::ask::{Full, Instead, Question, Verdict};

/// A worker's end of one line.
///
/// I1: the places in use are a list from `oldest` to `newest`, in the order of asking; the
/// others are a list from `free` on. `asked` is the number of the former.
#[derive(Debug)]
pub(crate) struct Line {
    layout: Layout,
    questions: Own,
    verdicts: Arc<Window>,
    /// Wakes the process.
    bell: Option<Arc<OwnedFd>>,
    gauge: Arc<Gauge>,
    places: Box<[Place]>,
    free: u32,
    oldest: u32,
    newest: u32,
    asked: u32,
    /// Questions since the start, and those of them that the process can see.
    head: u32,
    published: u32,
    /// Verdicts since the start.
    taken: u32,
    /// The process's sleep for which it was woken last.
    rung: u32,
    /// The sleep from which it is to be woken; 0: none.
    owed: u32,
    /// The substitute for a missing verdict.
    instead: Instead,
    /// The line is over, and the last words of the process are not believed.
    deaf: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The worker's id of the question.
    id: u32,
    /// Incremented with each use; the upper bits of the token.
    generation: u32,
    used: bool,
    asked: u32,
    before: u32,
    after: u32,
}

/// No place.
const NO: u32 = u32::MAX;

impl Line {
    /// Both memories are empty.
    pub fn new(
        layout: Layout,
        questions: Own,
        verdicts: Arc<Window>,
        bell: Option<Arc<OwnedFd>>,
        gauge: Arc<Gauge>,
        instead: Instead,
    ) -> Line {
        let place = |i: u32| {
            let after = if i + 1 < layout.depth() { i + 1 } else { NO };
            Place { id: 0, generation: 0, used: false, asked: 0, before: NO, after }
        };
        Line {
            layout,
            questions,
            verdicts,
            bell,
            gauge,
            places: (0..layout.depth()).map(place).collect(),
            free: 0,
            oldest: NO,
            newest: NO,
            asked: 0,
            head: 0,
            published: 0,
            taken: 0,
            rung: 0,
            owed: 0,
            instead,
            deaf: false,
        }
    }

    /// The state that the supervisor has set.
    #[inline]
    pub fn state(&self) -> State {
        self.gauge.state()
    }

    /// Questions without a verdict.
    #[inline]
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// Puts a question; the process sees it after the next [`Line::flush`].
    #[inline]
    pub fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        let at = self.free;
        let Some(place) = self.places.get_mut(at as usize) else { return Err(Full) };
        self.free = place.after;
        place.generation = place.generation.wrapping_add(self.layout.depth());
        let token = place.generation | at;
        (place.id, place.used, place.asked) = (question.id, true, self.gauge.clock());
        (place.before, place.after) = (self.newest, NO);
        match self.places.get_mut(self.newest as usize) {
            Some(newest) => newest.after = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.asked += 1;

        let len = question.bytes.len().min(self.layout.captured() as usize);
        let from = self.layout.question_at(at);
        self.questions.put(from, &layout::facts(question, len as u32));
        self.questions.put(from + FACTS, &question.bytes[..len]);
        self.questions.store(self.layout.token_at(self.head), token, Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        Ok(())
    }

    /// Hands the questions over; returns whether the process sleeps, and [`Line::ring`] is to wake it.
    #[inline]
    pub fn flush(&mut self) -> bool {
        let new = self.head.wrapping_sub(self.published);
        if new == 0 {
            return self.owed != 0;
        }
        Gauge::add(&self.gauge.asked, new.into());
        self.note_oldest();
        self.questions.store(HEAD, self.head, Ordering::Release);
        self.published = self.head;
        // Either the process sees the head before it sleeps, or the worker sees its sleep here.
        fence(Ordering::SeqCst);
        let sleeps = self.verdicts.load(SLEEPS, Ordering::Relaxed);
        self.owed = if sleeps % 2 == 1 && sleeps != self.rung { sleeps } else { 0 };
        self.owed != 0
    }

    /// Wakes the process from the sleep that [`Line::flush`] saw, and returns whether that took a
    /// system call: it is up already where another worker has woken it, and before it sleeps again
    /// it sees what was handed over.
    #[cold]
    pub fn ring(&mut self) -> bool {
        let owed = std::mem::take(&mut self.owed);
        if owed == 0 || self.verdicts.load(SLEEPS, Ordering::Relaxed) != owed {
            return false;
        }
        self.rung = owed;
        // A full counter wakes it, too.
        self.bell.iter().for_each(|bell| _ = rustix::io::write(bell, &1_u64.to_ne_bytes()));
        true
    }

    /// Whether the process is to be woken.
    pub fn owes(&self) -> bool {
        self.owed != 0
    }

    /// Appends at most `most` verdicts; returns their number.
    pub fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let state = self.state();
        let mut given = 0;
        let head = self.verdicts.load(HEAD, Ordering::Acquire);
        let waiting = if self.deaf { 0 } else { head.wrapping_sub(self.taken) };
        if waiting > self.layout.depth() {
            // More verdicts than questions, or an index that went backwards.
            self.refuse(1);
        } else if waiting > 0 {
            let (mut decided, mut failed, mut refused) = (0, 0, 0);
            // No more verdicts than there are now, whatever the process writes meanwhile.
            for _ in 0..waiting.min(u32::try_from(most).unwrap_or(u32::MAX)) {
                let said = self.next();
                self.taken = self.taken.wrapping_add(1);
                let Some((id, said)) = said else {
                    refused += 1;
                    continue;
                };
                let verdict = match said {
                    Said::Verdict { forward, decision } => {
                        decided += 1;
                        Verdict { id, forward, decision }
                    }
                    Said::Failed => {
                        failed += 1;
                        self.instead.verdict(id)
                    }
                };
                given += 1;
                take(verdict);
            }
            Gauge::add(&self.gauge.decided, decided);
            Gauge::add(&self.gauge.failed, failed);
            if refused > 0 {
                self.refuse(refused);
                // The process is killed, or about to be; it cannot delay that.
                self.deaf = state == State::Over;
            }
            self.note_oldest();
            self.gauge.taken.store(self.taken, Ordering::Release);
        }
        // The state was read before the head: every verdict before the process's end was seen.
        if state == State::Over && (waiting == 0 || waiting > self.layout.depth()) {
            given += self.lose(most - given, take);
        }
        given
    }

    /// Whether the line has no more verdicts to give.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.asked == 0 && self.state() != State::Open
    }

    /// The next verdict, with the worker's id of its question, if it is valid.
    #[inline]
    fn next(&mut self) -> Option<(u32, Said)> {
        let at = self.layout.verdict_at(self.taken);
        let mut words = [0; WORDS_BEFORE];
        self.verdicts.copy(at, &mut words);
        let token = layout::token(words[0]);
        let place = self.layout.place(token);
        let parked = &self.places[place as usize];
        if !parked.used || parked.generation | place != token {
            return None;
        }
        let id = parked.id;
        let cookie = || {
            let mut cookie = [0; WORDS - WORDS_BEFORE];
            self.verdicts.copy(at + 8 * WORDS_BEFORE, &mut cookie);
            cookie
        };
        let said = layout::parse(&words, cookie)?;
        self.give_back(place);
        Some((id, said))
    }

    /// The verdicts of questions whose process is gone.
    fn lose(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let mut given = 0;
        while given < most {
            let Some(oldest) = self.places.get(self.oldest as usize) else { break };
            let id = oldest.id;
            self.give_back(self.oldest);
            given += 1;
            take(self.instead.verdict(id));
        }
        Gauge::add(&self.gauge.lost, given as u64);
        self.note_oldest();
        given
    }

    /// Frees a place in use (I1).
    #[inline]
    fn give_back(&mut self, at: u32) {
        let Place { before, after, .. } = self.places[at as usize];
        match self.places.get_mut(before as usize) {
            Some(place) => place.after = after,
            None => self.oldest = after,
        }
        match self.places.get_mut(after as usize) {
            Some(place) => place.before = before,
            None => self.newest = before,
        }
        let place = &mut self.places[at as usize];
        (place.used, place.after) = (false, self.free);
        self.free = at;
        self.asked -= 1;
    }

    #[inline]
    fn note_oldest(&self) {
        let oldest = self.places.get(self.oldest as usize);
        let oldest = oldest.map_or(0, |place| 1 << 32 | u64::from(place.asked));
        self.gauge.oldest.store(oldest, Ordering::Release);
    }

    #[cold]
    fn refuse(&self, n: u64) {
        Gauge::add(&self.gauge.refused, n);
    }
}

#[cfg(test)]
mod tests;
