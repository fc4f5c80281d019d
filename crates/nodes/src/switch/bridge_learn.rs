//! `bridge_learn`: reports to the bridge thread which station was seen at which port.
//!
//! ```text
//!  source · domain ─► seen within this second? ─ yes ─► nothing
//!                          └ no ─► MAC table: same port, this tick? ─ yes ─► nothing
//!                                        └ no ─► ring ─► bridge thread (writes the table)
//! ```
//!
//! | cost of a station    | reads a packet                                 |
//! |----------------------|------------------------------------------------|
//! | seen within a second | 16 bytes of the filter, mostly in the L2 cache |
//! | not seen             | the same, and a line of the MAC table          |
//!
//! So a station costs at most one message a second from each worker. A full ring
//! is counted; the frame is forwarded all the same, and the station learnt later.
//!
//! Source: IEEE 802.1Q-2022 §8.7 (the learning process).

use lookup::exact::Key;
use std::sync::Arc;

use graph::ring::spsc::Producer;
use graph::{Lanes, Node, View, clock, labels};
use io::VECTOR;
use tables::Forwarding;
use tables::bridge::DomainId;
use tables::macs::{ABSENT, Learn, STATIC, entry_port, entry_tick};
use wire::bytes::array;
use wire::ethernet;

use super::lanes::Arrived;
use super::loops::Loops;
use crate::counters::DomainCounters;

labels! {
    /// Where frames go.
    pub enum To { Forward = "bridge_forward" }
}

/// The node.
pub struct BridgeLearn {
    forwarding: Arc<Forwarding>,
    counters: Arc<DomainCounters>,
    ring: Producer<Learn>,
    loops: Arc<Loops>,
    recent: Recent,
    /// Numbers of the frames whose source was not seen within this second.
    unseen: Box<[u8; VECTOR]>,
    keys: Box<[Key; VECTOR]>,
    entries: Box<[u16; VECTOR]>,
}

impl BridgeLearn {
    /// A node that reports what it sees by `ring`, and asks for probes where a station, or
    /// this machine itself, is seen at another port.
    pub fn new(
        forwarding: Arc<Forwarding>,
        counters: Arc<DomainCounters>,
        (ring, loops): (Producer<Learn>, Arc<Loops>),
    ) -> Self {
        let (keys, entries) = (Box::new([Key::new(0, 0); VECTOR]), Box::new([0; VECTOR]));
        let (recent, unseen) = (Recent::new(), Box::new([0; VECTOR]));
        BridgeLearn { forwarding, counters, ring, loops, recent, unseen, keys, entries }
    }
}

impl Node for BridgeLearn {
    type Edge = To;
    type Drop = graph::NoDrop;
    const NAME: &'static str = "bridge_learn";
    const HELP: &'static str = "reports stations that are new, have moved, or age";
    const READS: Lanes = Lanes::of::<(Arrived,)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        self.recent.keep(v.now(), clock::hz(), self.forwarding.macs.flushes());
        let (port, mut unseen) = (v.port(), 0);
        for i in 0..v.n() {
            self.unseen[unseen % VECTOR] = i as u8;
            unseen += usize::from(!self.recent.has(Station::of(v, i), port));
        }
        v.leave_all(To::Forward);
        if unseen > 0 {
            self.tell(v, unseen.min(VECTOR));
        }
    }
}

impl BridgeLearn {
    #[inline(never)]
    fn tell(&mut self, v: &View<'_, Self>, n: usize) {
        let (macs, port) = (&self.forwarding.macs, v.port());
        let (keys, entries) = (&mut self.keys[..n], &mut self.entries[..n]);
        for (key, &i) in keys.iter_mut().zip(&*self.unseen) {
            *key = Station::of(v, i.into()).key();
        }
        macs.lookup_batch(v.guard(), keys, entries);
        let mut reported = false;
        for ((&key, &entry), &i) in keys.iter().zip(&*entries).zip(&*self.unseen) {
            let known = entry != ABSENT
                && (entry_tick(entry) == STATIC
                    || entry_port(entry) == port && entry_tick(entry) == macs.tick(key))
                || self.loops.is_ours(key.octets());
            if !known && self.ring.push(Learn { key, port }).is_err() {
                self.counters.not_learnt.add(1);
                continue; // so that its next frame tries again
            }
            reported |= !known;
            let station = Station::of(v, i.into());
            if entry != ABSENT && entry_port(entry) != port {
                self.recent.forget(station, entry_port(entry));
                self.loops.ask(DomainId(key.domain()));
            }
            self.recent.note(station, port);
        }
        if reported {
            self.loops.ring();
        }
    }
}

/// A source and its domain: the address as it is read, in the low 48 bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Station(u64);

impl Station {
    /// Of packet `i`.
    #[inline(always)]
    fn of(v: &View<'_, BridgeLearn>, i: usize) -> Station {
        let address = u64::from_le_bytes(array(v.head(i), ethernet::SRC));
        Station(address << 16 >> 16 | u64::from(u32::from(v.get(Arrived, i))) << 48)
    }

    fn key(self) -> Key {
        Key::new(self.0.swap_bytes() >> 16, (self.0 >> 48) as u16)
    }
}

/// Stations seen within this second, and at which port: the set of a station is its hash
/// xor the port, so the port need not be stored. Of more than two in a set the one
/// that came first is forgotten, which costs a lookup and nothing else.
///
/// An empty place holds a station that no frame is from: `bridge_input` drops those
/// whose source is all zero.
///
/// Before, there was one place of 16 bytes to a hash, with port and second in it: of a
/// thousand stations a fifth shared one, and every ninth frame cost a lookup. At 10⁶
/// stations and 16,000 packets the switch took 81.2 cycles a frame then, 79.6 now, of 512
/// packets 57.5 and 55.5 (Sapphire Rapids, best slices in turns). Tried and dropped: to
/// ask for the destinations' lines of the MAC table from here, 84.0 for 80.8.
struct Recent {
    /// When this second began, in ticks. Seconds are counted from one to the next: a rate
    /// that is known better moves an end by some millionths, and no station is forgotten.
    began: u64,
    /// A station that was forgotten on a flush must be learnt again at once.
    flushes: u16,
    sets: Box<[[Station; 2]; 1 << PORT_BITS]>,
}

impl Recent {
    fn new() -> Recent {
        let blank = vec![[Station::default(); 2]; 1 << PORT_BITS].into_boxed_slice();
        let sets = blank.try_into().expect("as many as the array has");
        Recent { began: 0, flushes: 0, sets }
    }

    /// Forgets everybody after a second of `hz` ticks, and after a flush.
    #[inline(always)]
    fn keep(&mut self, now: u64, hz: u64, flushes: u16) {
        if now.wrapping_sub(self.began) >= hz || flushes != self.flushes {
            (self.began, self.flushes) = (now, flushes);
            self.sets.fill(Default::default());
        }
    }

    #[inline(always)]
    fn set(station: Station, port: u16) -> usize {
        let hash = station.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PORT_BITS);
        hash as usize ^ (usize::from(port) % (1 << PORT_BITS))
    }

    #[inline(always)]
    fn has(&self, station: Station, port: u16) -> bool {
        let [last, before] = self.sets[Recent::set(station, port)];
        (last == station) | (before == station)
    }

    fn note(&mut self, station: Station, port: u16) {
        let set = &mut self.sets[Recent::set(station, port)];
        if set[0] != station {
            *set = [station, set[0]];
        }
    }

    /// The station has left this port: when it comes back, that is news.
    fn forget(&mut self, station: Station, port: u16) {
        let set = &mut self.sets[Recent::set(station, port)];
        set.iter_mut().filter(|known| **known == station).for_each(|known| *known = Station(0));
    }
}

/// Enough to distinguish [`tables::macs::MOST_PORTS`] ports: 8,192 stations in 64 KiB.
const PORT_BITS: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn station(n: u64) -> Station {
        Station(n << 24 | 2 | 10 << 48)
    }

    #[test]
    fn who_was_seen_is_known_at_that_port_for_that_second() {
        const HZ: u64 = 1000;
        let mut recent = Recent::new();
        recent.keep(7 * HZ + 5, HZ, 1);
        for port in 0..4094 {
            recent.note(station(1), port);
            assert!(recent.has(station(1), port) && !recent.has(station(1), port + 1));
        }
        recent.keep(8 * HZ + 4, HZ, 1);
        assert!(recent.has(station(1), 5));
        recent.forget(station(1), 5);
        assert!(!recent.has(station(1), 5) && recent.has(station(1), 6));
        for (now, flushes) in [(8 * HZ + 5, 1), (8 * HZ + 6, 2), (9 * HZ + 6, 2)] {
            recent.note(station(1), 6);
            recent.keep(now, HZ, flushes);
            assert!(!recent.has(station(1), 6));
        }
    }

    #[test]
    fn nobody_is_forgotten_when_the_clock_is_known_better() {
        let (mut recent, up) = (Recent::new(), 1 << 50); // days: the quotient moves by much
        recent.keep(up, 3_000_000_000, 1);
        recent.note(station(1), 6);
        for hz in [2_999_990_000, 3_000_010_000] {
            recent.keep(up + 1_000_000, hz, 1);
            assert!(recent.has(station(1), 6));
        }
    }

    #[test]
    fn a_thousand_stations_hardly_disturb_each_other() {
        let mut recent = Recent::new();
        let stations = || (1..=1000).map(station);
        stations().for_each(|one| recent.note(one, 0));
        let known = stations().filter(|&one| recent.has(one, 0)).count();
        assert!(known > 950, "{known}");
        assert!(stations().all(|one| !recent.has(one, 1)));
    }
}
