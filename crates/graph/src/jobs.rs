//! Work on a node of a running graph: a list, a flush, a load, a setting.
//!
//! ```text
//!  control                                 worker, between polls
//!    call(|graph| graph.node_mut::<N>())     a short piece of work, at once
//!    start(job) ── commands ───────────────► Jobs: one bounded step a poll, the jobs in turn
//!    Answers::next ◄── at most 4 parts ────── step: node, items ─► part, part, …, the last
//!    dropped ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─► the next part finds nobody: the job ends
//!    the job's own memory ◄── spent ───────── never freed here
//! ```
//!
//! | cost | none while no job runs: it is found by the flag of the commands; else a step a poll |
//! |------|--------------------------------------------------------------------------------------|
//!
//! A job whose parts are not fetched waits, and keeps no worker awake.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use crate::graph::{Graph, NodeError};
use crate::node::Node;

/// Long work on the node `N`, done step by step between polls.
pub trait Job<N: Node>: Send + 'static {
    /// What a step answers: a piece of the list, or how many were done.
    type Part: Send + 'static;
    /// Items of one step: it should take a few microseconds.
    const ITEMS: usize = 256;

    /// Goes on for at most `items` items of the node's. What packets changed in the
    /// meantime, the job has to bear.
    fn step(&mut self, node: &mut N, items: usize) -> Progress<Self::Part>;
}

/// How far a step got.
pub enum Progress<P> {
    /// There is more.
    More(P),
    /// That was all.
    Last(P),
}

/// What a worker sends about a job.
pub(crate) enum Message<P> {
    Part(P),
    Last(P),
    Failed(NodeError),
}

/// A started job, its types erased.
pub(crate) trait Running: Send {
    fn step(&mut self, graph: &mut Graph) -> Outcome;
    /// The graph is replaced.
    fn end(&mut self);
}

/// What became of a job at a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Working,
    /// Its parts are not fetched.
    Blocked,
    Done,
}

struct Started<N: Node, J: Job<N>> {
    job: J,
    /// What found the channel full.
    unsent: Option<Message<J::Part>>,
    /// `None` after the end: whoever waits must see it closed, while the job waits to
    /// be freed.
    answers: Option<mpsc::SyncSender<Message<J::Part>>>,
    replaced: Arc<AtomicBool>,
    node: std::marker::PhantomData<fn(N)>,
}

impl<N: Node + 'static, J: Job<N>> Started<N, J> {
    fn send(&mut self, message: Message<J::Part>) -> Outcome {
        let last = !matches!(message, Message::Part(_));
        let Some(answers) = &self.answers else { return Outcome::Done };
        match answers.try_send(message) {
            Ok(()) if last => Outcome::Done,
            Ok(()) => Outcome::Working,
            Err(mpsc::TrySendError::Full(message)) => {
                self.unsent = Some(message);
                Outcome::Blocked
            }
            // Whoever asked has gone.
            Err(mpsc::TrySendError::Disconnected(message)) => {
                self.unsent = Some(message); // freed with the job
                Outcome::Done
            }
        }
    }
}

impl<N: Node + 'static, J: Job<N>> Running for Started<N, J> {
    fn step(&mut self, graph: &mut Graph) -> Outcome {
        if let Some(message) = self.unsent.take() {
            return self.send(message);
        }
        let message = match graph.node_mut::<N>() {
            Ok(node) => match self.job.step(node, J::ITEMS) {
                Progress::More(part) => Message::Part(part),
                Progress::Last(part) => Message::Last(part),
            },
            Err(error) => Message::Failed(error),
        };
        match self.send(message) {
            // It did its step of this poll; that it waits is found at the next.
            Outcome::Blocked => Outcome::Working,
            outcome => outcome,
        }
    }

    fn end(&mut self) {
        self.replaced.store(true, Ordering::Release);
        self.answers = None;
    }
}

/// Parts that may wait to be fetched.
const PARTS: usize = 4;

/// Where the parts of a job come out.
pub(crate) struct Parts<P> {
    pub messages: mpsc::Receiver<Message<P>>,
    /// Why it was closed: the graph that the job worked on is no more.
    pub replaced: Arc<AtomicBool>,
}

/// Makes a job ready to run.
pub(crate) fn started<N: Node + 'static, J: Job<N>>(job: J) -> (Box<dyn Running>, Parts<J::Part>) {
    let (answers, messages) = mpsc::sync_channel(PARTS);
    let replaced = Arc::new(AtomicBool::new(false));
    let parts = Parts { messages, replaced: replaced.clone() };
    let node = std::marker::PhantomData::<fn(N)>;
    (Box::new(Started { job, unsent: None, answers: Some(answers), replaced, node }), parts)
}

/// The jobs of one worker.
pub(crate) struct Jobs {
    running: VecDeque<Box<dyn Running>>,
    /// Where ended jobs go, to be freed by control.
    spent: mpsc::Sender<Box<dyn Running>>,
}

impl Jobs {
    /// No job; those that will have ended come out of the receiver.
    pub fn new() -> (Jobs, mpsc::Receiver<Box<dyn Running>>) {
        let (spent, ended) = mpsc::channel();
        (Jobs { running: VecDeque::new(), spent }, ended)
    }

    pub fn add(&mut self, job: Box<dyn Running>) {
        self.running.push_back(job);
    }

    /// One step of the next job that can go on; false when there is none.
    pub fn step(&mut self, graph: &mut Graph) -> bool {
        for _ in 0..self.running.len() {
            let Some(mut job) = self.running.pop_front() else { return false };
            match job.step(graph) {
                Outcome::Blocked => self.running.push_back(job),
                Outcome::Working => {
                    self.running.push_back(job);
                    return true;
                }
                Outcome::Done => {
                    // Control has gone only when this thread ends, too.
                    let _ = self.spent.send(job);
                    return !self.running.is_empty();
                }
            }
        }
        false
    }

    /// Ends all: their graph is replaced.
    pub fn end(&mut self) {
        while let Some(mut job) = self.running.pop_front() {
            job.end();
            let _ = self.spent.send(job); // as above
        }
    }
}
