//! Routes that a table by destination cannot hold: left out, counted and named.

use crate::control::Control;
use crate::event::{PartialRoute, Source};
use crate::{Family, Net};

impl Control {
    /// A partial route is there. Each counts once, however often it is reported.
    pub(crate) fn set_partial(&mut self, route: &PartialRoute) {
        let vrf = self.vrf_by_table(route.table).and_then(|id| self.vrfs.get(usize::from(id.0)));
        if vrf.is_none_or(|vrf| vrf.source != Source::Kernel) {
            return self.counters.routes_ignored += 1;
        }
        let generation = self.generations[route.net.family() as usize][Source::Kernel as usize];
        let room = self.partial.len() < MOST || self.partial.contains_key(route);
        let known = room.then(|| self.partial.insert(*route, generation)).flatten();
        if known.is_none() {
            self.refused_partial.note(|| route.net.to_string(), || reason(route));
        }
    }

    /// A partial route went.
    pub(crate) fn remove_partial(&mut self, route: &PartialRoute) {
        self.partial.remove(route);
    }

    /// Forgets those of a family that its listing did not name.
    pub(super) fn sweep_partial(&mut self, family: Family) {
        let now = self.generations[family as usize][Source::Kernel as usize];
        self.partial.retain(|route, told| route.net.family() != family || *told == now);
    }
}

fn reason(route: &PartialRoute) -> String {
    let source = |net: &Net| format!("from {net} only");
    let of = route.from.as_ref().map_or_else(|| format!("tos {:#x} only", route.tos), source);
    format!("{of}; the data plane looks at destinations alone")
}

/// Remembered, so that each is counted once.
const MOST: usize = 65_536;
