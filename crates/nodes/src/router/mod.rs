//! The router.
//!
//! ```text
//!  ethernet_input ─┬► ip4_input ─► ip4_lookup ─┬───────────────────► ip4_rewrite ─┐
//!                  │                           └► ip4_multipath ────► ip4_rewrite ├► output
//!                  └► ip6_input ─► … the same … ───────────────────► ip6_rewrite ─┘
//!                                              any node ─► punt, drop
//! ```

pub mod l3;
pub mod rewrite;

use graph::Card;

use crate::assembly::{Assembly, Common};
use crate::family::{Family, V4, V6};
use l3::{ip_lookup, ip_multipath, ip_source, ip4_input, ip4_link_local, ip6_input};
use rewrite::ip_rewrite;

/// Its nodes.
pub const NODES: &[Card] = &[
    Card::of::<ip4_input::Ip4Input>(),
    Card::of::<ip4_link_local::Ip4LinkLocal>(),
    Card::of::<ip_source::Sources<V4>>(),
    Card::of::<ip_lookup::Lookup<V4>>(),
    Card::of::<ip_multipath::Multipath<V4>>(),
    Card::of::<ip6_input::Ip6Input>(),
    Card::of::<ip_source::Sources<V6>>(),
    Card::of::<ip_lookup::Lookup<V6>>(),
    Card::of::<ip_multipath::Multipath<V6>>(),
    Card::of::<ip_rewrite::Rewrite<V4>>(),
    Card::of::<ip_rewrite::Rewrite<V6>>(),
];

/// Adds the router.
pub fn add(assembly: Assembly) -> Assembly {
    let link_local = ip4_link_local::Ip4LinkLocal::new(assembly.common.forwarding.clone());
    let assembly = family::<V4>(assembly.node(ip4_input::Ip4Input).node(link_local));
    family::<V6>(assembly.node(ip6_input::Ip6Input))
}

/// Adds the nodes that drop what claims to come from this machine, where a VRF wants it:
/// [`Vrf::own_sources`](tables::Vrf::own_sources). They lie on the way of every packet.
pub fn check_sources(assembly: Assembly) -> Assembly {
    sources::<V6>(sources::<V4>(assembly))
}

fn sources<F: Family>(assembly: Assembly) -> Assembly {
    let node = ip_source::Sources::<F>::new(assembly.common.forwarding.clone());
    assembly.node(node).connect(F::INPUT, F::LOOKUP, F::SOURCE).connect(
        F::SOURCE,
        "lookup",
        F::LOOKUP,
    )
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
        .connect(F::LOOKUP, "multipath", F::MULTIPATH)
        .connect(F::LOOKUP, "rewrite", F::REWRITE)
        .connect(F::MULTIPATH, "rewrite", F::REWRITE)
}
