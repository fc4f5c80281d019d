//! Bloomfwd for IPv6: levels chosen for the table by dynamic programming (DPCPE).
//!
//! ```text
//!    levels   {33, 38, 44, 48, 64}, say: each a filter and a table, hashed as `bloomfwd`
//!    deep     what is longer than /64: see `deep`
//! ```
//!
//! | operation | cost                                                          |
//! |-----------|---------------------------------------------------------------|
//! | lookup    | for each level a hash in vectors, k filter reads; 2 reads for each |
//! |           | that passes; in a /64 with deep prefixes 2 for each of their lengths |
//! | build     | the choice of levels, then the keys: 7 to 12 a prefix at 5 levels, |
//! |           | 4 with `choice = "optimal"`                                    |
//! | update    | a prefix's own keys; more than 65,536, or in all a quarter more |
//! |           | than other levels would need: built anew                      |
//! | memory    | 20 bytes and 2.5 bits a key; the writer: a byte a filter bit  |
//!
//! Source: Lucchesi et al., 2018, section 4.2. The paper's DPCPE is greedy: it adds
//! one best length after the other (option `choice = "greedy"`, the default);
//! `optimal` is the exact optimum of the same cost. We differ: where the levels asked
//! for would need more than 32 keys a prefix and 65,536, one more is taken until they
//! do not (the paper's 3 levels did not fit its machine); `levels = "none"` has a level
//! for each length present; /65-/128 work.

use std::sync::Arc;

use super::MAX_PREFIXES;
use super::expand::{greedy, optimal};
use super::hashing::Combined;
use super::plan::{Choice, Plan, RATE, hash, rate, with_hash};
use super::writer::exported as build;
use crate::lpm::isa::{self, Isa};
use crate::lpm::{Card, Entry, Exported, Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Hop, Rib};

/// The registry's line.
pub const ENTRY: Entry<u128> = Entry { card: &CARD, build: build_six };

const CARD: Card = Card {
    name: "bloomfwd6",
    paper: "Lucchesi et al.: High-performance IP lookup using Intel Xeon Phi (2018)",
    help: "Bloom filters and hash tables for a few lengths chosen by DPCPE; updates in place",
    max_hop: Hop::MAX.0,
    max_len: 128,
    max_prefixes: Some(MAX_PREFIXES),
    options: &[
        isa::OPTION,
        RATE,
        ("hash", "murmur", "murmur, knuth or h2"),
        (
            "levels",
            "5",
            "number of lengths to which prefixes up to /64 are expanded: 3 to 8, or none",
        ),
        ("choice", "greedy", "how these lengths are chosen: greedy (the paper's) or optimal"),
    ],
};

fn build_six(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    Ok(exported(rib, options, domain)?.writer)
}

/// The table, and what copies it.
pub(in crate::lpm) fn exported(
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Exported<u128>, Refusal> {
    let n = |text: &String| text == "none" || matches!(text.parse(), Ok(3..=8));
    let n: Option<usize> = options.get(&CARD, "levels", n)?.parse().ok();
    let choice = options
        .get(&CARD, "choice", |text: &String| ["greedy", "optimal"].contains(&text.as_str()))?;
    let best = if choice == "greedy" { greedy } else { optimal };
    let choice = n.map(|n| Choice { n, best });
    let plan = Plan {
        levels: choice.map_or_else(|| present(rib), |choice| choice.levels(rib)),
        choice,
        direct: None,
        rate: rate(&CARD, options)?,
        equal: false,
        most_keys: if n.is_none() { 1 } else { 1 << 16 },
        isa: Isa::choose(&CARD, options)?,
    };
    let named = hash(&CARD, options)?;
    with_hash!(named, build::<u128, 2, Combined>(&CARD, rib, options, domain, &plan))
}

/// The lengths that prefixes have, and /64, in which deep ones are marked.
fn present(rib: &Rib<u128>) -> Vec<u8> {
    (1..=64).filter(|&len| len == 64 || rib.count_of_len(len) > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::lpm::oracle::conformance!(u128, ENTRY);
    crate::lpm::oracle::conformance!(none: u128, ENTRY, "levels" = "none", "isa" = "portable");
    crate::lpm::oracle::conformance!(
        optimal: u128, ENTRY, "levels" = "3", "choice" = "optimal", "hash" = "knuth"
    );
    crate::lpm::oracle::conformance!(h2: u128, ENTRY, "levels" = "8", "hash" = "h2");

    #[test]
    fn levels_are_as_many_as_asked_for_unless_that_costs_too_much() {
        let choice = Choice { n: 3, best: greedy };
        let route = |i: u128, len| (crate::Prefix::covering(i << 80, len), Hop(1));
        let near: Rib<u128> = (0..1000).flat_map(|i| [48, 47, 46].map(|n| route(i, n))).collect();
        assert_eq!(choice.levels(&near).len(), 3);
        // Many /33 and /48: both need levels, and 31 bits to /64 cannot be bridged.
        let far: Rib<u128> =
            (1..1000).flat_map(|i| (1..=16).map(move |n| route(i << 16, 4 * n))).collect();
        assert!(choice.levels(&far).len() > 3);
    }

    #[test]
    fn levels_for_other_routes_are_outgrown() {
        let choice = Choice { n: 3, best: optimal };
        let of = |lens: [u8; 3]| -> Rib<u128> {
            let route = |i: u128, len| (crate::Prefix::covering(i << 90, len), Hop(1));
            (1..3000).flat_map(|i| lens.map(|len| route(i, len))).collect()
        };
        let (before, now) = (of([36, 48, 64]), of([33, 44, 60]));
        let levels = choice.levels(&before);
        assert_eq!(levels, [36, 48, 64]);
        assert!(!choice.is_outgrown(&before, &levels));
        assert!(choice.is_outgrown(&now, &levels));
        assert!(!choice.is_outgrown(&now, &choice.levels(&now)));
    }
}
