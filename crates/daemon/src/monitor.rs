//! Looks now and then: do the workers come by, are the links up, are neighbours
//! in use resolved?

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use feeds::netlink::Keeper;
use graph::clock;
use tables::event::{Event, Link, LinkId};

use crate::app::Running;
use crate::config::{Carrier, Interface};
use crate::kernel::Changes;
use crate::kernel::changes::Lost;
use crate::parts::peers::Known;
use crate::parts::starving::Watch;
use crate::parts::state::{State, lock};
use crate::threads::Threads;

/// The state at the last check.
pub struct Monitor {
    state: Arc<State>,
    apps: Arc<Vec<Box<dyn Running>>>,
    /// Of ports.
    links: HashMap<String, bool>,
    /// Of interfaces.
    carriers: HashMap<String, bool>,
    /// Events of the taps; `None` where there are no taps.
    changes: Option<Changes>,
    /// Opened when it is first needed: there may be no kernel.
    keeper: Option<Keeper>,
    peers: Known,
    next_neighbours: Instant,
    next_use: Instant,
    /// Threads that did not go round at the last look.
    stuck: Vec<&'static str>,
    /// Refusals that were logged, by limit, and when the next may be.
    refused: HashMap<String, u64>,
    next_refusals: Instant,
    /// Workers by number; each with the time when it was last reported as starved.
    watches: Vec<(Watch, Option<Instant>)>,
}

impl Monitor {
    /// Has seen nothing yet.
    pub fn new(state: Arc<State>, apps: Arc<Vec<Box<dyn Running>>>) -> Monitor {
        let now = Instant::now();
        let changes = state.kernel.as_ref().and_then(|_| {
            let opened = Changes::open();
            opened
                .inspect_err(|error| tracing::warn!("changes of taps are not followed: {error}"))
                .ok()
        });
        let watches = {
            let workers = state.workers();
            let tasks = workers.iter().flat_map(|workers| &workers.tasks);
            tasks.map(|task| (Watch::new(*task), None)).collect()
        };
        Monitor {
            watches,
            peers: Known::new(&state.config.peers),
            state,
            apps,
            links: HashMap::new(),
            carriers: HashMap::new(),
            changes,
            keeper: None,
            next_neighbours: now,
            next_use: now,
            stuck: Vec::new(),
            refused: HashMap::new(),
            next_refusals: now,
        }
    }

    /// Looks at everything once.
    pub fn look(&mut self) {
        self.workers();
        self.starving();
        self.links();
        self.taps();
        self.apps.iter().for_each(|app| app.look(&self.state));
        if Instant::now() >= self.next_neighbours {
            self.next_neighbours = Instant::now() + NEIGHBOURS;
            self.neighbours();
            if self.state.kernel.is_some() {
                self.peers.look(&self.state.control);
            }
        }
        if Instant::now() >= self.next_refusals {
            self.next_refusals = Instant::now() + REFUSALS;
            self.refusals();
        }
    }

    /// Logs what a limit refused since the last look: a line each, however many
    /// those were.
    fn refusals(&mut self) {
        let limits = self.state.capacity();
        for limit in limits.unwrap_or_default().into_iter().filter(|limit| limit.refused > 0) {
            let known = self.refused.insert(limit.what.clone(), limit.refused).unwrap_or(0);
            if limit.refused > known {
                let (more, what, last) = (limit.refused - known, &limit.what, &limit.last);
                let key = limit.key.as_deref().unwrap_or("fixed");
                let last =
                    if last.is_empty() { last.clone() } else { format!(", the latest: {last}") };
                match key {
                    // Destinations are missing for good.
                    "max_routes" => tracing::error!("{what}: {more} refused (`{key}`){last}"),
                    _ => tracing::warn!("{what}: {more} refused (`{key}`){last}"),
                }
            }
        }
    }

    /// Names workers that do not get their cores, each at most once a minute.
    fn starving(&mut self) {
        for (number, (watch, said)) in self.watches.iter_mut().enumerate() {
            let Some((waited, since)) = watch.look() else { continue };
            let now = Instant::now();
            if let Some(starved) = lock(&self.state.starved).get_mut(number) {
                starved.waited += waited;
                starved.last = Some(now);
            }
            if said.is_none_or(|said| now.duration_since(said) >= MINUTE) {
                *said = Some(now);
                let core = self.state.config.workers.get(number).copied().unwrap_or_default();
                tracing::warn!(
                    "worker-{number} is starved by the scheduler: it waited {waited:.0?} of the \
                     last {since:.0?} for core {core} (logged once a minute; `rutter doctor`)"
                );
            }
        }
    }

    /// Names workers that are stalled, once each time.
    fn workers(&self) {
        let workers = self.state.workers.read().unwrap_or_else(PoisonError::into_inner);
        let Some(workers) = &*workers else { return };
        let status = workers.threads.iter().map(|worker| (worker.name(), worker.status()));
        let silent: Vec<(String, Duration)> = status
            .filter(|(_, status)| status.is_stalled())
            .map(|(name, status)| (name.to_string(), clock::rate().time(status.silent_ticks)))
            .collect();
        let mut known = self.state.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, time) in silent.iter().filter(|(name, _)| !known.contains(name)) {
            tracing::error!("{name} does not report: silent for {time:.0?}");
        }
        let silent: Vec<String> = silent.into_iter().map(|(name, _)| name).collect();
        for name in known.iter().filter(|name| !silent.contains(name)) {
            tracing::warn!("{name} reports again");
        }
        *known = silent;
    }

    /// Who makes no progress: workers that are stalled, threads that do not go round,
    /// which are named once each time.
    pub fn silent(&mut self, threads: &Threads) -> Vec<String> {
        let stuck = threads.silent(SILENCE);
        for name in stuck.iter().filter(|name| !self.stuck.contains(name)) {
            tracing::error!("the thread {name} does not report: silent for {SILENCE:?}");
        }
        for name in self.stuck.iter().filter(|name| !stuck.contains(name)) {
            tracing::warn!("the thread {name} reports again");
        }
        let workers = self.state.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = workers.iter().cloned().chain(stuck.iter().map(|name| name.to_string()));
        let silent = silent.collect();
        drop(workers);
        self.stuck = stuck;
        silent
    }

    /// Ports' links are their taps' carrier: routing daemons see it.
    fn links(&mut self) {
        let ports = self.state.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let links: Vec<_> =
            ports.iter().map(|port| (port.config.name.clone(), port.device.link().up)).collect();
        let gone = ports.iter().filter(|port| port.device.netdev().is_none());
        let gone: HashMap<String, String> = gone
            .filter_map(|port| Some((port.config.name.clone(), port.netdev.clone()?)))
            .collect();
        drop(ports);
        let mut changed = false;
        for (name, up) in links {
            let before = self.links.insert(name.clone(), up);
            if before == Some(up) {
                continue;
            }
            changed = true;
            self.report(&name, up);
            if before.is_none() && up {
                continue; // as was to be expected
            }
            match gone.get(&name) {
                Some(netdev) => tracing::error!(
                    "port {name}: link down: the interface {netdev} is gone; restart the router \
                     when it is back"
                ),
                None => tracing::info!("port {name}: link {}", if up { "up" } else { "down" }),
            }
        }
        if changed {
            self.carriers();
            self.next_neighbours = Instant::now(); // those behind a link that came up
        }
    }

    /// Reports a link to the applications.
    fn report(&self, port: &str, up: bool) {
        let number = self.state.config.ports.iter().position(|one| one.name == port);
        if let Some(number) = number {
            self.apps.iter().for_each(|app| app.link(number as u16, up));
        }
    }

    /// An interface has a carrier while one of its ports has a link.
    fn carriers(&mut self) {
        let state = self.state.clone();
        for ((carrier, tags, interface), index) in state.config.interfaces().zip(1..) {
            let linked = |port: &&str| self.links.get(*port).is_some_and(|up| *up);
            let up = carrier.ports(tags).iter().any(linked);
            // They start with a carrier.
            if self.carriers.insert(interface.name.clone(), up).unwrap_or(true) != up {
                self.set_carrier((carrier, interface), index, up);
            }
        }
    }

    fn set_carrier(&self, (carrier, interface): (Carrier<'_>, &Interface), index: u32, up: bool) {
        if let Some(kernel) = &self.state.kernel {
            let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
            kernel.set_carrier(&interface.name, up);
            return;
        }
        let (name, mtu) = (interface.name.clone(), interface.mtu.into());
        let ports = self.state.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mac = ports.iter().find(|open| open.config.name == carrier.port());
        let mac = mac.map(|open| open.mac.0).unwrap_or_default();
        drop(ports);
        let link = Link { index: LinkId(index), name, up, mtu, mac, ..Link::default() };
        self.state.control.events(vec![Event::Link(link)]);
    }

    /// Asks the kernel to keep the neighbours that the data plane needs.
    fn neighbours(&mut self) {
        let Some(kernel) = &self.state.kernel else { return };
        let full = kernel.lock().unwrap_or_else(PoisonError::into_inner).neighbours_were_full();
        let now = Instant::now();
        let with_used = now >= self.next_use;
        if with_used {
            self.next_use = now + USE;
        }
        let wanted = self.state.control.call(move |control| {
            control.forwarding().neighbours_full.store(full, Relaxed);
            (control.gateways(), if with_used { control.take_used() } else { Vec::new() })
        });
        let Ok((gateways, used)) = wanted else { return }; // the control thread has ended
        if self.keeper.is_none() {
            self.keeper = Keeper::open().ok();
        }
        let tended = self.keeper.as_mut().map(|keeper| keeper.tend(&gateways, &used));
        if let Some(Err(error)) = tended {
            tracing::warn!("neighbours cannot be kept fresh: {error}");
            self.keeper = None; // opened again the next time
        }
    }

    /// Gives back what the kernel forgot with a link or an address.
    fn taps(&mut self) {
        let (Some(kernel), Some(changes)) = (&self.state.kernel, &mut self.changes) else {
            return;
        };
        let lost = changes.take();
        if lost != Lost::default() {
            let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
            kernel.give_back(&self.state.config, &lost);
        }
    }
}

/// Control may work as long on one batch of events; longer, and it is stuck.
const SILENCE: Duration = Duration::from_secs(5);
const NEIGHBOURS: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const REFUSALS: Duration = Duration::from_secs(10);
/// Often enough that a host stays reachable (30 s), seldom enough to cost nothing.
const USE: Duration = Duration::from_secs(10);
