//! What a flow table is asked for: its size, and the options that all have.

use std::hash::{BuildHasher, RandomState};

use super::books::Books;
use super::entry::MAX_ENTRIES;
use super::key::Seed;
use super::{Entry, Full, Wanted};
use crate::exact::{Card, Refused};
use crate::lpm::isa::{self, Isa};
use crate::lpm::options::Known;
use crate::lpm::{Options, Refusal};

/// A card, but for what differs.
pub(super) const fn card(name: &'static str, paper: &'static str, help: &'static str) -> Card {
    Card {
        name,
        family: "flow",
        paper,
        help,
        key_bits: 288,
        max_value: u32::MAX,
        max_entries: Some(MAX_ENTRIES as u64),
        options: THESIS_OPTIONS,
    }
}

/// What a table that the thesis describes can be asked for.
const THESIS_OPTIONS: Known = &[SEED, BATCH, FULL, STOP];

/// What one with lines of tags can be, too.
pub(super) const TAGGED_OPTIONS: Known = &[SEED, BATCH, FULL, STOP, isa::OPTION];

/// What ours can be.
pub(super) const OUR_OPTIONS: Known = &[
    SEED,
    BATCH,
    (
        "full",
        "replace",
        "what becomes of a new flow if the table is full: replace, thesis or deployed",
    ),
    STOP,
    (
        "decided_max",
        "75",
        "with replace: percentage of the table that decided flows may take, 0 to 100",
    ),
    ("keep", "10", "with replace: seconds for which a grant in use is not replaced, 1 to 600"),
    isa::OPTION,
];

const SEED: (&str, &str, &str) =
    ("seed", "random", "seed of the hash function: a number, or random");
const BATCH: (&str, &str, &str) = (
    "batch",
    "groups",
    "how the keys of a batch overlap: groups (prefetched), turns (coroutines) or singly",
);
const FULL: (&str, &str, &str) =
    ("full", "thesis", "what becomes of a new flow if the table is full: thesis (refused)");
const STOP: (&str, &str, &str) =
    ("stop", "on", "with thesis: a refused flow ends the insertions of its batch: on or off");

/// How the keys of a batch are served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Batch {
    /// All of a group a step at a time.
    Groups,
    /// Coroutines that take turns: one that ends makes room for the next.
    Turns,
    /// One after the other.
    Singly,
}

/// A table as it was asked for.
pub(super) struct Size {
    /// Entries that it may hold.
    pub(super) max_entries: usize,
    /// The logarithm of the places of a table that needs a power of two: more than entries.
    pub(super) bits: u32,
    /// Draws the hash.
    pub(super) seed: Seed,
    pub(super) batch: Batch,
    pub(super) isa: Isa,
    pub(super) second: u64,
    pub(super) keep_s: u64,
    full: Full,
    stop: bool,
    decided_max: usize,
}

impl Size {
    /// # Errors
    /// When it is too much, or the options are wrong.
    pub(super) fn new(entry: &Entry, wanted: Wanted, options: &Options) -> Result<Size, Refusal> {
        let card = entry.card;
        options.check_of(card.name, card.options)?;
        let (max_entries, second) = (wanted.entries, wanted.second.max(1));
        if max_entries > MAX_ENTRIES {
            return Err(card.refuse(Refused::TooMany { max: MAX_ENTRIES }));
        }
        let text = |name, known: &dyn Fn(&str) -> bool| {
            options.get_of::<String>(card.name, card.options, name, |text| known(text))
        };
        let seed = text("seed", &|seed| seed == "random" || seed.parse::<u64>().is_ok())?;
        let seed = seed.parse().unwrap_or_else(|_| RandomState::new().hash_one(0));
        let batch = match &*text("batch", &|it| ["groups", "turns", "singly"].contains(&it))? {
            "turns" => Batch::Turns,
            "singly" => Batch::Singly,
            _ => Batch::Groups,
        };
        let isa = match card.options.contains(&isa::OPTION) {
            true => Isa::named(&text("isa", &|isa| Isa::named(isa).is_some())?),
            false => None,
        };
        let isa = isa.unwrap_or(Isa::Portable);
        let rule = |text: &str| entry.rules.iter().find(|rule| rule.name() == text);
        let full = rule(&text("full", &|text| rule(text).is_some())?).copied();
        let full = full.unwrap_or(Full::Thesis);
        let stop = text("stop", &|stop| ["on", "off"].contains(&stop))? == "on";
        let (mut percent, mut keep_s) = (100, 0);
        if full == Full::Replace {
            let get = |name, of: std::ops::RangeInclusive<usize>| {
                options.get_of(card.name, card.options, name, |value| of.contains(value))
            };
            (percent, keep_s) = (get("decided_max", 0..=100)?, get("keep", 1..=600)? as u64);
        }
        let decided_max = (max_entries * percent).div_ceil(100);
        let bits = (max_entries + 1).next_power_of_two().ilog2().max(4);
        let seed = Seed::new(seed);
        Ok(Size { max_entries, bits, seed, batch, isa, second, keep_s, full, stop, decided_max })
    }

    /// The books of such a table.
    ///
    /// # Errors
    /// When there is no memory for the pages.
    pub(super) fn books(&self, card: &'static Card) -> Result<Books, Refusal> {
        Books::new(card, self.max_entries, self.decided_max, self.full, self.stop)
    }
}
