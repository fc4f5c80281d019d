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

mod chunk;
#[cfg(test)]
mod tests;
mod walk;

use std::ops::RangeInclusive;

use crate::{Addr, Hop, Prefix};
use chunk::{CHUNK, Chunk, STEP};
use walk::{Children, Covering, Inside};

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

/// The shortest prefix that starts at `first`: none sorts before it there.
fn shortest_at<A: Addr>(first: A) -> Prefix<A> {
    // `first - 1` differs from `first` in the lowest set bit and those below.
    let len = if first == A::default() { 0 } else { first.common(first.minus(1)) + 1 };
    Prefix::covering(first, len)
}

/// Records that a bulk build puts into a chunk: the first inserts do not split.
const BULK_FILL: usize = CHUNK - STEP;
