//! Experiments of lookups, as data: which tables, engines and traffic, what is
//! measured, and what the paper says about the outcome.
//!
//! A [`Study`] is an experiment. It consists of [`Part`]s: one table, the
//! engines that take turns on it, the traffic, the measures. An engine that this
//! build lacks, or that refuses the table, leaves a row that says so.

pub mod claims;
mod field;
mod rates;
mod run;
mod updates;

use lookup::lpm::{Engines, Options};

pub use claims::Claim;
pub use rates::{rate, scalar};

use crate::data::Traffic;
use crate::{Card, Context, Error, Experiment, Record, Row, Verdict, contestants, machine};

/// One experiment, as data.
pub struct Study {
    /// What it is.
    pub card: &'static Card,
    /// What is run, one after the other.
    pub parts: fn(&Context) -> Vec<Part>,
    /// What the paper says about the rows.
    pub claims: &'static [Claim],
    /// What a reader must know.
    pub notes: &'static [&'static str],
}

impl Experiment for Study {
    fn card(&self) -> &'static Card {
        self.card
    }

    fn families(&self, context: &Context) -> &'static [&'static str] {
        let parts = context.if_tables_are_asked_for(|| (self.parts)(context)).unwrap_or_default();
        let of = |family| {
            let mut of_family = parts.iter().filter(|part| part.family == family);
            of_family.any(|part| context.given().iter().any(|table| part.is_of(table)))
        };
        match [of("ipv4"), of("ipv6")] {
            [true, true] => &["ipv4", "ipv6"],
            [true, false] => &["ipv4"],
            [false, true] => &["ipv6"],
            [false, false] => &[],
        }
    }

    fn takes_engine(&self, context: &Context, engine: &str) -> bool {
        let plain = Options::default;
        (self.parts)(context).iter().any(|part| match part.family {
            "ipv4" => contestants::named::<u32>(engine, plain()).is_ok(),
            _ => contestants::named::<u128>(engine, plain()).is_ok(),
        })
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        self.claims.iter().flat_map(|claim| claim.judge(rows)).collect()
    }

    fn judge_anew(&self, record: &mut Record) {
        record.verdicts = self.judge(&record.rows);
        let later = self.notes.iter().filter(|note| !record.notes.iter().any(|had| had == *note));
        let later: Vec<String> = later.map(|note| (*note).to_string()).collect();
        record.notes.splice(..0, later);
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let parts = (self.parts)(context);
        let rows = context.cells(parts, run::part)?;
        if rows.is_empty() {
            let what = "a table with routes of its family".into();
            return Err(Error::Missing { experiment: self.card.name, what });
        }
        let verdicts = self.judge(&rows);
        let notes = self.notes.iter().map(|note| (*note).to_string()).collect();
        Ok(context.record(rows, verdicts, notes))
    }
}

/// One table, and the engines that take turns on it.
#[derive(Clone, Debug)]
pub struct Part {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// As [`crate::data::Table::load`] takes it.
    pub table: String,
    /// What takes part; none for every engine and rival.
    pub entrants: Vec<Entrant>,
    /// What is looked up.
    pub traffic: Vec<Traffic>,
    /// What is measured.
    pub measures: Vec<Measure>,
    /// Labels that all rows get.
    pub labels: Vec<(&'static str, String)>,
}

impl Part {
    /// IPv4 routes of `table`.
    pub fn ipv4(table: impl Into<String>) -> Part {
        Part::new("ipv4", table.into())
    }

    /// IPv6 routes of `table`.
    pub fn ipv6(table: impl Into<String>) -> Part {
        Part::new("ipv6", table.into())
    }

    fn new(family: &'static str, table: String) -> Part {
        let (entrants, traffic, measures, labels) = Default::default();
        Part { family, table, entrants, traffic, measures, labels }
    }

    /// Whether it is of `table` as a whole, or of what follows the name behind a bar.
    fn is_of(&self, table: &str) -> bool {
        let rest = self.table.strip_prefix(table);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
    }

    /// Engines with their default options.
    pub fn engines(self, names: &[&str]) -> Part {
        self.entrants(names.iter().map(|name| Entrant::new(name)))
    }

    /// The same entrants with no more than each instruction set that there is, so that
    /// like is compared with like: [`claims`] judge rows of each apart.
    pub fn each_isa(self) -> Part {
        let sets = ISAS.iter().filter(|(_, flag)| flag.is_empty() || machine::has(flag));
        let sets: Vec<&str> = sets.map(|(isa, _)| *isa).collect();
        let with = |entrant: &Entrant| match knows_isa(&entrant.engine) {
            true => sets.iter().map(|isa| entrant.clone().option("isa", isa)).collect(),
            false => vec![entrant.clone()],
        };
        Part { entrants: self.entrants.iter().flat_map(with).collect(), ..self }
    }

    /// Engines with options.
    pub fn entrants(self, entrants: impl IntoIterator<Item = Entrant>) -> Part {
        Part { entrants: entrants.into_iter().collect(), ..self }
    }

    /// What is looked up.
    pub fn traffic(self, traffic: &[Traffic]) -> Part {
        Part { traffic: traffic.to_vec(), ..self }
    }

    /// What is measured.
    pub fn measure(self, measures: &[Measure]) -> Part {
        Part { measures: measures.to_vec(), ..self }
    }

    /// One more label for all rows.
    pub fn label(mut self, name: &'static str, value: impl ToString) -> Part {
        self.labels.push((name, value.to_string()));
        self
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.family, self.table)?;
        self.labels.iter().try_for_each(|(name, value)| write!(f, ", {name} {value}"))
    }
}

/// An engine or rival that takes part.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// Its name in the registry.
    pub engine: String,
    /// What rows call it.
    pub name: String,
    /// Its options.
    pub options: Options,
    /// Labels that its rows get.
    pub labels: Vec<(&'static str, String)>,
}

impl Entrant {
    /// With default options.
    pub fn new(engine: &str) -> Entrant {
        let (engine, name) = (engine.to_string(), engine.to_string());
        Entrant { engine, name, options: Options::default(), labels: Vec::new() }
    }

    /// What rows call it.
    pub fn named(self, name: impl Into<String>) -> Entrant {
        Entrant { name: name.into(), ..self }
    }

    /// One more option.
    pub fn option(mut self, name: &str, value: impl ToString) -> Entrant {
        self.options.0.insert(name.to_string(), value.to_string());
        self
    }

    /// One more label.
    pub fn label(mut self, name: &'static str, value: impl ToString) -> Entrant {
        self.labels.push((name, value.to_string()));
        self
    }
}

/// Instruction sets by the option's names, and what a processor that has them has, by
/// Linux's.
const ISAS: [(&str, &str); 3] =
    [("portable", ""), ("avx2", "avx2"), ("avx512", "avx512_vpopcntdq")];

/// Whether `engine` has an option for the instruction set.
fn knows_isa(engine: &str) -> bool {
    let options = u32::engine(engine).map(|entry| entry.card.options);
    let options = options.or_else(|| u128::engine(engine).map(|entry| entry.card.options));
    options.is_some_and(|options| options.iter().any(|(name, ..)| *name == "isa"))
}

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Measure {
    /// `bytes`, `bytes_per_prefix`, `writer_bytes_per_prefix`, `build_s`.
    Build,
    /// Every counter of the built table, under its own name.
    Counts,
    /// `rate_mlps`, `cycles`: lookups in bursts of 256.
    Rate,
    /// `rate_64_mlps`: in bursts of 64.
    Rate64,
    /// `rate_long_mlps`: in bursts of 4,096.
    RateLong,
    /// `scalar_mlps`: one by one, each its own call; the next does not wait for the hop.
    Scalar,
    /// `latency_ns`: each lookup waits for the one before.
    Latency,
    /// `rate_mlps` for each number of threads up to this, in a label `threads`.
    Threads(usize),
    /// The same, each lookup a call of its own.
    ThreadsSingly(usize),
    /// What so many lookups add to each counter: `NAME_per_lookup`.
    Probes(usize),
    /// `update_us`, `update_beside_reader_us`, `update_default_us`; `rebuilds`, where the table
    /// was built anew meanwhile.
    Updates,
    /// `NAME_worst_per_update`: what an update adds to each counter, in the worst 500 in a row.
    WorstUpdates,
    /// `update_us` in rows with a label `length`.
    UpdatesByLength,
}
