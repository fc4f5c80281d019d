//! Compares the kernels with the engines, on this machine's processor.

use lookup::lpm::{Exports, Options};
use lookup::rib::Change;
use lookup::rng::SplitMix64;
use lookup::{Addr, Hop, Prefix, Rib};

use crate::image::{Image, Patch, Piece};
use crate::lines;
use crate::table::Table;

type Kernel<A> = unsafe extern "C" fn(*const u32, *const A, *mut Hop, u64);

unsafe extern "C" {
    fn lookup_rutter4(image: *const u32, dsts: *const u32, hops: *mut Hop, count: u64);
    fn lookup_bloomfwd(image: *const u32, dsts: *const u32, hops: *mut Hop, count: u64);
    fn lookup_bloomfwd6(image: *const u32, dsts: *const u128, hops: *mut Hop, count: u64);
    fn lookup_rutter6(image: *const u32, dsts: *const u128, hops: *mut Hop, count: u64);
    fn lookup_miht(image: *const u32, dsts: *const u32, hops: *mut Hop, count: u64);
    fn lookup_miht6(image: *const u32, dsts: *const u128, hops: *mut Hop, count: u64);
}

trait Kernels: Exports {
    fn kernel(engine: &str) -> Kernel<Self>;
}

impl Kernels for u32 {
    fn kernel(engine: &str) -> Kernel<u32> {
        match engine {
            "rutter4" => lookup_rutter4,
            "bloomfwd" => lookup_bloomfwd,
            "miht" => lookup_miht,
            other => panic!("{other} has no kernel in these tests"),
        }
    }
}

impl Kernels for u128 {
    fn kernel(engine: &str) -> Kernel<u128> {
        match engine {
            "bloomfwd6" => lookup_bloomfwd6,
            "rutter6" => lookup_rutter6,
            "miht6" => lookup_miht6,
            other => panic!("{other} has no kernel in these tests"),
        }
    }
}

/// A device's memory, and the queue of writes to it. It begins at a multiple of 16 bytes, because
/// kernels read four words at once.
struct Memory {
    words: Vec<u32>,
    start: usize,
}

impl Memory {
    fn load(image: &Image) -> Self {
        let mut words = vec![0; image.words().len() + 3];
        let start = words.as_ptr().align_offset(16);
        words[start..][..image.words().len()].copy_from_slice(image.words());
        Memory { words, start }
    }

    fn update<A: Addr>(&mut self, table: &Table<A>, patch: &Patch) -> u64 {
        let image = table.image().unwrap();
        match patch {
            Patch::Whole => *self = Memory::load(image),
            Patch::Pieces(pieces) => {
                for Piece { at, words } in pieces {
                    self.words[self.start + at..][..words.len()].copy_from_slice(words);
                }
            }
        }
        assert!(self.words[self.start..].starts_with(image.words()));
        patch.bytes(image.bytes())
    }

    fn agrees<A: Kernels>(&self, table: &Table<A>, rib: &Rib<A>, dsts: &[A]) {
        let mut hops = vec![Hop(u32::MAX); dsts.len()];
        let (kernel, count) = (A::kernel(table.engine()), dsts.len() as u64);
        let image = self.words[self.start..].as_ptr();
        // SAFETY: the image is the table's, and there are as many hops as addresses.
        unsafe { kernel(image, dsts.as_ptr(), hops.as_mut_ptr(), count) };
        let mut cores = vec![Hop::NONE; dsts.len()];
        table.lpm().lookup_batch(dsts, &mut cores);
        for ((&dst, &got), &core) in dsts.iter().zip(&hops).zip(&cores) {
            let want = rib.lookup(dst).map_or(Hop::NONE, |(_, hop)| hop);
            let at = dst.to_ip();
            assert_eq!((got, core), (want, want), "{} at {at}", table.engine());
        }
        self.is_walked(table, dsts, &hops);
    }
}

impl Memory {
    /// The function that counts the lines a kernel reads takes the same path as the kernel.
    fn is_walked<A: Kernels>(&self, table: &Table<A>, dsts: &[A], hops: &[Hop]) {
        for (dst, &hop) in dsts.iter().zip(hops) {
            let number = dst.to_u128() as u32;
            let Some((got, lines)) = lines::of(table.engine(), table.image().unwrap(), number)
            else {
                return;
            };
            assert_eq!(got, hop, "{} at {number:#x}", table.engine());
            assert!((1..100).contains(&lines), "{lines} lines for {number:#x}");
        }
    }
}

fn anywhere<A: Addr>(rng: &mut SplitMix64) -> A {
    A::from_u128(rng.wide())
}

/// Prefixes of every length, most of them near one another, so that they nest.
fn route<A: Addr>(rng: &mut SplitMix64, most: u64) -> (Prefix<A>, Hop) {
    let near = A::from_u128(0x2001_0db8_0a00_0000_0000_0000_0a00_0000);
    let high = 1 + rng.below(u64::from(A::WIDTH)) as u8;
    let addr = if rng.below(4) == 0 {
        anywhere(rng)
    } else {
        near.or(anywhere::<A>(rng).and(A::mask(high).not()))
    };
    let len = match rng.below(3) {
        0 => rng.below(u64::from(A::WIDTH) + 1) as u8,
        _ => (A::WIDTH / 4 + rng.below(u64::from(A::WIDTH) * 3 / 4 + 1) as u8).min(A::WIDTH),
    };
    (Prefix::covering(addr, len), Hop(1 + rng.below(most) as u32))
}

/// Both ends of each prefix and the addresses beside them, random addresses, and strides.
fn probes<A: Addr>(rib: &Rib<A>, rng: &mut SplitMix64) -> Vec<A> {
    let edges = |(prefix, _): (Prefix<A>, Hop)| {
        let (first, last) = (prefix.first(), prefix.last());
        [first.minus(1), first, first.plus(1), last.minus(1), last, last.plus(1)]
    };
    let mut dsts: Vec<A> = rib.iter().flat_map(edges).collect();
    dsts.extend((0..2000).map(|_| anywhere::<A>(rng)));
    let start = rib.iter().next().map_or(A::default(), |(prefix, _)| prefix.first());
    for stride in [1, 64, 255, 16384, 1 << 20] {
        dsts.extend((0..500).map(|i| start.plus(i * stride)));
    }
    dsts
}

/// A table that is built, changed in small steps, and grown until the image needs another layout.
fn agree<A: Kernels>(engine: &str, options: &[(&str, &str)], most_hop: u64) {
    let entry = A::engine(engine).expect("it is in the registry");
    let options = options.iter().map(|&(name, value)| (name.into(), value.into()));
    let options = Options(options.collect());
    for (seed, routes) in [(1, 0), (2, 1), (3, 40), (4, 3000)] {
        let mut rng = SplitMix64(seed);
        let mut rib: Rib<A> = (0..routes).map(|_| route(&mut rng, most_hop)).collect();
        let mut table = Table::build(entry, &options, &rib).expect("within the limits");
        let mut memory = Memory::load(table.image().unwrap());
        memory.agrees(&table, &rib, &probes(&rib, &mut rng));
        for round in 0..30 {
            let some = 1 + rng.below(if round == 20 { 4000 } else { 4 });
            let mut changes = Vec::new();
            for _ in 0..some {
                let (prefix, hop) = route(&mut rng, most_hop);
                let there = rib.inside(prefix.first()..=A::MAX).next();
                let prefix = match (rng.below(2), there) {
                    (0, Some((there, _))) => there,
                    _ => prefix,
                };
                let change = Change { prefix, hop: (rng.below(3) > 0).then_some(hop) };
                rib.apply(&change);
                changes.push(change);
            }
            let patch = table.apply(&rib, &changes).expect("within the limits");
            memory.update(&table, &patch);
            let dsts = changes.iter().flat_map(|Change { prefix, .. }| {
                [prefix.first().minus(1), prefix.first(), prefix.last(), prefix.last().plus(1)]
            });
            memory.agrees(&table, &rib, &dsts.collect::<Vec<_>>());
        }
        memory.agrees(&table, &rib, &probes(&rib, &mut rng));
    }
}

#[test]
fn rutter4_of_both_widths() {
    agree::<u32>("rutter4", &[], 200);
    agree::<u32>("rutter4", &[], 1 << 30);
}

#[test]
fn bloomfwd_of_every_hash() {
    for hash in ["h2", "murmur", "knuth"] {
        agree::<u32>("bloomfwd", &[("hash", hash)], 1 << 30);
    }
    agree::<u32>("bloomfwd", &[("false_positives", "0.001")], 200);
}

#[test]
fn bloomfwd6_of_every_hash() {
    for hash in ["h2", "murmur", "knuth"] {
        agree::<u128>("bloomfwd6", &[("hash", hash)], 1 << 30);
    }
    agree::<u128>("bloomfwd6", &[("levels", "none"), ("false_positives", "0.01")], 200);
}

#[test]
fn rutter6_of_both_widths() {
    agree::<u128>("rutter6", &[], 200);
    agree::<u128>("rutter6", &[], 1 << 30);
}

#[test]
fn miht_of_short_and_long_keys() {
    for k in ["8", "16", "24"] {
        agree::<u32>("miht", &[("k", k)], 1 << 30);
    }
    for k in ["9", "32"] {
        agree::<u128>("miht6", &[("k", k)], 1 << 30);
    }
}

#[test]
fn every_engine_that_is_exported_has_a_kernel() {
    for (name, _) in u32::exported() {
        let _ = u32::kernel(name);
    }
    for (name, _) in u128::exported() {
        let _ = u128::kernel(name);
    }
}

/// A table like the Internet's: a change is small beside the whole.
#[test]
fn a_change_of_a_large_table_is_sent_as_a_small_difference() {
    let internet = formats::internet::Internet::parse("internet:20000").unwrap().unwrap();
    let six = formats::internet::Internet::parse("internet6:20000").unwrap().unwrap();
    let (v4, v6) = (internet.table().v4, six.table().v6);
    ["rutter4", "bloomfwd", "miht"].iter().for_each(|engine| one_change(engine, &v4, 24));
    ["rutter6", "bloomfwd6", "miht6"].iter().for_each(|engine| one_change(engine, &v6, 48));
}

/// A prefix of this length.
fn one_change<A: Kernels>(engine: &str, rib: &Rib<A>, len: u8) {
    let (entry, mut rib) = (A::engine(engine).expect("it is in the registry"), rib.clone());
    let mut table = Table::build(entry, &Options::default(), &rib).unwrap();
    let mut memory = Memory::load(table.image().unwrap());
    // Longer prefixes do not cover it, so it owns addresses.
    let prefix = rib.iter().filter(|(prefix, _)| prefix.len() == len).nth(1000);
    let prefix = prefix.expect("there are more").0;
    let change = Change { prefix, hop: Some(Hop(77)) };
    rib.apply(&change);
    let patch = table.apply(&rib, &[change]).unwrap();
    let sent = memory.update(&table, &patch);
    assert!(sent > 0 && sent < 64 << 10, "{engine}: {sent} bytes");
}
