//! Stations that are new, seen again, or seen elsewhere, and the limits on them.

use std::time::Instant;

use lookup::exact::mac_table::Inserted;
use lookup::exact::{Key, Refused, Writer};

use super::ageing::age_of;
use super::moves::Ruling;
use super::{Notice, Share, Switch, WhenFull};
use crate::macs::{Learn, STATIC, entry, entry_port, entry_tick};

impl Switch {
    /// Takes in what a worker saw.
    pub fn learn(&mut self, Learn { key, port }: Learn, now: Instant) {
        // Also from a port that is down as far as we know: the frame was quicker than
        // the news, and an entry of a closed port does no harm.
        let known = usize::from(port) < self.ports.len();
        let Some(bridge) = self.bridge_of(key).filter(|_| known) else { return };
        self.counters[bridge].seen += 1;
        match self.writer.get(key) {
            None => self.add(key, port, bridge, now),
            Some(old) if entry_port(old) == port => {
                if entry_tick(old) != STATIC {
                    self.writer.change(key, self.fresh(key, port));
                }
            }
            Some(old) if entry_tick(old) == STATIC => self.counters[bridge].misplaced += 1,
            Some(old) => self.follow(key, (entry_port(old), port), bridge, now),
        }
    }

    /// Takes in what a worker saw, in this order; quicker than one by one, because the
    /// table's lines are read while the stations before are taken in.
    pub fn learn_all(&mut self, seen: &[Learn], now: Instant) {
        let mut before: &[Learn] = &[];
        for chunk in seen.chunks(AHEAD).chain([&[][..]]) {
            chunk.iter().for_each(|learn| self.writer.ask(learn.key));
            before.iter().for_each(|&learn| self.learn(learn, now));
            before = chunk;
        }
    }

    /// A station that is new.
    fn add(&mut self, key: Key, port: u16, bridge: usize, now: Instant) {
        if !self.moves.admits(key, port, now) {
            self.counters[bridge].held += 1;
            return;
        }
        if !self.has_room(port, bridge) {
            return;
        }
        match self.insert(key, self.fresh(key, port), bridge) {
            Ok(Inserted::Replaced(old, entry)) => {
                self.counters[bridge].replaced += 1;
                self.leave(old, entry);
            }
            Ok(_) => {}
            Err(_) => {
                self.by_bridge[bridge].refused += 1;
                self.counters[bridge].refused += 1;
                return;
            }
        }
        self.counters[bridge].learnt += 1;
        self.by_port[usize::from(port)].used += 1;
        self.by_bridge[bridge].used += 1;
    }

    /// The entry of a station seen now.
    fn fresh(&self, key: Key, port: u16) -> u16 {
        entry(port, self.forwarding.macs.tick(key))
    }

    /// May one more station be at the port? Counts where not.
    fn has_room(&mut self, port: u16, bridge: usize) -> bool {
        let share = &mut self.by_port[usize::from(port)];
        let room = share.has_room();
        if !room {
            share.refused += 1;
            self.counters[bridge].refused += 1;
        }
        room
    }

    /// Where the bridge is full, or the table, in the place of a station of this
    /// bridge if it may be; never of another's.
    fn insert(&mut self, key: Key, value: u16, bridge: usize) -> Result<Inserted, Refused> {
        let Share { used, limit, .. } = self.by_bridge[bridge];
        let (now, bridges) = (self.forwarding.macs.tick(key), &self.bridge_by_port);
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
    pub(super) fn leave(&mut self, key: Key, entry: u16) {
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

    /// A station was seen at another port; one that is full leaves it where it was.
    fn follow(&mut self, key: Key, (from, to): (u16, u16), bridge: usize, now: Instant) {
        match self.moves.rule(key, from, now) {
            Ruling::Hold => self.counters[bridge].held += 1,
            Ruling::Recall(home) => {
                self.counters[bridge].held += 1;
                let home = home.filter(|&home| home == from || self.share(home).has_room());
                self.notice(Notice::Flapping { key, port: to, home });
                match home {
                    Some(home) => self.put(key, from, home),
                    None => {
                        self.writer.delete(key).into_iter().for_each(|old| self.leave(key, old));
                    }
                }
            }
            Ruling::Follow if self.has_room(to, bridge) => {
                self.counters[bridge].moved += 1;
                self.put(key, from, to);
            }
            Ruling::Follow => {}
        }
    }

    fn share(&self, port: u16) -> Share {
        self.by_port.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Moves a station from one port to another.
    fn put(&mut self, key: Key, from: u16, to: u16) {
        self.writer.change(key, self.fresh(key, to));
        if let Some(share) = self.by_port.get_mut(usize::from(from)) {
            share.used = share.used.saturating_sub(1);
        }
        self.by_port[usize::from(to)].used += 1;
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        }
    }
}

/// Stations whose lines are asked for together.
const AHEAD: usize = 16;

/// Notices kept until somebody takes them.
const MOST_NOTICES: usize = 64;
