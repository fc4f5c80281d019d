//! The routes of one VRF and family, and what of them the forwarding table holds.
//!
//! A prefix's hop is, first come first served: a built-in prefix that routes do
//! not change; an address of this machine; a resolved host on a connected
//! network; the best usable route, where it has several by a chain of them; a
//! built-in prefix that they may change.

use std::collections::{BTreeMap, HashMap};

use lookup::lpm::Engines;
use lookup::rib::Change;
use lookup::{Hop, Prefix};

use crate::Family;
use crate::builtin::{self, Override, Parsed};
use crate::event::LinkId;
use crate::fib::Fib;
use crate::front::Front;
use crate::gateways::GatewayId;
use crate::grantors::Grantors;
use crate::hops::fixed;
use crate::limits::Refusals;
use crate::listing::Listing;
use crate::routes::{Candidate, Routes};
use crate::targets::{FOR_US, MULTICAST, News, NextHops, TargetId};

pub(crate) struct Table<A: Engines> {
    pub(crate) routes: Routes<A>,
    pub(crate) max_routes: usize,
    pub(crate) refusals: Refusals,
    pub(crate) fib: Fib<A>,
    pub(crate) front: Front<A>,
    pub(crate) grantors: Grantors<A>,
    pub(crate) listing: Listing,
    builtin: Vec<Parsed<A>>,
    /// Addresses of this machine, with the number of links that have them.
    own: BTreeMap<A, u32>,
    /// Resolved neighbours, by address and link.
    hosts: BTreeMap<(A, LinkId), Host>,
    /// Prefixes whose hop must be found anew at the next commit.
    dirty: Vec<Prefix<A>>,
    /// Held, for prefixes with several routes.
    chains: HashMap<Prefix<A>, TargetId>,
    /// How far the routes have followed their links ([`Table::follow`]).
    follows: Option<Prefix<A>>,
}

/// A resolved neighbour.
struct Host {
    gateway: GatewayId,
    /// The length of the longest route that covers it; 0 also where there is none.
    cover: u8,
    /// That route leads directly onto the neighbour's link.
    installed: bool,
}

impl<A: Engines> Table<A> {
    pub(crate) fn new(fib: Fib<A>, max_routes: usize) -> Self {
        let builtin = builtin::of::<A>();
        Table {
            routes: Routes::new(),
            max_routes,
            refusals: Refusals::default(),
            fib,
            front: Front::new(),
            grantors: Grantors::new(),
            listing: Listing::Done,
            dirty: builtin.iter().map(|(prefix, ..)| *prefix).collect(),
            builtin,
            own: BTreeMap::new(),
            hosts: BTreeMap::new(),
            chains: HashMap::new(),
            follows: None,
        }
    }

    /// The prefix's hop must be found anew.
    #[inline]
    pub(crate) fn touch(&mut self, prefix: Prefix<A>) {
        self.dirty.push(prefix);
    }

    /// A link has this address.
    pub(crate) fn add_own(&mut self, addr: A) {
        *self.own.entry(addr).or_insert(0) += 1;
        self.touch(Prefix::covering(addr, A::WIDTH));
    }

    /// A link lost this address.
    pub(crate) fn remove_own(&mut self, addr: A) {
        let Some(count) = self.own.get_mut(&addr) else { return };
        *count -= 1;
        if *count == 0 {
            self.own.remove(&addr);
        }
        self.touch(Prefix::covering(addr, A::WIDTH));
    }

    /// A neighbour is resolved; `gateway` is held for it. Returns the gateway
    /// that was held for it before.
    pub(crate) fn add_host(
        &mut self,
        addr: A,
        link: LinkId,
        gateway: GatewayId,
    ) -> Option<GatewayId> {
        let host = Host { gateway, cover: 0, installed: false };
        let old = self.hosts.insert((addr, link), host);
        self.touch(Prefix::covering(addr, A::WIDTH));
        old.map(|host| host.gateway)
    }

    /// A neighbour is resolved no more. Returns the gateway held for it.
    pub(crate) fn remove_host(&mut self, addr: A, link: LinkId) -> Option<GatewayId> {
        let host = self.hosts.remove(&(addr, link))?;
        self.touch(Prefix::covering(addr, A::WIDTH));
        Some(host.gateway)
    }

    /// Touches what the marked targets carry, and takes out the routes of those
    /// that are gone, calling `lost` for each.
    pub(crate) fn retarget(
        &mut self,
        marks: &[bool],
        next_hops: &NextHops,
        mut lost: impl FnMut(&Candidate),
    ) {
        let marked = |c: &Candidate| marks.get(c.target.0 as usize).copied().unwrap_or(false);
        for (prefix, list) in self.routes.from(Prefix::all()) {
            if list.iter().any(marked) {
                self.dirty.push(prefix);
            }
        }
        let keep = |c: &Candidate| !marked(c) || !next_hops.is_gone(c.target);
        self.routes.retain(keep, |_, candidate| lost(&candidate));
    }

    /// Begins to look at all routes.
    pub(crate) fn begin_to_follow(&mut self) {
        self.follows = Some(Prefix::all());
    }

    /// Goes on with it: touches what the marked targets carry among the next `most`
    /// prefixes. True when some are left.
    pub(crate) fn follow(&mut self, marks: &[bool], most: &mut usize) -> bool {
        let Some(from) = self.follows.take() else { return false };
        let marked = |c: &Candidate| marks.get(c.target.0 as usize).copied().unwrap_or(false);
        for (prefix, list) in self.routes.from(from) {
            if *most == 0 {
                self.follows = Some(prefix);
                return true;
            }
            *most -= 1;
            if list.iter().any(marked) {
                self.dirty.push(prefix);
            }
        }
        false
    }

    /// Brings the forwarding table in line; returns the number of its changes.
    pub(crate) fn commit(&mut self, next_hops: &mut NextHops, seq: u64) -> usize {
        if self.dirty.is_empty() {
            self.fib.idle(seq);
            return 0;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        if self.place_hosts(&mut dirty, next_hops) {
            dirty.sort_unstable();
            dirty.dedup();
        }
        let mut changes = Vec::with_capacity(dirty.len());
        for &prefix in &dirty {
            self.chain(&prefix, next_hops);
            let hop = self.effective(&prefix, next_hops);
            if hop != self.fib.rib().get(&prefix) {
                changes.push(Change { prefix, hop });
            }
        }
        self.fib.apply(&changes, seq);
        self.grantors.touch(&dirty);
        dirty.clear();
        self.dirty = dirty; // its room serves the next commit
        changes.len()
    }

    /// Brings the front view in line, and the ways to Grantors; after [`Table::commit`].
    pub(crate) fn commit_front(&mut self, next_hops: &mut NextHops, news: News, seq: u64) -> usize {
        self.grantors.commit(&self.routes, self.fib.rib(), next_hops, news);
        self.front.commit(seq)
    }

    /// The commit from which on no reader meets older hops in either view.
    pub(crate) fn synced(&self) -> u64 {
        self.fib.synced().min(self.front.synced())
    }

    /// True while a table of either view is built, or is to be.
    pub(crate) fn is_busy(&self) -> bool {
        self.fib.is_busy() || self.front.is_busy()
    }

    /// A prefix that routes do not change, and that has to do with this one.
    pub(crate) fn reserved(&self, prefix: &Prefix<A>) -> Option<Prefix<A>> {
        let fixed = self.builtin.iter().filter(|(.., by)| *by != Override::Routes);
        let mut all = fixed.map(|(reserved, ..)| *reserved);
        all.find(|reserved| reserved.covers(prefix) || prefix.covers(reserved))
    }

    /// Lets the prefix have the chain of its routes, or none.
    fn chain(&mut self, prefix: &Prefix<A>, next_hops: &mut NextHops) {
        let list = self.routes.get(prefix);
        if list.len() < 2 && self.chains.is_empty() {
            return;
        }
        let targets = || list.iter().map(|candidate| candidate.target);
        let several = list.len() > 1;
        let new = several.then(|| next_hops.intern_chain(targets(), Family::of_addr::<A>()));
        let new = new.flatten();
        let old = match new {
            Some(new) => self.chains.insert(*prefix, new),
            None => self.chains.remove(prefix),
        };
        if old != new {
            new.into_iter().for_each(|new| next_hops.hold(new));
            old.into_iter().for_each(|old| next_hops.release(old));
        }
    }

    /// The hop of the best usable route, or the chain's that has it.
    fn best(&self, prefix: &Prefix<A>, next_hops: &NextHops) -> Option<Hop> {
        let usable = |c: &Candidate| Some((c.target, next_hops.hop(c.target)?));
        let list = self.routes.get(prefix);
        let (target, hop) = list.iter().find_map(usable)?;
        let chain = || next_hops.chain_hop(*self.chains.get(prefix)?, target);
        let chain = if list.len() > 1 { chain() } else { None };
        Some(chain.filter(|hop| self.fib.takes(*hop)).unwrap_or(hop))
    }

    /// The hop that the forwarding table is to hold for exactly this prefix.
    pub(crate) fn effective(&self, prefix: &Prefix<A>, next_hops: &NextHops) -> Option<Hop> {
        let builtin = builtin::covering(&self.builtin, prefix);
        let own_line = builtin.filter(|(root, ..)| root == prefix).map(|(_, hop, _)| hop);
        let usable = |c: &Candidate| next_hops.hop(c.target);
        match builtin.map_or(Override::Routes, |(.., by)| by) {
            Override::Never => return own_line,
            Override::ForUs => {
                let for_us = |c: &&Candidate| c.target == FOR_US || c.target == MULTICAST;
                let route = self.routes.get(prefix).iter().find(for_us);
                let own = self.own_host(prefix).or(route.and_then(usable));
                return own_line.or(own);
            }
            Override::Routes => {}
        }
        let host = || self.host_hop(prefix, next_hops);
        self.own_host(prefix).or_else(host).or_else(|| self.best(prefix, next_hops)).or(own_line)
    }

    fn own_host(&self, prefix: &Prefix<A>) -> Option<Hop> {
        let is_own = prefix.len() == A::WIDTH && self.own.contains_key(&prefix.first());
        is_own.then_some(fixed::FOR_US)
    }

    fn host_hop(&self, prefix: &Prefix<A>, next_hops: &NextHops) -> Option<Hop> {
        if prefix.len() != A::WIDTH || self.hosts.is_empty() {
            return None;
        }
        let addr = prefix.first();
        let hosts = self.hosts.range((addr, LinkId(0))..=(addr, LinkId(u32::MAX)));
        let installed = hosts.map(|(_, host)| host).find(|host| host.installed)?;
        next_hops.gateways.get(installed.gateway).map(|gateway| gateway.hop)
    }

    /// Finds anew which hosts stand in the table, among those that a touched
    /// prefix decides about; true when `dirty` has grown by some.
    fn place_hosts(&mut self, dirty: &mut Vec<Prefix<A>>, next_hops: &mut NextHops) -> bool {
        if self.hosts.is_empty() {
            return false;
        }
        let touched = dirty.len();
        for at in 0..touched {
            let prefix = dirty[at];
            let from = (prefix.first(), LinkId(0));
            let to = (prefix.last(), LinkId(u32::MAX));
            for (&(addr, link), host) in self.hosts.range_mut(from..=to) {
                // A route shorter than the one that covers the host changes nothing.
                if prefix.len() < host.cover {
                    continue;
                }
                let usable = |c: &Candidate| next_hops.hop(c.target).is_some();
                let cover = self.routes.longest(addr, usable);
                let direct = cover.and_then(|(_, c)| next_hops.direct(c.target));
                let segment = |link| next_hops.links.segment(link);
                let near = |on| on == link || segment(on) == segment(link);
                let mtu = direct.filter(|(on, _)| near(*on)).map(|(_, mtu)| mtu);
                let installed = mtu.is_some();
                host.cover = cover.map_or(0, |(prefix, _)| prefix.len());
                let refit = mtu.and_then(|mtu| next_hops.refit_host(host.gateway, mtu));
                host.gateway = refit.unwrap_or(host.gateway);
                if installed != host.installed || refit.is_some() {
                    host.installed = installed;
                    dirty.push(Prefix::covering(addr, A::WIDTH));
                }
            }
        }
        dirty.len() > touched
    }
}
