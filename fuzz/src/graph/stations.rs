//! What the MAC table may hold, from what was learnt, when, and where. Where time or
//! choice decides (ageing goes by ticks, a full bridge replaces whom it likes) the
//! table itself is looked at, within bounds.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tables::switch::{BridgeConfig, WhenFull};

use super::bridging::Lan;
use super::outcome::{Counts, count};
use super::plan::DEVICES;

/// The model of the table.
pub struct Stations {
    configs: Vec<BridgeConfig>,
    known: HashMap<Key, Station>,
    moves: HashMap<Key, Watch>,
    /// By device: in which step it went down last, and sweeps since.
    down: [(u64, u32); DEVICES as usize],
    pub now: Duration,
    step: u64,
    /// Bridges of which any learnt station may have been replaced.
    replacing: HashSet<usize>,
    /// More than the table surely takes.
    crowd: usize,
}

/// A station: where it is, and its address.
pub type Key = (Lan, [u8; 6]);

#[derive(Clone, Copy, Debug)]
struct Station {
    port: u16,
    /// Does not age.
    fixed: bool,
    seen: Duration,
    step: u64,
    /// Was learnt while its port was being flushed.
    shaky: bool,
}

/// IEEE says nothing of it: five moves in ten seconds are followed; with the next it goes
/// back to where it was before, if it had not moved for a minute then, and is held there
/// for a minute. Where that is not known, or full, it is forgotten, and not learnt again.
struct Watch {
    home: Option<u16>,
    since: Duration,
    last: Duration,
    moves: u32,
    held_until: Option<Duration>,
}

/// Do frames to a station go to its port alone?
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trust {
    Yes,
    No,
    Maybe,
}

impl Stations {
    /// Of these bridges, with routed sides at these addresses.
    pub fn new(configs: Vec<BridgeConfig>, own: &[[u8; 6]]) -> Stations {
        let mut known = HashMap::new();
        for (i, config) in configs.iter().enumerate() {
            for &vlan in &config.routed {
                known.insert(((i, vlan), own[i]), Station::fixed(DEVICES + i as u16));
            }
        }
        let crowd = configs.iter().map(|config| config.max_macs as usize).sum();
        Stations {
            configs,
            known,
            moves: HashMap::new(),
            down: [(0, u32::MAX); DEVICES as usize],
            now: Duration::ZERO,
            step: 1,
            replacing: HashSet::new(),
            crowd,
        }
    }

    /// The port of a station.
    pub fn find(&self, lan: Lan, mac: &[u8]) -> Option<(u16, Trust)> {
        let station = self.known.get(&(lan, mac.try_into().ok()?))?;
        let Some(&(step, sweeps)) = self.down.get(usize::from(station.port)) else {
            return Some((station.port, Trust::Yes));
        };
        let trust = match sweeps {
            SURELY.. => Trust::Yes,
            _ if !station.fixed && station.step < step => Trust::No,
            0 => Trust::No,
            _ => Trust::Maybe,
        };
        Some((station.port, trust))
    }

    /// Is it known, and would a frame from there not be worth a word?
    pub fn knows(&self, key: Key, port: u16) -> bool {
        self.known.get(&key).is_some_and(|station| station.fixed || station.port == port)
    }

    /// A worker said that it saw a station.
    pub fn learn(&mut self, key: Key, port: u16, counts: &mut Counts) {
        self.step += 1;
        let fresh = self.fresh(port);
        let bridge = key.0.0;
        match self.known.get(&key).copied() {
            None if self.is_kept_from(key, port) => count(counts, "held elsewhere"),
            None => {
                let config = &self.configs[bridge];
                let full = self.count(|key, _| key.0.0 == bridge) >= config.max_macs;
                if !self.has_room(port) || full && config.when_full == WhenFull::Refuse {
                    return count(counts, "not learnt: full");
                }
                if full || self.known.len() >= self.crowd {
                    self.replacing.insert(bridge);
                    count(counts, "learnt in the place of another");
                }
                self.known.insert(key, fresh);
                count(counts, "learnt");
            }
            Some(old) if old.fixed => count(counts, "static stays"),
            Some(old) if old.port == port => {
                self.known.insert(key, fresh);
                count(counts, "seen again");
            }
            Some(old) if self.holds(key, old.port, counts) => count(counts, "held"),
            Some(_) if !self.has_room(port) => count(counts, "not moved: full"),
            Some(_) => {
                self.known.insert(key, fresh);
                count(counts, "moved");
            }
        }
    }

    fn has_room(&self, port: u16) -> bool {
        let mut members = self.configs.iter().flat_map(|config| &config.members);
        let member = members.find(|member| member.port.0 == port);
        let most = member.and_then(|member| member.max_macs).unwrap_or(u64::MAX);
        self.count(|_, station| station.port == port) < most
    }

    fn count(&self, is: impl Fn(&Key, &Station) -> bool) -> u64 {
        self.known.iter().filter(|(key, station)| !station.fixed && is(key, station)).count() as u64
    }

    /// Is a station that is not known held, and not at this port?
    fn is_kept_from(&self, key: Key, port: u16) -> bool {
        self.moves.get(&key).is_some_and(|watch| {
            watch.held_until.is_some_and(|end| self.now < end) && watch.home != Some(port)
        })
    }

    /// A station that was at `from` was seen elsewhere: may it not go there?
    fn holds(&mut self, key: Key, from: u16, counts: &mut Counts) -> bool {
        let now = self.now;
        let fresh = |home| Watch { home, since: now, last: now, moves: 0, held_until: None };
        let watch = self.moves.entry(key).or_insert_with(|| fresh(Some(from)));
        let over = match watch.held_until {
            Some(end) => now >= end,
            None => now - watch.since >= Duration::from_secs(10),
        };
        if over {
            let settled = now - watch.last >= Duration::from_secs(60);
            *watch = fresh((settled || watch.home == Some(from)).then_some(from));
        }
        watch.last = now;
        if watch.held_until.is_some() {
            return true;
        }
        watch.moves += 1;
        if watch.moves <= 5 {
            return false;
        }
        watch.held_until = Some(now + Duration::from_secs(60));
        match watch.home.filter(|&home| home == from || self.has_room(home)) {
            Some(home) => {
                count(counts, "held where it was");
                let fresh = self.fresh(home);
                self.known.insert(key, fresh);
            }
            None => {
                count(counts, "held nowhere");
                self.known.remove(&key);
            }
        }
        true
    }

    /// A station seen now at this port.
    fn fresh(&self, port: u16) -> Station {
        let shaky = self.down[usize::from(port)].1 < SURELY;
        Station { port, fixed: false, seen: self.now, step: self.step, shaky }
    }

    /// Has a station taken the place of another since the last check? Who went is seen there.
    pub fn is_in_doubt(&self) -> bool {
        !self.replacing.is_empty()
    }

    /// Somebody set a station.
    pub fn set(&mut self, key: Key, port: u16) {
        self.known.insert(key, Station::fixed(port));
    }

    /// Is it the address of a routed side?
    pub fn is_own(&self, key: Key) -> bool {
        self.known.get(&key).is_some_and(|station| station.port >= DEVICES)
    }

    /// Somebody deleted a station.
    pub fn delete(&mut self, key: Key) -> bool {
        !self.is_own(key) && self.known.remove(&key).is_some()
    }

    /// Somebody had learnt stations forgotten; how many were known.
    pub fn flush(&mut self, port: Option<u16>, lan: Option<Lan>) -> u64 {
        let before = self.known.len();
        self.known.retain(|key, station| {
            let is = port.is_none_or(|port| port == station.port);
            station.fixed || !is || lan.is_some_and(|lan| lan != key.0)
        });
        (before - self.known.len()) as u64
    }

    /// A device's link went down.
    pub fn went_down(&mut self, port: u16) {
        self.step += 1;
        self.down[usize::from(port)] = (self.step, 0);
    }

    /// There was a sweep.
    pub fn swept(&mut self, now: Duration) {
        self.now = now;
        self.down.iter_mut().for_each(|(_, sweeps)| *sweeps = sweeps.saturating_add(1));
    }

    /// Compares with what the table holds (port, static), and goes on from that.
    pub fn check(&mut self, table: &HashMap<Key, (u16, bool)>, counts: &mut Counts) {
        for (key, (port, fixed)) in table {
            let known = self.known.get(key).unwrap_or_else(|| panic!("{key:?} was never learnt"));
            assert_eq!((known.port, known.fixed), (*port, *fixed), "{key:?}");
        }
        let (configs, down, now) = (&self.configs, &self.down, self.now);
        for (i, config) in configs.iter().enumerate() {
            let learnt = table.iter().filter(|(key, (_, fixed))| key.0.0 == i && !fixed);
            assert!(learnt.count() as u64 <= config.max_macs, "{} holds too many", config.name);
        }
        let replacing = std::mem::take(&mut self.replacing);
        self.known.retain(|key, station| {
            let there = table.contains_key(key);
            if station.fixed {
                assert!(there, "static {key:?} went");
                return true;
            }
            let tick = Duration::from_secs(configs[key.0.0].ageing.into()) / 8;
            let age = now.saturating_sub(station.seen);
            let (step, sweeps) = down[usize::from(station.port)];
            let flushed = station.step < step;
            if there {
                assert!(age < tick * 12, "{key:?} is silent for {age:?}");
                assert!(!flushed || sweeps < SURELY, "{key:?} is at a port that was down");
                return true;
            }
            let may = age >= tick * 7 || flushed || station.shaky || replacing.contains(&key.0.0);
            assert!(may, "{key:?} was forgotten: {station:?}");
            let why = if flushed || station.shaky { "flushed" } else { "aged or replaced" };
            count(counts, why);
            false
        });
    }
}

impl Station {
    fn fixed(port: u16) -> Station {
        Station { port, fixed: true, seen: Duration::ZERO, step: 0, shaky: false }
    }
}

/// Sweeps after which nothing is left of a flush: three rounds, each a small table's.
const SURELY: u32 = 40;
