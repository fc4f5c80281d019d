//! Rings, graphs and threads of the workers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ::io::World;
use graph::ring::{frames, spsc};
use graph::{Bell, Graph, Stats, Worker, WorkerConfig, WorkerError};
use lookup::sync::Domain;
use nodes::assembly::{Assembly, Common};
use nodes::out::output::Remote;
use nodes::out::worker_input::Incoming;
use nodes::parse::owner::Owners;
use nodes::{IfaceCounters, Rates};
use rustix::thread::gettid;
use tables::Forwarding;
use wire::flow::Hasher;

use super::dealing::Dealing;
use super::devices::Port;
use crate::config::{self, Config, Idle};
use crate::error::{Doing, Error};
use crate::kernel::taps::Rings;
use crate::threads::Threads;

/// The running workers, and what they share with control.
pub struct Workers {
    /// By number.
    pub threads: Vec<Worker>,
    /// The core of each.
    pub cores: Vec<u16>,
    /// The system's number of each one's thread.
    pub tasks: Vec<u32>,
    /// Counters per interface of each.
    pub counters: Vec<Arc<IfaceCounters>>,
    /// Counters of nodes of each.
    pub stats: Vec<Arc<Stats>>,
    domain: Arc<Domain>,
}

/// The parts from which workers are made.
pub struct Plan<'p> {
    /// The configuration.
    pub config: &'p Config,
    /// The tables.
    pub forwarding: &'p Arc<Forwarding>,
    /// Where they register.
    pub domain: &'p Arc<Domain>,
    /// False: nothing is punted.
    pub kernel: bool,
    /// How many neighbours the kernel holds, where that is known.
    pub neighbours: Option<u32>,
    /// Where their threads are started.
    pub threads: &'p Threads,
    /// The kernel thread's.
    pub kernel_bell: &'p Bell,
    /// Whether each pair of what a port receives must meet one worker.
    pub by_pair: &'p dyn Fn(&config::Port) -> bool,
}

impl Plan<'_> {
    /// Starts devices and workers, whose nodes `add` adds, by worker. The rings are the
    /// kernel thread's ends, by worker.
    ///
    /// # Errors
    /// When a device does not start, the nodes do not fit together, or a worker's core is
    /// not there.
    pub fn start(
        &self,
        ports: &mut [Port],
        add: &mut dyn FnMut(usize, Assembly) -> Assembly,
    ) -> Result<(Workers, Vec<Rings>), Error> {
        let count = self.config.workers.len();
        let bells: Result<Vec<Bell>, _> = (0..count).map(|_| Bell::new()).collect();
        let bells = bells.doing(|| "make the workers' bells".into())?;
        let hasher = Hasher::new(RandomState::new().hash_one("flow"));
        let owners = self.owners(ports);
        let dealing = Dealing {
            bells: &bells,
            buffers: self.config.buffers as usize,
            hasher: self.config.spread.then_some(hasher),
            owners: owners.clone(),
            by_pair: self.by_pair,
        };
        let (mut queues, away) = dealing.start(ports)?;
        let mesh = mesh(&away, &queues.worlds, &bells);
        let mut workers = Workers {
            threads: Vec::new(),
            cores: self.config.workers.clone(),
            tasks: Vec::new(),
            counters: (0..count).map(|_| IfaceCounters::new()).collect(),
            stats: Vec::new(),
            domain: self.domain.clone(),
        };
        let mut rings = Vec::new();
        let mut graphs = Vec::new();
        for (worker, (remotes, from_workers)) in mesh.into_iter().enumerate() {
            let (to_kernel, from_worker) = frames::ring(RING);
            let to_kernel = to_kernel.to_sleeper(self.kernel_bell.clone());
            let (to_worker, from_kernel) = frames::ring(RING);
            rings.push(Rings { from_worker, to_worker, bell: bells[worker].clone() });
            let common = Common {
                forwarding: self.forwarding.clone(),
                counters: workers.counters[worker].clone(),
                hasher,
                rates: self.rates(count),
                to_kernel,
                from_kernel,
                ports: ports.len() as u16,
                remotes,
                from_workers,
            };
            let mut graph =
                add(worker, Assembly::new(common).owned(owners.clone())).finish().build(worker)?;
            for (number, port) in queues.by_worker[worker].drain(..) {
                graph.ports().set(number, port);
            }
            workers.stats.push(graph.stats().clone());
            graphs.push(graph);
        }
        for ((number, graph), bell) in graphs.into_iter().enumerate().zip(bells) {
            let (worker, task) = self.worker(number, graph, bell)?;
            workers.threads.push(worker);
            workers.tasks.push(task);
        }
        Ok((workers, rings))
    }

    fn worker(&self, number: usize, graph: Graph, bell: Bell) -> Result<(Worker, u32), Error> {
        let idle = match self.config.idle {
            Idle::Adaptive => graph::Idle::Adaptive,
            Idle::Poll => graph::Idle::Poll,
        };
        let core = Some(usize::from(self.config.workers[number]));
        let config = WorkerConfig { name: format!("worker-{number}"), number, core, idle, bell };
        let task = Arc::new(AtomicU32::new(0));
        let own = task.clone();
        let spawn = |name: String, work: graph::Work| {
            let work = move || {
                own.store(gettid().as_raw_nonzero().get() as u32, Relaxed);
                work()
            };
            self.threads.fatal(&name, work)
        };
        let worker = Worker::start_on(config, self.domain, graph, spawn);
        let worker = worker.map_err(|error| match error {
            WorkerError::Pin { .. } => Error::asked(&["workers", &number.to_string()], error),
            error => error.into(),
        })?;
        Ok((worker, task.load(Relaxed))) // the worker has reported that it runs
    }

    /// `None` where nobody asks for it, and a pair may meet several.
    fn owners(&self, ports: &[Port]) -> Option<Arc<Owners>> {
        let workers = self.config.workers.len() as u16;
        let wanted = workers == 1 || ports.iter().any(|port| (self.by_pair)(&port.config));
        wanted.then(|| Arc::new(Owners::new(RandomState::new().hash_one("pair"), workers)))
    }

    /// Rates of the whole router, shared by its workers.
    fn rates(&self, workers: usize) -> Rates {
        let rates = if self.kernel { self.config.punt } else { Rates::NONE };
        let rates = self.neighbours.map_or(rates, |most| rates.with_room_for(most));
        rates.shared_by(workers as u32)
    }
}

type Handovers = (Vec<Remote>, Vec<Incoming>);

/// The rings from each worker to those that have ports which it has not.
fn mesh(away: &[Vec<(u16, usize)>], worlds: &[World], bells: &[Bell]) -> Vec<Handovers> {
    let workers = bells.len();
    let mut mesh: Vec<Handovers> = (0..workers).map(|_| Handovers::default()).collect();
    let two_worlds = worlds.iter().any(|world| *world != worlds[0]);
    for (from, ports) in away.iter().enumerate() {
        for to in 0..workers {
            let theirs = ports.iter().filter(|(_, worker)| *worker == to);
            let theirs: Vec<_> =
                theirs.map(|(port, _)| (*port, worlds[usize::from(*port)])).collect();
            if theirs.is_empty() {
                continue;
            }
            let (ring, packets) = spsc::ring(HANDED);
            let (copies, copied) = if two_worlds {
                let (copies, copied) = frames::ring(COPIES);
                (Some(copies), Some(copied))
            } else {
                (None, None)
            };
            let bell = Some(bells[to].clone());
            mesh[from].0.push(Remote { ring, copies, ports: theirs, bell });
            mesh[to].1.push(Incoming { ring: packets, copies: copied });
        }
    }
    mesh
}

impl Workers {
    /// Stops all of them, works off what they have handed each other, and
    /// returns their graphs. Also beside one that panicked the others' packets go
    /// where they were going.
    ///
    /// # Errors
    /// When one had panicked.
    pub fn stop(mut self) -> Result<Vec<Graph>, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Vec<Graph>, Error> {
        let stopped: Vec<_> = self.threads.drain(..).map(Worker::stop).collect();
        let (mut graphs, mut gone) = (Vec::new(), None);
        for stopped in stopped {
            match stopped {
                Ok(graph) => graphs.push(graph),
                Err(error) => gone = Some(error),
            }
        }
        let mut thread = self.domain.register("stop");
        while graphs.iter_mut().map(|graph| graph.drain(thread.guard())).sum::<usize>() > 0 {
            thread.quiesce();
        }
        gone.map_or(Ok(graphs), |error| Err(error.into()))
    }
}

impl Drop for Workers {
    /// A start that fails behind them leaves no packet where it waits.
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            let _ = self.end(); // the first error is the one to report
        }
    }
}

/// Bytes of each ring between a worker and the kernel thread.
const RING: usize = 2 << 20;
/// Bytes of each ring of copies between two workers.
const COPIES: usize = 1 << 20;
/// Packets of each ring between two workers.
const HANDED: usize = 2048;
