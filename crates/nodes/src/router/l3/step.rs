//! From hops to steps: what lookup and multipath nodes do with packets that are
//! not simply forwarded.

use graph::{Node, View, labels};
use tables::{Kind, Step};

use crate::class::Class;
use crate::lanes::PuntClass;

labels! {
    /// Why packets are dropped by their route.
    pub enum Why {
        /// A blackhole route.
        Blackhole = "blackhole",
        /// An address that must not be routed (RFC 1812 §5.3.7, RFC 6890).
        Martian = "martian",
        /// A group of next hops inside a group.
        NestedGroup = "nested_group",
    }
}

/// Drops packet `i`, or sends it along `punt` with its class in [`PuntClass`].
#[cold]
#[inline(never)]
pub(crate) fn other<N: Node<Drop = Why>>(v: &mut View<'_, N>, i: usize, step: Step, punt: N::Edge) {
    let class = match step.kind() {
        Kind::NoRoute | Kind::Unreachable => Class::Unreachable,
        Kind::ForUs => Class::ForUs,
        Kind::NoNeighbour => Class::NoNeighbour,
        Kind::ViaKernel => Class::ViaKernel,
        Kind::Multicast => Class::Multicast,
        Kind::Blackhole => return v.drop(i, Why::Blackhole),
        Kind::Martian => return v.drop(i, Why::Martian),
        // `Forward` and the first `Multipath` never come here.
        Kind::Forward | Kind::Multipath => return v.drop(i, Why::NestedGroup),
    };
    v.set(PuntClass, i, class);
    v.leave(i, punt);
}
