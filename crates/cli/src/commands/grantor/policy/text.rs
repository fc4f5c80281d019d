//! A policy and its processes, as text.

use std::fmt::Write;

use api::apps::grantor::{Executed, Policies};

use crate::columns::{Table, number};

/// The text of `policy show`.
pub fn policies(shown: &Policies) -> String {
    let mut out = String::new();
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    let policy = if shown.policy.is_empty() { "none" } else { &shown.policy };
    let _ = writeln!(out, "{:<11} {policy}", "policy"); // cannot fail: a String
    let _ = writeln!(out, "{:<11} {}", "before", or(&shown.before));
    if let Some(loading) = &shown.loading {
        let _ = writeln!(out, "{:<11} {loading}", "loading");
    }
    out + &processes(shown)
}

/// The lines that `grantor show` has, too.
pub fn processes(shown: &Policies) -> String {
    let mut out = String::new();
    let failures = format!(
        "{} in the last minute (at {}, the previous policy is used again); {} rolled back so far, \
         {} processes restarted",
        shown.failures, shown.roll_back_at, shown.rollbacks, shown.restarts
    );
    let _ = writeln!(out, "{:<11} {failures}", "failures"); // cannot fail: a String
    for cause in &shown.causes {
        let _ = writeln!(out, "{:<11} {}", "", cause.replace('\n', " "));
    }
    for remark in &shown.remarks {
        let _ = writeln!(out, "{:<11} {remark}", "slower");
    }
    for missing in &shown.missing {
        let _ = writeln!(out, "{:<11} {missing}", "unconfined");
    }
    let columns =
        ["process", "policy", "stage", ">asked", ">decided", ">failed", ">lost", ">wrong"];
    let mut table = Table::new(&columns);
    for one in &shown.processes {
        let counts = [one.asked, one.decided, one.failed, one.lost, one.refused].map(number);
        let [asked, decided, failed, lost, refused] = counts;
        let (pid, policy, stage) = (one.pid.to_string(), one.policy.clone(), one.stage.clone());
        table.row([pid, policy, stage, asked, decided, failed, lost, refused]);
    }
    let counts = [shown.asked, shown.decided, shown.failed, shown.lost, shown.refused].map(number);
    let [asked, decided, failed, lost, refused] = counts;
    let ever = "all so far".into();
    table.row([ever, String::new(), String::new(), asked, decided, failed, lost, refused]);
    let _ = write!(out, "\n{table}"); // cannot fail: a String
    out
}

/// The text of `policy exec`.
pub fn executed(all: &[Executed]) -> String {
    if all.is_empty() {
        return "no process runs\n".into();
    }
    let line = |one: &Executed| {
        let failed = if one.failed { "failed: " } else { "" };
        format!("{}  {failed}{}\n", one.pid, one.result)
    };
    all.iter().map(line).collect()
}
