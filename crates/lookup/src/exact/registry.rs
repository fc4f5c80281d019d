//! The exact-match engines by name.

use super::card::{Card, Entry};
use super::{cuckoo, flow, mac_table};

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
    use crate::lpm::Options;
    use crate::sync::Domain;

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
