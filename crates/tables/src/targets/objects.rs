//! Next-hop objects: what each stands for, and the groups that it is in.

use super::{NextHops, TargetId, Way};
use crate::Family;
use crate::event::{NextHop, NextHopTo, Path};
use crate::hops::fixed;

impl NextHops {
    /// Takes a next-hop object in; true when that changed anything.
    pub(crate) fn set_object(&mut self, object: &NextHop) -> bool {
        if self.objects.get(&object.id) == Some(&object.to) {
            return false;
        }
        self.unlink_parents(object.id);
        if let NextHopTo::Group(members) = &object.to {
            for (member, _) in members {
                self.parents.entry(*member).or_default().insert(object.id);
            }
        }
        self.objects.insert(object.id, object.to.clone());
        self.object_changed(object.id);
        true
    }

    /// Takes a next-hop object out, and its routes with the next
    /// [`NextHops::take_changed`]; true when it was there.
    pub(crate) fn remove_object(&mut self, id: u32) -> bool {
        self.unlink_parents(id);
        let was_there = self.objects.remove(&id).is_some();
        // A new object of this number has nothing to do with the routes of the old.
        for (key, target) in self.targets_of(id) {
            self.by_object.remove(&key);
            self.lose(target);
        }
        self.object_changed(id);
        was_there
    }

    pub(crate) fn object_ids(&self) -> Vec<u32> {
        self.objects.keys().copied().collect()
    }

    fn unlink_parents(&mut self, id: u32) {
        if let Some(NextHopTo::Group(members)) = self.objects.get(&id) {
            for (member, _) in members {
                if let Some(parents) = self.parents.get_mut(member) {
                    parents.remove(&id);
                    if parents.is_empty() {
                        self.parents.remove(member);
                    }
                }
            }
        }
    }

    /// Resolves the targets that are this object, or a group with it.
    fn object_changed(&mut self, id: u32) {
        let groups = self.parents.get(&id).into_iter().flatten().copied();
        let objects: Vec<u32> = groups.chain([id]).collect();
        for object in objects {
            self.targets_of(object).into_iter().for_each(|(_, target)| self.resolve(target));
        }
    }

    /// What is interned of an object: a target for each MTU and family.
    fn targets_of(&self, id: u32) -> Vec<((u32, u16, Family), TargetId)> {
        let all = (id, 0, Family::V4)..=(id, u16::MAX, Family::V6);
        self.by_object.range(all).map(|(key, target)| (*key, *target)).collect()
    }

    /// The ways of an object: its own, or those of its members. The kernel does
    /// not nest groups; a group inside a group has none.
    pub(super) fn object_ways(
        &self,
        id: u32,
        weight: u16,
        mtu: u16,
    ) -> Box<dyn Iterator<Item = Way> + '_> {
        match self.objects.get(&id) {
            Some(NextHopTo::Path(path)) => {
                Box::new(std::iter::once(Way::Path(Path { weight, mtu, ..*path })))
            }
            Some(NextHopTo::Group(members)) => Box::new(
                members
                    .iter()
                    .filter(|(id, _)| !matches!(self.objects.get(id), Some(NextHopTo::Group(_))))
                    .flat_map(move |(id, weight)| self.object_ways(*id, *weight, mtu)),
            ),
            Some(NextHopTo::Blackhole) => {
                Box::new(std::iter::once(Way::Fixed(fixed::BLACKHOLE, weight)))
            }
            Some(NextHopTo::Kernel) => {
                Box::new(std::iter::once(Way::Fixed(fixed::VIA_KERNEL, weight)))
            }
            None => Box::new(std::iter::empty()),
        }
    }

    /// The paths among the ways of an object.
    pub(super) fn object_paths(&self, id: u32, mtu: u16) -> impl Iterator<Item = Path> + '_ {
        self.object_ways(id, 1, mtu).filter_map(|way| match way {
            Way::Path(path) => Some(path),
            Way::Fixed(..) => None,
        })
    }
}
