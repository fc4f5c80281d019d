//! The switch: ports of a bridge feed the same graph as routed ones, and part
//! from them at the first node. Frames between its ports never reach the kernel;
//! the routed interface, where a bridge has one, is a port like the others.
//!
//! ```text
//!  p2 ─┐                                                                   ┌─ p2
//!  p3 ─┼─► ethernet_input ─► bridge_input ─► bridge_learn ─► bridge_forward ┼─ p3
//!  pN ─┘                                        │ ring         │ unknown    └─ pN
//!                          bridge thread ◄──────┘              ├► bridge_flood ─► copies
//!                          (writes the MAC table)              └► bridge_local ─► router
//! ```

pub mod config;
mod keys;
mod macs;
mod read;
mod thread;

use std::sync::{Arc, Mutex, PoisonError};

use api::apps::switch;
use api::reply::{self, Capacity};
use api::{Failure, Request, What};
use graph::Bell;
use graph::ring::spsc;
use nodes::DomainCounters;
use nodes::assembly::Assembly;
use nodes::switch::Bridging;
use nodes::switch::loops::Loops;
use tables::macs::Learn;

use crate::app::{Answered, Application, Begin, Change, Requests, Running, Setup};
use crate::config::{Config, Declared};
use crate::error::{Doing, Error};
use crate::parts::secret::secret;
use crate::parts::state::{State, changed};
use crate::server::Client;
use config::Bridges;
use thread::{BridgeThread, Handle};

/// The application.
pub struct Switch;

impl Application for Switch {
    fn name(&self) -> &'static str {
        "switch"
    }

    fn declared(&self) -> Declared {
        read::DECLARED
    }

    fn requests(&self) -> Requests {
        const CHANGES: &[Change] = &[Change {
            section: "bridge.NAME.mac[]",
            by: "rutter mac add|del|flush",
            requests: &["mac_add", "mac_del", "mac_flush"],
        }];
        Requests { all: api::names::<switch::Request>(), changes: CHANGES, reads: &[] }
    }

    fn serves(&self, config: &Config) -> bool {
        !Bridges::of(config).is_empty()
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>, Error> {
        let workers = setup.config.workers.len();
        let (learn, seen) = (0..workers).map(|_| spsc::ring(SEEN)).unzip();
        let ports = setup.config.ports.len() as u16;
        let bell = Bell::new().doing(|| "make the bridge thread's bell".into())?;
        Ok(Box::new(Switching {
            loops: Loops::new(ports, secret()?, Some(bell.clone())),
            bell,
            view: View {
                names: setup.config.ports.iter().map(|port| port.name.clone()).collect(),
                bridges: Bridges::of(setup.config).to_vec(),
                domains: (0..workers).map(|_| DomainCounters::new()).collect(),
                handle: None,
            },
            learn,
            seen,
            thread: Mutex::new(None),
        }))
    }
}

/// The bridges of a running instance.
struct Switching {
    view: View,
    /// The rings to the bridge thread, by worker; each worker's node takes its end.
    learn: Vec<spsc::Producer<Learn>>,
    /// The workers' reports of loops.
    loops: Arc<Loops>,
    /// Wakes the thread.
    bell: Bell,
    /// The receiving ends, until the thread has them.
    seen: Vec<spsc::Consumer<Learn>>,
    thread: Mutex<Option<BridgeThread>>,
}

/// The bridges' state for display.
struct View {
    /// State of the ports, by number.
    names: Vec<String>,
    bridges: Vec<config::Bridge>,
    /// Counters per forwarding domain of each worker.
    domains: Vec<Arc<DomainCounters>>,
    /// The bridge thread; `None` where there is no bridge.
    handle: Option<Handle>,
}

impl Running for Switching {
    fn nodes(&mut self, worker: usize, assembly: Assembly) -> Assembly {
        let bridging = Bridging {
            bridges: self.view.bridges.len() as u16,
            workers: self.view.domains.len() as u32,
            domains: self.view.domains[worker].clone(),
            learn: self.learn.remove(0), // once for each worker, in their order
            loops: self.loops.clone(),
        };
        nodes::switch::add(assembly, bridging)
    }

    fn begin(&mut self, begin: &Begin<'_>) -> Result<(), Error> {
        let seen = (std::mem::take(&mut self.seen), self.loops.clone(), self.bell.clone());
        if self.view.bridges.is_empty() {
            return Ok(());
        }
        let tables = (begin.forwarding, begin.domain);
        let thread = BridgeThread::start(begin.config, begin.ports, tables, seen, begin.threads)?;
        self.view.handle = Some(thread.handle());
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    fn answer(&self, request: &Request, _: &State, out: &mut Client) -> Option<Answered> {
        let view = &self.view;
        match request {
            Request::Switch(asked) => Some(macs::change(view, asked).map(|()| changed(out))),
            Request::Show { what: What::Switch(what) } => Some(macs::show(view, what, out)),
            _ => None,
        }
    }

    fn capacity(&self, _: &State) -> Result<Vec<Capacity>, Failure> {
        macs::capacity(&self.view)
    }

    fn ports(&self, ports: &mut [reply::Port]) {
        macs::ports(&self.view, ports);
    }

    fn link(&self, port: u16, up: bool) {
        if let Some(handle) = &self.view.handle {
            // The thread may have ended: then nothing is bridged any more.
            let _ = handle.call(move |switch| switch.set_link(port, up));
        }
    }

    fn end(&self) {
        drop(self.thread.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Stations of each ring from a worker to the bridge thread.
const SEEN: usize = 1 << 14;
