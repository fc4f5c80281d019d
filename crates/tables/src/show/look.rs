//! The answers, looked up in the control thread.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lookup::Prefix;
use lookup::lpm::Engines;

use super::*;
use crate::control::{Control, Counters, VrfState};
use crate::fib::Fib;
use crate::intake::Tables;
use crate::limits::{Capacity, Refusals};
use crate::net::number;
use crate::routes::Candidate;
use crate::table::Table;
use crate::targets::{self, TargetId};

impl Control {
    /// Routes in the order of VRF, family and prefix, from `after` on; with them
    /// where to go on, unless that was all. A part ends with the prefix that fills it:
    /// one with all its routes is never split, and counts as its routes' next hops.
    pub fn routes(
        &self,
        filter: &RouteFilter,
        after: Option<RouteCursor>,
        most: usize,
    ) -> (Vec<RouteInfo>, Option<RouteCursor>) {
        let mut page = Page { routes: Vec::new(), left: most.max(1), next: None };
        for (i, _) in self.vrfs.iter().enumerate() {
            let vrf = VrfId(i as u16);
            let skipped = after.is_some_and(|after| vrf < after.vrf);
            if skipped || filter.vrf.is_some_and(|wanted| wanted != vrf) {
                continue;
            }
            let after = after.filter(|after| after.vrf == vrf).map(|after| after.net);
            self.page::<u32>(vrf, filter, after, &mut page);
            // A cursor in IPv6 has left IPv4 behind.
            self.page::<u128>(vrf, filter, after, &mut page);
            if page.next.is_some() {
                break;
            }
        }
        (page.routes, page.next)
    }

    /// The route that packets to `addr` take; a host or an own address shows as
    /// the route that covers it.
    pub fn route_to(&self, vrf: VrfId, addr: IpAddr) -> Option<RouteInfo> {
        let state = self.vrfs.get(usize::from(vrf.0))?;
        let usable = |c: &Candidate| self.next_hops.usable(c.target);
        let (net, best) = match Family::of(addr) {
            Family::V4 => {
                let (prefix, best) = state.v4.routes.longest(number(addr)?, usable)?;
                (Net::from(prefix), best)
            }
            Family::V6 => {
                let (prefix, best) = state.v6.routes.longest(number(addr)?, usable)?;
                (Net::from(prefix), best)
            }
        };
        Some(self.route_info(vrf, net, &best, true))
    }

    /// Neighbours of Rutter's interfaces, by interface and address.
    pub fn neighbours(&self) -> Vec<NeighbourInfo> {
        let gateways = &self.next_hops.gateways;
        let gateway = |link, ip| gateways.is_gateway(link, ip);
        let links = &self.next_hops.links;
        let mut all: Vec<_> = links
            .neighbours()
            .iter()
            .map(|(&(link, ip), known)| NeighbourInfo {
                link,
                link_name: self.link_name(link),
                ip,
                mac: known.neighbour.mac,
                state: known.neighbour.state,
                gateway: gateway(link, ip),
            })
            .collect();
        all.sort_by(|a, b| (&a.link_name, a.ip).cmp(&(&b.link_name, b.ip)));
        all
    }

    /// Resolved neighbours on the networks of Rutter's interfaces, and whether the kernel
    /// has asked each lately (or a user has named it): who asks us is resolved, too, but
    /// anybody can do that.
    pub fn resolved(&self) -> Vec<((IfaceId, IpAddr), bool)> {
        let links = &self.next_hops.links;
        let known =
            links.neighbours().iter().filter(|(_, known)| known.neighbour.resolved().is_some());
        known
            .filter_map(|(&(link, ip), known)| {
                let (id, _) = links.ours(link)?;
                let addresses = links.get(link)?.addresses.keys();
                let on_link = |(address, len): &(IpAddr, u8)| {
                    let net = Net::covering(*address, *len);
                    net.is_some() && net == Net::covering(ip, *len)
                };
                let confirmed = matches!(
                    known.neighbour.state,
                    NeighbourState::Reachable | NeighbourState::Permanent | NeighbourState::NoArp
                );
                { addresses }.any(on_link).then_some(((id, ip), confirmed))
            })
            .collect()
    }

    /// Rutter's interfaces, by number.
    pub fn interfaces(&self) -> Vec<IfaceInfo> {
        let links = &self.next_hops.links;
        let ids = (1..=u16::MAX).map(IfaceId).take(links.published().count());
        ids.filter_map(|id| {
            let slot = links.slot(id)?;
            let state = slot.link.and_then(|link| links.get(link));
            let above = slot.link.into_iter().flat_map(|link| links.macvlans(link));
            let mut above: Vec<_> = above.flat_map(|s| s.addresses.keys().copied()).collect();
            above.sort_unstable();
            let own = state.into_iter().flat_map(|s| s.addresses.keys().copied());
            Some(IfaceInfo {
                id,
                iface: slot.iface.clone(),
                link: slot.link,
                addresses: own.chain(above).collect(),
            })
        })
        .collect()
    }

    /// All VRFs, by number.
    pub fn vrfs(&self) -> Vec<VrfInfo> {
        let info = |(i, vrf): (usize, &VrfState)| VrfInfo {
            id: VrfId(i as u16),
            name: vrf.name.clone(),
            table: vrf.table,
            source: vrf.source,
        };
        self.vrfs.iter().enumerate().map(info).collect()
    }

    /// The forwarding tables, by VRF and family.
    pub fn fibs(&self) -> Vec<FibInfo> {
        let vrfs = self.vrfs.iter().enumerate();
        vrfs.flat_map(|(i, vrf)| {
            let id = VrfId(i as u16);
            [fib_info(id, &vrf.v4), fib_info(id, &vrf.v6)]
        })
        .collect()
    }

    /// One forwarding table.
    pub fn fib_info(&self, vrf: VrfId, family: Family) -> Option<FibInfo> {
        let state = self.vrfs.get(usize::from(vrf.0))?;
        Some(match family {
            Family::V4 => fib_info(vrf, &state.v4),
            Family::V6 => fib_info(vrf, &state.v6),
        })
    }

    /// Every limit: what it holds, and what was refused at it.
    pub fn capacity(&self) -> Vec<Capacity> {
        let mut all = Vec::new();
        for (i, vrf) in self.vrfs.iter().enumerate() {
            let id = VrfId(i as u16);
            table_capacity(id, &vrf.v4, &mut all);
            table_capacity(id, &vrf.v6, &mut all);
        }
        let pool = &self.next_hops.pool;
        let [hops, groups, members] = pool.usage();
        let neighbours = (self.next_hops.links.neighbours().len(), self.limits.neighbours);
        let none = Refusals::default();
        for (what, (used, limit), refusals, key) in [
            ("neighbours", neighbours, &self.refused_neighbours, Some("neighbours.max")),
            ("hops", hops, &pool.refused_hops, None),
            ("backups", self.next_hops.chains(), &self.next_hops.refused_chains, None),
            ("groups", groups, &pool.refused_groups, None),
            ("group members", members, &none, None),
        ] {
            all.push(capacity(what, None, used as u64, Some(limit as u64), refusals, key));
        }
        let routes = |vrf: &VrfState| vrf.v4.routes.len() + vrf.v6.routes.len();
        let routes: usize = self.vrfs.iter().map(routes).sum();
        let memory = &self.refused_memory;
        all.push(capacity("memory for routes", None, routes as u64, None, memory, None));
        let partial = &self.refused_partial;
        all.push(capacity("routes by source or tos", None, 0, Some(0), partial, None));
        self.shield_capacity(&mut all);
        all
    }

    /// What happened since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Gateways of installed routes: the kernel is to keep them resolved. Those set
    /// by hand need no keeping.
    pub fn gateways(&self) -> Vec<Gateway> {
        let neighbours = self.next_hops.links.neighbours();
        let all = self.next_hops.gateways.iter().filter(|gateway| gateway.is_gateway());
        let keys: BTreeSet<_> = all.map(|gateway| (gateway.key.link, gateway.key.ip)).collect();
        let gateway = |(link, ip)| {
            let state = neighbours.get(&(link, ip)).map(|known| known.neighbour.state);
            let by_hand = [NeighbourState::Permanent, NeighbourState::NoArp].map(Some);
            let known = state.is_some_and(|state| state != NeighbourState::Failed);
            (!by_hand.contains(&state)).then_some(Gateway { link, ip, known })
        };
        keys.into_iter().filter_map(gateway).collect()
    }

    /// Neighbours that packets left to since the last call: the kernel is to be
    /// informed that they are in use.
    pub fn take_used(&mut self) -> Vec<(LinkId, IpAddr)> {
        let table = self.next_hops.pool.table();
        let all = self.next_hops.gateways.iter();
        let used = all
            .filter(|gateway| gateway.adjacency.is_some_and(|id| table.adjacency(id).take_used()));
        let mut used: Vec<_> = used.map(|gateway| (gateway.key.link, gateway.key.ip)).collect();
        used.sort_unstable();
        used.dedup();
        let by_hand = |key: &(LinkId, IpAddr)| {
            let known = self.next_hops.links.neighbours().get(key);
            known.is_some_and(|known| known.neighbour.state == NeighbourState::Permanent)
        };
        used.retain(|key| !by_hand(key)); // the kernel would make it an ordinary one
        used
    }

    /// Heap bytes of the hop table.
    pub fn hop_bytes(&self) -> usize {
        self.next_hops.pool.table().bytes()
    }

    /// Distinct targets of routes.
    pub fn targets(&self) -> usize {
        self.next_hops.len()
    }

    fn page<A: Tables>(
        &self,
        vrf: VrfId,
        filter: &RouteFilter,
        after: Option<Net>,
        page: &mut Page,
    ) {
        let family = Family::of_addr::<A>();
        let other = |wanted: Option<Family>| wanted.is_some_and(|wanted| wanted != family);
        let is_past = after.is_some_and(|after| after.family() > family);
        if is_past || other(filter.family) || other(filter.inside.map(|net| net.family())) {
            return;
        }
        let outer = filter.inside.and_then(|net| net.prefix::<A>()).unwrap_or(Prefix::all());
        let from = after.and_then(|net| net.prefix::<A>()).unwrap_or(outer);
        let state = &self.vrfs[usize::from(vrf.0)]; // cannot panic: the caller counted them
        for (prefix, list) in A::table_ref(state).routes.from(from) {
            if !outer.covers(&prefix) {
                // A shorter prefix at the same address comes before what is inside it.
                if prefix.first() > outer.last() {
                    break;
                }
                continue;
            }
            let net = Net::from(prefix);
            if page.next.is_some() || page.left == 0 {
                page.next.get_or_insert(RouteCursor { vrf, net });
                return;
            }
            let best = list.iter().position(|c| self.next_hops.usable(c.target));
            for (i, candidate) in list.iter().enumerate() {
                if filter.all || best == Some(i) {
                    let route = self.route_info(vrf, net, candidate, best == Some(i));
                    page.left = page.left.saturating_sub(route.paths.len().max(1));
                    page.routes.push(route);
                }
            }
        }
    }

    fn route_info(&self, vrf: VrfId, net: Net, candidate: &Candidate, best: bool) -> RouteInfo {
        let paths = self.next_hops.paths(candidate.target).into_iter();
        RouteInfo {
            vrf,
            net,
            kind: kind(candidate.target),
            protocol: candidate.protocol,
            source: candidate.source,
            metric: candidate.metric,
            paths: paths
                .map(|path| PathInfo {
                    link: path.link,
                    link_name: self.link_name(path.link),
                    via: path.via,
                    weight: path.weight,
                    mtu: path.mtu,
                    state: self.next_hops.path_state(&path, net.family()),
                })
                .collect(),
            object: self.next_hops.object_of(candidate.target),
            best,
        }
    }

    fn link_name(&self, link: LinkId) -> String {
        let state = self.next_hops.links.get(link);
        let known = state.map(|state| state.link.name.clone()).filter(|name| !name.is_empty());
        known.unwrap_or_else(|| format!("if{}", link.0))
    }
}

struct Page {
    routes: Vec<RouteInfo>,
    /// Next hops that it has room for.
    left: usize,
    next: Option<RouteCursor>,
}

fn kind(target: TargetId) -> RouteKind {
    match target {
        targets::FOR_US => RouteKind::Local,
        targets::VIA_KERNEL => RouteKind::Kernel,
        targets::UNREACHABLE => RouteKind::Unreachable,
        targets::MULTICAST => RouteKind::Broadcast,
        targets::BLACKHOLE => RouteKind::Blackhole,
        targets::PROHIBIT => RouteKind::Prohibit,
        targets::THROW => RouteKind::Throw,
        _ => RouteKind::Unicast,
    }
}

fn fib_info<A: Engines>(vrf: VrfId, table: &Table<A>) -> FibInfo {
    let (routes, refused) = (table.routes.len() as u64, table.refusals.count);
    info_of(vrf, &table.fib, routes, refused)
}

/// A table with so many routes, of which `refused` came not as far as the engine.
pub(super) fn info_of<A: Engines>(vrf: VrfId, fib: &Fib<A>, routes: u64, refused: u64) -> FibInfo {
    let lpm = fib.table();
    FibInfo {
        vrf,
        family: Family::of_addr::<A>(),
        engine: fib.engine(),
        routes,
        prefixes: fib.rib().len() as u64,
        table_bytes: lpm.bytes() as u64,
        rib_bytes: fib.rib().bytes() as u64,
        writer_bytes: fib.writer_bytes() as u64,
        updates: fib.stats.updates,
        rebuilds: fib.stats.rebuilds,
        build_time: fib.stats.build_time,
        behind: fib.is_behind(),
        switching_to: fib.switching_to(),
        switched: fib.stats.switch.clone(),
        refused: fib.refusals.count + refused,
        counters: lpm.counters(),
    }
}

fn table_capacity<A: Engines>(vrf: VrfId, table: &Table<A>, all: &mut Vec<Capacity>) {
    let of = Some((vrf, Family::of_addr::<A>()));
    let (routes, most) = (table.routes.len() as u64, Some(table.max_routes as u64));
    all.push(capacity("routes", of, routes, most, &table.refusals, Some("max_routes")));
    let prefixes = table.fib.rib().len() as u64;
    let most = table.fib.max_prefixes();
    all.push(capacity("engine prefixes", of, prefixes, most, &table.fib.refusals, Some("engine")));
}

pub(super) fn capacity(
    what: &'static str,
    of: Option<(VrfId, Family)>,
    used: u64,
    limit: Option<u64>,
    refusals: &Refusals,
    key: Option<&'static str>,
) -> Capacity {
    Capacity {
        what,
        vrf: of.map(|(vrf, _)| vrf),
        family: of.map(|(_, family)| family),
        used,
        limit,
        refused: refusals.count,
        last: refusals.last.clone(),
        key,
    }
}
