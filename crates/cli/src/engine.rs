//! Engines by name, and a table built into one.

use std::ffi::OsStr;
use std::sync::Arc;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use formats::Table;
use lookup::exact;
use lookup::lpm::{Card, Choice, Engines, Entry, Lpm, Options, Writer};
use lookup::sync::{Domain, Thread};
use lookup::{Addr, Hop, Prefix, Rib};
use serde::Serialize;

use crate::error::Error;
use crate::warn::warn;

/// An engine as `rutter engines -j` prints it.
#[derive(Serialize)]
pub struct Description {
    /// An engine that `--engine` accepts.
    pub name: &'static str,
    /// The kind of its lookup: `lpm` or `exact`.
    pub kind: &'static str,
    /// `ipv4`, `ipv6` or both; `mac` or `flow` of an exact match.
    pub families: Vec<&'static str>,
    /// Its source.
    pub paper: &'static str,
    /// One line.
    pub help: &'static str,
    /// Its limits.
    pub limits: Limits,
    /// What can be chosen about it: name, default, one line. Not in the JSON, whose
    /// keys are fixed.
    #[serde(skip)]
    pub options: &'static [(&'static str, &'static str, &'static str)],
}

/// What an engine refuses; where its families differ, what neither refuses
/// (hops, prefixes) or the longer one (length). Of an exact match, a value is a
/// hop and a key is a prefix.
#[derive(Clone, Copy, Serialize)]
pub struct Limits {
    /// The largest hop id.
    pub max_hop: u32,
    /// The longest prefix.
    pub max_len: u16,
    /// The most prefixes; none where only memory limits them.
    pub max_prefixes: Option<u64>,
}

impl Description {
    fn new(family: &'static str, card: &Card) -> Self {
        let Card { name, paper, help, max_hop, max_len, max_prefixes, .. } = *card;
        let limits = Limits { max_hop, max_len: max_len.into(), max_prefixes };
        let (families, options) = (vec![family], card.options);
        Description { name, kind: "lpm", families, paper, help, limits, options }
    }

    fn exact(card: &exact::Card) -> Self {
        let exact::Card { name, family, paper, help, key_bits, max_value, max_entries, .. } = *card;
        let limits = Limits { max_hop: max_value, max_len: key_bits, max_prefixes: max_entries };
        let (families, options) = (vec![family], card.options);
        Description { name, kind: "exact", families, paper, help, limits, options }
    }

    /// The limits worth a word.
    pub fn limits(&self) -> String {
        let Limits { max_hop, max_len, max_prefixes } = self.limits;
        if self.kind == "exact" {
            let values = (max_hop < NOTABLE_HOP).then(|| format!("values up to {max_hop}"));
            let entries = max_prefixes.map(|most| format!("{most} entries"));
            let keys = Some(format!("keys of {max_len} bits"));
            return [keys, values, entries].into_iter().flatten().collect::<Vec<_>>().join(", ");
        }
        let hop = (max_hop < NOTABLE_HOP).then(|| format!("hop ids up to {max_hop}"));
        let len = (max_len != 32 && max_len != 128).then(|| format!("prefixes up to /{max_len}"));
        let prefixes = max_prefixes.map(|most| format!("{most} prefixes"));
        [hop, len, prefixes].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// True when `family` uses this engine where none is chosen.
    pub fn is_default(&self, family: &str) -> bool {
        self.name == if family == u32::FAMILY { u32::DEFAULT } else { u128::DEFAULT }
    }
}

/// A limit of more hops than this is none worth a word.
const NOTABLE_HOP: u32 = 1 << 24;

/// Every engine once: IPv4's first, those for exact match last.
pub fn all() -> Vec<Description> {
    let mut all = lpm();
    all.extend(exact::cards().into_iter().map(Description::exact));
    all
}

fn lpm() -> Vec<Description> {
    let v4 = u32::engines().iter().map(|entry| Description::new(u32::FAMILY, entry.card));
    let mut all: Vec<_> = v4.collect();
    for entry in u128::engines() {
        let other = Description::new(u128::FAMILY, entry.card);
        match all.iter_mut().find(|engine| engine.name == other.name) {
            None => all.push(other),
            Some(engine) => {
                engine.families.push(u128::FAMILY);
                let (a, b) = (&mut engine.limits, other.limits);
                a.max_hop = a.max_hop.min(b.max_hop);
                a.max_len = a.max_len.max(b.max_len);
                a.max_prefixes = a.max_prefixes.into_iter().chain(b.max_prefixes).min();
            }
        }
    }
    all
}

/// Reads an engine's name and its options. It accepts any name: the command that uses it gives the
/// better error. The known names are completed by shells.
#[derive(Clone)]
pub struct Name;

impl TypedValueParser for Name {
    type Value = Choice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Choice, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, arg, value)?;
        text.parse().map_err(|bad| clap::Error::raw(ErrorKind::ValueValidation, format!("{bad}\n")))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(names().into_iter().map(PossibleValue::new)))
    }
}

/// The names of all engines for prefixes.
pub fn names() -> Vec<&'static str> {
    lpm().iter().map(|engine| engine.name).collect()
}

/// The entries of both families that `name` means: its own families, or each
/// family's default where there is no name.
pub type Pair = (Option<&'static Entry<u32>>, Option<&'static Entry<u128>>);

/// Finds an engine by name.
pub fn find(name: Option<&str>) -> Result<Pair, Error> {
    let Some(name) = name else {
        return Ok((u32::engine(u32::DEFAULT), u128::engine(u128::DEFAULT)));
    };
    match (u32::engine(name), u128::engine(name)) {
        (None, None) if exact::cards().iter().any(|card| card.name == name) => {
            Err(Error::ExactEngine { name: name.into() })
        }
        (None, None) => {
            let all = names();
            let near = near(name, &all);
            Err(Error::UnknownEngine { name: name.into(), near, all })
        }
        pair => Ok(pair),
    }
}

/// Reports how many prefixes lie outside the families of the engines.
///
/// # Errors
/// When that leaves none of a table that has some.
pub fn skip(engines: &Pair, table: &Table, spec: &str) -> Result<(), Error> {
    let (v4, v6) = (table.v4.len(), table.v6.len());
    let (name, families, used, skipped, of) = match engines {
        (Some(entry), None) => (entry.card.name, u32::FAMILY, v4, v6, u128::FAMILY),
        (None, Some(entry)) => (entry.card.name, u128::FAMILY, v6, v4, u32::FAMILY),
        _ => return Ok(()),
    };
    if skipped == 0 {
        return Ok(());
    }
    warn(format_args!("{name} is for {families}: {skipped} {of} prefixes of {spec} are skipped"));
    if used > 0 {
        Ok(())
    } else {
        Err(Error::NoPrefix { engine: name, families, spec: spec.into() })
    }
}

/// A table built into an engine, and the thread that reads it.
pub struct Fib<A: Addr> {
    /// Its name.
    pub engine: &'static str,
    /// The built engine.
    pub table: Arc<dyn Lpm<A>>,
    /// Registered for as long as the table is read.
    pub thread: Thread,
}

impl<A: Addr> Fib<A> {
    /// Builds `rib` into `entry`.
    pub fn build(
        entry: &Entry<A>,
        options: &Options,
        rib: &Rib<A>,
        domain: &Arc<Domain>,
    ) -> Result<Self, Error> {
        Ok(Fib::with_writer(entry, options, rib, domain)?.0)
    }

    /// As [`Fib::build`], and the parts that update it.
    pub fn with_writer(
        entry: &Entry<A>,
        options: &Options,
        rib: &Rib<A>,
        domain: &Arc<Domain>,
    ) -> Result<(Self, Box<dyn Writer<A>>), Error> {
        let writer = (entry.build)(rib, options, domain)?;
        let (table, thread) = (writer.table(), domain.register("rutter"));
        Ok((Fib { engine: entry.card.name, table, thread }, writer))
    }

    /// Of a table that is built.
    pub fn of(table: &offload::table::Table<A>) -> Self {
        let thread = table.domain().register("rutter");
        Fib { engine: table.engine(), table: table.lpm().clone(), thread }
    }

    /// The prefix and the hop that answer for `addr`: the hop is the engine's,
    /// the prefix the table's.
    pub fn lookup(&self, rib: &Rib<A>, addr: A) -> Result<Option<(Prefix<A>, Hop)>, Error> {
        let (got, want) = (self.table.lookup(addr), rib.lookup(addr));
        if got == want.map_or(Hop::NONE, |(_, hop)| hop) {
            return Ok(want);
        }
        let (engine, addr) = (self.engine, addr.to_ip().to_string());
        let want = want.map_or(0, |(_, hop)| hop.0);
        Err(Error::Disagreement { engine, addr, got: got.0, want })
    }
}

/// Names at most a third of their letters away from `name`, or that contain it.
fn near(name: &str, all: &[&'static str]) -> Vec<&'static str> {
    let mut near: Vec<_> = all
        .iter()
        .map(|&other| (distance(name, other), other))
        .filter(|&(distance, other)| {
            distance * 3 <= other.len().max(name.len())
                || (name.len() > 2 && (other.contains(name) || name.contains(other)))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, other)| other).take(3).collect()
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in b.iter().enumerate() {
            let replace = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let all = ["dir-24-8", "dxr", "bsd-radix", "rutter4", "rutter6", "vpp-trie"];
        assert_eq!(near("dir24-8", &all), ["dir-24-8"]);
        assert_eq!(near("rutter", &all), ["rutter4", "rutter6"]);
        assert_eq!(near("radix", &all), ["bsd-radix"]);
        assert!(near("zzzzz", &all).is_empty());
    }

    #[test]
    fn every_engine_is_listed_once_and_says_what_it_is() {
        let all = all();
        for engine in &all {
            assert!(!engine.help.is_empty() && !engine.paper.is_empty(), "{}", engine.name);
            assert_eq!(all.iter().filter(|other| other.name == engine.name).count(), 1);
        }
    }
}
