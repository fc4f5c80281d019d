//! The control thread's state: takes events in, and writes what the nodes read.
//!
//! One thread owns it. [`Control::apply`] takes events in, [`Control::commit`]
//! makes them visible to the readers, [`Control::tick`] does what is due later:
//! finished builds, ids whose grace period is over.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(not(test))]
use lookup::lpm::Entry;
use lookup::lpm::{Engines, Options};
use lookup::sync::Domain;

use crate::build::Builder;
use crate::error::Error;
use crate::event::{Address, Event, LinkId, PartialRoute, Route, Scope, Source, Why};
use crate::fib::Fib;
use crate::guards::Guards;
use crate::hops::fixed;
use crate::limits::{Limits, Memory, Refusals};
use crate::links::same_frames;
use crate::listing::Listing;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::table::Table;
use crate::targets::NextHops;
use crate::{Family, Forwarding, Iface, IfaceId, VrfId};

/// How a table of one family is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FibConfig {
    /// The engine's name; `None`: the default of the family.
    pub engine: Option<String>,
    /// Its options.
    pub options: Options,
    /// The most routes.
    pub max_routes: usize,
}

impl Default for FibConfig {
    fn default() -> Self {
        FibConfig { engine: None, options: Options::default(), max_routes: 4_000_000 }
    }
}

/// A set of routing tables.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VrfConfig {
    /// Its name.
    pub name: String,
    /// The kernel's table.
    pub table: u32,
    /// Which feed its routes come by; links, addresses and neighbours always
    /// come from the kernel, connected networks with them.
    pub source: Source,
    /// Packets may leave by interfaces that are not Rutter's.
    pub via_kernel: bool,
    /// Packets may come from this machine's own addresses.
    pub own_sources: bool,
    /// IPv4.
    pub v4: FibConfig,
    /// IPv6.
    pub v6: FibConfig,
}

impl Default for VrfConfig {
    fn default() -> Self {
        VrfConfig {
            name: "main".into(),
            table: MAIN_TABLE,
            source: Source::Kernel,
            via_kernel: false,
            own_sources: true,
            v4: FibConfig::default(),
            v6: FibConfig::default(),
        }
    }
}

/// The kernel's main table.
pub const MAIN_TABLE: u32 = 254;
/// The kernel's table of its own addresses.
pub const LOCAL_TABLE: u32 = 255;

/// All that the control thread knows and writes.
pub struct Control {
    pub(crate) domain: Arc<Domain>,
    pub(crate) forwarding: Arc<Forwarding>,
    pub(crate) next_hops: NextHops,
    pub(crate) vrfs: Vec<VrfState>,
    pub(crate) limits: Limits,
    pub(crate) refused_neighbours: Refusals,
    pub(crate) refused_memory: Refusals,
    pub(crate) refused_partial: Refusals,
    pub(crate) refused_protections: Refusals,
    /// Those that do not fit among the others, whatever there is room for.
    pub(crate) unfit_protections: Refusals,
    pub(crate) guards: Guards,
    /// With the dump that reported them last.
    pub(crate) partial: HashMap<PartialRoute, u8>,
    pub(crate) counters: Counters,
    pub(crate) sweeps: HashMap<Scope, Sweep>,
    /// By family and source: the listing that is or was the last.
    pub(crate) generations: [[u8; 2]; 2],
    by_table: HashMap<u32, VrfId>,
    pub(crate) builder: Builder,
    pub(crate) ifaces_changed: bool,
    /// What front interfaces look up in is to be published.
    pub(crate) views_changed: bool,
    pub(crate) pace: Pace,
    /// When memory was found short.
    memory_short: Option<Instant>,
}

/// One VRF.
pub(crate) struct VrfState {
    pub(crate) name: String,
    pub(crate) table: u32,
    pub(crate) source: Source,
    pub(crate) via_kernel: bool,
    pub(crate) own_sources: bool,
    /// It has interfaces at the front.
    pub(crate) has_front: bool,
    pub(crate) v4: Table<u32>,
    pub(crate) v6: Table<u128>,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Events taken in.
    pub events: u64,
    /// Routes that were new.
    pub routes_added: u64,
    /// Routes whose target changed.
    pub routes_changed: u64,
    /// Routes that went.
    pub routes_removed: u64,
    /// Routes of tables that are no VRF's, or of a feed that is not the VRF's.
    pub routes_ignored: u64,
    /// Listings that were compared to the end.
    pub listings: u64,
    /// Routes of FRR's that went because it did not repeat them.
    pub fpm_swept: u64,
    /// Differences that a background comparison found, and repaired.
    pub drift: u64,
    /// Changes made to forwarding tables.
    pub changes: u64,
}

/// A listing under way.
pub(crate) struct Sweep {
    pub(crate) why: Why,
    pub(crate) seen: HashSet<Item>,
    pub(crate) differences: u64,
}

/// What a listing names, routes aside.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Item {
    Link(LinkId),
    Address(Address),
    Neighbour(LinkId, IpAddr),
    NextHop(u32),
}

impl Control {
    /// One VRF, `main`, and no interface.
    ///
    /// # Errors
    /// When an engine is unknown or refuses an empty table.
    pub fn new(domain: &Arc<Domain>, limits: Limits, main: &VrfConfig) -> Result<Control, Error> {
        let memory = Memory::of_machine();
        Control::with_memory(domain, limits, main, memory)
    }

    pub(crate) fn with_memory(
        domain: &Arc<Domain>,
        limits: Limits,
        main: &VrfConfig,
        memory: Memory,
    ) -> Result<Control, Error> {
        let forwarding = Forwarding::new(domain);
        let pool = Pool::new(domain, &forwarding, limits, memory);
        let builder = Builder::new(forwarding.clone());
        let mut control = Control {
            domain: domain.clone(),
            forwarding,
            next_hops: NextHops::new(pool),
            vrfs: Vec::new(),
            limits,
            refused_neighbours: Refusals::default(),
            refused_memory: Refusals::default(),
            refused_partial: Refusals::default(),
            refused_protections: Refusals::default(),
            unfit_protections: Refusals::default(),
            guards: Guards::default(),
            partial: HashMap::new(),
            counters: Counters::default(),
            sweeps: HashMap::new(),
            generations: [[0; 2]; 2],
            by_table: HashMap::new(),
            builder,
            ifaces_changed: false,
            views_changed: false,
            pace: Pace::default(),
            memory_short: None,
        };
        control.add_vrf(main)?;
        Ok(control)
    }

    /// What the nodes read.
    pub fn forwarding(&self) -> &Arc<Forwarding> {
        &self.forwarding
    }

    /// Adds a set of routing tables.
    ///
    /// # Errors
    /// When the name or the kernel's table is taken, an engine is unknown or
    /// refuses an empty table.
    pub fn add_vrf(&mut self, config: &VrfConfig) -> Result<VrfId, Error> {
        let VrfConfig { name, table, .. } = config;
        if self.by_table.contains_key(table) || self.vrfs.iter().any(|vrf| vrf.name == *name) {
            return Err(Error::DuplicateVrf { name: name.clone(), table: *table });
        }
        let limit = usize::from(u16::MAX);
        if self.vrfs.len() >= limit {
            return Err(Error::TooMany { what: "VRFs", limit });
        }
        let vrf = VrfState {
            name: name.clone(),
            table: *table,
            source: config.source,
            via_kernel: config.via_kernel,
            own_sources: config.own_sources,
            has_front: false,
            v4: new_table(&config.v4, &self.domain)?,
            v6: new_table(&config.v6, &self.domain)?,
        };
        let id = VrfId(self.vrfs.len() as u16);
        self.vrfs.push(vrf);
        self.by_table.insert(*table, id);
        self.commit();
        self.publish_vrfs();
        Ok(id)
    }

    /// Drops packets as [`Kind::NotReady`](crate::Kind::NotReady) until the kernel's routes
    /// of their family have been listed once. For the VRFs that are there.
    pub fn await_listing(&mut self) {
        for vrf in &mut self.vrfs {
            vrf.v4.listing = Listing::Awaited(0);
            vrf.v6.listing = Listing::Awaited(0);
        }
        self.publish_vrfs();
    }

    /// Adds one of Rutter's interfaces. It is down until its tap, the kernel's
    /// link of the same name, is up; MAC and MTU are the tap's from then on.
    ///
    /// # Errors
    /// When the name is taken, another interface gets the same frames, the VRF is
    /// unknown, or no id is left.
    pub fn add_iface(&mut self, iface: Iface) -> Result<IfaceId, Error> {
        if usize::from(iface.vrf.0) >= self.vrfs.len() {
            return Err(Error::UnknownVrf);
        }
        let links = &mut self.next_hops.links;
        let clash = |other: &Iface| {
            !other.name.is_empty() && (other.name == iface.name || same_frames(other, &iface))
        };
        if let Some(other) = links.published().find(clash) {
            return Err(Error::DuplicateInterface { name: iface.name, with: other.name });
        }
        let too_many = Error::TooMany { what: "interfaces", limit: usize::from(u16::MAX) };
        let id = links.add_iface(Iface { up: false, ..iface }).ok_or(too_many)?;
        if let Some(link) = links.slot(id).and_then(|slot| slot.link) {
            self.link_changed(link);
        }
        self.ifaces_changed = true;
        Ok(id)
    }

    /// Takes an interface out; what leads over it is the kernel's from then on.
    pub fn remove_iface(&mut self, id: IfaceId) {
        let slot = self.next_hops.links.remove_iface(id);
        if let Some(link) = slot.and_then(|slot| slot.link) {
            self.link_changed(link);
            self.forget_neighbours(link);
        }
        self.ifaces_changed = true;
    }

    /// A port of the interface has a link again, or none has: known before the tap's
    /// link says so, which goes by the kernel. What packets take follows at once.
    pub fn set_carrier(&mut self, id: IfaceId, on: bool) {
        if let Some(link) = self.next_hops.links.set_carrier(id, on) {
            self.link_changed(link);
            self.commit();
        }
    }

    /// Takes a batch of events in and makes them visible.
    pub fn handle(&mut self, events: &[Event]) {
        for event in events {
            self.apply(event);
        }
        self.commit();
    }

    /// Takes an event in. Steps of hops change at once; interfaces and routes
    /// become visible with [`Control::commit`].
    pub fn apply(&mut self, event: &Event) {
        self.counters.events += 1;
        match event {
            Event::Link(link) => self.set_link(link),
            Event::LinkGone(link) => self.remove_link(*link),
            Event::Address(address) => self.add_address(*address),
            Event::AddressGone(address) => self.remove_address(*address),
            Event::Neighbour(neighbour) => self.set_neighbour(*neighbour),
            Event::NeighbourGone(link, ip) => self.remove_neighbour(*link, *ip),
            Event::NextHop(object) => self.set_object(object),
            Event::NextHopGone(id) => {
                self.next_hops.remove_object(*id);
            }
            Event::Route(route, how) => self.set_route(route, *how),
            Event::RouteGone(route) => self.remove_route(route),
            Event::Partial(route) => self.set_partial(route),
            Event::PartialGone(route) => self.remove_partial(route),
            Event::SweepBegin(scope, why) => self.begin_sweep(*scope, *why),
            Event::SweepEnd(scope) => self.end_sweep(*scope),
            Event::SweepAbort(scope) => self.abort_sweep(*scope),
        }
    }

    /// Makes what was taken in visible to the readers.
    pub fn commit(&mut self) {
        self.guards.publish(&self.forwarding.protections);
        self.publish_sides();
        self.retarget();
        let (seq, news) = (self.next_hops.seq, self.next_hops.take_news());
        let mut changes = 0;
        for vrf in &mut self.vrfs {
            changes += vrf.v4.commit(&mut self.next_hops, seq);
            changes += vrf.v6.commit(&mut self.next_hops, seq);
            changes += vrf.v4.commit_front(&mut self.next_hops, news, seq);
            changes += vrf.v6.commit_front(&mut self.next_hops, news, seq);
        }
        self.counters.changes += changes as u64;
        if std::mem::take(&mut self.views_changed) {
            self.publish_vrfs();
        }
        self.guards.publish_gone(&self.forwarding.protections);
        self.next_hops.seq += 1;
        self.tend_fibs();
    }

    /// Does what is due. Call it every [`Control::pause`].
    pub fn tick(&mut self) {
        self.tend_fibs();
        let fibs = self.vrfs.iter().map(|vrf| vrf.v4.synced().min(vrf.v6.synced()));
        let synced = fibs.min().unwrap_or(0);
        let domain = &self.domain;
        self.next_hops.poll(synced, || domain.mark(), |mark| domain.passed(mark));
        let pool = &mut self.next_hops.pool;
        let give = |hop| pool.give_hop(hop);
        self.guards.poll(synced, || domain.mark(), |mark| domain.passed(mark), give);
        self.follow();
        self.commit();
        self.domain.reclaim();
    }

    /// How long [`Control::tick`] may wait; after events and other changes it is asked anew.
    pub fn pause(&self) -> Duration {
        if self.pace.marks.is_some() {
            return Duration::ZERO;
        }
        let fibs = || self.vrfs.iter().any(|vrf| vrf.v4.is_busy() || vrf.v6.is_busy());
        let waiting = self.next_hops.is_waiting() || self.guards.is_waiting();
        let pause = if waiting || fibs() {
            SHORT
        } else if self.domain.waiting() > 0 {
            LONG
        } else {
            IDLE
        };
        if self.next_hops.has_later() { pause.min(self.pace.left(Instant::now())) } else { pause }
    }

    /// Begins to change the engine of a table: another is built beside, compared
    /// on a sample of addresses, and swapped to. [`Control::fib_info`] reports how it went.
    ///
    /// # Errors
    /// When VRF or engine are unknown, or a change is under way.
    pub fn set_engine(
        &mut self,
        vrf: VrfId,
        family: Family,
        name: &str,
        options: Options,
    ) -> Result<(), Error> {
        let vrf = self.vrfs.get_mut(usize::from(vrf.0)).ok_or(Error::UnknownVrf)?;
        let (builder, memory) = (&mut self.builder, &self.next_hops.pool.memory);
        match family {
            Family::V4 => vrf.v4.fib.set_engine(engine(name)?, options, builder, memory),
            Family::V6 => vrf.v6.fib.set_engine(engine(name)?, options, builder, memory),
        }
    }

    /// The VRF of this name.
    pub fn vrf_by_name(&self, name: &str) -> Option<VrfId> {
        let at = self.vrfs.iter().position(|vrf| vrf.name == name)?;
        Some(VrfId(at as u16))
    }

    /// The VRF of this kernel table.
    pub fn vrf_by_table(&self, table: u32) -> Option<VrfId> {
        self.by_table.get(&table).copied()
    }

    /// Which VRF a link is in: that of Rutter's interface, or of the VRF device
    /// above the link; else the main one.
    pub(crate) fn home(&self, link: LinkId) -> VrfId {
        let links = &self.next_hops.links;
        let Some(state) = links.get(link) else { return VrfId(0) };
        let master = state.link.master.and_then(|master| links.get(master));
        let table = state.link.vrf_table.or_else(|| master?.link.vrf_table);
        let segment = links.segment(link);
        if segment != link {
            return self.home(segment);
        }
        let configured = state.iface.and_then(|id| links.slot(id)).map(|slot| slot.vrf);
        table.and_then(|table| self.vrf_by_table(table)).or(configured).unwrap_or_default()
    }

    pub(crate) fn ifaces_changed(&mut self) {
        self.ifaces_changed = true;
    }

    /// Is there memory for one more route?
    pub(crate) fn has_memory(&mut self, route: &Route) -> bool {
        // A machine that is short is not asked again for every route.
        let short = self.memory_short.is_some_and(|since| since.elapsed() < MEMORY_PAUSE);
        if !short {
            let allowed = self.next_hops.pool.memory.allows(ROUTE_BYTES);
            self.memory_short = (!allowed).then(Instant::now);
        }
        if self.memory_short.is_some() {
            let reason = || "too little memory is free".into();
            self.refused_memory.note(|| route.net.to_string(), reason);
        }
        self.memory_short.is_none()
    }
}

fn new_table<A: Engines>(config: &FibConfig, domain: &Arc<Domain>) -> Result<Table<A>, Error> {
    let entry = engine(config.engine.as_deref().unwrap_or(A::DEFAULT))?;
    let fib = Fib::new(entry, config.options.clone(), fixed::VIA_KERNEL, domain)?;
    Ok(Table::new(fib, config.max_routes))
}

#[cfg(not(test))]
fn engine<A: Engines>(name: &str) -> Result<Entry<A>, Error> {
    let unknown = || Error::UnknownEngine { name: name.into(), family: Family::of_addr::<A>() };
    A::engine(name).copied().ok_or_else(unknown)
}

#[cfg(test)]
use crate::testing::engine;

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_millis(100);
/// Nothing is under way.
const IDLE: Duration = Duration::from_secs(1);
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// A route in all: candidate, rib, engine.
const ROUTE_BYTES: u64 = 160;
