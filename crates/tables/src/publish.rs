//! What readers are given whole: interfaces, and the tables of all VRFs.

use crate::control::{Control, VrfState};
use crate::forwarding::{FrontView, Vrf};
use crate::{Iface, Ifaces, Side};

impl Control {
    /// Takes finished builds in.
    pub(crate) fn tend_fibs(&mut self) {
        let (builder, memory) = (&mut self.builder, &self.next_hops.pool.memory);
        let mut swapped = false;
        for vrf in &mut self.vrfs {
            swapped |= vrf.v4.fib.poll(builder, memory);
            swapped |= vrf.v6.fib.poll(builder, memory);
            swapped |= vrf.v4.front.poll(&vrf.v4.fib, builder, memory);
            swapped |= vrf.v6.front.poll(&vrf.v6.fib, builder, memory);
            swapped |= vrf.v4.listing.is_done_by(&vrf.v4.fib);
            swapped |= vrf.v6.listing.is_done_by(&vrf.v6.fib);
        }
        if swapped {
            self.publish_vrfs();
        }
    }

    /// Publishes interfaces where they have changed, and first what those at the front need.
    pub(crate) fn publish_sides(&mut self) {
        if !std::mem::take(&mut self.ifaces_changed) {
            return;
        }
        let mut ifaces = Ifaces::new(self.next_hops.links.published());
        ifaces.own = self.next_hops.links.own();
        let mut changed = false;
        for (at, vrf) in self.vrfs.iter_mut().enumerate() {
            let front = |iface: &Iface| iface.side == Side::Front && usize::from(iface.vrf.0) == at;
            let has_front = ifaces.list.iter().any(front);
            changed |= std::mem::replace(&mut vrf.has_front, has_front) != has_front;
        }
        if changed {
            self.publish_vrfs();
        }
        self.forwarding.ifaces.publish(ifaces);
    }

    /// Publishes what is to be looked up in.
    pub(crate) fn publish_vrfs(&self) {
        let tables = |vrf: &VrfState| {
            let (v4, v6) = (vrf.v4.listing.view(&vrf.v4.fib), vrf.v6.listing.view(&vrf.v6.fib));
            let has_front =
                vrf.has_front || vrf.v4.front.fib.is_some() || vrf.v6.front.fib.is_some();
            let front = has_front.then(|| FrontView {
                v4: vrf.v4.front.view(v4.clone()),
                v6: vrf.v6.front.view(v6.clone()),
            });
            let (via_kernel, own_sources) = (vrf.via_kernel, vrf.own_sources);
            Vrf { v4, v6, via_kernel, own_sources, front }
        };
        self.forwarding.vrfs.publish(self.vrfs.iter().map(tables).collect());
    }
}
