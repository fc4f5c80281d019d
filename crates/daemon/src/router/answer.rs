//! Answers the API's requests.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::{Duration, Instant};

use api::reply::{Setting, System};
use api::request::{Route, RouteKind};
use api::{ErrorKind, Failure, Family, Reply, Request, What};
use lookup::lpm::{Engines, Options};
use tables::show::{RouteCursor, RouteFilter};
use tables::{Control, VrfId};

use super::bridges;
use super::control::Handle;
use super::devices::Port;
use super::kernel_side::KernelSide;
use super::macs;
use super::watch::{self, Names, Wanted};
use super::workers::Workers;
use super::{offline, show};
use crate::config::net::is_of_host;
use crate::config::{self, Config, Net, Text};
use crate::error::Error;
use crate::kernel::netlink::errno;
use crate::kernel::taps::TapCounters;
use crate::run::Stop;
use crate::server::{Client, Handler};

/// What the API reaches of a running router.
pub struct Router {
    /// The configuration.
    pub config: Config,
    /// The configuration as it was written.
    pub text: Text,
    /// Where the API listens.
    pub socket: String,
    /// When it started.
    pub started: Instant,
    /// Open ports.
    pub ports: Mutex<Vec<Port>>,
    /// Workers; `None` once they stopped.
    pub workers: RwLock<Option<Workers>>,
    /// The control thread.
    pub control: Handle,
    /// The bridge thread; `None` where there is no bridge.
    pub bridges: Option<bridges::Handle>,
    /// The kernel's side; `None` where there is none.
    pub kernel: Option<Mutex<KernelSide>>,
    /// What went through the taps, by interface.
    pub taps: Option<Arc<Vec<TapCounters>>>,
    /// How the feeds of routes are.
    pub feeds: Vec<super::feed::Status>,
    /// Ends the run.
    pub stop: std::sync::mpsc::Sender<Stop>,
    /// Held by the one trace or capture that runs.
    pub watching: Mutex<()>,
    /// Workers that were silent at the last look.
    pub stalled: Mutex<Vec<String>>,
}

type Answered = Result<(), Failure>;

impl Handler for Router {
    fn handle(&self, request: Request, out: &mut Client) -> Answered {
        match request {
            Request::Show { what } => self.show(what, out),
            Request::RouteAdd(route) => self.route_add(&route).map(|()| changed(out)),
            Request::RouteDel { prefix, vrf, metric } => {
                self.route_del(&prefix, &vrf, metric).map(|()| changed(out))
            }
            Request::NeighbourAdd { interface, address, mac } => {
                self.neighbour_add(&interface, address, &mac).map(|()| changed(out))
            }
            Request::NeighbourDel { interface, address } => {
                self.neighbour_del(&interface, address).map(|()| changed(out))
            }
            Request::MacAdd { mac, port, vlan } => {
                macs::add(self, &mac, &port, vlan).map(|()| changed(out))
            }
            Request::MacDel { mac, bridge, vlan } => {
                macs::del(self, &mac, bridge.as_deref(), vlan).map(|()| changed(out))
            }
            Request::MacFlush(which) => macs::flush(self, &which).map(|()| changed(out)),
            Request::FibEngine { vrf, family, engine, options } => {
                self.fib_engine(&vrf, family, engine, options).map(|()| changed(out))
            }
            Request::Trace { count, filter, timeout_ms } => {
                let filter = watch::filter(filter)?;
                let timeout = Duration::from_millis(timeout_ms.min(3_600_000));
                let _one = self.watch()?;
                watch::trace(self, (count, filter), timeout, out)
            }
            Request::Capture { filter, snap_length, count } => {
                let filter = watch::filter(filter)?;
                let wanted = Wanted { filter, snap: snap_length.into(), count };
                let _one = self.watch()?;
                watch::capture(self, wanted, out)
            }
            Request::Config => {
                out.part(Reply::Config(self.text.text.clone()));
                Ok(())
            }
            Request::Stop { remove } => {
                let sent = self.stop.send(Stop { remove });
                sent.map_err(|_| failure(ErrorKind::Busy, "it is stopping already"))?;
                changed(out);
                Ok(())
            }
        }
    }
}

impl Router {
    fn show(&self, what: What, out: &mut Client) -> Answered {
        let reply = match what {
            What::Routes { vrf, family, inside, to, limit } => {
                return self.routes((vrf, family, inside, to), limit, out);
            }
            What::Macs { which, limit } => Reply::Macs(macs::stations(self, &which, limit)?),
            What::Bridges => Reply::Bridges(macs::bridges(self)?),
            What::Ports => Reply::Ports(lock(&self.ports).iter().map(Port::show).collect()),
            What::Interfaces => Reply::Interfaces(self.interfaces()?),
            What::Neighbours => Reply::Neighbours(self.ask(|control| show::neighbours(control))?),
            What::Graph { all } => {
                let counts = self.snapshot()?;
                let drawing = if all { counts.draw_all() } else { counts.draw() };
                Reply::Graph { nodes: show::nodes(&counts), drawing }
            }
            What::Runtime => Reply::Runtime(show::runtime(up(&self.workers())?)),
            What::Drops => Reply::Drops(show::drops(&self.snapshot()?)),
            What::Fib => Reply::Fib(self.ask(|control| show::fibs(control))?),
            What::Capacity => {
                let mut all = self.ask(|control| show::capacity(control))?;
                all.extend(macs::capacity(self)?);
                Reply::Capacity(all)
            }
            What::System => Reply::System(Box::new(self.system()?)),
        };
        out.part(reply);
        Ok(())
    }

    fn interfaces(&self) -> Result<Vec<api::reply::Interface>, Failure> {
        let ports: Vec<String> = self.config.ports.iter().map(|port| port.name.clone()).collect();
        let infos = self.ask(|control| (control.interfaces(), control.vrfs()))?;
        let workers = self.workers();
        let mut all = show::interfaces(&infos, up(&workers)?, &ports);
        for (interface, info) in all.iter_mut().zip(&infos.0) {
            let taps = self.taps.as_ref();
            if let Some(tap) = taps.and_then(|taps| taps.get(usize::from(info.id.0))) {
                interface.punted = tap.punted.load(Relaxed);
                interface.from_kernel = tap.from_kernel.load(Relaxed);
            }
        }
        Ok(all)
    }

    fn snapshot(&self) -> Result<graph::Snapshot, Failure> {
        let workers = self.workers();
        let counts = show::snapshot(up(&workers)?.stats.iter().map(|stats| &**stats));
        counts.ok_or_else(|| failure(ErrorKind::Internal, "there is no worker"))
    }

    fn system(&self) -> Result<System, Failure> {
        let law = self.snapshot()?.law;
        let (mut settings, mut warnings) = (Vec::new(), Vec::new());
        if let Some(kernel) = &self.kernel {
            let kernel = lock(kernel);
            warnings.extend(kernel.warnings.iter().cloned());
            settings.extend(kernel.settings().changed().iter().map(|changed| Setting {
                name: changed.name.replace('/', "."),
                was: changed.was.clone(),
                is: changed.is.clone(),
            }));
        }
        let silent = lock(&self.stalled);
        warnings.extend(silent.iter().map(|name| format!("{name} is silent: it does not come by")));
        let dpdk = io_dpdk::status().and_then(|status| {
            let pages = status.hugepages?;
            let pages = if pages { "hugepages" } else { "no hugepages" };
            Some(format!("{}, {pages}", status.version))
        });
        Ok(System {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            config: self.text.file.clone(),
            socket: self.socket.clone(),
            application: crate::designs::name(&self.config).into(),
            idle: match self.config.idle {
                config::Idle::Adaptive => "adaptive".into(),
                config::Idle::Poll => "poll".into(),
            },
            workers: self.config.workers.clone(),
            dpdk,
            settings,
            feeds: self.feeds.iter().map(super::feed::Status::show).collect(),
            accounting: show::accounting(&law),
            warnings,
        })
    }

    /// Routes, a part at a time: the control thread serves others in between.
    fn routes(
        &self,
        (vrf, family, inside, to): (Option<String>, Option<Family>, Option<String>, Option<IpAddr>),
        limit: Option<u64>,
        out: &mut Client,
    ) -> Answered {
        let vrf = match vrf {
            Some(name) => Some(self.vrf(&name)?),
            None => None,
        };
        let vrfs = self.ask(|control| control.vrfs())?;
        if let Some(address) = to {
            let route =
                self.ask(move |control| control.route_to(vrf.unwrap_or_default(), address))?;
            let shown = route.and_then(|route| show::route(&route, &vrfs));
            out.part(Reply::Routes(shown.into_iter().collect()));
            return Ok(());
        }
        let family = family.map(|family| match family {
            Family::Ipv4 => tables::Family::V4,
            Family::Ipv6 => tables::Family::V6,
        });
        let inside = match inside {
            Some(text) => Some(
                text.parse::<tables::Net>()
                    .map_err(|error| failure(ErrorKind::Invalid, format!("`{text}`: {error}")))?,
            ),
            None => None,
        };
        let filter = RouteFilter { vrf, family, inside, all: true };
        let (mut cursor, mut left) = (None::<RouteCursor>, limit.unwrap_or(u64::MAX));
        while left > 0 && out.waits() {
            let (routes, next) = self.ask(move |control| control.routes(&filter, cursor, PAGE))?;
            let shown = routes.iter().filter_map(|route| show::route(route, &vrfs));
            let shown: Vec<_> = shown.take(left.min(PAGE as u64) as usize).collect();
            left -= shown.len() as u64;
            out.part(Reply::Routes(shown));
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn route_add(&self, wanted: &Route) -> Answered {
        let prefix = prefix(&wanted.prefix)?;
        self.vrf(&wanted.vrf)?;
        if wanted.via.iter().any(|via| !(1..=256).contains(&via.weight)) {
            return Err(failure(ErrorKind::Invalid, "a gateway's weight is 1 to 256"));
        }
        let via = wanted.via.iter().map(|via| config::Via {
            to: via.gateway,
            interface: via.interface.clone(),
            weight: via.weight,
        });
        let via: Vec<_> = via.collect();
        if via.is_empty() != (wanted.kind != RouteKind::Unicast) {
            let text = "a unicast route has gateways or interfaces, another has none";
            return Err(failure(ErrorKind::Invalid, text));
        }
        let (vrf, metric) = (wanted.vrf.clone(), wanted.metric);
        let route = config::Route { prefix, kind: wanted.kind, via, vrf, metric };
        if let Some(objection) = self.config.objection(&route) {
            return Err(failure(ErrorKind::Invalid, objection));
        }
        let table = offline::table_of(&self.config, &route.vrf);
        if let Some(kernel) = &self.kernel {
            return lock(kernel).add_route(route, table).map_err(refused);
        }
        for interface in route.via.iter().filter_map(|via| via.interface.as_deref()) {
            self.interface(interface)?;
        }
        let event = offline::static_route(&self.config, &route);
        let event = event.ok_or_else(|| {
            failure(ErrorKind::Refused, "a gateway lies on no network of an interface")
        })?;
        self.ask(move |control| control.handle(&[event]))
    }

    fn route_del(&self, text: &str, vrf: &str, metric: Option<u32>) -> Answered {
        let net = prefix(text)?;
        self.vrf(vrf)?;
        let table = offline::table_of(&self.config, vrf);
        if let Some(kernel) = &self.kernel {
            let deleted = lock(kernel).delete_route(net, table, metric);
            let metric = metric.map(|metric| format!(" of metric {metric}")).unwrap_or_default();
            let what = format!("no static route to {net}{metric} in vrf {vrf}");
            return deleted.map_err(|error| absent(error, what));
        }
        let net = tables::Net::covering(net.address, net.length);
        let net = net.ok_or_else(|| failure(ErrorKind::Invalid, "not a prefix"))?;
        let found = self.ask(move |control| offline::delete_route(control, table, net, metric))?;
        if found { Ok(()) } else { Err(failure(ErrorKind::NotFound, "there is no such route")) }
    }

    fn neighbour_add(&self, interface: &str, address: IpAddr, mac: &str) -> Answered {
        let index = self.interface(interface)?;
        let mac = macs::station(mac)?;
        if !is_of_host(address) {
            let text = format!("{address} is not a single host's address");
            return Err(failure(ErrorKind::Invalid, text));
        }
        if let Some(kernel) = &self.kernel {
            let entry = config::Neighbour { interface: interface.into(), address, mac };
            return lock(kernel).add_neighbour(entry).map_err(refused);
        }
        self.ask(move |control| control.handle(&[offline::neighbour(index, address, mac)]))
    }

    fn neighbour_del(&self, interface: &str, address: IpAddr) -> Answered {
        let index = self.interface(interface)?;
        if let Some(kernel) = &self.kernel {
            let deleted = lock(kernel).delete_neighbour(interface, address);
            let what = format!("no neighbour {address} at {interface}");
            return deleted.map_err(|error| absent(error, what));
        }
        let link = tables::LinkId(index);
        let found = self.ask(move |control| {
            let known = control.neighbours();
            control.handle(&[tables::Event::NeighbourGone(link, address)]);
            known.iter().any(|known| (known.link, known.ip) == (link, address))
        })?;
        let absent = || format!("there is no neighbour {address} at {interface}");
        if found { Ok(()) } else { Err(failure(ErrorKind::NotFound, absent())) }
    }

    /// Changes the engine, and waits until the new table serves.
    fn fib_engine(
        &self,
        vrf: &str,
        family: Family,
        engine: String,
        options: Vec<(String, String)>,
    ) -> Answered {
        let vrf = self.vrf(vrf)?;
        let (family, known) = match family {
            Family::Ipv4 => (tables::Family::V4, options_of::<u32>(&engine)),
            Family::Ipv6 => (tables::Family::V6, options_of::<u128>(&engine)),
        };
        let known = known.unwrap_or_default(); // an unknown engine is refused below
        if let Some((name, _)) = options.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            let text = format!("{engine} has no option `{name}`; it has: {}", known.join(", "));
            return Err(failure(ErrorKind::Invalid, text));
        }
        let options = Options(options.into_iter().collect());
        let name = engine.clone();
        let begun = self.ask(move |control| control.set_engine(vrf, family, &name, options))?;
        begun.map_err(|error| failure(ErrorKind::Refused, error))?;
        loop {
            let info = self.ask(move |control| control.fib_info(vrf, family))?;
            let info = info.ok_or_else(|| failure(ErrorKind::Internal, "the table is gone"))?;
            match info.switched {
                Some((_, result)) if info.switching_to.is_none() => {
                    return result.map_err(|text| failure(ErrorKind::Refused, text));
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn vrf(&self, name: &str) -> Result<VrfId, Failure> {
        let wanted = name.to_string();
        let found = self.ask(move |control| control.vrf_by_name(&wanted))?;
        found.ok_or_else(|| {
            let names: Vec<_> = self.config.vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
            let text = format!("no vrf is called `{name}`; there are: {}", names.join(", "));
            failure(ErrorKind::Invalid, text)
        })
    }

    fn interface(&self, name: &str) -> Result<u32, Failure> {
        offline::index_of(&self.config, name).ok_or_else(|| {
            let names = self.config.interfaces().map(|(.., interface)| interface.name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let text = format!("no interface is called `{name}`; there are: {names}");
            failure(ErrorKind::Invalid, text)
        })
    }

    pub(super) fn names(&self) -> Names {
        let ports = self.config.ports.iter().map(|port| port.name.clone()).collect();
        let mut interfaces = vec![String::new()];
        let known = self.config.interfaces().map(|(.., interface)| interface.name.clone());
        interfaces.extend(known);
        Names { ports, interfaces }
    }

    fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Control) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        self.control.call(f).map_err(|error: Error| failure(ErrorKind::Internal, error))
    }

    pub(super) fn workers(&self) -> RwLockReadGuard<'_, Option<Workers>> {
        self.workers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// One trace or capture at a time. That a client is gone is noticed a moment
    /// after it went: so long the next one waits.
    fn watch(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        let end = Instant::now() + MOMENT;
        loop {
            match self.watching.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(failure(ErrorKind::Busy, "another trace or capture is running"));
                }
            }
        }
    }
}

pub(super) fn up(workers: &Option<Workers>) -> Result<&Workers, Failure> {
    workers.as_ref().ok_or_else(|| failure(ErrorKind::Busy, "the router is stopping"))
}

fn options_of<A: Engines>(engine: &str) -> Option<Vec<&'static str>> {
    let card = A::engine(engine)?.card;
    Some(card.options.iter().map(|(name, ..)| *name).collect())
}

fn prefix(text: &str) -> Result<Net, Failure> {
    let net: Result<Net, _> = text.parse();
    let net = net.map_err(|_| {
        failure(ErrorKind::Invalid, format!("`{text}`: expected a prefix, such as 203.0.113.0/24"))
    })?;
    if net.is_prefix() {
        Ok(net)
    } else {
        let text = format!("`{text}`: bits are set to the right of the length");
        Err(failure(ErrorKind::Invalid, text))
    }
}

fn changed(out: &mut Client) {
    out.part(Reply::Changed { warnings: Vec::new() });
}

pub(super) fn failure(kind: ErrorKind, text: impl std::fmt::Display) -> Failure {
    Failure { kind, text: text.to_string() }
}

/// The kernel's refusal.
fn refused(error: std::io::Error) -> Failure {
    failure(ErrorKind::Refused, format_args!("the kernel: {error}"))
}

/// Its refusal to delete; what is not there is told apart.
fn absent(error: std::io::Error, what: String) -> Failure {
    match errno(&error) {
        Some(ENOENT | ESRCH) => failure(ErrorKind::NotFound, format_args!("there is {what}")),
        _ => refused(error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done by a panic in one of the short sections.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
/// For a client to be gone.
const MOMENT: Duration = Duration::from_millis(500);
/// Prefixes in one part of `show routes`.
const PAGE: usize = 4096;
