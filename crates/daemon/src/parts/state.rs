//! What a running instance shares with those that look at it or change it: the API,
//! the monitor, applications.

use std::fmt::Display;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use api::reply::Capacity;
use api::{ErrorKind, Failure, Reply};
use graph::Snapshot;
use tables::{Control, VrfId};

use super::control::Handle;
use super::devices::Port;
use super::kernel_side::KernelSide;
use super::starving::Starved;
use super::workers::Workers;
use super::{offline, show};
use crate::config::{Config, Mac, Text};
use crate::error::Error;
use crate::kernel::taps::TapCounters;
use crate::server::Client;

/// The order to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stop {
    /// Delete the taps too.
    pub remove: bool,
}

/// A running instance.
pub struct State {
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
    /// The kernel's side; `None` where there is none.
    pub kernel: Option<Mutex<KernelSide>>,
    /// Packets through the taps, by interface.
    pub taps: Option<Arc<Vec<TapCounters>>>,
    /// Ends the run.
    pub stop: Sender<Stop>,
    /// Held by the one trace or capture that runs.
    pub watching: Mutex<()>,
    /// Workers that were silent at the last look.
    pub stalled: Mutex<Vec<String>>,
    /// How workers were starved of their cores, by number.
    pub starved: Mutex<Vec<Starved>>,
}

impl State {
    /// Runs `f` on the control thread and waits for the answer.
    ///
    /// # Errors
    /// When the control thread has ended.
    pub fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Control) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        self.control.call(f).map_err(|error: Error| failure(ErrorKind::Internal, error))
    }

    /// Limits of the tables, and the kernel's where there is one.
    ///
    /// # Errors
    /// When the control thread has ended.
    pub fn capacity(&self) -> Result<Vec<Capacity>, Failure> {
        let mut all = self.ask(|control| show::capacity(control))?;
        if let Some(kernel) = &self.kernel {
            all.extend(kernel.lock().unwrap_or_else(PoisonError::into_inner).capacity());
        }
        Ok(all)
    }

    /// The workers, for as long as they are held.
    pub fn workers(&self) -> RwLockReadGuard<'_, Option<Workers>> {
        self.workers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// All workers' counters added up.
    ///
    /// # Errors
    /// When there is none any more.
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        let workers = self.workers();
        let counts = show::snapshot(up(&workers)?.stats.iter().map(|stats| &**stats));
        counts.ok_or_else(|| failure(ErrorKind::Internal, "there is no worker"))
    }

    /// Names of ports and interfaces, by number.
    pub fn names(&self) -> Names {
        let ports = self.config.ports.iter().map(|port| port.name.clone()).collect();
        let mut interfaces = vec![String::new()];
        let known = self.config.interfaces().map(|(.., interface)| interface.name.clone());
        interfaces.extend(known);
        Names { ports, interfaces }
    }

    /// The vrf of this name.
    ///
    /// # Errors
    /// When there is none; names those there are.
    pub fn vrf(&self, name: &str) -> Result<VrfId, Failure> {
        let wanted = name.to_string();
        let found = self.ask(move |control| control.vrf_by_name(&wanted))?;
        found.ok_or_else(|| {
            let names: Vec<_> = self.config.vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
            let text = format!("no vrf is called `{name}`; there are: {}", names.join(", "));
            failure(ErrorKind::Invalid, text)
        })
    }

    /// The number of the interface of this name.
    ///
    /// # Errors
    /// When there is none; names those there are.
    pub fn interface(&self, name: &str) -> Result<u32, Failure> {
        offline::index_of(&self.config, name).ok_or_else(|| {
            let names = self.config.interfaces().map(|(.., interface)| interface.name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let text = format!("no interface is called `{name}`; there are: {names}");
            failure(ErrorKind::Invalid, text)
        })
    }
}

/// Names of ports and interfaces, by number.
pub struct Names {
    /// Ports.
    pub ports: Vec<String>,
    /// Interfaces; 0 is none.
    pub interfaces: Vec<String>,
}

impl Names {
    /// A port's; its number where there is none.
    pub fn port(&self, number: u16) -> String {
        self.ports.get(usize::from(number)).cloned().unwrap_or_else(|| number.to_string())
    }

    /// An interface's; `None` where there is none.
    pub fn interface(&self, number: u16) -> Option<&str> {
        self.interfaces.get(usize::from(number)).filter(|name| !name.is_empty()).map(String::as_str)
    }
}

/// The workers, where they have not stopped.
///
/// # Errors
/// When they have.
pub fn up(workers: &Option<Workers>) -> Result<&Workers, Failure> {
    workers.as_ref().ok_or_else(|| failure(ErrorKind::Busy, "the router is stopping"))
}

/// Answers that a change was made.
pub fn changed(out: &mut Client) {
    out.part(Reply::Changed { warnings: Vec::new() });
}

/// Why a request fails.
pub fn failure(kind: ErrorKind, text: impl Display) -> Failure {
    Failure { kind, text: text.to_string() }
}

/// A hardware address.
///
/// # Errors
/// When it is none.
pub fn mac_of(text: &str) -> Result<Mac, Failure> {
    text.parse().map_err(|error| failure(ErrorKind::Invalid, format!("`{text}`: {error}")))
}

/// The address of a single station.
///
/// # Errors
/// When it is none.
pub fn station(text: &str) -> Result<Mac, Failure> {
    let mac = mac_of(text)?;
    if !mac.is_station() {
        let text = format!("{mac} is not a single station's address");
        return Err(failure(ErrorKind::Invalid, text));
    }
    Ok(mac)
}

/// Locks; nothing is left half done by a panic in one of the short sections.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
