//! The cores of this machine, one batch each: the paper's configuration without a device.
//!
//! ```text
//!   submit ──► queue ──► worker, a core ──► done ──► collect      batches leave as they are done
//!
//!   in place ──► the caller and threads of its own, each the next piece, until none is left
//! ```
//!
//! What lies in memory as a whole is answered where it lies: whoever feeds batches copies each address
//! and each hop, and is a core that looks up nothing.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use lookup::Addr;
use lookup::lpm::Lpm;
use lookup::sync::{Domain, Thread};

use crate::device::{Batch, Capabilities, Device, InPlace};
use crate::fault::{Fault, Stage};
use crate::image::Patch;
use crate::pieces::Pieces;
use crate::table::Table;

/// Threads that look up, each directly in the engine's table.
pub struct Threads<A: Addr> {
    capabilities: Capabilities,
    shared: Arc<Shared<A>>,
    done: Receiver<Done<A>>,
    workers: Vec<JoinHandle<()>>,
    table: Option<Version<A>>,
    under_way: usize,
    unanswered: Vec<Batch<A>>,
}

/// A table, and the domain in which its readers register.
type Version<A> = (Arc<dyn Lpm<A>>, Arc<Domain>);

/// A batch, and whether it was answered.
type Done<A> = (Batch<A>, bool);

struct Shared<A> {
    queue: Mutex<Queue<A>>,
    more: Condvar,
}

struct Queue<A> {
    jobs: VecDeque<(Batch<A>, Version<A>)>,
    closed: bool,
}

impl<A: Addr> Threads<A> {
    /// Starts `threads` threads, at least 1.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn start(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let queue = Queue { jobs: VecDeque::new(), closed: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), more: Condvar::new() });
        let (to, done) = channel();
        let name = format!("{threads} {}", if threads == 1 { "thread" } else { "threads" });
        let capabilities = Capabilities { kind: "threads", name, at_once: threads, memory: None };
        let mut device = Threads {
            capabilities,
            shared,
            done,
            workers: Vec::new(),
            table: None,
            under_way: 0,
            unanswered: Vec::new(),
        };
        for i in 0..threads {
            let (shared, to) = (device.shared.clone(), to.clone());
            let builder = thread::Builder::new().name(format!("lookup-{i}"));
            device.workers.push(builder.spawn(move || work(&shared, &to))?);
        }
        Ok(device)
    }

    fn lost(&self) -> Fault {
        panicked(&self.capabilities.name)
    }
}

fn panicked(device: &str) -> Fault {
    Fault::Lost { device: device.into(), stage: Stage::Run, why: "a lookup panicked".into() }
}

/// As many threads, at the table of one moment.
struct Here<A> {
    name: String,
    threads: usize,
    table: Arc<dyn Lpm<A>>,
    domain: Arc<Domain>,
}

impl<A: Addr> InPlace<A> for Here<A> {
    fn answer(&self, pieces: &Pieces<'_, A>, more: usize) -> Result<(), Fault> {
        let work = || {
            let registered = self.domain.register("lookup");
            while let Some((dsts, hops)) = pieces.back() {
                self.table.lookup_batch(dsts, hops);
            }
            drop(registered);
        };
        let answered = || catch_unwind(AssertUnwindSafe(work)).is_ok();
        let all = thread::scope(|scope| {
            let start = |i| {
                let builder = thread::Builder::new().name(format!("piece-{i}"));
                builder.spawn_scoped(scope, answered)
            };
            // Where the system starts no more, those that are there do the work.
            let count = (self.threads + more).min(pieces.pieces());
            let others: Vec<_> = (1..count).map_while(|i| start(i).ok()).collect();
            let mine = answered();
            others.into_iter().fold(mine, |all, other| other.join().unwrap_or(false) && all)
        });
        if all { Ok(()) } else { Err(panicked(&self.name)) }
    }
}

impl<A: Addr> Device<A> for Threads<A> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn batch(&mut self, addresses: usize) -> Result<Batch<A>, Fault> {
        Ok(Batch::new(addresses))
    }

    fn load(&mut self, table: &Table<A>) -> Result<(), Fault> {
        self.table = Some((table.lpm().clone(), table.domain().clone()));
        Ok(())
    }

    fn update(&mut self, table: &Table<A>, _: &Patch) -> Result<(), Fault> {
        self.load(table)
    }

    fn submit(&mut self, batch: Batch<A>) -> Result<(), Fault> {
        let Some(table) = self.table.clone() else {
            self.unanswered.push(batch);
            return Err(self.lost());
        };
        lock(&self.shared).jobs.push_back((batch, table));
        self.shared.more.notify_one();
        self.under_way += 1;
        Ok(())
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Batch<A>>, Fault> {
        if self.under_way == 0 {
            return Ok(None);
        }
        let done = if wait {
            self.done.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            self.done.try_recv()
        };
        match done {
            Ok((batch, true)) => {
                self.under_way -= 1;
                Ok(Some(batch))
            }
            Ok((batch, false)) => {
                self.under_way -= 1;
                self.unanswered.push(batch);
                Err(self.lost())
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.lost()),
        }
    }

    fn in_place(&self) -> Option<Box<dyn InPlace<A>>> {
        let Capabilities { name, at_once, .. } = &self.capabilities;
        let (table, domain) = self.table.clone()?;
        Some(Box::new(Here { name: name.clone(), threads: *at_once, table, domain }))
    }

    fn abandon(&mut self) -> Vec<Batch<A>> {
        let mut all = std::mem::take(&mut self.unanswered);
        let waiting = std::mem::take(&mut lock(&self.shared).jobs);
        self.under_way -= waiting.len();
        all.extend(waiting.into_iter().map(|(batch, _)| batch));
        for _ in 0..std::mem::take(&mut self.under_way) {
            all.extend(self.done.recv().map(|(batch, _)| batch));
        }
        all
    }
}

impl<A: Addr> Drop for Threads<A> {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared);
        queue.closed = true;
        queue.jobs.clear();
        drop(queue);
        self.shared.more.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // a worker returns panics as batches without answers
        }
    }
}

fn work<A: Addr>(shared: &Shared<A>, done: &Sender<Done<A>>) {
    let mut reader: Option<Thread> = None;
    while let Some((mut batch, (table, domain))) = next(shared) {
        let reader = match &mut reader {
            Some(reader) if Arc::ptr_eq(reader.domain(), &domain) => {
                reader.online();
                reader
            }
            other => other.insert(domain.register("lookup")),
        };
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let (dsts, hops) = batch.parts();
            table.lookup_batch(dsts, hops);
        }));
        reader.offline();
        drop((table, domain));
        if done.send((batch, answered.is_ok())).is_err() {
            return;
        }
    }
}

/// Waits for the next batch; `None` at the end.
fn next<A: Addr>(shared: &Shared<A>) -> Option<(Batch<A>, Version<A>)> {
    let mut queue = lock(shared);
    loop {
        match queue.jobs.pop_front() {
            Some(job) => return Some(job),
            None if queue.closed => return None,
            None => queue = shared.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// No thread panics while it holds the lock.
fn lock<A>(shared: &Shared<A>) -> MutexGuard<'_, Queue<A>> {
    shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
}
