//! SAIL_M: many FIBs (virtual routers) overlaid, so that they share what finds the
//! length, and each has a lane of its own in the hops.
//!
//! ```text
//!    on chip   BC16   [ 0 | chunk c | … ]   2^16 × 4 B: a leaf, or longer below   256 KiB
//!              B24    2^24 bits: this /24 holds longer routes                       2 MiB
//!    off chip  N16    [ hop of FIB 0 | 1 | … m - 1 ]  2^16 places
//!              N24    [ hop of FIB 0 | 1 | … m - 1 ]  256 places a chunk c, behind N16
//!              C24    [ chunk d ]                     256 places a chunk c
//!              N32    [ hop of FIB 0 | 1 | … m - 1 ]  256 places a chunk d
//!    default          the hop of /0 of each FIB; replaces zeros at the end of a burst
//! ```
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 2 reads on chip, then 1 off chip, or 2 beyond /24; however many FIBs |
//! | build     | one write per place that a route covers, nested ones again       |
//! | update    | the places that the prefix owns, those too that other FIBs have  |
//! |           | split; a chunk is opened and closed for all FIBs; not bounded    |
//! | memory    | 2.25 MiB; 4 m B a place, 256 places a /16 or /24 with longer routes |
//!
//! Source: thesis, section 3.4.3. We differ: hops have 32 bits; a leaf of N16 and one
//! of N24 are found without a branch, because their places are of one array. A chunk
//! goes when no FIB needs it; the paper does not say. The on-chip bound of table 3.2,
//! 2.13 MiB, becomes 2.25 MiB with numbers of 32 bits.
//!
//! [`Overlay`] is the table of many FIBs, [`OverlayWriter`] builds and updates it, a
//! [`Fib`] is one of them as an `Lpm`. In the registry `sail-m` stands for the overlay
//! of one FIB.

mod writer;

pub use writer::OverlayWriter;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::accesses::Accesses;
use crate::hint::prefetch;
use crate::lpm::default_hop::{self, DefaultHop};
use crate::lpm::{Card, Entry, Lpm, Options, Refusal, Writer};
use crate::pages::Pages;
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build: build_one };

const CARD: Card = Card {
    name: "sail-m",
    paper: "Fu: High-Performance Software Packet Processing (2020), section 3.4.3",
    help: "many FIBs in one structure, with a lane of hops for each",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[],
};

/// What the readers share.
///
/// - I1: an entry of `bc16` or `c24` with `CHUNK` names a chunk all of whose places
///   were filled before; it is not used for another prefix until every thread that
///   was online when the entry went has quiesced.
/// - I2: where the writer rests, a /16 (/24) has a chunk exactly when some FIB holds a
///   longer route inside, and the bit in `b24` is set exactly where the /24 has one.
/// - I3: a bit of `b24` is set after `bc16` and `c24` name chunks, cleared before they go.
pub struct Overlay {
    fibs: usize,
    bc16: Pages<[AtomicU32; 1 << 16]>,
    b24: Pages<[AtomicU64; 1 << 18]>,
    /// N16, then N24: `fibs` hops a place.
    near: Pages<AtomicU32>,
    c24: Pages<[AtomicU32; 256]>,
    far: Pages<AtomicU32>,
    defaults: Vec<DefaultHop>,
    /// Chunks of level 24 and of level 32 that have ever been used.
    touched: [Arc<AtomicU32>; 2],
    accesses: Accesses,
}

impl Overlay {
    /// Number of FIBs.
    pub fn fibs(&self) -> usize {
        self.fibs
    }

    /// The hop of the longest prefix of FIB number `fib` that covers `dst`.
    ///
    /// # Panics
    /// When there is no such FIB.
    pub fn lookup(&self, fib: u16, dst: u32) -> Hop {
        let mut hop = [Hop::NONE];
        self.burst(|_| fib.into(), &[dst], &mut hop);
        hop[0]
    }

    /// `hops[i] = lookup(fibs[i], dsts[i])` for every `i`.
    ///
    /// # Panics
    /// When the slices differ in length, or there is no such FIB.
    pub fn lookup_batch(&self, fibs: &[u16], dsts: &[u32], hops: &mut [Hop]) {
        assert!(dsts.len() == hops.len() && dsts.len() == fibs.len());
        for (i, (dsts, hops)) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)).enumerate() {
            let fibs = &fibs[i * BURST..];
            self.burst(|j| fibs[j].into(), dsts, hops);
        }
    }

    /// FIB number `fib` alone.
    ///
    /// # Panics
    /// When there is no such FIB.
    pub fn fib(self: &Arc<Self>, fib: u16) -> Fib {
        assert!(usize::from(fib) < self.fibs, "FIB {fib} of {}", self.fibs);
        Fib { overlay: self.clone(), fib }
    }

    /// As [`Lpm::bytes`].
    pub fn bytes(&self) -> usize {
        let [mid, deep] = [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed) as usize);
        let places = (1 << 16) + (mid + deep) * 256;
        self.on_chip_bytes() + (places * self.fibs + mid * 256 + self.fibs) * size_of::<u32>()
    }

    /// As [`Lpm::counters`].
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.accesses.counters();
        let [mid, deep] = [0, 1].map(|i| self.touched[i].load(Ordering::Relaxed).into());
        counters.extend([("fibs", self.fibs as u64), ("chunks_24", mid), ("chunks_deeper", deep)]);
        counters.extend([("on_chip_bytes", self.on_chip_bytes() as u64), ("on_chip_reads", 2)]);
        counters
    }

    fn on_chip_bytes(&self) -> usize {
        size_of_val(&*self.bc16) + size_of_val(&*self.b24)
    }

    /// Places of all, then hops of all: the reads of each pass overlap.
    #[inline(always)]
    fn burst(&self, fib_of: impl Fn(usize) -> usize, dsts: &[u32], hops: &mut [Hop]) {
        let (mut places, mut any) = ([0; BURST], false);
        for (i, (&dst, place)) in dsts.iter().zip(&mut places).enumerate() {
            let deep = self.is_deep(dst); // before `bc16`: I3
            let entry = self.bc16[0][(dst >> 16) as usize].load(Ordering::Acquire);
            *place = place_of(entry, dst) | u32::from(deep & (entry != 0)) << 31;
            any |= deep;
            prefetch(self.near(place_of(entry, dst), fib_of(i)));
        }
        for (i, (hop, &place)) in hops.iter_mut().zip(&places).enumerate() {
            hop.0 = self.near(place & !CHUNK, fib_of(i)).load(Ordering::Acquire);
        }
        if any {
            for (i, ((hop, &place), &dst)) in hops.iter_mut().zip(&places).zip(dsts).enumerate() {
                if place & CHUNK != 0 {
                    *hop = self.deep(place & !CHUNK, fib_of(i), dst).unwrap_or(*hop);
                }
            }
        }
        for (i, hop) in hops.iter_mut().enumerate() {
            let default = self.defaults[fib_of(i)].get();
            *hop = default_hop::or(hop.0, default);
        }
    }

    /// The answer inside a /24 of longer routes; none if it has just lost them.
    fn deep(&self, place: u32, fib: usize, dst: u32) -> Option<Hop> {
        let entry = self.c24(place).load(Ordering::Acquire);
        let cell = (entry & !CHUNK) << 8 | dst & 0xff;
        (entry != 0).then(|| Hop(self.far(cell, fib).load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn is_deep(&self, dst: u32) -> bool {
        let word = &self.b24[0][(dst >> 14) as usize];
        word.load(Ordering::Acquire) >> (dst >> 8 & 63) & 1 != 0
    }

    #[inline(always)]
    fn near(&self, place: u32, fib: usize) -> &AtomicU32 {
        &self.near[place as usize * self.fibs + fib]
    }

    /// The name of the chunk below a place of N24.
    fn c24(&self, place: u32) -> &AtomicU32 {
        let cell = (place - (1 << 16)) as usize;
        &self.c24[cell >> 8][cell & 0xff]
    }

    fn far(&self, cell: u32, fib: usize) -> &AtomicU32 {
        &self.far[cell as usize * self.fibs + fib]
    }
}

/// One FIB of an overlay.
#[derive(Clone)]
pub struct Fib {
    overlay: Arc<Overlay>,
    fib: u16,
}

impl Lpm<u32> for Fib {
    fn lookup(&self, dst: u32) -> Hop {
        self.overlay.lookup(self.fib, dst)
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            self.overlay.burst(|_| self.fib.into(), dsts, hops);
        }
    }

    fn bytes(&self) -> usize {
        self.overlay.bytes()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.overlay.counters()
    }
}

fn build_one(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    options.check(&CARD)?;
    Ok(Box::new(OverlayWriter::build(&[rib], domain)?))
}

/// Where the hops of `dst` stand, by the entry of its /16: a place of N16, or of N24.
#[inline(always)]
fn place_of(entry: u32, dst: u32) -> u32 {
    let inside = (1 << 16) + ((entry & !CHUNK) << 8 | dst >> 8 & 0xff);
    if entry == 0 { dst >> 16 } else { inside }
}

/// Marks an entry that names a chunk, and a place whose bit in `b24` is set.
const CHUNK: u32 = 1 << 31;

/// The most FIBs of an overlay.
pub const MAX_FIBS: usize = 256;

/// Of level 24, one for each /16, and as many that wait for readers; and of level 32. Address
/// space is reserved for so many at most; memory comes as they are used.
const MOST_CHUNKS: [usize; 2] = [if cfg!(miri) { 1 << 8 } else { 1 << 17 }, DEEP_CHUNKS];
const DEEP_CHUNKS: usize = if cfg!(miri) { 1 << 8 } else { 1 << 18 };

const BURST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;
    use crate::lpm::Intervals;
    use crate::lpm::oracle::{Rng, probes};
    use crate::rib::Change;

    crate::lpm::oracle::conformance!(u32, ENTRY);

    fn agrees(writer: &OverlayWriter, ribs: &[Rib<u32>], rng: &mut Rng) {
        let all: Vec<_> = ribs.iter().flat_map(Rib::iter).collect();
        let dsts = probes(&all, rng);
        let table = writer.table();
        for (fib, rib) in ribs.iter().enumerate() {
            let flat = Intervals::new(rib.iter());
            let mut hops = vec![Hop(9); dsts.len()];
            table.fib(fib as u16).lookup_batch(&dsts, &mut hops);
            for (&dst, &got) in dsts.iter().zip(&hops) {
                assert_eq!(got, flat.lookup(dst), "FIB {fib} {dst:#x}");
            }
        }
        let fibs: Vec<_> = dsts.iter().map(|_| rng.below(ribs.len() as u32) as u16).collect();
        let mut hops = vec![Hop(9); dsts.len()];
        table.lookup_batch(&fibs, &dsts, &mut hops);
        for (i, &got) in hops.iter().enumerate() {
            assert_eq!(got, table.lookup(fibs[i], dsts[i]));
        }
    }

    #[test]
    fn many_fibs_each_answer_as_alone() {
        let domain = Domain::new();
        for count in [1, 2, 5, 12] {
            let mut rng = Rng::new(count);
            let routes = if cfg!(miri) { 8 } else { 200 };
            let mut ribs: Vec<Rib<u32>> = (0..count)
                .map(|_| (0..routes).map(|_| rng.route()).filter(|(p, _)| p.len() > 13).collect())
                .collect();
            let refs: Vec<_> = ribs.iter().collect();
            let mut writer = OverlayWriter::build(&refs, &domain).unwrap();
            agrees(&writer, &ribs, &mut rng);
            for _ in 0..if cfg!(miri) { 3 } else { 60 } {
                let fib = rng.below(ribs.len() as u32) as usize;
                let (new, hop) = rng.route::<u32>();
                let there = ribs[fib].iter().nth(rng.below(50) as usize);
                let changes = [
                    Some(Change { prefix: new, hop: Some(hop) }),
                    there.map(|(prefix, _)| Change { prefix, hop: None }),
                ];
                let changes: Vec<_> = changes.into_iter().flatten().collect();
                changes.iter().for_each(|change| {
                    ribs[fib].apply(change);
                });
                let refs: Vec<_> = ribs.iter().collect();
                writer.apply(&refs, fib as u16, &changes).unwrap();
                agrees(&writer, &ribs, &mut rng);
            }
        }
    }

    #[test]
    fn a_chunk_is_shared_and_goes_with_the_last_fib() {
        let with = |hop| -> Rib<u32> {
            [(Prefix::covering(0x0a01_0203, 32), Hop(hop))].into_iter().collect()
        };
        let (mut ribs, domain) = ([with(1), with(2)], Domain::new());
        let mut writer = OverlayWriter::build(&[&ribs[0], &ribs[1]], &domain).unwrap();
        let bytes = writer.table().bytes();
        let alone = OverlayWriter::build(&[&ribs[0]], &domain).unwrap().table().bytes();
        assert!(bytes < 2 * alone);
        let prefix = Prefix::covering(0x0a01_0203, 32);
        for fib in [0, 1] {
            ribs[fib].remove(&prefix);
            assert_ne!(writer.table().bc16[0][0x0a01].load(Ordering::Relaxed), 0);
            let change = Change { prefix, hop: None };
            writer.apply(&[&ribs[0], &ribs[1]], fib as u16, &[change]).unwrap();
        }
        assert_eq!(writer.table().bc16[0][0x0a01].load(Ordering::Relaxed), 0);
        assert!(!writer.table().is_deep(0x0a01_0200));
    }

    #[test]
    fn no_fib_and_too_many_are_refused() {
        let rib = Rib::new();
        let refusal = OverlayWriter::build(&vec![&rib; MAX_FIBS + 1], &Domain::new()).err();
        assert_eq!(refusal.unwrap().to_string(), "sail-m refuses: 257 FIBs, of 1 to 256");
        assert!(OverlayWriter::build(&[], &Domain::new()).is_err());
    }

    #[test]
    #[cfg(not(miri))] // many routes
    fn a_table_that_outgrows_its_arrays_is_built_anew() {
        crate::lpm::oracle::Suite::new(ENTRY, &[]).outgrows_its_chunks();
    }
}
