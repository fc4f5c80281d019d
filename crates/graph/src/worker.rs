//! Workers: a thread each, pinned to a core, that polls its graph.
//!
//! ```text
//!  control                          worker
//!    call(f) ──► commands, bell ────► between polls: f(&mut graph)
//!    status() ◄── counters ◄──────── poll, quiesce; poll, quiesce; …
//!                                     1 ms in which no packet came: lie down, poll, offline, sleep (`nap`), online
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lookup::sync::{Domain, Guard, Thread};

use crate::bell::{Bell, wanted};
use crate::clock;
use crate::graph::{Graph, NodeError};
use crate::jobs::{self, Job, Jobs, Message, Parts, Running};
use crate::nap::{NAP, nap};
use crate::node::Node;
use crate::stats::Counter;

/// What a worker is to be like.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The name of its thread and in messages: `worker-1`.
    pub name: String,
    /// Its number, as the ports know it.
    pub number: usize,
    /// The core that it is pinned to; `None`: wherever the kernel puts it.
    pub core: Option<usize>,
    /// What it does while no packets come.
    pub idle: Idle,
    /// Wakes it: whoever fills a ring of its sources rings it.
    pub bell: Bell,
}

/// What a worker does while no packets come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Idle {
    /// Polls on: shortest delay, and the core is busy for ever.
    Poll,
    /// After 1 ms sleeps until a packet comes, a node's tick is due, or a call wakes it;
    /// for 50 µs at a time where a port has to be polled ([`Port::wakes`](io::Port::wakes)).
    #[default]
    Adaptive,
}

/// A running worker, in control's hands. Dropping it stops it.
pub struct Worker {
    name: String,
    commands: mpsc::Sender<Command>,
    /// Jobs that have ended, to be freed by control.
    ended: Mutex<mpsc::Receiver<Box<dyn Running>>>,
    shared: Arc<Shared>,
    bell: Bell,
    thread: Option<JoinHandle<Graph>>,
}

type Command = Box<dyn FnOnce(&mut Graph, &mut Jobs, Guard<'_>) + Send>;

/// What a worker's thread does, to the end.
pub type Work = Box<dyn FnOnce() -> Graph + Send>;

#[derive(Default)]
struct Shared {
    /// Set after a command was sent, so that the loop reads one flag and no queue.
    called: AtomicBool,
    stop: AtomicBool,
    polls: Counter,
    busy: Counter,
    started: Counter,
    seen: Counter,
}

/// What a worker does, at one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// Polls since it started: they stop when the worker does.
    pub polls: u64,
    /// Ticks spent in polls that found packets.
    pub busy_ticks: u64,
    /// Ticks since it started.
    pub ticks: u64,
    /// Ticks since its last poll, or since it last woke.
    pub silent_ticks: u64,
    /// Sleeps for lack of packets.
    pub asleep: bool,
}

impl Status {
    /// The share of its time that it worked on packets, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.busy_ticks as f64 / self.ticks.max(1) as f64
    }

    /// Whether it does not come by any more. One that sleeps holds nobody up, and a
    /// busy machine wakes it late, so it is given longer.
    pub fn is_stalled(&self) -> bool {
        let most = if self.asleep { SILENCE_ASLEEP } else { SILENCE };
        self.silent_ticks > clock::ticks(most)
    }
}

impl Worker {
    /// Starts a worker on `graph`: its thread is pinned, registered with
    /// `domain`, and attached to the graph's ports.
    ///
    /// # Errors
    /// When the thread cannot be made or pinned.
    pub fn start(
        config: WorkerConfig,
        domain: &Arc<Domain>,
        graph: Graph,
    ) -> Result<Worker, WorkerError> {
        let builder = std::thread::Builder::new();
        Worker::start_on(config, domain, graph, |name, work| builder.name(name).spawn(work))
    }

    /// The same on a thread that `spawn` makes, given its name and work: who does
    /// that can watch over it. A panic must come through to whoever joins.
    ///
    /// # Errors
    /// As of [`Worker::start`].
    pub fn start_on(
        config: WorkerConfig,
        domain: &Arc<Domain>,
        graph: Graph,
        spawn: impl FnOnce(String, Work) -> std::io::Result<JoinHandle<Graph>>,
    ) -> Result<Worker, WorkerError> {
        clock::hz(); // measured here, not in the loop
        let (commands, queue) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let (jobs, ended) = Jobs::new();
        let shared = Arc::new(Shared::default());
        shared.seen.set(clock::now()); // before there is a thread that writes it
        let (name, domain) = (config.name.clone(), domain.clone());
        let bell = config.bell.clone();
        let mut running = Loop {
            graph,
            jobs,
            queue,
            shared: shared.clone(),
            idle: config.idle,
            bell: config.bell,
            files: Vec::new(),
        };
        let work = move || {
            let pinned = config.core.map_or(Ok(()), |core| pin(&config.name, core));
            let go = pinned.is_ok();
            // Control waits for this; if it is gone, the stop flag is set.
            let _ = ready.send(pinned);
            if go {
                let mut thread = domain.register(config.name);
                running.attach(config.number);
                running.run(&mut thread);
            }
            running.graph
        };
        let refused = |source| WorkerError::Thread { worker: name.clone(), source };
        let thread = spawn(name.clone(), Box::new(work)).map_err(refused)?;
        started.recv().map_err(|_| WorkerError::Gone { worker: name.clone() })??;
        let ended = Mutex::new(ended);
        Ok(Worker { name, commands, ended, shared, bell, thread: Some(thread) })
    }

    /// Runs `f` on the worker's thread between two polls, when it holds no
    /// packet and no reference into a table, and waits for the answer.
    ///
    /// # Errors
    /// When the worker's thread has ended.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, WorkerError> {
        self.command(move |graph, _, _| f(graph))
    }

    /// Starts a job on the graph's node of type `N`: a bounded step a poll, its parts
    /// one by one from [`Answers`]; whoever drops those cancels it. A job ends where its
    /// graph is replaced.
    ///
    /// # Errors
    /// When the worker's thread has ended.
    pub fn start_job<N: Node + 'static, J: Job<N>>(
        &self,
        job: J,
    ) -> Result<Answers<J::Part>, WorkerError> {
        let (job, parts) = jobs::started::<N, J>(job);
        self.command(move |_, jobs, _| jobs.add(job))?;
        let (shared, bell) = (self.shared.clone(), self.bell.clone());
        Ok(Answers { parts: Some(parts), shared, bell, worker: self.name.clone() })
    }

    fn command<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Graph, &mut Jobs, Guard<'_>) -> R + Send + 'static,
    ) -> Result<R, WorkerError> {
        let (answer, answered) = mpsc::channel();
        // A panicking holder left nothing half done: the jobs are freed or not yet.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).try_iter().for_each(drop);
        let command = Box::new(move |graph: &mut Graph, jobs: &mut Jobs, guard: Guard<'_>| {
            // Control waits for it; a failure means that it is gone.
            let _ = answer.send(f(graph, jobs, guard));
        });
        let gone = || WorkerError::Gone { worker: self.name.clone() };
        self.commands.send(command).map_err(|_| gone())?;
        self.shared.called.store(true, Ordering::Release);
        self.bell.ring();
        answered.recv().map_err(|_| gone())
    }

    /// Replaces the graph. Ports that `graph` has not got move over to it; new
    /// ones are attached; counters go on from the old ones. A node takes over
    /// from the one of its name and type ([`Node::take_over`](crate::Node::take_over));
    /// what is kept after that is dropped by name. Returns the old graph, to be dropped
    /// here.
    ///
    /// # Errors
    /// When the worker's thread has ended.
    pub fn swap(&self, mut graph: Graph) -> Result<Graph, WorkerError> {
        self.command(move |now, jobs, guard| {
            jobs.end();
            let worker = now.worker();
            graph.ports().iter_mut().for_each(|(_, port)| port.attach(worker));
            graph.succeed(now, guard);
            std::mem::replace(now, graph)
        })
    }

    /// What it does now.
    pub fn status(&self) -> Status {
        let (now, shared) = (clock::now(), &self.shared);
        let asleep = self.bell.is_asleep();
        Status {
            polls: shared.polls.get(),
            busy_ticks: shared.busy.get(),
            ticks: now.saturating_sub(shared.started.get()),
            silent_ticks: now.saturating_sub(shared.seen.get()),
            asleep,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops it after what is on the way has been worked off, and returns its
    /// graph with ports and counters.
    ///
    /// # Errors
    /// When the worker's thread had panicked.
    pub fn stop(mut self) -> Result<Graph, WorkerError> {
        self.shared.stop.store(true, Ordering::Release);
        self.bell.ring();
        let thread = self.thread.take().expect("stopped once: stop takes the worker");
        thread.join().map_err(|_| WorkerError::Gone { worker: self.name.clone() })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was printed when it happened
        }
    }
}

/// The parts of a job's answer. Dropped before the last, it cancels the job.
pub struct Answers<P> {
    /// `None` after the last.
    parts: Option<Parts<P>>,
    shared: Arc<Shared>,
    bell: Bell,
    worker: String,
}

impl<P> Answers<P> {
    /// Waits for the next part; `None` after the last.
    ///
    /// # Errors
    /// When there is no such node, or the graph was replaced or the worker stopped.
    pub fn next_part(&mut self) -> Result<Option<P>, WorkerError> {
        let Some(parts) = &self.parts else { return Ok(None) };
        let worker = || self.worker.clone();
        let closed = |_| match parts.replaced.load(Ordering::Acquire) {
            true => WorkerError::Replaced { worker: worker() },
            false => WorkerError::Gone { worker: worker() },
        };
        let message = parts.messages.recv().map_err(closed)?;
        self.wake(); // there is room for one part more
        match message {
            Message::Part(part) => Ok(Some(part)),
            Message::Failed(source) => Err(WorkerError::Node { worker: worker(), source }),
            Message::Last(part) => {
                self.parts = None;
                Ok(Some(part))
            }
        }
    }

    /// All parts that are still to come.
    ///
    /// # Errors
    /// As [`Answers::next_part`].
    pub fn all(mut self) -> Result<Vec<P>, WorkerError> {
        std::iter::from_fn(|| self.next_part().transpose()).collect()
    }

    fn wake(&self) {
        self.shared.called.store(true, Ordering::Release);
        self.bell.ring();
    }
}

impl<P> Drop for Answers<P> {
    fn drop(&mut self) {
        self.parts = None;
        self.wake(); // a job that waited finds out
    }
}

struct Loop {
    graph: Graph,
    jobs: Jobs,
    queue: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
    idle: Idle,
    bell: Bell,
    /// What it sleeps on: kept, so that none is allocated.
    files: Vec<libc::pollfd>,
}

impl Loop {
    fn attach(&mut self, worker: usize) {
        self.graph.ports().iter_mut().for_each(|(_, port)| port.attach(worker));
    }

    fn run(&mut self, thread: &mut Thread) {
        let mut patience = clock::ticks(PATIENCE);
        let (mut last_packet, mut rests) = (clock::now(), false);
        self.shared.started.set(last_packet);
        while !self.shared.stop.load(Ordering::Relaxed) {
            if self.shared.called.load(Ordering::Relaxed) {
                self.obey(thread.guard());
            }
            let start = clock::now();
            let packets = self.graph.poll(thread.guard());
            thread.quiesce();
            self.shared.polls.add(1);
            self.shared.seen.set(start);
            if packets > 0 {
                let end = clock::now();
                self.shared.busy.add(end.wrapping_sub(start));
                if self.graph.came() > 0 {
                    last_packet = end;
                }
                if std::mem::take(&mut rests) {
                    self.bell.get_up();
                }
            } else if self.idle == Idle::Adaptive && start.wrapping_sub(last_packet) > patience {
                // Lying down it polls once more: a giver before that could not see it.
                if self.bell.is_asleep() {
                    self.sleep(thread);
                    patience = clock::ticks(PATIENCE); // the rate may be known better by now
                }
                self.bell.lie_down();
                rests = true;
            }
        }
        self.bell.get_up();
        self.obey(thread.guard());
        while self.graph.drain(thread.guard()) > 0 {
            thread.quiesce();
        }
        let law = self.graph.stats().balance();
        debug_assert!(law.holds(), "packets unaccounted for: {law:?}");
    }

    #[cold]
    fn obey(&mut self, guard: Guard<'_>) {
        // Acquire: a flag seen means that its command is in the queue; one sent
        // after this store sets the flag again.
        self.shared.called.swap(false, Ordering::AcqRel);
        while let Ok(command) = self.queue.try_recv() {
            command(&mut self.graph, &mut self.jobs, guard);
        }
        if self.jobs.step(&mut self.graph) {
            // Its own reminder; acquires, too, so that a command's flag is not written over.
            self.shared.called.swap(true, Ordering::AcqRel);
        }
    }

    #[cold]
    fn sleep(&mut self, thread: &mut Thread) {
        if self.shared.called.load(Ordering::Relaxed) {
            return; // a job goes on
        }
        let must_poll = self.graph.must_poll();
        let Some(nap) = nap(clock::now(), self.graph.due(), must_poll) else { return };
        self.files.clear();
        for (_, port) in self.graph.ports().iter_mut() {
            port.idle();
            self.files.extend(port.wakes().map(wanted));
        }
        thread.offline();
        // A call or a gift that comes from here on has rung, and this returns at once.
        if !self.bell.sleep(&mut self.files, nap) {
            std::thread::sleep(nap.min(NAP)); // a device that is gone: no reason to spin
        }
        self.bell.get_up();
        thread.online();
        self.shared.seen.set(clock::now());
    }
}

/// Ties the calling thread to a core.
fn pin(worker: &str, core: usize) -> Result<(), WorkerError> {
    let refused = |source| WorkerError::Pin { worker: worker.to_owned(), core, source };
    if core >= libc::CPU_SETSIZE as usize {
        return Err(refused(std::io::ErrorKind::InvalidInput.into()));
    }
    // SAFETY: a set of cores is plain bits; all zero is the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `core` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: 0 is the calling thread; the set is as large as it says.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if answer == 0 { Ok(()) } else { Err(refused(std::io::Error::last_os_error())) }
}

/// No packet for so long, and an adaptive worker sleeps.
const PATIENCE: Duration = Duration::from_millis(1);

/// A worker that has not come by for so long is stalled.
const SILENCE: Duration = Duration::from_millis(100);
/// Likewise, of one that sleeps for up to half a second at a time.
const SILENCE_ASLEEP: Duration = Duration::from_millis(1_400);

/// Why a worker does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The system gives no thread.
    #[error("{worker}: no thread: {source}")]
    Thread {
        /// Which.
        worker: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The core is not there, or not allowed.
    #[error("{worker}: cannot be pinned to core {core}: {source}")]
    Pin {
        /// Which.
        worker: String,
        /// The core.
        core: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A job's node is not there.
    #[error("{worker}: {source}")]
    Node {
        /// Which.
        worker: String,
        /// Why.
        source: NodeError,
    },
    /// The graph that a job worked on was replaced.
    #[error("{worker}: the graph was replaced before the work was done")]
    Replaced {
        /// Which.
        worker: String,
    },
    /// The thread has ended.
    #[error("{worker} has ended")]
    Gone {
        /// Which.
        worker: String,
    },
}
