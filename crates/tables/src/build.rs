//! Builds tables on a thread of their own, one after the other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::time::{Duration, Instant};

use lookup::Rib;
use lookup::lpm::{Engines, Entry, Lpm, Options, Refusal, Writer};
use lookup::sync::Domain;

/// The thread; it ends when this is dropped and its last job done.
pub(crate) struct Builder {
    jobs: Option<Sender<Work>>,
}

type Work = Box<dyn FnOnce() + Send>;

/// A table to be built from a copy of the routes.
pub(crate) struct Job<A: Engines> {
    pub(crate) entry: Entry<A>,
    pub(crate) options: Options,
    pub(crate) rib: Rib<A>,
    pub(crate) domain: Arc<Domain>,
    /// Compare answers with those of the routes before it is used.
    pub(crate) check: bool,
}

/// A table that was built.
pub(crate) struct Built<A: Engines> {
    pub(crate) writer: Box<dyn Writer<A>>,
    pub(crate) took: Duration,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { jobs: None }
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
        if self.check {
            self.compare(&*writer.table())?;
        }
        Ok(Built { writer, took })
    }

    /// Looks up both ends of a sample of the prefixes, and one beside.
    fn compare(&self, table: &dyn Lpm<A>) -> Result<(), Refusal> {
        let step = (self.rib.len() / SAMPLE).max(1);
        for (prefix, _) in self.rib.iter().step_by(step) {
            let (first, last) = (prefix.first(), prefix.last());
            for addr in [first, last, first.minus(1), last.plus(1)] {
                let want = self.rib.lookup(addr).map(|(_, hop)| hop).unwrap_or_default();
                let got = table.lookup(addr);
                if got != want {
                    let limit = format!("{} answers {}, not {}", addr.to_ip(), got.0, want.0);
                    return Err(Refusal { engine: self.entry.card.name, limit });
                }
            }
        }
        Ok(())
    }
}

/// Prefixes that are compared: a wrong engine is wrong in more than one of these.
const SAMPLE: usize = 20_000;
