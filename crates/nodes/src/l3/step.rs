//! From hops to steps: what both families' lookup and multipath nodes do after
//! they know a packet's hop.

use graph::{Node, View, labels};
use lookup::Hop;
use tables::{HopTable, Kind, Step};

use crate::class::Class;

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

/// What packets of a step do that neither forwards nor has several paths.
pub(crate) enum Other {
    Punt(Class),
    Drop(Why),
}

/// The rarer kinds of step.
#[cold]
pub(crate) fn other(step: Step) -> Other {
    match step.kind() {
        Kind::NoRoute | Kind::Unreachable => Other::Punt(Class::Unreachable),
        Kind::ForUs => Other::Punt(Class::ForUs),
        Kind::NoNeighbour => Other::Punt(Class::NoNeighbour),
        Kind::ViaKernel => Other::Punt(Class::ViaKernel),
        Kind::Multicast => Other::Punt(Class::Multicast),
        Kind::Blackhole => Other::Drop(Why::Blackhole),
        Kind::Martian => Other::Drop(Why::Martian),
        // `Forward` and the first `Multipath` never come here.
        Kind::Forward | Kind::Multipath => Other::Drop(Why::NestedGroup),
    }
}

/// A node that sends packets on by their hop.
pub(crate) trait ByHop: Node<Drop = Why> {
    /// The edge of packets whose adjacency is known (in `key32`).
    const REWRITE: Self::Edge;
    /// The edge of packets with several paths; their group is in `key32`.
    const MULTIPATH: Option<Self::Edge>;
    /// The edge of packets for the kernel; their class is in `out`.
    const PUNT: Self::Edge;
}

/// Gives packet `i` the edge of its hop.
#[inline(always)]
pub(crate) fn take<N: ByHop>(v: &mut View<'_, N>, i: usize, hop: Hop, hops: &HopTable) {
    let step = hops.step(hop);
    v.key32[i] = step.index();
    if step.code() == Kind::Forward as u8 {
        v.leave(i, N::REWRITE);
    } else if step.code() == Kind::Multipath as u8
        && let Some(multipath) = N::MULTIPATH
    {
        v.leave(i, multipath);
    } else {
        match other(step) {
            Other::Punt(class) => {
                v.out[i] = class as u16;
                v.leave(i, N::PUNT);
            }
            Other::Drop(why) => v.drop(i, why),
        }
    }
}
