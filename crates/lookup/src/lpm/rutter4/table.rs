//! What readers share: root, arena, default hop.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::{PLACES, REST_BITS, ROOT_BITS, SHIFT_BITS, SLOTS};
use crate::pages::{Pages, Zeroed};
use crate::{Hop, lpm::Lpm};

/// A stored hop: 16 bits where every hop fits, else 32.
pub(super) trait Value: Copy + Send + Sync + 'static {
    type Cell: Zeroed + Send;
    /// Bits of a value.
    const WIDTH: usize;
    /// Stands for "longer prefixes inside this /24".
    const ESCAPE: u32;
    /// The largest hop that fits beside [`Value::ESCAPE`].
    const MAX_HOP: u32 = Self::ESCAPE - 1;
    /// Places at the arena's start that hold their own number.
    const IDENTITY: usize;

    fn load(cell: &Self::Cell) -> u32;
    fn store(cell: &Self::Cell, value: u32);
}

macro_rules! value {
    ($int:ty, $cell:ty, $escape:expr, $identity:expr) => {
        impl Value for $int {
            type Cell = $cell;
            const WIDTH: usize = <$int>::BITS as usize;
            const ESCAPE: u32 = $escape;
            const IDENTITY: usize = $identity;

            #[inline(always)]
            fn load(cell: &$cell) -> u32 {
                u32::from(cell.load(Ordering::Relaxed))
            }
            #[inline(always)]
            fn store(cell: &$cell, value: u32) {
                cell.store(value as $int, Ordering::Relaxed);
            }
        }
    };
}
value!(u16, AtomicU16, 0xffff, 1 << 16);
// A uniform /18 has a value of its own here; only "no route" is shared.
value!(u32, AtomicU32, Hop::MAX.0, 1);

/// - I1: a root entry names a record that lies inside the arena, aligned to its
///   2^(14 - shift) values, and was complete before the entry was stored.
/// - I2: a value is a hop, 0 (nothing but the default route), or `ESCAPE`, the
///   last only in records of 64 values that a map of longer prefixes follows.
pub(super) struct Table<V: Value> {
    root: Pages<AtomicU32>,
    arena: Pages<V::Cell>,
    /// The hop of /0: a change of the default route is one store.
    pub(super) default: AtomicU32,
    /// Places of the arena in use or waiting, for `bytes`.
    pub(super) reached: AtomicU32,
}

impl<V: Value> Table<V> {
    /// A table in which nothing has a route.
    pub(super) fn new() -> std::io::Result<Self> {
        let table = Table {
            root: Pages::zeroed(1 << ROOT_BITS)?,
            arena: Pages::zeroed(PLACES)?,
            default: AtomicU32::new(0),
            reached: AtomicU32::new(V::IDENTITY as u32),
        };
        for (number, cell) in table.arena.iter().take(V::IDENTITY).enumerate() {
            V::store(cell, number as u32);
        }
        table.root.iter().for_each(|entry| entry.store(REST_BITS, Ordering::Relaxed));
        Ok(table)
    }

    #[inline(always)]
    fn root(&self) -> &[AtomicU32; 1 << ROOT_BITS] {
        self.root[..].try_into().expect("it was made with 2^18 entries")
    }

    #[inline(always)]
    fn arena(&self) -> &[V::Cell; PLACES] {
        self.arena[..].try_into().expect("it was made with so many places")
    }

    /// The entry of root slot `i`.
    pub(super) fn entry(&self, i: usize) -> u32 {
        self.root[i].load(Ordering::Relaxed)
    }

    /// Makes a record visible: readers of slot `i` see it from now on.
    pub(super) fn publish(&self, i: usize, entry: u32) {
        self.root[i].store(entry, Ordering::Release);
    }

    /// Writes `values` at `at`, where no published record lies.
    pub(super) fn write(&self, at: u32, values: &[u32]) {
        for (cell, &value) in self.arena[at as usize..][..values.len()].iter().zip(values) {
            V::store(cell, value);
        }
    }

    /// What the record of `entry` says of `dst`: a hop, 0, or `ESCAPE`.
    /// No bounds check remains: both parts are below 2^27, and `|` keeps that.
    #[inline(always)]
    fn value(arena: &[V::Cell; PLACES], entry: u32, dst: u32) -> u32 {
        let rest = (dst & ((1 << REST_BITS) - 1)) >> (entry & ((1 << SHIFT_BITS) - 1));
        V::load(&arena[(entry >> SHIFT_BITS | rest) as usize])
    }

    /// The answer inside a /24 that holds longer prefixes.
    #[cold]
    #[inline(never)]
    fn deep(&self, dst: u32) -> u32 {
        // The entry is loaded anew, so all of the answer comes from one record.
        let entry = self.root()[(dst >> REST_BITS) as usize].load(Ordering::Acquire);
        let value = Self::value(self.arena(), entry, dst);
        if value != V::ESCAPE {
            return value; // the /18 changed meanwhile
        }
        let base = (entry >> SHIFT_BITS) as usize;
        let slot = (dst >> 8) as usize % SLOTS;
        let map = self.word::<64>(base + SLOTS);
        let rank = (map & ((1 << slot) - 1)).count_ones() as usize;
        let words = base + SLOTS + 64 / V::WIDTH;
        let word = self.word::<32>(words + rank * (32 / V::WIDTH)) as u32;
        let offset = (word >> SHIFT_BITS) + ((dst & 0xff) >> (word & ((1 << SHIFT_BITS) - 1)));
        V::load(self.place(base + offset as usize))
    }

    /// A place by number, wrapped: a reader that ignores the domain may hold a
    /// stale entry, and gets a wrong answer, not a panic.
    #[inline]
    fn place(&self, at: usize) -> &V::Cell {
        &self.arena()[at % PLACES]
    }

    /// `BITS` bits from place `at` on, low part first.
    fn word<const BITS: usize>(&self, at: usize) -> u64 {
        let part = |i| u64::from(V::load(self.place(at + i))) << (i * V::WIDTH);
        (0..BITS / V::WIDTH).map(part).fold(0, |word, part| word | part)
    }

    /// Up to [`BURST`] lookups: entries are read [`AHEAD`] before values, so that
    /// neither read waits for the other.
    fn burst(&self, dsts: &[u32], hops: &mut [Hop]) {
        let (root, arena) = (self.root(), self.arena());
        let mut entries = [0; BURST];
        let first = |dst: u32| root[(dst >> REST_BITS) as usize].load(Ordering::Acquire);
        let ahead = dsts.len().min(AHEAD);
        for (entry, &dst) in entries.iter_mut().zip(&dsts[..ahead]) {
            *entry = first(dst);
        }
        let groups = (dsts.len() - ahead) / GROUP;
        for group in 0..groups {
            let i = group * GROUP;
            let (now, later) = (&dsts[i..i + GROUP], &dsts[i + ahead..i + ahead + GROUP]);
            let coming: &mut [u32; GROUP] =
                (&mut entries[i + ahead..i + ahead + GROUP]).try_into().expect("GROUP of them");
            for j in 0..GROUP {
                coming[j] = first(later[j]);
            }
            let (present, out) = (&entries[i..i + GROUP], &mut hops[i..i + GROUP]);
            for j in 0..GROUP {
                out[j] = Hop(Self::value(arena, present[j], now[j]));
            }
        }
        let done = groups * GROUP;
        for i in done + ahead..dsts.len() {
            entries[i] = first(dsts[i]);
        }
        for i in done..dsts.len() {
            hops[i] = Hop(Self::value(arena, entries[i], dsts[i]));
        }
        self.finish(dsts, hops);
    }

    /// Resolves escapes, then zeros to the default route.
    #[inline(always)]
    fn finish(&self, dsts: &[u32], hops: &mut [Hop]) {
        if hops.iter().fold(false, |any, hop| any | (hop.0 == V::ESCAPE)) {
            for (hop, &dst) in hops.iter_mut().zip(dsts).filter(|(hop, _)| hop.0 == V::ESCAPE) {
                hop.0 = self.deep(dst);
            }
        }
        let default = self.default.load(Ordering::Relaxed);
        for hop in hops {
            hop.0 = if hop.0 == 0 { default } else { hop.0 };
        }
    }
}

impl<V: Value> Lpm<u32> for Table<V> {
    #[inline]
    fn lookup(&self, dst: u32) -> Hop {
        let entry = self.root()[(dst >> REST_BITS) as usize].load(Ordering::Acquire);
        let mut hop = [Hop(Self::value(self.arena(), entry, dst))];
        self.finish(&[dst], &mut hop);
        hop[0]
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            self.burst(dsts, hops);
        }
    }

    fn bytes(&self) -> usize {
        // Of the identity table only the places of hops in use are ever read; it
        // is counted whole.
        self.root.len() * 4 + self.reached.load(Ordering::Relaxed) as usize * V::WIDTH / 8
    }
}

const BURST: usize = 256;
const AHEAD: usize = 24;
const GROUP: usize = 8;
