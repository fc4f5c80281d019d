//! The deciders: the one place where kinds of policies are distinguished.
//!
//! ```text
//!  [grantor] policy ─► Policies::new ─┬► Asker, one a worker ─► nodes
//!                                     └► Policies ─► show, load, end
//! ```

use std::collections::VecDeque;

use nodes::grantor::settings::Instead;
use policy::ask::{Asker, Full, Matter, Question, Verdict};
use wire::ggu;

use super::cells::Cells;
use super::read::{Decides, Granting};
use super::words::Words;
use crate::config::Idle;
use crate::error::Error;
use crate::threads::Threads;

/// The decider, as the rest of the application sees it.
pub(super) enum Policies {
    /// The same verdict for all.
    Words(Words),
    /// A file, in processes of its own.
    Cells(Cells),
}

impl Policies {
    /// The configured decider, and an asker for each worker. A policy in a file decides when this
    /// returns; its processes poll on without questions where the workers do without packets.
    ///
    /// # Errors
    /// When the policy does not load.
    pub fn new(
        granting: &Granting,
        workers: (usize, Idle),
        threads: &Threads,
    ) -> Result<(Vec<Box<dyn Asker>>, Policies), Error> {
        match &granting.policy {
            Decides::Words(words) => {
                let asker = |_| Box::new(Constant::new(words.0, granting.asked)) as _;
                Ok(((0..workers.0).map(asker).collect(), Policies::Words(*words)))
            }
            Decides::File(file) => {
                let (askers, cells) = Cells::start(file, granting, workers, threads)?;
                Ok((askers, Policies::Cells(cells)))
            }
        }
    }

    /// The processes, if there are any.
    pub fn cells(&self) -> Option<&Cells> {
        match self {
            Policies::Words(_) => None,
            Policies::Cells(cells) => Some(cells),
        }
    }

    /// The decider's description.
    pub fn describe(&self) -> String {
        match self {
            Policies::Words(words) => words.to_string(),
            Policies::Cells(cells) => cells.describe(),
        }
    }
}

/// The same verdict for all: no process is needed.
struct Constant {
    verdict: Instead,
    asked: VecDeque<(u32, Matter)>,
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
        self.asked.push_back((question.id, question.matter));
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let n = most.min(self.asked.len());
        self.asked.drain(..n).for_each(|(id, matter)| {
            let mut verdict = self.verdict.verdict(id);
            if matter == Matter::Punish {
                verdict.decision = verdict.decision.map(|_| PUNISHED);
            }
            take(verdict);
        });
        n
    }

    fn flush(&mut self) {}
}

/// The decision for flows whose fragments never became whole: as deployed, unless a policy decides.
const PUNISHED: ggu::Verdict = ggu::Verdict::Declined { expire_s: 600 };
