//! Cache misses of lookups: hardware counters by `perf` where the machine has them,
//! else cachegrind's simulation. Both watch a process of its own that builds a
//! table and looks addresses up; the same without lookups is taken away.

use std::ffi::OsStr;
use std::process::Command;

use lookup::exact::flow::{self, FlowId, FlowKey, Wanted};
use lookup::lpm::{BadChoice, Choice};
use lookup::{Hop, Rib};

use crate::contestants::{self, Family};
use crate::data::{Table, Traffic, short_name};
use crate::lookups::Entrant;
use crate::matching;

/// References to the cache and misses of it, of `lookups` lookups.
#[derive(Clone, Debug, Default)]
pub struct Misses {
    /// Data reads and writes.
    pub references: u64,
    /// Of them, served by memory.
    pub misses: u64,
    /// The instruction set of the lookups, as the process reports it; a simulation has not all
    /// that the processor has.
    pub isa: Option<String>,
}

/// What counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counter {
    /// Hardware counters.
    Perf,
    /// A simulation: 32 KiB of level 1, and a last level of so many bytes.
    Cachegrind(u32),
}

impl Counter {
    /// `perf` where it counts here, else cachegrind with `last_level` bytes.
    pub fn here(last_level: u32) -> Counter {
        match perf(Command::new("perf"), &["true".as_ref()]) {
            Ok(_) => Counter::Perf,
            Err(_) => Counter::Cachegrind(last_level),
        }
    }

    /// Counts what [`drive`] does with these arguments.
    ///
    /// # Errors
    /// When there is neither tool, or the process fails.
    pub fn count(self, engine: &str, table: &str, lookups: u64) -> Result<Misses, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let run = |count: u64| {
            let count = count.to_string();
            let words = ["drive", engine, "--table", table, "--count", &count];
            let mut all: Vec<&OsStr> = vec![program.as_ref()];
            all.extend(words.map(OsStr::new));
            match self {
                Counter::Perf => perf(Command::new("perf"), &all),
                Counter::Cachegrind(bytes) => cachegrind(bytes, &all),
            }
        };
        let (with, without) = (run(lookups)?, run(0)?);
        Ok(Misses {
            references: with.references.saturating_sub(without.references),
            misses: with.misses.saturating_sub(without.misses),
            isa: with.isa,
        })
    }
}

/// Builds `engine` from the routes of `table` and looks `count` addresses up. Of exact match the
/// table is `stations:N`: so many, all of them known. Of a flow table it is `flows:N`, requests that
/// are found, or `flood:N`, places that are all taken when each key is of a new flow.
///
/// Returns the instruction set of the lookups, where the engine reports it.
///
/// # Errors
/// When there is no such engine or table, or the engine refuses it.
pub fn drive(engine: &str, table: &str, count: usize) -> Result<Option<String>, String> {
    if let Some(stations) = table.strip_prefix("stations:") {
        let stations = stations.parse().map_err(|_| format!("`{table}` has no number"))?;
        return find(engine, stations, count);
    }
    for (kind, is_flood) in [("flows:", false), ("flood:", true)] {
        if let Some(flows) = table.strip_prefix(kind) {
            let flows = flows.parse().map_err(|_| format!("`{table}` has no number"))?;
            return meet(engine, flows, count, is_flood);
        }
    }
    let table = Table::load(table).map_err(|error| error.to_string())?;
    if table.ipv6.is_empty() {
        look(engine, &table.ipv4, count)
    } else {
        look(engine, &table.ipv6, count)
    }
}

fn look<A: Family>(
    engine: &str,
    routes: &[(lookup::Prefix<A>, Hop)],
    count: usize,
) -> Result<Option<String>, String> {
    let rib: Rib<A> = routes.iter().copied().collect();
    let entrant = Entrant::new(engine);
    let subject = contestants::named::<A>(engine, entrant.options)?.build(&rib)?;
    // The same addresses are drawn whatever the count: drawing cancels out.
    let dsts = Traffic::Prefix.draw(routes, DRAWN, 1);
    let mut stream = subject.stream(&dsts);
    for from in (0..count).step_by(DRAWN) {
        stream.run(0, (count - from).min(DRAWN), 256);
    }
    Ok(subject.isa().map(String::from))
}

fn find(engine: &str, stations: usize, count: usize) -> Result<Option<String>, String> {
    let entries = matching::entries(stations);
    let contestant = contestants::exact_named(engine)?;
    let mut table = contestant.build(stations)?;
    match table.insert(&entries) {
        0 => {}
        refused => return Err(format!("{engine} refuses {refused} entries")),
    }
    let (keys, _) = matching::keys(&entries, DRAWN, 0, 1);
    let mut stream = table.stream(&keys);
    for from in (0..count).step_by(DRAWN) {
        stream.run(0, (count - from).min(DRAWN), 256);
    }
    Ok(Some(contestant.isa))
}

fn meet(
    engine: &str,
    flows: usize,
    count: usize,
    is_flood: bool,
) -> Result<Option<String>, String> {
    let Choice { name, options } = engine.parse().map_err(|bad: BadChoice| bad.to_string())?;
    let entry = flow::engine(&name).ok_or_else(|| format!("no flow table `{name}`"))?;
    let mut with = matching::fixed_seed();
    with.0.extend(options.0);
    let wanted = Wanted { entries: flows, second: SECOND };
    let mut table = (entry.build)(wanted, &with).map_err(|refusal| refusal.to_string())?;
    // An odd factor keeps numbers different.
    let key = |n: u32| FlowKey::v4(n.wrapping_mul(0x9e37_79b1), 0x0a00_0001);
    let (mut keys, mut ids) = ([key(0); 256], [FlowId::NONE; 256]);
    let known = if is_flood { flows * 5 / 4 } else { (flows * 9 / 10).max(1) };
    let all = known + count;
    for from in (0..all).step_by(keys.len()) {
        let n = keys.len().min(all - from);
        for (key_of, at) in keys.iter_mut().zip(from..from + n) {
            *key_of = key(if is_flood { at } else { at % known } as u32);
        }
        let (keys, ids) = (&keys[..n], &mut ids[..n]);
        // Time passes in a flood: where all expire alike, `flow-table` has to look whether one that
        // could go has just come.
        let now = SECOND + if is_flood { 50 * from as u64 } else { 0 };
        table.find_or_insert_batch(now, now + 5 * SECOND, keys, ids, &mut |_, _, _| ());
    }
    let found = table.capacity().entries;
    if !is_flood && found < known {
        Err(format!("{engine} has {found} of {known} flows"))
    } else {
        Ok(Some(table.isa().into()))
    }
}

fn perf(mut command: Command, program: &[&OsStr]) -> Result<Misses, String> {
    command.args(["stat", "-x,", "-e", "cache-references,cache-misses", "--"]).args(program);
    let (text, isa) = said(command)?;
    let count = |event: &str| {
        let line = text.lines().find(|line| line.contains(event));
        let first = line.and_then(|line| line.split(',').next()?.parse().ok());
        first.ok_or_else(|| "perf counts nothing here".to_string())
    };
    let (references, misses) = (count("cache-references")?, count("cache-misses")?);
    Ok(Misses { references, misses, isa })
}

fn cachegrind(last_level: u32, program: &[&OsStr]) -> Result<Misses, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    command.args(["--D1=32768,8,64".to_string(), format!("--LL={last_level},16,64")]).args(program);
    let (text, isa) = said(command)?;
    let count = |name| number_of(&text, name).ok_or(format!("cachegrind counts no `{name}`"));
    Ok(Misses { references: count("D refs")?, misses: count("LLd misses")?, isa })
}

/// Of lines like `==7== D   refs:      1,234  (1,200 rd + 34 wr)` the number behind `name`.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let numbers = text.lines().filter_map(|line| {
        let (title, numbers) = line.split_once(':')?;
        // Behind the number of the process.
        let words: Vec<&str> = title.split_whitespace().skip(1).collect();
        (words.join(" ") == name).then_some(numbers)
    });
    let first = numbers.filter_map(|numbers| numbers.split_whitespace().next()).next()?;
    first.replace(',', "").parse().ok()
}

/// What a tool writes to its standard error, if all went well, and the instruction set that the
/// watched program has printed.
fn said(mut command: Command) -> Result<(String, Option<String>), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("{name}: {}", reason(&text)));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let isa = printed.lines().find_map(|line| line.strip_prefix(ISA));
    Ok((text, isa.map(String::from)))
}

/// The last line that the watched program said, or else the tool: what a record
/// may hold. The tools' own lines name folders of the machine.
fn reason(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let of_tool = |line: &&str| line.starts_with("==") || line.starts_with("--");
    let line = lines().rfind(|line| !of_tool(line)).or_else(|| lines().next_back());
    let words = line.unwrap_or("it failed and says nothing").split(' ');
    words.map(short_name).collect::<Vec<_>>().join(" ")
}

/// How a line begins that names the instruction set of what was driven.
pub const ISA: &str = "isa: ";

/// In a flow table's time.
const SECOND: u64 = 1_000_000_000;

/// Addresses that are looked up again and again.
const DRAWN: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_may_be_padded() {
        let text = "==7== I   refs:      9\n==7== D   refs:     1,234  (1,200 rd + 34 wr)\n\
                    ==7== LLd misses:        5  (  4 rd + 1 wr)\n";
        assert_eq!(number_of(text, "D refs"), Some(1234));
        assert_eq!(number_of(text, "LLd misses"), Some(5));
        assert_eq!(number_of(text, "LLi misses"), None);
    }

    #[test]
    fn flows_are_found_or_flood() {
        for table in ["flows:2000", "flood:2000"] {
            for engine in flow::engines() {
                assert!(drive(engine.card.name, table, 1000).is_ok(), "{table}");
            }
        }
        let portable = Some("portable".into());
        assert_eq!(drive("flow-table:isa=portable", "flows:1", 10), Ok(portable));
        assert!(drive("flow-table:full=never", "flows:2000", 0).is_err());
        assert!(drive("rutter4", "flows:2000", 0).is_err());
    }

    #[test]
    fn a_record_names_no_folder() {
        let text =
            "==7== Command: /home/me/rutter lab\n==7== \nerror: /home/me/x: no file\n==7== \n";
        assert_eq!(reason(text), "error: x: no file");
        assert_eq!(reason("==7== /a/b failed"), "==7== b failed");
    }
}
