//! `rutter grantor policy`. What `policy test` does needs neither root nor a daemon.

mod trial;

use std::path::PathBuf;

use lookup::lpm::Choice;

use crate::context::Context;
use crate::engine;
use crate::error::Error;
use crate::status::Status;

/// Policies in Lua
#[derive(clap::Subcommand)]
pub enum Policy {
    /// What a policy decides for each flow of a capture
    ///
    /// The first packet of each flow asks, as a Gatekeeper would send it. Then flows ask
    /// again for a while, for the time that a decision takes. The policy runs in this
    /// process, with the rights of its user.
    #[command(after_help = "\
Examples:
  rutter grantor policy test web.lua web.pcap
  rutter grantor policy test dns.lua dns.pcap --file resolvers=resolvers.txt -j

Exit status: 0 each flow has a decision, 1 some have none or the policy failed, 2 the policy
or the capture cannot be read.")]
    Test(Test),
}

/// Arguments of `rutter grantor policy test`.
#[derive(clap::Args)]
pub struct Test {
    /// The policy, in Lua
    policy: PathBuf,
    /// Plain packets with Ethernet headers: pcap or pcapng
    capture: PathBuf,
    /// A table of prefixes for `lpmlib.lpm_from_file "NAME"`: text, pyasn or MRT, plain or
    /// compressed; may be repeated
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
    let Policy::Test(test) = action;
    trial::run(test, cx)
}

fn named(text: &str) -> Result<(String, PathBuf), &'static str> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() => Ok((name.into(), path.into())),
        _ => Err("expected NAME=PATH"),
    }
}
