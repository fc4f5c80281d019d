//! `rutter lab`.

use std::io::Write;
use std::path::PathBuf;

use lab::{Context as Lab, Options, Outcome, Record, Verdict};
use serde::Serialize;

use crate::context::{Context, warn};
use crate::error::Error;
use crate::status::Status;

/// Measure engines and the router, and redo the figures of the papers
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter lab list
  rutter lab run lpm/peers --quick
  rutter lab run lpm/peers --table routes.txt --out measured
  rutter lab run all && rutter lab report

A run may be done in pieces: what this program has measured with the same options on this
machine is not run again unless --again is given, and an interrupted run goes on where it was.
For figures worth keeping, let nothing else run on the machine.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the experiments
    List,
    /// Run experiments and keep what they measured
    Run {
        /// Experiments, or the part before the slash for all of a group, or `all`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Smaller tables and shorter slices: each experiment in under a minute
        #[arg(long)]
        quick: bool,
        /// A table instead of the experiments' own; may be given several times
        #[arg(short, long, value_name = "FILE")]
        table: Vec<String>,
        /// Run what has a record already, too
        #[arg(long)]
        again: bool,
        /// Fold next hops to N different ones, so that tables of narrow hops take part
        #[arg(long, value_name = "N", default_value_t = Options::HOPS,
              value_parser = clap::value_parser!(u32).range(1..))]
        hops: u32,
        #[command(flatten)]
        records: Records,
    },
    /// What a counter of cache misses watches: builds a table and looks addresses up
    #[command(hide = true)]
    Drive {
        engine: String,
        #[arg(long)]
        table: String,
        #[arg(long)]
        count: usize,
    },
    /// One side of router/hugepages: forwards for as many microseconds as each line says
    #[command(hide = true)]
    Forward {
        family: String,
        #[arg(long)]
        hugepages: bool,
    },
    /// What router/memory measures in a process of its own
    #[command(hide = true)]
    Memory { family: String, table: String },
    /// Make one page of all records: plots, and each claim beside what was measured
    Report {
        /// Where the page goes; unless given, it is report.html beside the records
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
        #[command(flatten)]
        records: Records,
    },
}

#[derive(clap::Args)]
struct Records {
    /// The folder of the records
    #[arg(short, long, value_name = "DIR", default_value = "lab-records")]
    out: PathBuf,
}

/// Lists, runs or reports.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    match args.action {
        Action::List => list(cx),
        Action::Run { names, quick, table, again, hops, records } => {
            let options = Options { quick, out: records.out, tables: table, hops };
            measure(&names, options, again, cx)
        }
        Action::Drive { engine, table, count } => {
            lab::misses::drive(&engine, &table, count).map_err(|reason| {
                lab::Error::Missing { experiment: "lab drive", what: reason }
            })?;
            Ok(Status::Success)
        }
        Action::Forward { family, hugepages } => {
            lab::experiments::hugepages::serve(&family, hugepages).map_err(|reason| {
                lab::Error::Missing { experiment: "lab forward", what: reason }
            })?;
            Ok(Status::Success)
        }
        Action::Memory { family, table } => {
            lab::experiments::memory::serve(&family, &table)?;
            Ok(Status::Success)
        }
        Action::Report { page, records } => {
            let (path, n) = lab::report::write(&records.out, page.as_deref())?;
            if cx.json {
                cx.print_json(&Page { page: path.display().to_string(), records: n })?;
                return Ok(Status::Success);
            }
            writeln!(cx.out, "{} ({n} records)", path.display())?;
            Ok(Status::Success)
        }
    }
}

#[derive(Serialize)]
struct Page {
    page: String,
    records: usize,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    help: &'static str,
    source: &'static str,
    claim: &'static str,
}

fn list(cx: &mut Context) -> Result<Status, Error> {
    let cards = lab::experiments::all().iter().map(|experiment| experiment.card());
    let listed: Vec<Listed> = cards
        .map(|card| Listed {
            name: card.name,
            help: card.help,
            source: card.source,
            claim: card.claim,
        })
        .collect();
    if cx.json {
        cx.print_json(&listed)?;
        return Ok(Status::Success);
    }
    let width = listed.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for Listed { name, help, .. } in &listed {
        writeln!(cx.out, "{name:width$}  {help}")?;
    }
    Ok(Status::Success)
}

/// Runs what was asked for; one that cannot run does not keep the others from it.
fn measure(
    names: &[String],
    options: Options,
    again: bool,
    cx: &mut Context,
) -> Result<Status, Error> {
    let experiments = lab::select(names)?;
    if cfg!(debug_assertions) {
        warn("this is a debug build: its figures mean nothing");
    }
    let mut lab = Lab::new(options, |line| warn(line));
    let mut status = Status::Success;
    lab::run(&experiments, &mut lab, again, |name, outcome| {
        match outcome {
            Outcome::Ran(record, _) | Outcome::There(record, _) if cx.json => {
                cx.print_json(&record)?;
            }
            Outcome::Ran(record, path) => show(&record, &path, cx)?,
            Outcome::There(_, path) => {
                writeln!(cx.out, "{name}: there already, {}", path.display())?;
            }
            // Of a set, what this machine can measure is all that can be asked.
            Outcome::Failed(lab::Error::Missing { what, .. }) if experiments.len() > 1 => {
                warn(format_args!("{name}: left out: it needs {what}"));
            }
            Outcome::Failed(error) => {
                warn(format_args!("{name}: {error}"));
                status = Status::Fault;
            }
        }
        Ok::<(), Error>(cx.out.flush()?)
    })?;
    Ok(status)
}

fn show(record: &Record, path: &std::path::Path, cx: &mut Context) -> Result<(), Error> {
    let Record { experiment, rows, took_s, .. } = record;
    writeln!(cx.out, "{experiment}: {} rows, {took_s} s, {}", rows.len(), path.display())?;
    for Verdict { claim, measured, confirmed } in &record.verdicts {
        let word = match confirmed {
            Some(true) => "confirmed",
            Some(false) => "NOT confirmed",
            None => "open",
        };
        writeln!(cx.out, "  {word:13}  {claim}: {measured}")?;
    }
    for row in record.rows.iter().filter(|row| row.note.is_some()) {
        let labels: Vec<&str> = row.labels.values().map(String::as_str).collect();
        let note = row.note.as_deref().unwrap_or_default();
        writeln!(cx.out, "  {}: {note}", labels.join(" "))?;
    }
    Ok(())
}
