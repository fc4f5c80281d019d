//! The Grantor: it unwraps what Gatekeepers send, asks a policy, forwards what is granted, and
//! sends the decisions back.
//!
//! ```text
//!  ip4_input ─► ip4_tunnel ─┬► ip4_lookup ─► …     granted, or none of its business
//!                           └► grantor ─┬► ip4_lookup
//!                                       └► output   decisions
//! ```
//!
//! Inside, a file uses those of the lines below its own:
//!
//! ```text
//!   mod
//!   findings show
//!   policies
//!   cells
//!   read
//!   keys warnings words
//! ```

mod cells;
mod findings;
mod keys;
mod policies;
mod read;
mod show;
#[cfg(test)]
mod tests;
mod warnings;
mod words;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use api::apps::grantor::{self, Reply, Request as Asked};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::reply::Capacity;
use api::{ErrorKind, Failure, Request};
use lookup::sync::Published;
use nodes::assembly::Assembly;
use nodes::grantor::settings::{Counters, PRIORITIES, Settings};
use nodes::grantor::{self as data, ENTRY, Parts};
use policy::ask::Asker;
use rustix::thread::CapabilitySet;

use super::gatekeeper::Gatekeeper;
use crate::app::{Answered, Application, Change, Requests, Running, Setup};
use crate::config::{Config, Declared};
use crate::doctor::Finding;
use crate::error::Error;
use crate::parts::state::{State, changed, failure, lock};
use crate::server::Client;
use policies::Policies;
use read::{Decides, Granting};
use warnings::Warned;

/// The application.
pub struct Grantor;

impl Application for Grantor {
    fn name(&self) -> &'static str {
        "grantor"
    }

    fn declared(&self) -> Declared {
        read::DECLARED
    }

    fn requests(&self) -> Requests {
        const CHANGES: &[Change] = &[Change {
            section: "grantor",
            by: "rutter grantor policy load|rollback|exec",
            requests: &["load", "rollback", "exec"],
        }];
        const READS: &[&str] = &["show", "policies"];
        Requests { all: api::names::<grantor::Request>(), changes: CHANGES, reads: READS }
    }

    fn serves(&self, config: &Config) -> bool {
        Granting::of(config).is_some()
    }

    /// Confines a policy's processes, and ends those of other users.
    fn privileges(&self, config: &Config) -> CapabilitySet {
        match Granting::of(config).map(|granting| &granting.policy) {
            Some(Decides::File(_)) => cells::RIGHTS,
            _ => CapabilitySet::empty(),
        }
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>, Error> {
        let Some(granting) = Granting::of(setup.config) else { return Ok(Box::new(Off)) };
        let workers = setup.config.workers.len();
        let idle = setup.config.idle;
        let (askers, policies) = Policies::new(granting, (workers, idle), setup.threads)?;
        Ok(Box::new(Deciding {
            sources: setup.config.vrfs.iter().any(|vrf| !vrf.own_sources),
            shield: Gatekeeper.serves(setup.config),
            settings: Arc::new(Published::new(setup.domain, granting.settings())),
            counters: (0..workers).map(|_| Counters::new()).collect(),
            askers: Mutex::new(askers),
            policies,
            warned: Mutex::default(),
            granting: granting.clone(),
        }))
    }
}

/// No Grantor is configured.
struct Off;

impl Running for Off {
    fn nodes(&mut self, _: usize, assembly: Assembly) -> Assembly {
        assembly
    }

    fn answer(&self, request: &Request, _: &State, _: &mut Client) -> Option<Answered> {
        let text = "there is no Grantor: the configuration has no [grantor]";
        asked(request).map(|_| Err(failure(ErrorKind::Invalid, text)))
    }
}

/// The Grantor of a running instance.
struct Deciding {
    granting: Granting,
    /// Sources are checked, and a shield is there: what comes before the lookup.
    sources: bool,
    shield: bool,
    settings: Arc<Published<Settings>>,
    /// By worker.
    counters: Vec<Arc<Counters>>,
    /// Of the workers that have no nodes yet.
    askers: Mutex<Vec<Box<dyn Asker>>>,
    policies: Policies,
    /// What was logged.
    warned: Mutex<Warned>,
}

impl Running for Deciding {
    fn nodes(&mut self, worker: usize, assembly: Assembly) -> Assembly {
        let asker = lock(&self.askers).remove(0); // once a worker, in their order
        let parts = Parts {
            settings: self.settings.clone(),
            counters: self.counters[worker].clone(),
            asker: Some(asker),
            capacity: self.granting.waiting,
            fragments: self.granting.fragments,
        };
        let assembly = data::add(assembly, parts, self.shield.then_some("ip4_special"));
        nodes::router::tunnels(assembly, (self.sources, self.shield), ENTRY)
    }

    fn answer(&self, request: &Request, state: &State, out: &mut Client) -> Option<Answered> {
        let asked = asked(request)?;
        Some(self.reply(asked, state).map(|reply| match reply {
            Some(reply) => out.part(api::Reply::App(AppReply::Grantor(reply))),
            None => changed(out),
        }))
    }

    fn end(&self) {
        if let Some(cells) = self.policies.cells() {
            cells.end();
        }
    }

    /// Warns, each at most once a minute, that more ask than can be answered, and of requests to
    /// which no decision was sent.
    fn look(&self, _: &State) {
        let (warned, now) = (&mut *lock(&self.warned), Instant::now());
        if let Some((shed, highest)) = warned.shed.news(self.shed(), now) {
            tracing::warn!(
                "grantor: {shed} requests found no room to wait: the lowest priorities went first, none \
                 above {highest}"
            );
        }
        // One verdict for all requests may have no decision by intention.
        if self.policies.cells().is_some()
            && let Some(n) = warned.undecided.news(self.sum(|of| &of.undecided), now)
        {
            tracing::warn!(
                "grantor: {n} verdicts had no decision, so none was sent: the policy made none, or \
                 failed where `on_limit` has none"
            );
        }
        if let Some(n) = warned.unsent.news(self.sum(|of| &of.unsent), now) {
            tracing::warn!("grantor: {n} decisions could not be sent, and are lost");
        }
    }

    fn findings(&self, _: &State) -> Result<Vec<Finding>, Failure> {
        self.doctor()
    }

    fn capacity(&self, _: &State) -> Result<Vec<Capacity>, Failure> {
        let line = Capacity {
            what: "packets that wait for a verdict".into(),
            used: self.sum(|of| &of.waiting),
            limit: Some((self.granting.waiting * self.counters.len()) as u64),
            refused: self.sum(|of| &of.shed),
            last: String::new(),
            key: Some("grantor.waiting".into()),
        };
        Ok(vec![line])
    }
}

impl Deciding {
    /// The requests of each priority that found no room to wait.
    fn shed(&self) -> [u64; PRIORITIES] {
        let of =
            |priority: usize| self.counters.iter().map(|of| of.shed_of.all()[priority].get()).sum();
        std::array::from_fn(of)
    }

    /// The answer; `None`: something has changed.
    fn reply(&self, asked: &Asked, state: &State) -> Result<Option<Reply>, Failure> {
        let cells = || {
            let text = "[grantor] has one verdict for all requests, not a policy in Lua";
            self.policies.cells().ok_or_else(|| failure(ErrorKind::Invalid, text))
        };
        match asked {
            Asked::Show => Ok(Some(Reply::Show(Box::new(self.show(state)?)))),
            Asked::Policies => Ok(Some(Reply::Policies(Box::new(cells()?.show()?)))),
            Asked::Load { path } => cells()?.load(Path::new(path)).map(|()| None),
            Asked::Rollback => cells()?.rollback().map(|()| None),
            Asked::Exec { chunk } => Ok(Some(Reply::Executed(cells()?.exec(chunk)?))),
        }
    }
}

fn asked(request: &Request) -> Option<&Asked> {
    match request {
        Request::App(AppRequest::Grantor(asked)) => Some(asked),
        _ => None,
    }
}
