//! Builds tables on a thread of their own, one after the other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::time::{Duration, Instant};

use lookup::lpm::{Engines, Entry, Lpm, Options, Refusal, Writer};
use lookup::sync::Domain;
use lookup::{Hop, Rib};

use crate::{Family, Forwarding};

/// The thread; it ends when this is dropped and its last job done.
pub(crate) struct Builder {
    jobs: Option<Sender<Work>>,
    forwarding: Arc<Forwarding>,
}

type Work = Box<dyn FnOnce() + Send>;

/// A table to be built from a copy of the routes.
pub(crate) struct Job<A: Engines> {
    pub(crate) entry: Entry<A>,
    pub(crate) options: Options,
    pub(crate) rib: Rib<A>,
    pub(crate) domain: Arc<Domain>,
    /// Compare answers with those of the routes before it is used, also for what
    /// the workers have met lately.
    pub(crate) check: Option<Arc<Forwarding>>,
}

/// A table that was built.
pub(crate) struct Built<A: Engines> {
    pub(crate) writer: Box<dyn Writer<A>>,
    pub(crate) took: Duration,
}

impl Builder {
    pub(crate) fn new(forwarding: Arc<Forwarding>) -> Builder {
        Builder { jobs: None, forwarding }
    }

    /// What the workers read and note.
    pub(crate) fn forwarding(&self) -> Arc<Forwarding> {
        self.forwarding.clone()
    }

    /// Starts a build. The receiver is disconnected when the build panicked or no
    /// thread could be made.
    pub(crate) fn start<A: Engines>(&mut self, job: Job<A>) -> Receiver<Result<Built<A>, Refusal>> {
        let (sender, receiver) = channel();
        // Where the receiver is gone, nobody wants the table any more.
        let work: Work = Box::new(move || drop(sender.send(job.run())));
        let refused = match &self.jobs {
            Some(jobs) => jobs.send(work).err(),
            None => Some(SendError(work)),
        };
        // The first job, or the thread died with the last one.
        if let Some(SendError(work)) = refused {
            let (jobs, queue) = channel::<Work>();
            let run = move || queue.into_iter().for_each(|work| work());
            let thread = std::thread::Builder::new().name("fib-build".into()).spawn(run);
            self.jobs = thread.is_ok().then_some(jobs);
            if let Some(jobs) = &self.jobs {
                drop(jobs.send(work));
            }
        }
        receiver
    }
}

impl<A: Engines> Job<A> {
    /// Builds here and now.
    pub(crate) fn run(self) -> Result<Built<A>, Refusal> {
        let start = Instant::now();
        let writer = (self.entry.build)(&self.rib, &self.options, &self.domain)?;
        let took = start.elapsed();
        if let Some(forwarding) = &self.check {
            let table = writer.table();
            self.compare(&*table, forwarding)?;
            table.reset_counters(); // what it counts from here on is traffic
        }
        Ok(Built { writer, took })
    }

    /// Looks up what the workers met lately, and both ends of every prefix and one
    /// beside; as the workers do, in batches.
    fn compare(&self, table: &dyn Lpm<A>, forwarding: &Forwarding) -> Result<(), Refusal> {
        let recent = match Family::of_addr::<A>() {
            Family::V4 => forwarding.recent4.all(),
            Family::V6 => forwarding.recent6.all(),
        };
        let edges = self.rib.iter().flat_map(|(prefix, _)| {
            let (first, last) = (prefix.first(), prefix.last());
            [first, last, first.minus(1), last.plus(1)]
        });
        let mut addresses = recent.into_iter().chain(edges).peekable();
        let (mut batch, mut hops) = (Vec::with_capacity(BATCH), vec![Hop::NONE; BATCH]);
        while addresses.peek().is_some() {
            batch.clear();
            batch.extend(addresses.by_ref().take(BATCH));
            table.lookup_batch(&batch, &mut hops[..batch.len()]);
            for (&address, &got) in batch.iter().zip(&hops) {
                let want = self.rib.lookup(address).map(|(_, hop)| hop).unwrap_or_default();
                if got != want {
                    let limit = format!("{} answers {}, not {}", address.to_ip(), got.0, want.0);
                    return Err(Refusal { engine: self.entry.card.name, limit });
                }
            }
        }
        Ok(())
    }
}

/// Addresses of a batch: a vector of the workers.
const BATCH: usize = 256;
