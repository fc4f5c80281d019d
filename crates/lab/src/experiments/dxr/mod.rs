//! DXR: Zec, Rizzo, Mikuc, *DXR: Towards a Billion Routing Lookups per Second in
//! Software*, CCR 2012.

mod fig3;
mod fig6;
mod steps;
mod table1;

pub(super) use fig3::{FIG3, FIG5};
pub(super) use fig6::FIG6;
pub(super) use steps::{Fig4, Table2};
pub(super) use table1::TABLE1;

use crate::lookups::Entrant;

/// The paper's two configurations.
fn d16r_d18r() -> [Entrant; 2] {
    [16, 18].map(|k| Entrant::new("dxr").named(format!("D{k}R")).option("k", k))
}

/// As large as the paper's table from LINX (417,523 prefixes, 213 next hops).
const LINX: &str = "internet:417523,hops=213";
