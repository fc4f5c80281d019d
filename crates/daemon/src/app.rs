//! The trait of an application: the one door by which router, switch and others come in.
//!
//! ```text
//!  registry ─► Application ─ declared ─► Config         its sections; ports that it takes or brings
//!                    │
//!                  start ─► Running ─ nodes, once a worker ─► Assembly ─► graph
//!                              ├ prepare: tables, before the first packet
//!                              ├ begin: threads
//!                              ├ answer, capacity, findings, system: the API
//!                              ├ link, look: what befalls ports, and others
//!                              └ end, finish
//! ```
//!
//! An [`Application`] is a value without state, one a program; what it has while an
//! instance runs is a [`Running`]. Nothing here is called for a packet.

use std::sync::Arc;

use api::reply::{self, Capacity, System};
use api::{Failure, Request};
use lookup::sync::Domain;
use nodes::assembly::Assembly;
use rustix::thread::CapabilitySet;
use tables::{Control, Forwarding};

use crate::config::{self, Config, Declared};
use crate::doctor::Finding;
use crate::error::Error;
use crate::parts::control;
use crate::parts::devices::Port;
use crate::parts::kernel_side::KernelSide;
use crate::parts::state::State;
use crate::server::Client;
use crate::threads::Threads;

/// An application.
pub trait Application: Sync {
    /// Its name, in `show system`.
    fn name(&self) -> &'static str;

    /// Its sections of the configuration.
    fn declared(&self) -> Declared;

    /// Its requests, and the settings that they change.
    fn requests(&self) -> Requests;

    /// True where the configuration asks for it.
    fn serves(&self, config: &Config) -> bool;

    /// True where every packet of a pair, of source and destination, that `port` receives
    /// must meet one worker: its nodes find which in [`Assembly::owners`].
    fn by_pair(&self, _config: &Config, _port: &config::Port) -> bool {
        false
    }

    /// The rights of root that it needs, in addition to those of every router.
    fn privileges(&self, _config: &Config) -> CapabilitySet {
        CapabilitySet::empty()
    }

    /// Makes what its nodes and threads share. It is there in every instance, also where
    /// it does not serve: it may be asked for something at run time.
    ///
    /// # Errors
    /// When something of it cannot be had.
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>, Error>;
}

/// The requests of an application, by their names in its messages. Each is in one of
/// `changes`, or in `reads`: a test demands it.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// All of them, as its file in `api` declares them.
    pub all: &'static [&'static str],
    /// The sections that a running instance can change, each with its requests.
    pub changes: &'static [Change],
    /// The requests that change nothing.
    pub reads: &'static [&'static str],
}

/// A section of the configuration whose contents a running instance can change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// The section's path.
    pub section: &'static str,
    /// The command.
    pub by: &'static str,
    /// Its requests.
    pub requests: &'static [&'static str],
}

/// The parts that exist before the workers.
pub struct Setup<'s> {
    /// The configuration.
    pub config: &'s Config,
    /// The tables.
    pub forwarding: &'s Arc<Forwarding>,
    /// Where tables are published, and readers register.
    pub domain: &'s Arc<Domain>,
    /// Where threads are started without which it cannot serve.
    pub threads: &'s Threads,
}

/// The parts that exist once the workers run.
pub struct Begin<'b> {
    /// The configuration.
    pub config: &'b Config,
    /// Open ports.
    pub ports: &'b [Port],
    /// The tables.
    pub forwarding: &'b Arc<Forwarding>,
    /// Where tables are published, and readers register.
    pub domain: &'b Arc<Domain>,
    /// The control thread.
    pub control: control::Handle,
    /// False where there is no kernel: only mem, pcap, null ports.
    pub kernel: bool,
    /// Where its threads are started.
    pub threads: &'b Threads,
}

/// The result of a request: done, or the reason why not.
pub type Answered = Result<(), Failure>;

/// An application in a running instance.
pub trait Running: Send + Sync {
    /// Adds its nodes to the graph of a worker; called once for each, in their order.
    fn nodes(&mut self, worker: usize, assembly: Assembly) -> Assembly;

    /// Writes what has to be there before the first packet, into the tables and into the
    /// kernel, where there is one.
    ///
    /// # Errors
    /// When something of it cannot be had.
    fn prepare(
        &mut self,
        _control: &mut Control,
        _kernel: Option<&mut KernelSide>,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Starts its threads.
    ///
    /// # Errors
    /// When one cannot be had; [`Running::end`] is called then, too.
    fn begin(&mut self, _begin: &Begin<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Called once the API is about to serve: what it needs the workers for.
    ///
    /// # Errors
    /// When what the configuration asks for cannot be had.
    fn ready(&self, _state: &State) -> Result<(), Error> {
        Ok(())
    }

    /// Answers a request; `None` where it is somebody else's.
    fn answer(&self, request: &Request, state: &State, out: &mut Client) -> Option<Answered>;

    /// Looks, some times a second, at what may have changed.
    fn look(&self, _state: &State) {}

    /// Its lines of `rutter doctor`.
    ///
    /// # Errors
    /// When it cannot be asked any more.
    fn findings(&self, _state: &State) -> Result<Vec<Finding>, Failure> {
        Ok(Vec::new())
    }

    /// Its lines of `show capacity`.
    ///
    /// # Errors
    /// When it cannot be asked any more.
    fn capacity(&self, _state: &State) -> Result<Vec<Capacity>, Failure> {
        Ok(Vec::new())
    }

    /// Adds to `show ports` what it does to them.
    fn ports(&self, _ports: &mut [reply::Port]) {}

    /// Adds to `show system` what there is to say.
    fn system(&self, _system: &mut System) {}

    /// The link of a port came up or went down; at first as it is.
    fn link(&self, _port: u16, _up: bool) {}

    /// Ends its threads: workers go on for a moment.
    fn end(&self) {}

    /// The workers have stopped: ends what works off what they leave. (A client's thread may
    /// hold the application for as long as the process lives: its `Drop` comes too late.)
    fn finish(&self) {}
}
