//! Ids of hops, adjacencies and groups: given out, and taken back after a grace
//! period; and the hop table that they index, which doubles when it is full.

use std::collections::VecDeque;
use std::sync::Arc;

use lookup::Hop;
use lookup::sync::{Domain, Mark};

use crate::hops::fixed;
use crate::limits::{Limits, Memory, Refusals};
use crate::{Adjacency, AdjacencyId, Forwarding, HopTable, Kind, Step};

/// Invariants:
/// - I1: an id is either in use, or free, or waits for a grace period; never two
///   of these.
/// - I2: a waiting id is named by no step that a reader can load from now on.
/// - I3: `table` is the one that `forwarding` publishes.
pub(crate) struct Pool {
    domain: Arc<Domain>,
    forwarding: Arc<Forwarding>,
    table: Arc<HopTable>,
    hops: Ids,
    adjacencies: Ids,
    groups: Ids,
    ranges: Ranges,
    /// Ordered by mark.
    waiting: VecDeque<(Mark, Waiting)>,
    limits: Limits,
    pub(crate) memory: Memory,
    pub(crate) refused_hops: Refusals,
    pub(crate) refused_groups: Refusals,
}

/// A group: its index, and its range of the members' array.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Group {
    index: u32,
    first: u32,
    class: u8,
}

enum Waiting {
    Adjacency(AdjacencyId),
    Group(Group),
}

impl Pool {
    pub(crate) fn new(
        domain: &Arc<Domain>,
        forwarding: &Arc<Forwarding>,
        limits: Limits,
        memory: Memory,
    ) -> Pool {
        // Ids of steps have 24 bits.
        let most = |limit: usize| limit.min(1 << 24) as u32;
        let table = Arc::new(HopTable::new(256, 64, 256));
        forwarding.hops.publish(table.clone());
        Pool {
            domain: domain.clone(),
            forwarding: forwarding.clone(),
            table,
            hops: Ids::new(fixed::FIRST_FREE, most(limits.hops)),
            adjacencies: Ids::new(1, most(limits.hops)),
            groups: Ids::new(0, most(limits.groups)),
            ranges: Ranges::new(most(limits.members)),
            waiting: VecDeque::new(),
            limits,
            memory,
            refused_hops: Refusals::default(),
            refused_groups: Refusals::default(),
        }
    }

    /// A hop that no table names yet; `None` at the limit. Its step is set by
    /// the caller.
    pub(crate) fn take_hop(&mut self) -> Option<Hop> {
        let id = self.hops.take()?;
        if !self.fits(id as usize + 1, 0, 0) {
            self.hops.give(id);
            return None;
        }
        Some(Hop(id))
    }

    /// Takes back a hop that no reader can meet any more.
    pub(crate) fn give_hop(&mut self, hop: Hop) {
        self.table.set_step(hop, Step::new(Kind::NoRoute, 0));
        self.hops.give(hop.0);
    }

    /// Writes an adjacency under a new id; `None` at the limit.
    pub(crate) fn take_adjacency(&mut self, adjacency: &Adjacency) -> Option<AdjacencyId> {
        let id = self.adjacencies.take()?;
        if !self.fits(id as usize + 1, 0, 0) {
            self.adjacencies.give(id);
            return None;
        }
        self.table.set_adjacency(AdjacencyId(id), adjacency);
        Some(AdjacencyId(id))
    }

    /// Takes back an adjacency that no step names any more.
    pub(crate) fn retire_adjacency(&mut self, id: AdjacencyId) {
        let mark = self.domain.mark();
        self.waiting.push_back((mark, Waiting::Adjacency(id)));
    }

    /// Writes a group under a new id; `None` at a limit.
    pub(crate) fn take_group(&mut self, hops: &[Hop]) -> Option<Group> {
        let index = self.groups.take()?;
        let Some((first, class)) = self.ranges.take(hops.len() as u32) else {
            self.groups.give(index);
            return None;
        };
        if !self.fits(0, index as usize + 1, first as usize + (1 << class)) {
            self.groups.give(index);
            self.ranges.give(first, class);
            return None;
        }
        self.table.set_group(index, first, hops);
        Some(Group { index, first, class })
    }

    /// Takes back a group that no step names any more.
    pub(crate) fn retire_group(&mut self, group: Group) {
        let mark = self.domain.mark();
        self.waiting.push_back((mark, Waiting::Group(group)));
    }

    /// Points `hop` to its next step.
    pub(crate) fn set_step(&self, hop: Hop, step: Step) {
        self.table.set_step(hop, step);
    }

    /// Takes in what every reader has left behind.
    pub(crate) fn reclaim(&mut self) {
        while let Some((mark, _)) = self.waiting.front()
            && self.domain.passed(*mark)
        {
            match self.waiting.pop_front() {
                Some((_, Waiting::Adjacency(id))) => self.adjacencies.give(id.0),
                Some((_, Waiting::Group(group))) => {
                    self.groups.give(group.index);
                    self.ranges.give(group.first, group.class);
                }
                None => break,
            }
        }
    }

    /// True while ids wait for readers.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn table(&self) -> &HopTable {
        &self.table
    }

    /// Used and limit of hops, groups and members.
    pub(crate) fn usage(&self) -> [(usize, usize); 3] {
        [
            (self.hops.used(), self.limits.hops),
            (self.groups.used(), self.limits.groups),
            (self.ranges.used as usize, self.limits.members),
        ]
    }

    /// Makes room for so many; false where memory does not allow it.
    fn fits(&mut self, hops: usize, groups: usize, members: usize) -> bool {
        let (h, g, m) = self.table.capacity();
        if hops <= h && groups <= g && members <= m {
            return true;
        }
        let room =
            |need: usize, have: usize| if need > have { need.next_power_of_two() } else { have };
        if !self.memory.allows(2 * self.table.bytes() as u64) {
            return false;
        }
        let grown = self.table.grown(room(hops, h), room(groups, g), room(members, m));
        self.table = Arc::new(grown);
        self.forwarding.hops.publish(self.table.clone());
        true
    }
}

impl Group {
    pub(crate) fn step(&self) -> Step {
        Step::new(Kind::Multipath, self.index)
    }
}

/// Numbers from `first` below `limit`; a number given back is used again.
struct Ids {
    first: u32,
    next: u32,
    limit: u32,
    free: Vec<u32>,
}

impl Ids {
    fn new(first: u32, limit: u32) -> Ids {
        Ids { first, next: first, limit: limit.max(first), free: Vec::new() }
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(id) = self.free.pop() {
            return Some(id);
        }
        let id = self.next;
        (id < self.limit).then(|| {
            self.next += 1;
            id
        })
    }

    fn give(&mut self, id: u32) {
        self.free.push(id);
    }

    fn used(&self) -> usize {
        (self.next - self.first) as usize - self.free.len()
    }
}

/// Ranges of the members' array, each a power of two long. Ranges are not
/// joined again: at most twice the peak of every size is held.
struct Ranges {
    next: u32,
    limit: u32,
    used: u32,
    free: [Vec<u32>; CLASSES],
}

const CLASSES: usize = 17;

impl Ranges {
    fn new(limit: u32) -> Ranges {
        Ranges { next: 0, limit, used: 0, free: [const { Vec::new() }; CLASSES] }
    }

    fn take(&mut self, count: u32) -> Option<(u32, u8)> {
        let class = count.max(1).next_power_of_two().trailing_zeros() as u8;
        let free = self.free.get_mut(usize::from(class))?;
        let first = match free.pop() {
            Some(first) => first,
            None => {
                let first = self.next;
                let next = first.checked_add(1 << class).filter(|next| *next <= self.limit)?;
                self.next = next;
                first
            }
        };
        self.used += 1 << class;
        Some((first, class))
    }

    fn give(&mut self, first: u32, class: u8) {
        self.used -= 1 << class;
        self.free[usize::from(class)].push(first); // cannot panic: `take` made the class
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IfaceId, PortId, Tags};

    fn pool(limits: Limits, memory: Memory) -> (Arc<Domain>, Arc<Forwarding>, Pool) {
        let domain = Domain::new();
        let forwarding = Forwarding::new(&domain);
        let pool = Pool::new(&domain, &forwarding, limits, memory);
        (domain, forwarding, pool)
    }

    #[test]
    fn ids_end_at_the_limit_and_come_back_after_the_grace_period() {
        let first = fixed::FIRST_FREE;
        let limits = Limits { hops: first as usize + 2, ..Limits::default() };
        let (domain, _, mut pool) = pool(limits, Memory::of(|| None));
        let mut reader = domain.register("reader");
        let out = (IfaceId(1), PortId(0), 1500);
        let adjacency = Adjacency::new(out, [2; 6], [4; 6], Tags::None, 0x0800);
        assert_eq!(
            (pool.take_hop(), pool.take_hop(), pool.take_hop()),
            (Some(Hop(first)), Some(Hop(first + 1)), None)
        );
        let ids: Vec<_> = std::iter::from_fn(|| pool.take_adjacency(&adjacency)).collect();
        assert_eq!(ids.len(), first as usize + 1);
        pool.retire_adjacency(ids[3]);
        pool.reclaim();
        assert_eq!(pool.take_adjacency(&adjacency), None);
        reader.quiesce();
        pool.reclaim();
        assert_eq!(pool.take_adjacency(&adjacency), Some(ids[3]));
    }

    #[test]
    fn growth_keeps_steps_and_is_published() {
        let (domain, forwarding, mut pool) = pool(Limits::default(), Memory::of(|| None));
        let reader = domain.register("reader");
        let first = pool.take_hop().unwrap();
        pool.set_step(first, Step::new(Kind::Blackhole, 0));
        for _ in 0..1000 {
            assert!(pool.take_hop().is_some());
        }
        let table = forwarding.hops.load(reader.guard());
        assert_eq!(table.step(first).kind(), Kind::Blackhole);
        assert!(table.capacity().0 >= 1000);
    }

    #[test]
    fn without_memory_nothing_grows() {
        let (_, _, mut pool) = pool(Limits::default(), Memory::of(|| Some(0)));
        let taken = std::iter::from_fn(|| pool.take_hop()).count();
        assert_eq!(taken, 256 - fixed::FIRST_FREE as usize);
    }

    #[test]
    fn ranges_return_by_size() {
        let mut ranges = Ranges::new(16);
        let a = ranges.take(3).unwrap();
        let b = ranges.take(8).unwrap();
        assert_eq!((a, b, ranges.take(8)), ((0, 2), (4, 3), None));
        ranges.give(b.0, b.1);
        assert_eq!(ranges.take(5), Some(b));
        assert_eq!(ranges.used, 12);
    }
}
