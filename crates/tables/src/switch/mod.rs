//! The bridge thread's state: which stations there are, and where.
//!
//! One thread owns it. Workers tell it what they see ([`Switch::learn`]), it
//! writes the MAC table in place, forgets what is silent ([`Switch::sweep`]), and
//! lays the bridges out anew when a port goes up or down.
//!
//! ```text
//!  worker ─ Learn ─► ring ─► learn ─► MAC table ◄─ readers
//!                              │         ▲
//!                  limits, moves, held   └ sweep: a slice at a time, an entry of 8 ticks or more goes
//! ```

mod ageing;
mod config;
mod learning;
mod loops;
mod moves;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use lookup::exact::mac_table::{Fate, MacWriter, Settings};
use lookup::exact::{Key, Refused, Writer};
use lookup::sync::Domain;

pub use config::{BridgeConfig, Member, Mode, WhenFull};
pub use loops::{LoopDetection, Looped, Sighting};

use self::ageing::Ageing;
use self::config::{PortState, layout};
use self::loops::PortLoop;
use self::moves::Moves;
use crate::bridge::DomainId;
use crate::macs::{STATIC, entry, entry_port, entry_tick};
use crate::{Forwarding, Ifaces, PortId, Tags};

/// All that the bridge thread knows and writes.
pub struct Switch {
    forwarding: Arc<Forwarding>,
    bridges: Vec<BridgeConfig>,
    /// By domain: its bridge, and its VLAN.
    domains: Vec<(u16, u16)>,
    ports: Vec<PortState>,
    writer: MacWriter,
    moves: Moves,
    /// By port.
    loops: Vec<PortLoop>,
    /// By port: the bridge it is in.
    bridge_by_port: Vec<u16>,
    /// Learnt stations by port, and their limit.
    by_port: Vec<Share>,
    /// Learnt stations by bridge, and their limit.
    by_bridge: Vec<Share>,
    ageing: Ageing,
    /// By bridge.
    counters: Vec<Counters>,
    notices: Vec<Notice>,
    /// Further addresses of routed interfaces, and their ports.
    further: BTreeMap<Key, u16>,
}

/// Learnt stations of a port or a bridge.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// How many there are.
    pub used: u64,
    /// How many there may be.
    pub limit: u64,
    /// How many were refused.
    pub refused: u64,
}

impl Share {
    fn has_room(&self) -> bool {
        self.used < self.limit
    }
}

/// Why a static station is not taken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RefusedStatic {
    /// It would take the routed interface off the network.
    #[error("the address is the bridge's own")]
    Own,
    /// There is no place.
    #[error(transparent)]
    Full(#[from] Refused),
}

/// What happened in a bridge since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Messages of workers about its stations.
    pub seen: u64,
    /// Stations that were new.
    pub learnt: u64,
    /// Stations that changed their port.
    pub moved: u64,
    /// Moves that were refused because the station had moved too often.
    pub held: u64,
    /// Stations that were silent for too long.
    pub aged: u64,
    /// Stations forgotten on a flush, or because their port went down.
    pub flushed: u64,
    /// Stations that were not learnt: of their port, their bridge or the table
    /// the limit was reached.
    pub refused: u64,
    /// Stations that lost their place to another.
    pub replaced: u64,
    /// Frames of a static station that came by another port than its own.
    pub misplaced: u64,
    /// Loops found behind its ports.
    pub loops: u64,
}

/// Something that somebody should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// A station moves all the time: it is held for a minute.
    Flapping {
        /// Which.
        key: Key,
        /// The newest claim.
        port: u16,
        /// Where it is held: where it was before. `None`: nowhere, it is flooded.
        home: Option<u16>,
    },
    /// There is a loop behind a port.
    Loop(Looped),
    /// There is none any more behind this port.
    LoopOver(u16),
}

/// A station, for people.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Station {
    /// Its address, and its domain.
    pub key: Key,
    /// Its port.
    pub port: u16,
    /// Seconds since it was seen, to the length of a tick; `None`: static.
    pub age: Option<u64>,
}

/// Which stations.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Which {
    /// Of these domains.
    pub domains: Option<BTreeSet<DomainId>>,
    /// At this port.
    pub port: Option<u16>,
    /// With this address.
    pub mac: Option<[u8; 6]>,
}

impl Which {
    fn takes(&self, key: Key, entry: u16) -> bool {
        let domain = DomainId(key.domain());
        self.domains.as_ref().is_none_or(|domains| domains.contains(&domain))
            && self.port.is_none_or(|port| port == entry_port(entry))
            && self.mac.is_none_or(|mac| mac == key.octets())
    }
}

impl Switch {
    /// Bridges over `ports` devices, all down. Bridge `i`'s routed interface, which
    /// answers to the address `macs[i]`, is port `ports + i`.
    ///
    /// # Errors
    /// When there is no memory for the smallest table, or more stations are asked
    /// for than a table can hold.
    pub fn new(
        forwarding: &Arc<Forwarding>,
        domain: &Arc<Domain>,
        bridges: Vec<BridgeConfig>,
        (ports, macs): (u16, &[[u8; 6]]),
    ) -> Result<Switch, Refused> {
        let domains = bridges
            .iter()
            .zip(0..)
            .flat_map(|(bridge, i)| bridge.vlans().into_iter().map(move |vlan| (i, vlan)));
        let domains: Vec<(u16, u16)> = std::iter::once((u16::MAX, 0)).chain(domains).collect();
        let most: u64 = bridges.iter().map(|bridge| bridge.max_macs).sum();
        // Every domain may have its routed interface's address.
        let most = most as usize + domains.len() * 2;
        let settings = Settings::new(most);
        let writer = MacWriter::new(settings, domain)?;
        let ageing = Ageing::new(bridges.iter().map(|bridge| bridge.ageing), Instant::now());
        let share = |limit| Share { limit, ..Share::default() };
        let all = usize::from(ports) + bridges.len();
        let mut by_port = vec![share(u64::MAX); all];
        let mut bridge_by_port = vec![u16::MAX; all];
        for (i, bridge) in (0..).zip(&bridges) {
            for member in &bridge.members {
                let port = usize::from(member.port.0);
                if let Some(slot) = by_port.get_mut(port) {
                    slot.limit = member.max_macs.unwrap_or(u64::MAX);
                    bridge_by_port[port] = i;
                }
            }
        }
        let counters = vec![Counters::default(); bridges.len()];
        let mut switch = Switch {
            forwarding: forwarding.clone(),
            by_bridge: bridges.iter().map(|bridge| share(bridge.max_macs)).collect(),
            bridges,
            domains,
            ports: vec![PortState::default(); ports.into()],
            writer,
            moves: Moves::default(),
            loops: vec![PortLoop::default(); ports.into()],
            bridge_by_port,
            by_port,
            ageing,
            counters,
            notices: Vec::new(),
            further: BTreeMap::new(),
        };
        switch.add_own(macs)?;
        forwarding.macs.serve(switch.writer.shared().clone());
        switch.publish();
        Ok(switch)
    }

    /// The routed interfaces' own addresses.
    fn add_own(&mut self, macs: &[[u8; 6]]) -> Result<(), Refused> {
        for (i, (bridge, mac)) in self.bridges.clone().iter().zip(macs).enumerate() {
            let port = (self.ports.len() + i) as u16;
            for vlan in &bridge.routed {
                if let Some(domain) = self.domain(&bridge.name, *vlan) {
                    self.writer.insert(Key::of(*mac, domain.0), entry(port, STATIC))?;
                }
            }
        }
        Ok(())
    }

    /// Makes the further addresses of routed interfaces (macvlans on them, VRRP's) stations of
    /// their routed sides, or lets them go: such an address may be at a port, as long as
    /// another router has it.
    pub fn answer_to(&mut self, ifaces: &Ifaces) {
        let mut wanted = BTreeMap::new();
        for iface in ifaces.list.iter().filter(|iface| iface.up && !iface.macs.is_empty()) {
            let bridge = usize::from(iface.port.0).checked_sub(self.ports.len());
            let Some(bridge) = bridge.and_then(|at| self.bridges.get(at)) else { continue };
            let vlan = if let Tags::Dot1q(vlan) = iface.tags { vlan } else { 0 };
            let Some(domain) = self.domain(&bridge.name, vlan) else { continue };
            wanted.extend(iface.macs.iter().map(|mac| (Key::of(*mac, domain.0), iface.port.0)));
        }
        if wanted == self.further {
            return;
        }
        let before = std::mem::take(&mut self.further);
        for &key in before.keys().filter(|key| !wanted.contains_key(key)) {
            self.writer.delete(key);
            self.forwarding.macs.count_flush(); // who has just seen it at a port says so again
        }
        for (key, port) in wanted {
            let is_static = |entry: u16| entry_tick(entry) == STATIC;
            if before.contains_key(&key) {
                self.further.insert(key, port);
            } else if self.writer.get(key).is_some_and(is_static) {
                // The interface's own address, or a configured station: not ours to take out.
            } else if let Ok(old) = self.writer.insert(key, entry(port, STATIC)) {
                old.into_iter().for_each(|old| self.leave(key, old));
                self.further.insert(key, port);
            } // else the table is full: it is flooded until a later call finds room
        }
    }

    /// The domain of a bridge's VLAN; 0 for that of a bridge that does not look at tags.
    pub fn domain(&self, bridge: &str, vlan: u16) -> Option<DomainId> {
        let is = |&(at, of): &(u16, u16)| {
            let found = self.bridges.get(usize::from(at));
            of == vlan && found.is_some_and(|found| found.name == bridge)
        };
        self.domains.iter().position(is).map(|at| DomainId(at as u16))
    }

    /// The bridge's name and the VLAN of a domain.
    pub fn name(&self, domain: DomainId) -> Option<(&str, u16)> {
        let &(at, vlan) = self.domains.get(usize::from(domain.0))?;
        Some((&self.bridges.get(usize::from(at))?.name, vlan))
    }

    fn publish(&self) {
        self.forwarding.bridges.publish(layout(&self.bridges, &self.ports));
    }

    /// Counts something that happened to a station.
    fn count(&mut self, key: Key, add: impl FnOnce(&mut Counters)) {
        if let Some(counters) = self.bridge_of(key).and_then(|at| self.counters.get_mut(at)) {
            add(counters);
        }
    }

    fn bridge_of(&self, key: Key) -> Option<usize> {
        self.bridge_of_domain(DomainId(key.domain()))
    }

    fn bridge_of_domain(&self, domain: DomainId) -> Option<usize> {
        let &(at, _) = self.domains.get(usize::from(domain.0))?;
        Some(usize::from(at)).filter(|&at| at < self.bridges.len())
    }

    /// A device's link came or went. What was learnt at a port that goes down is
    /// no longer used at once, and forgotten soon.
    pub fn set_link(&mut self, port: u16, up: bool) {
        let Some(state) = self.ports.get_mut(usize::from(port)) else { return };
        if state.up == up {
            return;
        }
        state.up = up;
        if !up {
            // Two rounds and the rest of the one under way: an entry that an
            // insertion moves behind the sweep is met by the next.
            state.flushing = ROUNDS;
            self.forget_loop(port);
        }
        self.publish();
    }

    /// Makes room for so many stations at once, instead of growing as they come.
    ///
    /// # Errors
    /// When there is no memory; those that come are taken in all the same, as far as it goes.
    pub fn reserve(&mut self, stations: usize) -> Result<(), Refused> {
        self.writer.reserve(stations)
    }

    /// Adds a station that does not age.
    ///
    /// # Errors
    /// When the table is full, or the address is the routed interface's own.
    pub fn insert_static(
        &mut self,
        mac: [u8; 6],
        at: DomainId,
        port: u16,
    ) -> Result<(), RefusedStatic> {
        let key = Key::of(mac, at.0);
        if self.is_own(key) {
            return Err(RefusedStatic::Own);
        }
        if let Some(old) = self.writer.insert(key, entry(port, STATIC))? {
            self.leave(key, old);
        }
        Ok(())
    }

    /// Forgets one station, static or learnt; false where there is none. The
    /// routed interfaces' own stay.
    pub fn delete(&mut self, mac: [u8; 6], domain: DomainId) -> bool {
        let key = Key::of(mac, domain.0);
        if self.is_own(key) {
            return false;
        }
        let gone = self.writer.delete(key);
        self.forwarding.macs.count_flush();
        gone.into_iter().for_each(|entry| self.leave(key, entry));
        gone.is_some()
    }

    /// True for the address of a routed interface.
    fn is_own(&self, key: Key) -> bool {
        let at = |entry| usize::from(entry_port(entry));
        self.writer.get(key).is_some_and(|entry| at(entry) >= self.ports.len())
    }

    /// Forgets learnt stations; returns how many.
    pub fn flush(&mut self, which: &Which) -> u64 {
        let mut gone = Vec::new();
        // The rest of a round, and then a whole one.
        for _ in 0..2 {
            self.writer.sweep(usize::MAX, |key, value| {
                if entry_tick(value) == STATIC || !which.takes(key, value) {
                    return Fate::Keep;
                }
                gone.push((key, value));
                Fate::Remove
            });
        }
        self.forwarding.macs.count_flush();
        let count = gone.len() as u64;
        for (key, value) in gone {
            self.count(key, |counters| counters.flushed += 1);
            self.leave(key, value);
        }
        count
    }

    /// Stations, at most `limit` of them, and how many there are.
    pub fn stations(&self, which: &Which, limit: usize) -> (Vec<Station>, u64) {
        let (mut found, mut count) = (Vec::new(), 0);
        self.writer.for_each(|key, value| {
            if which.takes(key, value) {
                count += 1;
                if found.len() < limit {
                    let age = self.age_s(key, value);
                    found.push(Station { key, port: entry_port(value), age });
                }
            }
        });
        (found, count)
    }

    /// What happened in bridge `i` of the configuration.
    pub fn counters(&self, i: usize) -> Counters {
        self.counters.get(i).copied().unwrap_or_default()
    }

    /// Learnt stations of each bridge, by name.
    pub fn shares(&self) -> impl Iterator<Item = (&str, Share)> {
        self.bridges.iter().map(|bridge| bridge.name.as_str()).zip(self.by_bridge.iter().copied())
    }

    /// Learnt stations of each port that has a limit of its own.
    pub fn port_shares(&self) -> impl Iterator<Item = (PortId, Share)> {
        let all = (0..).map(PortId).zip(self.by_port.iter().copied());
        all.filter(|(_, share)| share.limit != u64::MAX)
    }

    /// What the MAC table holds and could hold.
    pub fn capacity(&self) -> lookup::exact::Capacity {
        self.writer.capacity()
    }

    /// Stations that are held because they move too often.
    pub fn held(&self, now: Instant) -> Vec<Key> {
        self.moves.held(now)
    }

    /// What happened that somebody should know, since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The configuration of each bridge.
    pub fn bridges(&self) -> &[BridgeConfig] {
        &self.bridges
    }
}

/// Ends of rounds until a port is flushed.
const ROUNDS: u8 = 3;
