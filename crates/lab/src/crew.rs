//! Threads that work at the same time, each on a core of its own, for a given time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::clock;
use crate::slices::{Sample, Work};

/// Makes what one thread does, in that thread.
pub type Maker<'s> = Box<dyn FnOnce() -> Box<dyn Work + 's> + Send + 's>;

/// Threads on the last cores of the machine. They end when it is dropped.
pub struct Crew<'s> {
    members: Vec<Member<'s>>,
}

struct Member<'s> {
    orders: Option<Sender<Order>>,
    answers: Receiver<Sample>,
    thread: Option<ScopedJoinHandle<'s, ()>>,
}

/// What a member is to do. All begin together: one that is alone for a while would be
/// too fast.
#[derive(Clone, Copy)]
struct Order {
    start: Instant,
    target: Duration,
}

impl<'s> Crew<'s> {
    /// One thread for each of `makers`.
    pub fn new(scope: &'s Scope<'s, '_>, makers: Vec<Maker<'s>>) -> Crew<'s> {
        Crew::from(scope, 0, makers)
    }

    /// The same, the first on the core that is so many before the last.
    pub fn from(scope: &'s Scope<'s, '_>, before: usize, makers: Vec<Maker<'s>>) -> Crew<'s> {
        let cores = clock::cores();
        let start = |(number, maker): (usize, Maker<'s>)| {
            let (orders, inbox) = channel();
            let (outbox, answers) = channel();
            let core = cores[cores.len() - 1 - (before + number) % cores.len()];
            let thread = scope.spawn(move || member(core, maker, &inbox, &outbox));
            Member { orders: Some(orders), answers, thread: Some(thread) }
        };
        Crew { members: makers.into_iter().enumerate().map(start).collect() }
    }

    /// The samples of one slice of each member, while this thread calls `meanwhile` again and
    /// again: it should come back soon.
    pub fn beside(&mut self, target: Duration, mut meanwhile: impl FnMut()) -> Vec<Sample> {
        self.order(target);
        let mut samples: Vec<Option<Sample>> = vec![None; self.members.len()];
        while samples.iter().any(Option::is_none) {
            meanwhile();
            let open = self.members.iter().zip(&mut samples).filter(|(_, s)| s.is_none());
            for (member, sample) in open {
                match member.answers.try_recv() {
                    Ok(found) => *sample = Some(found),
                    Err(TryRecvError::Disconnected) => *sample = Some(Sample::default()),
                    Err(TryRecvError::Empty) => {}
                }
            }
        }
        samples.into_iter().flatten().collect()
    }

    fn order(&self, target: Duration) {
        let order = Order { start: Instant::now() + WAKING, target };
        for member in &self.members {
            // A thread that is gone is noticed by its answer.
            let _ = member.orders.as_ref().map(|orders| orders.send(order));
        }
    }
}

/// The figure of a [`Crew`]'s member: nanoseconds of processor time an operation.
pub fn nanos_of(member: usize) -> String {
    format!("nanos {member}")
}

impl Work for Crew<'_> {
    /// The sum of the operations, and the mean of the processor times and of the parts; of each
    /// member what [`nanos_of`] it names. It has a checksum when all of them have one, and is as
    /// quiet as the busiest.
    fn slice(&mut self, target: Duration) -> Sample {
        self.order(target);
        let samples: Vec<Sample> =
            self.members.iter().map(|m| m.answers.recv().unwrap_or_default()).collect();
        let mean = |of: fn(&Sample) -> Duration| {
            samples.iter().map(of).sum::<Duration>() / samples.len().max(1) as u32
        };
        let (time, spent) = (mean(|sample| sample.time), mean(|sample| sample.spent));
        // Not all have as many quiet pieces.
        let in_time = |sample: &Sample| {
            let share = time.as_secs_f64() / sample.time.as_secs_f64().max(1e-9);
            (sample.ops as f64 * share).round() as u64
        };
        let quiet = samples.iter().filter_map(|sample| sample.quiet);
        let nanos = |sample: &Sample| sample.time.as_nanos() as f64 / sample.ops.max(1) as f64;
        let figures = samples.iter().enumerate();
        let figures = figures.map(|(member, sample)| (nanos_of(member), nanos(sample)));
        Sample {
            figures: figures.collect(),
            ops: samples.iter().map(in_time).sum(),
            time,
            done: samples.iter().map(|sample| sample.done).sum(),
            spent,
            quiet: quiet.reduce(f64::min),
            checksum: samples.iter().all(|sample| sample.checksum.is_some()).then_some(0),
            parts: parts(&samples),
        }
    }
}

/// What each part took of an operation, whosever it was.
fn parts(samples: &[Sample]) -> Vec<(String, f64)> {
    let ops: u64 = samples.iter().map(|sample| sample.ops).sum();
    let mut parts = BTreeMap::<&String, f64>::new();
    for sample in samples {
        let share = sample.ops as f64 / ops.max(1) as f64;
        for (name, nanos) in &sample.parts {
            *parts.entry(name).or_default() += nanos * share;
        }
    }
    parts.into_iter().map(|(name, nanos)| (name.clone(), nanos)).collect()
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| member.orders = None);
        for thread in self.members.iter_mut().filter_map(|member| member.thread.take()) {
            // A panic has been printed by then; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

fn member(core: usize, maker: Maker<'_>, orders: &Receiver<Order>, answers: &Sender<Sample>) {
    clock::pin(core);
    let mut work = maker();
    for Order { start, target } in orders {
        while Instant::now() < start {
            std::hint::spin_loop();
        }
        if answers.send(work.slice(target)).is_err() {
            return;
        }
    }
}

/// In which all members have woken up.
const WAKING: Duration = Duration::from_micros(300);

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::slices::rounds;

    #[test]
    fn every_member_counts() {
        fn work<'s>() -> Maker<'s> {
            Box::new(|| {
                Box::new(rounds(1, 1, |_, _| {
                    std::hint::black_box((0..1000_u64).fold(1, |a, b| a ^ b));
                }))
            })
        }
        thread::scope(|scope| {
            let mut crew = Crew::new(scope, vec![work(), work()]);
            let sample = crew.slice(Duration::from_millis(2));
            assert!(sample.ops >= 2 && sample.spent >= Duration::from_millis(2));
            assert_eq!(sample.figures.len(), 2);
            assert_eq!(sample.figures[1].0, nanos_of(1));
            let mut calls = 0;
            let samples = crew.beside(Duration::from_millis(2), || calls += 1);
            assert!(calls > 0 && samples.iter().all(|sample| sample.ops > 0));
            assert_eq!(samples.len(), 2);
        });
    }

    #[test]
    fn a_member_without_work_leaves_no_checksum() {
        thread::scope(|scope| {
            let mut crew = Crew::new(scope, vec![Box::new(|| Box::new(None::<Crew<'_>>))]);
            assert_eq!(crew.slice(Duration::from_millis(1)).checksum, None);
        });
    }

    #[test]
    fn parts_are_means_by_operation() {
        let sample = |ops, parts: &[(&str, f64)]| {
            let parts = parts.iter().map(|(name, nanos)| (name.to_string(), *nanos)).collect();
            Sample { ops, parts, ..Sample::default() }
        };
        let samples = [sample(1, &[("a", 8.0), ("b", 4.0)]), sample(3, &[("a", 4.0)])];
        assert_eq!(parts(&samples), [("a".to_string(), 5.0), ("b".to_string(), 1.0)]);
        assert_eq!(parts(&[Sample::default()]), []);
    }
}
