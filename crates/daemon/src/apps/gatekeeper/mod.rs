//! The shield: what comes in at the front for a protected prefix is let through where a
//! Grantor has granted it, dropped where one has declined it, and asked about else.
//!
//! ```text
//!  front ─► ip4_input ─► ip4_front ─┬► shield ─► output ─► back        granted, or asking
//!                                   │     └────► drop                  declined
//!                                   └► ip4_lookup ─► …                 no protection: router
//!  back ──► … ─► decisions ─ ring to the flow's owner ─► shield
//! ```
//!
//! Inside, a file uses those of the lines below its own:
//!
//! ```text
//!   mod
//!   answer capacity findings
//!   live
//!   read show
//!   keys programs protect
//! ```

mod answer;
mod capacity;
mod findings;
mod keys;
mod live;
mod programs;
mod protect;
mod read;
mod show;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use api::apps::gatekeeper::Request as Asked;
use api::apps::{Request as AppRequest, gatekeeper};
use api::reply::Capacity;
use api::{Failure, Request};
use graph::clock;
use graph::ring::spsc::{self, Consumer, Producer};
use lookup::exact::flow::{Full, Wanted, engine};
use lookup::sync::{Domain, Published};
use nodes::assembly::Assembly;
use nodes::gatekeeper::flows::{Flows, Heard};
use nodes::gatekeeper::mix::Mix;
use nodes::gatekeeper::settings::{Counters, Ends, Settings};
use nodes::gatekeeper::solicit::DECISION;
use nodes::gatekeeper::solicitor::Channel;
use nodes::gatekeeper::{self as data, ENTRY, Here, Parts};
use tables::{Control, Forwarding, Limits};

use crate::app::{Answered, Application, Change, Requests, Running, Setup};
use crate::config::{self, Config, Declared};
use crate::doctor::Finding;
use crate::error::Error;
use crate::parts::kernel_side::KernelSide;
use crate::parts::secret::secret;
use crate::parts::state::{State, lock};
use crate::server::Client;
use live::{Live, Seen};
use programs::Programs;
use read::Shield;

/// The application.
pub struct Gatekeeper;

impl Application for Gatekeeper {
    fn name(&self) -> &'static str {
        "gatekeeper"
    }

    fn declared(&self) -> Declared {
        read::DECLARED
    }

    fn requests(&self) -> Requests {
        const CHANGES: &[Change] = &[
            Change {
                section: "gatekeeper.protect[]",
                by: "rutter gatekeeper protect add|change|del, shadow on|off",
                requests: &["add", "change", "del", "shadow"],
            },
            Change {
                section: "gatekeeper.program[]",
                by: "rutter gatekeeper program load|unload",
                requests: &["load_program", "unload_program"],
            },
        ];
        const READS: &[&str] = &["show", "protections", "programs", "flows", "flush"];
        Requests { all: api::names::<gatekeeper::Request>(), changes: CHANGES, reads: READS }
    }

    fn serves(&self, config: &Config) -> bool {
        Shield::of(config).is_some()
    }

    /// Ports by which the front comes in: all packets of a flow meet one worker's table.
    fn by_pair(&self, config: &Config, port: &config::Port) -> bool {
        let Some(shield) = Shield::of(config) else { return false };
        ports_of(config, &fronts(config, shield)).any(|name| name == port.name)
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>, Error> {
        let Some(shield) = Shield::of(setup.config) else { return Ok(Box::new(Off)) };
        let workers = setup.config.workers.len();
        let (told, usual) = settings(setup.config, shield);
        let settings = Arc::new(Published::new(setup.domain, told.clone()));
        let most = Limits::default().protections;
        let counters: Vec<_> = (0..workers).map(|_| Counters::new(most)).collect();
        let programs = Programs::new(&shield.programs, setup.domain)
            .map_err(|(at, why)| Error::asked(&["gatekeeper", "program", &at.to_string()], why))?;
        let parts = parts(shield, &settings, &counters, &programs)?;
        Ok(Box::new(Guarding {
            check_sources: setup.config.vrfs.iter().any(|vrf| !vrf.own_sources),
            fronts: fronts(setup.config, shield),
            shield: shield.clone(),
            forwarding: setup.forwarding.clone(),
            domain: setup.domain.clone(),
            settings,
            told: Mutex::new(told),
            usual,
            counters,
            programs,
            parts: Mutex::new(parts),
            live: Mutex::default(),
            started: Seen { at: Instant::now(), counts: [0; 2] },
        }))
    }
}

/// No shield is configured.
struct Off;

impl Running for Off {
    fn nodes(&mut self, _: usize, assembly: Assembly) -> Assembly {
        assembly
    }

    fn answer(&self, request: &Request, _: &State, _: &mut Client) -> Option<Answered> {
        asked(request).map(|_| Err(answer::no_shield()))
    }
}

/// The shield of a running instance.
struct Guarding {
    shield: Shield,
    /// Interfaces of the front: those that are named first.
    fronts: Vec<String>,
    check_sources: bool,
    forwarding: Arc<Forwarding>,
    domain: Arc<Domain>,
    settings: Arc<Published<Settings>>,
    /// The last published state.
    told: Mutex<Settings>,
    /// Addresses at the back, by the configuration.
    usual: Vec<IpAddr>,
    /// By worker.
    counters: Vec<Arc<Counters>>,
    programs: Programs,
    /// Of the workers that have no nodes yet.
    parts: Mutex<Vec<Parts>>,
    live: Mutex<Live>,
    started: Seen,
}

impl Running for Guarding {
    fn nodes(&mut self, _: usize, assembly: Assembly) -> Assembly {
        let parts = lock(&self.parts).remove(0); // once a worker, in their order
        nodes::router::shield(data::add(assembly, parts), self.check_sources, ENTRY)
    }

    fn prepare(
        &mut self,
        control: &mut Control,
        kernel: Option<&mut KernelSide>,
    ) -> Result<(), Error> {
        live::prepare(&self.shield, &self.fronts, control, kernel)
    }

    fn answer(&self, request: &Request, state: &State, out: &mut Client) -> Option<Answered> {
        asked(request).map(|asked| self.answered(asked, state, out))
    }

    fn look(&self, state: &State) {
        live::look(self, state);
        self.programs.look();
    }

    fn findings(&self, state: &State) -> Result<Vec<Finding>, Failure> {
        findings::all(self, state)
    }

    fn capacity(&self, state: &State) -> Result<Vec<Capacity>, Failure> {
        capacity::lines(self, state)
    }
}

fn asked(request: &Request) -> Option<&Asked> {
    match request {
        Request::App(AppRequest::Gatekeeper(asked)) => Some(asked),
        _ => None,
    }
}

/// Interfaces by which the world comes in: those of `front`, and what else of main has their
/// ports, unless it is named in `back`. Who sends frames with a tag can leave the tag out.
fn fronts(config: &Config, shield: &Shield) -> Vec<String> {
    let ports: Vec<_> = ports_of(config, &shield.front).collect();
    let is_named = |name: &String| shield.front.contains(name) || shield.back.contains(name);
    let others = config.interfaces().filter(|(carrier, tags, of)| {
        let shares = carrier.ports(*tags).iter().any(|port| ports.contains(port));
        shares && of.vrf == "main" && !is_named(&of.name)
    });
    shield.front.iter().cloned().chain(others.map(|(.., of)| of.name.clone())).collect()
}

/// Names of the ports by which frames of these interfaces come and go.
fn ports_of<'c>(config: &'c Config, names: &[String]) -> impl Iterator<Item = &'c str> {
    let all = config.interfaces().filter(|(.., of)| names.contains(&of.name));
    all.flat_map(|(carrier, tags, _)| carrier.ports(tags))
}

/// The first settings of the nodes, and the configuration's addresses at the back.
fn settings(config: &Config, shield: &Shield) -> (Settings, Vec<IpAddr>) {
    let back = config.interfaces().filter(|(.., of)| shield.back.contains(&of.name));
    let addresses: Vec<_> =
        back.flat_map(|(.., of)| of.addresses.iter().map(|net| net.address)).collect();
    let workers = config.workers.len() as u32;
    let settings = Settings {
        from: ends(shield, &addresses),
        ports: shield.ports,
        decisions_from: shield.decisions_from,
        errors_per_s: shield.icmp_rate.div_ceil(workers),
    };
    (settings, addresses)
}

/// Addresses in the order in which they serve: the one that does stays while the back has it;
/// then the file's. Until the back had one of a family, the file's are soon there.
fn candidates(serving: Ends, back: &[IpAddr], usual: &[IpAddr], had: [bool; 2]) -> Vec<IpAddr> {
    let serving = [serving.v4.map(IpAddr::V4), serving.v6.map(IpAddr::V6)];
    let stays = serving.into_iter().flatten().filter(|ip| back.contains(ip));
    let is_there = |ip: &IpAddr| !had[usize::from(ip.is_ipv6())] || back.contains(ip);
    let usual = usual.iter().copied().filter(is_there);
    stays.chain(usual).chain(back.iter().copied()).collect()
}

/// What Grantors are asked from: as configured, else the first of `back` of each family.
fn ends(shield: &Shield, back: &[IpAddr]) -> Ends {
    let [v4, v6] = shield.from;
    let usual = |v6: bool| {
        let mut fit = back.iter().filter(|ip| ip.is_ipv6() == v6);
        fit.find(|ip| !config::net::is_link_local6(**ip)).copied()
    };
    let both = [v4.or_else(|| usual(false)), v6.or_else(|| usual(true))];
    let mut ends = Settings::default().from;
    for ip in both.into_iter().flatten() {
        match ip {
            IpAddr::V4(ip) => ends.v4 = Some(ip),
            IpAddr::V6(ip) => ends.v6 = Some(ip),
        }
    }
    ends
}

/// Tables, rings and a share of the channel for each worker. The tables' pages are touched
/// here: no packet waits for the kernel to clear them.
fn parts(
    shield: &Shield,
    settings: &Arc<Published<Settings>>,
    counters: &[Arc<Counters>],
    programs: &Programs,
) -> Result<Vec<Parts>, Error> {
    let workers = counters.len();
    let mix = Mix::new(secret::<1>()?[0]);
    let channel = Channel::new(shield.requests, workers, clock::now());
    let here = shield.here.map(|each| {
        let each = each.saturating_mul(DECISION);
        (Channel::new(each, workers, clock::now()), rings(workers))
    });
    let (hears, mut heard) = rings(workers);
    let mut makes = here.map(|(channel, (hears, made))| {
        heard.iter_mut().zip(made).for_each(|(heard, made)| heard.extend(made));
        (channel, hears.into_iter())
    });
    let rings = hears.into_iter().zip(heard).zip(counters).enumerate();
    rings
        .map(|(worker, ((hears, heard), counters))| {
            Ok(Parts {
                settings: settings.clone(),
                counters: counters.clone(),
                mix,
                flows: Some(flows(shield, workers)?),
                heard,
                hears,
                programs: programs.table(),
                capacity: shield.waiting,
                member: channel.member(worker),
                here: makes.as_mut().and_then(|(channel, hears)| {
                    Some(Here { member: channel.member(worker), hears: hears.next()? })
                }),
            })
        })
        .collect()
}

/// By worker, an end of a ring to or from each.
type ByWorker<End> = Vec<Vec<End>>;

/// Rings from each worker to each: by who gives, and by who takes.
fn rings(workers: usize) -> (ByWorker<Producer<Heard>>, ByWorker<Consumer<Heard>>) {
    let mut hears: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    let mut heard: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    let room = (DECISIONS / workers.next_power_of_two()).max(LEAST);
    for hears in &mut hears {
        for heard in &mut heard {
            let (to, from) = spsc::ring::<Heard>(room);
            hears.push(to);
            heard.push(from);
        }
    }
    (hears, heard)
}

/// One worker's table.
fn flows(shield: &Shield, workers: usize) -> Result<Flows, Error> {
    let table = &shield.table;
    let wanted = Wanted { entries: table.entries.div_ceil(workers), second: clock::hz() };
    let asked = |error: &dyn std::fmt::Display| Error::asked(&["gatekeeper", "entries"], error);
    let engine = engine(table.engine).ok_or_else(|| asked(&"there is no such table"))?;
    let built = (engine.build)(wanted, &table.options).map_err(|refusal| asked(&refusal))?;
    Ok(Flows::new(built, table.full == Full::Thesis))
}

/// Decisions that may wait for a worker, of all that hear some for it; and of each of these
/// at least.
const DECISIONS: usize = 1 << 13;
const LEAST: usize = 1 << 9;
