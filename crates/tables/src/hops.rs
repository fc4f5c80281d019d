//! The hop table: from the [`Hop`] that a lookup answers to what happens next.
//!
//! ```text
//!  FIB ── hop ──► steps[hop]  kind 8 │ index 24
//!                   Forward   adjacency ──► cells[index]     one line of rewrite
//!                   Multipath group     ──► groups[index]    first 32 │ count 16
//!                                            └► members[first + hash % count] ── hop
//!                   others    the class in which the packet is dropped or punted
//! ```
//!
//! A route names a hop; a hop's step may change (its gateway was resolved, moved
//! or lost) with one store, however many routes name it. What a step points to
//! is immutable: a changed adjacency or group is a new one, and the old index
//! returns to use only after a grace period.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lookup::Hop;

use crate::adjacency::Cell;
use crate::{Adjacency, AdjacencyId};

/// What happens to packets of a hop.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Kind {
    /// No route covers the address: an ICMP error by the kernel.
    NoRoute = 0,
    /// Rewrite and send: the index is an adjacency.
    Forward = 1,
    /// One of several hops by the hash of the flow: the index is a group.
    Multipath = 2,
    /// An address of this machine: to the kernel.
    ForUs = 3,
    /// Neighbour not resolved yet: to the kernel, which resolves it. [`Step::AT_BACK`] is one at
    /// the back of a shield.
    NoNeighbour = 4,
    /// Leaves by an interface that is not Rutter's: the kernel forwards.
    ViaKernel = 5,
    /// Unreachable or prohibit: an ICMP error by the kernel.
    Unreachable = 6,
    /// Multicast and broadcast: to the kernel.
    Multicast = 7,
    /// Silently dropped: a blackhole route.
    Blackhole = 8,
    /// Silently dropped: an address that must not be routed (RFC 1812 §5.3.7, RFC 6890).
    Martian = 9,
    /// Silently dropped: the routes of its VRF are still being listed.
    NotReady = 10,
    /// In front views only: a shield decides. The index is the protection.
    Protected = 11,
    /// Likewise: passes the shield, by its route. The index is the protection.
    Bypass = 12,
    /// Likewise: dropped by a protection. The index is the protection.
    Discard = 13,
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Kind; 14] = [
        Kind::NoRoute,
        Kind::Forward,
        Kind::Multipath,
        Kind::ForUs,
        Kind::NoNeighbour,
        Kind::ViaKernel,
        Kind::Unreachable,
        Kind::Multicast,
        Kind::Blackhole,
        Kind::Martian,
        Kind::NotReady,
        Kind::Protected,
        Kind::Bypass,
        Kind::Discard,
    ];
}

/// Hops that every table has, with the kind of the same meaning.
pub mod fixed {
    use lookup::Hop;
    /// [`super::Kind::ForUs`].
    pub const FOR_US: Hop = Hop(1);
    /// [`super::Kind::ViaKernel`].
    pub const VIA_KERNEL: Hop = Hop(2);
    /// [`super::Kind::Unreachable`].
    pub const UNREACHABLE: Hop = Hop(3);
    /// [`super::Kind::Multicast`].
    pub const MULTICAST: Hop = Hop(4);
    /// [`super::Kind::Blackhole`].
    pub const BLACKHOLE: Hop = Hop(5);
    /// [`super::Kind::Martian`].
    pub const MARTIAN: Hop = Hop(6);
    /// [`super::Kind::NoNeighbour`]: a connected network's unresolved hosts.
    pub const GLEAN: Hop = Hop(7);
    /// [`super::Kind::NotReady`].
    pub const NOT_READY: Hop = Hop(8);
    /// [`super::Step::AT_BACK`]: the same as [`GLEAN`] of a network at the back of a shield.
    pub const GLEAN_BACK: Hop = Hop(9);
    /// The first hop that is free for gateways, hosts and groups.
    pub const FIRST_FREE: u32 = 10;
}

/// What a front view answers where no protection covers an address: the hop of its route,
/// marked, which no step has. So nothing in a front view leads out but a protection.
pub fn withheld(hop: Hop) -> Hop {
    Hop(hop.0 | WITHHELD)
}

/// The hop that [`withheld`] has marked.
pub fn of_withheld(hop: Hop) -> Option<Hop> {
    (hop.0 & WITHHELD != 0).then_some(Hop(hop.0 & !WITHHELD))
}

/// Above [`Hop::MAX`]: no hop has it.
const WITHHELD: u32 = 1 << 31;

/// Kind and index in one word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Step(u32);

impl Step {
    /// Of a neighbour at the back of a shield that is not resolved yet.
    pub const AT_BACK: Step = Step::new(Kind::NoNeighbour, 1);

    /// `index` is below 2^24 (the tables' limit).
    pub const fn new(kind: Kind, index: u32) -> Step {
        debug_assert!(index < 1 << 24);
        Step((kind as u32) << 24 | index & 0xff_ffff)
    }
    /// The adjacency of a [`Kind::Forward`] step.
    #[inline(always)]
    pub fn forward(self) -> Option<AdjacencyId> {
        let index = self.0.wrapping_sub((Kind::Forward as u32) << 24);
        (index < 1 << 24).then_some(AdjacencyId(index))
    }
    /// The group of a [`Kind::Multipath`] step.
    #[inline(always)]
    pub fn multipath(self) -> Option<u32> {
        let index = self.0.wrapping_sub((Kind::Multipath as u32) << 24);
        (index < 1 << 24).then_some(index)
    }
    /// The kind's number.
    #[inline]
    pub fn code(self) -> u8 {
        (self.0 >> 24) as u8
    }
    /// The kind.
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::ALL[usize::from(self.code()).min(Kind::ALL.len() - 1)]
    }
    /// Adjacency or group.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 & 0xff_ffff
    }
}

/// The hop table of all VRFs. Fixed capacity: where it must grow, the writer
/// copies it into a larger one and publishes that.
#[derive(Debug)]
pub struct HopTable {
    steps: Box<[AtomicU32]>,
    cells: Box<[Cell]>,
    groups: Box<[AtomicU64]>,
    members: Box<[AtomicU32]>,
}

impl HopTable {
    /// Room for so many hops (and as many adjacencies), groups and group members.
    /// The fixed hops are set.
    pub fn new(hops: usize, groups: usize, members: usize) -> HopTable {
        let hops = hops.max(fixed::FIRST_FREE as usize);
        let table = HopTable {
            steps: (0..hops).map(|_| AtomicU32::new(0)).collect(),
            cells: (0..hops).map(|_| Cell::default()).collect(),
            groups: (0..groups.max(1)).map(|_| AtomicU64::new(EMPTY)).collect(),
            members: (0..members.max(1)).map(|_| AtomicU32::new(0)).collect(),
        };
        for (hop, kind) in [
            (fixed::FOR_US, Kind::ForUs),
            (fixed::VIA_KERNEL, Kind::ViaKernel),
            (fixed::UNREACHABLE, Kind::Unreachable),
            (fixed::MULTICAST, Kind::Multicast),
            (fixed::BLACKHOLE, Kind::Blackhole),
            (fixed::MARTIAN, Kind::Martian),
            (fixed::GLEAN, Kind::NoNeighbour),
            (fixed::NOT_READY, Kind::NotReady),
        ] {
            table.set_step(hop, Step::new(kind, 0));
        }
        table.set_step(fixed::GLEAN_BACK, Step::AT_BACK);
        table
    }

    /// Hops, groups, members that fit.
    pub fn capacity(&self) -> (usize, usize, usize) {
        (self.steps.len(), self.groups.len(), self.members.len())
    }

    /// A larger table with the same contents.
    pub fn grown(&self, hops: usize, groups: usize, members: usize) -> HopTable {
        let (h, g, m) = self.capacity();
        let table = HopTable::new(hops.max(h), groups.max(g), members.max(m));
        for (to, from) in table.steps.iter().zip(&self.steps) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (to, from) in table.cells.iter().zip(&self.cells) {
            to.set(&from.get());
        }
        for (to, from) in table.groups.iter().zip(&self.groups) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (to, from) in table.members.iter().zip(&self.members) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        table
    }

    /// What happens to packets of `hop`; unknown hops have no route.
    #[inline(always)]
    pub fn step(&self, hop: Hop) -> Step {
        // Acquire: what the step points to was written before it. On x86 a plain load.
        self.steps.get(hop.index()).map_or(Step(0), |step| Step(step.load(Ordering::Acquire)))
    }

    /// Changes what happens to packets of `hop`: one store.
    ///
    /// # Panics
    /// When `hop` is beyond the capacity.
    pub fn set_step(&self, hop: Hop, step: Step) {
        self.steps[hop.index()].store(step.0, Ordering::Release);
    }

    /// The adjacency that a [`Kind::Forward`] step points to; the blank one for
    /// an id beyond the capacity.
    #[inline(always)]
    pub fn adjacency(&self, id: AdjacencyId) -> &Cell {
        self.find(id).unwrap_or(&self.cells[0])
    }

    /// The same; `None` for an id beyond the capacity.
    #[inline(always)]
    pub fn find(&self, id: AdjacencyId) -> Option<&Cell> {
        self.cells.get(id.0 as usize)
    }

    /// Writes an adjacency that no step points to.
    ///
    /// # Panics
    /// When `id` is beyond the capacity.
    pub fn set_adjacency(&self, id: AdjacencyId, adjacency: &Adjacency) {
        self.cells[id.0 as usize].set(adjacency);
    }

    /// The hop of group `index` for a flow's hash; [`Hop::NONE`] for an empty group.
    #[inline(always)]
    pub fn member(&self, index: u32, hash: u32) -> Hop {
        let Some(group) = self.groups.get(index as usize) else { return Hop::NONE };
        let group = group.load(Ordering::Acquire);
        let (first, count) = (group as u32, group >> 32);
        // Multiply-shift maps the hash evenly onto 0..count without a division.
        let pick = (u64::from(hash) * count) >> 32;
        match self.members.get(first as usize + pick as usize) {
            Some(hop) => Hop(hop.load(Ordering::Relaxed)),
            None => Hop::NONE,
        }
    }

    /// The same among the members that `is` accepts, by their weights; `None` where there is none.
    /// Flows whose hop is accepted keep it.
    pub fn member_that(&self, index: u32, hash: u32, is: impl Fn(Hop) -> bool) -> Option<Hop> {
        let hop = self.member(index, hash);
        if is(hop) {
            return Some(hop);
        }
        let group = self.groups.get(index as usize)?.load(Ordering::Acquire);
        let (first, count) = (group as u32 as usize, (group >> 32) as usize);
        let members = self.members.get(first..first.checked_add(count)?)?;
        let hops = || members.iter().map(|hop| Hop(hop.load(Ordering::Relaxed)));
        let accepted = hops().filter(|hop| is(*hop)).count() as u64;
        // The hashes of one member are neighbours: those flows are to spread over all others.
        let mixed = hash.wrapping_mul(GOLDEN);
        hops().filter(|hop| is(*hop)).nth(((u64::from(mixed) * accepted) >> 32) as usize)
    }

    /// What happens to packets of `hop` of a flow with this hash: where it has several ways,
    /// the step of one of them.
    #[inline]
    pub fn step_of_flow(&self, hop: Hop, hash: u32) -> Step {
        let step = self.step(hop);
        step.multipath().map_or(step, |group| self.step(self.member(group, hash)))
    }

    /// Every member of a group, one after the other; those of more weight several times.
    pub fn members(&self, index: u32) -> Vec<Hop> {
        let Some(group) = self.groups.get(index as usize) else { return Vec::new() };
        let group = group.load(Ordering::Acquire);
        let (first, count) = (group as u32 as usize, (group >> 32) as usize);
        let members = self.members.iter().skip(first).take(count);
        members.map(|hop| Hop(hop.load(Ordering::Relaxed))).collect()
    }

    /// Writes a group that no step points to: its members are `hops`, at
    /// `first..` of the members' array.
    ///
    /// # Panics
    /// When it does not fit.
    pub fn set_group(&self, index: u32, first: u32, hops: &[Hop]) {
        for (member, hop) in self.members[first as usize..][..hops.len()].iter().zip(hops) {
            member.store(hop.0, Ordering::Relaxed);
        }
        let group = u64::from(first) | (hops.len() as u64) << 32;
        let group = if hops.is_empty() { EMPTY } else { group };
        self.groups[index as usize].store(group, Ordering::Release);
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.steps.len() * (4 + size_of::<Cell>()) + self.groups.len() * 8 + self.members.len() * 4
    }
}

/// 2^32 by the golden ratio: multiples of it spread evenly (Knuth, TAOCP 3, §6.4).
const GOLDEN: u32 = 0x9e37_79b1;
/// A group without members: its first is none.
const EMPTY: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_hops_and_unknown_ones() {
        let table = HopTable::new(16, 4, 16);
        assert_eq!(table.step(fixed::FOR_US).kind(), Kind::ForUs);
        assert_eq!(table.step(Hop::NONE).kind(), Kind::NoRoute);
        assert_eq!(table.step(Hop(1 << 20)).kind(), Kind::NoRoute);
        assert_eq!(table.step(fixed::GLEAN_BACK), Step::AT_BACK);
        assert_ne!(table.step(fixed::GLEAN), Step::AT_BACK);
        assert_eq!(table.step(Hop(10)).kind(), Kind::NoRoute);
        for kind in Kind::ALL {
            assert_eq!(Step::new(kind, 5).kind(), kind);
        }
    }

    #[test]
    fn what_is_withheld_leads_nowhere() {
        let table = HopTable::new(16, 4, 16);
        for hop in [fixed::FOR_US, fixed::VIA_KERNEL, Hop(12), Hop::NONE, Hop::MAX] {
            assert_eq!(table.step(withheld(hop)).kind(), Kind::NoRoute);
            assert_eq!((of_withheld(withheld(hop)), of_withheld(hop)), (Some(hop), None));
        }
    }

    #[test]
    fn a_group_spreads_by_weight_and_survives_growth() {
        let table = HopTable::new(16, 4, 16);
        table.set_group(1, 3, &[Hop(8), Hop(9), Hop(9), Hop(9)]);
        table.set_step(Hop(10), Step::new(Kind::Multipath, 1));
        let table = table.grown(64, 8, 64);
        assert_eq!(table.step(Hop(10)), Step::new(Kind::Multipath, 1));
        table.set_step(Hop(9), Step::new(Kind::Forward, 7));
        assert_eq!(table.step_of_flow(Hop(10), u32::MAX), Step::new(Kind::Forward, 7));
        assert_eq!(table.step_of_flow(Hop(9), 0), Step::new(Kind::Forward, 7));
        let hits = (0..1000_u32).filter(|i| table.member(1, i.wrapping_mul(4_294_967)) == Hop(9));
        assert!((745..=755).contains(&hits.count()));
        assert_eq!(table.member(0, 5), Hop::NONE);
        table.set_group(2, 0, &[Hop(8)]);
        assert_eq!(table.member(0, 5), Hop::NONE);
        table.set_group(2, 0, &[]);
        assert_eq!(table.member(2, 5), Hop::NONE);
    }

    #[test]
    fn of_a_group_members_can_be_left_out() {
        let table = HopTable::new(16, 4, 16);
        table.set_group(1, 3, &[Hop(8), Hop(8), Hop(8), Hop(8), Hop(9), Hop(10), Hop(10), Hop(10)]);
        let hashes = || (0..1000_u32).map(|i| i.wrapping_mul(4_294_967));
        let found = |hash| table.member_that(1, hash, |hop| hop != Hop(8));
        assert!(hashes().all(|hash| {
            let hop = table.member(1, hash);
            found(hash) == Some(hop) || hop == Hop(8)
        }));
        // By weight, those that were left out as well as all.
        for (least, most, first) in [(240, 260, false), (115, 135, true)] {
            let some = hashes().filter(|hash| !first || table.member(1, *hash) == Hop(8));
            let hits = some.filter(|hash| found(*hash) == Some(Hop(9))).count();
            assert!((least..=most).contains(&hits), "{hits}");
        }
        for index in [0, 1, 3, 4, u32::MAX] {
            assert_eq!(table.member_that(index, 5, |_| false), None);
        }
    }
}
