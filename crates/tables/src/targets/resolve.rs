//! From what a target says to what its hop does.

use lookup::Hop;

use super::{FIRST, NextHops, Spec, TargetId, Way};
use crate::event::Path;
use crate::gateways::GatewayId;
use crate::hops::fixed;
use crate::links::Key;
use crate::pool::Group;
use crate::{Family, Kind, Step};

/// A hop that is no group.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Leaf {
    Gateway(GatewayId),
    Fixed(Hop),
}

/// What a hop of its own was pointed to.
#[derive(Default)]
struct Pointed {
    group: Option<Group>,
    alias_of: Option<GatewayId>,
    /// No group was free.
    starved: bool,
}

impl NextHops {
    /// Brings a target's hop in line with its paths and their links.
    pub(super) fn resolve(&mut self, id: TargetId) {
        let Some(entry) = self.entry(id) else { return };
        if entry.gone {
            return;
        }
        let (family, routed) = (entry.family, entry.refs > 0);
        let spec = entry.spec.clone();
        // Else some route has changed, or will.
        self.news.ways |= routed;
        self.news.steps = true;
        let (mut leaves, mut members, mut short) = (Vec::new(), Vec::new(), false);
        let ways: Vec<Way> = match &spec {
            Spec::Paths(paths) => paths.iter().map(|path| Way::Path(*path)).collect(),
            Spec::Object(object, mtu) => self.object_ways(*object, 1, *mtu).collect(),
            Spec::Chain(_) => return self.point_chain(id),
        };
        for way in &ways {
            match *way {
                Way::Fixed(hop, weight) => members.push((Leaf::Fixed(hop), weight)),
                Way::Path(path) => {
                    let leaf = self.leaf(&path, family, &mut leaves);
                    short |= leaf.is_none();
                    if self.links.usable(path.link) {
                        let leaf = leaf.unwrap_or(Leaf::Fixed(fixed::VIA_KERNEL));
                        members.push((leaf, path.weight));
                    }
                }
            }
        }
        let old_group = match &spec {
            // A single path is its leaf, for as long as it lives.
            Spec::Paths(paths) if paths.len() == 1 => {
                self.be_leaf(id, members.first().map(|(leaf, _)| *leaf), short);
                None
            }
            _ => self.be_own(id, &members, short),
        };
        self.swap_leaves(id, leaves);
        let direct = match ways[..] {
            [Way::Path(Path { link, via: None, mtu, .. })] => {
                self.links.ours(link).map(|_| (link, mtu))
            }
            _ => None,
        };
        let Some(entry) = self.entry_mut(id) else { return };
        entry.direct = direct;
        self.note_change(id);
        self.follow(id);
        // No step names the old group from here on.
        if let Some(old) = old_group {
            self.pool.retire_group(old);
        }
    }

    /// The leaf of a path; a gateway is held in `leaves`. `None` for want of a hop.
    fn leaf(&mut self, path: &Path, family: Family, leaves: &mut Vec<GatewayId>) -> Option<Leaf> {
        if self.links.ours(path.link).is_none() {
            return Some(Leaf::Fixed(fixed::VIA_KERNEL));
        }
        let Some(key) = Key::of(path, family) else {
            return Some(Leaf::Fixed(self.links.glean(path.link)));
        };
        let id = self.gateways.hold(key, &mut self.pool, &self.links);
        if id.is_none() {
            let limit = self.pool.usage()[0].1;
            self.pool.refused_hops.note(|| key.ip.to_string(), || format!("{limit} hops in use"));
        }
        leaves.push(id?);
        Some(Leaf::Gateway(id?))
    }

    /// Lets the leaf be the target's hop; an unusable one keeps the old.
    fn be_leaf(&mut self, id: TargetId, leaf: Option<Leaf>, short: bool) {
        let hop = leaf.and_then(|leaf| self.leaf_hop(leaf));
        self.degraded |= short;
        let Some(entry) = self.entry_mut(id) else { return };
        entry.usable = hop.is_some();
        entry.hop = hop.unwrap_or(entry.hop);
        entry.degraded = short;
    }

    fn leaf_hop(&self, leaf: Leaf) -> Option<Hop> {
        match leaf {
            Leaf::Fixed(hop) => Some(hop),
            Leaf::Gateway(id) => self.gateways.get(id).map(|gateway| gateway.hop),
        }
    }

    /// Points the target's own hop to its members; returns the group that it had, of
    /// which chains know still.
    fn be_own(&mut self, id: TargetId, members: &[(Leaf, u16)], short: bool) -> Option<Group> {
        let hop = self.own_hop(id, !members.is_empty())?;
        let Pointed { group, alias_of, starved } = self.point(hop, members);
        let short = short || starved;
        self.degraded |= short;
        let entry = self.entry_mut(id)?;
        (entry.hop, entry.own, entry.usable) = (hop, true, !members.is_empty());
        entry.degraded = short;
        let old_group = std::mem::replace(&mut entry.group, group);
        let old_alias = std::mem::replace(&mut entry.alias_of, alias_of);
        if let Some(old) = old_alias {
            self.gateways.unalias(old, hop);
        }
        if let Some(new) = alias_of {
            self.gateways.alias(new, hop, &self.pool);
        }
        old_group
    }

    /// The target's own hop; without one the kernel forwards.
    fn own_hop(&mut self, id: TargetId, usable: bool) -> Option<Hop> {
        if let Some(entry) = self.entry(id).filter(|entry| entry.own) {
            return Some(entry.hop);
        }
        let hop = self.pool.take_hop();
        if hop.is_none() {
            let limit = self.pool.usage()[0].1;
            self.pool.refused_hops.note(|| "a group".into(), || format!("{limit} hops in use"));
            self.degraded = true;
            let entry = self.entry_mut(id)?;
            (entry.hop, entry.usable, entry.degraded) = (fixed::VIA_KERNEL, usable, true);
        }
        hop
    }

    /// Sets the step of a hop of several ways. That of a single gateway is set,
    /// and kept in line, by making the hop its alias.
    fn point(&mut self, hop: Hop, members: &[(Leaf, u16)]) -> Pointed {
        let mut pointed = Pointed::default();
        match members {
            [] => self.pool.set_step(hop, Step::new(Kind::Unreachable, 0)),
            [(first, _), rest @ ..] if rest.iter().all(|(leaf, _)| leaf == first) => match *first {
                Leaf::Fixed(leaf) => self.pool.set_step(hop, self.pool.table().step(leaf)),
                Leaf::Gateway(gateway) => pointed.alias_of = Some(gateway),
            },
            _ => {
                let hops = members.iter().filter_map(|(leaf, w)| Some((self.leaf_hop(*leaf)?, *w)));
                let slots = spread(&hops.collect::<Vec<_>>());
                pointed.group = self.pool.take_group(&slots);
                pointed.starved = pointed.group.is_none();
                if pointed.starved {
                    let limit = self.pool.usage()[1].1;
                    let reason = || format!("{limit} groups, or their members, in use");
                    self.pool.refused_groups.note(|| "a group".into(), reason);
                }
                let kernel = Step::new(Kind::ViaKernel, 0);
                self.pool.set_step(hop, pointed.group.map_or(kernel, |group| group.step()));
            }
        }
        pointed
    }

    fn swap_leaves(&mut self, id: TargetId, leaves: Vec<GatewayId>) {
        let Some(entry) = self.entry_mut(id) else { return };
        let old = std::mem::replace(&mut entry.leaves, leaves);
        old.into_iter().for_each(|gateway| self.release_gateway(gateway));
    }

    /// Tries again where ids were wanting, as soon as some have come back.
    pub(super) fn feed_degraded(&mut self) {
        let [(hops, most_hops), (groups, most_groups), _] = self.pool.usage();
        let room = most_hops.saturating_sub(hops + fixed::FIRST_FREE as usize);
        if !self.degraded || room == 0 || groups >= most_groups {
            return;
        }
        self.degraded = false;
        let ids = self.targets.iter().filter(|(_, e)| e.degraded && !e.gone).map(|(i, _)| i);
        let ids: Vec<_> = ids.take(room).collect();
        ids.into_iter().for_each(|at| self.resolve(TargetId(at + FIRST)));
        self.degraded = self.targets.iter().any(|(_, entry)| entry.degraded && !entry.gone);
    }
}

/// One slot for each unit of weight; weights are reduced until they fit.
pub(crate) fn spread<T: Copy>(members: &[(T, u16)]) -> Vec<T> {
    let gcd = members.iter().fold(0, |g, (_, weight)| gcd(g, u64::from((*weight).max(1))));
    let weight = |w: u16| u64::from(w.max(1)) / gcd;
    let sum: u64 = members.iter().map(|(_, w)| weight(*w)).sum();
    let most = (MAX_SLOTS as u64).max(4 * members.len() as u64).min(u64::from(MAX_MEMBERS));
    let slots = |w: u16| {
        if sum <= most { weight(w) } else { (weight(w) * most / sum).max(1) }
    };
    let all = members.iter().flat_map(|(one, w)| std::iter::repeat_n(*one, slots(*w) as usize));
    all.take(MAX_MEMBERS as usize).collect()
}

/// Slots of a group before its weights are rounded: a share is then right within
/// a half of a percent.
const MAX_SLOTS: usize = 256;
const MAX_MEMBERS: u32 = 1 << 16;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_slots() {
        assert_eq!(spread(&[(Hop(8), 1), (Hop(9), 1)]), [Hop(8), Hop(9)]);
        assert_eq!(spread(&[(Hop(8), 20), (Hop(9), 10)]), [Hop(8), Hop(8), Hop(9)]);
        let large = spread(&[(Hop(8), 65535), (Hop(9), 1)]);
        assert_eq!((large.len(), large.iter().filter(|hop| **hop == Hop(9)).count()), (256, 1));
        assert!(spread(&vec![(Hop(8), 3); 100_000]).len() <= MAX_MEMBERS as usize);
    }
}
