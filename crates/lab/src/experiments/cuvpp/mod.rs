//! CuVPP: filter-based IPv6 longest prefix match in a vector packet processor.

mod fig12;
mod forward;
mod lookups;
mod misses;
mod profile;

pub(super) use fig12::Fig12;
pub(super) use forward::{FIG8, FIG9, Fig11};
pub(super) use lookups::{FIG6, FIG7};
pub(super) use misses::Table3;
pub(super) use profile::{FIG10, TABLE2, TABLE4};

use crate::Context;

/// The paper's four data planes.
const ENGINES: &[&str] = &["vpp-hash", "vpp-bloom", "vpp-trie", "cuvpp"];

/// Tables of 0.5 to 2 million prefixes; the ends of that in a quick run.
fn tables(context: &Context, lengths: &str) -> Vec<String> {
    let sizes: &[u32] =
        context.pick(&[500_000, 1_000_000, 1_500_000, 2_000_000], &[500_000, 2_000_000]);
    let names: Vec<String> = sizes.iter().map(|n| format!("{lengths}:{n}")).collect();
    context.tables(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
