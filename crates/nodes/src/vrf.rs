//! Runs of packets of one VRF.

use std::ops::Range;

use graph::{Node, Packets, View};
use tables::{Ifaces, VrfId};

use crate::lanes::Iface;

/// Calls `f` for each run of packets whose interfaces are in one VRF: in the
/// common case that all interfaces are, once.
#[inline]
pub(crate) fn for_each_vrf<N: Node>(
    v: &mut View<'_, N>,
    ifaces: &Ifaces,
    mut f: impl FnMut(&mut Packets<N>, VrfId, Range<usize>),
) {
    let v: &mut Packets<N> = v;
    let n = v.n();
    let vrf_of = |v: &Packets<N>, i: usize| {
        ifaces.vrf.get(usize::from(v.get(Iface, i).0)).copied().unwrap_or_default()
    };
    if ifaces.one_vrf {
        return f(v, ifaces.vrf.get(1).copied().unwrap_or_default(), 0..n);
    }
    let mut start = 0;
    while start < n {
        let vrf = vrf_of(v, start);
        let end = (start + 1..n).find(|&i| vrf_of(v, i) != vrf).unwrap_or(n);
        f(v, vrf, start..end);
        start = end;
    }
}
