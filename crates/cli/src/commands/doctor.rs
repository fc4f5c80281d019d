//! `rutter doctor`.

use std::io::Write;

use api::{Reply, What};
use daemon::doctor::{Finding, Level, findings};
use serde::Serialize;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Tell what this machine lacks for full speed, and the exact remedy
#[derive(clap::Args)]
#[command(after_help = "\
Status 0: nothing is missing. Status 1: it runs, but slower or with less than it
could; each line says what to do.")]
pub struct Args {}

#[derive(Serialize)]
struct Line {
    what: &'static str,
    level: &'static str,
    found: String,
    remedy: String,
}

/// Looks at the machine; status 1 where something could be better.
pub fn run(_: Args, cx: &mut Context) -> Result<Status, Error> {
    let mut findings = findings();
    findings.extend(refusals(cx));
    let all_well = findings.iter().all(|finding| finding.level == Level::Good);
    if cx.json {
        let line = |finding: Finding| Line {
            what: finding.what,
            level: name(finding.level),
            found: finding.found,
            remedy: finding.remedy,
        };
        let lines: Vec<Line> = findings.into_iter().map(line).collect();
        cx.print_json(&lines)?;
    } else {
        for Finding { what, level, found, remedy } in findings {
            writeln!(cx.out, "{:8}  {what:22}  {found}", name(level))?;
            for line in remedy.lines() {
                writeln!(cx.out, "{:34}→ {line}", "")?;
            }
        }
    }
    Ok(if all_well { Status::Success } else { Status::No })
}

/// What a router that runs did not take in; `None` where none answers.
fn refusals(cx: &Context) -> Option<Finding> {
    let Ok(Reply::Capacity(all)) = cx.ask(What::Capacity) else { return None };
    let refused: Vec<_> = all.iter().filter(|limit| limit.refused > 0).collect();
    let what = "refused so far";
    let Some(first) = refused.first() else {
        let (level, found) = (Level::Good, "nothing".into());
        return Some(Finding { what, level, found, remedy: String::new() });
    };
    let more = if refused.len() > 1 { ", and others" } else { "" };
    let found = format!("{}: {}, the latest {}{more}", first.what, first.refused, first.last);
    let remedy = "rutter show capacity       (each limit, and the key that sets it)".into();
    Some(Finding { what, level: Level::Better, found, remedy })
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Good => "ok",
        Level::Better => "better",
        Level::Missing => "missing",
    }
}
