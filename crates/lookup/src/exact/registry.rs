//! The exact-match engines by name, and what each is, as data.

use std::sync::Arc;

use super::{Writer, cuckoo, flow, mac_table};
use crate::lpm::options::Known;
use crate::lpm::{Options, Refusal};
use crate::sync::Domain;

/// What an engine is, as data: `rutter engines` prints these.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The name in configuration, records and `show` output.
    pub name: &'static str,
    /// What it is keyed by: `mac` or `flow`.
    pub family: &'static str,
    /// The paper or text that describes it.
    pub paper: &'static str,
    /// One line.
    pub help: &'static str,
    /// Bits of a key.
    pub key_bits: u16,
    /// The largest value; of a flow table, whose values are entries, the most
    /// entries.
    pub max_value: u32,
    /// The most entries; `None` where memory is the only limit.
    pub max_entries: Option<u64>,
    /// Options: name, default, one line of help.
    pub options: Known,
}

impl Card {
    /// A refusal by this engine.
    pub fn refuse(&self, limit: impl ToString) -> Refusal {
        Refusal { engine: self.name, limit: limit.to_string() }
    }
}

/// Builds an empty engine that may hold so many entries.
pub type Build = fn(usize, &Options, &Arc<Domain>) -> Result<Box<dyn Writer>, Refusal>;

/// One engine in the registry of tables of [`super::Key`]s.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is.
    pub card: &'static Card,
    /// How it is built.
    pub build: Build,
}

/// The tables of [`super::Key`]s, in the order in which they are listed.
pub fn engines() -> &'static [Entry] {
    &[cuckoo::ENTRY, mac_table::ENTRY]
}

/// The one called `name`.
pub fn engine(name: &str) -> Option<&'static Entry> {
    engines().iter().find(|entry| entry.card.name == name)
}

/// The cards of all exact-match engines, of every family.
pub fn cards() -> Vec<&'static Card> {
    let flows = flow::engines().iter().map(|entry| entry.card);
    engines().iter().map(|entry| entry.card).chain(flows).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_card_is_complete_and_names_are_unique() {
        let cards = cards();
        for card in &cards {
            assert!(!card.paper.is_empty() && !card.help.is_empty(), "{}", card.name);
            assert!(!card.help.contains('\n') && card.help.len() <= 100, "{}", card.help);
            assert!(["mac", "flow"].contains(&card.family), "{}", card.name);
            assert_eq!(cards.iter().filter(|other| other.name == card.name).count(), 1);
        }
    }

    #[test]
    fn defaults_are_taken_and_unknown_options_refused() {
        for Entry { card, build } in engines() {
            let default =
                |(name, value, _): &(&str, &str, &str)| (name.to_string(), value.to_string());
            let defaults = Options(card.options.iter().map(default).collect());
            assert!(build(100, &defaults, &Domain::new()).is_ok(), "{}", card.name);
            let unknown = Options([("no-such-option".to_string(), "1".to_string())].into());
            assert!(build(100, &unknown, &Domain::new()).is_err(), "{}", card.name);
            let huge = build(1 << 40, &defaults, &Domain::new());
            assert!(huge.is_err(), "{}", card.name);
        }
    }
}
