//! IPv4 prefixes by length and nesting.
//!
//! Lengths are placed from the shortest to the longest, so that a prefix's depth
//! is final when it is placed: it lies directly inside the last prefix painted
//! over its /24, its owner.
//!
//! ```text
//!   owner[/24]   index of the longest prefix so far that covers it, + 1
//!   longer       prefixes longer than /24, by their /24
//! ```
//!
//! Prefixes longer than /18 are kept to a part of the /18s, as on the Internet:
//! there, a quarter of the /18s hold them all, packed densely.

use std::collections::HashMap;

use lookup::rng::SplitMix64;
use lookup::{Addr, Prefix};

use super::shape::{DEPTHS_V4, LENGTHS_V4, NESTED_V4, SHORTEST_V4, apportion};

/// `count` distinct prefixes in (address, length) order.
pub(super) fn prefixes(count: usize, rng: &mut SplitMix64) -> Vec<Prefix<u32>> {
    let lengths = lengths(count as u64);
    let mut space = Space::new(count, rng);
    let mut left: Vec<i64> =
        apportion(count as u64, &DEPTHS_V4).into_iter().map(|n| n as i64).collect();
    for (len, count) in (SHORTEST_V4..).zip(lengths) {
        if len == CROWDED + 1 {
            space.crowd();
        }
        let depths = depths(len, count, &left);
        // Deep ones first: they have fewer places.
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

/// Prefixes of each length; a length that would be more than half full passes
/// the rest on to the next.
fn lengths(count: u64) -> Vec<u64> {
    let mut lengths = apportion(count, &LENGTHS_V4);
    let mut over = 0;
    for (len, count) in (SHORTEST_V4..).zip(&mut lengths) {
        let most = (OCTETS << (len - SHORTEST_V4)) / 2;
        let all = *count + over;
        *count = all.min(most);
        over = all - *count;
    }
    lengths
}

/// How many of `count` prefixes of `len` to place at each depth, given how many
/// of each depth are left to place.
fn depths(len: u8, count: u64, left: &[i64]) -> Vec<u64> {
    let left: Vec<u64> = left.iter().map(|&n| n.max(0) as u64).collect();
    let Some(&percent) = NESTED_V4.get(usize::from(len - SHORTEST_V4)) else {
        return apportion(count, &left);
    };
    let nested = count * percent / 100;
    let mut depths = apportion(nested, &[&[0], &left[1..]].concat());
    depths[0] = count - depths.iter().sum::<u64>();
    depths
}

struct Space<'a> {
    rng: &'a mut SplitMix64,
    prefixes: Vec<Prefix<u32>>,
    depths: Vec<u8>,
    /// First address behind the last prefix placed directly inside each one.
    behind: Vec<u32>,
    /// First address behind the last prefix placed inside no other.
    behind_outside: u32,
    owner: Vec<u32>,
    longer: HashMap<u32, Vec<u32>>,
    /// Indices of the prefixes of each depth that may have others inside.
    parents: Vec<Vec<u32>>,
    /// Random places to look at for each depth.
    patience: [u32; DEPTHS_V4.len()],
    /// How many of `prefixes` are in `parents`.
    done: usize,
    /// Which blocks hold prefixes longer than they are; all, until it is chosen.
    is_crowded: Vec<bool>,
    /// First addresses of those that had no owner then.
    free: Vec<u32>,
    wanted: usize,
}

impl<'a> Space<'a> {
    fn new(wanted: usize, rng: &'a mut SplitMix64) -> Self {
        Space {
            rng,
            prefixes: Vec::with_capacity(wanted),
            depths: Vec::with_capacity(wanted),
            behind: Vec::with_capacity(wanted),
            behind_outside: 0,
            owner: vec![0; 1 << 24],
            longer: HashMap::new(),
            parents: vec![Vec::new(); DEPTHS_V4.len() + 24],
            patience: [TRIES; DEPTHS_V4.len()],
            done: 0,
            is_crowded: vec![true; 1 << CROWDED],
            free: Vec::new(),
            wanted,
        }
    }

    /// Places one prefix of `len`, at `depth` where that is possible; returns
    /// its depth.
    fn place(&mut self, len: u8, depth: u8) -> usize {
        let inside = (1..=depth).rev().find_map(|depth| {
            self.with_patience(depth.into(), |space| space.inside_parent(len, depth))
        });
        let found = inside.or_else(|| self.with_patience(0, |space| space.outside(len)));
        let prefix = found.unwrap_or_else(|| self.anywhere(len));
        self.insert(prefix)
    }

    /// Looks at several random places; at fewer where the last search for this
    /// depth was in vain, since then there are few left.
    fn with_patience<T>(
        &mut self,
        depth: usize,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let found = (0..self.patience[depth]).find_map(|_| look(self));
        self.patience[depth] = match found {
            Some(_) => TRIES,
            None => self.patience[depth].div_ceil(2),
        };
        found
    }

    /// A free place directly inside a prefix of the depth before `depth`.
    fn inside_parent(&mut self, len: u8, depth: u8) -> Option<Prefix<u32>> {
        let parents = &self.parents[usize::from(depth) - 1];
        let parent = *parents.get(self.rng.below(parents.len() as u64) as usize)?;
        let outer = self.prefixes[parent as usize];
        let behind = self.behind[parent as usize];
        let addr = if behind != 0 && self.rng.below(100) < ADJACENT {
            behind
        } else {
            outer.first() | (self.rng.below(1 << (len - outer.len())) as u32) << (32 - len)
        };
        let prefix = Prefix::covering(addr, len);
        (self.is_open(&prefix) && self.owner_of(&prefix)? == parent + 1).then_some(prefix)
    }

    /// False for a prefix longer than /18 outside the crowded blocks.
    fn is_open(&self, prefix: &Prefix<u32>) -> bool {
        let block = prefix.first() >> (32 - CROWDED);
        prefix.len() <= CROWDED || self.is_crowded[block as usize]
    }

    /// A free place inside no other prefix.
    fn outside(&mut self, len: u8) -> Option<Prefix<u32>> {
        let addr = if self.rng.below(100) < ADJACENT {
            self.behind_outside
        } else if len <= CROWDED {
            self.rng.next() as u32
        } else {
            let block = *self.free.get(self.rng.below(self.free.len() as u64) as usize)?;
            block | (self.rng.next() as u32 & !u32::mask(CROWDED))
        };
        let prefix = Prefix::covering(addr, len);
        let fits = self.is_open(&prefix) && is_usable(&prefix);
        (fits && self.owner_of(&prefix)? == 0).then_some(prefix)
    }

    /// A free place, whatever covers it. There is one: at most half of each length
    /// is taken.
    fn anywhere(&mut self, len: u8) -> Prefix<u32> {
        loop {
            let prefix = Prefix::covering(self.rng.next() as u32, len);
            if is_usable(&prefix) && self.owner_of(&prefix).is_some() {
                return prefix;
            }
        }
    }

    /// Index + 1 of the longest prefix that covers `prefix`, 0 where there is
    /// none; `None` where `prefix` is taken.
    fn owner_of(&self, prefix: &Prefix<u32>) -> Option<u32> {
        let mut owner = self.owner[(prefix.first() >> 8) as usize];
        let longer = (prefix.len() > 24).then(|| self.longer.get(&(prefix.first() >> 8)));
        for &index in longer.flatten().into_iter().flatten() {
            if self.prefixes[index as usize].covers(prefix) {
                owner = index + 1; // in order of length, so the last is the longest
            }
        }
        let taken = owner > 0 && self.prefixes[owner as usize - 1] == *prefix;
        (!taken).then_some(owner)
    }

    fn insert(&mut self, prefix: Prefix<u32>) -> usize {
        let index = self.prefixes.len() as u32;
        let owner = self.owner_of(&prefix).unwrap_or(0);
        let depth = if owner == 0 { 0 } else { self.depths[owner as usize - 1] + 1 };
        let (first, last) = ((prefix.first() >> 8) as usize, (prefix.last() >> 8) as usize);
        if prefix.len() > 24 {
            self.longer.entry(first as u32).or_default().push(index);
        } else {
            self.owner[first..=last].fill(index + 1);
        }
        let behind = prefix.last().wrapping_add(1);
        match owner.checked_sub(1) {
            Some(owner) => self.behind[owner as usize] = behind,
            None => self.behind_outside = behind,
        }
        self.prefixes.push(prefix);
        self.depths.push(depth);
        self.behind.push(0);
        usize::from(depth).min(DEPTHS_V4.len() - 1)
    }

    /// From now on, prefixes of the length just placed may have others inside.
    fn end_length(&mut self) {
        for index in self.done..self.prefixes.len() {
            let usable = self.prefixes[index].len() > CROWDED || !self.is_sealed(index);
            if usable {
                self.parents[usize::from(self.depths[index])].push(index as u32);
            }
        }
        self.done = self.prefixes.len();
    }

    /// True when nothing crowded lies inside, once it is known what is.
    fn is_sealed(&self, index: usize) -> bool {
        let prefix = self.prefixes[index];
        let range = (prefix.first() >> (32 - CROWDED))..=(prefix.last() >> (32 - CROWDED));
        !range.into_iter().any(|block| self.is_crowded[block as usize])
    }

    /// Chooses the /18s that hold all longer prefixes: of the free ones as many
    /// as the prefixes inside no other fill to [`DENSITY`] percent, of the owned
    /// ones a share that grows with the table.
    fn crowd(&mut self) {
        let addresses = LENGTHS_V4.iter().zip(SHORTEST_V4..).filter(|&(_, len)| len > CROWDED);
        let all: u64 = LENGTHS_V4.iter().sum();
        let outside = |(&count, len): (&u64, u8)| {
            let percent = NESTED_V4.get(usize::from(len - SHORTEST_V4)).copied().unwrap_or(58);
            (count * (100 - percent) * self.wanted as u64 / all / 100) << (32 - len)
        };
        let need = addresses.map(outside).sum::<u64>() >> (32 - CROWDED);
        let free_wanted = need * 100 / DENSITY + 1;
        let owned_wanted = OWNED_CROWDED * self.wanted as u64 / all + 1;

        let blocks = (0..1_u32 << CROWDED).map(|block| block << (32 - CROWDED));
        let usable = blocks.filter(|&addr| is_usable(&Prefix::covering(addr, CROWDED)));
        let (owned, free): (Vec<_>, Vec<_>) =
            usable.partition(|&addr| self.owner[(addr >> 8) as usize] > 0);
        self.free = self.choose(free, free_wanted);
        let owned = self.choose(owned, owned_wanted);
        self.is_crowded.fill(false);
        for addr in self.free.iter().chain(&owned) {
            self.is_crowded[(addr >> (32 - CROWDED)) as usize] = true;
        }
        self.parents.iter_mut().for_each(Vec::clear);
        self.done = 0;
        self.end_length();
    }

    /// `wanted` of `blocks`, or all.
    fn choose(&mut self, mut blocks: Vec<u32>, wanted: u64) -> Vec<u32> {
        let wanted = (wanted as usize).min(blocks.len());
        for i in 0..wanted {
            let other = i + self.rng.below((blocks.len() - i) as u64) as usize;
            blocks.swap(i, other);
        }
        blocks.truncate(wanted);
        blocks
    }
}

/// Global unicast, and nothing that RFC 6890 sets aside: a router's own
/// addresses, tests and documentation are never inside a generated table.
fn is_usable(prefix: &Prefix<u32>) -> bool {
    let (first, last) = (prefix.first(), prefix.last());
    !SPECIAL.iter().any(|&(low, high)| first <= high && low <= last)
}

/// First and last address, ascending.
const SPECIAL: [(u32, u32); 13] = [
    (0x0000_0000, 0x00ff_ffff), // 0.0.0.0/8
    (0x0a00_0000, 0x0aff_ffff), // 10.0.0.0/8
    (0x6440_0000, 0x647f_ffff), // 100.64.0.0/10
    (0x7f00_0000, 0x7fff_ffff), // 127.0.0.0/8
    (0xa9fe_0000, 0xa9fe_ffff), // 169.254.0.0/16
    (0xac10_0000, 0xac1f_ffff), // 172.16.0.0/12
    (0xc000_0000, 0xc000_02ff), // 192.0.0.0/24, 192.0.2.0/24
    (0xc058_6300, 0xc058_63ff), // 192.88.99.0/24
    (0xc0a8_0000, 0xc0a8_ffff), // 192.168.0.0/16
    (0xc612_0000, 0xc613_ffff), // 198.18.0.0/15
    (0xc633_6400, 0xc633_64ff), // 198.51.100.0/24
    (0xcb00_7100, 0xcb00_71ff), // 203.0.113.0/24
    (0xe000_0000, 0xffff_ffff), // multicast and reserved
];

/// Values of the first octet that are usable, about.
const OCTETS: u64 = 218;

/// Prefixes longer than this are kept to some blocks of this length.
const CROWDED: u8 = 18;

/// Percent of a crowded block, free before, that gets covered.
const DENSITY: u64 = 78;

/// Crowded blocks inside shorter prefixes, in a table of the measured size.
const OWNED_CROWDED: u64 = 25_000;

/// Percent of the prefixes placed right behind the last one beside them.
const ADJACENT: u64 = 70;

/// Random places looked at before something easier is tried.
const TRIES: u32 = 64;
