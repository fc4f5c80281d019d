//! The router.
//!
//! ```text
//!  ethernet_input ─┬► ip4_input ─► ip4_lookup ─┬───────────────────► ip4_rewrite ─┐
//!                  │                           └► ip4_multipath ────► ip4_rewrite ├► output
//!                  └► ip6_input ─► … the same … ───────────────────► ip6_rewrite ─┘
//!                                              any node ─► punt, drop
//! ```
//!
//! With a shield ([`shield`]):
//!
//! ```text
//!  ip4_input ─► ip4_front ─┬► ip4_lookup ─► … ─► ip4_sides ─► ip4_rewrite
//!                          └► the shield's node ─► ip4_lookup (passed), ip4_rewrite (to a Grantor)
//! ```

pub mod l3;
pub mod rewrite;

use graph::Card;

use crate::assembly::{Assembly, Common};
use crate::family::{Family, V4, V6};
use l3::{
    ip_front, ip_lookup, ip_multipath, ip_sides, ip_source, ip4_input, ip4_link_local, ip6_input,
};
use rewrite::ip_rewrite;

/// Its nodes.
pub const NODES: &[Card] = &[
    Card::of::<ip4_input::Ip4Input>(),
    Card::of::<ip4_link_local::Ip4LinkLocal>(),
    Card::of::<ip_source::Sources<V4>>(),
    Card::of::<ip_front::Front<V4>>(),
    Card::of::<ip_lookup::Lookup<V4>>(),
    Card::of::<ip_multipath::Multipath<V4>>(),
    Card::of::<ip6_input::Ip6Input>(),
    Card::of::<ip_source::Sources<V6>>(),
    Card::of::<ip_front::Front<V6>>(),
    Card::of::<ip_lookup::Lookup<V6>>(),
    Card::of::<ip_multipath::Multipath<V6>>(),
    Card::of::<ip_sides::Sides<V4>>(),
    Card::of::<ip_sides::Sides<V6>>(),
    Card::of::<ip_rewrite::Rewrite<V4>>(),
    Card::of::<ip_rewrite::Rewrite<V6>>(),
];

/// Adds the router.
pub fn add(assembly: Assembly) -> Assembly {
    let link_local = ip4_link_local::Ip4LinkLocal::new(assembly.common.forwarding.clone());
    let [uncut4, uncut6] = [assembly.uncut.clone(), assembly.uncut.clone()];
    let input = ip4_input::Ip4Input(uncut4);
    let assembly = family::<V4>(assembly.node(input).node(link_local));
    family::<V6>(assembly.node(ip6_input::Ip6Input(uncut6)))
}

/// Adds the nodes that drop what claims to come from this machine, where a VRF wants it:
/// [`Vrf::own_sources`](tables::Vrf::own_sources). They lie on the way of every packet.
pub fn check_sources(assembly: Assembly) -> Assembly {
    sources::<V6>(sources::<V4>(assembly))
}

fn sources<F: Family>(assembly: Assembly) -> Assembly {
    let node = ip_source::Sources::<F>::new(assembly.common.forwarding.clone());
    assembly
        .node(node)
        .connect(F::INPUT, F::LOOKUP, F::SOURCE)
        .connect(F::INPUT, "longer", F::SOURCE)
        .connect(F::SOURCE, "lookup", F::LOOKUP)
}

/// Adds what a shield needs: packets from the front are looked up in the front view, and go
/// to the nodes `to` (by family) where a protection covers them; none goes from one side to
/// the same. After [`check_sources`], where that is wanted: `sources`.
pub fn shield(assembly: Assembly, sources: bool, [v4, v6]: [&'static str; 2]) -> Assembly {
    sided::<V6>(sided::<V4>(assembly, sources, v4), sources, v6)
}

fn sided<F: Family>(assembly: Assembly, sources: bool, to: &'static str) -> Assembly {
    let forwarding = &assembly.common.forwarding;
    let front = ip_front::Front::<F>::new(forwarding.clone());
    let sides = ip_sides::Sides::<F>::new(forwarding.clone());
    let longer = assembly.longer.contains(&F::LONGER).then_some(F::LONGER);
    let first = if sources { F::SOURCE } else { F::FRONT };
    let (before, edge) = if sources { (F::SOURCE, "lookup") } else { (F::INPUT, F::LOOKUP) };
    let mut assembly = assembly.node(front).node(sides);
    if longer.is_some() {
        assembly = assembly.connect(F::LONGER, "lookup", first);
    }
    assembly
        .connect(F::INPUT, "longer", longer.unwrap_or(first))
        .connect(before, edge, F::FRONT)
        .connect(F::FRONT, "lookup", F::LOOKUP)
        .connect(F::FRONT, "shield", to)
        .connect(F::LOOKUP, "rewrite", F::SIDES)
        .connect(F::MULTIPATH, "rewrite", F::SIDES)
        .connect(F::SIDES, "rewrite", F::REWRITE)
}

/// Leads packets to the nodes `to` (by family) before they are looked up in the plain view:
/// to those of a Grantor. After [`check_sources`] and [`shield`](fn@shield), where they are
/// wanted.
pub fn tunnels(
    assembly: Assembly,
    (sources, shield): (bool, bool),
    [v4, v6]: [&'static str; 2],
) -> Assembly {
    let before = (sources, shield);
    before_lookup::<V6>(before_lookup::<V4>(assembly, before, v4), before, v6)
}

fn before_lookup<F: Family>(
    assembly: Assembly,
    before: (bool, bool),
    to: &'static str,
) -> Assembly {
    match before {
        (_, true) => assembly.connect(F::FRONT, "lookup", to),
        (true, false) => assembly.connect(F::SOURCE, "lookup", to),
        (false, false) => assembly.connect(F::INPUT, F::LOOKUP, to).connect(F::INPUT, "longer", to),
    }
}

/// The nodes that both families have.
fn family<F: Family>(assembly: Assembly) -> Assembly {
    let Common { forwarding, counters, hasher, .. } = &assembly.common;
    let lookup = ip_lookup::Lookup::<F>::new(forwarding.clone());
    let multipath = ip_multipath::Multipath::<F>::new(forwarding.clone(), *hasher);
    let rewrite = ip_rewrite::Rewrite::<F>::new(forwarding.clone(), counters.clone());
    assembly
        .node(lookup)
        .node(multipath)
        .node(rewrite)
        .connect(F::INPUT, "longer", F::LOOKUP)
        .connect(F::LOOKUP, "multipath", F::MULTIPATH)
        .connect(F::LOOKUP, "rewrite", F::REWRITE)
        .connect(F::MULTIPATH, "rewrite", F::REWRITE)
}
