//! A policy of the fuzzer's: full, silent, late or wrong, as a byte says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use policy::ask::{Asker, Full, Matter, Question, Verdict};
use wire::ggu;

/// A policy, and how it answers.
#[derive(Clone)]
pub(crate) struct Policy(Arc<Mutex<State>>);

struct State {
    how: u8,
    asked: VecDeque<(u32, Matter)>,
    /// There is a header around what it is asked about.
    is_wrapped: bool,
}

impl Policy {
    /// One that grants, and may be asked at length.
    pub fn new(is_wrapped: bool) -> Policy {
        Policy(Arc::new(Mutex::new(State { how: 0xf3, asked: VecDeque::new(), is_wrapped })))
    }

    /// Bits 0 to 3: what it says; 4 to 7: how much it may be asked before it is full.
    pub fn answers(&self, how: u8) {
        self.0.lock().expect("nobody panics with it").how = how;
    }
}

/// Bytes of a question.
pub(crate) const MOST: usize = 256;

impl Asker for Policy {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        let state = &mut *self.0.lock().expect("nobody panics with it");
        let Question { facts, bytes, .. } = question;
        let end = usize::from(facts.l4) + usize::from(facts.upper_len);
        let is_wrapped = facts.outer_l3 < facts.inner_l3;
        assert!(is_wrapped == state.is_wrapped && facts.inner_l3 < facts.l4, "{facts:?}");
        assert!(bytes.len() <= end.max(MOST), "more than there is: {facts:?}");
        if state.asked.len() >= usize::from(state.how >> 4) * 4 {
            return Err(Full);
        }
        state.asked.push_back((question.id, question.matter));
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let state = &mut *self.0.lock().expect("nobody panics with it");
        let how = state.how & 15;
        let n = if how == 0 { 0 } else { most.min(state.asked.len()) };
        for (id, matter) in state.asked.drain(..n) {
            // Of 1, 6 and 11: nothing passes; as grantedv2 says, as web says.
            let index = 1 + how / 5;
            let by_program = ggu::Verdict::Program { expire_s: 7, index, cookie: [how; 64] };
            let granted = ggu::Verdict::Granted {
                rate_kib: 7,
                expire_s: 7,
                next_renewal_ms: 7,
                renewal_step_ms: 7,
            };
            let decision = match (how % 5, matter) {
                (0, _) => None,
                (1, _) => Some(by_program),
                (_, Matter::Punish) | (2, _) => Some(ggu::Verdict::Declined { expire_s: 7 }),
                _ => Some(granted),
            };
            take(Verdict { id, forward: how != 2 && how != 7, decision });
            if how > 10 {
                take(Verdict { id: id ^ u32::from(how), forward: true, decision });
            }
        }
        n
    }

    fn flush(&mut self) {}
}
