//! `rutter doctor`.

mod gpus;

use std::io::Write;

use api::apps::switch::{self, Bridge};
use api::reply::{Capacity, Finding};
use api::{Reply, What};
use daemon::doctor::{Level, findings};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Report what this machine lacks for full speed, and the exact remedy
#[derive(clap::Args)]
#[command(after_help = "\
If a router runs, it reports on its own network namespace and cores.

Exit status: 0 nothing is missing, 1 something is missing: Rutter runs, but slower or
with fewer features. Each line gives the remedy.")]
pub struct Args {}

/// Checks the machine; status 1 where something could be better.
pub fn run(_: Args, cx: &mut Context) -> Result<Status, Error> {
    let mut findings: Vec<Finding> = findings().into_iter().map(Finding::from).collect();
    findings.extend(gpus::findings());
    if let Ok(Reply::Doctor(theirs)) = cx.ask(What::Doctor) {
        theirs.into_iter().for_each(|finding| put(&mut findings, finding));
    }
    if let Ok(Reply::Capacity(all)) = cx.ask(What::Capacity) {
        findings.push(refusals(&all));
        findings.extend(full(&all));
    }
    if let Ok(Reply::System(system)) = cx.ask(What::System) {
        findings.extend(warned(&system.warnings));
    }
    if let Ok(Reply::Switch(switch::Reply::Bridges(all))) = cx.ask(switch::What::Bridges) {
        findings.extend(loops(&all));
    }
    let all_well = findings.iter().all(|finding| finding.level == Level::Good.name());
    if cx.json {
        cx.print_json(&findings)?;
    } else {
        for Finding { what, level, found, remedy } in findings {
            writeln!(cx.out, "{level:8}  {what:22}  {found}")?;
            for line in remedy.lines() {
                writeln!(cx.out, "{:34}→ {line}", "")?;
            }
        }
    }
    Ok(if all_well { Status::Success } else { Status::No })
}

/// In the place of this process's own, where it has looked at the same.
fn put(findings: &mut Vec<Finding>, finding: Finding) {
    match findings.iter_mut().find(|own| own.what == finding.what) {
        Some(own) => *own = finding,
        None => findings.push(finding),
    }
}

fn finding(what: &str, level: Level, found: String, remedy: &str) -> Finding {
    Finding { what: what.into(), level: level.name().into(), found, remedy: remedy.into() }
}

/// Entries that the limits of a running router refused.
fn refusals(all: &[Capacity]) -> Finding {
    let refused: Vec<_> = all.iter().filter(|limit| limit.refused > 0).collect();
    let what = "refused so far";
    let Some(first) = refused.first() else {
        return finding(what, Level::Good, "nothing".into(), "");
    };
    let more = if refused.len() > 1 { ", and others" } else { "" };
    let found = format!("{}: {}, the latest {}{more}", first.what, first.refused, first.last);
    let remedy = "rutter show capacity       (each limit, and the key that sets it)";
    finding(what, Level::Better, found, remedy)
}

/// Warnings of a running router that still hold.
fn warned(warnings: &[String]) -> Option<Finding> {
    let (first, others) = warnings.split_first()?;
    let more = if others.is_empty() { "" } else { " (and others)" };
    let remedy = "rutter show system         (each warning, as the log has it)";
    Some(finding("warnings", Level::Better, format!("{first}{more}"), remedy))
}

/// Tables of routes that are full: destinations are missing, or soon will be.
fn full(all: &[Capacity]) -> Option<Finding> {
    let is_full = |limit: &&Capacity| {
        let reached = limit.limit.is_some_and(|most| limit.used >= most);
        limit.key.as_deref() == Some("max_routes") && (reached || limit.refused > 0)
    };
    let line = |limit: &Capacity| {
        let most = limit.limit.unwrap_or_default();
        format!("{}: {} of {most}, {} refused", limit.what, limit.used, limit.refused)
    };
    let full: Vec<_> = all.iter().filter(is_full).map(line).collect();
    let remedy = "raise `max_routes` of that family ([vrf.NAME] ipv4, ipv6) and restart Rutter \
                  (`rutter show fib`: the memory of a table)";
    let what = "max_routes";
    (!full.is_empty()).then(|| finding(what, Level::Error, full.join("; "), remedy))
}

/// Loops that bridges have found; `None` where there is no bridge.
fn loops(all: &[Bridge]) -> Option<Finding> {
    let what = "loops";
    let mut found = all.iter().flat_map(|bridge| &bridge.loops);
    let Some(first) = found.next() else {
        return (!all.is_empty()).then(|| finding(what, Level::Good, "none".into(), ""));
    };
    let more = if found.next().is_some() { ", and others" } else { "" };
    let found = format!("port {} receives the probes of {}{more}", first.port, first.sender);
    let remedy =
        "remove the cable that closes it      (rutter show bridges: since when, next test)";
    Some(finding(what, Level::Error, found, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_of_routes_is_an_error() {
        let routes = |used, refused| Capacity {
            what: "routes main ipv4".into(),
            used,
            limit: Some(100),
            refused,
            key: Some("max_routes".into()),
            ..Capacity::default()
        };
        let hops = Capacity { what: "hops".into(), used: 7, limit: Some(7), ..<_>::default() };
        assert_eq!(full(&[routes(99, 0), hops.clone()]), None);
        for (used, refused) in [(100, 0), (100, 5), (60, 5)] {
            let found = full(&[hops.clone(), routes(used, refused)]).unwrap();
            assert_eq!(found.level, "error");
            let counts = format!("routes main ipv4: {used} of 100, {refused} refused");
            assert_eq!(found.found, counts);
        }
    }

    #[test]
    fn a_routers_warnings_are_named() {
        assert_eq!(warned(&[]), None);
        let one = "the rule of the table `local` was moved".to_string();
        assert_eq!(warned(std::slice::from_ref(&one)).unwrap().found, one);
        assert_eq!(
            warned(&[one.clone(), one.clone()]).unwrap().found,
            format!("{one} (and others)")
        );
    }

    #[test]
    fn a_running_instance_knows_better() {
        let finding = |what: &str, found: &str| finding(what, Level::Good, found.into(), "");
        let mut all = vec![finding("cores", "here"), finding("vrf", "here")];
        put(&mut all, finding("vrf", "there"));
        put(&mut all, finding("ports", "there"));
        let found: Vec<_> = all.iter().map(|one| (&*one.what, &*one.found)).collect();
        assert_eq!(found, [("cores", "here"), ("vrf", "there"), ("ports", "there")]);
    }
}
