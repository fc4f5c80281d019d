//! Fragments that wait for the rest of their packet.
//!
//! ```text
//!  put ─► packets, by source, destination, id ─┬ a part is missing ► waits, for a time
//!           first ─► part ─► part              ├ all are there ────► Chain, in order
//!                                              ├ the same again ───► refused
//!         ages  oldest ⇄ … ⇄ youngest          └ they overlap ─────► none of them goes on
//! ```
//!
//! | cost | of a part: a hash, a walk over the parts before it, [`MOST`] at most |
//! |------|------------------------------------------------------------------------|
//!
//! Sources: RFC 791 §3.2; RFC 8200 §4.5; RFC 5722 §4: if fragments overlap, the whole packet is
//! dropped. We differ from the existing libraries: `etherparse` allocates a buffer for each packet,
//! `smoltcp`'s belongs to its interface. This module joins nothing: fragments go on as they came.

use std::hash::{BuildHasher, RandomState};

/// The packet that a fragment belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Key {
    pub world: World,
    pub src: u128,
    pub dst: u128,
    pub id: u32,
    /// The protocol, for IPv4; IPv6 ignores it.
    pub protocol: Option<u8>,
}

/// The origin of a fragment: addresses and ids of one address space have no meaning in another.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct World {
    pub vrf: u16,
    /// Bytes of the outer header; 0: a shield in this graph asks. All Gatekeepers behind a tunnel
    /// count as one origin: routers on the way may send the fragments of one packet by different
    /// paths.
    pub at: u8,
    /// The packet is decided, and is never forwarded.
    pub shadow: bool,
}

/// The range of a fragment, in bytes from the start of the fragmentable part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    pub start: u32,
    /// The byte behind the last one; the range is not empty.
    pub end: u32,
    /// More fragments follow.
    pub more: bool,
}

/// The result of [`Gather::put`].
#[derive(Debug, Eq, PartialEq)]
pub enum Put<T> {
    /// The fragment waits.
    Waits,
    /// The fragment was the last missing one: all fragments, in order, and their total length.
    Whole(Chain, u32),
    /// The same fragment is here already.
    Again(T),
    /// The fragment overlaps another one or the packet's end, or an earlier fragment of its packet
    /// did. The whole packet is dropped.
    Overlap(T, Chain),
    /// There is one fragment too many, or there was one earlier. The whole packet is dropped.
    TooMany(T, Chain),
}

/// Fragments of one packet; they stay in the set until they are taken out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chain(u32);

impl Chain {
    /// An empty chain.
    pub const EMPTY: Chain = Chain(NONE);
}

/// A bounded set of fragments.
///
/// Invariants: I1: a packet is in its bucket's chain and in the ages, or it is free. I2: a
/// slot with an item is in the chain of one packet, or in a [`Chain`]; one without is free.
pub struct Gather<T> {
    slots: Box<[Slot<T>]>,
    packets: Box<[Packet]>,
    buckets: Box<[u32]>,
    hash: RandomState,
    free_slot: u32,
    free_packet: u32,
    oldest: u32,
    youngest: u32,
    /// [`Gather::abandon`] has emptied the slots before this index.
    abandoned: usize,
}

struct Slot<T> {
    item: Option<T>,
    start: u32,
    end: u32,
    /// The fragment behind it; or the next free slot.
    next: u32,
}

#[derive(Clone)]
struct Packet {
    key: Key,
    first: u32,
    parts: u32,
    /// Bytes that have arrived.
    here: u32,
    /// Length of the whole; 0: not known yet.
    whole: u32,
    since: u64,
    flaw: Flaw,
    older: u32,
    younger: u32,
    /// The next packet in its bucket; or the next free slot.
    next: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    Overlap,
    TooMany,
}

impl<T> Gather<T> {
    /// A set with room for this many fragments, at most 65,536.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(1 << 16) as u32;
        let next = |at: u32| if at + 1 == capacity { NONE } else { at + 1 };
        let slot = |at| Slot { item: None, start: 0, end: 0, next: next(at) };
        let packet = |at| Packet {
            key: Key::default(),
            first: NONE,
            parts: 0,
            here: 0,
            whole: 0,
            since: 0,
            flaw: Flaw::None,
            older: NONE,
            younger: NONE,
            next: next(at),
        };
        let first = if capacity == 0 { NONE } else { 0 };
        Gather {
            slots: (0..capacity).map(slot).collect(),
            packets: (0..capacity).map(packet).collect(),
            buckets: vec![NONE; capacity.next_power_of_two() as usize].into(),
            hash: RandomState::new(),
            free_slot: first,
            free_packet: first,
            oldest: NONE,
            youngest: NONE,
            abandoned: 0,
        }
    }

    /// The number of fragments that fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Whether one more fragment fits.
    pub fn has_room(&self) -> bool {
        self.free_slot != NONE && self.free_packet != NONE
    }

    /// Puts a fragment in; check [`has_room`](Gather::has_room) first. Without room, it is one too many.
    pub fn put(&mut self, key: Key, part: Part, since: u64, item: T) -> Put<T> {
        if !self.has_room() {
            return Put::TooMany(item, Chain::EMPTY);
        }
        let at = match self.find(&key) {
            NONE => self.begin(key, since),
            at => at,
        };
        let Packet { first, parts, whole, flaw, .. } = self.packets[at as usize];
        match flaw {
            Flaw::None => {}
            Flaw::Overlap => return Put::Overlap(item, Chain::EMPTY),
            Flaw::TooMany => return Put::TooMany(item, Chain::EMPTY),
        }
        let (mut before, mut after) = (NONE, first);
        while after != NONE && self.slots[after as usize].start < part.start {
            (before, after) = (after, self.slots[after as usize].next);
        }
        if let Some(slot) = self.slots.get(after as usize)
            && (slot.start, slot.end) == (part.start, part.end)
        {
            return Put::Again(item);
        }
        let behind_before = self.slots.get(before as usize).is_none_or(|s| s.end <= part.start);
        let before_after = self.slots.get(after as usize).is_none_or(|s| part.end <= s.start);
        let is_last = part.more || after == NONE && (whole == 0 || whole == part.end);
        let is_inside = whole == 0 || part.end <= whole;
        if !(behind_before && before_after && is_last && is_inside) {
            return Put::Overlap(item, self.spoil(at, Flaw::Overlap));
        }
        if parts == MOST {
            return Put::TooMany(item, self.spoil(at, Flaw::TooMany));
        }
        let slot = self.free_slot;
        let new = &mut self.slots[slot as usize];
        self.free_slot = std::mem::replace(&mut new.next, after);
        (new.item, new.start, new.end) = (Some(item), part.start, part.end);
        match before {
            NONE => self.packets[at as usize].first = slot,
            before => self.slots[before as usize].next = slot,
        }
        let packet = &mut self.packets[at as usize];
        packet.parts += 1;
        packet.here += part.end - part.start;
        if !part.more {
            packet.whole = part.end;
        }
        if packet.whole != 0 && packet.here == packet.whole {
            // The fragments do not overlap and none is behind the end: the packet is complete.
            let (chain, whole) = (Chain(packet.first), packet.whole);
            self.end(at);
            return Put::Whole(chain, whole);
        }
        Put::Waits
    }

    /// Takes the first fragment out of a chain.
    pub fn next(&mut self, chain: &mut Chain) -> Option<T> {
        let slot = self.slots.get_mut(chain.0 as usize)?;
        let item = slot.item.take()?;
        let next = std::mem::replace(&mut slot.next, self.free_slot);
        self.free_slot = std::mem::replace(&mut chain.0, next);
        Some(item)
    }

    /// The fragments of a chain, which stay in it.
    pub fn iter(&self, chain: Chain) -> impl Iterator<Item = &T> {
        let mut at = chain.0;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.next;
            slot.item.as_ref()
        })
    }

    /// When the oldest packet began to wait.
    pub fn oldest(&self) -> Option<u64> {
        Some(self.packets.get(self.oldest as usize)?.since)
    }

    /// Abandons the oldest packet if it began to wait at `until` or earlier; returns its fragments.
    pub fn give_up(&mut self, until: u64) -> Option<Chain> {
        let at = self.oldest;
        let packet = self.packets.get(at as usize)?;
        let chain = Chain(packet.first);
        (packet.since <= until).then(|| {
            self.end(at);
            chain
        })
    }

    /// Takes any fragment out, even one in a chain. No fragment may be put in afterwards.
    pub fn abandon(&mut self) -> Option<T> {
        let rest = self.slots[self.abandoned..].iter_mut();
        let (n, item) = rest.enumerate().find_map(|(n, slot)| Some((n, slot.item.take()?)))?;
        self.abandoned += n;
        Some(item)
    }

    fn bucket(&self, key: &Key) -> usize {
        self.hash.hash_one(key) as usize & (self.buckets.len() - 1)
    }

    fn find(&self, key: &Key) -> u32 {
        let mut at = self.buckets[self.bucket(key)];
        while let Some(packet) = self.packets.get(at as usize)
            && packet.key != *key
        {
            at = packet.next;
        }
        at
    }

    fn begin(&mut self, key: Key, since: u64) -> u32 {
        let (at, bucket) = (self.free_packet, self.bucket(&key));
        let packet = &mut self.packets[at as usize];
        self.free_packet = packet.next;
        let next = std::mem::replace(&mut self.buckets[bucket], at);
        let older = std::mem::replace(&mut self.youngest, at);
        let (first, younger, flaw) = (NONE, NONE, Flaw::None);
        let (parts, here, whole) = (0, 0, 0);
        *packet = Packet { key, first, parts, here, whole, since, flaw, older, younger, next };
        match older {
            NONE => self.oldest = at,
            older => self.packets[older as usize].younger = at,
        }
        at
    }

    /// Abandons a packet, and remembers it for the fragments that are still to come.
    fn spoil(&mut self, at: u32, flaw: Flaw) -> Chain {
        let packet = &mut self.packets[at as usize];
        packet.flaw = flaw;
        Chain(std::mem::replace(&mut packet.first, NONE))
    }

    /// Forgets a packet; its fragments form a chain from now on.
    fn end(&mut self, at: u32) {
        let Packet { key, older, younger, next, .. } = self.packets[at as usize];
        let bucket = self.bucket(&key);
        let mut before = self.buckets[bucket];
        if before == at {
            self.buckets[bucket] = next;
        } else {
            while let Some(packet) = self.packets.get_mut(before as usize) {
                if packet.next == at {
                    packet.next = next;
                    break;
                }
                before = packet.next;
            }
        }
        match older {
            NONE => self.oldest = younger,
            older => self.packets[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.packets[younger as usize].older = older,
        }
        let packet = &mut self.packets[at as usize];
        packet.next = std::mem::replace(&mut self.free_packet, at);
    }
}

/// The most fragments of a packet. A packet of 65,535 bytes in frames of 1,500 has 45.
pub const MOST: u32 = 64;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(id: u32) -> Key {
        Key { id, ..Key::default() }
    }

    fn part(start: u32, end: u32, more: bool) -> Part {
        Part { start, end, more }
    }

    fn taken<T>(all: &mut Gather<T>, mut chain: Chain) -> Vec<T> {
        std::iter::from_fn(|| all.next(&mut chain)).collect()
    }

    #[test]
    fn parts_in_any_order_make_a_whole() {
        let parts = [part(0, 8, true), part(8, 24, true), part(24, 29, false)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut all = Gather::new(3);
            assert_eq!(all.put(key(1), parts[order[0]], 0, order[0]), Put::Waits);
            assert_eq!(all.put(key(1), parts[order[0]], 0, 9), Put::Again(9));
            assert_eq!(all.put(key(1), parts[order[1]], 0, order[1]), Put::Waits);
            let Put::Whole(chain, 29) = all.put(key(1), parts[order[2]], 0, order[2]) else {
                panic!("{order:?}")
            };
            assert!(!all.has_room() && all.oldest().is_none());
            assert!(all.iter(chain).eq(&[0, 1, 2]));
            assert_eq!(taken(&mut all, chain), [0, 1, 2]);
            assert!(all.has_room());
        }
    }

    #[test]
    fn parts_that_overlap_spoil_the_whole() {
        let (first, last) = (part(0, 16, true), part(32, 40, false));
        for wrong in [
            part(8, 24, true),
            part(0, 8, true),
            part(0, 24, true),
            part(24, 48, true),
            part(40, 48, true),
            part(16, 24, false),
            part(40, 41, false),
        ] {
            let mut all = Gather::new(4);
            all.put(key(1), first, 0, 1);
            all.put(key(1), last, 0, 2);
            let Put::Overlap(3, chain) = all.put(key(1), wrong, 0, 3) else { panic!("{wrong:?}") };
            assert_eq!(taken(&mut all, chain), [1, 2]);
            // Further fragments are refused too, until the packet's time is over.
            assert_eq!(all.put(key(1), first, 5, 4), Put::Overlap(4, Chain::EMPTY));
            assert_eq!(all.put(key(2), first, 5, 5), Put::Waits);
            assert_eq!(all.give_up(4), Some(Chain::EMPTY));
            assert_eq!(all.put(key(1), first, 6, 6), Put::Waits);
        }
    }

    #[test]
    fn no_packet_has_more_parts_than_may_be() {
        let mut all = Gather::new(100);
        let eighth = |n: u32| part(8 * n, 8 * n + 8, true);
        assert!((0..MOST).all(|n| all.put(key(1), eighth(n), 0, n) == Put::Waits));
        let Put::TooMany(99, chain) = all.put(key(1), eighth(MOST), 0, 99) else { panic!() };
        assert_eq!(taken(&mut all, chain).len(), MOST as usize);
        assert_eq!(all.put(key(1), eighth(0), 0, 7), Put::TooMany(7, Chain::EMPTY));
        let mut none = Gather::new(0);
        assert_eq!(none.put(key(1), eighth(0), 0, 7), Put::TooMany(7, Chain::EMPTY));
        assert!(none.give_up(u64::MAX).is_none() && none.abandon().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, ..ProptestConfig::default() })]

        /// The same result, from a list of fragments.
        #[test]
        fn as_lists(steps in prop::collection::vec((0_u32..4, 0_u32..6, 1_u32..3, any::<bool>(), 0_u8..8), 1..200)) {
            let mut all = Gather::new(8);
            let mut model: BTreeMap<u32, (u64, Option<Vec<Part>>)> = BTreeMap::new();
            for (now, (id, start, len, more, turn)) in steps.into_iter().enumerate() {
                let now = now as u64;
                if turn == 0 || !all.has_room() {
                    let oldest = model.iter().min_by_key(|(_, of)| of.0).map(|(id, of)| (*id, of.0));
                    prop_assert_eq!(all.oldest(), oldest.map(|of| of.1));
                    if let Some(chain) = all.give_up(now) {
                        let parts = model.remove(&oldest.unwrap().0).unwrap().1.unwrap_or_default();
                        let got = taken(&mut all, chain);
                        prop_assert_eq!(got, parts);
                    }
                    continue;
                }
                let new = part(8 * start, 8 * (start + len), more);
                let parts = &mut model.entry(id).or_insert((now, Some(Vec::new()))).1;
                let put = all.put(key(id), new, now, new);
                let Some(here) = parts else {
                    prop_assert_eq!(put, Put::Overlap(new, Chain::EMPTY));
                    continue;
                };
                let whole = here.iter().find(|part| !part.more).map(|part| part.end);
                if here.iter().any(|part| (part.start, part.end) == (new.start, new.end)) {
                    prop_assert_eq!(put, Put::Again(new));
                    continue;
                }
                let apart = here.iter().all(|part| part.end <= new.start || new.end <= part.start);
                let ends = whole.is_none_or(|whole| more && new.end <= whole)
                    && (more || here.iter().all(|part| part.end <= new.end));
                if !(apart && ends) {
                    let Put::Overlap(_, chain) = put else { panic!("{put:?}") };
                    prop_assert_eq!(&taken(&mut all, chain), here);
                    *parts = None;
                    continue;
                }
                here.push(new);
                here.sort_by_key(|part| part.start);
                let whole = here.iter().find(|part| !part.more).map(|part| part.end);
                let sum: u32 = here.iter().map(|part| part.end - part.start).sum();
                if Some(sum) == whole {
                    let Put::Whole(chain, len) = put else { panic!("{put:?}") };
                    prop_assert_eq!((len, &taken(&mut all, chain)), (sum, &*here));
                    model.remove(&id);
                } else {
                    prop_assert_eq!(put, Put::Waits);
                }
            }
            let left: usize = model.values().map(|of| of.1.as_ref().map_or(0, Vec::len)).sum();
            prop_assert_eq!(std::iter::from_fn(|| all.abandon()).count(), left);
        }
    }
}
