//! All protections, by index, and what of them nodes are to read.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use lookup::Hop;
use lookup::sync::{Mark, Published};

use crate::grantors::Named;
use crate::protections::{Action, GrantorSet, Protection, Protections, SetId};
use crate::slab::Slab;
use crate::{Net, VrfId};

/// Invariants:
/// - I1: an index is in use, or free, or waits with its hop until no reader can meet it.
/// - I2: an index in use has been published before a front view names it.
#[derive(Default)]
pub(crate) struct Guards {
    list: Vec<Option<Guard>>,
    /// By index, free or not.
    generations: Vec<u16>,
    /// The one that has been free longest comes first.
    free: VecDeque<u32>,
    protections: Protections,
    changed: bool,
    /// No front view names them from the next commit on.
    leaving: Vec<u32>,
    dying: VecDeque<(u64, u32, Hop)>,
    limbo: VecDeque<(Mark, u32, Hop)>,
    /// Numbers of Grantors.
    pub(crate) grantor_ids: Slab<()>,
    /// How many protections name a Grantor.
    named: BTreeMap<(VrfId, IpAddr), u32>,
    /// One is named that was not, or no more.
    named_changed: bool,
    used: usize,
    /// Places that were looked at or copied so far.
    pub(crate) steps: u64,
}

/// A protection.
pub(crate) struct Guard {
    pub(crate) vrf: VrfId,
    pub(crate) net: Net,
    pub(crate) id: SetId,
    pub(crate) action: Action,
    pub(crate) options: u32,
    /// By address.
    pub(crate) grantors: Box<[Named]>,
    pub(crate) hop: Hop,
    /// Held.
    pub(crate) set: Option<u32>,
}

impl Guards {
    /// The number of the next one; [`Guards::insert`] takes it.
    pub(crate) fn next(&self) -> SetId {
        let index = self.free.front().copied().unwrap_or(self.list.len() as u32);
        let generation = self.generations.get(index as usize).copied().unwrap_or(0);
        SetId { index, generation }
    }

    /// Puts a new one under [`Guards::next`].
    pub(crate) fn insert(&mut self, guard: Guard, set: Option<Arc<GrantorSet>>) {
        let index = guard.id.index as usize;
        if self.free.pop_front().is_none() {
            self.list.push(None);
            self.generations.push(0);
        }
        self.show(&guard, set);
        self.name(guard.vrf, &guard.grantors, true);
        self.list[index] = Some(guard); // cannot panic: `next` gave the index
        self.used += 1;
    }

    /// Replaces the Grantors that are asked.
    pub(crate) fn swap(&mut self, index: u32, list: &[Named], set: (u32, Arc<GrantorSet>)) {
        let Some(mut guard) = self.list.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.name(guard.vrf, list, true);
        self.name(guard.vrf, &guard.grantors, false);
        (guard.grantors, guard.set) = (list.into(), Some(set.0));
        self.show(&guard, Some(set.1));
        self.list[index as usize] = Some(guard); // cannot panic: it was there
    }

    /// Other options, and another generation.
    pub(crate) fn set_options(&mut self, index: u32, options: u32) -> Option<SetId> {
        let mut guard = self.list.get_mut(index as usize).and_then(Option::take)?;
        let set = self.protections.at(index).and_then(|shown| shown.set.clone());
        let generation = &mut self.generations[index as usize]; // cannot panic: as `list`
        *generation = generation.wrapping_add(1);
        (guard.id.generation, guard.options) = (*generation, options);
        self.show(&guard, set);
        let id = guard.id;
        self.list[index as usize] = Some(guard); // cannot panic: it was there
        Some(id)
    }

    /// Takes one out; readers may meet it until the commit `seq` is theirs.
    pub(crate) fn remove(&mut self, index: u32, seq: u64) -> Option<Guard> {
        let guard = self.list.get_mut(index as usize)?.take()?;
        self.used -= 1;
        self.name(guard.vrf, &guard.grantors, false);
        let generation = &mut self.generations[index as usize]; // cannot panic: as `list`
        *generation = generation.wrapping_add(1);
        self.leaving.push(index);
        self.dying.push_back((seq, index, guard.hop));
        Some(guard)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Guard> {
        self.list.get(index as usize)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Publishes what is new or changed: before front views name it.
    pub(crate) fn publish(&mut self, to: &Published<Protections>) {
        if std::mem::take(&mut self.changed) {
            self.steps += self.protections.len() as u64;
            if std::mem::take(&mut self.named_changed) {
                self.steps += self.named.len() as u64;
                self.protections.set_grantors(self.named.keys().copied().collect());
            }
            to.publish(self.protections.clone());
        }
    }

    /// Publishes what has gone: no front view names it.
    pub(crate) fn publish_gone(&mut self, to: &Published<Protections>) {
        for index in std::mem::take(&mut self.leaving) {
            self.steps += self.protections.set(index, None) as u64;
            self.changed = true;
        }
        self.publish(to);
    }

    /// Gives the hops back, and the indices, that no reader can meet any more.
    pub(crate) fn poll(
        &mut self,
        synced: u64,
        mark: impl Fn() -> Mark,
        passed: impl Fn(Mark) -> bool,
        mut give: impl FnMut(Hop),
    ) {
        while let Some(&(_, index, hop)) = self.dying.front().filter(|(seq, ..)| *seq <= synced) {
            self.dying.pop_front();
            self.limbo.push_back((mark(), index, hop));
        }
        while let Some(&(_, index, hop)) = self.limbo.front().filter(|(mark, ..)| passed(*mark)) {
            self.limbo.pop_front();
            give(hop);
            self.free.push_back(index);
        }
    }

    /// True while some wait for readers.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.dying.is_empty() || !self.limbo.is_empty()
    }

    /// One more protection names these, or one less.
    fn name(&mut self, vrf: VrfId, grantors: &[Named], more: bool) {
        for Named { ip, .. } in grantors {
            let count = self.named.entry((vrf, *ip)).or_default();
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
            if *count == u32::from(more) {
                self.named_changed = true;
            }
            if *count == 0 {
                self.named.remove(&(vrf, *ip));
            }
        }
    }

    fn show(&mut self, guard: &Guard, set: Option<Arc<GrantorSet>>) {
        let Guard { id, action, options, .. } = *guard;
        let shown = Protection { id, action, options, set };
        self.steps += self.protections.set(id.index, Some(shown)) as u64;
        self.changed = true;
    }
}
