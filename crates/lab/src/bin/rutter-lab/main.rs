//! `rutter-lab`: the experiments from the command line. `rutter lab …` starts it in its
//! place, so that the router's own binary holds neither experiments nor rivals.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   measure
//!   output
//! ```
#![forbid(unsafe_code)]

mod measure;
mod output;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use lab::Options;
use serde::Serialize;

use crate::output::{Failure, Output, Status};

/// Measure engines and the router, and redo the figures of the papers
#[derive(Parser)]
#[command(name = "rutter-lab", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  rutter lab list
  rutter lab run lpm/peers --quick
  rutter lab run lpm/peers --table routes.txt --out measured
  rutter lab run all && rutter lab report

A run may be done in pieces: what this program has measured with the same options on this
machine is not run again unless --again is given, and an interrupted run goes on where it was.
For figures worth keeping, let nothing else run on the machine.")]
struct Lab {
    /// Print JSON instead of text
    #[arg(short, long, global = true)]
    json: bool,

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
        /// Smaller tables and shorter slices
        #[arg(long)]
        quick: bool,
        /// A table to measure instead of the experiments' own; where a paper's claim is judged,
        /// in addition to them; may be given several times
        #[arg(short, long, value_name = "FILE")]
        table: Vec<String>,
        /// BGP updates to replay instead of made-up ones: an MRT file
        #[arg(short, long, value_name = "FILE")]
        updates: Option<PathBuf>,
        /// An engine instead of the experiments' own, as NAME:OPTION=VALUE,…; may be given
        /// several times. Records hold these alone; an experiment that measures none of them is
        /// refused
        #[arg(short, long, value_name = "NAME")]
        engine: Vec<String>,
        /// Measure again what already has a record
        #[arg(long)]
        again: bool,
        /// Fold next hops to N different ones, so that tables of narrow hops take part
        #[arg(long, value_name = "N", default_value_t = Options::HOPS,
              value_parser = clap::value_parser!(u32).range(1..))]
        hops: u32,
        #[command(flatten)]
        records: Records,
    },
    /// Run every experiment that needs a GPU, within 8 minutes: answers are checked, each result
    /// is printed at once, and at most 8 files are written
    GpuSuite {
        /// Smaller tables and shorter slices
        #[arg(long)]
        quick: bool,
        /// Leave out experiments that would end after this many seconds; one minute later the run
        /// ends in any case
        #[arg(long, value_name = "S", default_value_t = 420,
              value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
        /// Seconds from the last beginning to the end
        #[arg(long, hide = true, default_value_t = 60)]
        grace: u32,
        #[command(flatten)]
        records: Records,
    },
    /// What `rutter completion` completes behind `rutter lab`, a word a line
    #[command(hide = true)]
    Words,
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
    /// Judge the rows of records by the claims of this program, without measuring anew
    Judge {
        #[command(flatten)]
        records: Records,
    },
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

fn main() -> ExitCode {
    if let Some(ended) = policy::cell::called() {
        return ended;
    }
    let Lab { json, action } = Lab::parse();
    let mut out = Output::new(json);
    let done = act(action, &mut out).and_then(|status| out.finish().map(|()| status));
    let code = done.map_or_else(|failure| failure.report(), |status| status as u8);
    if offload::devices::any_stuck() {
        end(code); // the driver's own end may wait for the device
    }
    code.into()
}

fn act(action: Action, out: &mut Output) -> Result<Status, Failure> {
    match action {
        Action::List => list(out)?,
        Action::Run { names, quick, table, updates, engine, again, hops, records } => {
            lab::contestants::known(&engine)?;
            let (out_folder, tables, engines) = (records.out, table, engine);
            let options = Options { quick, out: out_folder, tables, updates, engines, hops };
            return measure::run(&names, options, again, None, out);
        }
        Action::GpuSuite { quick, seconds, grace, records } => {
            let options = Options {
                quick,
                out: records.out,
                tables: Vec::new(),
                updates: None,
                engines: Vec::new(),
                hops: Options::HOPS,
            };
            let limit = Duration::from_secs(seconds.into());
            end_at(limit + Duration::from_secs(grace.into()));
            let gpus = lab::gpus_here();
            out.line(gpus.unwrap_or_else(|why| format!("not measured on a GPU: {why}")))?;
            out.flush()?;
            return measure::run(&GPU_SUITE.map(String::from), options, true, Some(limit), out);
        }
        Action::Words => words(out)?,
        Action::Drive { engine, table, count } => {
            let isa = lab::misses::drive(&engine, &table, count)
                .map_err(|what| lab::Error::Missing { experiment: "lab drive", what })?;
            if let Some(isa) = isa {
                out.line(format_args!("{}{isa}", lab::misses::ISA))?;
            }
        }
        Action::Forward { family, hugepages } => {
            lab::experiments::serve_hugepages(&family, hugepages)
                .map_err(|what| lab::Error::Missing { experiment: "lab forward", what })?;
        }
        Action::Memory { family, table } => lab::experiments::serve_memory(&family, &table)?,
        Action::Judge { records } => {
            let changed = lab::report::judge(&records.out)?;
            if out.json {
                out.json(&changed)?;
            } else {
                changed.iter().try_for_each(|name| out.line(name))?;
                out.line(format_args!("{} records have other verdicts now", changed.len()))?;
            }
        }
        Action::Report { page, records } => {
            let (path, n) = lab::report::write(&records.out, page.as_deref())?;
            if out.json {
                out.json(&Page { page: path.display().to_string(), records: n })?;
            } else {
                out.line(format_args!("{} ({n} records)", path.display()))?;
            }
        }
    }
    Ok(Status::Success)
}

/// Ends the process then: a device may keep a call for ever. Records that are there stay.
fn end_at(time: Duration) {
    let ends = move || {
        std::thread::sleep(time);
        output::warn("the time is up; what is not recorded by now is left out");
        end(Status::Fault as u8);
    };
    // Without a thread, the suite is limited by what it begins alone.
    drop(std::thread::Builder::new().name("limit".into()).spawn(ends));
}

/// Ends the process without what the driver does at its end, which may wait for the device, too.
fn end(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

/// The shortest first: what a machine is lent for may end early.
const GPU_SUITE: [&str; 3] = ["bloomfwd/fig9", "bloomfwd/fig10", "offload/peers"];

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

fn list(out: &mut Output) -> Result<(), Failure> {
    let cards = lab::experiments::all().iter().map(|experiment| experiment.card());
    let listed: Vec<Listed> = cards
        .map(|card| Listed {
            name: card.name,
            help: card.help,
            source: card.source,
            claim: card.claim,
        })
        .collect();
    if out.json {
        return out.json(&listed);
    }
    let width = listed.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for Listed { name, help, .. } in &listed {
        out.line(format_args!("{name:width$}  {help}"))?;
    }
    Ok(())
}

/// Commands first, then `all`, the groups and the experiments.
fn words(out: &mut Output) -> Result<(), Failure> {
    let lab = <Lab as clap::CommandFactory>::command();
    for command in lab.get_subcommands().filter(|command| !command.is_hide_set()) {
        out.line(command.get_name())?;
    }
    out.line("all")?;
    let mut last = "";
    for name in lab::experiments::all().iter().map(|experiment| experiment.card().name) {
        let group = name.split('/').next().unwrap_or(name);
        if group != last {
            out.line(group)?;
            last = group;
        }
        out.line(name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_ends_within_eight_minutes() {
        let Lab { action, .. } = Lab::parse_from(["rutter-lab", "gpu-suite"]);
        let Action::GpuSuite { seconds, grace, .. } = action else { panic!("another command") };
        assert!(seconds + grace <= 8 * 60, "{seconds} s and {grace} s");
    }
}
