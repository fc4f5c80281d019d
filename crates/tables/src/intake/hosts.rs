//! Addresses of this machine, and hosts: which VRF's they are.

use std::net::IpAddr;

use crate::control::Control;
use crate::event::LinkId;
use crate::links::Key;
use crate::net::number;
use crate::targets::NextHops;
use crate::{Family, VrfId};

impl Control {
    /// Adds or removes an address of this machine.
    pub(super) fn own(&mut self, vrf: VrfId, ip: IpAddr, is_there: bool) {
        let Some(vrf) = self.vrfs.get_mut(usize::from(vrf.0)) else { return };
        if let Some(addr) = number::<u32>(ip) {
            if is_there { vrf.v4.add_own(addr) } else { vrf.v4.remove_own(addr) }
        } else if let Some(addr) = number::<u128>(ip) {
            if is_there { vrf.v6.add_own(addr) } else { vrf.v6.remove_own(addr) }
        }
    }

    /// Moves a link's addresses and hosts to the VRF that it is in now.
    pub(super) fn rehome(&mut self, link: LinkId) {
        let vrf = self.home(link);
        if let Some((id, _)) = self.next_hops.links.ours(link)
            && let Some(slot) = self.next_hops.links.slot_mut(id)
            && slot.iface.vrf != vrf
        {
            slot.iface.vrf = vrf;
            self.ifaces_changed();
        }
        let Some(state) = self.next_hops.links.get(link) else { return };
        let away: Vec<_> =
            state.addresses.iter().filter(|(_, at)| **at != vrf).map(|(a, at)| (*a, *at)).collect();
        for (address, old) in away {
            self.next_hops.links.set_address(link, address, vrf);
            self.own(old, address.0, false);
            self.own(vrf, address.0, true);
        }
        let known = self.next_hops.links.neighbours().iter();
        let away = known.filter(|((of, _), k)| *of == link && k.host.is_some_and(|at| at != vrf));
        let away: Vec<_> = away.map(|((_, ip), _)| *ip).collect();
        for ip in away {
            self.remove_host(link, ip);
            self.place_host(link, ip);
        }
    }

    /// Lets a resolved neighbour be a host of its VRF, and one that is not
    /// resolved none.
    pub(super) fn place_host(&mut self, link: LinkId, ip: IpAddr) {
        let Some(known) = self.next_hops.links.neighbours().get(&(link, ip)) else { return };
        // A group address is nobody's.
        let mac = known.neighbour.resolved().filter(|mac| mac[0] & 1 == 0);
        let ours = self.next_hops.links.ours(link).is_some();
        if mac.is_none() || !ours || !is_routed(ip) {
            return self.remove_host(link, ip);
        }
        if known.host.is_some() {
            return; // its gateway follows the neighbour
        }
        let (vrf, family) = (self.home(link), Family::of(ip));
        let key = Key { link, ip, family, mtu: 0 };
        let NextHops { gateways, pool, links, .. } = &mut self.next_hops;
        let Some(gateway) = gateways.hold(key, pool, links) else {
            let limit = pool.usage()[0].1;
            let reason = || format!("{limit} hops in use");
            return pool.refused_hops.note(|| ip.to_string(), reason);
        };
        gateways.set_host(gateway, true);
        if let Some(known) = self.next_hops.links.neighbours_mut().get_mut(&(link, ip)) {
            known.host = Some(vrf);
        }
        let state = &mut self.vrfs[usize::from(vrf.0)]; // cannot panic: `home` found it
        let old = match family {
            Family::V4 => number(ip).and_then(|addr| state.v4.add_host(addr, link, gateway)),
            Family::V6 => number(ip).and_then(|addr| state.v6.add_host(addr, link, gateway)),
        };
        if let Some(old) = old {
            self.next_hops.release_host(old);
        }
    }

    pub(super) fn remove_host(&mut self, link: LinkId, ip: IpAddr) {
        let known = self.next_hops.links.neighbours_mut().get_mut(&(link, ip));
        let Some(vrf) = known.and_then(|known| known.host.take()) else { return };
        let state = &mut self.vrfs[usize::from(vrf.0)]; // cannot panic: VRFs stay
        let gateway = match Family::of(ip) {
            Family::V4 => number(ip).and_then(|addr| state.v4.remove_host(addr, link)),
            Family::V6 => number(ip).and_then(|addr| state.v6.remove_host(addr, link)),
        };
        if let Some(gateway) = gateway {
            self.next_hops.release_host(gateway);
        }
    }
}

/// Is the address one that packets are routed to?
fn is_routed(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
    }
}
