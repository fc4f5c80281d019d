//! Builds tables on a thread of their own, one after the other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::time::{Duration, Instant};

use lookup::lpm::{Engines, Entry, Lpm, Options, Refusal, Writer};
use lookup::rng::SplitMix64;
use lookup::sync::Domain;
use lookup::{Hop, Prefix, Rib};

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

    /// Looks up what the workers met lately, both ends of every prefix and one beside, an
    /// address inside it, and both ends of a block inside, where engines go a level down; as
    /// the workers do, in batches.
    fn compare(&self, table: &dyn Lpm<A>, forwarding: &Forwarding) -> Result<(), Refusal> {
        let recent = match Family::of_addr::<A>() {
            Family::V4 => forwarding.recent4.all(),
            Family::V6 => forwarding.recent6.all(),
        };
        let edges = self.rib.iter().flat_map(|(prefix, _)| {
            let (first, last) = (prefix.first(), prefix.last());
            [first, last, first.minus(1), last.plus(1)]
        });
        let mut rng = SplitMix64(1);
        let insides = self.rib.iter().flat_map(|(prefix, _)| {
            let mut inside = || prefix.first().or(A::from_u128(rng.wide()).and(prefix.host_mask()));
            let (one, other) = (inside(), inside());
            let more = rng.below(u64::from(A::WIDTH - prefix.len()) + 1);
            let block = Prefix::covering(other, prefix.len() + more as u8);
            [one, block.first(), block.last()]
        });
        let mut addresses = recent.into_iter().chain(edges).chain(insides).peekable();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Right, but for addresses that `is_wrong`.
    struct Liar<A: Engines> {
        rib: Rib<A>,
        is_wrong: fn(A) -> bool,
    }

    impl<A: Engines> Lpm<A> for Liar<A> {
        fn lookup(&self, dst: A) -> Hop {
            let hop = self.rib.lookup(dst).map(|(_, hop)| hop).unwrap_or_default();
            if (self.is_wrong)(dst) { Hop(9) } else { hop }
        }

        fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
            hops.iter_mut().zip(dsts).for_each(|(hop, dst)| *hop = self.lookup(*dst));
        }

        fn bytes(&self) -> usize {
            0
        }
    }

    fn refusal<A: Engines>(rib: &Rib<A>, is_wrong: fn(A) -> bool) -> Option<String> {
        let entry = A::engines()[0];
        let (options, domain) = (Options::default(), Domain::new());
        let forwarding = Forwarding::new(&domain);
        let job = Job { entry, options, rib: rib.clone(), domain, check: None };
        let liar = Liar { rib: rib.clone(), is_wrong };
        job.compare(&liar, &forwarding).err().map(|refusal| refusal.limit)
    }

    /// Errors that begin and end where no prefix does.
    #[test]
    fn errors_inside_prefixes_are_found() {
        let mut rib6 = Rib::new();
        for i in 0..2_000_u128 {
            let prefix = Prefix::covering(0x2001 << 112 | i << 80, 48);
            rib6.insert(prefix, Hop(1 + i as u32 % 7));
        }
        assert_eq!(refusal(&rib6, |_| false), None);
        let wrong = refusal(&rib6, |dst| dst >> 56 & 0xff == 0x5a).expect("it is wrong");
        assert!(wrong.contains("answers 9, not "), "{wrong}");
        let mut rib4 = Rib::new();
        for i in 0..2_000_u32 {
            rib4.insert(Prefix::covering(0x0a00_0000 | i << 12, 20), Hop(1 + i % 7));
        }
        assert_eq!(refusal(&rib4, |_| false), None);
        // The end of a block of 16 addresses inside.
        assert!(refusal(&rib4, |dst| dst & 0xfff == 0x7bf).is_some());
    }
}
