//! `rutter grantor policy`. `policy test` needs neither root nor a daemon.

pub mod text;
mod trial;

use std::path::PathBuf;

use api::apps::grantor::{Reply, Request};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::{CallError, Request as Ask};
use lookup::lpm::Choice;

use crate::context::Context;
use crate::engine;
use crate::error::Error;
use crate::status::Status;

/// Policies in Lua
#[derive(clap::Subcommand)]
pub enum Policy {
    /// Show what a policy decides for each flow of a capture
    ///
    /// The first packet of each flow asks, as a Gatekeeper would send it. Then flows ask
    /// again for a while, to measure the time of a decision. The policy runs in a process of its
    /// own, as in a router, and is stopped if it takes longer than a second.
    #[command(after_help = "\
Examples:
  rutter grantor policy test web.lua web.pcap
  rutter grantor policy test dns.lua dns.pcap --file resolvers=resolvers.txt -j

Exit status: 0 each flow has a decision, 1 some have none or the policy failed, 2 the policy
or the capture cannot be read.")]
    Test(Test),
    /// Load another policy: it decides once all its processes have loaded it
    ///
    /// No packet is lost: the processes of the previous policy answer their open questions. A
    /// policy that does not load changes nothing.
    #[command(after_help = "\
Examples:
  rutter grantor policy load /etc/rutter/web.lua

The policy lasts until the router ends. A permanent one: `policy` of [grantor] in rutter.toml.")]
    Load {
        /// The policy, in Lua
        file: PathBuf,
    },
    /// Load the policy before this one
    Rollback,
    /// Show the policy, its processes, and its failures
    Show,
    /// Run a chunk of Lua in every process of the policy, and print each result
    #[command(after_help = "\
Examples:
  rutter grantor policy exec 'return collectgarbage \"count\"'
  rutter grantor policy exec 'blocked[\"192.0.2.7\"] = true'

Exit status: 0 the chunk ran in every process, 1 it failed in one. Processes that start
later do not run it.")]
    Exec {
        /// The chunk, in Lua
        chunk: String,
    },
}

/// Arguments of `rutter grantor policy test`.
#[derive(clap::Args)]
pub struct Test {
    /// The policy, in Lua
    policy: PathBuf,
    /// Plain packets with Ethernet headers: pcap or pcapng
    capture: PathBuf,
    /// A file that the policy reads by name or path: with `io.open`, or as a table of prefixes
    /// (text, pyasn or MRT, plain or compressed) with `lpmlib.lpm_from_file`; may be repeated
    #[arg(long, value_name = "NAME=PATH", value_parser = named)]
    file: Vec<(String, PathBuf)>,
    /// Bytes of each packet that the policy sees
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    snap: usize,
    /// The engine of the policy's IPv4 tables, with options as NAME:OPTION=VALUE,…
    #[arg(long, value_name = "NAME", value_parser = engine::Name, hide_possible_values = true)]
    engine4: Option<Choice>,
    /// The engine of its IPv6 tables
    #[arg(long, value_name = "NAME", value_parser = engine::Name, hide_possible_values = true)]
    engine6: Option<Choice>,
}

/// Carries it out.
pub fn run(action: Policy, cx: &mut Context) -> Result<Status, Error> {
    match action {
        Policy::Test(test) => trial::run(test, cx),
        Policy::Load { file } => {
            // The daemon has a folder of its own.
            let path =
                std::path::absolute(&file).map_err(|error| Error::File { path: file, error })?;
            let path = path.to_string_lossy().into_owned();
            cx.change(Ask::App(AppRequest::Grantor(Request::Load { path })))
        }
        Policy::Rollback => cx.change(Ask::App(AppRequest::Grantor(Request::Rollback))),
        Policy::Show => match ask(cx, Request::Policies)? {
            Reply::Policies(shown) => cx.print(&*shown, text::policies),
            _ => Err(CallError::Unexpected.into()),
        },
        Policy::Exec { chunk } => match ask(cx, Request::Exec { chunk })? {
            Reply::Executed(all) => {
                cx.print(&all[..], text::executed)?;
                let well = !all.is_empty() && all.iter().all(|one| !one.failed);
                Ok(if well { Status::Success } else { Status::No })
            }
            _ => Err(CallError::Unexpected.into()),
        },
    }
}

fn ask(cx: &Context, request: Request) -> Result<Reply, Error> {
    match cx.call(&Ask::App(AppRequest::Grantor(request)))? {
        api::Reply::App(AppReply::Grantor(reply)) => Ok(reply),
        _ => Err(CallError::Unexpected.into()),
    }
}

fn named(text: &str) -> Result<(String, PathBuf), &'static str> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() => Ok((name.into(), path.into())),
        _ => Err("expected NAME=PATH"),
    }
}
