//! `bridge_learn`: tells the bridge thread which station was seen at which port.
//!
//! ```text
//!  source · domain ─► seen within this second? ─ yes ─► nothing
//!                          └ no ─► MAC table: same port, this tick? ─ yes ─► nothing
//!                                        └ no ─► ring ─► bridge thread (writes the table)
//! ```
//!
//! | cost (reads a packet) | a line of the filter, mostly in the L2 cache; for stations not seen within a second one of the MAC table |
//! |-----------------------|------------------------------------------------------------|
//!
//! So a station costs at most one message a second from each worker. A full ring
//! is counted; the frame is forwarded all the same, and the station learnt later.
//!
//! Source: IEEE 802.1Q-2022 §8.7 (the learning process).

use lookup::exact::Key;
use std::sync::Arc;

use graph::ring::spsc::Producer;
use graph::{Live, Node, View, clock, labels};
use io::VECTOR;
use tables::Forwarding;
use tables::macs::{ABSENT, Learn, STATIC, entry_port, entry_tick};
use wire::bytes::array;
use wire::ethernet;

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
    recent: Recent,
    /// Numbers of the frames whose source was not seen within this second.
    unseen: Box<[u8; VECTOR]>,
    keys: Box<[Key; VECTOR]>,
    entries: Box<[u16; VECTOR]>,
}

impl BridgeLearn {
    /// A node that tells what it sees by `ring`.
    pub fn new(
        forwarding: Arc<Forwarding>,
        counters: Arc<DomainCounters>,
        ring: Producer<Learn>,
    ) -> Self {
        let (keys, entries) = (Box::new([Key::new(0, 0); VECTOR]), Box::new([0; VECTOR]));
        let (recent, unseen) = (Recent::new(), Box::new([0; VECTOR]));
        BridgeLearn { forwarding, counters, ring, recent, unseen, keys, entries }
    }
}

impl Node for BridgeLearn {
    type Edge = To;
    type Drop = graph::NoDrop;
    const NAME: &'static str = "bridge_learn";
    const HELP: &'static str = "reports stations that are new, have moved, or age";
    const LIVE: Live = Live::KEY64.and(Live::KEY32).and(Live::IFACE);

    fn process(&mut self, v: &mut View<'_, Self>) {
        let second = (v.now() / clock::hz().max(1)) as u32;
        let seen = Seen::of(v.port(), self.forwarding.macs.flushes(), second);
        let mut unseen = 0;
        for i in 0..v.n() {
            self.unseen[unseen % VECTOR] = i as u8;
            unseen += usize::from(!self.recent.has(Station::of(v, i), seen));
        }
        v.leave_all(To::Forward);
        if unseen > 0 {
            self.tell(v, unseen.min(VECTOR), seen);
        }
    }
}

impl BridgeLearn {
    #[inline(never)]
    fn tell(&mut self, v: &View<'_, Self>, n: usize, seen: Seen) {
        let (macs, port) = (&self.forwarding.macs, v.port());
        let (keys, entries) = (&mut self.keys[..n], &mut self.entries[..n]);
        for (key, &i) in keys.iter_mut().zip(&*self.unseen) {
            *key = Station::of(v, i.into()).key();
        }
        macs.lookup_batch(v.guard(), keys, entries);
        for ((&key, &entry), &i) in keys.iter().zip(&*entries).zip(&*self.unseen) {
            let known = entry != ABSENT
                && (entry_tick(entry) == STATIC
                    || entry_port(entry) == port && entry_tick(entry) == macs.tick(key));
            if !known && self.ring.push(Learn { key, port }).is_err() {
                self.counters.not_learnt.add(1);
                continue; // so that its next frame tries again
            }
            self.recent.note(Station::of(v, i.into()), seen);
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
        Station(address << 16 >> 16 | u64::from(v.key32[i]) << 48)
    }

    fn key(self) -> Key {
        Key::new(self.0.swap_bytes() >> 16, (self.0 >> 48) as u16)
    }
}

/// Where and when, as one number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Seen(u64);

impl Seen {
    /// Whoever was forgotten on a flush must be learnt again at once.
    fn of(port: u16, flushes: u16, second: u32) -> Seen {
        Seen(u64::from(port) << 48 | u64::from(flushes) << 32 | u64::from(second))
    }
}

/// Stations seen of late: direct-mapped, so two may displace each other, which
/// costs a lookup and nothing else.
struct Recent(Box<[(Station, Seen); 1 << RECENT_BITS]>);

impl Recent {
    fn new() -> Recent {
        let blank = vec![<(Station, Seen)>::default(); 1 << RECENT_BITS].into_boxed_slice();
        Recent(blank.try_into().expect("as many as the array has"))
    }

    #[inline(always)]
    fn slot(station: Station) -> usize {
        (station.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize
    }

    #[inline(always)]
    fn has(&self, station: Station, seen: Seen) -> bool {
        let (known, then) = self.0[Recent::slot(station)];
        (known == station) & (then == seen)
    }

    #[inline(always)]
    fn note(&mut self, station: Station, seen: Seen) {
        self.0[Recent::slot(station)] = (station, seen);
    }
}

/// 4,096 stations in 64 KiB.
const RECENT_BITS: u32 = 12;
