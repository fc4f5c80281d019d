//! The prefix store that engines are built from: ordered chunks.
//!
//! ```text
//!    heads   [ 0.0.0.0/0 | 10.4.0.0/14 | 62.0.0.0/8 | … ]     first prefix of each chunk
//!                 ▼             ▼            ▼
//!    chunks  ┌─────────┐  ┌──────────┐  ┌─────────┐
//!            │ firsts  │  │ firsts   │  │ firsts  │           A, ascending, up to 256
//!            │ lens    │  │ lens     │  │ lens    │           u8
//!            │ hops    │  │ hops     │  │ hops    │           Hop
//!            └─────────┘  └──────────┘  └─────────┘
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | get       | one binary search over the heads, one inside a chunk          |
//! | insert    | a search, and moving 128 records of 9 (21) bytes on average   |
//! | covering  | a search for each prefix yielded or jumped over               |
//! | inside    | a search, then sequential                                     |
//! | memory    | 9 (IPv6: 21) bytes a prefix, up to a fifth more after inserts |

use std::ops::RangeInclusive;

use crate::{Addr, Hop, Prefix};

/// One insert, change (`Some`) or delete (`None`) of a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change<A> {
    /// Which prefix.
    pub prefix: Prefix<A>,
    /// Its new hop; `None` deletes it.
    pub hop: Option<Hop>,
}

/// Prefixes and their hops, ordered by address, then length.
///
/// - I1: no chunk is empty, and `heads[i]` is the first prefix of `chunks[i]`.
/// - I2: prefixes ascend strictly within a chunk and from chunk to chunk.
/// - I3: `len` and `by_len` count the prefixes stored.
#[derive(Clone, Debug)]
pub struct Rib<A> {
    heads: Vec<Prefix<A>>,
    chunks: Vec<Chunk<A>>,
    len: usize,
    by_len: Vec<u32>,
}

impl<A: Addr> Rib<A> {
    /// An empty store.
    pub fn new() -> Self {
        let by_len = vec![0; usize::from(A::WIDTH) + 1];
        Rib { heads: Vec::new(), chunks: Vec::new(), len: 0, by_len }
    }

    /// Inserts or changes; returns the hop that the prefix had.
    ///
    /// # Panics
    /// When `hop` is [`Hop::NONE`] (in debug builds): delete instead.
    pub fn insert(&mut self, prefix: Prefix<A>, hop: Hop) -> Option<Hop> {
        debug_assert!(!hop.is_none());
        let Some(at) = self.chunk_of(&prefix) else {
            self.count(&prefix);
            self.adopt(0, Chunk::of(prefix, hop));
            return None;
        };
        let slot = self.chunks[at].lower_bound(&prefix);
        if self.chunks[at].holds(slot, &prefix) {
            return Some(std::mem::replace(&mut self.chunks[at].hops[slot], hop));
        }
        self.count(&prefix);
        if self.chunks[at].len() < CHUNK {
            self.put(at, slot, prefix, hop);
        } else {
            self.put_beside(at, slot, prefix, hop);
        }
        None
    }

    /// Deletes; returns the hop that the prefix had.
    pub fn remove(&mut self, prefix: &Prefix<A>) -> Option<Hop> {
        let at = self.chunk_of(prefix)?;
        let slot = self.chunks[at].lower_bound(prefix);
        if !self.chunks[at].holds(slot, prefix) {
            return None;
        }
        let hop = self.chunks[at].remove(slot);
        self.len -= 1;
        self.by_len[usize::from(prefix.len())] -= 1;
        if self.chunks[at].len() == 0 {
            self.chunks.remove(at);
            self.heads.remove(at);
        } else {
            self.heads[at] = self.chunks[at].get(0).0;
            self.join(at);
        }
        Some(hop)
    }

    /// Inserts, changes or deletes as `change` says; returns the old hop.
    pub fn apply(&mut self, change: &Change<A>) -> Option<Hop> {
        match change.hop {
            Some(hop) => self.insert(change.prefix, hop),
            None => self.remove(&change.prefix),
        }
    }

    /// The hop of exactly this prefix.
    pub fn get(&self, prefix: &Prefix<A>) -> Option<Hop> {
        let chunk = &self.chunks[self.chunk_of(prefix)?];
        let slot = chunk.lower_bound(prefix);
        chunk.holds(slot, prefix).then(|| chunk.hops[slot])
    }

    /// The longest prefix that covers `addr`, and its hop.
    pub fn lookup(&self, addr: A) -> Option<(Prefix<A>, Hop)> {
        self.covering(Prefix::covering(addr, A::WIDTH)).next()
    }

    /// Every stored prefix that covers `prefix`, itself included, longest first.
    pub fn covering(&self, prefix: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        let next = self.longest_present(prefix.len());
        Covering { rib: self, target: prefix.first(), next, chunk: self.chunks.len() }
    }

    /// The longest prefix that covers `prefix` and is shorter, and its hop.
    pub fn parent(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, Hop)> {
        let shorter = prefix.len().checked_sub(1)?;
        self.covering(Prefix::covering(prefix.first(), shorter)).next()
    }

    /// Every prefix whose first address lies in `range`, ordered by address,
    /// then length.
    pub fn inside(&self, range: RangeInclusive<A>) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        let at = self.at_or_after(&shortest_at(*range.start()));
        Inside { rib: self, at, last: *range.end() }
    }

    /// The longest prefixes inside `prefix` that no other one inside covers, by
    /// address: what `prefix` covers outside of them it owns.
    pub fn children(&self, prefix: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        let mut at = self.at_or_after(&prefix);
        if self.at(at).is_some_and(|(first, _)| first == prefix) {
            at = self.after(at);
        }
        Children { rib: self, at: Some(at), last: prefix.last() }
    }

    /// All prefixes, ordered by address, then length.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Hop)> + '_ {
        self.chunks.iter().flat_map(|chunk| (0..chunk.len()).map(|slot| chunk.get(slot)))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of prefixes of `len` bits.
    ///
    /// # Panics
    /// When `len` exceeds the family's bits.
    pub fn count_of_len(&self, len: u8) -> usize {
        self.by_len[usize::from(len)] as usize
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        self.heads.capacity() * size_of::<Prefix<A>>()
            + self.chunks.capacity() * size_of::<Chunk<A>>()
            + self.chunks.iter().map(Chunk::bytes).sum::<usize>()
            + self.by_len.capacity() * size_of::<u32>()
    }

    /// Builds from prefixes that ascend strictly; far faster than inserting.
    fn from_ascending(routes: impl Iterator<Item = (Prefix<A>, Hop)>) -> Self {
        let mut rib = Rib::new();
        for (prefix, hop) in routes {
            rib.count(&prefix);
            if rib.chunks.last().is_none_or(|chunk| chunk.len() == BULK_FILL) {
                rib.heads.push(prefix);
                rib.chunks.push(Chunk::with_room(BULK_FILL));
            }
            let chunk = rib.chunks.last_mut().expect("one was pushed where none was");
            chunk.insert(chunk.len(), prefix, hop);
        }
        if let Some(chunk) = rib.chunks.last_mut() {
            chunk.shrink(0); // a store of a few routes is common: one per VRF
        }
        rib.heads.shrink_to_fit();
        rib.chunks.shrink_to_fit();
        rib
    }

    fn count(&mut self, prefix: &Prefix<A>) {
        self.len += 1;
        self.by_len[usize::from(prefix.len())] += 1;
    }

    fn adopt(&mut self, at: usize, chunk: Chunk<A>) {
        self.heads.insert(at, chunk.get(0).0);
        self.chunks.insert(at, chunk);
    }

    fn put(&mut self, at: usize, slot: usize, prefix: Prefix<A>, hop: Hop) {
        self.chunks[at].insert(slot, prefix, hop);
        if slot == 0 {
            self.heads[at] = prefix;
        }
    }

    /// Inserts at `slot` of the full chunk `at`. Halving it would leave half of
    /// the memory empty where prefixes arrive in order, up or down.
    fn put_beside(&mut self, at: usize, slot: usize, prefix: Prefix<A>, hop: Hop) {
        if slot == 0 {
            self.adopt(at, Chunk::of(prefix, hop));
        } else if slot < CHUNK {
            let upper = self.chunks[at].split();
            self.adopt(at + 1, upper);
            let over = usize::from(slot > CHUNK / 2);
            self.put(at + over, slot - over * (CHUNK / 2), prefix, hop);
        } else if self.chunks.get(at + 1).is_some_and(|next| next.len() < CHUNK) {
            self.put(at + 1, 0, prefix, hop);
        } else {
            self.adopt(at + 1, Chunk::of(prefix, hop));
        }
    }

    /// Joins a chunk that has become small with a neighbour that has room.
    fn join(&mut self, at: usize) {
        if self.chunks[at].len() > CHUNK / 4 {
            return;
        }
        let fits = |i: usize, j: usize| {
            let both = self.chunks.get(i).zip(self.chunks.get(j));
            both.is_some_and(|(a, b)| a.len() + b.len() <= CHUNK * 3 / 4)
        };
        let lower = if fits(at, at + 1) {
            at
        } else if at > 0 && fits(at - 1, at) {
            at - 1
        } else {
            return;
        };
        let upper = self.chunks.remove(lower + 1);
        self.heads.remove(lower + 1);
        self.chunks[lower].append(upper);
    }

    /// The chunk in which `prefix` is, or would be inserted.
    #[inline]
    fn chunk_of(&self, prefix: &Prefix<A>) -> Option<usize> {
        let after = self.heads.partition_point(|head| head <= prefix);
        if self.heads.is_empty() { None } else { Some(after.saturating_sub(1)) }
    }

    /// The place of the first prefix that is `prefix` or follows it.
    fn at_or_after(&self, prefix: &Prefix<A>) -> Place {
        let Some(chunk) = self.chunk_of(prefix) else { return (0, 0) };
        let slot = self.chunks[chunk].lower_bound(prefix);
        if slot == self.chunks[chunk].len() { (chunk + 1, 0) } else { (chunk, slot) }
    }

    #[inline]
    fn at(&self, (chunk, slot): Place) -> Option<(Prefix<A>, Hop)> {
        Some(self.chunks.get(chunk)?.get(slot))
    }

    #[inline]
    fn after(&self, (chunk, slot): Place) -> Place {
        if slot + 1 == self.chunks[chunk].len() { (chunk + 1, 0) } else { (chunk, slot + 1) }
    }

    /// The longest length up to `len` that any prefix has.
    fn longest_present(&self, len: u8) -> Option<u8> {
        self.by_len[..=usize::from(len)].iter().rposition(|&n| n != 0).map(|len| len as u8)
    }
}

impl<A: Addr> Default for Rib<A> {
    fn default() -> Self {
        Rib::new()
    }
}

impl<A: Addr> FromIterator<(Prefix<A>, Hop)> for Rib<A> {
    /// Of two equal prefixes the later one counts. Sorted input is fastest.
    fn from_iter<I: IntoIterator<Item = (Prefix<A>, Hop)>>(routes: I) -> Self {
        let mut routes: Vec<_> = routes.into_iter().collect();
        if !routes.is_sorted_by(|a, b| a.0 < b.0) {
            routes.sort_by_key(|route| route.0); // stable: the later of equals stays later
            routes.dedup_by(|later, kept| {
                let equal = later.0 == kept.0;
                if equal {
                    *kept = *later;
                }
                equal
            });
        }
        Rib::from_ascending(routes.into_iter())
    }
}

/// A chunk and a slot in it; one past the last chunk at the end.
type Place = (usize, usize);

/// Predecessor jumps: everything that covers the target stands before it, and
/// what stands between does not reach it. A predecessor that does not cover the
/// target shares `c` bits with it, so no longer prefix than `c` can.
struct Covering<'r, A> {
    rib: &'r Rib<A>,
    target: A,
    /// The length to search next.
    next: Option<u8>,
    /// The chunk of the last find: the next one is there or before.
    chunk: usize,
}

impl<A: Addr> Iterator for Covering<'_, A> {
    type Item = (Prefix<A>, Hop);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(len) = self.next {
            let wanted = Prefix::covering(self.target, len);
            let (found, hop) = self.at_or_before(&wanted)?;
            if found.covers(&wanted) {
                let shorter = found.len().checked_sub(1);
                self.next = shorter.and_then(|len| self.rib.longest_present(len));
                return Some((found, hop));
            }
            self.next = self.rib.longest_present(found.first().common(self.target));
        }
        None
    }
}

impl<A: Addr> Covering<'_, A> {
    #[inline]
    fn at_or_before(&mut self, wanted: &Prefix<A>) -> Option<(Prefix<A>, Hop)> {
        let heads = &self.rib.heads;
        if heads.get(self.chunk).is_none_or(|head| head > wanted) {
            let before = heads[..self.chunk].partition_point(|head| head <= wanted);
            self.chunk = before.checked_sub(1)?;
        }
        let chunk = &self.rib.chunks[self.chunk];
        let slot = chunk.lower_bound(wanted);
        let slot = if chunk.holds(slot, wanted) { slot } else { slot - 1 };
        Some(chunk.get(slot)) // slot - 1 exists: the chunk's head is not after `wanted`
    }
}

struct Inside<'r, A> {
    rib: &'r Rib<A>,
    at: Place,
    last: A,
}

impl<A: Addr> Iterator for Inside<'_, A> {
    type Item = (Prefix<A>, Hop);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let route = self.rib.at(self.at)?;
        if route.0.first() > self.last {
            return None;
        }
        self.at = self.rib.after(self.at);
        Some(route)
    }
}

struct Children<'r, A> {
    rib: &'r Rib<A>,
    at: Option<Place>,
    last: A,
}

impl<A: Addr> Iterator for Children<'_, A> {
    type Item = (Prefix<A>, Hop);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at?;
        let child = self.rib.at(at).filter(|(child, _)| child.first() <= self.last)?;
        self.at = (child.0.last() < self.last).then(|| self.beyond(at, child.0.last()));
        Some(child)
    }
}

impl<A: Addr> Children<'_, A> {
    /// The first place after `at` whose prefix starts after `last`.
    fn beyond(&self, mut at: Place, last: A) -> Place {
        for _ in 0..NEAR {
            at = self.rib.after(at);
            if self.rib.at(at).is_none_or(|(prefix, _)| prefix.first() > last) {
                return at;
            }
        }
        self.rib.at_or_after(&shortest_at(last.plus(1)))
    }
}

/// I4: the three are equally long, at most [`CHUNK`].
#[derive(Clone, Debug)]
struct Chunk<A> {
    firsts: Vec<A>,
    lens: Vec<u8>,
    hops: Vec<Hop>,
}

impl<A: Addr> Chunk<A> {
    fn of(prefix: Prefix<A>, hop: Hop) -> Self {
        let mut chunk = Chunk::with_room(STEP);
        chunk.insert(0, prefix, hop);
        chunk
    }

    fn with_room(records: usize) -> Self {
        Chunk {
            firsts: Vec::with_capacity(records),
            lens: Vec::with_capacity(records),
            hops: Vec::with_capacity(records),
        }
    }

    fn insert(&mut self, slot: usize, prefix: Prefix<A>, hop: Hop) {
        if self.len() == self.firsts.capacity() {
            self.firsts.reserve_exact(STEP);
            self.lens.reserve_exact(STEP);
            self.hops.reserve_exact(STEP);
        }
        self.firsts.insert(slot, prefix.first());
        self.lens.insert(slot, prefix.len());
        self.hops.insert(slot, hop);
    }

    fn remove(&mut self, slot: usize) -> Hop {
        self.firsts.remove(slot);
        self.lens.remove(slot);
        let hop = self.hops.remove(slot);
        if self.len().is_multiple_of(STEP) {
            self.shrink(self.len() + STEP);
        }
        hop
    }

    /// Moves the upper half of a full chunk into a new one.
    fn split(&mut self) -> Self {
        let mut upper = Chunk::with_room(CHUNK / 2 + STEP);
        upper.firsts.extend(self.firsts.drain(CHUNK / 2..));
        upper.lens.extend(self.lens.drain(CHUNK / 2..));
        upper.hops.extend(self.hops.drain(CHUNK / 2..));
        self.shrink(CHUNK / 2 + STEP);
        upper
    }

    fn append(&mut self, mut upper: Self) {
        self.firsts.append(&mut upper.firsts);
        self.lens.append(&mut upper.lens);
        self.hops.append(&mut upper.hops);
    }

    fn shrink(&mut self, room: usize) {
        self.firsts.shrink_to(room);
        self.lens.shrink_to(room);
        self.hops.shrink_to(room);
    }

    fn bytes(&self) -> usize {
        self.firsts.capacity() * size_of::<A>()
            + self.lens.capacity()
            + self.hops.capacity() * size_of::<Hop>()
    }

    #[inline]
    fn len(&self) -> usize {
        self.firsts.len()
    }

    #[inline]
    fn get(&self, slot: usize) -> (Prefix<A>, Hop) {
        (Prefix::covering(self.firsts[slot], self.lens[slot]), self.hops[slot])
    }

    #[inline]
    fn holds(&self, slot: usize, prefix: &Prefix<A>) -> bool {
        slot < self.len() && self.firsts[slot] == prefix.first() && self.lens[slot] == prefix.len()
    }

    /// The first slot whose prefix is `prefix` or follows it.
    #[inline]
    fn lower_bound(&self, prefix: &Prefix<A>) -> usize {
        let firsts = &self.firsts;
        let mut slot = firsts.partition_point(|&first| first < prefix.first());
        while slot < firsts.len()
            && firsts[slot] == prefix.first()
            && self.lens[slot] < prefix.len()
        {
            slot += 1;
        }
        slot
    }
}

/// The shortest prefix that starts at `first`: none sorts before it there.
fn shortest_at<A: Addr>(first: A) -> Prefix<A> {
    // `first - 1` differs from `first` in the lowest set bit and those below.
    let len = if first == A::default() { 0 } else { first.common(first.minus(1)) + 1 };
    Prefix::covering(first, len)
}

/// Records in a chunk: an insert moves half of them; more of them mean fewer
/// heads to search. 128 to 512 measured alike.
const CHUNK: usize = 256;

/// Records by which a chunk's memory grows: fixed chunks fell to half full when
/// prefixes arrive evenly spread (42 bytes a prefix for IPv6).
const STEP: usize = 32;

/// Records that a bulk build puts into a chunk: the first inserts do not split.
const BULK_FILL: usize = CHUNK - STEP;

/// Records that [`Children`] steps over before it searches.
const NEAR: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Model<A> = BTreeMap<Prefix<A>, Hop>;

    /// Prefixes that nest often: few address bits vary, any length occurs.
    fn prefix<A: Addr>() -> impl Strategy<Value = Prefix<A>> {
        (any::<u128>(), 0..=A::WIDTH, any::<bool>()).prop_map(|(bits, len, near)| {
            let bits = if near { bits & A::from_u128(0x8003_0003).to_u128() } else { bits };
            let spread = (bits >> 96) << 100 | bits;
            Prefix::covering(A::from_u128(spread), len)
        })
    }

    fn changes<A: Addr>() -> impl Strategy<Value = Vec<Change<A>>> {
        let hop = prop_oneof![2 => (1..100_u32).prop_map(Hop::new), 1 => Just(None)];
        let change = (prefix(), hop).prop_map(|(prefix, hop)| Change { prefix, hop });
        prop::collection::vec(change, 0..if cfg!(miri) { 40 } else { 1200 })
    }

    fn agrees<A: Addr>(rib: &Rib<A>, model: &Model<A>, probe: Prefix<A>) {
        assert_eq!(rib.get(&probe), model.get(&probe).copied());
        let covering: Vec<_> = rib.covering(probe).collect();
        let covers = |(p, &h): (&Prefix<A>, &Hop)| p.covers(&probe).then_some((*p, h));
        let mut want: Vec<_> = model.iter().filter_map(covers).collect();
        want.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        assert_eq!(covering, want, "covering {probe}");
        let parent = want.iter().find(|(p, _)| *p != probe).copied();
        assert_eq!(rib.parent(probe), parent, "parent of {probe}");
        let inside: Vec<_> = rib.inside(probe.first()..=probe.last()).collect();
        let within = |(p, &h): (&Prefix<A>, &Hop)| probe.contains(p.first()).then_some((*p, h));
        assert_eq!(inside, model.iter().filter_map(within).collect::<Vec<_>>());
        let strictly: Vec<_> =
            inside.into_iter().filter(|(p, _)| probe.covers(p) && *p != probe).collect();
        let on_top = |(p, _): &&(Prefix<A>, Hop)| {
            !strictly.iter().any(|(other, _)| other != p && other.covers(p))
        };
        let want: Vec<_> = strictly.iter().filter(on_top).copied().collect();
        assert_eq!(rib.children(probe).collect::<Vec<_>>(), want, "children of {probe}");
    }

    fn check<A: Addr>(changes: &[Change<A>], probes: &[Prefix<A>]) {
        let (mut rib, mut model) = (Rib::new(), Model::new());
        for change in changes {
            let old = match change.hop {
                Some(hop) => model.insert(change.prefix, hop),
                None => model.remove(&change.prefix),
            };
            assert_eq!(rib.apply(change), old);
        }
        assert!(rib.iter().eq(model.iter().map(|(&prefix, &hop)| (prefix, hop))));
        assert_eq!(rib.len(), model.len());
        let built: Rib<A> = model.iter().map(|(&prefix, &hop)| (prefix, hop)).collect();
        assert!(built.iter().eq(rib.iter()));
        for probe in probes.iter().chain(changes.iter().take(60).map(|change| &change.prefix)) {
            agrees(&rib, &model, *probe);
            agrees(&built, &model, *probe);
        }
        for len in 0..=A::WIDTH {
            let want = model.keys().filter(|prefix| prefix.len() == len).count();
            assert_eq!(rib.count_of_len(len), want);
        }
        for prefix in model.keys() {
            assert!(rib.remove(prefix).is_some());
        }
        assert!(rib.is_empty() && rib.iter().next().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 96 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn behaves_as_a_btreemap(
            changes in changes::<u32>(), probes in prop::collection::vec(prefix(), 40)
        ) {
            check(&changes, &probes);
        }

        #[test]
        fn behaves_as_a_btreemap_ipv6(
            changes in changes::<u128>(), probes in prop::collection::vec(prefix(), 40)
        ) {
            check(&changes, &probes);
        }
    }

    #[test]
    fn of_equal_prefixes_the_later_one_counts() {
        let route = |first, hop| (Prefix::new(first, 24).unwrap(), Hop(hop));
        let rib: Rib<u32> = [route(512, 1), route(256, 2), route(512, 3)].into_iter().collect();
        assert!(rib.iter().eq([route(256, 2), route(512, 3)]));
    }

    #[test]
    fn shortest_at_every_alignment() {
        assert_eq!(shortest_at(0_u32), Prefix::all());
        assert_eq!(shortest_at(0x0a00_0000_u32), Prefix::new(0x0a00_0000, 7).unwrap());
        assert_eq!(shortest_at(u32::MAX), Prefix::new(u32::MAX, 32).unwrap());
        assert_eq!(shortest_at(1_u128 << 127), Prefix::new(1 << 127, 1).unwrap());
    }

    #[test]
    #[cfg_attr(miri, ignore = "200,000 prefixes")]
    fn a_prefix_costs_little_memory_in_any_order_of_arrival() {
        fn bytes<A: Addr>(n: u64, step: u64) -> f64 {
            let mut rib = Rib::new();
            let place = |i: u64| A::from_u128(u128::from(i * step % n) << (A::WIDTH - 18));
            for i in 0..n {
                rib.insert(Prefix::covering(place(i), 24), Hop(1));
            }
            assert_eq!(rib.len() as u64, n);
            rib.bytes() as f64 / n as f64
        }
        for step in [1, 7_919, 199_999] {
            assert!(bytes::<u32>(200_000, step) <= 24.0, "IPv4, step {step}");
            assert!(bytes::<u128>(200_000, step) <= 40.0, "IPv6, step {step}");
        }
    }
}
