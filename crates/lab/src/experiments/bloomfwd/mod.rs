//! Bloomfwd: Lucas, Teodoro et al., Bloom-filter longest prefix match on
//! many-core processors.

mod counts;
mod ipv4;
mod ipv6;

pub(super) use counts::{Table3, Table4, Table5};
pub(super) use ipv4::{FIG1, FIG2, FIG3, FIG4, FIG5, FIG6};
pub(super) use ipv6::{FIG7, FIG8};

/// As large as the paper's table AS65000 (622,607 prefixes).
const AS65000: &str = "internet:622607";

/// As large as the paper's table AS65000-V6.
const AS65000_V6: &str = "internet6:31645";
