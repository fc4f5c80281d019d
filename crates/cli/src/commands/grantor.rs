//! `rutter grantor`: a Grantor at run time, and its policies.

mod policy;

use std::fmt::Write;

use api::apps::grantor::{Count, Reply, Request, Shown};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::{CallError, Request as Ask};

use crate::columns::{Table, number};
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Decide, by a policy, which flows Gatekeepers let pass
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter grantor show
  rutter --json grantor show
  rutter grantor policy test web.lua web.pcap
  rutter grantor policy load /etc/rutter/web.lua
  rutter grantor policy rollback
  rutter grantor policy exec 'return collectgarbage \"count\"'")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// The whole Grantor, with every counter
    Show,
    /// Policies in Lua
    Policy {
        #[command(subcommand)]
        action: policy::Policy,
    },
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    if let Action::Policy { action } = args.action {
        return policy::run(action, cx);
    }
    match cx.call(&Ask::App(AppRequest::Grantor(Request::Show)))? {
        api::Reply::App(AppReply::Grantor(Reply::Show(shown))) => cx.print(&*shown, text),
        _ => Err(CallError::Unexpected.into()),
    }
}

/// All of it. Counters that are 0 are in JSON.
fn text(shown: &Shown) -> String {
    let mut out = String::new();
    let [src, dst] = shown.ports;
    let lines = [
        ("asked by", shown.gatekeepers.join(", ")),
        ("serves", shown.serves.join(", ")),
        ("policy", shown.policy.clone()),
        ("forwards", if shown.shadow { "nothing: a shadow" } else { "granted packets" }.into()),
        ("decisions", format!("UDP {src} to {dst}")),
        ("ecn", shown.ecn.clone()),
        (
            "waiting",
            format!(
                "{} of {}; after {} ms: {}; without room: {}",
                number(shown.waiting),
                number(shown.room),
                shown.limit_ms,
                shown.on_limit,
                shown.on_full
            ),
        ),
    ];
    for (name, value) in lines {
        let _ = writeln!(out, "{name:<11} {value}"); // cannot fail: a String
    }
    if let Some(policies) = &shown.policies {
        out += &policy::text::processes(policies);
    }
    counts(&mut out, "packets", &shown.counts);
    counts(&mut out, "drop", &shown.drops);
    out
}

fn counts(out: &mut String, what: &'static str, all: &[Count]) {
    let mut table = Table::new(&[what, ">count"]);
    for one in all.iter().filter(|one| one.count > 0) {
        table.row([one.what.clone(), number(one.count)]);
    }
    if !table.is_empty() {
        let _ = write!(out, "\n{table}"); // cannot fail: a String
    }
}
