//! Bloomfwd: Lucas, Teodoro et al., Bloom-filter longest prefix match on
//! many-core processors.

experiments! {
    mod counts: Table3,
    in counts: Table4,
    in counts: Table5,
    mod ipv4: FIG1,
    in ipv4: FIG2,
    in ipv4: FIG3,
    in ipv4: FIG4,
    in ipv4: FIG5,
    in ipv4: FIG6,
    mod ipv6: FIG7,
    in ipv6: FIG8,
    mod cooperation: Fig9,
    in cooperation: Fig10,
}

mod averages;

use crate::lookups::Entrant;

/// Each with no vector instructions (`portable`), and as the paper has them, where
/// Bloomfwd alone is written for vectors (`the paper's`).
fn as_in_the_paper(entrants: &[Entrant]) -> Vec<Entrant> {
    let portable = |entrant: &Entrant| match entrant.engine.starts_with("miht") {
        true => entrant.clone(),
        false => entrant.clone().option("isa", "portable"),
    };
    let papers = |entrant: &Entrant| match entrant.engine.starts_with("bloomfwd") {
        true => entrant.clone(),
        false => portable(entrant),
    };
    let equal = entrants.iter().map(|entrant| portable(entrant).label("isa", "portable"));
    equal.chain(entrants.iter().map(|one| papers(one).label("isa", "the paper's"))).collect()
}

/// Of several rates; of one there is nothing to say.
fn best_over_worst(rates: Vec<f64>) -> Option<f64> {
    let most = rates.iter().copied().reduce(f64::max)?;
    let least = rates.iter().copied().reduce(f64::min)?;
    (rates.len() > 1).then(|| most / least)
}

/// As large as the paper's table AS65000 (622,607 prefixes).
const AS65000: &str = "internet:622607";

/// As large as the paper's table AS65000-V6.
const AS65000_V6: &str = "internet6:31645";
