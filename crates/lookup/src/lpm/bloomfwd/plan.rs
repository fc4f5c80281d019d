//! What the options of an engine ask for: levels, filters, instructions.

use super::MAX_PREFIXES;
use super::expand::{Counts, cost};
use crate::lpm::isa::Isa;
use crate::lpm::{Card, Options, Refusal};
use crate::{Addr, Rib};

/// The shape of a table, before it is built.
pub(super) struct Plan {
    /// Ascending; the last is the longest length that a key can have.
    pub levels: Vec<u8>,
    /// What chose these levels for the routes; `None` where they are what they are.
    pub choice: Option<Choice>,
    /// Bits of the direct array, which takes what is not longer.
    pub direct: Option<u8>,
    /// False positives of each filter.
    pub rate: f64,
    /// All filters get the size of the largest.
    pub equal: bool,
    /// Keys that one change may write; more: the table is built anew.
    pub most_keys: u64,
    pub isa: Isa,
}

impl Plan {
    /// Every length a level; and the hash, both by the options.
    pub fn by_length(
        card: &'static Card,
        options: &Options,
        equal: bool,
    ) -> Result<(Self, Named), Refusal> {
        let (rate, isa) = (rate(card, options)?, Isa::choose(card, options)?);
        let levels = (1..=32).collect();
        let plan = Plan { levels, choice: None, direct: None, rate, equal, most_keys: 1, isa };
        Ok((plan, hash(card, options)?))
    }

    /// /24, /32, and an array of /20; and the hash, both by the options.
    pub fn four(
        card: &'static Card,
        rib: &Rib<u32>,
        options: &Options,
    ) -> Result<(Self, Named), Refusal> {
        let (rate, isa) = (rate(card, options)?, Isa::choose(card, options)?);
        let (levels, direct) = (vec![24, 32], Some(20));
        let (choice, most_keys) = (None, 1 << 8);
        let plan = Plan { levels, choice, direct, rate, equal: false, most_keys, isa };
        admit_expansion(card, rib, &plan)?;
        Ok((plan, hash(card, options)?))
    }
}

/// Levels for the routes that there are: `n`, or as many more as keep the keys within a limit.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub n: usize,
    /// The best `n` levels up to a length, by the prefixes of each length.
    pub best: fn(&Counts, usize, u8) -> Vec<u8>,
}

impl Choice {
    /// The levels for `rib`'s prefixes of up to 64 bits.
    pub fn levels<A: Addr>(self, rib: &Rib<A>) -> Vec<u8> {
        let (counts, limit) = (counts(rib), (KEYS_A_PREFIX * rib.len() + SPARE_KEYS) as u128);
        let levels = (self.n..64).map(|n| (self.best)(&counts, n, 64));
        let within = |levels: &Vec<u8>| cost(&counts, levels) <= limit;
        levels.into_iter().find(within).unwrap_or_else(|| (1..=64).collect())
    }

    /// Whether `rib` at `levels`, chosen for routes of before, is many more keys than need be.
    pub fn is_outgrown<A: Addr>(self, rib: &Rib<A>, levels: &[u8]) -> bool {
        let counts = counts(rib);
        let need = cost(&counts, &self.levels(rib));
        cost(&counts, levels) > need + need / 4 + FEW_KEYS
    }
}

fn counts<A: Addr>(rib: &Rib<A>) -> Counts {
    let mut counts = [0; 129];
    (1..=64).for_each(|len| counts[usize::from(len)] = rib.count_of_len(len) as u64);
    counts
}

/// Refuses a table that would become too many keys.
fn admit_expansion(card: &'static Card, rib: &Rib<u32>, plan: &Plan) -> Result<(), Refusal> {
    let mut counts = [0; 129];
    let from = plan.direct.unwrap_or(0) + 1;
    (from..=32).for_each(|len| counts[usize::from(len)] = rib.count_of_len(len) as u64);
    let keys = cost(&counts, &plan.levels);
    if keys <= MAX_PREFIXES.into() {
        return Ok(());
    }
    Err(card.refuse(format!("expanded, {keys} keys exceed {MAX_PREFIXES}")))
}

/// The option `rate`.
pub(super) const RATE: (&str, &str, &str) =
    ("false_positives", "0.3", "rate of false positives of each filter, 0.0001 to 0.9");

pub(super) fn rate(card: &'static Card, options: &Options) -> Result<f64, Refusal> {
    options.get(card, RATE.0, |rate| (0.0001..=0.9).contains(rate))
}

/// The hash function that the option `hash` names.
pub(super) enum Named {
    Murmur,
    Knuth,
    H2,
}

/// Reads the option `hash`, whose default is the card's.
pub(super) fn hash(card: &'static Card, options: &Options) -> Result<Named, Refusal> {
    let known = |name: &String| ["murmur", "knuth", "h2"].contains(&name.as_str());
    Ok(match options.get(card, "hash", known)?.as_str() {
        "murmur" => Named::Murmur,
        "knuth" => Named::Knuth,
        _ => Named::H2,
    })
}

/// Builds with the scheme `$scheme` over the hash that `$named` names.
macro_rules! with_hash {
    ($named:expr, $build:ident::<$addr:ty, $w:literal, $scheme:ident>($($argument:expr),*)) => {
        match $named {
            $crate::lpm::bloomfwd::plan::Named::Murmur => {
                $build::<$addr, $w, $scheme<$crate::lpm::bloomfwd::hashing::Murmur>>($($argument),*)
            }
            $crate::lpm::bloomfwd::plan::Named::Knuth => {
                $build::<$addr, $w, $scheme<$crate::lpm::bloomfwd::hashing::Knuth>>($($argument),*)
            }
            $crate::lpm::bloomfwd::plan::Named::H2 => {
                $build::<$addr, $w, $scheme<$crate::lpm::bloomfwd::hashing::H2>>($($argument),*)
            }
        }
    };
}
pub(super) use with_hash;

/// Keys that a prefix may become on average, beside the spare ones.
const KEYS_A_PREFIX: usize = 32;

const SPARE_KEYS: usize = 1 << 16;

/// Keys that are not worth a build.
const FEW_KEYS: u128 = 512;
