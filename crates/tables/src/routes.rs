//! The routes of one table: every candidate of every prefix, and the choice.
//!
//! The kernel's order: addresses of this machine, then the lowest metric, then
//! the order in which the kernel lists them. The first that is usable counts.

use std::collections::BTreeMap;

use lookup::{Addr, Prefix};

use crate::event::{How, Source};
use crate::targets::TargetId;

/// One route of a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) target: TargetId,
    pub(crate) metric: u32,
    pub(crate) protocol: u8,
    /// The listing that named it last.
    pub(crate) generation: u8,
    pub(crate) source: Source,
    /// From the kernel's local table.
    pub(crate) local: bool,
}

/// The candidates of a prefix: nearly always one.
#[derive(Debug)]
pub(crate) enum Slot {
    One(Candidate),
    // A plain `Vec` would double what each of a million single routes takes.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<Candidate>>),
}

/// The candidates of all prefixes.
pub(crate) struct Routes<A> {
    map: BTreeMap<Prefix<A>, Slot>,
    by_len: [u32; 129],
    count: usize,
}

/// What became of a route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Put {
    /// It was there, the same.
    Same,
    /// It is one more.
    Added,
    /// It took the place of this one.
    Replaced(Candidate),
    /// It would be one more, and there is no room.
    Refused,
}

impl<A: Addr> Routes<A> {
    pub(crate) fn new() -> Self {
        Routes { map: BTreeMap::new(), by_len: [0; 129], count: 0 }
    }

    /// Puts a route among those of its prefix. `replaces` says which of the same
    /// rank the new one makes obsolete, beside what `how` says. Without `room` a
    /// route may change, but none is added.
    pub(crate) fn put(
        &mut self,
        prefix: Prefix<A>,
        new: Candidate,
        how: How,
        room: bool,
        replaces: impl Fn(&Candidate) -> bool,
    ) -> Put {
        let slot = match self.map.entry(prefix) {
            std::collections::btree_map::Entry::Vacant(_) if !room => return Put::Refused,
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Slot::One(new));
                self.by_len[usize::from(prefix.len())] += 1;
                self.count += 1;
                return Put::Added;
            }
            std::collections::btree_map::Entry::Occupied(slot) => slot.into_mut(),
        };
        let put = put(slot, new, how, room, replaces);
        self.count += usize::from(put == Put::Added);
        put
    }

    /// Takes out the first route that `is` accepts.
    pub(crate) fn take(
        &mut self,
        prefix: &Prefix<A>,
        is: impl Fn(&Candidate) -> bool,
    ) -> Option<Candidate> {
        let slot = self.map.get_mut(prefix)?;
        let at = slot.list().iter().position(is)?;
        Some(self.take_at(prefix, at))
    }

    fn take_at(&mut self, prefix: &Prefix<A>, at: usize) -> Candidate {
        let slot = self.map.get_mut(prefix).expect("the caller found it there");
        self.count -= 1;
        match slot {
            Slot::One(candidate) => {
                let candidate = *candidate;
                self.map.remove(prefix);
                self.by_len[usize::from(prefix.len())] -= 1;
                candidate
            }
            Slot::Many(list) => {
                let candidate = list.remove(at);
                if let [last] = list[..] {
                    *slot = Slot::One(last);
                }
                candidate
            }
        }
    }

    /// Calls `keep` for every route, takes out those it refuses and calls `lost`
    /// for them.
    pub(crate) fn retain(
        &mut self,
        keep: impl Fn(&Candidate) -> bool,
        mut lost: impl FnMut(Prefix<A>, Candidate),
    ) {
        let mut out = Vec::new();
        for (prefix, slot) in &self.map {
            let list = slot.list().iter();
            out.extend(list.filter(|candidate| !keep(candidate)).map(|c| (*prefix, *c)));
        }
        for (prefix, candidate) in out {
            if self.take(&prefix, |other| *other == candidate).is_some() {
                lost(prefix, candidate);
            }
        }
    }

    /// The routes of a prefix, best first.
    pub(crate) fn get(&self, prefix: &Prefix<A>) -> &[Candidate] {
        self.map.get(prefix).map_or(&[], Slot::list)
    }

    /// The longest prefix that covers `addr` and has a route that `is` accepts.
    pub(crate) fn longest(
        &self,
        addr: A,
        is: impl Fn(&Candidate) -> bool,
    ) -> Option<(Prefix<A>, Candidate)> {
        let lens = (0..=A::WIDTH).rev().filter(|len| self.by_len[usize::from(*len)] > 0);
        lens.map(|len| Prefix::covering(addr, len)).find_map(|prefix| {
            let best = self.get(&prefix).iter().find(|candidate| is(candidate))?;
            Some((prefix, *best))
        })
    }

    /// All prefixes with their routes, in order, from `from` on.
    pub(crate) fn from(&self, from: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, &[Candidate])> {
        self.map.range(from..).map(|(prefix, slot)| (*prefix, slot.list()))
    }

    /// Routes, all candidates counted.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Slot {
    fn list(&self) -> &[Candidate] {
        match self {
            Slot::One(candidate) => std::slice::from_ref(candidate),
            Slot::Many(list) => list,
        }
    }

    fn list_mut(&mut self) -> &mut [Candidate] {
        match self {
            Slot::One(candidate) => std::slice::from_mut(candidate),
            Slot::Many(list) => list,
        }
    }
}

/// Local ones, then by metric.
fn rank(candidate: &Candidate) -> (bool, u32) {
    (!candidate.local, candidate.metric)
}

fn put(
    slot: &mut Slot,
    new: Candidate,
    how: How,
    room: bool,
    replaces: impl Fn(&Candidate) -> bool,
) -> Put {
    let list = slot.list_mut();
    // Metric and source are a route's name; the rest is what it says.
    let peer = |old: &Candidate| rank(old) == rank(&new) && old.source == new.source;
    if let Some(old) = list.iter_mut().find(|old| peer(old) && old.target == new.target) {
        let same = old.protocol == new.protocol;
        let old = std::mem::replace(old, new);
        return if same { Put::Same } else { Put::Replaced(old) };
    }
    let place = |old: &&mut Candidate| peer(old) && (how == How::Replace || replaces(old));
    if let Some(old) = list.iter_mut().find(place) {
        return Put::Replaced(std::mem::replace(old, new));
    }
    if !room {
        return Put::Refused;
    }
    let before = |old: &Candidate| match how {
        How::Create | How::Replace => rank(old) < rank(&new),
        How::Append | How::Listed => rank(old) <= rank(&new),
    };
    let at = list.iter().take_while(|old| before(old)).count();
    match slot {
        Slot::One(old) => {
            let list = if at == 0 { vec![new, *old] } else { vec![*old, new] };
            *slot = Slot::Many(Box::new(list));
        }
        Slot::Many(list) => list.insert(at, new),
    }
    Put::Added
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(target: u32, metric: u32) -> Candidate {
        Candidate {
            target: TargetId(target),
            metric,
            protocol: 4,
            generation: 0,
            source: Source::Kernel,
            local: false,
        }
    }

    fn order(routes: &Routes<u32>, prefix: &Prefix<u32>) -> Vec<u32> {
        routes.get(prefix).iter().map(|candidate| candidate.target.0).collect()
    }

    #[test]
    fn the_lowest_metric_stands_first_and_equals_as_the_kernel_lists_them() {
        let mut routes = Routes::new();
        let p = Prefix::covering(0x0a00_0000_u32, 8);
        let no = |_: &Candidate| false;
        assert_eq!(routes.put(p, candidate(20, 5), How::Create, true, no), Put::Added);
        assert_eq!(routes.put(p, candidate(21, 5), How::Create, true, no), Put::Added);
        assert_eq!(routes.put(p, candidate(22, 5), How::Append, true, no), Put::Added);
        assert_eq!(routes.put(p, candidate(23, 1), How::Append, true, no), Put::Added);
        assert_eq!(order(&routes, &p), [23, 21, 20, 22]);
        assert_eq!(routes.put(p, candidate(22, 5), How::Listed, true, no), Put::Same);
        let put = routes.put(p, candidate(24, 5), How::Replace, true, no);
        assert_eq!(put, Put::Replaced(candidate(21, 5)));
        assert_eq!(order(&routes, &p), [23, 24, 20, 22]);
        assert!(routes.take(&p, |c| c.metric == 1).is_some());
        let local = Candidate { local: true, ..candidate(1, 9) };
        routes.put(p, local, How::Create, true, no);
        assert_eq!(order(&routes, &p), [1, 24, 20, 22]);
        assert_eq!(routes.put(p, candidate(30, 7), How::Create, false, no), Put::Refused);
        assert_eq!(routes.len(), 4);
    }

    #[test]
    fn the_longest_prefix_with_an_acceptable_route() {
        let mut routes = Routes::new();
        for (len, target) in [(0, 20), (8, 21), (24, 22)] {
            let prefix = Prefix::covering(0x0a01_0200_u32, len);
            routes.put(prefix, candidate(target, 0), How::Create, true, |_| false);
        }
        let found = |not: u32| {
            let found = routes.longest(0x0a01_0203, |c| c.target.0 != not);
            found.map(|(prefix, c)| (prefix.len(), c.target.0))
        };
        assert_eq!(found(0), Some((24, 22)));
        assert_eq!(found(22), Some((8, 21)));
        let mut lost = Vec::new();
        routes.retain(|c| c.target.0 == 20, |prefix, _| lost.push(prefix.len()));
        assert_eq!(lost, [0; 0].iter().chain(&[8, 24]).copied().collect::<Vec<u8>>());
        assert_eq!(routes.len(), 1);
    }
}
