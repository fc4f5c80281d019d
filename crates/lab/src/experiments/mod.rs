//! The experiments, one file each.

mod bloomfwd;
mod cuckooswitch;
mod cuvpp;
mod dxr;
mod exact;
mod gatekeeper;
mod lpm;
mod machine;
mod router;
mod sail;
mod switch;
mod times;

pub use router::{fixed, hugepages, memory};
pub use times::seconds;

use crate::Experiment;

/// All experiments, in the order in which they are listed and run.
pub fn all() -> &'static [&'static dyn Experiment] {
    static ALL: &[&dyn Experiment] = &[
        &machine::limits::Limits,
        &lpm::peers::PEERS,
        &lpm::scale::SCALE,
        &lpm::bound::BOUND,
        &lpm::interleave::INTERLEAVE,
        &dxr::TABLE1,
        &dxr::Table2,
        &dxr::FIG3,
        &dxr::Fig4,
        &dxr::FIG5,
        &dxr::FIG6,
        &sail::FIG3_7,
        &sail::FIG3_8,
        &sail::FIG3_9,
        &sail::FIG3_11,
        &sail::Fig312,
        &sail::FIG3_13,
        &sail::TABLE3_2,
        &sail::Table34,
        &sail::TABLE3_5,
        &sail::FIG3_16,
        &sail::FIG3_17,
        &bloomfwd::Table3,
        &bloomfwd::Table4,
        &bloomfwd::Table5,
        &bloomfwd::FIG1,
        &bloomfwd::FIG2,
        &bloomfwd::FIG3,
        &bloomfwd::FIG4,
        &bloomfwd::FIG5,
        &bloomfwd::FIG6,
        &bloomfwd::FIG7,
        &bloomfwd::FIG8,
        &cuvpp::FIG6,
        &cuvpp::FIG7,
        &cuvpp::FIG8,
        &cuvpp::FIG9,
        &cuvpp::FIG10,
        &cuvpp::Fig11,
        &cuvpp::Fig12,
        &cuvpp::TABLE2,
        &cuvpp::Table3,
        &cuvpp::TABLE4,
        &exact::Peers,
        &cuckooswitch::FIG5,
        &cuckooswitch::FIG6,
        &cuckooswitch::FIG7,
        &cuckooswitch::TABLE3,
        &cuckooswitch::Table2,
        &cuckooswitch::FIG8,
        &cuckooswitch::FIG9,
        &cuckooswitch::Fig10,
        &gatekeeper::Fig47,
        &router::forward::Forward,
        &router::hugepages::Hugepages,
        &router::updates::Updates,
        &router::converge::Converge,
        &router::scale::Scale,
        &router::memory::Memory,
        &switch::forward::Forward,
    ];
    ALL
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{all, times::TIMES};

    #[test]
    fn every_experiment_has_a_card() {
        let mut names = BTreeSet::new();
        for card in all().iter().map(|experiment| experiment.card()) {
            let (group, figure) = card.name.split_once('/').expect("a name is `group/figure`");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            assert!(!group.is_empty() && !figure.is_empty(), "{}", card.name);
            assert!(group.chars().all(plain) && figure.chars().all(plain), "{}", card.name);
            assert!(names.insert(card.name), "{} stands there twice", card.name);
            for text in [card.help, card.source, card.claim] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", card.name);
            }
            let known = TIMES.iter().filter(|(name, ..)| *name == card.name).count();
            assert_eq!(known, 1, "{} has no usual time", card.name);
            assert!(!card.plots.is_empty(), "{} draws nothing", card.name);
        }
        assert_eq!(TIMES.len(), all().len());
    }
}
