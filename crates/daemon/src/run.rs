//! From a configuration to a running router, and back.
//!
//! ```text
//!  claim socket and namespace ─► devices ─► taps, addresses, protection ─► tables ─► workers
//!    ─► kernel thread ─► mirror ─► static routes ─► API ─► … ─► stop: the same backwards
//! ```
//!
//! A thread that dies ([`crate::threads`]) ends the run as a signal does, with an
//! error: what was changed is given back, the taps stay.

mod limit;
mod signals;

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use graph::Bell;
use lookup::sync::Domain;
use tables::{Control, FibConfig, Iface, Limits, PortId, Tags, VrfConfig};

use crate::answer::Answers;
use crate::app::{Begin, Running as App, Setup};
use crate::apps;
use crate::config::{self, Config, Fib, Mistakes, Text, VlanTags};
use crate::error::{Doing, Error};
use crate::instance::{Instance, Namespace};
use crate::kernel::Taps;
use crate::kernel::taps::{Rings, TapEnd};
use crate::monitor::Monitor;
use crate::notify::{Environment, Notifier};
use crate::parts::control::ControlThread;
use crate::parts::devices::{self, Port};
use crate::parts::kernel_side::{self, KernelSide, Remove};
use crate::parts::links::LinkThread;
use crate::parts::offline;
use crate::parts::starving::Starved;
use crate::parts::state::{State, Stop};
use crate::parts::workers::{Plan, Workers};
use crate::privileges::{self, Reduced};
use crate::server::Server;
use crate::threads::{Death, Threads};
pub use limit::DIED;

/// How to run, beside the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the configuration was read from.
    pub text: Text,
    /// Where the API listens.
    pub socket: PathBuf,
}

/// Runs a router until a signal or the API ends it.
///
/// # Errors
/// When something of it cannot be had; nothing is left behind then. When one of its
/// threads has died: the taps stay then.
pub fn run(config: Config, options: &Options) -> Result<(), Error> {
    devices::look(&config, &options.text)?;
    let instance = Instance::claim(&options.socket, &options.text.file)?;
    let _namespace = match config.is_offline() {
        true => None,
        false => Some(Namespace::claim(instance.socket())?),
    };
    let reduced = privileges::reduce(&config, apps::privileges(&config))?; // before the first thread
    let (stop, stopped) = mpsc::channel();
    let threads = Threads::default();
    signals::listen(stop.clone(), &threads, reduced)?;
    let running = Running::start(config, options, &instance, (stop, threads), reduced);
    let running = running.map_err(|error| error.placed(&options.text))?;
    let notifier = Notifier::new(&Environment::own());
    let serving = running.serve(&instance).map_err(|error| error.placed(&options.text));
    serving?.wait(&stopped, notifier, &instance)
}

/// Finds what a start refuses on this machine, beside the mistakes of the file itself:
/// what is in the way, and what is not there yet.
pub fn check(config: &Config, text: &Text) -> (Mistakes, Mistakes) {
    (Mistakes(devices::in_the_way(config, text)), Mistakes(devices::absent(config, text)))
}

/// Takes away what an instance that was killed has left.
///
/// # Errors
/// When an instance is running, or the kernel refuses.
pub fn cleanup(config: &Config, options: &Options) -> Result<(), Error> {
    let instance = Instance::claim(&options.socket, &options.text.file)?;
    if config.is_offline() {
        return Ok(());
    }
    let _namespace = Namespace::claim(instance.socket())?;
    kernel_side::cleanup(config, &instance.beside(RECORD))
}

/// All parts, in the order in which they stop.
struct Running {
    server: Option<Server>,
    state: Arc<State>,
    monitor: Monitor,
    /// `None` where there is no kernel.
    links: Option<LinkThread>,
    apps: Arc<Vec<Box<dyn App>>>,
    taps: Option<Taps>,
    threads: Threads,
    control: ControlThread,
    /// How long a stop after a death may last.
    limit: Duration,
}

impl Running {
    fn start(
        config: Config,
        options: &Options,
        instance: &Instance,
        (stop, threads): (mpsc::Sender<Stop>, Threads),
        reduced: Reduced,
    ) -> Result<Running, Error> {
        let mut ports = devices::open(&config)?;
        let kernel = match config.is_offline() {
            true => None,
            false => Some(Prepared::new(&config, &ports, instance)?),
        };
        let mut undo = Undo(kernel);
        let domain = Domain::new();
        let mut control = control(&config, &ports, &domain)?;
        match undo.0 {
            Some(_) => control.await_listing(),
            None => control.handle(&offline::events(&config, &ports)),
        }
        let forwarding = control.forwarding().clone();
        let setup =
            Setup { config: &config, forwarding: &forwarding, domain: &domain, threads: &threads };
        let mut apps = Started(apps::start(&setup)?);
        reduced.give_up(); // their threads have it
        apps.0.iter_mut().try_for_each(|app| {
            app.prepare(&mut control, undo.0.as_mut().map(|prepared| &mut prepared.side))
        })?;
        let kernel_bell = Bell::new().doing(|| "make the kernel thread's bell".into())?;
        let plan = Plan {
            config: &config,
            forwarding: &forwarding,
            domain: &domain,
            kernel: undo.0.is_some(),
            neighbours: undo.0.as_mut().and_then(|prepared| prepared.side.most_neighbours()),
            threads: &threads,
            kernel_bell: &kernel_bell,
            by_pair: &|port| apps::by_pair(&config, port),
        };
        let (workers, rings) = plan.start(&mut ports, &mut |worker, assembly| {
            apps.0.iter_mut().fold(assembly, |assembly, app| app.nodes(worker, assembly))
        })?;
        let control = ControlThread::start(control, &threads)?;
        if let Some(prepared) = &mut undo.0 {
            prepared.carry(&config, &ports, (rings, kernel_bell), &threads)?;
            prepared.side.room_for_tags(&ports);
        }
        let begin = Begin {
            config: &config,
            ports: &ports,
            forwarding: &forwarding,
            domain: &domain,
            control: control.handle(),
            kernel: undo.0.is_some(),
            threads: &threads,
        };
        apps.0.iter_mut().try_for_each(|app| app.begin(&begin))?;
        if let Some(prepared) = &mut undo.0 {
            prepared.side.static_entries(&config, true);
        }
        // Nothing fails any more between here and `serve`, which undoes all itself.
        let (kernel, taps) = match undo.0.take() {
            Some(prepared) => (Some(Mutex::new(prepared.side)), prepared.thread),
            None => (None, None),
        };
        let apps = Arc::new(std::mem::take(&mut apps.0));
        let state = Arc::new(State {
            text: options.text.clone(),
            socket: options.socket.display().to_string(),
            started: Instant::now(),
            workers: RwLock::new(Some(workers)),
            control: control.handle(),
            kernel,
            taps: taps.as_ref().map(Taps::counters),
            stop,
            watching: Mutex::new(()),
            stalled: Mutex::default(),
            starved: Mutex::new(vec![Starved::default(); config.workers.len()]),
            ports: Mutex::new(ports),
            config,
        });
        let (server, monitor) = (None, Monitor::new(state.clone(), apps.clone()));
        let limit = limit::USUAL;
        Ok(Running { server, state, monitor, links: None, apps, taps, threads, control, limit })
    }

    /// Answers at the API's socket; where it cannot, all is stopped again.
    fn serve(mut self, instance: &Instance) -> Result<Running, Error> {
        let answers = Answers { state: self.state.clone(), apps: self.apps.clone() };
        let ready = self.apps.iter().try_for_each(|app| app.ready(&self.state));
        let links = ready.and_then(|()| {
            let with_kernel = self.state.kernel.is_some().then(|| self.state.clone());
            with_kernel.map(|state| LinkThread::start(state, &self.threads)).transpose()
        });
        let server = links.and_then(|links| {
            self.links = links;
            let started = Server::start(instance.socket(), Arc::new(answers), &self.threads);
            started.doing(|| format!("listen at {}", instance.socket().display()))
        });
        match server {
            Ok(server) => self.server = Some(server),
            Err(error) => {
                let _ = self.stop(Remove::New); // the first error is the one to report
                return Err(error);
            }
        }
        tracing::info!(
            "rutter {} runs: {} ports, workers on cores {:?}, API at {}",
            env!("CARGO_PKG_VERSION"),
            self.state.config.ports.len(),
            self.state.config.workers,
            self.state.socket,
        );
        Ok(self)
    }

    /// Until it is stopped or a thread dies, which is seen within [`LOOK`].
    fn wait(
        mut self,
        stopped: &Receiver<Stop>,
        mut notifier: Notifier,
        instance: &Instance,
    ) -> Result<(), Error> {
        notifier.ready(&self.describe());
        let threads = self.threads.clone();
        let (death, remove) = loop {
            match stopped.recv_timeout(LOOK) {
                Ok(Stop { remove: true }) => break (threads.death(), Remove::All),
                Ok(Stop { remove: false }) => break (threads.death(), Remove::Nothing),
                Err(RecvTimeoutError::Timeout) => {}
                // The state keeps a sender: this cannot be.
                Err(RecvTimeoutError::Disconnected) => break (threads.death(), Remove::Nothing),
            }
            if let Some(death) = threads.death() {
                break (Some(death), Remove::Nothing);
            }
            threads.here("main", || self.monitor.look());
            notifier.alive(&self.monitor.silent(&threads));
        };
        let _limit = match death {
            Some(Death { thread, cause }) => {
                tracing::error!("the thread {thread} has died: stopping");
                notifier.stopping(&format!("the thread {thread}: {cause}"));
                limit::stop_within(self.limit, self.state.clone(), &threads)
            }
            None => {
                tracing::info!("stopping");
                notifier.stopping("stopping");
                None
            }
        };
        instance.stopping();
        let stopped = self.stop(remove);
        // The death is the error to report; also one that comes with the stop.
        threads.death().map_or(stopped, |death| Err(Error::Died { death }))
    }

    fn describe(&self) -> String {
        let config = &self.state.config;
        format!("ports: {}, workers on cores {:?}", config.ports.len(), config.workers)
    }

    /// Stops everything, and gives the kernel its settings back whatever happens
    /// to the rest.
    fn stop(self, remove: Remove) -> Result<(), Error> {
        let (state, threads) = (self.state.clone(), self.threads.clone());
        let done = threads.here("main", || self.stop_threads());
        // Panicked: the taps are closed, and the kernel keeps them.
        let (balanced, taps, _control) = done.unwrap_or_else(|| (Ok(()), Vec::new(), None));
        if let Some(kernel) = &state.kernel {
            let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
            kernel.restore(taps, remove);
        }
        tracing::info!("stopped");
        balanced
    }

    fn stop_threads(self) -> (Result<(), Error>, Vec<::io::tap::Tap>, Option<ControlThread>) {
        let Running { server, state, monitor, links, apps, taps, control, .. } = self;
        server.iter().for_each(Server::end_streams);
        drop((monitor, links));
        apps.iter().for_each(|app| app.end());
        let workers = state.workers.write().unwrap_or_else(PoisonError::into_inner).take();
        let balanced = workers.map_or(Ok(()), stop_workers);
        apps.iter().for_each(|app| app.finish());
        let taps = taps.map(Taps::stop).unwrap_or_default();
        let mut ports = state.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter_mut().for_each(|port| port.device.stop());
        ports.clear();
        drop(ports);
        drop(server);
        (balanced, taps, Some(control))
    }
}

/// What was changed in the kernel before everything else was there: undone
/// where the start fails.
struct Prepared {
    side: KernelSide,
    /// Empty once the thread has them.
    taps: Vec<::io::tap::Tap>,
    thread: Option<Taps>,
}

impl Prepared {
    fn new(config: &Config, ports: &[Port], instance: &Instance) -> Result<Prepared, Error> {
        let mut side = KernelSide::new(&instance.beside(RECORD))?;
        let taps = side.protect(ports).and_then(|()| side.taps(config, ports));
        match taps {
            Ok(taps) => Ok(Prepared { side, taps, thread: None }),
            Err(error) => {
                side.restore(Vec::new(), Remove::New);
                Err(error)
            }
        }
    }

    /// Starts the thread that carries frames between the taps and the workers.
    fn carry(
        &mut self,
        config: &Config,
        ports: &[Port],
        (rings, bell): (Vec<Rings>, Bell),
        threads: &Threads,
    ) -> Result<(), Error> {
        let ends = tap_ends(config, ports, std::mem::take(&mut self.taps));
        let thread =
            Taps::start(ends, rings, bell, threads).doing(|| "start the kernel thread".into())?;
        self.thread = Some(thread);
        Ok(())
    }
}

/// Applications whose threads end where the start fails.
struct Started(Vec<Box<dyn App>>);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.iter().for_each(|app| app.end());
    }
}

struct Undo(Option<Prepared>);

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(mut prepared) = self.0.take() {
            let taps = prepared.thread.map_or(prepared.taps, Taps::stop);
            prepared.side.restore(taps, Remove::New);
        }
    }
}

/// Stops the workers; what they counted has to balance.
fn stop_workers(workers: Workers) -> Result<(), Error> {
    let graphs = workers.stop()?;
    let mut missing = 0_u64;
    for graph in &graphs {
        let law = graph.stats().balance();
        missing += law.taken().abs_diff(law.given());
        tracing::info!(
            "worker-{}: {} packets in, {} transmitted, {} to the kernel, {} to other workers, \
             {} dropped, {} held",
            graph.worker(),
            law.taken(),
            law.transmitted,
            law.punted,
            law.handed_over,
            law.dropped,
            law.held,
        );
    }
    if missing == 0 { Ok(()) } else { Err(Error::Unaccounted { missing }) }
}

/// The tables with their VRFs and interfaces.
fn control(config: &Config, ports: &[Port], domain: &Arc<Domain>) -> Result<Control, Error> {
    let limits = Limits { neighbours: 2 * config.max_neighbours as usize, ..Limits::default() };
    let vrfs: Vec<VrfConfig> = config.vrfs.iter().map(vrf).collect();
    let main = vrfs.first().cloned().unwrap_or_default();
    let mut control = Control::new(domain, limits, &main)?;
    for vrf in vrfs.iter().skip(1) {
        control.add_vrf(vrf)?;
    }
    for (carrier, tags, interface) in config.interfaces() {
        let open = ports.iter().find(|open| open.config.name == carrier.port());
        control.add_iface(Iface {
            name: interface.name.clone(),
            port: PortId(config.number(carrier)),
            tags: match tags {
                None => Tags::None,
                Some(VlanTags::One(vlan)) => Tags::Dot1q(vlan),
                Some(VlanTags::Two(kind, outer, inner)) => Tags::QinQ(kind, outer, inner),
            },
            mac: open.map(|open| open.mac.0).unwrap_or_default(),
            mtu: interface.mtu,
            vrf: control.vrf_by_name(&interface.vrf).unwrap_or_default(),
            ..Iface::default()
        })?;
    }
    control.commit();
    Ok(control)
}

fn vrf(vrf: &config::Vrf) -> VrfConfig {
    let fib = |fib: &Fib| FibConfig {
        engine: Some(fib.engine.clone()),
        options: fib.options.clone(),
        max_routes: fib.max_routes.map_or(FibConfig::default().max_routes, |most| most as usize),
    };
    VrfConfig {
        name: vrf.name.clone(),
        table: vrf.table,
        source: match vrf.routes {
            config::Feed::Netlink => tables::event::Source::Kernel,
            config::Feed::Fpm => tables::event::Source::Fpm,
        },
        via_kernel: vrf.via_kernel,
        own_sources: vrf.own_sources,
        v4: fib(&vrf.ipv4),
        v6: fib(&vrf.ipv6),
    }
}

/// Each tap with its interface's number and the worker that has the port.
fn tap_ends(config: &Config, ports: &[Port], taps: Vec<::io::tap::Tap>) -> Vec<TapEnd> {
    let mut ends = Vec::new();
    for (((carrier, ..), iface), tap) in config.interfaces().zip(1..).zip(taps) {
        let open = ports.iter().find(|open| open.config.name == carrier.port());
        let worker = open.and_then(|open| open.workers.first()).copied().unwrap_or(0);
        ends.push(TapEnd { iface, tap, worker: worker.into() });
    }
    ends
}

/// Ending of the file with changed settings, beside the socket.
const RECORD: &str = "settings";
/// How often links and workers are looked at.
const LOOK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
