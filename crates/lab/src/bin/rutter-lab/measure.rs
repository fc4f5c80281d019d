//! `rutter-lab run`.

use std::path::Path;
use std::time::Duration;

use lab::{Context, Options, Outcome, Record, Verdict};

use crate::output::{Failure, Output, Status, warn};

/// Runs what was asked for; one that cannot run does not keep the others from it. Within `limit`,
/// where there is one: what would end later is left out.
pub fn run(
    names: &[String],
    options: Options,
    again: bool,
    limit: Option<Duration>,
    out: &mut Output,
) -> Result<Status, Failure> {
    let experiments = lab::select(names)?;
    if cfg!(debug_assertions) {
        warn("this is a debug build: its figures mean nothing");
    }
    let mut lab = Context::new(options, |line| warn(line));
    limit.into_iter().for_each(|limit| lab.end_after(limit));
    let (mut status, mut any) = (Status::Success, false);
    lab::run(&experiments, &mut lab, again, |name, outcome| {
        any |= matches!(outcome, Outcome::Ran(..) | Outcome::There(..));
        match outcome {
            Outcome::Ran(record, _) | Outcome::There(record, _) if out.json => out.json(&record)?,
            Outcome::Ran(record, path) => show(&record, &path, out)?,
            Outcome::There(_, path) => {
                out.line(format_args!("{name}: there already, {}", path.display()))?;
            }
            // Of a set, what this machine can measure is all that can be asked.
            Outcome::Failed(lab::Error::Missing { what, .. }) if experiments.len() > 1 => {
                warn(format_args!("{name}: left out: it needs {what}"));
            }
            Outcome::Failed(
                error @ (lab::Error::NoTable { .. }
                | lab::Error::NoEngine { .. }
                | lab::Error::NoUpdates { .. }),
            ) if experiments.len() > 1 => {
                warn(format_args!("{name}: left out: {error}"));
            }
            Outcome::Failed(error) => {
                warn(format_args!("{name}: {error}"));
                status = Status::Fault;
            }
        }
        out.flush()
    })?;
    if !any && status == Status::Success {
        warn("nothing was measured");
        status = Status::Fault;
    }
    Ok(status)
}

fn show(record: &Record, path: &Path, out: &mut Output) -> Result<(), Failure> {
    let Record { experiment, rows, took_s, .. } = record;
    let place = path.display();
    out.line(format_args!("{experiment}: {} rows, {took_s} s, {place}", rows.len()))?;
    for Verdict { claim, measured, ruling, .. } in &record.verdicts {
        out.line(format_args!("  {:12}  {claim}: {measured}", ruling.word()))?;
    }
    for row in record.rows.iter().filter(|row| row.note.is_some()) {
        let labels: Vec<&str> = row.labels.values().map(String::as_str).collect();
        let note = row.note.as_deref().unwrap_or_default();
        out.line(format_args!("  {}: {note}", labels.join(" ")))?;
    }
    Ok(())
}
