//! The experiments, one file each.

mod lpm;
mod machine;
mod router;

pub use router::fixed;

use crate::Experiment;

/// All experiments, in the order in which they are listed and run.
pub fn all() -> &'static [&'static dyn Experiment] {
    &[
        &machine::limits::Limits,
        &lpm::peers::Peers,
        &router::forward::Forward,
        &router::updates::Updates,
        &router::converge::Converge,
        &router::scale::Scale,
        &router::memory::Memory,
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::all;

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
            assert!(!card.plots.is_empty(), "{} draws nothing", card.name);
        }
    }
}
