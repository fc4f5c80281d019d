//! Chains: the routes of a prefix that has several, best first, as one hop.
//!
//! ```text
//!  FIB ── the chain's hop ──► the step of its first usable target
//!                             10.0.1.2 by p1 │ 10.0.2.2 by p2
//! ```
//!
//! A chain is kept once however many prefixes have the same targets in the same
//! order. Where a link is lost, one store a chain moves all its prefixes to their
//! next best route (as BGP PIC does: draft-ietf-rtgwg-bgp-pic), and another moves
//! them back: the FIB keeps the chain's hop all the while. The forward path sees
//! a hop with a step, as before.
//!
//! A chain takes a number of a hop. Beyond [`MOST`] of them, and beyond a quarter
//! of all hops, prefixes have the hop of their best target alone, and follow a
//! lost link as routes do.

use lookup::Hop;

use super::{FIRST, NextHops, Spec, TargetId};
use crate::Family;
use crate::gateways::GatewayId;
use crate::hops::fixed;

impl NextHops {
    /// The chain of a prefix's targets, best first; `None` where nothing could take
    /// over from the first, or no chain is left. It lives as targets do
    /// ([`NextHops::intern`]).
    pub(crate) fn intern_chain(
        &mut self,
        targets: impl Iterator<Item = TargetId>,
        family: Family,
    ) -> Option<TargetId> {
        let mut members: Vec<TargetId> = Vec::new();
        for target in targets {
            members.push(target);
            if target.0 < FIRST {
                break; // usable for ever: none comes to be used behind it
            }
        }
        if members.len() < 2 {
            return None;
        }
        if let Some(id) = self.by_chain.get(&members[..]) {
            return Some(*id);
        }
        let limit = self.most_chains();
        let full = self.by_chain.len() >= limit;
        let hop = if full { None } else { self.pool.take_hop() };
        let Some(hop) = hop else {
            let reason = || format!("{} of {limit} backups in use", self.by_chain.len());
            self.refused_chains.note(|| "a backup".into(), reason);
            return None;
        };
        let members: Box<[TargetId]> = members.into();
        let id = self.insert_entry(Spec::Chain(members.clone()), family);
        for member in &members {
            self.hold(*member);
            if let Some(entry) = self.entry_mut(*member) {
                entry.followers.insert(id);
            }
        }
        self.by_chain.insert(members, id);
        if let Some(entry) = self.entry_mut(id) {
            (entry.hop, entry.own) = (hop, true);
        }
        self.point_chain(id);
        Some(id)
    }

    /// The hop of a chain where it has the target among its own.
    pub(crate) fn chain_hop(&self, id: TargetId, target: TargetId) -> Option<Hop> {
        let entry = self.entry(id)?;
        let Spec::Chain(members) = &entry.spec else { return None };
        members.contains(&target).then_some(entry.hop)
    }

    /// Chains in use, and the most that may be.
    pub(crate) fn chains(&self) -> (usize, usize) {
        (self.by_chain.len(), self.most_chains())
    }

    fn most_chains(&self) -> usize {
        MOST.min(self.pool.usage()[0].1 / 4)
    }

    /// Lets the chains with this target follow it.
    pub(super) fn follow(&mut self, id: TargetId) {
        let Some(entry) = self.entry(id).filter(|entry| !entry.followers.is_empty()) else {
            return;
        };
        let chains: Vec<_> = entry.followers.iter().copied().collect();
        chains.into_iter().for_each(|chain| self.point_chain(chain));
    }

    /// Points a chain to its first usable target.
    pub(super) fn point_chain(&mut self, id: TargetId) {
        let Some(entry) = self.entry(id) else { return };
        let Spec::Chain(members) = &entry.spec else { return };
        let (hop, old) = (entry.hop, entry.alias_of);
        let used = members.iter().copied().find(|member| self.usable(*member));
        let gateway = used.and_then(|used| self.gateway_of(used));
        // Until its routes are gone, the kernel may know another way: at the back, too.
        let lost = fixed::GLEAN_BACK;
        let hop_of = used.and_then(|used| self.current_hop(used)).unwrap_or(lost);
        let step = self.pool.table().step(hop_of);
        if let Some(entry) = self.entry_mut(id) {
            (entry.usable, entry.alias_of) = (used.is_some(), gateway);
        }
        if let Some(old) = old.filter(|_| old != gateway) {
            self.gateways.unalias(old, hop);
        }
        match gateway {
            Some(_) if old == gateway => {} // it follows the gateway by itself
            Some(gateway) => self.gateways.alias(gateway, hop, &self.pool),
            None => self.pool.set_step(hop, step),
        }
    }

    /// The gateway whose step the target's hop takes.
    fn gateway_of(&self, id: TargetId) -> Option<GatewayId> {
        let entry = self.entry(id)?;
        if entry.own {
            return entry.alias_of;
        }
        let is_its =
            |leaf: &&GatewayId| self.gateways.get(**leaf).map(|g| g.hop) == Some(entry.hop);
        entry.leaves.iter().find(is_its).copied()
    }

    /// Lets go of what a chain held.
    pub(super) fn bury_chain(&mut self, id: TargetId, members: &[TargetId]) {
        self.by_chain.remove(members);
        for member in members {
            if let Some(entry) = self.entry_mut(*member) {
                entry.followers.remove(&id);
            }
            self.release(*member);
        }
    }
}

/// Chains: few enough to leave the smallest of the engines, with 15 bits for a
/// hop, most of its numbers.
const MOST: usize = 4096;
