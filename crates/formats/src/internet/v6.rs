//! IPv6 prefixes by length and nesting.
//!
//! As with IPv4, lengths are placed from the shortest to the longest, so that a
//! depth is final. Borders are clustered, as on the Internet:
//!
//! - a nested prefix mostly lies in the parent of another one of its depth, so
//!   the more a prefix holds, the more it gets: one /32 ends up with thousands,
//!   most with one or two; and a few steps behind the last one there;
//! - /48s, half of all, also come in runs in one place, long ones seldom: the
//!   fullest /32 of a real table holds one prefix in forty;
//! - one inside no other mostly lies a few steps behind another of its length, or
//!   in a /32 that holds others.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use lookup::rng::{SplitMix64, mix};
use lookup::{Addr, Prefix};

use super::shape::{DEPTHS_V6, LENGTHS_V6, NESTED_V6, apportion};

/// `count` distinct prefixes in (address, length) order.
pub(super) fn prefixes(count: usize, rng: &mut SplitMix64) -> Vec<Prefix<u128>> {
    let mut space = Space::new(count, rng);
    let mut left: Vec<i64> =
        apportion(count as u64, &DEPTHS_V6).into_iter().map(|n| n as i64).collect();
    for (len, count) in lengths(count as u64) {
        space.begin_length(len);
        let depths = depths(len, count, &left);
        for depth in (0..depths.len()).rev() {
            for _ in 0..depths[depth] {
                left[space.place(len, depth as u8)] -= 1;
            }
        }
        space.end_length();
    }
    let mut prefixes = space.prefixes;
    prefixes.sort_unstable();
    prefixes
}

/// Prefixes of each length; one that would be more than an eighth full passes
/// the rest on to the next.
fn lengths(count: u64) -> Vec<(u8, u64)> {
    let counts = apportion(count, &LENGTHS_V6.map(|(_, count)| count));
    let mut over = 0;
    let share = |(len, count): (u8, u64)| {
        let all = count + over;
        let most = (BASES.len() as u64) << (u32::from(len) - 12).saturating_sub(3).min(48);
        over = all.saturating_sub(most);
        (len, all.min(most))
    };
    LENGTHS_V6.iter().map(|&(len, _)| len).zip(counts).map(share).collect()
}

/// How many of `count` prefixes of `len` to place at each depth.
fn depths(len: u8, count: u64, left: &[i64]) -> Vec<u64> {
    let left: Vec<u64> = left.iter().map(|&n| n.max(0) as u64).collect();
    let Some(&(_, percent)) = NESTED_V6.iter().find(|&&(longest, _)| len <= longest) else {
        return apportion(count, &left);
    };
    let mut depths = apportion(count * percent / 100, &[&[0], &left[1..]].concat());
    depths[0] = count - depths.iter().sum::<u64>();
    depths
}

struct Space<'a> {
    rng: &'a mut SplitMix64,
    prefixes: Vec<Prefix<u128>>,
    depths: Vec<u8>,
    /// Where the last prefix directly inside each one lies.
    last_inside: Vec<Option<Prefix<u128>>>,
    /// For each length placed so far, the present one last, the index of each
    /// prefix by its first address. Most lengths are rare, and their maps stay in
    /// the cache.
    index: Vec<(u8, Index)>,
    /// Indices of the prefixes of each depth, but for the present length.
    parents: Vec<Vec<u32>>,
    /// For each depth the parent of each prefix there.
    chosen: Vec<Vec<u32>>,
    /// Prefixes of the longest run, and runs begun.
    longest_run: u32,
    started: u32,
    /// For each depth a parent that the next prefixes go to, and how many.
    runs: Vec<(u32, u32)>,
    /// Likewise for prefixes inside no other: the last one, and how many follow.
    outside_run: Option<(Prefix<u128>, u32)>,
    /// Prefixes of the present length inside no other.
    outside: Vec<Prefix<u128>>,
    /// The /32 of every longer prefix inside no other.
    blocks: Vec<u128>,
    done: usize,
}

impl<'a> Space<'a> {
    fn new(wanted: usize, rng: &'a mut SplitMix64) -> Self {
        Space {
            rng,
            prefixes: Vec::with_capacity(wanted),
            depths: Vec::with_capacity(wanted),
            last_inside: Vec::with_capacity(wanted),
            index: Vec::new(),
            parents: vec![Vec::new(); LENGTHS_V6.len()],
            chosen: vec![Vec::new(); LENGTHS_V6.len()],
            longest_run: (wanted / LONGEST_RUN) as u32,
            started: 0,
            runs: vec![(0, 0); LENGTHS_V6.len()],
            outside_run: None,
            outside: Vec::new(),
            blocks: Vec::new(),
            done: 0,
        }
    }

    fn begin_length(&mut self, len: u8) {
        self.index.push((len, Index::default()));
        self.outside.clear();
        self.runs.fill((0, 0));
        self.outside_run = None;
    }

    fn end_length(&mut self) {
        for index in self.done..self.prefixes.len() {
            self.parents[usize::from(self.depths[index])].push(index as u32);
        }
        self.done = self.prefixes.len();
    }

    /// Places one prefix of `len`, at `depth` where that is possible; returns
    /// its depth.
    fn place(&mut self, len: u8, depth: u8) -> usize {
        let found = (1..=depth)
            .rev()
            .find_map(|depth| (0..TRIES).find_map(|_| self.inside_parent(len, depth)))
            .or_else(|| (0..TRIES).find_map(|_| self.outside(len)));
        let (prefix, owner) = found.unwrap_or_else(|| self.anywhere(len));
        self.insert(prefix, owner)
    }

    fn inside_parent(&mut self, len: u8, depth: u8) -> Option<(Prefix<u128>, Option<u32>)> {
        let (running, left) = self.runs[usize::from(depth)];
        let parent = if left > 0 { running } else { self.parent(depth)? };
        let outer = self.prefixes[parent as usize];
        let addr = match self.last_inside[parent as usize] {
            Some(last) if self.rng.below(100) < ADJACENT => self.behind(last, len),
            _ => outer.first() | self.random(len - outer.len()) << (128 - len),
        };
        let prefix = Prefix::covering(addr, len);
        let fits = outer.covers(&prefix) && self.owner_of(&prefix) == Some(Some(parent));
        let left = match (fits, left) {
            (false, left) => left / 2, // it may be full
            (true, 0) => self.run(len),
            (true, left) => left - 1,
        };
        self.runs[usize::from(depth)] = (parent, left);
        fits.then_some((prefix, Some(parent)))
    }

    /// A prefix that may hold one of `depth`: mostly one that does already.
    fn parent(&mut self, depth: u8) -> Option<u32> {
        let (chosen, parents) =
            (&self.chosen[usize::from(depth)], &self.parents[usize::from(depth) - 1]);
        let list =
            if self.rng.below(100) < SHARED && !chosen.is_empty() { chosen } else { parents };
        list.get(self.rng.below(list.len() as u64) as usize).copied()
    }

    /// How many prefixes of `len` are to follow one: at least n for one in n runs,
    /// in an order without chance, so that every table has some long ones.
    fn run(&mut self, len: u8) -> u32 {
        if len != SITE || self.longest_run == 0 || self.rng.below(100) >= RUNS {
            return 0;
        }
        let turn = self.started.reverse_bits() >> self.longest_run.leading_zeros();
        self.started += 1;
        self.longest_run / (1 + turn)
    }

    fn outside(&mut self, len: u8) -> Option<(Prefix<u128>, Option<u32>)> {
        let near = self.rng.below(100) < ADJACENT && !self.outside.is_empty();
        let run = self.outside_run.take().filter(|&(_, left)| left > 0);
        let addr = if let Some((last, _)) = run {
            self.behind(last, len)
        } else if near {
            let other = self.rng.below(self.outside.len() as u64) as usize;
            self.behind(self.outside[other], len)
        } else if len > BLOCK && self.rng.below(100) < SHARED && !self.blocks.is_empty() {
            let block = self.rng.below(self.blocks.len() as u64) as usize;
            self.blocks[block] | self.random(len - BLOCK) << (128 - len)
        } else {
            self.base() | self.random(len - 12) << (128 - len)
        };
        let prefix = Prefix::covering(addr, len);
        if !is_usable(&prefix) || self.owner_of(&prefix) != Some(None) {
            return None;
        }
        let left = match run {
            Some((_, left)) => left - 1,
            None => self.run(len),
        };
        self.outside_run = Some((prefix, left));
        Some((prefix, None))
    }

    /// A free place, whatever covers it. There is one: at most an eighth of each
    /// length is taken.
    fn anywhere(&mut self, len: u8) -> (Prefix<u128>, Option<u32>) {
        loop {
            let addr = self.base() | self.random(len - 12) << (128 - len);
            let prefix = Prefix::covering(addr, len);
            if let Some(owner) = self.owner_of(&prefix).filter(|_| is_usable(&prefix)) {
                return (prefix, owner);
            }
        }
    }

    /// A few steps of `len` behind `last`: one in three of four cases.
    fn behind(&mut self, last: Prefix<u128>, len: u8) -> u128 {
        let steps = match self.rng.below(20) {
            0..15 => 1,
            15..17 => 2,
            17 => 4,
            18 => 3 + self.rng.below(6),
            _ => 16,
        };
        last.last().wrapping_add(1).wrapping_add(u128::from(steps - 1) << (128 - len))
    }

    /// A random number of `bits` bits.
    fn random(&mut self, bits: u8) -> u128 {
        self.rng.wide().checked_shr(128 - u32::from(bits)).unwrap_or(0)
    }

    fn base(&mut self) -> u128 {
        let mut at = self.rng.below(BASES.iter().map(|(_, weight)| weight).sum());
        let base = BASES.iter().find(|&&(_, weight)| {
            let found = at < weight;
            at = at.saturating_sub(weight);
            found
        });
        base.map_or(0, |&(top, _)| u128::from(top) << 116)
    }

    /// The longest prefix that covers `prefix`; the outer `None` where it is taken.
    fn owner_of(&self, prefix: &Prefix<u128>) -> Option<Option<u32>> {
        let ((_, own), shorter) = self.index.split_last()?;
        if own.contains_key(&prefix.first()) {
            return None;
        }
        let mut covering = shorter.iter().rev().filter_map(|(len, index)| {
            index.get(&Prefix::covering(prefix.first(), *len).first()).copied()
        });
        Some(covering.next())
    }

    fn insert(&mut self, prefix: Prefix<u128>, owner: Option<u32>) -> usize {
        let depth = owner.map_or(0, |owner| self.depths[owner as usize] + 1);
        match owner {
            Some(owner) => {
                // Else the first few, which are the shortest, would get them all.
                if self.prefixes[owner as usize].len() >= ALLOCATION {
                    self.chosen[usize::from(depth)].push(owner);
                }
                self.last_inside[owner as usize] = Some(prefix);
            }
            None => {
                self.outside.push(prefix);
                if prefix.len() > BLOCK {
                    self.blocks.push(prefix.first() & u128::mask(BLOCK));
                }
            }
        }
        if let Some((_, own)) = self.index.last_mut() {
            own.insert(prefix.first(), self.prefixes.len() as u32);
        }
        self.prefixes.push(prefix);
        self.depths.push(depth);
        self.last_inside.push(None);
        usize::from(depth).min(DEPTHS_V6.len() - 1)
    }
}

/// Neither documentation (RFC 3849), 6to4 (RFC 3056) nor 2001::/23 (RFC 2928).
fn is_usable(prefix: &Prefix<u128>) -> bool {
    let special = [(0x2001_0db8, 32), (0x2002_0000, 16), (0x2001_0000, 23)];
    special.iter().all(|&(top, len)| {
        let special = Prefix::covering(u128::from(top as u32) << 96, len);
        !special.covers(prefix) && !prefix.covers(&special)
    })
}

type Index = HashMap<u128, u32, BuildHasherDefault<MixHasher>>;

/// Hashes an address alike on every machine and for ever.
#[derive(Default)]
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64 ^ mix((n >> 64) as u64));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0 ^ n);
    }
}

/// The /12s that the registries give out from, and how much of the table lies in
/// each (2022).
const BASES: [(u16, u64); 6] =
    [(0x240, 31), (0x2a0, 24), (0x280, 19), (0x200, 14), (0x260, 11), (0x2c0, 1)];

/// Percent of the prefixes that lie a few steps behind another one.
const ADJACENT: u64 = 70;

/// Percent of the prefixes that lie in a parent, or a /32, that holds another one.
const SHARED: u64 = 94;

/// Percent of the places of a [`SITE`] that begin a run of neighbours, and what
/// share of all prefixes the longest run has, as one in so many. Without them the
/// fullest /32 of 178,000 prefixes had 616, the real one has 4,127.
const RUNS: u64 = 30;
const LONGEST_RUN: usize = 50;

/// The length of half of all prefixes.
const SITE: u8 = 48;

/// The shortest of the usual allocations.
const ALLOCATION: u8 = 29;

/// The longest of them, which longer prefixes share.
const BLOCK: u8 = 32;

/// Random places looked at before something easier is tried.
const TRIES: u32 = 16;
