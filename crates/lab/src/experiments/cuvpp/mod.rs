//! CuVPP: filter-based IPv6 longest prefix match in a vector packet processor.

experiments! {
    mod lookups: FIG6,
    in lookups: FIG7,
    mod forward: FIG8,
    in forward: FIG9,
    mod profile: FIG10,
    in forward: Fig11,
    mod fig12: Fig12,
    in profile: TABLE2,
    mod misses: Table3,
    in profile: TABLE4,
}

use crate::Context;

/// The paper's four data planes.
const ENGINES: &[&str] = &["vpp-hash", "vpp-bloom", "vpp-trie", "cuvpp"];

/// Tables of 0.5 to 2 million prefixes; the ends of that in a quick run.
fn tables(context: &Context, lengths: &str) -> Vec<String> {
    let sizes: &[u32] =
        context.pick(&[500_000, 1_000_000, 1_500_000, 2_000_000], &[500_000, 2_000_000]);
    let names: Vec<String> = sizes.iter().map(|n| format!("{lengths}:{n}")).collect();
    context.beside(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
