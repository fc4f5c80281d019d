//! Both worlds, kept in step: each event goes to both, and frames are compared before
//! either changes.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use tables::event::Event;
use tables::oracle::{Interface, Routing};

use super::bridging::Bridging;
use super::frames::{self, station};
use super::input::Input;
use super::loops::Loops;
use super::mirrors::Mirrors;
use super::oracle::Oracle;
use super::outcome::{Counts, Fates, Out, compare, count, hex};
use super::plan::{DEVICES, Plan, own_mac};
use super::stations::{Key, Stations};
use super::world::{World, class_name};

/// The state of a run.
pub struct Step {
    pub(super) world: World,
    pub(super) oracle: Oracle,
    /// All interfaces that there may be.
    pub(super) ifaces: Vec<Interface>,
    pub(super) counts: Counts,
    pub(super) now: Duration,
    waiting: Vec<(From, Vec<u8>)>,
    last: (u16, Vec<u8>),
    frames: usize,
    /// Queues of devices, or the pool, that are short: frames may be lost.
    pub(super) short: BTreeSet<u16>,
    /// Stations seen at ports since the last flush: workers need not report them again
    /// within a second.
    seen: HashSet<(Key, u16)>,
    flushes: u16,
}

/// Where a frame comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    Device(u16),
    /// The kernel, by this interface.
    Kernel(u16),
}

impl Step {
    /// A router in a small network: see [`Step::settle_in`].
    pub fn new(plan: &Plan) -> Step {
        let world = World::new(plan);
        let own: Vec<_> = (0..plan.bridges.len()).map(own_mac).collect();
        let ifaces = plan.ifaces.iter().cloned().map(Some).collect();
        let oracle = Oracle {
            routing: Routing::new(ifaces),
            bridging: Bridging {
                configs: plan.bridges.clone(),
                up: [true; DEVICES as usize],
                out: [false; DEVICES as usize],
            },
            loops: Loops::new(&plan.bridges),
            stations: Stations::new(plan.bridges.clone(), &own),
            mirrors: Mirrors::default(),
            known: plan.known.clone(),
            closed: plan.closed,
        };
        let mut step = Step {
            world,
            oracle,
            ifaces: plan.ifaces.clone(),
            counts: Counts::new(),
            now: Duration::ZERO,
            waiting: Vec::new(),
            last: (0, vec![0; 60]),
            frames: 0,
            short: BTreeSet::new(),
            seen: HashSet::new(),
            flushes: 0,
        };
        step.settle_in(plan.vrfs.len() as u16);
        step
    }

    /// Gives both an event. Steps of hops change at once, so frames that wait go before.
    pub(super) fn event(&mut self, event: &Event) {
        self.run();
        self.world.control.apply(event);
        self.oracle.routing.apply(event);
    }

    /// A frame by its description.
    pub fn frame(&mut self, bytes: [u8; frames::BYTES]) {
        let port = u16::from(bytes[0]) % DEVICES;
        let frame = frames::frame(bytes, self.mac_at(port));
        self.push(From::Device(port), frame);
    }

    /// A frame byte by byte.
    pub fn raw(&mut self, [port, length]: [u8; 2], more: &mut Input<'_>) {
        let length = usize::from(length).min(more.0.len());
        let frame = more.take(length).unwrap_or_default().to_vec();
        self.push(From::Device(u16::from(port) % DEVICES), frame);
    }

    /// The last frame with a byte changed, or cut off there.
    pub fn spoil(&mut self, [high, low, change]: [u8; 3]) {
        let (port, mut frame) = self.last.clone();
        let at = usize::from(u16::from_be_bytes([high, low])) % frame.len().max(1);
        match frame.get_mut(at) {
            Some(byte) if change > 0 => *byte ^= change,
            _ => frame.truncate(at),
        }
        self.push(From::Device(port), frame);
    }

    /// The last frame many times, at this port or another.
    pub fn again(&mut self, [times, port]: [u8; 2]) {
        let (last, frame) = self.last.clone();
        let port = if port < 128 { last } else { u16::from(port) % DEVICES };
        for _ in 0..times & 127 {
            self.push(From::Device(port), frame.clone());
        }
    }

    /// A frame that the kernel sends.
    pub fn sent_by_kernel(&mut self, bytes: [u8; frames::BYTES]) {
        let id = 1 + u16::from(bytes[0]) % self.ifaces.len() as u16;
        let found = self.oracle.routing.found(id);
        let mine = found.map_or([2; 6], |found| found.mac);
        let frame = frames::frame(bytes, station(bytes[1] >> 4));
        if frame.len() >= 12 {
            let from_us = [&frame[..6], &mine, &frame[12..]].concat();
            self.push(From::Kernel(id), from_us);
        }
    }

    /// What answers at a port: its bridge's routed side, or its first interface.
    fn mac_at(&self, port: u16) -> [u8; 6] {
        if let Some((bridge, _)) = self.oracle.bridging.member(port) {
            return own_mac(bridge);
        }
        let first = self.oracle.routing.ifaces.iter().flatten().find(|plan| plan.port == port);
        let found = first.and_then(|plan| self.oracle.routing.arriving(port, plan.tags));
        found.map_or([2; 6], |(_, found)| found.mac)
    }

    pub(super) fn push(&mut self, from: From, frame: Vec<u8>) {
        // The device hands nothing over that is longer, or empty.
        if frame.is_empty() || frame.len() > LONGEST || self.frames >= MOST_FRAMES {
            return;
        }
        if let From::Device(port) = from {
            self.last = (port, frame.clone());
        }
        self.oracle.loops.sent(&frame);
        self.frames += 1;
        self.waiting.push((from, frame));
        if self.waiting.len() >= AT_ONCE {
            self.run();
        }
    }

    /// Sends what waits, and looks at what becomes of it.
    pub fn run(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.world.commit();
        let waiting = std::mem::take(&mut self.waiting);
        let doubt = self.is_in_doubt(&waiting);
        for (from, frame) in &waiting {
            match from {
                From::Device(port) => self.world.peers[usize::from(*port)].push(frame),
                From::Kernel(id) => {
                    let port = self.oracle.routing.found(*id).map_or(0, |found| found.plan.port);
                    self.world.send(*id, port, frame);
                }
            }
        }
        let (before, begun) = (self.world.totals(), Instant::now());
        let seen = self.world.run();
        let after = self.world.totals();
        let fates = |(from, frame): &(From, Vec<u8>)| -> (String, Fates) {
            let fates = match from {
                From::Device(port) => self.oracle.received(*port, frame),
                From::Kernel(iface) => self.oracle.sent_by_kernel(*iface, frame),
            };
            (format!("{from:?} {}", hex(frame)), fates)
        };
        let mut expected: Vec<_> = waiting.iter().map(fates).collect();
        let old =
            expected.iter().any(|(_, fates)| fates.iter().any(|fate| fate.is_of_an_old_probe()));
        let (sightings, late) = self.sightings(&waiting);
        let scarce = doubt || old || late || !self.short.is_empty();
        expected.extend(self.probes(&seen, begun));
        let [transmitted, punted, received, kernel] = [0, 1, 2, 3].map(|i| after[i] - before[i]);
        let sent = seen.iter().filter(|out| matches!(out, Out::Sent(..))).count() as u64;
        let to_kernel = seen.iter().filter(|out| matches!(out, Out::Punted(..))).count() as u64;
        assert_eq!((transmitted, punted), (sent, to_kernel), "counters");
        let from_kernel =
            waiting.iter().filter(|(from, _)| matches!(from, From::Kernel(_))).count();
        assert_eq!(kernel, from_kernel as u64);
        assert!(!self.short.is_empty() || received == (waiting.len() - from_kernel) as u64);
        for out in &seen {
            if let Out::Punted(_, class, _) = out {
                let name = class_name(class.trailing_zeros() as u16);
                count(&mut self.counts, &format!("punted as {name}"));
            }
        }
        compare(&expected, seen, scarce, &mut self.counts);
        self.world.check();
        self.learn(&waiting);
        self.find_loops(&sightings, scarce);
    }

    /// Takes in what workers say of stations: it has to be true, and, of a station that
    /// is new, to be said.
    fn learn(&mut self, frames: &[(From, Vec<u8>)]) {
        let flushes = self.world.control.forwarding().macs.flushes();
        if flushes != self.flushes {
            self.flushes = flushes;
            self.seen.clear();
        }
        let mut here: HashSet<(Key, u16)> = HashSet::new();
        for (from, frame) in frames {
            let From::Device(port) = *from else { continue };
            let bridging = &self.oracle.bridging;
            let Ok((lan, _)) = bridging.classify(port, frame) else { continue };
            let is_ours = self.oracle.loops.is_ours(&frame[6..12]);
            if !is_ours && bridging.takes(port, frame, lan).is_ok() {
                here.insert(((lan, frame[6..12].try_into().expect("six bytes")), port));
            }
        }
        let stations = &self.oracle.stations;
        let unknown = here.iter().copied().filter(|(key, port)| !stations.knows(*key, *port));
        let unknown: Vec<_> = unknown.collect();
        let mut reported = HashSet::new();
        for (_, learn) in self.world.learnt() {
            let domain = tables::bridge::DomainId(learn.key.domain());
            let lan = self.world.lan(domain).expect("a domain that there is");
            let key = (lan, learn.key.octets());
            assert!(here.contains(&(key, learn.port)), "{key:?} was not seen at {}", learn.port);
            reported.insert((key, learn.port));
            let at = self.world.at(self.now);
            self.world.switch.learn(learn, at);
            self.oracle.stations.learn(key, learn.port, &mut self.counts);
            if self.oracle.stations.is_in_doubt() {
                self.compare_stations();
            }
        }
        // Also to a bridge that is full, or holds the station.
        for at in unknown.iter().filter(|at| self.short.is_empty() && !self.seen.contains(at)) {
            assert!(reported.contains(at), "{at:?} was not reported");
        }
        self.seen.extend(here);
        if !reported.is_empty() {
            self.compare_stations();
        }
    }

    pub(super) fn compare_stations(&mut self) {
        let table = self.world.stations();
        self.oracle.stations.check(&table, &mut self.counts);
    }

    /// Ends the run, and returns what it reached.
    pub fn end(mut self) -> Counts {
        self.run();
        self.world.starve(None);
        self.world.check();
        self.world.count(&mut self.counts);
        self.counts
    }
}

/// Frames of one step.
const AT_ONCE: usize = 100;
/// Frames of one run.
const MOST_FRAMES: usize = 2000;
/// Bytes that the pool's packets hold.
const LONGEST: usize = 2000;
