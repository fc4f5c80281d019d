//! Who decides: the one place at which kinds of policies come in.
//!
//! ```text
//!  [grantor] policy ─► start ─┬► Asker, one a worker ─► nodes
//!                             └► Policies ─► show
//! ```

use std::collections::VecDeque;

use nodes::grantor::settings::Instead;
use policy::ask::{Asker, Full, Question, Verdict};

use super::words::Words;

/// What decides, as the rest of the application sees it.
pub(super) trait Policies: Send + Sync {
    /// What it is, and how it is with it.
    fn describe(&self) -> String;
}

/// Starts what the configuration asks for: an asker for each worker.
pub(super) fn start(
    policy: Words,
    workers: usize,
    depth: usize,
) -> (Vec<Box<dyn Asker>>, Box<dyn Policies>) {
    let asker = |_| Box::new(Constant::new(policy.0, depth)) as Box<dyn Asker>;
    ((0..workers).map(asker).collect(), Box::new(policy))
}

impl Policies for Words {
    fn describe(&self) -> String {
        self.to_string()
    }
}

/// The same for all: it needs no process of its own.
struct Constant {
    verdict: Instead,
    asked: VecDeque<u32>,
}

impl Constant {
    fn new(verdict: Instead, depth: usize) -> Constant {
        Constant { verdict, asked: VecDeque::with_capacity(depth) }
    }
}

impl Asker for Constant {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        if self.asked.len() == self.asked.capacity() {
            return Err(Full);
        }
        self.asked.push_back(question.id);
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let n = most.min(self.asked.len());
        let Instead { forward, decision } = self.verdict;
        self.asked.drain(..n).for_each(|id| take(Verdict { id, forward, decision }));
        n
    }

    fn flush(&mut self) {}
}
