//! Protections and Grantors, for people.

use std::net::IpAddr;

use lookup::{Hop, Prefix};

use super::ask::answer;
use super::look::{capacity, info_of};
use super::{FibInfo, RouteCursor, RouteFilter};
use crate::control::Control;
use crate::grantors::{Named, Unresolved};
use crate::intake::Tables;
use crate::limits::{Capacity, Refusals};
use crate::net::number;
use crate::protections::{Action, SetId};
use crate::{Family, IfaceId, Net, VrfId};

/// A protection.
#[derive(Clone, Debug, PartialEq)]
pub struct ProtectionInfo {
    /// Whose.
    pub vrf: VrfId,
    /// What it covers.
    pub net: Net,
    /// Its number, for flows and counters.
    pub id: SetId,
    /// What happens to packets from the front.
    pub action: Action,
    /// Its owner's.
    pub options: u32,
    /// Who decides.
    pub grantors: Vec<(Named, GrantorInfo)>,
    /// It is in the front view. Where the engine has refused it, its packets are drops.
    pub in_table: bool,
    /// A network or an address that this router has had since, and that the protection hides
    /// from the front.
    pub hides: Option<Net>,
}

/// A Grantor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantorInfo {
    /// Its number, for counters.
    pub id: u32,
    /// Its address.
    pub ip: IpAddr,
    /// The VRF in which it is sought.
    pub vrf: VrfId,
    /// By which interfaces it is reached, and which stations; or why it is not.
    pub ways: Result<Vec<(IfaceId, [u8; 6])>, Unresolved>,
}

impl Control {
    /// Protections in the order of VRF, family and prefix, from `after` on, `most` at most;
    /// with them where to go on, unless that was all.
    pub fn protections(
        &self,
        filter: &RouteFilter,
        after: Option<RouteCursor>,
        most: usize,
    ) -> (Vec<ProtectionInfo>, Option<RouteCursor>) {
        let mut all = Vec::new();
        for at in 0..self.vrfs.len() {
            let vrf = VrfId(at as u16);
            let passed = after.is_some_and(|after| vrf < after.vrf);
            if passed || filter.vrf.is_some_and(|wanted| wanted != vrf) {
                continue;
            }
            let after = after.filter(|after| after.vrf == vrf).map(|after| after.net);
            let v4 = self.guarded::<u32>(vrf, filter, after);
            for (net, index) in v4.chain(self.guarded::<u128>(vrf, filter, after)) {
                if all.len() == most.max(1) {
                    return (all, Some(RouteCursor { vrf, net }));
                }
                all.extend(self.protection_info(index));
            }
        }
        (all, None)
    }

    /// The protection of a prefix.
    pub fn protection(&self, vrf: VrfId, net: Net) -> Option<ProtectionInfo> {
        let filter = RouteFilter { vrf: Some(vrf), inside: Some(net), ..RouteFilter::default() };
        let (all, _) = self.protections(&filter, None, 1);
        all.into_iter().find(|found| found.net == net)
    }

    /// The prefix that flows of this number are protected by; `None` for a stale number.
    pub fn protection_of(&self, id: SetId) -> Option<(VrfId, Net)> {
        let guard = self.guards.get(id.index).filter(|guard| guard.id == id)?;
        Some((guard.vrf, guard.net))
    }

    /// All Grantors, by VRF and address.
    pub fn grantors(&self) -> Vec<GrantorInfo> {
        let mut all = Vec::new();
        for (at, state) in self.vrfs.iter().enumerate() {
            let vrf = VrfId(at as u16);
            let v4 = state.v4.grantors.addresses().map(ip_of);
            let ips = v4.chain(state.v6.grantors.addresses().map(ip_of));
            all.extend(ips.filter_map(|ip| self.grantor_info(vrf, ip)));
        }
        all
    }

    /// The tables of protections, by VRF and family, where there are some: engine, memory.
    /// Their routes are the protections.
    pub fn front_fibs(&self) -> Vec<FibInfo> {
        let mut all = Vec::new();
        for (at, state) in self.vrfs.iter().enumerate() {
            let vrf = VrfId(at as u16);
            let (v4, v6) = (&state.v4.front, &state.v6.front);
            all.extend(v4.fib.iter().map(|fib| info_of(vrf, fib, v4.prefixes.len() as u64, 0)));
            all.extend(v6.fib.iter().map(|fib| info_of(vrf, fib, v6.prefixes.len() as u64, 0)));
        }
        all
    }

    /// Nothing, where there is no front view.
    pub(super) fn shield_capacity(&self, all: &mut Vec<Capacity>) {
        for (at, state) in self.vrfs.iter().enumerate() {
            let vrf = VrfId(at as u16);
            let mut engine = |family, used: usize, limit, refusals: &Refusals| {
                let of = Some((vrf, family));
                let line = ("front prefixes", Some("engine"));
                all.push(capacity(line.0, of, used as u64, limit, refusals, line.1));
            };
            if let Some(fib) = &state.v4.front.fib {
                engine(Family::V4, fib.rib().len(), fib.max_prefixes(), &fib.refusals);
            }
            if let Some(fib) = &state.v6.front.fib {
                engine(Family::V6, fib.rib().len(), fib.max_prefixes(), &fib.refusals);
            }
        }
        if self.guards.len() > 0 || self.vrfs.iter().any(|vrf| vrf.has_front) {
            let (used, limit) = (self.guards.len() as u64, Some(self.limits.protections as u64));
            let refusals = &self.refused_protections;
            all.push(capacity("protections", None, used, limit, refusals, None));
            let unfit = &self.unfit_protections;
            if unfit.count > 0 {
                all.push(capacity("protections that do not fit", None, 0, None, unfit, None));
            }
            let grantors =
                |vrf: &crate::control::VrfState| vrf.v4.grantors.len() + vrf.v6.grantors.len();
            let used = self.vrfs.iter().map(grantors).sum::<usize>() as u64;
            all.push(capacity("grantors", None, used, None, &Refusals::default(), None));
        }
    }

    /// Prefixes and their indices.
    fn guarded<A: Tables>(
        &self,
        vrf: VrfId,
        filter: &RouteFilter,
        after: Option<Net>,
    ) -> impl Iterator<Item = (Net, u32)> + '_ {
        let family = Family::of_addr::<A>();
        let other = |wanted: Option<Family>| wanted.is_some_and(|wanted| wanted != family);
        let passed = after.is_some_and(|after| after.family() > family);
        let none = passed || other(filter.family) || other(filter.inside.map(|net| net.family()));
        let outer = filter.inside.and_then(|net| net.prefix::<A>()).unwrap_or(Prefix::all());
        let from = after.and_then(|net| net.prefix::<A>()).unwrap_or(outer);
        let prefixes = &A::table_ref(&self.vrfs[usize::from(vrf.0)]).front.prefixes; // cannot panic: the caller counted
        let inside = prefixes.range(from..).take_while(move |(prefix, _)| outer.covers(prefix));
        inside.filter(move |_| !none).map(|(prefix, index)| (Net::from(*prefix), *index))
    }

    fn protection_info(&self, index: u32) -> Option<ProtectionInfo> {
        let guard = self.guards.get(index)?;
        let state = self.vrfs.get(usize::from(guard.vrf.0))?;
        let in_table = match guard.net.family() {
            Family::V4 => state.v4.front.holds(&guard.net.prefix()?, guard.hop),
            Family::V6 => state.v6.front.holds(&guard.net.prefix()?, guard.hop),
        };
        let grantors = guard.grantors.iter();
        let info = |named: &Named| Some((*named, self.grantor_info(guard.vrf, named.ip)?));
        Some(ProtectionInfo {
            vrf: guard.vrf,
            net: guard.net,
            id: guard.id,
            action: guard.action,
            options: guard.options,
            grantors: grantors.filter_map(info).collect(),
            in_table,
            hides: self.own_network(guard.vrf, guard.net),
        })
    }

    fn grantor_info(&self, vrf: VrfId, ip: IpAddr) -> Option<GrantorInfo> {
        let state = self.vrfs.get(usize::from(vrf.0))?;
        let (id, way) = match Family::of(ip) {
            Family::V4 => state.v4.grantors.state(number(ip)?)?,
            Family::V6 => state.v6.grantors.state(number(ip)?)?,
        };
        let hops = self.next_hops.pool.table();
        let ways = way.map(|hop: Hop| answer(hop, hops).ways);
        Some(GrantorInfo { id, ip, vrf, ways })
    }
}

fn ip_of<A: lookup::Addr>(addr: A) -> IpAddr {
    Net::from(Prefix::covering(addr, A::WIDTH)).addr()
}
