//! Gateways: one hop for every neighbour that packets are sent to, whose step
//! follows the neighbour, however many routes, hosts and groups name the hop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use lookup::Hop;

use crate::event::LinkId;
use crate::links::{Key, Links};
use crate::pool::Pool;
use crate::slab::Slab;
use crate::{AdjacencyId, Family, Kind, Step};

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct GatewayId(u32);

pub(crate) struct Gateway {
    pub(crate) key: Key,
    pub(crate) hop: Hop,
    pub(crate) adjacency: Option<AdjacencyId>,
    /// Its step without an adjacency.
    unresolved: Step,
    refs: u32,
    /// A resolved host holds it; every other holder is a target of routes.
    host: bool,
    /// The commit in which `refs` came to 0 last.
    tag: u64,
    /// Hops of next-hop objects whose only way this is, and of chains that use it.
    aliases: BTreeSet<Hop>,
    /// No adjacency was free when the neighbour was resolved.
    starved: bool,
}

/// All gateways.
pub(crate) struct Gateways {
    list: Slab<Gateway>,
    by_key: BTreeMap<Key, GatewayId>,
}

impl Gateways {
    pub(crate) fn new() -> Self {
        Gateways { list: Slab::new(), by_key: BTreeMap::new() }
    }

    /// The gateway, held once more; `None` where no hop is left.
    pub(crate) fn hold(&mut self, key: Key, pool: &mut Pool, links: &Links) -> Option<GatewayId> {
        if let Some(&id) = self.by_key.get(&key) {
            self.list.get_mut(id.0)?.refs += 1;
            return Some(id);
        }
        let hop = pool.take_hop()?;
        let unresolved = pool.table().step(links.glean(key.link));
        pool.set_step(hop, unresolved);
        let gateway = Gateway {
            key,
            hop,
            adjacency: None,
            unresolved,
            refs: 1,
            host: false,
            tag: 0,
            aliases: BTreeSet::new(),
            starved: false,
        };
        let id = GatewayId(self.list.insert(gateway));
        self.by_key.insert(key, id);
        self.refresh(id, pool, links);
        Some(id)
    }

    /// Holds the gateway once less; true when nothing holds it any more: it is
    /// then due for [`Gateways::bury`] with this tag.
    pub(crate) fn release(&mut self, id: GatewayId, tag: u64) -> bool {
        let Some(gateway) = self.list.get_mut(id.0) else { return false };
        gateway.refs -= 1;
        gateway.tag = tag;
        gateway.refs == 0
    }

    /// Takes out a gateway that no reader can meet any more, unless it was held
    /// again since `tag`.
    pub(crate) fn bury(&mut self, id: GatewayId, tag: u64, pool: &mut Pool) {
        let Some(gateway) = self.list.get(id.0) else { return };
        if gateway.refs > 0 || gateway.tag != tag {
            return;
        }
        let Some(gateway) = self.list.remove(id.0) else { return };
        self.by_key.remove(&gateway.key);
        pool.give_hop(gateway.hop);
        if let Some(adjacency) = gateway.adjacency {
            pool.retire_adjacency(adjacency);
        }
    }

    pub(crate) fn get(&self, id: GatewayId) -> Option<&Gateway> {
        self.list.get(id.0)
    }

    /// States that a host holds the gateway, or does no more.
    pub(crate) fn set_host(&mut self, id: GatewayId, host: bool) {
        if let Some(gateway) = self.list.get_mut(id.0) {
            gateway.host = host;
        }
    }

    /// True when routes lead to the neighbour.
    pub(crate) fn is_gateway(&self, link: LinkId, ip: IpAddr) -> bool {
        self.of(link, ip).filter_map(|id| self.get(id)).any(Gateway::is_gateway)
    }

    pub(crate) fn find(&self, key: &Key) -> Option<GatewayId> {
        self.by_key.get(key).copied()
    }

    /// All that the neighbour is: of each family and MTU.
    pub(crate) fn of(&self, link: LinkId, ip: IpAddr) -> impl Iterator<Item = GatewayId> + '_ {
        let key = |family, mtu| Key { link, ip, family, mtu };
        let all = key(Family::V4, 0)..=key(Family::V6, u16::MAX);
        self.by_key.range(all).map(|(_, id)| *id)
    }

    /// Gateways and hosts that something holds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Gateway> {
        self.list.iter().map(|(_, gateway)| gateway).filter(|gateway| gateway.refs > 0)
    }

    /// Lets `hop` take the same step as the gateway, also when that changes.
    pub(crate) fn alias(&mut self, id: GatewayId, hop: Hop, pool: &Pool) {
        if let Some(gateway) = self.list.get_mut(id.0) {
            gateway.aliases.insert(hop);
            pool.set_step(hop, gateway.step());
        }
    }

    /// Undoes [`Gateways::alias`]; the step stays.
    pub(crate) fn unalias(&mut self, id: GatewayId, hop: Hop) {
        if let Some(gateway) = self.list.get_mut(id.0) {
            gateway.aliases.remove(&hop);
        }
    }

    /// Brings the gateway's step in line with its link and neighbour.
    pub(crate) fn refresh(&mut self, id: GatewayId, pool: &mut Pool, links: &Links) {
        let Some(gateway) = self.list.get_mut(id.0) else { return };
        let unresolved = pool.table().step(links.glean(gateway.key.link));
        let wanted = links.adjacency(&gateway.key);
        let now = gateway.adjacency.map(|id| pool.table().adjacency(id).get());
        if wanted == now && unresolved == gateway.unresolved {
            return;
        }
        gateway.unresolved = unresolved;
        let old = gateway.adjacency.take();
        gateway.adjacency = wanted.and_then(|wanted| pool.take_adjacency(&wanted));
        gateway.starved = wanted.is_some() && gateway.adjacency.is_none();
        for hop in gateway.aliases.iter().chain([&gateway.hop]) {
            pool.set_step(*hop, gateway.step());
        }
        // No step names the old one from here on.
        if let Some(old) = old {
            pool.retire_adjacency(old);
        }
    }

    /// Brings all gateways of a link in line.
    pub(crate) fn refresh_link(&mut self, link: LinkId, pool: &mut Pool, links: &Links) {
        self.refresh_where(|gateway| gateway.key.link == link, pool, links);
    }

    /// Tries again where no adjacency was free.
    pub(crate) fn feed_starved(&mut self, pool: &mut Pool, links: &Links) {
        self.refresh_where(|gateway| gateway.starved, pool, links);
    }

    fn refresh_where(&mut self, wanted: impl Fn(&Gateway) -> bool, pool: &mut Pool, links: &Links) {
        let ids: Vec<_> = self.list.iter().filter(|(_, g)| wanted(g)).map(|(id, _)| id).collect();
        for id in ids {
            self.refresh(GatewayId(id), pool, links);
        }
    }
}

impl Gateway {
    /// True when routes lead to it.
    pub(crate) fn is_gateway(&self) -> bool {
        self.refs > u32::from(self.host)
    }

    pub(crate) fn step(&self) -> Step {
        self.adjacency.map_or(self.unresolved, |id| Step::new(Kind::Forward, id.0))
    }
}
