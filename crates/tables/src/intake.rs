//! What each event changes.

mod hosts;
mod partial;

use std::net::IpAddr;

use lookup::Prefix;
use lookup::lpm::Engines;

use crate::control::{Control, Item, LOCAL_TABLE, Sweep, VrfState};
use crate::event::{
    Address, Event, FPM_OBJECTS, How, Link, LinkId, Neighbour, NextHop, Path, Route, Scope, Source,
    Target, Why,
};
use crate::links::Known;
use crate::listing::Listing;
use crate::routes::{Candidate, Put};
use crate::table::Table;
use crate::targets::NextHops;
use crate::{Family, VrfId};

impl Control {
    pub(crate) fn set_link(&mut self, link: &Link) {
        self.saw(Item::Link(link.index));
        let known = self.next_hops.links.get(link.index).map(|state| state.link == *link);
        if known == Some(true) {
            return;
        }
        self.next_hops.links.set_link(link);
        self.differs(Scope::Links);
        self.link_changed(link.index);
        if link.vrf_table.is_some() {
            let below = |state: &&crate::links::State| state.link.master == Some(link.index);
            let below = self.next_hops.links.iter().filter(below).map(|state| state.link.index);
            let below: Vec<_> = below.collect();
            below.into_iter().for_each(|link| self.rehome(link));
        }
    }

    pub(crate) fn remove_link(&mut self, link: LinkId) {
        let addresses = self.next_hops.links.get(link).map(|state| state.addresses.clone());
        for (ip, len) in addresses.into_iter().flatten().map(|(address, _)| address) {
            self.remove_address(Address { link, ip, len });
        }
        self.forget_neighbours(link);
        self.next_hops.links.remove_link(link);
        // The kernel drops what leads over it without a word.
        for family in [Family::V4, Family::V6] {
            self.next_hops.flush_over(link, family);
        }
        self.next_hops.link_changed(link);
        self.ifaces_changed();
    }

    /// Whatever of the link changed: its interface, steps, routes follow.
    pub(crate) fn link_changed(&mut self, link: LinkId) {
        let macvlans = self.next_hops.links.macvlans(link).map(|state| state.link.index);
        let all: Vec<_> = std::iter::once(link).chain(macvlans).collect();
        for link in all {
            self.rehome(link);
            self.next_hops.link_changed(link);
        }
        self.hold_routes();
        self.ifaces_changed();
    }

    pub(crate) fn forget_neighbours(&mut self, link: LinkId) {
        let known = self.next_hops.links.neighbours().keys();
        let gone: Vec<_> = known.filter(|(of, _)| *of == link).copied().collect();
        gone.into_iter().for_each(|(link, ip)| self.remove_neighbour(link, ip));
    }

    pub(crate) fn add_address(&mut self, address: Address) {
        let Address { link, ip, len } = address;
        self.saw(Item::Address(address));
        let vrf = self.home(link);
        let state = self.next_hops.links.get(link);
        if state.is_some_and(|state| state.addresses.contains_key(&(ip, len))) {
            return;
        }
        self.next_hops.links.set_address(link, (ip, len), vrf);
        self.differs(Scope::Addresses);
        self.ifaces_changed(); // a macvlan with an address takes packets
        self.own(vrf, ip, true);
    }

    pub(crate) fn remove_address(&mut self, address: Address) {
        let Address { link, ip, len } = address;
        let links = &mut self.next_hops.links;
        let Some(vrf) = links.remove_address(link, (ip, len)) else { return };
        let left = links.get(link).into_iter().flat_map(|state| state.addresses.keys());
        let last = !left.map(|(other, _)| other).any(IpAddr::is_ipv4);
        self.ifaces_changed();
        self.own(vrf, ip, false);
        if ip.is_ipv4() && last {
            // With the last address of a link the kernel drops, without a word,
            // the IPv4 routes that lead over it.
            self.next_hops.flush_over(link, Family::V4);
        }
    }

    pub(crate) fn set_neighbour(&mut self, neighbour: Neighbour) {
        let Neighbour { link, ip, .. } = neighbour;
        self.saw(Item::Neighbour(link, ip));
        if self.next_hops.links.ours(link).is_none() {
            return;
        }
        let key = (link, ip);
        let count = self.next_hops.links.neighbours().len();
        match self.next_hops.links.neighbours_mut().get_mut(&key) {
            Some(known) => {
                let resolved = known.neighbour.resolved();
                known.neighbour = neighbour;
                if resolved == neighbour.resolved() {
                    return;
                }
            }
            None => {
                // The gateway of a route is taken in whatever the limit.
                let wanted = || self.next_hops.gateways.of(link, ip).next().is_some();
                if count >= self.limits.neighbours && !wanted() {
                    let reason = || format!("{count} neighbours are known");
                    return self.refused_neighbours.note(|| ip.to_string(), reason);
                }
                let known = Known { neighbour, host: None };
                self.next_hops.links.neighbours_mut().insert(key, known);
            }
        }
        self.differs(Scope::Neighbours);
        self.next_hops.neighbour_changed(link, ip);
        self.place_host(link, ip);
    }

    pub(crate) fn remove_neighbour(&mut self, link: LinkId, ip: IpAddr) {
        self.remove_host(link, ip);
        if self.next_hops.links.neighbours_mut().remove(&(link, ip)).is_some() {
            self.next_hops.neighbour_changed(link, ip);
        }
    }

    pub(crate) fn set_object(&mut self, object: &NextHop) {
        self.saw(Item::NextHop(object.id));
        if self.next_hops.set_object(object) {
            self.differs(Scope::NextHops(teller(object.id)));
        }
    }

    pub(crate) fn set_route(&mut self, route: &Route, how: How) {
        let Some(vrf) = self.vrf_of(route) else { return self.counters.routes_ignored += 1 };
        let how = match (how, route.net.family()) {
            // Among equals a new IPv6 route is last, an IPv4 route first.
            (How::Create, Family::V6) => How::Append,
            (how, _) => how,
        };
        let changed = match route.net.family() {
            Family::V4 => self.put::<u32>(vrf, route, how),
            Family::V6 => self.put::<u128>(vrf, route, how),
        };
        if changed && how == How::Listed {
            self.differs(Scope::Routes(route.net.family(), route.source));
        }
    }

    pub(crate) fn remove_route(&mut self, route: &Route) {
        let Some(vrf) = self.vrf_of(route) else { return self.counters.routes_ignored += 1 };
        match route.net.family() {
            Family::V4 => self.take::<u32>(vrf, route),
            Family::V6 => self.take::<u128>(vrf, route),
        }
    }

    pub(crate) fn begin_sweep(&mut self, scope: Scope, why: Why) {
        if let Scope::Routes(family, source) = scope {
            let generation = &mut self.generations[family as usize][source as usize];
            *generation = generation.wrapping_add(1);
        }
        let sweep = Sweep { why, seen: Default::default(), differences: 0 };
        self.sweeps.insert(scope, sweep);
    }

    pub(crate) fn end_sweep(&mut self, scope: Scope) {
        let Some(sweep) = self.sweeps.remove(&scope) else { return };
        let unseen = |item: &Item| !sweep.seen.contains(item);
        let links = &self.next_hops.links;
        let gone: Vec<Event> = match scope {
            Scope::Links => {
                let gone = links.ids().filter(|id| unseen(&Item::Link(*id)));
                gone.map(Event::LinkGone).collect()
            }
            Scope::Addresses => {
                let all = links.iter().flat_map(|state| {
                    let link = state.link.index;
                    state.addresses.keys().map(move |&(ip, len)| Address { link, ip, len })
                });
                all.filter(|a| unseen(&Item::Address(*a))).map(Event::AddressGone).collect()
            }
            Scope::Neighbours => {
                let all = links.neighbours().keys().copied();
                let gone = all.filter(|(link, ip)| unseen(&Item::Neighbour(*link, *ip)));
                gone.map(|(link, ip)| Event::NeighbourGone(link, ip)).collect()
            }
            Scope::NextHops(source) => {
                let all = self.next_hops.object_ids().into_iter();
                let all = all.filter(|id| teller(*id) == source);
                all.filter(|id| unseen(&Item::NextHop(*id))).map(Event::NextHopGone).collect()
            }
            Scope::Routes(..) => Vec::new(),
        };
        let mut differences = sweep.differences + gone.len() as u64;
        gone.iter().for_each(|event| self.apply(event));
        if let Scope::Routes(family, source) = scope {
            differences += self.sweep_routes(family, source);
            if source == Source::Kernel {
                self.sweep_partial(family);
                self.listed(family, Listing::complete);
            }
        }
        self.counters.listings += 1;
        if sweep.why == Why::Audit {
            self.counters.drift += differences;
        }
    }

    pub(crate) fn abort_sweep(&mut self, scope: Scope) {
        self.sweeps.remove(&scope);
        if let Scope::Routes(family, Source::Kernel) = scope {
            self.listed(family, Listing::given_up);
        }
    }

    /// The kernel's routes of a family were listed, to the end or not.
    fn listed(&mut self, family: Family, note: impl Fn(&mut Listing, u64)) {
        let seq = self.next_hops.seq; // the commit to come
        for vrf in &mut self.vrfs {
            match family {
                Family::V4 => note(&mut vrf.v4.listing, seq),
                Family::V6 => note(&mut vrf.v6.listing, seq),
            }
        }
    }

    fn sweep_routes(&mut self, family: Family, source: Source) -> u64 {
        let generation = self.generations[family as usize][source as usize];
        let keep = |c: &Candidate| c.source != source || c.generation == generation;
        let mut lost = Vec::new();
        for vrf in &mut self.vrfs {
            match family {
                Family::V4 => sweep(&mut vrf.v4, keep, &mut lost),
                Family::V6 => sweep(&mut vrf.v6, keep, &mut lost),
            }
        }
        self.counters.routes_removed += lost.len() as u64;
        if source == Source::Fpm {
            self.counters.fpm_swept += lost.len() as u64;
        }
        lost.iter().for_each(|candidate| self.next_hops.release(candidate.target));
        lost.len() as u64
    }

    fn saw(&mut self, item: Item) {
        let scope = match item {
            Item::Link(_) => Scope::Links,
            Item::Address(_) => Scope::Addresses,
            Item::Neighbour(..) => Scope::Neighbours,
            Item::NextHop(id) => Scope::NextHops(teller(id)),
        };
        if let Some(sweep) = self.sweeps.get_mut(&scope) {
            sweep.seen.insert(item);
        }
    }

    fn differs(&mut self, scope: Scope) {
        if let Some(sweep) = self.sweeps.get_mut(&scope) {
            sweep.differences += 1;
        }
    }

    /// The VRF that a route belongs to; `None` where it is nobody's, or its feed
    /// is not the VRF's.
    fn vrf_of(&self, route: &Route) -> Option<VrfId> {
        let vrf = match &route.target {
            Target::Local(link) | Target::Broadcast(link) if route.table == LOCAL_TABLE => {
                self.home(*link)
            }
            _ if route.table == LOCAL_TABLE => VrfId(0),
            _ => self.vrf_by_table(route.table)?,
        };
        let state = self.vrfs.get(usize::from(vrf.0))?;
        let kernels = route.protocol == PROTOCOL_KERNEL || route.table == LOCAL_TABLE;
        let wanted = match (state.source, route.source) {
            (Source::Kernel, source) => source == Source::Kernel,
            (Source::Fpm, Source::Kernel) => kernels,
            (Source::Fpm, Source::Fpm) => !kernels,
        };
        wanted.then_some(vrf)
    }

    /// Puts a route in; true when that changed anything.
    fn put<A: Tables>(&mut self, vrf: VrfId, route: &Route, how: How) -> bool {
        let family = route.net.family();
        let Some(prefix) = route.net.prefix::<A>() else { return false };
        self.purge::<A>(vrf, &prefix);
        let new = Candidate {
            target: self.next_hops.intern(&route.target, family),
            metric: route.metric,
            protocol: route.protocol,
            generation: self.generations[family as usize][route.source as usize],
            source: route.source,
            local: is_local(&route.target),
        };
        if route.source == Source::Fpm {
            self.take_other(vrf, &prefix, &new);
        }
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]);
        // At a limit, what is there may still change.
        let (is_new, most) = (table.routes.get(&prefix).is_empty(), table.max_routes);
        let fits = table.routes.len() < most;
        let room = fits && (!is_new || self.has_memory(route));
        let next_hops = &self.next_hops;
        let replaces = |old: &Candidate| {
            let siblings = family == Family::V6 && how != How::Listed;
            new.source == Source::Fpm || siblings && grown(next_hops, old, &route.target)
        };
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]);
        match table.routes.put(prefix, new, how, room, replaces) {
            Put::Same => return false,
            Put::Refused if fits => return false, // for want of memory, which is noted
            Put::Refused => {
                let reason = || format!("{most} routes are in");
                table.refusals.note(|| route.net.to_string(), reason);
                return false;
            }
            Put::Added => self.counters.routes_added += 1,
            Put::Replaced(old) => {
                self.counters.routes_changed += 1;
                self.next_hops.release(old.target);
            }
        }
        table.touch(prefix);
        self.next_hops.hold(new.target);
        true
    }

    /// FRR has one route a prefix: takes out the one of another metric.
    fn take_other<A: Tables>(&mut self, vrf: VrfId, prefix: &Prefix<A>, new: &Candidate) {
        let other = |c: &Candidate| {
            c.source == new.source && (c.metric, c.local) != (new.metric, new.local)
        };
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]);
        if let Some(old) = table.routes.take(prefix, other) {
            table.touch(*prefix);
            self.counters.routes_removed += 1;
            self.next_hops.release(old.target);
        }
    }

    /// Takes a route out: the very one, or paths of an IPv6 route with siblings.
    fn take<A: Tables>(&mut self, vrf: VrfId, route: &Route) {
        let Some(prefix) = route.net.prefix::<A>() else { return };
        self.purge::<A>(vrf, &prefix);
        let family = route.net.family();
        let target = self.next_hops.find(&route.target, family);
        let local = is_local(&route.target);
        // FRR has one route a prefix, and does not repeat what it led to.
        let fpm = route.source == Source::Fpm;
        let named = |c: &Candidate| {
            c.source == route.source && (fpm || c.metric == route.metric && c.local == local)
        };
        let next_hops = &self.next_hops;
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]);
        let same = |c: &Candidate| named(c) && (fpm || Some(c.target) == target);
        let partly = |c: &Candidate| {
            family == Family::V6 && named(c) && shrunk(next_hops, c, &route.target).is_some()
        };
        let taken = table.routes.take(&prefix, same);
        let Some(taken) = taken.or_else(|| table.routes.take(&prefix, partly)) else { return };
        table.touch(prefix);
        self.counters.routes_removed += 1;
        if !fpm && Some(taken.target) != target {
            self.put_rest::<A>(vrf, prefix, &taken, &route.target);
        }
        self.next_hops.release(taken.target);
    }

    /// Puts back what is left of a route that lost some of its siblings.
    fn put_rest<A: Tables>(
        &mut self,
        vrf: VrfId,
        prefix: Prefix<A>,
        old: &Candidate,
        gone: &Target,
    ) {
        let target = match shrunk(&self.next_hops, old, gone).as_deref() {
            None | Some([]) => return,
            Some([path]) => Target::Path(*path),
            Some(left) => Target::Paths(left.into()),
        };
        let target = self.next_hops.intern(&target, Family::of_addr::<A>());
        self.next_hops.hold(target);
        let new = Candidate { target, ..*old };
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]);
        // The same as one that is there: that one counts for both.
        if table.routes.put(prefix, new, How::Append, true, |_| false) != Put::Added {
            self.next_hops.release(target);
        }
    }

    /// Takes the routes of a prefix out that the kernel dropped without a word,
    /// before another is put in their place: the commit may still be to come.
    fn purge<A: Tables>(&mut self, vrf: VrfId, prefix: &Prefix<A>) {
        if !self.next_hops.has_changed() {
            return;
        }
        let table = A::table(&mut self.vrfs[usize::from(vrf.0)]);
        while let Some(gone) = table.routes.take(prefix, |c| self.next_hops.is_gone(c.target)) {
            table.touch(*prefix);
            self.next_hops.release(gone.target);
            self.counters.routes_removed += 1;
        }
    }
}

/// The table of a family in a VRF.
pub(crate) trait Tables: Engines {
    fn table(vrf: &mut VrfState) -> &mut Table<Self>;
    fn table_ref(vrf: &VrfState) -> &Table<Self>;
}

impl Tables for u32 {
    fn table(vrf: &mut VrfState) -> &mut Table<u32> {
        &mut vrf.v4
    }
    fn table_ref(vrf: &VrfState) -> &Table<u32> {
        &vrf.v4
    }
}

impl Tables for u128 {
    fn table(vrf: &mut VrfState) -> &mut Table<u128> {
        &mut vrf.v6
    }
    fn table_ref(vrf: &VrfState) -> &Table<u128> {
        &vrf.v6
    }
}

fn sweep<A: Engines>(
    table: &mut Table<A>,
    keep: impl Fn(&Candidate) -> bool,
    lost: &mut Vec<Candidate>,
) {
    let mut prefixes: Vec<Prefix<A>> = Vec::new();
    table.routes.retain(keep, |prefix, candidate| {
        prefixes.push(prefix);
        lost.push(candidate);
    });
    prefixes.into_iter().for_each(|prefix| table.touch(prefix));
}

/// Of this machine: comes before all others of its prefix.
fn is_local(target: &Target) -> bool {
    matches!(target, Target::Local(_) | Target::Broadcast(_))
}

fn paths(target: &Target) -> &[Path] {
    match target {
        Target::Path(path) => std::slice::from_ref(path),
        Target::Paths(paths) => paths,
        _ => &[],
    }
}

/// Does the target name every path of the old route, and more? The kernel tells
/// of a sibling added to an IPv6 route by telling the whole route again.
fn grown(next_hops: &NextHops, old: &Candidate, target: &Target) -> bool {
    let (new, old) = (paths(target), next_hops.plain_paths(old.target).unwrap_or(&[]));
    let is_in = |path: &Path| new.iter().any(|p| p.link == path.link && p.via == path.via);
    !old.is_empty() && old.len() < new.len() && old.iter().all(is_in)
}

/// What is left of a route with siblings when `target` goes; `None` where they
/// have nothing to do with each other.
fn shrunk(next_hops: &NextHops, old: &Candidate, target: &Target) -> Option<Vec<Path>> {
    let (gone, old) = (paths(target), next_hops.plain_paths(old.target)?);
    let is_in = |path: &Path| old.iter().any(|p| p.link == path.link && p.via == path.via);
    if gone.is_empty() || !gone.iter().all(is_in) {
        return None;
    }
    let stays = |path: &&Path| !gone.iter().any(|p| p.link == path.link && p.via == path.via);
    Some(old.iter().filter(stays).copied().collect())
}

/// Which feed reported a next-hop object.
fn teller(id: u32) -> Source {
    if id & FPM_OBJECTS == 0 { Source::Kernel } else { Source::Fpm }
}

/// `RTPROT_KERNEL`: what the kernel makes from its addresses.
const PROTOCOL_KERNEL: u8 = 2;
