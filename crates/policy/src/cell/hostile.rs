//! A simulated hostile process, which writes anything at any time: for fuzzing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::desk::Desk;
use super::gauge::{Gauge, State};
use super::layout::{self, HEAD, Layout, SLEEPS, Said};
use super::line::Line;
use super::shared::{Own, Window, within};
use crate::ask::{Asker, Facts, Instead, Matter, Question};

/// Drives a worker's end and a hostile process with the decisions in `bytes`.
///
/// # Panics
/// Where a promise of [`Asker`] is broken.
pub fn drive(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut drive = Drive::new(bytes.next().unwrap_or(0));
    while let Some(step) = bytes.next() {
        let mut word = || u64::from_le_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)));
        drive.step(step, &mut word);
    }
    drive.end();
}

struct Drive {
    layout: Layout,
    desk: Desk,
    gauge: Arc<Gauge>,
    questions: Window,
    verdicts: Own,
    /// Ids of questions without a verdict.
    open: HashSet<u32>,
    asked: u32,
    /// The positions up to which the process has read and written.
    read: u32,
    said: u32,
    tokens: Vec<u32>,
}

impl Drive {
    fn new(depth: u8) -> Drive {
        let layout = Layout::new(u32::from(depth) + 1, 64);
        let (questions, read) = within(layout.questions());
        let (verdicts, seen) = within(layout.verdicts());
        let gauge = Arc::new(Gauge::default());
        let instead = Instead { forward: true, decision: None };
        let line = Line::new(layout, questions, Arc::new(seen), None, gauge.clone(), instead);
        let (mut desk, mail) = Desk::new();
        mail.send(Box::new(line));
        desk.flush();
        Drive {
            layout,
            desk,
            gauge,
            questions: read,
            verdicts,
            open: HashSet::new(),
            asked: 0,
            read: 0,
            said: 0,
            tokens: Vec::new(),
        }
    }

    fn step(&mut self, step: u8, word: &mut dyn FnMut() -> u64) {
        match step % 16 {
            0..4 => self.ask(),
            4 => self.desk.flush(),
            5 => self.take(word() as usize % 300),
            6 | 7 => self.answer(word()),
            8 => {
                let at = word() as usize % self.tokens.len().max(1);
                if let Some(token) = self.tokens.get(at).copied() {
                    self.say(&layout::emit(token, &Said::Failed).0);
                }
            }
            9 => {
                let words: [u64; layout::WORDS] = std::array::from_fn(|_| word());
                self.say(&words);
            }
            10 => {
                let (all, at) = (self.layout.verdicts() / 8, word() as usize);
                self.verdicts.write(at % all * 8, &[word()]);
            }
            11 => {
                self.said = word() as u32;
                self.verdicts.store(HEAD, self.said, Ordering::Release);
            }
            12 => self.verdicts.store(SLEEPS, word() as u32, Ordering::Relaxed),
            13 => {
                self.said = self.gauge.taken.load(Ordering::Relaxed);
                self.verdicts.store(HEAD, self.said, Ordering::Release);
            }
            14 => self.gauge.set_clock(word() as u32),
            _ => match word() % 64 {
                0 => self.gauge.advance(State::Draining),
                1 => self.gauge.advance(State::Over),
                _ => {}
            },
        }
        let oldest = self.gauge.oldest();
        assert!(oldest.is_none() || !self.open.is_empty());
    }

    fn ask(&mut self) {
        let facts = Facts {
            outer_ethertype: 0x0800,
            inner_ethertype: 0x0800,
            l4_proto: 6,
            priority: 3,
            outer_ecn: 0,
            frag: false,
            upper_len: 20,
            outer_l3: 14,
            inner_l3: 34,
            l4: 54,
        };
        let id = self.asked.wrapping_mul(0x9e37_79b1);
        let matter = Matter::Packet;
        let asked = self.desk.ask(&Question { id, matter, facts, bytes: &[1; 80] });
        if asked.is_ok() {
            self.asked += 1;
            assert!(self.open.insert(id) && self.open.len() <= self.layout.depth() as usize);
        } else {
            let full = self.open.len() == self.layout.depth() as usize;
            assert!(full || self.gauge.state() != State::Open);
        }
    }

    fn take(&mut self, most: usize) {
        let open = &mut self.open;
        let mut taken = 0;
        let given = self.desk.verdicts(most, &mut |verdict| {
            taken += 1;
            assert!(open.remove(&verdict.id), "{verdict:?} was not asked, or is said twice");
        });
        assert!(given == taken && given <= most);
    }

    /// A valid verdict of the next question.
    fn answer(&mut self, word: u64) {
        if self.questions.load(HEAD, Ordering::Acquire) == self.read {
            return;
        }
        let token = self.questions.load(self.layout.token_at(self.read), Ordering::Relaxed);
        self.read = self.read.wrapping_add(1);
        self.tokens.push(token);
        let cookie = [word as u8; 64];
        let program = wire::ggu::Verdict::Program { expire_s: 1, index: word as u8, cookie };
        let decision = word.is_multiple_of(2).then_some(program);
        self.say(
            &layout::emit(token, &Said::Verdict { forward: word.is_multiple_of(3), decision }).0,
        );
    }

    fn say(&mut self, words: &[u64]) {
        self.verdicts.write(self.layout.verdict_at(self.said), words);
        self.said = self.said.wrapping_add(1);
        self.verdicts.store(HEAD, self.said, Ordering::Release);
    }

    /// The process ends: each question without a verdict gets the configured one.
    fn end(mut self) {
        self.desk.flush();
        self.gauge.advance(State::Over);
        for _ in 0..4 {
            self.take(usize::MAX);
        }
        assert!(self.open.is_empty(), "{} are lost", self.open.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_a_promise() {
        let (rounds, most) = if cfg!(miri) { (20, 300) } else { (2_000, 2_000) };
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        for _ in 0..rounds {
            let len = next() as usize % most;
            let bytes: Vec<u8> = (0..len).map(|_| next() as u8).collect();
            drive(&bytes);
        }
    }
}
