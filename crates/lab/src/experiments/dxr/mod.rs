//! DXR: Zec, Rizzo, Mikuc, *DXR: Towards a Billion Routing Lookups per Second in
//! Software*, CCR 2012.

experiments! {
    mod table1: TABLE1,
    mod steps: Table2,
    mod fig3: FIG3,
    in steps: Fig4,
    in fig3: FIG5,
    mod fig6: FIG6,
}

use crate::lookups::Entrant;

/// The paper's two configurations.
fn d16r_d18r() -> [Entrant; 2] {
    [16, 18].map(|k| Entrant::new("dxr").named(format!("D{k}R")).option("k", k))
}

/// As large as today's, which the paper's claims are not about.
const TODAY: &str = "internet:1000000";

/// As large as the paper's table from LINX (417,523 prefixes, 213 next hops).
const LINX: &str = "internet:417523,hops=213";
