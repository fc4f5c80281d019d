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

mod config;
mod moves;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lookup::exact::mac_table::{Fate, Inserted, MacWriter, Settings};
use lookup::exact::{Key, Refused, Writer};
use lookup::sync::Domain;

pub use config::{BridgeConfig, Member, Mode, WhenFull};

use self::config::{PortState, layout};
use self::moves::{Moves, Ruling};
use crate::Forwarding;
use crate::bridge::DomainId;
use crate::macs::{Learn, STATIC, TICKS, entry, entry_port, entry_tick};

/// All that the bridge thread knows and writes.
pub struct Switch {
    forwarding: Arc<Forwarding>,
    bridges: Vec<BridgeConfig>,
    /// By domain: its bridge, and its VLAN.
    domains: Vec<(u16, u16)>,
    ports: Vec<PortState>,
    writer: MacWriter,
    moves: Moves,
    /// By port: the bridge it is in.
    bridge_by_port: Vec<u16>,
    /// Learnt stations by port, and their limit.
    by_port: Vec<Share>,
    /// Learnt stations by bridge, and their limit.
    by_bridge: Vec<Share>,
    tick: u16,
    tick_due: Instant,
    tick_length: Duration,
    /// Lines of this tick's round, and when the last slice was done.
    sweep_done: usize,
    swept_at: Instant,
    counters: Counters,
    notices: Vec<Notice>,
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

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Messages of workers.
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
}

/// Something that somebody should know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// This station moves all the time, last to this port: it is held.
    Flapping(Key, u16),
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
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Which {
    /// Of this domain.
    pub domain: Option<DomainId>,
    /// At this port.
    pub port: Option<u16>,
    /// With this address.
    pub mac: Option<[u8; 6]>,
}

impl Which {
    fn takes(&self, key: Key, entry: u16) -> bool {
        self.domain.is_none_or(|domain| domain.0 == key.domain())
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
        let ageing = bridges.iter().map(|bridge| bridge.ageing).min().unwrap_or(300);
        let tick_length = Duration::from_secs(ageing.into()) / TICKS_OF_AGE.into();
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
        let mut switch = Switch {
            forwarding: forwarding.clone(),
            by_bridge: bridges.iter().map(|bridge| share(bridge.max_macs)).collect(),
            bridges,
            domains,
            ports: vec![PortState::default(); ports.into()],
            writer,
            moves: Moves::default(),
            bridge_by_port,
            by_port,
            tick: 0,
            tick_due: Instant::now() + tick_length,
            tick_length,
            sweep_done: 0,
            swept_at: Instant::now(),
            counters: Counters::default(),
            notices: Vec::new(),
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
                    self.insert_static(*mac, domain, port)?;
                }
            }
        }
        Ok(())
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

    /// Takes in what a worker saw.
    pub fn learn(&mut self, Learn { key, port }: Learn, now: Instant) {
        self.counters.seen += 1;
        // Also from a port that is down as far as we know: the frame was quicker than
        // the news, and an entry of a closed port does no harm.
        let known = usize::from(port) < self.ports.len();
        let Some(bridge) = self.bridge_of(key).filter(|_| known) else { return };
        match self.writer.get(key) {
            None => self.add(key, port, bridge),
            Some(old) if entry_port(old) == port => {
                if entry_tick(old) != STATIC {
                    self.writer.change(key, entry(port, self.tick));
                }
            }
            Some(old) if entry_tick(old) == STATIC => self.counters.misplaced += 1,
            Some(old) => self.follow(key, (entry_port(old), port), now),
        }
    }

    fn bridge_of(&self, key: Key) -> Option<usize> {
        let &(at, _) = self.domains.get(usize::from(key.domain()))?;
        Some(usize::from(at)).filter(|&at| at < self.bridges.len())
    }

    /// A station that is new.
    fn add(&mut self, key: Key, port: u16, bridge: usize) {
        let at_port = &mut self.by_port[usize::from(port)];
        if at_port.used >= at_port.limit {
            at_port.refused += 1;
            self.counters.refused += 1;
            return;
        }
        match self.insert(key, entry(port, self.tick), bridge) {
            Ok(Inserted::Replaced(old, entry)) => {
                self.counters.replaced += 1;
                self.leave(old, entry);
            }
            Ok(_) => {}
            Err(_) => {
                self.by_bridge[bridge].refused += 1;
                self.counters.refused += 1;
                return;
            }
        }
        self.counters.learnt += 1;
        self.by_port[usize::from(port)].used += 1;
        self.by_bridge[bridge].used += 1;
    }

    /// Where the bridge is full, or the table, in the place of a station of this
    /// bridge if it may be; never of another's.
    fn insert(&mut self, key: Key, value: u16, bridge: usize) -> Result<Inserted, Refused> {
        let Share { used, limit, .. } = self.by_bridge[bridge];
        let (now, bridges) = (self.tick, &self.bridge_by_port);
        let age = |old: u16| {
            let at = bridges.get(usize::from(entry_port(old)))?;
            if usize::from(*at) == bridge { age_of(old, now) } else { None }
        };
        match (self.bridges[bridge].when_full, used < limit) {
            (WhenFull::Replace, true) => self.writer.insert_or_replace(key, value, age),
            (WhenFull::Replace, false) => {
                self.writer.replace(key, value, age).map(|(old, was)| Inserted::Replaced(old, was))
            }
            (WhenFull::Refuse, true) => self.writer.insert(key, value).map(|_| Inserted::New),
            (WhenFull::Refuse, false) => {
                Err(Refused::Full { entries: used as usize, max_entries: limit as usize })
            }
        }
    }

    /// A learnt station has gone from the table.
    fn leave(&mut self, key: Key, entry: u16) {
        if entry_tick(entry) == STATIC {
            return;
        }
        let bridge = self.bridge_of(key);
        if let Some(share) = self.by_port.get_mut(usize::from(entry_port(entry))) {
            share.used = share.used.saturating_sub(1);
        }
        if let Some(share) = bridge.and_then(|bridge| self.by_bridge.get_mut(bridge)) {
            share.used = share.used.saturating_sub(1);
        }
    }

    /// A station was seen at another port.
    fn follow(&mut self, key: Key, (from, to): (u16, u16), now: Instant) {
        match self.moves.rule(key, now) {
            Ruling::Hold(first) => {
                self.counters.held += 1;
                if first && self.notices.len() < MOST_NOTICES {
                    self.notices.push(Notice::Flapping(key, to));
                }
            }
            Ruling::Follow => {
                self.counters.moved += 1;
                self.writer.change(key, entry(to, self.tick));
                if let Some(share) = self.by_port.get_mut(usize::from(from)) {
                    share.used = share.used.saturating_sub(1);
                }
                self.by_port[usize::from(to)].used += 1;
            }
        }
    }

    /// Does what is due: the next slice of the sweep, the next tick. Call it
    /// about every millisecond.
    pub fn sweep(&mut self, now: Instant) {
        if now >= self.tick_due {
            self.tick = (self.tick + 1) % TICKS;
            self.forwarding.macs.set_tick(self.tick);
            self.tick_due = now + self.tick_length;
            self.sweep_done = 0;
        }
        let flushing = self.ports.iter().any(|port| port.flushing > 0);
        let lines = self.writer.lines();
        let gone_by = now.saturating_duration_since(self.swept_at);
        self.swept_at = now;
        // A round a tick, done by its middle.
        let share = 2.0 * gone_by.as_secs_f64() / self.tick_length.as_secs_f64();
        let slice = match flushing {
            true => FLUSH_LINES,
            false if self.sweep_done < lines => (lines as f64 * share) as usize + 1,
            false => 0,
        };
        self.writer.grow_on(slice.min(GROW_LINES));
        if slice > 0 {
            self.sweep_done += slice;
            self.sweep_slice(slice);
        }
    }

    fn sweep_slice(&mut self, lines: usize) {
        let (tick, ports) = (self.tick, &self.ports);
        let mut gone = Vec::new();
        let mut flushed = 0;
        let round = self.writer.sweep(lines, |key, value| {
            let old = age_of(value, tick).is_some_and(|age| age >= TICKS_OF_AGE.into());
            let port = ports.get(usize::from(entry_port(value)));
            let flush = entry_tick(value) != STATIC && port.is_some_and(|p| p.flushing > 0);
            if !old && !flush {
                return Fate::Keep;
            }
            flushed += u64::from(flush);
            gone.push((key, value));
            Fate::Remove
        });
        self.counters.flushed += flushed;
        self.counters.aged += gone.len() as u64 - flushed;
        gone.into_iter().for_each(|(key, value)| self.leave(key, value));
        if round && self.ports.iter().any(|port| port.flushing > 0) {
            self.ports.iter_mut().for_each(|port| port.flushing = port.flushing.saturating_sub(1));
            self.forwarding.macs.count_flush();
            self.publish();
        }
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
        }
        self.publish();
    }

    /// Adds a station that does not age.
    ///
    /// # Errors
    /// When the table is full.
    pub fn insert_static(&mut self, mac: [u8; 6], at: DomainId, port: u16) -> Result<(), Refused> {
        let key = Key::of(mac, at.0);
        if let Some(old) = self.writer.insert(key, entry(port, STATIC))? {
            self.leave(key, old);
        }
        Ok(())
    }

    /// Forgets one station, static or learnt; false where there is none. The
    /// routed interfaces' own stay.
    pub fn delete(&mut self, mac: [u8; 6], domain: DomainId) -> bool {
        let key = Key::of(mac, domain.0);
        let own = |entry: u16| usize::from(entry_port(entry)) >= self.ports.len();
        if self.writer.get(key).is_none_or(own) {
            return false;
        }
        let gone = self.writer.delete(key);
        self.forwarding.macs.count_flush();
        gone.into_iter().for_each(|entry| self.leave(key, entry));
        gone.is_some()
    }

    /// Forgets learnt stations; returns how many.
    pub fn flush(&mut self, which: Which) -> u64 {
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
        self.counters.flushed += count;
        gone.into_iter().for_each(|(key, value)| self.leave(key, value));
        count
    }

    /// Stations, at most `limit` of them, and how many there are.
    pub fn stations(&self, which: Which, limit: usize) -> (Vec<Station>, u64) {
        let (mut found, mut count) = (Vec::new(), 0);
        self.writer.for_each(|key, value| {
            if which.takes(key, value) {
                count += 1;
                if found.len() < limit {
                    let tick = self.tick_length.as_secs_f64();
                    let age = age_of(value, self.tick).map(|age| (f64::from(age) * tick) as u64);
                    found.push(Station { key, port: entry_port(value), age });
                }
            }
        });
        (found, count)
    }

    /// What happened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Learnt stations of each bridge, by name.
    pub fn shares(&self) -> impl Iterator<Item = (&str, Share)> {
        self.bridges.iter().map(|bridge| bridge.name.as_str()).zip(self.by_bridge.iter().copied())
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

/// Ticks since a learnt station was seen; `None` for a static one.
fn age_of(entry: u16, tick: u16) -> Option<u32> {
    let then = entry_tick(entry);
    (then != STATIC).then(|| u32::from((tick + TICKS - then) % TICKS))
}

/// Ticks after which a silent station goes.
const TICKS_OF_AGE: u16 = 8;
/// Lines of a slice while a port is flushed: 256 KiB.
const FLUSH_LINES: usize = 4096;
/// Lines that a growing table is moved on in an idle millisecond.
const GROW_LINES: usize = 1024;
/// Ends of rounds until a port is flushed.
const ROUNDS: u8 = 3;
const MOST_NOTICES: usize = 64;
