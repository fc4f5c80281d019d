//! Engines for tests: plain ones beside those of the registry, so that every way
//! a table can be updated, rebuilt or refused is tested whatever `lookup` offers.

use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use lookup::lpm::{Applied, Card, Engines, Entry, Lpm, Options, Refusal, Writer};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Hop, Rib};

use crate::control::MAIN_TABLE;
use crate::error::Error;
use crate::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use crate::limits::Memory;
use crate::{
    AdjacencyId, Control, Family, FibConfig, Iface, IfaceId, Kind, Limits, PortId, VrfConfig,
};

/// The engine of this name: one of these, or one of the registry's.
pub(crate) fn engine<A: Engines>(name: &str) -> Result<Entry<A>, Error> {
    let unknown = || Error::UnknownEngine { name: name.into(), family: Family::of_addr::<A>() };
    match name {
        "plain" => Ok(Entry { card: &PLAIN, build: build::<A, 0> }),
        "rebuilt" => Ok(Entry { card: &REBUILT, build: build::<A, 1> }),
        "short" => Ok(Entry { card: &SHORT, build: build::<A, 2> }),
        "wrong" => Ok(Entry { card: &WRONG, build: build::<A, 3> }),
        "rarely wrong" => Ok(Entry { card: &RARELY, build: build::<A, 4> }),
        "few" => Ok(Entry { card: &FEW, build: build::<A, 0> }),
        "slow" => Ok(Entry { card: &SLOW, build: build::<A, 5> }),
        _ => A::engine(name).copied().ok_or_else(unknown),
    }
}

/// `KIND`: 0 updates in place, 1 is rebuilt, 2 refuses host routes by
/// itself, 3 answers wrongly, 4 in the middle of a few networks only, 5 takes its
/// time to be built.
fn build<A: Engines, const KIND: u8>(
    rib: &Rib<A>,
    _: &Options,
    _: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    if KIND == 5 {
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(Box::new(Plain::<A, KIND>(Arc::new(Table(RwLock::new(rib.clone()))))))
}

struct Plain<A: Engines, const KIND: u8>(Arc<Table<A, KIND>>);
struct Table<A: Engines, const KIND: u8>(RwLock<Rib<A>>);

impl<A: Engines, const KIND: u8> Writer<A> for Plain<A, KIND> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.0.clone()
    }

    fn apply(&mut self, _: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        if KIND == 1 {
            return Ok(Applied::Rebuild);
        }
        if KIND == 2 && changes.iter().any(|c| c.prefix.len() == A::WIDTH && c.hop.is_some()) {
            return Err(Refusal { engine: "short", limit: "host routes".into() });
        }
        let mut rib = self.0.0.write().unwrap();
        for change in changes {
            rib.apply(change);
        }
        Ok(Applied::InPlace)
    }
}

impl<A: Engines, const KIND: u8> Lpm<A> for Table<A, KIND> {
    fn lookup(&self, dst: A) -> Hop {
        let hop = self.0.read().unwrap().lookup(dst).map(|(_, hop)| hop).unwrap_or_default();
        let rare = KIND == 4 && dst.to_u128() & 0xff == 0x77;
        if KIND == 3 || rare { Hop(hop.0 ^ 1) } else { hop }
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        dsts.iter().zip(hops).for_each(|(dst, hop)| *hop = self.lookup(*dst));
    }

    fn bytes(&self) -> usize {
        self.0.read().unwrap().bytes()
    }
}

const PLAIN: Card = Card {
    name: "plain",
    paper: "",
    help: "",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: None,
    options: &[],
};
const REBUILT: Card = Card { name: "rebuilt", ..PLAIN };
const SHORT: Card = Card { name: "short", ..PLAIN };
const WRONG: Card = Card { name: "wrong", ..PLAIN };
const RARELY: Card = Card { name: "rarely wrong", ..PLAIN };
const FEW: Card = Card { name: "few", max_prefixes: Some(20), ..PLAIN };
const SLOW: Card = Card { name: "slow", ..PLAIN };

/// A control thread's state with one registered reader, and what one sees
/// through it. Links 1 and 2 are the taps of Rutter's `p0` and `p1`, link 9 is
/// the kernel's own.
pub(crate) struct Bench {
    pub(crate) control: Control,
    pub(crate) reader: lookup::sync::Thread,
}

/// What packets meet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Seen {
    To(IfaceId, [u8; 6]),
    Other(Kind),
}

impl Bench {
    pub(crate) fn new(limits: Limits, engine: &str) -> Bench {
        Bench::with_memory(limits, engine, Memory::of(|| None))
    }

    pub(crate) fn with_memory(limits: Limits, engine: &str, memory: Memory) -> Bench {
        let domain = Domain::new();
        let fib =
            FibConfig { engine: Some(engine.into()), max_routes: 100, ..FibConfig::default() };
        let config = VrfConfig { v4: fib.clone(), v6: fib, ..VrfConfig::default() };
        let mut control = Control::with_memory(&domain, limits, &config, memory).unwrap();
        for (i, name) in ["p0", "p1"].into_iter().enumerate() {
            let port = PortId(i as u16);
            let iface = Iface { name: name.into(), port, ..Iface::default() };
            control.add_iface(iface).unwrap();
        }
        let reader = domain.register("reader");
        let mut bench = Bench { control, reader };
        bench.handle(&[link(1, "p0", true), link(2, "p1", true), link(9, "eth0", true)]);
        bench
    }

    pub(crate) fn handle(&mut self, events: &[Event]) {
        self.control.handle(events);
        self.reader.quiesce();
    }

    /// Ticks until nothing is due.
    pub(crate) fn settle(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            self.reader.quiesce();
            self.control.tick();
            let follow = self.control.next_hops.has_later();
            if self.control.pause() > Duration::from_millis(50) && !follow {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        panic!("not settled");
    }

    pub(crate) fn hop(&self, vrf: u16, ip: &str) -> Hop {
        let vrfs = self.control.forwarding().vrfs.load(self.reader.guard());
        match ip.parse().unwrap() {
            IpAddr::V4(ip) => vrfs[usize::from(vrf)].v4.lookup(ip.into()),
            IpAddr::V6(ip) => vrfs[usize::from(vrf)].v6.lookup(ip.into()),
        }
    }

    /// What the front view of a VRF answers; `None` without one.
    pub(crate) fn front(&self, vrf: u16, ip: &str) -> Option<Hop> {
        let vrfs = self.control.forwarding().vrfs.load(self.reader.guard());
        let view = vrfs[usize::from(vrf)].front.as_ref()?;
        Some(match ip.parse().unwrap() {
            IpAddr::V4(ip) => view.v4.lookup(ip.into()),
            IpAddr::V6(ip) => view.v6.lookup(ip.into()),
        })
    }

    /// The hops of all flows, the same ones once.
    fn hops(&self, vrf: u16, ip: &str) -> Vec<Hop> {
        self.flows(self.hop(vrf, ip))
    }

    fn flows(&self, hop: Hop) -> Vec<Hop> {
        let hops = self.control.forwarding().hops.load(self.reader.guard());
        let step = hops.step(hop);
        if step.kind() != Kind::Multipath {
            return vec![hop];
        }
        let mut all: Vec<_> = (0..64).map(|i| hops.member(step.index(), i << 26)).collect();
        all.dedup();
        all
    }

    /// The MTUs of the ways to `ip`, which are all resolved.
    pub(crate) fn mtus(&self, ip: &str) -> Vec<u16> {
        let hops = self.control.forwarding().hops.load(self.reader.guard());
        let mtu = |hop| hops.adjacency(hops.step(hop).forward().unwrap()).out().mtu();
        self.hops(0, ip).into_iter().map(mtu).collect()
    }

    /// What every flow in turn meets, without repetition.
    pub(crate) fn see_all(&self, vrf: u16, ip: &str) -> Vec<Seen> {
        self.see_hop(self.hop(vrf, ip))
    }

    /// What every flow of a hop meets.
    pub(crate) fn see_hop(&self, hop: Hop) -> Vec<Seen> {
        let hops = self.control.forwarding().hops.load(self.reader.guard());
        let mut seen: Vec<Seen> = Vec::new();
        for hop in self.flows(hop) {
            let step = hops.step(hop);
            let what = match step.kind() {
                Kind::Forward => {
                    let adjacency = hops.adjacency(AdjacencyId(step.index())).get();
                    let at = adjacency.header.len() - usize::from(adjacency.len);
                    Seen::To(adjacency.iface, adjacency.header[at..at + 6].try_into().unwrap())
                }
                kind => Seen::Other(kind),
            };
            if !seen.contains(&what) {
                seen.push(what);
            }
        }
        seen
    }

    pub(crate) fn see(&self, ip: &str) -> Seen {
        match self.see_all(0, ip)[..] {
            [one] => one,
            ref all => panic!("{ip} has {all:?}"),
        }
    }

    pub(crate) fn used(&self, what: &str) -> u64 {
        self.control.capacity().iter().find(|c| c.what == what).unwrap().used
    }

    pub(crate) fn refused(&self, what: &str) -> u64 {
        self.control.capacity().iter().filter(|c| c.what == what).map(|c| c.refused).sum()
    }
}

pub(crate) fn link(index: u32, name: &str, up: bool) -> Event {
    Event::Link(link_of(index, name, up))
}

pub(crate) fn link_of(index: u32, name: &str, up: bool) -> Link {
    let (index, name) = (LinkId(index), name.into());
    let mac = [2, 0, 0, 0, 0, index.0 as u8];
    Link { index, name, up, mtu: 1500, mac, ..Link::default() }
}

pub(crate) fn address(link: u32, text: &str) -> Event {
    let (ip, len) = text.split_once('/').unwrap();
    let (ip, len) = (ip.parse().unwrap(), len.parse().unwrap());
    Event::Address(Address { link: LinkId(link), ip, len })
}

/// A neighbour whose MAC ends in `mac`; 0: not resolved.
pub(crate) fn neighbour(link: u32, ip: &str, mac: u8) -> Event {
    let state = if mac == 0 { NeighbourState::Failed } else { NeighbourState::Stale };
    let mac = (mac != 0).then_some([4, 0, 0, 0, 0, mac]);
    Event::Neighbour(Neighbour { link: LinkId(link), ip: ip.parse().unwrap(), mac, state })
}

pub(crate) fn path(link: u32, via: &str) -> Path {
    let via = (!via.is_empty()).then(|| via.parse().unwrap());
    Path { link: LinkId(link), via, weight: 1, mtu: 0 }
}

pub(crate) fn to(link: u32, via: &str) -> Target {
    Target::Path(path(link, via))
}

pub(crate) fn route(net: &str, metric: u32, target: Target) -> Route {
    Route {
        table: MAIN_TABLE,
        net: net.parse().unwrap(),
        metric,
        protocol: 4,
        source: Source::Kernel,
        target,
    }
}

pub(crate) fn add(net: &str, metric: u32, target: Target) -> Event {
    Event::Route(route(net, metric, target), How::Create)
}

pub(crate) fn del(net: &str, metric: u32, target: Target) -> Event {
    Event::RouteGone(route(net, metric, target))
}

/// Forwarded by `p0` (1) or `p1` (2) to the MAC that ends in `mac`.
pub(crate) fn by(iface: u16, mac: u8) -> Seen {
    Seen::To(IfaceId(iface), [4, 0, 0, 0, 0, mac])
}

/// For what takes milliseconds, without a sanitizer and a busy machine.
const LONG: Duration = Duration::from_secs(30);
