//! Answers the API's requests: what every instance has, here; the rest by the
//! application that knows it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use api::reply::{Setting, System};
use api::{ErrorKind, Failure, Reply, Request, What};

use crate::app::{Answered, Running};
use crate::apps;
use crate::config;
use crate::health;
use crate::parts::devices::Port;
use crate::parts::show;
use crate::parts::state::{State, Stop, changed, failure, lock, up};
use crate::parts::watch::{self, Wanted};
use crate::server::{Client, Handler};

/// The parts of the instance that the API reaches.
pub struct Answers {
    /// The running instance.
    pub state: Arc<State>,
    /// Its applications.
    pub apps: Arc<Vec<Box<dyn Running>>>,
}

impl Handler for Answers {
    fn handle(&self, request: Request, out: &mut Client) -> Answered {
        let state = &*self.state;
        match request {
            Request::Show { what } => self.show(what, out),
            Request::Trace { count, filter, timeout_ms } => {
                let filter = watch::filter(filter)?;
                let timeout = Duration::from_millis(timeout_ms.min(3_600_000));
                let _one = self.watch()?;
                watch::trace(state, (count, filter), timeout, out)
            }
            Request::Capture { filter, snap_length, count } => {
                let filter = watch::filter(filter)?;
                let wanted = Wanted { filter, snap: snap_length.into(), count };
                let _one = self.watch()?;
                watch::capture(state, wanted, out)
            }
            Request::Config => {
                out.part(Reply::Config(state.text.text.clone()));
                Ok(())
            }
            Request::Stop { remove } => {
                let sent = state.stop.send(Stop { remove });
                sent.map_err(|_| failure(ErrorKind::Busy, "it is stopping already"))?;
                changed(out);
                Ok(())
            }
            request => self.pass_on(&request, out),
        }
    }
}

impl Answers {
    /// To the application that answers it. What it would change while the daemon stops
    /// might be left behind.
    fn pass_on(&self, request: &Request, out: &mut Client) -> Answered {
        if out.stops() {
            return Err(failure(ErrorKind::Busy, "the router is stopping"));
        }
        let answered = self.apps.iter().find_map(|app| app.answer(request, &self.state, out));
        let nobody = || Err(failure(ErrorKind::Invalid, "no application answers this"));
        answered.unwrap_or_else(nobody)
    }

    fn show(&self, what: What, out: &mut Client) -> Answered {
        let state = &*self.state;
        let reply = match what {
            What::Ports => {
                let mut all: Vec<_> = lock(&state.ports).iter().map(Port::show).collect();
                self.apps.iter().for_each(|app| app.ports(&mut all));
                Reply::Ports(all)
            }
            What::Interfaces => {
                out.list(self.interfaces()?, Reply::Interfaces);
                return Ok(());
            }
            What::Graph { all } => {
                let counts = state.snapshot()?;
                let drawing = if all { counts.draw_all() } else { counts.draw() };
                Reply::Graph { nodes: show::nodes(&counts), drawing }
            }
            What::Runtime => {
                let starved = lock(&state.starved).clone();
                Reply::Runtime(show::runtime(up(&state.workers())?, &starved))
            }
            What::Doctor => {
                let mut all = health::findings(state);
                for app in self.apps.iter() {
                    all.extend(app.findings(state)?.into_iter().map(Into::into));
                }
                Reply::Doctor(all)
            }
            What::Drops => Reply::Drops(show::drops(&state.snapshot()?)),
            What::Capacity => {
                let mut all = state.capacity()?;
                for app in self.apps.iter() {
                    all.extend(app.capacity(state)?);
                }
                Reply::Capacity(all)
            }
            What::System => Reply::System(Box::new(self.system()?)),
            what => return self.pass_on(&Request::Show { what }, out),
        };
        out.part(reply);
        Ok(())
    }

    fn interfaces(&self) -> Result<Vec<api::reply::Interface>, Failure> {
        let ports: Vec<String> =
            self.state.config.ports.iter().map(|port| port.name.clone()).collect();
        let infos = self.state.ask(|control| (control.interfaces(), control.vrfs()))?;
        let workers = self.state.workers();
        let mut all = show::interfaces(&infos, up(&workers)?, &ports);
        for (interface, info) in all.iter_mut().zip(&infos.0) {
            let taps = self.state.taps.as_ref();
            if let Some(tap) = taps.and_then(|taps| taps.get(usize::from(info.id.0))) {
                interface.punted = tap.punted.load(Relaxed);
                interface.from_kernel = tap.from_kernel.load(Relaxed);
            }
        }
        Ok(all)
    }

    fn system(&self) -> Result<System, Failure> {
        let law = self.state.snapshot()?.law;
        let (mut settings, mut warnings) = (Vec::new(), Vec::new());
        if let Some(kernel) = &self.state.kernel {
            let kernel = lock(kernel);
            warnings.extend(kernel.warnings.iter().cloned());
            settings.extend(kernel.settings().changed().iter().map(|changed| Setting {
                name: changed.name.replace('/', "."),
                was: changed.was.clone(),
                is: changed.is.clone(),
            }));
        }
        let silent = lock(&self.state.stalled);
        warnings.extend(silent.iter().map(|name| format!("{name} is silent: it does not report")));
        let dpdk = io_dpdk::status().and_then(|status| {
            let pages = status.hugepages?;
            let pages = if pages { "hugepages" } else { "no hugepages" };
            Some(format!("{}, {pages}", status.version))
        });
        let mut system = System {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.state.started.elapsed().as_secs(),
            config: self.state.text.file.clone(),
            socket: self.state.socket.clone(),
            application: apps::names(&self.state.config),
            idle: match self.state.config.idle {
                config::Idle::Adaptive => "adaptive".into(),
                config::Idle::Poll => "poll".into(),
            },
            workers: self.state.config.workers.clone(),
            dpdk,
            settings,
            feeds: Vec::new(),
            accounting: show::accounting(&law),
            warnings,
        };
        self.apps.iter().for_each(|app| app.system(&mut system));
        Ok(system)
    }

    /// One trace or capture at a time. That a client is gone is noticed a moment
    /// after it went: so long the next one waits.
    fn watch(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        let end = Instant::now() + MOMENT;
        loop {
            match self.state.watching.try_lock() {
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

/// For a client to be gone.
const MOMENT: Duration = Duration::from_millis(500);
