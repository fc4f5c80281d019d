//! From hops to steps: what lookup and multipath nodes do with packets that are
//! not simply forwarded.

use graph::{Node, View, labels};
use tables::{Forwarding, Kind, Side, Step};

use crate::class::Class;
use crate::lanes::{Iface, PuntClass};

labels! {
    /// Why packets are dropped by their route.
    pub enum Why {
        /// A blackhole route.
        Blackhole = "blackhole",
        /// An address that must not be routed (RFC 1812 §5.3.7, RFC 6890).
        Martian = "martian",
        /// A group of next hops inside a group.
        NestedGroup = "nested_group",
        /// Its way out is not Rutter's, and its VRF keeps to Rutter's: `[vrf.NAME] via_kernel`.
        ViaKernel = "via_kernel",
        /// The kernel's routes are being listed for the first time, just after the start.
        NotReady = "not_ready",
        /// From the back of a shield, and the kernel would forward it there: its neighbour is not resolved.
        BackToBack = "back_to_back",
    }
}

/// Drops packet `i`, or sends it along `punt` with its class in [`PuntClass`]. `way` is the
/// step of its route: where that has several, the kernel may take another one than `step`.
#[cold]
#[inline(never)]
pub(crate) fn other<N: Node<Drop = Why>>(
    v: &mut View<'_, N>,
    i: usize,
    (step, way): (Step, Step),
    punt: N::Edge,
    forwarding: &Forwarding,
) {
    let class = match step.kind() {
        Kind::NoRoute | Kind::Unreachable => Class::Unreachable,
        Kind::ForUs => Class::ForUs,
        Kind::NoNeighbour | Kind::ViaKernel if back_to_back(v, i, way, forwarding) => {
            return v.drop(i, Why::BackToBack);
        }
        Kind::NoNeighbour => Class::NoNeighbour,
        // Such an interface may lead to networks that ports are kept apart from.
        Kind::ViaKernel if !may_leave(v, i, forwarding) => return v.drop(i, Why::ViaKernel),
        Kind::ViaKernel => Class::ViaKernel,
        Kind::Multicast => Class::Multicast,
        Kind::Blackhole => return v.drop(i, Why::Blackhole),
        Kind::Martian => return v.drop(i, Why::Martian),
        Kind::NotReady => return v.drop(i, Why::NotReady),
        // `Forward` and the first `Multipath` never come here, nor hops of front views.
        Kind::Forward | Kind::Multipath | Kind::Protected | Kind::Bypass | Kind::Discard => {
            return v.drop(i, Why::NestedGroup);
        }
    };
    v.set(PuntClass, i, class);
    v.leave(i, punt);
}

/// Whether packet `i` came in at the back of a shield, and may leave there by this step.
pub(crate) fn back_to_back<N: Node>(
    v: &View<'_, N>,
    i: usize,
    step: Step,
    forwarding: &Forwarding,
) -> bool {
    let ifaces = forwarding.ifaces.load(v.guard());
    ifaces.side(v.get(Iface, i)) == Side::Back
        && ifaces.leads_to_back(step, forwarding.hops.load(v.guard()))
}

/// Whether the VRF of packet `i` lets packets leave by interfaces that are not Rutter's.
fn may_leave<N: Node>(v: &View<'_, N>, i: usize, forwarding: &Forwarding) -> bool {
    let ifaces = forwarding.ifaces.load(v.guard());
    let vrf = ifaces.vrf.get(usize::from(v.get(Iface, i).0)).copied().unwrap_or_default();
    let vrfs = forwarding.vrfs.load(v.guard());
    vrfs.get(usize::from(vrf.0)).is_some_and(|vrf| vrf.via_kernel)
}
