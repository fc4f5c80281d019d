//! The router: every port feeds one graph on each worker. Routed packets leave by the port of their
//! next hop; the others are punted, by the tap of the interface that they came in by.
//!
//! ```text
//!  p0 ─┐                                                        ┌─ p0
//!  p1 ─┼─► ethernet_input ─► ip4 | ip6 ─► rewrite ─► output ────┼─ p1
//!  pN ─┘        │ ARP, for us, exceptions                ▲      └─ pN
//!               └──────────► punt ─► taps p0, p0.100, p1 │
//!                                    taps ─► kernel_input ┘
//! ```

mod answer;
mod feed;
mod keys;
mod read;
mod show;

use std::sync::Mutex;

use api::apps::router;
use api::reply::System;
use api::{Request, What};
use nodes::assembly::Assembly;

use crate::app::{Answered, Application, Begin, Change, Requests, Running, Setup};
use crate::config::{Config, Declared, Feed};
use crate::error::Error;
use crate::parts::state::{State, changed, lock};
use crate::server::Client;
use feed::{FeedThread, Status};

/// The application.
pub struct Router;

impl Application for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    fn declared(&self) -> Declared {
        read::DECLARED
    }

    fn requests(&self) -> Requests {
        const CHANGES: &[Change] = &[
            Change {
                section: "route[]",
                by: "rutter route add|del",
                requests: &["route_add", "route_del"],
            },
            Change {
                section: "neighbour[]",
                by: "rutter neighbour add|del",
                requests: &["neighbour_add", "neighbour_del"],
            },
            Change { section: "vrf.NAME", by: "rutter fib engine set", requests: &["fib_engine"] },
        ];
        Requests { all: api::names::<router::Request>(), changes: CHANGES, reads: &[] }
    }

    fn serves(&self, config: &Config) -> bool {
        config.interfaces().next().is_some() || config.inner.is_empty()
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>, Error> {
        let check_sources = setup.config.vrfs.iter().any(|vrf| !vrf.own_sources);
        Ok(Box::new(Routing { check_sources, ..Routing::default() }))
    }
}

/// The router of a running instance.
#[derive(Default)]
struct Routing {
    feeds: Mutex<Vec<FeedThread>>,
    /// The states of the threads; they outlive the threads.
    status: Vec<Status>,
    /// A VRF wants no packets from this machine's own addresses.
    check_sources: bool,
}

impl Running for Routing {
    fn nodes(&mut self, _: usize, assembly: Assembly) -> Assembly {
        let assembly = nodes::router::add(assembly);
        if self.check_sources { nodes::router::check_sources(assembly) } else { assembly }
    }

    /// The mirror, and FRR's port where a VRF takes its routes from there.
    fn begin(&mut self, begin: &Begin<'_>) -> Result<(), Error> {
        if !begin.kernel {
            return Ok(());
        }
        let mut feeds = vec![FeedThread::netlink(begin.control.clone(), begin.threads)?];
        if let Some(vrf) = begin.config.vrfs.iter().find(|vrf| vrf.routes == Feed::Fpm) {
            let rules = begin.config.settings.get().cloned().unwrap_or_default();
            let fpm = FeedThread::fpm(rules, begin.control.clone(), begin.threads);
            feeds.push(fpm.map_err(|error| {
                let remedy = "is the loopback up (ip link set lo up), does another listen there \
                              (ss -ltnp)?";
                Error::asked(&["vrf", &vrf.name, "routes"], format_args!("{error}: {remedy}"))
            })?);
        }
        self.status = feeds.iter().map(FeedThread::status).collect();
        *lock(&self.feeds) = feeds;
        Ok(())
    }

    fn answer(&self, request: &Request, state: &State, out: &mut Client) -> Option<Answered> {
        match request {
            Request::Router(asked) => Some(answer::change(asked, state).map(|()| changed(out))),
            Request::Show { what: What::Router(what) } => Some(answer::show(what, state, out)),
            _ => None,
        }
    }

    fn system(&self, system: &mut System) {
        system.feeds.extend(self.status.iter().map(Status::show));
    }

    fn end(&self) {
        lock(&self.feeds).clear();
    }
}
