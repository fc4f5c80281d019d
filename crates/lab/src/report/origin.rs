//! Where records come from: each machine once, and the commits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::svg::escape;
use crate::Record;
use crate::machine::Machine;

/// The machines of a set of records.
pub(super) struct Origin<'r> {
    /// Each with its records.
    machines: Vec<(&'r Machine, Vec<&'r Record>)>,
}

impl<'r> Origin<'r> {
    pub fn new(records: &'r [Record]) -> Origin<'r> {
        let mut machines: Vec<(&Machine, Vec<&Record>)> = Vec::new();
        for record in records {
            match machines
                .iter_mut()
                .find(|(known, _)| hardware(known) == hardware(&record.machine))
            {
                Some((_, of)) => of.push(record),
                None => machines.push((&record.machine, vec![record])),
            }
        }
        // The one that most records come from is A.
        machines.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
        Origin { machines }
    }

    /// The letter of the machine that `record` comes from.
    pub fn letter(&self, record: &Record) -> char {
        let of = |(machine, _): &(&Machine, _)| hardware(machine) == hardware(&record.machine);
        let at = self.machines.iter().position(of).unwrap_or_default();
        char::from_u32('A' as u32 + at as u32).unwrap_or('?')
    }

    /// What is particular to a record beside its machine.
    pub fn particular(&self, record: &Record) -> String {
        let of = &record.machine;
        let usual = self.machines.iter().find(|(machine, _)| hardware(machine) == hardware(of));
        let mut text = format!(
            "machine {}, commit {}, {}, {:.0} s",
            self.letter(record),
            of.commit,
            date(record.time_s),
            record.took_s.max(1.0)
        );
        if usual.is_some_and(|(machine, _)| machine.hugepages != of.hugepages) {
            let _ = write!(text, ", hugepages: {}", of.hugepages);
        }
        for (is, what) in [(record.quick, "quick run"), (!of.release, "debug build")] {
            if is {
                let _ = write!(text, ", {what}");
            }
        }
        text
    }

    /// Each machine once, the commits, and what that means for a reader.
    pub fn describe(&self) -> String {
        let mut text = String::from("<h2>Where the records come from</h2>\n");
        for (i, (machine, records)) in self.machines.iter().enumerate() {
            let letter = char::from_u32('A' as u32 + i as u32).unwrap_or('?');
            text.push_str(&described(letter, machine, records));
        }
        let all = || self.machines.iter().flat_map(|(_, records)| records);
        let commits: BTreeSet<&str> = all().map(|record| record.machine.commit.as_str()).collect();
        let dirty: Vec<&str> = all()
            .filter(|record| record.machine.commit.ends_with("-dirty"))
            .map(|record| record.experiment.as_str())
            .collect();
        let quick = all().filter(|record| record.quick).count();
        let mut warnings = Vec::new();
        if self.machines.len() > 1 {
            warnings.push(format!(
                "The records come from {} machines: figures of two of them are not comparable, \
                ratios within one record are.",
                self.machines.len()
            ));
        }
        if commits.len() > 1 {
            warnings.push(format!("They come from {} commits; each names its own.", commits.len()));
        }
        if !dirty.is_empty() {
            warnings.push(format!("Built from changed files: {}.", dirty.join(", ")));
        }
        if quick > 0 {
            warnings.push(format!("{quick} are of quick runs: smaller tables, shorter slices."));
        }
        if !warnings.is_empty() {
            let _ = writeln!(text, "<p class=\"warn\">{}</p>", escape(&warnings.join(" ")));
        }
        text
    }
}

/// What a figure depends on that no record of the same machine changes.
fn hardware(machine: &Machine) -> (&str, &str, usize, &[String], &[String], &str, bool) {
    let Machine { cpu, model, cores, flags, caches, kernel, virtual_machine, .. } = machine;
    (cpu, model, *cores, flags, caches, kernel, *virtual_machine)
}

fn described(letter: char, machine: &Machine, records: &[&Record]) -> String {
    let clocks = || records.iter().map(|record| record.machine.core_ghz);
    let (least, most) = (clocks().fold(f64::INFINITY, f64::min), clocks().fold(0.0, f64::max));
    let clock = match (most - least) < 0.05 {
        true => format!("{most:.2} GHz"),
        false => format!("{least:.2} to {most:.2} GHz, as measured beside each record"),
    };
    let mut commits: BTreeMap<&str, usize> = BTreeMap::new();
    records.iter().for_each(|record| *commits.entry(&record.machine.commit).or_default() += 1);
    let commits: Vec<String> = commits
        .iter()
        .map(|(commit, n)| format!("<code>{}</code> ({n})", escape(commit)))
        .collect();
    let times = || records.iter().map(|record| record.time_s);
    let (first, last) = (date(times().min().unwrap_or(0)), date(times().max().unwrap_or(0)));
    let when = if first == last { first } else { format!("{first} to {last}") };
    let minutes = records.iter().map(|record| record.took_s).sum::<f64>() / 60.0;
    let lines = [
        ("Processor", escape(&format!("{} ({})", machine.cpu, machine.model))),
        (
            "Cores",
            format!(
                "{}{}, {clock}",
                machine.cores,
                if machine.virtual_machine { " of a virtual machine" } else { "" }
            ),
        ),
        ("Caches", escape(&machine.caches.join(", "))),
        ("Memory", format!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30))),
        ("Hugepages", escape(&machine.hugepages)),
        ("Kernel", escape(&format!("Linux {}", machine.kernel))),
        ("Instruction sets", escape(&machine.flags.join(" "))),
        ("Records", format!("{}, {minutes:.0} minutes, {when}", records.len())),
        ("Commits", commits.join(", ")),
    ];
    let lines: String =
        lines.iter().map(|(name, is)| format!("<dt>{name}</dt><dd>{is}</dd>")).collect();
    format!("<h4>Machine {letter}</h4>\n<dl>{lines}</dl>\n")
}

/// `2026-11-21`, by the civil calendar (Hinnant, *chrono-compatible low-level
/// date algorithms*).
fn date(time_s: u64) -> String {
    let days = (time_s / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_calendar() {
        let cases = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_800_000_000, "2027-01-15")];
        for (time_s, text) in cases {
            assert_eq!(date(time_s), text);
        }
    }

    #[test]
    fn a_machine_is_described_once_and_two_are_a_warning() {
        let record = |cpu: &str, commit: &str, pages: &str| {
            let (cpu, commit, hugepages) = (cpu.into(), commit.into(), pages.into());
            let machine = Machine { cpu, commit, hugepages, release: true, ..Machine::default() };
            Record { machine, ..Record::default() }
        };
        let one = [record("<Zen>", "abc", "0"), record("<Zen>", "abc", "256")];
        let origin = Origin::new(&one);
        let text = origin.describe();
        assert_eq!(text.matches("&lt;Zen&gt;").count(), 1);
        assert!(!text.contains("warn"), "{text}");
        assert!(origin.particular(&one[1]).contains("hugepages: 256"));
        let two =
            [record("Zen", "abc", "0"), record("Zen", "abc", "0"), record("Xeon", "d-dirty", "0")];
        let origin = Origin::new(&two);
        let text = origin.describe();
        for part in ["Machine A", "Machine B", "from 2 machines", "2 commits", "changed files"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!((origin.letter(&two[0]), origin.letter(&two[2])), ('A', 'B'));
    }
}
