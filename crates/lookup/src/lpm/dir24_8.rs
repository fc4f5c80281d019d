//! DIR-24-8: longest prefix match for IPv4 in one memory read, at most two.
//!
//! ```text
//!    dst = 10.1.2.200     10 . 1 . 2          . 200
//!                         └── 24 bits ──┘      └── 8 bits ──┐
//!                               ▼                           ▼
//!    tbl24   [ hop | hop | group g | hop | … ]   tbl8[g] [ hop; 256 ]
//!            2^24 entries × 4 B = 64 MiB                 1 KiB a group
//!
//!    tbl24 entry    bit 31 = 0: bits 30..0 are the hop, 0 for nothing but /0
//!                   bit 31 = 1: bits 30..0 are the index of a tbl8 group
//!    tbl8 entry     bits 30..0 are the hop, 0 for nothing but /0
//!    default        the hop of /0; replaces zeros at the end of a lookup
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | lookup    | 1 read; 2 where a route longer than /24 shares the /24        |
//! | build     | one write per /24 that a route covers, nested ones again      |
//! | update    | one write per /24 (or address) that the prefix owns; /0: one  |
//! | memory    | 64 MiB + 1 KiB per /24 that holds a route longer than /24     |
//!
//! Source: Gupta, Lin, McKeown, *Routing Lookups in Hardware at Memory Access
//! Speeds*, INFOCOM 1998. We differ: entries are 32 bits, so a hop has 31; the
//! table is updated in place under readers: a prefix repaints only what no
//! longer prefix owns (the `Rib` knows), a group is filled before an entry names
//! it and used again only after a grace period. A default route is not painted.
//!
//! With AVX-512 sixteen keys are one gather, and a second for those with a group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::default_hop::{self, DefaultHop};
use super::instruments::{Instrumented, Reads, address};
use super::isa::{self, Isa};
use super::{Applied, Card, Entry, Lpm, Options, Refusal, Writer, scale};
use crate::pages::{self, Cut, Pages};
use crate::rib::Change;
use crate::sync::{Domain, Limbo};
use crate::{Hop, Prefix, Rib};

/// The registry's line.
pub const ENTRY: Entry<u32> = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "dir-24-8",
    paper: "Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds (1998)",
    help: "one read for prefixes up to /24, two for longer ones; 64 MiB; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 32,
    max_prefixes: None,
    options: &[isa::OPTION],
};

/// What the readers share.
///
/// - I1: an entry of `tbl24` with `IS_GROUP` names a group whose cells were
///   written before; the group is not written for another /24 until every
///   thread that was online when the entry went has quiesced.
/// - I2: where the writer rests, a /24 has a group exactly when the `Rib` holds a
///   route longer than /24 inside it.
struct Dir24_8 {
    tbl24: Pages<Tbl24>,
    tbl8: Cut<Group>,
    default: DefaultHop,
    isa: Isa,
    /// Groups that have ever been used.
    groups: AtomicU32,
}

/// One array, so that its length is known: an index cut to it needs no check.
type Tbl24 = [AtomicU32; 1 << 24];
type Group = [AtomicU32; 256];

impl Lpm<u32> for Dir24_8 {
    fn lookup(&self, dst: u32) -> Hop {
        let entry = self.tbl24()[slot(dst)].load(Ordering::Acquire);
        let hop = if entry & IS_GROUP == 0 { entry } else { self.second_read(entry, dst) };
        self.default.or(hop)
    }

    fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        match self.isa {
            #[cfg(avx512)]
            // SAFETY: `Isa::choose` gives this value only where there is AVX-512.
            Isa::Avx512 => unsafe { self.batch_avx512(dsts, hops) },
            _ => self.batch(dsts, hops),
        }
    }

    fn isa(&self) -> &'static str {
        match self.isa {
            #[cfg(avx512)]
            Isa::Avx512 => "avx512",
            _ => "portable",
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Tbl24>() + self.groups.load(Ordering::Relaxed) as usize * GROUP_BYTES
    }
}

impl Reads<u32> for Dir24_8 {
    fn reads(&self, dst: u32) -> Vec<usize> {
        let first = &self.tbl24()[slot(dst)];
        let entry = first.load(Ordering::Acquire);
        let second = (entry & IS_GROUP != 0).then(|| self.cell(entry, low8(dst)));
        [Some(first), second].into_iter().flatten().map(address).collect()
    }
}

impl Dir24_8 {
    #[inline(always)]
    fn batch(&self, dsts: &[u32], hops: &mut [Hop]) {
        let tbl24 = self.tbl24();
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            // Nothing waits for these reads, so the processor overlaps as many
            // as it has buffers for.
            let mut any = 0;
            for (&dst, hop) in dsts.iter().zip(hops.iter_mut()) {
                hop.0 = tbl24[slot(dst)].load(Ordering::Acquire);
                any |= hop.0;
            }
            if any & IS_GROUP != 0 {
                for (&dst, hop) in dsts.iter().zip(hops.iter_mut()) {
                    if hop.0 & IS_GROUP != 0 {
                        hop.0 = self.second_read(hop.0, dst);
                    }
                }
            }
            let default = self.default.get();
            default_hop::fill(hops, default);
        }
    }

    /// Sixteen at a time, by gathers.
    #[cfg(avx512)]
    #[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
    fn batch_avx512(&self, dsts: &[u32], hops: &mut [Hop]) {
        use core::arch::x86_64::*;
        let number = |n: u32| _mm512_set1_epi32(n as i32);
        let (is_group, low8) = (number(IS_GROUP), number(0xff));
        let default = number(self.default.get());
        let (tbl24, tbl8) = (self.tbl24().as_ptr().cast(), self.tbl8.as_ptr().cast());
        let groups_mask = number(self.tbl8.len() as u32 - 1);
        let (mut dsts, mut hops) = (dsts.chunks_exact(16), hops.chunks_exact_mut(16));
        for (dsts, hops) in (&mut dsts).zip(&mut hops) {
            // SAFETY: sixteen keys.
            let keys = unsafe { _mm512_loadu_si512(dsts.as_ptr().cast()) };
            let slots = _mm512_srli_epi32::<8>(keys);
            // SAFETY: there are 2^24 entries. A lane is one load of four aligned bytes,
            // so an entry that is stored meanwhile is read whole.
            let mut found = unsafe { _mm512_i32gather_epi32::<4>(slots, tbl24) };
            let groups = _mm512_test_epi32_mask(found, is_group);
            if groups != 0 {
                let group = _mm512_and_si512(found, groups_mask);
                let cells =
                    _mm512_or_si512(_mm512_slli_epi32::<8>(group), _mm512_and_si512(keys, low8));
                // SAFETY: as above; cut to the array as in `cell`.
                found = unsafe { _mm512_mask_i32gather_epi32::<4>(found, groups, cells, tbl8) };
            }
            let none = _mm512_testn_epi32_mask(found, found);
            let found = _mm512_mask_mov_epi32(found, none, default);
            // SAFETY: room for sixteen; a `Hop` is a `u32`.
            unsafe { _mm512_storeu_si512(hops.as_mut_ptr().cast(), found) };
        }
        self.batch(dsts.remainder(), hops.into_remainder());
    }

    #[inline(always)]
    fn second_read(&self, entry: u32, dst: u32) -> u32 {
        self.cell(entry, low8(dst)).load(Ordering::Acquire)
    }

    /// In the group of `entry`, its cell `low`. The group's number is cut to the array:
    /// whatever an entry says, the read stays inside.
    #[inline(always)]
    fn cell(&self, entry: u32, low: usize) -> &AtomicU32 {
        &self.tbl8.at(entry as usize)[low % 256]
    }

    #[inline(always)]
    fn tbl24(&self) -> &Tbl24 {
        &self.tbl24[0]
    }
}

struct Dir24_8Writer {
    table: Arc<Dir24_8>,
    free: Vec<u32>,
    limbo: Limbo<u32>,
}

fn build(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u32>>, Refusal> {
    Ok(instrumented(rib, options, domain)?.writer)
}

pub(super) fn instrumented(
    rib: &Rib<u32>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Instrumented<u32>, Refusal> {
    options.check(&CARD)?;
    CARD.admit_bytes(size_of::<u32>() << 24)?;
    let no_memory = |error: std::io::Error| CARD.refuse(format!("no memory: {error}"));
    let table = Arc::new(Dir24_8 {
        tbl24: Pages::zeroed(1).map_err(no_memory)?,
        tbl8: Cut::zeroed(scale::deep_chunks(rib, MAX_GROUPS)).map_err(no_memory)?,
        default: DefaultHop::default(),
        isa: Isa::choose(&CARD, options)?,
        groups: AtomicU32::new(0),
    });
    let limbo = Limbo::new(domain, GROUPS_IN_LIMBO);
    let mut writer = Dir24_8Writer { table, free: Vec::new(), limbo };
    // By address, then length: a longer prefix paints over a shorter one.
    for (prefix, hop) in rib.iter() {
        CARD.admit_hop(hop)?;
        writer.paint(prefix, hop)?;
    }
    Ok(Instrumented { reads: writer.table.clone(), writer: Box::new(writer) })
}

impl Writer<u32> for Dir24_8Writer {
    fn table(&self) -> Arc<dyn Lpm<u32>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u32>, changes: &[Change<u32>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            CARD.admit_hop(hop)?;
        }
        if !self.make_room(changes)? {
            return Ok(Applied::Rebuild); // with a larger tbl8
        }
        // Each prefix repaints what it owns by the Rib as it is after all
        // changes, so their order does not matter: the new owner of an address
        // has changed itself, or it has inherited from a prefix that has.
        for change in changes {
            self.repaint(rib, change.prefix);
        }
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        (self.free.capacity() + self.limbo.len()) * size_of::<u32>()
    }
}

impl Dir24_8Writer {
    /// While building: writes `hop` over all that `prefix` covers.
    fn paint(&mut self, prefix: Prefix<u32>, hop: Hop) -> Result<(), Refusal> {
        let (first, last) = (prefix.first(), prefix.last());
        if prefix.len() == 0 {
            self.table.default.set(hop);
        } else if prefix.len() <= 24 {
            let slots = &self.table.tbl24()[slot(first)..=slot(last)];
            pages::fill(slots, hop.0);
        } else {
            if !self.has_group(slot(first)) && self.groups_left() == 0 {
                return Err(too_many_groups());
            }
            if !self.has_group(slot(first)) && self.free.is_empty() {
                CARD.admit_bytes(GROUP_BYTES)?;
            }
            let entry = self.group_of(slot(first));
            self.fill_cells(entry, low8(first), low8(last) + 1, hop.0);
        }
        Ok(())
    }

    /// Brings everything that `prefix` owns, or owned, in line with `rib`.
    fn repaint(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>) {
        if prefix.len() == 0 {
            return self.table.default.follow(rib);
        }
        if prefix.len() <= 24 {
            return self.repaint_slots(rib, prefix, value(rib, prefix));
        }
        let slot = slot(prefix.first());
        let around = Prefix::covering(prefix.first(), 24);
        if longer_than_24(rib, around) {
            let entry = self.group_of(slot);
            self.repaint_cells(rib, prefix, entry, value(rib, prefix));
        } else {
            self.fill_slots(slot, slot + 1, value(rib, around));
        }
    }

    /// Writes `value` to the slots of `prefix` that none of its children owns.
    fn repaint_slots(&mut self, rib: &Rib<u32>, prefix: Prefix<u32>, value: u32) {
        let (mut next, end) = (slot(prefix.first()), slot(prefix.last()) + 1);
        for (child, _) in rib.children(prefix) {
            let first = slot(child.first());
            if first < next {
                continue; // longer than /24, beside one that has been seen
            }
            self.fill_slots(next, first, value);
            if child.len() > 24 {
                let entry = self.table.tbl24()[first].load(Ordering::Relaxed);
                if entry & IS_GROUP == 0 {
                    // Its group comes when the change that brings the child is made.
                    self.fill_slots(first, first + 1, value);
                } else {
                    let around = Prefix::covering(child.first(), 24);
                    self.repaint_cells(rib, around, entry, value);
                }
            }
            next = slot(child.last()) + 1;
        }
        self.fill_slots(next, end, value);
    }

    /// Writes `value` to the cells of `prefix` that none of its children owns;
    /// `prefix` is not shorter than /24.
    fn repaint_cells(&self, rib: &Rib<u32>, prefix: Prefix<u32>, entry: u32, value: u32) {
        let (mut next, end) = (low8(prefix.first()), low8(prefix.last()) + 1);
        for (child, _) in rib.children(prefix) {
            self.fill_cells(entry, next, low8(child.first()), value);
            next = low8(child.last()) + 1;
        }
        self.fill_cells(entry, next, end, value);
    }

    fn fill_slots(&mut self, first: usize, end: usize, value: u32) {
        let table = self.table.clone();
        for entry in &table.tbl24()[first..end] {
            let old = entry.load(Ordering::Relaxed); // we alone write
            entry.store(value, Ordering::Release);
            if old & IS_GROUP != 0 {
                self.limbo.push(old & !IS_GROUP);
            }
        }
    }

    fn fill_cells(&self, entry: u32, first: usize, end: usize, value: u32) {
        for low in first..end {
            self.table.cell(entry, low).store(value, Ordering::Release);
        }
    }

    fn has_group(&self, slot: usize) -> bool {
        self.table.tbl24()[slot].load(Ordering::Relaxed) & IS_GROUP != 0
    }

    /// The entry that names the group of `slot`, which gets one if it has none.
    ///
    /// `make_room` (in `paint`: its caller) has seen to it that there is one.
    fn group_of(&mut self, slot: usize) -> u32 {
        let old = self.table.tbl24()[slot].load(Ordering::Relaxed);
        if old & IS_GROUP != 0 {
            return old;
        }
        let entry = IS_GROUP | self.take_group();
        self.fill_cells(entry, 0, 256, old); // the shorter route shows through
        self.table.tbl24()[slot].store(entry, Ordering::Release); // I1
        entry
    }

    fn take_group(&mut self) -> u32 {
        if self.free.is_empty() {
            self.limbo.drain(|group| self.free.push(group));
        }
        self.free.pop().unwrap_or_else(|| {
            let group = self.table.groups.load(Ordering::Relaxed);
            self.table.groups.store(group + 1, Ordering::Relaxed);
            group
        })
    }

    fn groups_left(&self) -> usize {
        self.table.tbl8.len() - self.table.groups.load(Ordering::Relaxed) as usize + self.free.len()
    }

    /// False where `changes` might need more groups than there are, and there may be more;
    /// where there may not, they are refused: they are made all or none.
    fn make_room(&mut self, changes: &[Change<u32>]) -> Result<bool, Refusal> {
        if self.limbo.len() >= DRAIN_AT {
            self.limbo.drain(|group| self.free.push(group));
            self.limbo.admit().map_err(|congested| CARD.refuse(congested.to_string()))?;
        }
        let grows = |change: &&Change<u32>| change.hop.is_some() && change.prefix.len() > 24;
        let most = changes.iter().filter(grows).count();
        if most > self.free.len() {
            CARD.admit_bytes((most - self.free.len()) * GROUP_BYTES)?;
        }
        if most <= self.groups_left() {
            return Ok(true);
        }
        self.limbo.drain(|group| self.free.push(group));
        let slots = changes.iter().filter(grows).map(|change| slot(change.prefix.first()));
        let mut slots: Vec<_> = slots.filter(|&slot| !self.has_group(slot)).collect();
        slots.sort_unstable();
        slots.dedup();
        match slots.len() <= self.groups_left() {
            true => Ok(true),
            false if self.table.tbl8.len() < MAX_GROUPS => Ok(false),
            false => Err(too_many_groups()),
        }
    }
}

/// The hop, /0 left out, of the longest prefix that covers `prefix`.
fn value(rib: &Rib<u32>, prefix: Prefix<u32>) -> u32 {
    let longest = rib.covering(prefix).next();
    longest.filter(|(owner, _)| owner.len() > 0).map_or(0, |(_, hop)| hop.0)
}

fn longer_than_24(rib: &Rib<u32>, around: Prefix<u32>) -> bool {
    rib.inside(around.first()..=around.last()).any(|(prefix, _)| prefix.len() > 24)
}

fn too_many_groups() -> Refusal {
    CARD.refuse(format!("more than {MAX_GROUPS} /24s hold routes longer than /24"))
}

#[inline(always)]
fn slot(dst: u32) -> usize {
    (dst >> 8) as usize
}

#[inline(always)]
fn low8(dst: u32) -> usize {
    (dst & 0xff) as usize
}

const IS_GROUP: u32 = 1 << 31;

/// Address space is reserved for so many at most; memory comes as they are used.
const MAX_GROUPS: usize = if cfg!(miri) { 1 << 8 } else { 1 << 21 };

const GROUP_BYTES: usize = size_of::<Group>();

/// Groups that may wait for readers: 64 MiB.
const GROUPS_IN_LIMBO: usize = 1 << 16;

/// Waiting groups at which an update looks whether some may be used again.
const DRAIN_AT: usize = 64;

const BURST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u32, ENTRY);
    crate::lpm::oracle::conformance!(portable: u32, ENTRY, "isa" = "portable");

    #[test]
    fn only_a_route_longer_than_24_costs_a_group() {
        let bytes = |len| {
            let rib = [(Prefix::covering(0x0a01_0200, len), Hop(5))].into_iter().collect();
            build(&rib, &Options::default(), &Domain::new()).unwrap().table().bytes()
        };
        assert_eq!(bytes(24), 64 << 20);
        assert_eq!(bytes(25), (64 << 20) + (1 << 10));
    }

    #[test]
    fn a_group_goes_with_its_last_long_route() {
        let (mut rib, domain) = (Rib::new(), Domain::new());
        let mut writer = build(&rib, &Options::default(), &domain).unwrap();
        for round in 0..200 {
            let prefix = Prefix::covering(0x0a00_0000 + (round << 8), 32);
            for hop in [Some(Hop(1)), None] {
                rib.apply(&Change { prefix, hop });
                writer.apply(&rib, &[Change { prefix, hop }]).unwrap();
            }
        }
        assert!(writer.table().bytes() <= (64 << 20) + DRAIN_AT * GROUP_BYTES);
    }

    #[test]
    #[cfg(not(miri))] // many routes
    fn a_table_that_outgrows_its_arrays_is_built_anew() {
        crate::lpm::oracle::Suite::new(ENTRY, &[]).outgrows_its_chunks();
    }
}
