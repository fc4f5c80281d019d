//! What tables know of targets, and what they are to look at again.

use std::collections::BTreeSet;

use lookup::Hop;

use super::{Entry, NextHops, TargetId};
use crate::event::LinkId;

/// A target's state as tables were given it.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) struct Placed {
    pub(super) usable: bool,
    pub(super) hop: Hop,
    pub(super) direct: Option<(LinkId, u16)>,
}

/// What Grantors may have to follow, beside routes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Which links can be used, and what targets stand for.
    pub(crate) ways: bool,
    /// What hops do.
    pub(crate) steps: bool,
}

impl NextHops {
    /// [`NextHops::direct`], whatever tables know.
    pub(crate) fn current_direct(&self, id: TargetId) -> Option<(LinkId, u16)> {
        self.entry(id)?.direct
    }

    /// Interfaces are of other sides.
    pub(crate) fn sides_changed(&mut self) {
        self.news.ways = true;
    }

    /// What happened since the last call.
    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// True while [`NextHops::take_changed`] has something to tell.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// True while tables do not know how all links are.
    pub(crate) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    /// Lets tables know now.
    pub(crate) fn hurry(&mut self) {
        let later = std::mem::take(&mut self.later);
        self.changed.extend(later);
    }

    /// Marks, by number, the targets whose routes must be looked at again at once;
    /// `None` where there are none.
    pub(crate) fn take_changed(&mut self) -> Option<Vec<bool>> {
        let changed = std::mem::take(&mut self.changed);
        self.place(&changed)
    }

    /// Marks likewise those whose routes are to follow their links.
    pub(crate) fn take_later(&mut self) -> Option<Vec<bool>> {
        let later = std::mem::take(&mut self.later);
        self.place(&later)
    }

    fn place(&mut self, ids: &BTreeSet<TargetId>) -> Option<Vec<bool>> {
        for &id in ids {
            if let Some(entry) = self.entry_mut(id) {
                entry.placed = entry.now();
            }
        }
        let held = |id: &&TargetId| self.entry(**id).is_some_and(|entry| entry.refs > 0);
        let most = ids.iter().filter(held).max()?.0;
        let mut marks = vec![false; most as usize + 1];
        ids.iter().filter(held).for_each(|id| marks[id.0 as usize] = true);
        Some(marks)
    }

    /// Tables are to look at what differs from what they know.
    pub(super) fn note_change(&mut self, id: TargetId) {
        let Some(entry) = self.entry(id) else { return };
        let (now, placed) = (entry.now(), entry.placed);
        let at_once = entry.gone || (now.hop, now.direct) != (placed.hop, placed.direct);
        self.changed.remove(&id);
        self.later.remove(&id);
        if at_once {
            self.changed.insert(id);
        } else if now != placed {
            self.later.insert(id);
        }
    }
}

impl Entry {
    pub(super) fn now(&self) -> Placed {
        Placed { usable: self.usable, hop: self.hop, direct: self.direct }
    }
}
