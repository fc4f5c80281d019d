//! A process's end of the rings to one worker. The process trusts the worker.

use std::sync::atomic::{Ordering, fence};

use crate::ask::{Question, Verdict};
use crate::cell::layout::{self, BUSY, FACTS, HEAD, Layout, SLEEPS, Said};
use crate::cell::shared::{Own, Window};

/// The end.
#[derive(Debug)]
pub(crate) struct End {
    layout: Layout,
    questions: Window,
    verdicts: Own,
    /// Questions taken and verdicts given, since the start.
    taken: u32,
    given: u32,
    sleeps: u32,
}

impl End {
    /// Both memories are empty.
    pub fn new(layout: Layout, questions: Window, verdicts: Own) -> End {
        End { layout, questions, verdicts, taken: 0, given: 0, sleeps: 0 }
    }

    /// Takes up to [`BATCH`] waiting questions, and passes them to `decide` with the vector for
    /// their verdicts, which stays filled for [`End::give`]. 0: there are none.
    #[inline]
    pub fn take(&mut self, decide: impl FnOnce(&[Question<'_>])) -> usize {
        let head = self.questions.load(HEAD, Ordering::Acquire);
        let n = (head.wrapping_sub(self.taken) as usize).min(BATCH);
        if n == 0 {
            return 0;
        }
        // Whoever reads it does so when this process has ended.
        self.verdicts.store(BUSY, n as u32, Ordering::Relaxed);
        let mut batch = [NOTHING; BATCH];
        for (i, slot) in batch[..n].iter_mut().enumerate() {
            *slot = self.question(self.taken.wrapping_add(i as u32));
        }
        decide(&batch[..n]);
        self.taken = self.taken.wrapping_add(n as u32);
        n
    }

    #[inline]
    fn question(&self, index: u32) -> Question<'_> {
        let token = self.questions.load(self.layout.token_at(index), Ordering::Relaxed);
        let at = self.layout.question_at(self.layout.place(token));
        // SAFETY: the worker writes a place again after its verdict, which comes later.
        let facts = unsafe { self.questions.bytes(at, FACTS) };
        let facts = facts.first_chunk().expect("as long as that");
        let (question, captured) = layout::parse_facts(token, facts);
        let captured = captured.min(self.layout.captured()) as usize;
        // SAFETY: as above.
        Question { bytes: unsafe { self.questions.bytes(at + FACTS, captured) }, ..question }
    }

    /// Gives verdicts; for the ids in `failed` they report that the policy failed.
    #[inline]
    pub fn give(&mut self, verdicts: &[Verdict], failed: impl Iterator<Item = u32>) {
        for verdict in verdicts {
            let Verdict { id, forward, decision } = *verdict;
            self.write(id, &Said::Verdict { forward, decision });
        }
        for id in failed {
            self.write(id, &Said::Failed);
        }
        self.verdicts.store(HEAD, self.given, Ordering::Release);
        self.verdicts.store(BUSY, 0, Ordering::Relaxed);
    }

    #[inline]
    fn write(&mut self, token: u32, said: &Said) {
        let (words, count) = layout::emit(token, said);
        self.verdicts.write(self.layout.verdict_at(self.given), &words[..count]);
        self.given = self.given.wrapping_add(1);
    }

    /// Announces that the process is about to sleep. Check for questions after this call.
    pub fn lie_down(&mut self) {
        self.sleeps = self.sleeps.wrapping_add(1) | 1;
        self.verdicts.store(SLEEPS, self.sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the process is awake.
    pub fn get_up(&mut self) {
        self.sleeps = self.sleeps.wrapping_add(1) & !1;
        self.verdicts.store(SLEEPS, self.sleeps, Ordering::Relaxed);
    }

    /// True when a question waits.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.questions.load(HEAD, Ordering::Acquire) != self.taken
    }
}

/// The most questions at a time.
pub(crate) const BATCH: usize = 64;

const NOTHING: Question<'static> = Question {
    id: 0,
    matter: crate::ask::Matter::Packet,
    facts: crate::ask::Facts {
        outer_ethertype: 0,
        inner_ethertype: 0,
        l4_proto: 0,
        priority: 0,
        outer_ecn: 0,
        frag: false,
        upper_len: 0,
        outer_l3: 0,
        inner_l3: 0,
        l4: 0,
    },
    bytes: &[],
};
