//! Threads that work at the same time, each on a core of its own, told how long.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock;
use crate::slices::{Sample, Work};

/// What one thread does again and again; returns how many operations it did.
pub type Pass = Box<dyn FnMut() -> u64 + Send>;

/// Threads on the last cores of the machine. They end when it is dropped.
pub struct Crew {
    members: Vec<Member>,
}

struct Member {
    orders: Option<Sender<Duration>>,
    answers: Receiver<Sample>,
    thread: Option<JoinHandle<()>>,
}

impl Crew {
    /// One thread for each of `passes`.
    pub fn new(passes: Vec<Pass>) -> Crew {
        let cores = clock::cores();
        let start = |(number, pass): (usize, Pass)| {
            let (orders, inbox) = channel();
            let (outbox, answers) = channel();
            let core = cores[cores.len() - 1 - number % cores.len()];
            let thread = thread::spawn(move || member(core, pass, &inbox, &outbox));
            Member { orders: Some(orders), answers, thread: Some(thread) }
        };
        Crew { members: passes.into_iter().enumerate().map(start).collect() }
    }
}

impl Work for Crew {
    /// The sum of the operations, and the mean of the processor times.
    fn slice(&mut self, target: Duration) -> Sample {
        for member in &self.members {
            // A thread that is gone is noticed below.
            let _ = member.orders.as_ref().map(|orders| orders.send(target));
        }
        let samples: Vec<Sample> =
            self.members.iter().map(|m| m.answers.recv().unwrap_or_default()).collect();
        let time = samples.iter().map(|sample| sample.time).sum::<Duration>();
        Sample {
            ops: samples.iter().map(|sample| sample.ops).sum(),
            time: time / samples.len().max(1) as u32,
            ..Sample::default()
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| member.orders = None);
        for thread in self.members.iter_mut().filter_map(|member| member.thread.take()) {
            // A panic has been printed by then; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

fn member(core: usize, mut pass: Pass, orders: &Receiver<Duration>, answers: &Sender<Sample>) {
    clock::pin(core);
    for target in orders {
        let (start, mut ops) = (clock::thread_time(), 0);
        let mut time = Duration::ZERO;
        while time < target {
            ops += pass();
            time = clock::thread_time() - start;
        }
        if answers.send(Sample { ops, time, ..Sample::default() }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_counts() {
        let pass = || {
            Box::new(|| std::hint::black_box((0..1000_u64).fold(1, |a, b| a ^ b) | 1).min(1))
                as Pass
        };
        let mut crew = Crew::new(vec![pass(), pass()]);
        let sample = crew.slice(Duration::from_millis(2));
        assert!(sample.ops >= 2 && sample.time >= Duration::from_millis(2));
    }
}
