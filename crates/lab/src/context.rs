//! What a running experiment has at hand: the options, the machine, the plan of
//! its slices, and the memory of what an interrupted run had already measured.

mod partial;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::clock;
use crate::data::{Table, Updates, short_name};
use crate::machine::{self, Machine};
use crate::slices::{self, Plan, Slices, Timing, Variant};
use crate::{Error, Record, Row, Verdict};

pub use partial::Found;
use partial::Partial;

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Smaller tables, fewer and shorter slices.
    pub quick: bool,
    /// Where records go.
    pub out: PathBuf,
    /// Tables to use instead of an experiment's own.
    pub tables: Vec<String>,
    /// An MRT file of updates to replay instead of made-up ones.
    pub updates: Option<PathBuf>,
    /// Engines to measure instead of an experiment's own, as `NAME:option=value,…`.
    pub engines: Vec<String>,
    /// Hops are folded to so many: 1 + id mod `hops`, so that tables of narrow
    /// hops can take part.
    pub hops: u32,
}

impl Options {
    /// What the 15 bits of a 2-byte `rte_fib` entry hold.
    pub const HOPS: u32 = 32_766;
}

/// See the module.
pub struct Context {
    options: Options,
    machine: Machine,
    say: Box<dyn FnMut(&str)>,
    experiment: &'static str,
    /// Whether it has asked for tables.
    asked_for: Cell<bool>,
    data: BTreeMap<String, String>,
    /// The tables used last: experiments share them.
    loaded: Vec<(String, Arc<Table>)>,
    /// What the tables named with `--table` hold, by the names of records.
    asked: BTreeMap<String, String>,
    started: Instant,
    /// Seconds of interrupted runs before.
    before_s: f64,
    /// Slices that were timed.
    slices: Cell<Slices>,
    /// When no more is begun.
    ends: Option<Instant>,
    /// Parts that were left out of the experiment for that.
    left_out: Vec<String>,
    partial: Partial,
    /// Experiments of this run that are still to be measured, after this one.
    ahead: Vec<&'static str>,
    /// Seconds that were spent for them.
    for_others_s: f64,
}

impl Context {
    /// A context that reports progress, one line at a time, through `say`.
    pub fn new(options: Options, say: impl FnMut(&str) + 'static) -> Context {
        Context {
            options,
            machine: Machine::this(),
            say: Box::new(say),
            experiment: "",
            asked_for: Cell::new(false),
            data: BTreeMap::new(),
            loaded: Vec::new(),
            asked: BTreeMap::new(),
            started: Instant::now(),
            before_s: 0.0,
            slices: Cell::default(),
            ends: None,
            left_out: Vec::new(),
            partial: Partial::default(),
            ahead: Vec::new(),
            for_others_s: 0.0,
        }
    }

    /// Begins nothing that would not be done by then: what is left out is named in the record.
    pub fn end_after(&mut self, time: Duration) {
        self.ends = Some(Instant::now() + time);
    }

    /// False where something that takes so long would end too late.
    pub(crate) fn has_time_for(&self, time: Duration) -> bool {
        self.ends.is_none_or(|ends| Instant::now() + time < ends)
    }

    /// True for `--quick`.
    pub fn quick(&self) -> bool {
        self.options.quick
    }

    /// One of two, by `--quick`.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// How many different hops a table may have.
    pub fn hops(&self) -> u32 {
        self.options.hops.max(1)
    }

    /// Where records go.
    pub fn out(&self) -> &Path {
        &self.options.out
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The engines named with `--engine`.
    pub fn engines(&self) -> &[String] {
        &self.options.engines
    }

    /// The tables named with `--table`, or else `usual`.
    pub fn tables(&self, usual: &[&str]) -> Vec<String> {
        self.asked_for.set(true);
        if self.options.tables.is_empty() {
            usual.iter().map(|name| (*name).to_string()).collect()
        } else {
            self.options.tables.clone()
        }
    }

    /// `usual`, and beside them the tables named with `--table`: a paper's claim is judged on
    /// generated tables and on real ones.
    pub fn beside(&self, usual: &[&str]) -> Vec<String> {
        let given = self.tables(&[]);
        usual.iter().map(|name| (*name).to_string()).chain(given).collect()
    }

    /// The tables named with `--table`.
    pub(crate) fn given(&self) -> &[String] {
        &self.options.tables
    }

    /// Whether the table has routes of one of `families`.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub(crate) fn has_any_of(&mut self, families: &[&str], table: &str) -> Result<bool, Error> {
        let table = self.load(table)?;
        Ok(families.iter().any(|family| table.has(family)))
    }

    /// What `lists` returns, if it asks for tables, the usual ones or those of `--table`.
    pub(crate) fn if_tables_are_asked_for<T>(&self, lists: impl FnOnce() -> T) -> Option<T> {
        self.asked_for.set(false);
        Some(lists()).filter(|_| self.asked_for.get())
    }

    /// Loads what `--table` names: a name that is wrong shows before anything is
    /// measured, and records of a file that has changed since are not taken for its.
    ///
    /// # Errors
    /// When one cannot be loaded, or two have one name in records.
    pub(crate) fn open_tables(&mut self) -> Result<(), Error> {
        for table in self.options.tables.clone() {
            let name = self.load(&table)?.name.clone();
            let note = self.data[&name].clone();
            if self.asked.insert(name, note).is_some() {
                let reason = "another one has the same name".into();
                return Err(Error::Table { table, reason });
            }
        }
        if let Some(updates) = self.updates()? {
            let note = self.data[&updates.name].clone();
            self.asked.insert(updates.name, note);
        }
        Ok(())
    }

    /// The file named with `--updates`.
    pub(crate) fn given_updates(&self) -> Option<&Path> {
        self.options.updates.as_deref()
    }

    /// Reads what `--updates` names and notes it in the record; `None` where nothing is named.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn updates(&mut self) -> Result<Option<Updates>, Error> {
        let Some(path) = self.given_updates() else { return Ok(None) };
        let updates = Updates::open(path)?;
        let mut note = format!("{:016x}", updates.checksum());
        if updates.damaged > 0 {
            note += &format!(", {} damaged records left out", updates.damaged);
        }
        self.data.insert(updates.name.clone(), note);
        Ok(Some(updates))
    }

    /// True where `data` is of the tables that were asked for as they are now.
    fn is_of_asked(&self, data: &BTreeMap<String, String>) -> bool {
        self.asked.iter().all(|(name, note)| data.get(name).is_none_or(|had| had == note))
    }

    /// Loads a table and notes it in the record.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn load(&mut self, name: &str) -> Result<Arc<Table>, Error> {
        let kept = self.loaded.iter().position(|(known, _)| known == name);
        let table = match kept {
            Some(i) => self.loaded.remove(i).1,
            None => Arc::new(Table::load(name)?),
        };
        let mut note = format!("{:016x}", table.checksum);
        if table.damaged > 0 {
            note += &format!(", {} damaged lines or records left out", table.damaged);
            if kept.is_none() {
                self.say(&format!("{}: {note}", table.name));
            }
        }
        self.data.insert(table.name.clone(), note);
        self.loaded.push((name.to_string(), table.clone()));
        if self.loaded.len() > TABLES_KEPT {
            self.loaded.remove(0);
        }
        Ok(table)
    }

    /// Runs `variants` in turn on the measuring core.
    pub fn measure(&self, variants: &mut [Variant<'_>]) -> Vec<Timing> {
        self.measure_by(self.plan(variants.len()), variants)
    }

    /// The same by a plan of the caller's.
    pub fn measure_by(&self, plan: Plan, variants: &mut [Variant<'_>]) -> Vec<Timing> {
        // The last core: interrupts and the rest of the system prefer the first.
        clock::cores().last().map(|&core| clock::pin(core));
        let timings = slices::interleave(variants, plan);
        self.slices.set(self.slices.get() + Slices::of(&timings));
        timings
    }

    /// Looks whether there are two cores, one `of_its_own` for another thread.
    ///
    /// # Errors
    /// Where this process may use but one.
    pub fn two_cores(&self, experiment: &'static str, of_its_own: &str) -> Result<(), Error> {
        match clock::cores().len() {
            0 | 1 => Err(Error::Missing { experiment, what: format!("two cores: {of_its_own}") }),
            _ => Ok(()),
        }
    }

    /// How many slices each of `variants` gets, and how long: the more take turns,
    /// the fewer, so that all of them together take about 5 seconds, and as long again to
    /// warm up; of a quick run the shorter, and half a second, whatever the neighbours do.
    pub fn plan(&self, variants: usize) -> Plan {
        let variants = variants.max(1) as u32;
        if self.quick() {
            let slice = (QUICK_TURNS / (QUICK_ROUNDS * variants)).clamp(LEAST_SLICE, SLICE);
            let rounds = QUICK_ROUNDS as usize;
            return Plan { rounds, most: rounds, slice, warm: slice, patience: Plan::PATIENCE };
        }
        let turns = TURNS.as_millis() / (SLICE.as_millis() * u128::from(variants));
        let rounds = turns.clamp(11, 25) as usize;
        Plan { rounds, most: 4 * rounds, slice: SLICE, warm: SLICE, patience: Plan::PATIENCE }
    }

    /// Runs one cell after the other, each a part of the experiment with a name of
    /// its own, and collects their rows. Cells that an interrupted run finished
    /// on the same machine, from the same source and tables, are not run again.
    ///
    /// # Errors
    /// When a cell fails, or its rows cannot be kept.
    pub fn cells<K: Display>(
        &mut self,
        cells: impl IntoIterator<Item = K>,
        mut run: impl FnMut(&mut Context, &K) -> Result<Vec<Row>, Error>,
    ) -> Result<Vec<Row>, Error> {
        let cells = distinct(cells);
        let (start, mut ran, mut rows) = (Instant::now(), 0, Vec::new());
        let mut longest = Duration::ZERO;
        for (i, (name, cell)) in cells.iter().enumerate() {
            if let Some(kept) = self.partial.cells.get(name) {
                rows.extend(kept.iter().cloned());
                continue;
            }
            // As long as the longest so far.
            if !self.has_time_for(longest) {
                self.say(&format!("{}: {name} is left out: the time is up", self.experiment));
                self.left_out.push(name.clone());
                continue;
            }
            let done = |name: &String| self.partial.cells.contains_key(name);
            let left = cells[i..].iter().filter(|(name, _)| !done(name)).count() as u32;
            let each = start.elapsed().checked_div(ran);
            let time =
                each.map_or(String::new(), |each| format!(", {} left", clock_text(each * left)));
            self.say(&format!("{} {}/{}: {name}{time}", self.experiment, i + 1, cells.len()));
            let begun = Instant::now();
            let found = run(self, cell)?;
            longest = longest.max(begun.elapsed());
            ran += 1;
            rows.extend(found.iter().cloned());
            self.partial.cells.insert(name.clone(), found);
            self.keep()?;
        }
        Ok(rows)
    }

    /// A line of progress.
    pub fn say(&mut self, line: &str) {
        (self.say)(line);
    }

    /// The record of what was measured.
    pub fn record(&self, rows: Vec<Row>, verdicts: Vec<Verdict>, mut notes: Vec<String>) -> Record {
        notes.extend(self.slices.get().notes());
        if !self.left_out.is_empty() {
            notes.push(format!("left out, as the time was up: {}", self.left_out.join(", ")));
        }
        Record {
            experiment: self.experiment.to_string(),
            quick: self.options.quick,
            tables: self.tables_asked(),
            engines: Some(self.options.engines.clone()),
            updates: self.updates_asked(),
            hops: self.options.hops,
            time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            took_s: (self.took_s() * 10.0).round() / 10.0,
            machine: self.machine.clone(),
            build: machine::build().into(),
            data: self.data.clone(),
            rows,
            verdicts,
            notes,
        }
    }

    /// The record that this very program left of `experiment` on this machine,
    /// with the same options.
    pub(crate) fn done(&self, experiment: &str) -> Option<(Record, PathBuf)> {
        let path = Record::path(self.out(), experiment);
        let record = Record::load(&path).ok()?;
        let same = record.machine.is_same(&self.machine)
            && record.build == machine::build()
            && record.quick == self.options.quick
            && record.tables == self.tables_asked()
            // A record of chosen engines is not taken for one of all.
            && record.engines.as_ref() == Some(&self.options.engines)
            && record.updates == self.updates_asked()
            && record.hops == self.options.hops
            && self.is_of_asked(&record.data);
        same.then_some((record, path))
    }

    /// As records name them.
    fn tables_asked(&self) -> Vec<String> {
        self.options.tables.iter().map(|name| short_name(name)).collect()
    }

    /// The same of the file of updates.
    fn updates_asked(&self) -> Option<String> {
        self.given_updates().map(|path| short_name(&path.display().to_string()))
    }

    /// As interrupted runs name them.
    fn asked(&self) -> Vec<String> {
        let updates = self.given_updates().map(|path| format!("--updates {}", path.display()));
        let engines = self.options.engines.iter().map(|name| format!("--engine {name}"));
        self.options.tables.iter().cloned().chain(engines).chain(updates).collect()
    }

    /// Starts an experiment, taking up what an interrupted run left, or one before it measured
    /// for it; `ahead` are those of this run that come after it.
    pub(crate) fn start(
        &mut self,
        experiment: &'static str,
        ahead: Vec<&'static str>,
    ) -> Result<(), Error> {
        (self.experiment, self.started) = (experiment, Instant::now());
        (self.ahead, self.for_others_s) = (ahead, 0.0);
        self.left_out.clear();
        fs::create_dir_all(self.out()).map_err(Error::file(self.out()))?;
        self.partial = self.partial_of(experiment);
        (self.data, self.before_s) = (self.partial.data.clone(), self.partial.took_s);
        self.slices.set(self.partial.slices);
        if !self.partial.cells.is_empty() {
            self.say(&format!(
                "{experiment}: {} parts are there already",
                self.partial.cells.len()
            ));
        }
        Ok(())
    }

    /// Ends an experiment whose record is written.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let path = self.partial_path(self.experiment);
        if path.exists() { fs::remove_file(&path).map_err(Error::file(path)) } else { Ok(()) }
    }

    /// Seconds so far, those of the interrupted runs whose cells were taken up included.
    fn took_s(&self) -> f64 {
        self.before_s + self.started.elapsed().as_secs_f64() - self.for_others_s
    }
}

/// `40 s`, `3 min 05 s`, `1 h 02 min`.
pub(crate) fn clock_text(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// Of all variants that take turns, in a full run.
const TURNS: Duration = Duration::from_secs(5);
const SLICE: Duration = Duration::from_millis(10);
/// Of all variants that take turns, in a quick run.
const QUICK_TURNS: Duration = Duration::from_millis(500);
const QUICK_ROUNDS: u32 = 5;
const LEAST_SLICE: Duration = Duration::from_millis(2);

const TABLES_KEPT: usize = 4;

/// The cells by name; those of one name are numbered, or the first one's rows would be
/// taken for the others'.
fn distinct<K: Display>(cells: impl IntoIterator<Item = K>) -> Vec<(String, K)> {
    let mut seen = BTreeMap::<String, usize>::new();
    let named = cells.into_iter().map(|cell| {
        let name = cell.to_string();
        let n = seen.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1);
        (if *n == 1 { name } else { format!("{name} ({n})") }, cell)
    });
    named.collect()
}

#[cfg(test)]
mod tests;
