//! `lpm/bulk`: how many addresses a second `rutter lookup` answers, as text and as numbers, from a
//! file and through pipes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lookup::{Addr, Hop, Prefix, Rib};

use crate::data::Traffic;
use crate::record::{Bound, Figure};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Bulk;

impl Experiment for Bulk {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn families(&self, _: &Context) -> &'static [&'static str] {
        &["ipv4", "ipv6"]
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        let of = |labels: [(&str, &str); 4]| {
            rows.iter().find(|row| row.is(&labels)).and_then(|row| row.median(RATE))
        };
        let mut verdicts = Vec::new();
        let ipv4 = rows.iter().filter(|row| row.label("family") == "ipv4");
        // Older rows do not name their table: there was one.
        let tables: BTreeSet<&str> = ipv4.map(|row| row.label("table")).collect();
        let goals = [(HOPS, 10.0), (PREFIXES, 3.0)];
        for (table, (form, least)) in tables.into_iter().flat_map(|table| goals.map(|g| (table, g)))
        {
            let labels =
                |from| [("family", "ipv4"), ("form", form), ("from", from), ("table", table)];
            let found: Vec<_> = INPUTS.iter().filter_map(|&from| of(labels(from))).collect();
            let place = if table.is_empty() { String::new() } else { format!(" [{table}]") };
            let text =
                format!("{form}, IPv4, one core: {least} to 200 M addresses a second{place}");
            verdicts.push(Bound::within(least, 200.0).every().ours().judge(text, &found, "M/s"));
        }
        verdicts
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let tool = tool()?;
        let of = |spec: String| ["ipv4", "ipv6"].map(|family| format!("{family} of {spec}"));
        let cells: Vec<String> = context.tables(&[TABLE]).into_iter().flat_map(of).collect();
        let rows = context.cells(cells, |context, cell| {
            let (family, spec) = cell.split_once(" of ").unwrap_or_default();
            let table = context.load(spec)?;
            let named = formats::Table::open(spec, &formats::Load::default());
            let named = named.map_err(|error| failed(&error))?;
            let name = |hop: Hop| named.hops.name(hop).unwrap_or("-").to_owned();
            let found = match family {
                "ipv4" => rows(context, &tool, (spec, family), &table.ipv4, &name),
                _ => rows(context, &tool, (spec, family), &table.ipv6, &name),
            }?;
            Ok(found.into_iter().map(|row| row.labelled("table", &table.name)).collect())
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const CARD: Card = Card {
    name: "lpm/bulk",
    takes: Takes { full_s: 160.0, quick_s: 8.0 },
    help: "addresses a second of the command `rutter lookup`, as text and as numbers",
    source: "issue on the lab and the lookup tool, 1.4",
    claim: "on one core at least 10 M addresses a second without prefixes, 3 M with them",
    plots: &[Plot {
        title: "rutter lookup on one core",
        figure: RATE,
        unit: "M/s",
        x: "form",
        series: "from",
        panels: &["family", "table"],
        style: Style::Bars,
    }],
};

const NOTES: [&str; 3] = [
    "the command beside this program, on one core; the least time of a run without addresses (loading the \
     table) is subtracted",
    "pipes: this program writes the addresses and reads the answers, on the other cores",
    "the first 50,000 answers of each form are compared with a search of the routes",
];

/// What is run: a name, and the command's options.
fn forms(family: &str) -> [(&'static str, Vec<String>); 3] {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    [(HOPS, words(&["--no-prefix"])), (PREFIXES, Vec::new()), (NUMBERS, words(&["--raw", family]))]
}

/// The command beside this program.
fn tool() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let tool = program.with_file_name("rutter");
    match tool.is_file() {
        true => Ok(tool),
        false => Err(failed(&format!("{}: cargo build --release -p cli", tool.display()))),
    }
}

fn rows<A: Addr>(
    context: &mut Context,
    tool: &Path,
    (spec, family): (&str, &str),
    routes: &[(Prefix<A>, Hop)],
    name: &dyn Fn(Hop) -> String,
) -> Result<Vec<Row>, Error> {
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    let dsts = Traffic::Prefix.draw(routes, context.pick(1 << 23, 1 << 17), 1);
    let rib: Rib<A> = routes.iter().copied().collect();
    let (mut rows, mut text, mut raw) = (Vec::new(), String::new(), Vec::new());
    for dst in &dsts {
        _ = writeln!(text, "{}", dst.to_ip());
        raw.extend_from_slice(&dst.to_u128().to_be_bytes()[16 - size_of::<A>()..]);
    }
    // Numbers take less time than loading the table, which is no use to a difference of both.
    let raw = raw.repeat(context.pick(REPEATED, REPEATED >> 3) / raw.len());
    for (form, options) in forms(family) {
        let run = Run { tool, spec, options };
        let input = if form == NUMBERS { &raw[..] } else { text.as_bytes() };
        let count = if form == NUMBERS { raw.len() / size_of::<A>() } else { dsts.len() };
        check(&run, form, &dsts[..CHECKED.min(dsts.len())], (&rib, name))?;
        let file = Held::new(context.out(), input)?;
        let (mut start, mut times): (_, [Vec<Duration>; 2]) = (Duration::MAX, Default::default());
        for _ in 0..context.pick(7, 3) {
            start = start.min(run.file(Path::new("/dev/null"))?);
            times[0].push(run.file(&file.0)?);
            times[1].push(run.pipes(input)?.0);
        }
        for (from, times) in INPUTS.iter().zip(times) {
            let net = times.iter().filter_map(|time| time.checked_sub(start));
            let samples: Vec<_> = net.map(|time| count as f64 / time.as_secs_f64() / 1e6).collect();
            if samples.is_empty() {
                return Err(failed(&"a machine less busy: runs take as long as loading the table"));
            }
            let rate = Figure::most_is_best(&samples);
            context.say(&format!("{family}, {form}, {from}: {:.1} M/s", rate.median));
            let labels = [("family", family), ("form", form), ("from", from)];
            rows.push(Row::new(labels).with(RATE, rate));
        }
    }
    Ok(rows)
}

/// The command, with its options.
struct Run<'a> {
    tool: &'a Path,
    spec: &'a str,
    options: Vec<String>,
}

impl Run<'_> {
    fn command(&self) -> Command {
        // The command is on the measuring core, as this thread is.
        clock::cores().last().map(|&core| clock::pin(core));
        let mut command = Command::new(self.tool);
        command.args(["lookup", "--table", self.spec]).args(&self.options);
        command.stderr(Stdio::inherit());
        command
    }

    /// How long it takes for a file.
    fn file(&self, input: &Path) -> Result<Duration, Error> {
        let file = File::open(input).map_err(|error| failed(&error))?;
        let begun = Instant::now();
        let mut command = self.command();
        let ended = command.stdin(file).stdout(Stdio::null()).status();
        let time = begun.elapsed();
        clock::unpin();
        answered(ended.map_err(|error| failed(&error))?.code())?;
        Ok(time)
    }

    /// How long it takes through pipes, and its answers.
    fn pipes(&self, input: &[u8]) -> Result<(Duration, Vec<u8>), Error> {
        let begun = Instant::now();
        let child = self.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| failed(&error))?;
        if let Some(&core) = clock::cores().last() {
            clock::leave(core);
        }
        let (mut to, mut from) = (child.stdin.take(), child.stdout.take());
        let mut answers = Vec::with_capacity(input.len());
        let (sent, got) = std::thread::scope(|scope| {
            let sender =
                scope.spawn(move || to.take().map_or(Ok(()), |mut to| to.write_all(input)));
            let got = from.as_mut().map_or(Ok(0), |from| from.read_to_end(&mut answers));
            (sender.join().expect("it does not panic"), got)
        });
        let ended = child.wait();
        let time = begun.elapsed();
        clock::unpin();
        sent.and(got.map(drop)).map_err(|error| failed(&error))?;
        answered(ended.map_err(|error| failed(&error))?.code())?;
        Ok((time, answers))
    }
}

/// 1: some addresses have no route.
fn answered(code: Option<i32>) -> Result<(), Error> {
    match code {
        Some(0 | 1) => Ok(()),
        code => Err(failed(&format!("rutter lookup ended with status {code:?}"))),
    }
}

/// Compares the answers with the routes'.
fn check<A: Addr>(
    run: &Run<'_>,
    form: &str,
    dsts: &[A],
    (rib, name): (&Rib<A>, &dyn Fn(Hop) -> String),
) -> Result<(), Error> {
    let (mut input, mut wanted) = (Vec::new(), Vec::new());
    for &dst in dsts {
        let (ip, found) = (dst.to_ip(), rib.lookup(dst));
        let hop = found.map_or(Hop::NONE, |(_, hop)| hop);
        if form == NUMBERS {
            input.extend_from_slice(&dst.to_u128().to_be_bytes()[16 - size_of::<A>()..]);
            wanted.extend_from_slice(&hop.0.to_be_bytes());
            continue;
        }
        input.extend_from_slice(format!("{ip}\n").as_bytes());
        let prefix = found.map_or("-".to_owned(), |(prefix, _)| prefix.to_string());
        let prefix = if form == PREFIXES { format!("\t{prefix}") } else { String::new() };
        wanted.extend_from_slice(format!("{ip}{prefix}\t{}\n", name(hop)).as_bytes());
    }
    match run.pipes(&input)?.1 == wanted {
        true => Ok(()),
        false => {
            Err(Error::Wrong { experiment: CARD.name, what: format!("{form}: other answers") })
        }
    }
}

/// A file as long as this lives.
struct Held(PathBuf);

impl Held {
    fn new(folder: &Path, bytes: &[u8]) -> Result<Held, Error> {
        let held = Held(folder.join(format!("bulk-{}.input", std::process::id())));
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        std::fs::write(&held.0, bytes).map_err(|error| failed(&error))?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn failed(what: &dyn std::fmt::Display) -> Error {
    Error::Missing { experiment: CARD.name, what: what.to_string() }
}

const TABLE: &str = "internet:1000000+200000";
const HOPS: &str = "text, hops";
const PREFIXES: &str = "text, prefixes and hops";
const NUMBERS: &str = "numbers";
const INPUTS: [&str; 2] = ["file", "pipes"];
const RATE: &str = "addresses";
/// Answers that are compared.
const CHECKED: usize = 50_000;
/// Bytes of numbers.
const REPEATED: usize = 1 << 29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_judged() {
        let row = |table: &str, family: &str, form: &str, rate: f64| {
            let labels = [("family", family), ("form", form), ("from", "file"), ("table", table)];
            Row::new(labels).with(RATE, rate)
        };
        let judged = |rows: &[Row]| -> Vec<_> {
            Bulk.judge(rows).into_iter().map(|v| (v.claim.clone(), v.holds())).collect()
        };
        let rows = [
            row("a", "ipv4", HOPS, 12.0),
            row("a", "ipv4", PREFIXES, 2.0),
            row("b", "ipv4", HOPS, 9.0),
            row("b", "ipv4", PREFIXES, 4.0),
            row("c", "ipv6", HOPS, 9.0),
        ];
        let verdicts = judged(&rows);
        let held: Vec<_> = verdicts.iter().map(|(_, held)| *held).collect();
        assert_eq!(held, [Some(true), Some(false), Some(false), Some(true)]);
        assert!(verdicts[2].0.ends_with(" [b]"), "{}", verdicts[2].0);
        let old = judged(&[row("", "ipv4", HOPS, 12.0)]);
        assert!(old[0].0.ends_with("a second") && old[0].1 == Some(true), "{old:?}");
    }
}
