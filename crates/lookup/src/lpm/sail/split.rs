//! The two splits of SAIL: the length, then the hop; up to /24, then beyond. What
//! `sail-b` and `sail-u` share, drawn in the card of `sail-b`; they differ in how
//! they find the length ([`Lengths`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::accesses::{Accesses, words};
use super::owned::{gaps, holds_longer, owner};
use crate::hint::prefetch;
use crate::lpm::default_hop::{self, DefaultHop};
use crate::lpm::space::Space;
use crate::lpm::{Applied, Card, Lpm, Refusal, Writer, scale};
use crate::pages::{Cut, Pages};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Hop, Prefix, Rib};

/// Which prefix of at most /24 is the longest: the bitmaps.
///
/// A place numbers the trie's nodes from the root, 1, level by level: the prefix
/// of `len` bits `b` has place 2^len + b. `top` are an address' first 24 bits.
pub(super) trait Lengths: Send + Sync + Sized + 'static {
    /// What the writer knows beside.
    type Known: Default + Send;
    /// Words of the bitmaps that a lookup reads.
    const READS: u64;

    fn new() -> std::io::Result<Self>;
    /// The place of the longest prefix, or of the /24 where anything longer is
    /// below; the root's where there is none. Read relaxed: a fence follows.
    fn place(&self, top: u32) -> u32;
    /// The same above level 24.
    fn above(&self, top: u32) -> u32;
    /// Asks for what `place` reads.
    fn prefetch(&self, top: u32);
    /// B24, in words of 64.
    fn pivots(&self) -> &[AtomicU64];
    fn bytes(&self) -> usize;
    /// Bytes of the hops' array that a lookup can read.
    fn hop_bytes() -> usize;
    /// Brings a prefix of /1 to /24 in line.
    fn change(table: &Split<Self>, known: &mut Self::Known, change: &Change<u32>, rib: &Rib<u32>);
    fn known_bytes(_: &Self::Known) -> usize {
        0
    }
}

/// What the readers share.
///
/// - I1: where a bitmap's bit is set, the hop at its place was stored before. A hop
///   stays when its bit is cleared: who saw the bit gets the old answer.
/// - I2: `hops` at a place of level 24 has `CHUNK` exactly where the `Rib` holds a
///   route longer than /24 inside; then its bit in B24 is set.
/// - I3: a chunk was filled before it was named, and is not used for another /24
///   until every thread that was online when its name went has quiesced.
pub(super) struct Split<L: Lengths> {
    pub(super) lengths: L,
    hops: Pages<[AtomicU32; PLACES]>,
    /// Cells of what routes longer than /24 own; 0 where none does.
    chunks: Cut<[AtomicU32; 256]>,
    /// By chunk, the hop of its /24; 0 where it has none.
    labels: Cut<AtomicU32>,
    lines: Arc<AtomicU32>,
    default: DefaultHop,
    pub(super) accesses: Accesses,
}

impl<L: Lengths> Lpm<u32> for Split<L> {
    fn lookup(&self, dst: u32) -> Hop {
        let place = self.lengths.place(dst >> 8);
        fence(Ordering::Acquire); // I1
        let mut hop = self.hop(place).load(Ordering::Acquire);
        if goes_on(place, hop) {
            hop = self.deep(dst, hop);
        }
        self.default.or(hop)
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            self.burst(dsts, hops);
        }
    }

    fn bytes(&self) -> usize {
        let chunks = self.lines.load(Ordering::Relaxed) as usize / CHUNK_LINES as usize;
        self.lengths.bytes() + L::hop_bytes() + chunks * (CHUNK_BYTES + size_of::<u32>())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.accesses.counters();
        counters.push(("on_chip_bytes", self.lengths.bytes() as u64));
        counters.push(("on_chip_reads", L::READS));
        let lines = self.lines.load(Ordering::Relaxed);
        counters.push(("chunks", u64::from(lines / CHUNK_LINES)));
        counters
    }
}

impl<L: Lengths> Split<L> {
    /// Lengths of all, then hops of all: the reads of each pass overlap.
    #[inline(always)]
    fn burst(&self, dsts: &[u32], hops: &mut [Hop]) {
        for &dst in dsts {
            self.lengths.prefetch(dst >> 8);
        }
        let mut places = [0; BURST];
        for (&dst, place) in dsts.iter().zip(&mut places) {
            *place = self.lengths.place(dst >> 8);
            prefetch(self.hop(*place));
        }
        fence(Ordering::Acquire); // I1
        let mut any = false;
        for (hop, &place) in hops.iter_mut().zip(&places) {
            hop.0 = self.hop(place).load(Ordering::Relaxed);
            any |= goes_on(place, hop.0);
        }
        if any {
            fence(Ordering::Acquire); // I3
            for ((hop, &dst), &place) in hops.iter_mut().zip(dsts).zip(&places) {
                if goes_on(place, hop.0) {
                    hop.0 = self.deep(dst, hop.0);
                }
            }
        }
        let default = self.default.get();
        default_hop::fill(hops, default);
    }

    /// The answer where a /24 holds longer routes.
    #[cold]
    #[inline(never)]
    fn deep(&self, dst: u32, entry: u32) -> u32 {
        if entry & CHUNK != 0 {
            let chunk = entry as usize;
            let hop = self.chunks.at(chunk)[(dst & 0xff) as usize].load(Ordering::Acquire);
            if hop != 0 {
                return hop;
            }
            let label = self.labels.at(chunk).load(Ordering::Acquire);
            if label != 0 {
                return label;
            }
        }
        let place = self.lengths.above(dst >> 8);
        fence(Ordering::Acquire); // I1
        self.hop(place).load(Ordering::Relaxed)
    }

    /// Masked to the array: whatever a place says, the read stays inside.
    #[inline(always)]
    fn hop(&self, place: u32) -> &AtomicU32 {
        &self.hops[0][place as usize & (PLACES - 1)]
    }

    /// Writes the hop of `place`; of a /24 with a chunk, its label.
    pub(super) fn label(&self, place: u32, hop: u32) {
        let entry = self.hop(place).load(Ordering::Relaxed); // the writer alone writes
        if entry & CHUNK == 0 {
            self.hop(place).store(hop, Ordering::Release);
        } else {
            self.labels.at(entry as usize).store(hop, Ordering::Release);
        }
    }

    /// True where the /24 at `place` has a chunk.
    pub(super) fn has_chunk(&self, place: u32) -> bool {
        self.hop(place).load(Ordering::Relaxed) & CHUNK != 0
    }

    fn is_pivot(&self, place: u32) -> bool {
        let top = place & (PLACES as u32 / 2 - 1);
        let word = &self.lengths.pivots()[top as usize / 64];
        word.load(Ordering::Relaxed) >> (top % 64) & 1 != 0
    }

    /// Sets or clears the bit of a /24 in B24.
    pub(super) fn set_pivot(&self, place: u32, there: bool) {
        if self.is_pivot(place) != there {
            let top = place & (PLACES as u32 / 2 - 1);
            let word = &self.lengths.pivots()[top as usize / 64];
            self.store(word, word.load(Ordering::Relaxed) ^ 1 << (top % 64));
        }
    }

    /// Writes a word of a bitmap.
    pub(super) fn store(&self, word: &AtomicU64, bits: u64) {
        word.store(bits, Ordering::Release);
        self.accesses.on_chip(1);
    }
}

/// The one thread that updates.
pub(super) struct Splitter<L: Lengths> {
    card: &'static Card,
    table: Arc<Split<L>>,
    known: L::Known,
    space: Space,
}

impl<L: Lengths> Splitter<L> {
    pub(super) fn build(
        card: &'static Card,
        rib: &Rib<u32>,
        domain: &Arc<Domain>,
    ) -> Result<Self, Refusal> {
        let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
        card.admit_bytes(L::hop_bytes())?;
        let chunks = scale::deep_chunks(rib, MAX_CHUNKS);
        let space = Space::new(domain, chunks as u32 * CHUNK_LINES, CHUNKS_IN_LIMBO);
        let table = Split {
            lengths: L::new().map_err(no_memory)?,
            hops: Pages::zeroed(1).map_err(no_memory)?,
            chunks: Cut::zeroed(chunks).map_err(no_memory)?,
            labels: Cut::zeroed(chunks).map_err(no_memory)?,
            lines: space.touched(),
            default: DefaultHop::default(),
            accesses: Accesses::default(),
        };
        let known = L::Known::default();
        let mut splitter = Splitter { card, table: Arc::new(table), known, space };
        for (prefix, hop) in rib.iter() {
            card.admit_hop(hop)?;
            splitter.change(rib, &Change { prefix, hop: Some(hop) })?;
        }
        splitter.table.accesses.reset();
        Ok(splitter)
    }

    /// Brings what `change` touches in line with `rib`, of which it reports the hop.
    fn change(&mut self, rib: &Rib<u32>, change: &Change<u32>) -> Result<(), Refusal> {
        match change.prefix.len() {
            0 => {
                let hop = change.hop.unwrap_or(Hop::NONE);
                self.table.default.set(hop);
            }
            1..=24 => L::change(&self.table, &mut self.known, change, rib),
            _ => {
                let around = Prefix::covering(change.prefix.first(), 24);
                let place = 1 << 24 | around.first() >> 8;
                if holds_longer(rib, around) {
                    let chunk = self.open(place)?;
                    self.repaint(rib, change.prefix, chunk);
                } else {
                    self.close(place);
                }
            }
        }
        Ok(())
    }

    /// The chunk of the /24 at `place`, which gets one if it has none.
    fn open(&mut self, place: u32) -> Result<usize, Refusal> {
        let entry = self.table.hop(place).load(Ordering::Relaxed);
        if entry & CHUNK != 0 {
            return Ok((entry & !CHUNK) as usize);
        }
        let full = || format!("more than {MAX_CHUNKS} /24s hold routes longer than /24");
        let at = self.space.take(CHUNK_LINES);
        let at = at.ok_or_else(|| self.card.refuse(self.space.limit(full)))?;
        let chunk = at / CHUNK_LINES; // exact: there are no other blocks
        let cells = &self.table.chunks[chunk as usize];
        cells.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
        let label = if self.table.is_pivot(place) { entry } else { 0 };
        self.table.labels[chunk as usize].store(label, Ordering::Relaxed);
        self.table.hop(place).store(CHUNK | chunk, Ordering::Release); // I3
        self.table.set_pivot(place, true); // I2
        self.table.accesses.off_chip(CHUNK_BYTES / 8 + 2);
        Ok(chunk as usize)
    }

    /// Takes the chunk of the /24 at `place` back, if it has one.
    fn close(&mut self, place: u32) {
        let entry = self.table.hop(place).load(Ordering::Relaxed);
        if entry & CHUNK == 0 {
            return;
        }
        let chunk = (entry & !CHUNK) as usize;
        let label = self.table.labels[chunk].load(Ordering::Relaxed);
        if label == 0 {
            self.table.set_pivot(place, false);
        }
        self.table.hop(place).store(label, Ordering::Release);
        self.table.accesses.off_chip(1);
        self.space.retire(chunk as u32 * CHUNK_LINES, CHUNK_LINES);
    }

    /// Writes to the cells that `prefix`, longer than /24, owns.
    fn repaint(&self, rib: &Rib<u32>, prefix: Prefix<u32>, chunk: usize) {
        let hop = owner(rib, prefix, 25);
        for (first, last) in gaps(rib, prefix) {
            let (first, last) = ((first & 0xff) as usize, (last & 0xff) as usize);
            for cell in &self.table.chunks[chunk][first..=last] {
                cell.store(hop, Ordering::Release);
            }
            self.table.accesses.off_chip(words(first, last, size_of::<u32>()));
        }
    }

    /// Asks whether garbage, chunks and memory allow `changes`; false where more chunks would.
    fn admit(&mut self, changes: &[Change<u32>]) -> Result<bool, Refusal> {
        self.space.admit().map_err(|congested| self.card.refuse(congested.to_string()))?;
        let grows = |change: &&Change<u32>| change.hop.is_some() && change.prefix.len() > 24;
        let more = changes.iter().filter(grows).count();
        let more = more.saturating_sub(self.space.spare(CHUNK_LINES));
        let used = (self.table.lines.load(Ordering::Relaxed) / CHUNK_LINES) as usize;
        if more > self.table.chunks.len() - used {
            let limit = || self.card.refuse(format!("{} chunks, of {MAX_CHUNKS}", used + more));
            return if self.table.chunks.len() < MAX_CHUNKS { Ok(false) } else { Err(limit()) };
        }
        if more > 0 {
            self.card.admit_bytes(more * CHUNK_BYTES)?;
        }
        Ok(true)
    }
}

impl<L: Lengths> Writer<u32> for Splitter<L> {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            self.card.admit_hop(hop)?;
        }
        if !self.admit(changes)? {
            return Ok(Applied::Rebuild); // with more chunks
        }
        for &Change { prefix, .. } in changes {
            // As the Rib is in the end, so that the changes' order does not matter.
            let change = Change { prefix, hop: rib.get(&prefix) };
            self.table.accesses.begin();
            self.change(rib, &change)?;
            self.table.accesses.end();
        }
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        self.space.bytes() + L::known_bytes(&self.known)
    }
}

/// True where what is at `place` is not the answer: a chunk, or a /24 that went
/// while it was read.
#[inline(always)]
fn goes_on(place: u32, entry: u32) -> bool {
    (entry & CHUNK != 0) | ((entry == 0) & (place >> 24 != 0))
}

/// Marks the entry of a /24 that names a chunk.
const CHUNK: u32 = 1 << 31;

/// Places of all prefixes up to /24.
pub(super) const PLACES: usize = 1 << 25;

/// Address space is reserved for so many at most; memory comes as they are used.
const MAX_CHUNKS: usize = if cfg!(miri) { 1 << 8 } else { 1 << 21 };

const CHUNK_BYTES: usize = 256 * size_of::<u32>();

/// Lines of 64 bytes in a chunk: what its space is counted in.
const CHUNK_LINES: u32 = CHUNK_BYTES as u32 / 64;

/// Chunks that may wait for readers.
const CHUNKS_IN_LIMBO: usize = 1 << 16;

const BURST: usize = 64;
