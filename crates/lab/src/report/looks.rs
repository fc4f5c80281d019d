//! How a series looks: the same engine is the same colour in every picture. A colour alone
//! distinguishes nothing: each series of a picture has a mark and a dash of its own as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::Row;

/// The looks of the series of a picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks(BTreeMap<String, Look>);

/// How one series looks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Look {
    /// Which colour: the class `c0` to `c7` of the page.
    pub color: usize,
    /// Which mark: `m0` to `m7` of the page.
    pub mark: usize,
    /// Which dash: the class `d0` to `d3`.
    pub dash: usize,
}

impl Looks {
    /// For these series, all of a record's: its panels agree.
    pub fn new(series: &[String]) -> Looks {
        let mut looks = Looks::default();
        let mut free = (0..COLORS).cycle();
        let known: BTreeSet<usize> = series.iter().filter_map(|name| engine_color(name)).collect();
        for name in series {
            let color = engine_color(name).unwrap_or_else(|| {
                // What is no engine has the colours that none of the engines here has.
                let spare = |color: &usize| known.len() >= COLORS || !known.contains(color);
                free.by_ref().find(spare).unwrap_or_default()
            });
            let twins = looks.0.values().filter(|look| look.color == color).count();
            let mark = looks.0.len() % MARKS;
            looks.0.insert(name.clone(), Look { color, mark, dash: twins % DASHES });
        }
        looks
    }

    /// How `name` looks; a name that is none of them looks like its engine.
    pub fn of(&self, name: &str) -> Look {
        let like = || self.0.iter().find(|(other, _)| engine(other) == engine(name));
        let known = self.0.get(name).or_else(|| like().map(|(_, look)| look));
        known.copied().unwrap_or_else(|| Look {
            color: engine_color(name).unwrap_or(COLORS - 1),
            ..Look::default()
        })
    }
}

/// The colour of the engine that a series names, if it names one.
fn engine_color(series: &str) -> Option<usize> {
    let engine = engine(series);
    ENGINES.iter().position(|color| color.contains(&engine))
}

/// The engine that a series names: what comes before its options and other labels.
fn engine(series: &str) -> &str {
    let name = series.split([' ', ',', ':']).next().unwrap_or(series);
    let plain = ["-avx512", "-avx2", "-portable", "-reads", "-fx", "-14", "-64", "-2b", "-4b"];
    plain.iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name))
}

/// The values of a label in the order of first appearance.
pub(super) fn distinct(rows: &[&Row], label: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = rows.iter().map(|row| value(row, label));
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// The value of a label, or the values of several joined: `engine+traffic`.
pub(super) fn value(row: &Row, label: &str) -> String {
    let values = label.split('+').map(|name| row.label(name));
    values.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(" ")
}

/// How many colours, marks and dashes the page's style has.
const COLORS: usize = 8;
const MARKS: usize = 8;
const DASHES: usize = 4;

/// The engines of each colour: those that one picture compares have different ones.
const ENGINES: [&[&str]; COLORS] = [
    // Ours.
    &["rutter4", "rutter6", "mac-table", "flow-table", "ours"],
    &["sail-l", "sail6", "D18R", "dxr", "bloomfwd", "bloomfwd6", "cuvpp", "cuckoo", "cuckoo-flow"],
    &["poptrie", "D16R", "miht", "miht6", "vpp-bloom", "hashbrown", "hopscotch", "planb"],
    &[
        "lulea",
        "sail-u",
        "bloom-baseline",
        "vpp-trie",
        "rte_hash",
        "chaining",
        "rte_fib",
        "rte_fib6",
    ],
    &["tree-bitmap", "bloom-naive", "vpp-hash", "dashmap", "linear", "rte_lpm", "rte_lpm6"],
    &["lc-trie", "sail-b", "papaya", "double-hash", "crate-poptrie", "sail6-hybrid", "pbf"],
    &["bsd-radix", "std-hashmap", "quadratic", "crate-treebitmap", "sail-m"],
    &["dir-24-8", "crate-prefix-trie"],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_has_one_colour_everywhere() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let one = Looks::new(&names(&["random", "sail-l avx512", "sail-l portable", "poptrie"]));
        let other = Looks::new(&names(&["poptrie", "sail-l"]));
        let (vector, portable) = (one.of("sail-l avx512"), one.of("sail-l portable"));
        assert_eq!(vector.color, other.of("sail-l").color);
        assert_eq!(vector.color, portable.color);
        assert!(vector.mark != portable.mark && vector.dash != portable.dash);
        assert_ne!(other.of("poptrie").color, vector.color);
        assert_ne!(one.of("random").color, vector.color);
        assert_eq!(one.of("sail-l, as in the paper").color, vector.color);
        assert_eq!(Looks::default().of("rutter4").color, 0);
    }

    #[test]
    fn each_engine_has_one_colour_alone() {
        let mut seen = BTreeSet::new();
        assert!(ENGINES.iter().flat_map(|names| *names).all(|name| seen.insert(name)));
    }

    #[test]
    fn series_of_a_picture_differ_in_their_marks() {
        let names: Vec<String> = (0..MARKS).map(|n| format!("step {n}")).collect();
        let looks = Looks::new(&names);
        let marks: BTreeSet<usize> = names.iter().map(|name| looks.of(name).mark).collect();
        assert_eq!(marks.len(), MARKS);
    }
}
