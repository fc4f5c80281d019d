//! Looking up, and comparing.

use lookup::lpm::{Intervals, Lpm};
use lookup::rib::Change;
use lookup::rng::SplitMix64;
use lookup::{Addr, Hop, Prefix};
use serde::Serialize;

use super::truth::Truth;

/// The comparisons so far.
pub struct Verify<A> {
    /// How much, and how often in vain.
    pub tally: Tally,
    wrong: Vec<Wrong<A>>,
    rng: SplitMix64,
    /// Addresses that wait for their batch.
    waiting: Vec<A>,
}

/// Counts.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Tally {
    /// Addresses looked up.
    pub addresses: u64,
    /// Answers that differ, of one lookup or in a batch.
    pub disagreements: u64,
}

/// A wrong answer.
#[derive(Clone, Copy)]
pub struct Wrong<A> {
    /// For which address.
    pub addr: A,
    /// The engine's.
    pub got: Hop,
    /// The right one.
    pub want: Hop,
}

impl<A> Default for Verify<A> {
    fn default() -> Self {
        Verify {
            tally: Tally::default(),
            wrong: Vec::new(),
            rng: SplitMix64(1),
            waiting: Vec::with_capacity(BATCH),
        }
    }
}

impl<A: Addr> Verify<A> {
    /// Compares with a flattened list of `routes`: at every prefix's edges and beside them;
    /// inside every prefix, at random and at both ends of blocks, whose lengths take turns:
    /// engines go a level down at any; between neighbouring borders; anywhere.
    pub fn all(&mut self, routes: &[(Prefix<A>, Hop)], table: &dyn Lpm<A>) {
        let intervals = Intervals::new(routes.iter().copied());
        let want = |addr| intervals.lookup(addr);
        for (prefix, _) in routes {
            edges(prefix).into_iter().for_each(|addr| self.add(addr, table, &want));
        }
        for turn in 0..times(routes.len()) {
            for (i, (prefix, _)) in routes.iter().enumerate() {
                let inside = self.inside(prefix);
                let more = usize::from(A::WIDTH - prefix.len()) + 1;
                let len = prefix.len() + ((turn + i) % more) as u8;
                let block = Prefix::covering(self.inside(prefix), len);
                for addr in [inside, block.first(), block.last()] {
                    self.add(addr, table, &want);
                }
            }
        }
        let starts: Vec<A> = intervals.iter().map(|(start, _)| start).collect();
        for _ in 0..times(starts.len()) {
            for (i, &start) in starts.iter().enumerate() {
                let last = starts.get(i + 1).map_or(A::MAX, |next| next.minus(1));
                let addr = self.between(start, last);
                self.add(addr, table, &want);
            }
        }
        for _ in 0..RANDOM {
            let addr = A::from_u128(self.random());
            self.add(addr, table, &want);
        }
        self.flush(table, &want);
    }

    /// Compares around and inside each changed prefix.
    pub fn around(&mut self, changes: &[Change<A>], truth: &Truth<A>, table: &dyn Lpm<A>) {
        let want = |addr| truth.lookup(addr);
        for Change { prefix, .. } in changes {
            let inside = self.inside(prefix);
            edges(prefix).into_iter().for_each(|addr| self.add(addr, table, &want));
            self.add(inside, table, &want);
        }
        self.flush(table, &want);
    }

    /// The first wrong answers.
    pub fn wrong(&self) -> &[Wrong<A>] {
        &self.wrong
    }

    fn random(&mut self) -> u128 {
        self.rng.wide()
    }

    /// An address in `prefix`.
    fn inside(&mut self, prefix: &Prefix<A>) -> A {
        prefix.first().or(A::from_u128(self.random()).and(prefix.host_mask()))
    }

    /// An address from `first` to `last`.
    fn between(&mut self, first: A, last: A) -> A {
        let (first, last) = (first.to_u128(), last.to_u128());
        let random = self.random();
        // `checked_rem` has nothing where the interval is everything.
        let off = (last - first).wrapping_add(1);
        A::from_u128(first + random.checked_rem(off).unwrap_or(random))
    }

    /// Compares `addr` with the next batch.
    fn add(&mut self, addr: A, table: &dyn Lpm<A>, want: &impl Fn(A) -> Hop) {
        self.waiting.push(addr);
        if self.waiting.len() == BATCH {
            self.flush(table, want);
        }
    }

    fn flush(&mut self, table: &dyn Lpm<A>, want: &impl Fn(A) -> Hop) {
        let addrs = std::mem::take(&mut self.waiting);
        let mut hops = vec![Hop::NONE; addrs.len()];
        table.lookup_batch(&addrs, &mut hops);
        // Bursts of every length, too: engines have separate code for remainders.
        let short = addrs.len().min(self.tally.addresses as usize / BATCH % MOST_SHORT);
        let mut again = vec![Hop::NONE; short];
        table.lookup_batch(&addrs[..short], &mut again);
        self.tally.addresses += addrs.len() as u64;
        for (i, &addr) in addrs.iter().enumerate() {
            let (want, alone) = (want(addr), table.lookup(addr));
            let answers = [alone, hops[i], *again.get(i).unwrap_or(&alone)];
            let Some(&got) = answers.iter().find(|&&hop| hop != want) else { continue };
            self.tally.disagreements += 1;
            if self.wrong.len() < SHOWN {
                self.wrong.push(Wrong { addr, got, want });
            }
        }
        self.waiting = addrs;
        self.waiting.clear();
    }
}

/// How often each of `count` things gets a random address.
fn times(count: usize) -> usize {
    SAMPLES.checked_div(count).unwrap_or(0).max(2)
}

/// Errors live here: both ends, and the addresses beside them.
fn edges<A: Addr>(prefix: &Prefix<A>) -> [A; 4] {
    let (first, last) = (prefix.first(), prefix.last());
    [first.minus(1), first, last, last.plus(1)]
}

/// Addresses looked up at a time; not a power of two, so that engines meet rests.
const BATCH: usize = 1000;

/// Bursts of fewer addresses than this are looked up besides.
const MOST_SHORT: usize = 130;

/// Addresses anywhere.
const RANDOM: usize = 1_000_000;

/// Prefixes, and gaps between borders, get so many random addresses in all; two each at
/// the least.
const SAMPLES: usize = 200_000;

/// Wrong answers printed.
const SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers rightly, but where a planted error says otherwise: from the address, the
    /// right hop, its place in a batch and the batch's length (alone: none).
    struct Liar<A, F>(Intervals<A>, F);

    impl<A, F> Lpm<A> for Liar<A, F>
    where
        A: Addr,
        F: Fn(A, Hop, Option<(usize, usize)>) -> Hop + Send + Sync,
    {
        fn lookup(&self, dst: A) -> Hop {
            (self.1)(dst, self.0.lookup(dst), None)
        }
        fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
            for (i, (&dst, hop)) in dsts.iter().zip(hops).enumerate() {
                *hop = (self.1)(dst, self.0.lookup(dst), Some((i, dsts.len())));
            }
        }
        fn bytes(&self) -> usize {
            0
        }
    }

    fn found<A: Addr>(
        routes: &[(Prefix<A>, Hop)],
        error: impl Fn(A, Hop, Option<(usize, usize)>) -> Hop + Send + Sync,
    ) -> Verify<A> {
        let mut verify = Verify::default();
        verify.all(routes, &Liar(Intervals::new(routes.iter().copied()), error));
        verify
    }

    fn routes4() -> Vec<(Prefix<u32>, Hop)> {
        let routes = [(0x0a00_0000, 8, 1), (0x0a01_0000, 16, 2), (0xc0a8_0000, 16, 3)];
        routes.map(|(addr, len, hop)| (Prefix::covering(addr, len), Hop(hop))).into()
    }

    /// Some hundred prefixes of usual lengths.
    fn routes6() -> Vec<(Prefix<u128>, Hop)> {
        let mut rng = SplitMix64(3);
        let mut route = |i: u32| {
            let addr = 0x2001 << 112 | u128::from(rng.next()) << 48;
            (Prefix::covering(addr, [32, 40, 48, 56][i as usize % 4]), Hop(1 + i % 7))
        };
        (0..400).map(&mut route).collect()
    }

    #[test]
    fn a_lie_at_an_edge_is_found() {
        for lie in [0x09ff_ffff, 0x0a01_0000, 0x0a01_ffff, 0x0b00_0000_u32] {
            let verify = found(&routes4(), |dst, hop, _| if dst == lie { Hop(77) } else { hop });
            assert_eq!(verify.wrong().first().map(|wrong| wrong.addr), Some(lie));
            assert!(verify.tally.disagreements > 0);
        }
        assert_eq!(found(&routes4(), |_, hop, _| hop).tally.disagreements, 0);
        assert_eq!(found(&routes6(), |_, hop, _| hop).tally.disagreements, 0);
    }

    /// Both by the whole comparison, and by one of edges and of addresses uniform over the
    /// family alone, which none of these errors fails.
    fn found_and_passed<A: Addr>(
        routes: &[(Prefix<A>, Hop)],
        error: impl Fn(A, Hop, Option<(usize, usize)>) -> Hop + Copy + Send + Sync,
    ) -> [u64; 2] {
        let intervals = Intervals::new(routes.iter().copied());
        let want = |addr| intervals.lookup(addr);
        let liar = Liar(Intervals::new(routes.iter().copied()), error);
        let mut few = Verify::default();
        for (prefix, _) in routes {
            edges(prefix).into_iter().for_each(|addr| few.add(addr, &liar, &want));
        }
        for _ in 0..RANDOM / BATCH * BATCH {
            let addr = A::from_u128(few.random());
            few.add(addr, &liar, &want);
        }
        [found(routes, error).tally.disagreements, few.tally.disagreements]
    }

    #[test]
    fn planted_errors_are_found() {
        // A wrong byte far below the prefix.
        let byte =
            found_and_passed(
                &routes6(),
                |dst, hop, _| {
                    if dst >> 56 & 0xff == 0x5a { Hop::NONE } else { hop }
                },
            );
        // The last word of a block that is longer than the prefix.
        let block = found_and_passed(&routes6(), |dst, hop, _| {
            if dst as u64 == u64::MAX && dst >> 64 & 0xff != 0xff { Hop(99) } else { hop }
        });
        // The upper halves of /32s between two routes of a /24, but their ends.
        let gap = found_and_passed(&routes6(), |dst, hop, _| {
            let within = dst as u64 != 0 && dst as u64 != u64::MAX;
            let upper = dst >> 104 == 0x0020_015a && dst >> 80 & 0x8000 != 0;
            if hop == Hop::NONE && upper && within { Hop(1) } else { hop }
        });
        // One hole of a /16 in an array of 2^8 entries below it.
        let entry = found_and_passed(&routes4(), |dst, hop, _| {
            if dst >> 8 == 0x000a_0177 && dst as u8 > 2 { Hop(5) } else { hop }
        });
        // The last of a short burst.
        let rest = found_and_passed(&routes6(), |_, hop, batch| match batch {
            Some((at, len)) if len % 16 == 3 && at + 1 == len => Hop(3),
            _ => hop,
        });
        for (name, [found, few]) in
            [("byte", byte), ("block", block), ("gap", gap), ("entry", entry)]
        {
            assert!(found > 0 && few == 0, "{name}: {found}, {few}");
        }
        // Bursts of every length belong to both.
        assert!(rest[0] > 0, "{rest:?}");
    }

    /// The ends of blocks of each length inside each prefix are looked up.
    #[test]
    fn no_stride_is_left_out() {
        for len in 9..=32_u32 {
            let last = found(&routes4()[..1], |dst: u32, hop, _| {
                let (ones, next) = (dst.trailing_ones(), 32 - len);
                if ones == next && dst >> 24 == 10 { Hop(77) } else { hop }
            });
            assert!(last.tally.disagreements > 1000, "/{len}: {}", last.tally.disagreements);
        }
    }

    /// A table that keeps what is withdrawn, as one built from a `Rib` that keeps it does.
    #[test]
    fn a_withdrawal_that_is_not_carried_out_is_found() {
        let routes = routes4();
        let stale = Liar(Intervals::new(routes.iter().copied()), |_, hop, _| hop);
        let gone = Change { prefix: routes[1].0, hop: None };
        let (mut truth, mut verify) = (Truth::new(routes), Verify::default());
        truth.apply(&gone);
        verify.around(&[gone], &truth, &stale);
        assert_eq!(verify.tally.disagreements, 3); // its ends, and one inside
        let mut verify = Verify::default();
        verify.all(&truth.iter().collect::<Vec<_>>(), &stale);
        assert!(verify.tally.disagreements > 0);
    }
}
