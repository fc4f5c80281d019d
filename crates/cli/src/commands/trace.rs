//! `rutter trace`: the way of single packets through the graph.

use std::io::Write;
use std::time::Duration;

use api::filter::text as filter;
use api::reply::Trace;
use api::{CallError, Reply, Request};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// Follow packets through the graph, node by node
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter trace add 5
  rutter trace add 1 host 192.0.2.1 and icmp
  rutter trace add 10 'tcp port 179 or (net 10.0.0.0/8 and not udp)'")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Wait for packets, and print their path
    Add {
        /// The number of packets
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
        /// Seconds to wait for them
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
        /// Which packets: host, net, port, proto, vlan, and, or, not, parentheses
        filter: Vec<String>,
    },
}

/// Waits for the packets and prints their way; status 1 where there was none.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let Action::Add { count, timeout, filter } = args.action;
    let (filter, timeout_ms) = (filter::parse(&filter)?, timeout * 1000);
    let mut client = cx.connect()?;
    client.set_timeout(Some(Duration::from_secs(timeout + 30)))?;
    let mut seen = 0;
    for part in client.stream(&Request::Trace { count, filter, timeout_ms })? {
        let Reply::Trace(trace) = part? else { return Err(CallError::Unexpected.into()) };
        seen += 1;
        if cx.json {
            cx.print_json(&trace)?;
        } else {
            print(seen, &trace, cx)?;
        }
        cx.out.flush()?;
    }
    if seen < count {
        warn(format_args!("{seen} of {count} packets came within {timeout} s"));
    }
    Ok(if seen == 0 { Status::No } else { Status::Success })
}

fn print(number: u32, trace: &Trace, cx: &mut Context) -> Result<(), Error> {
    let Trace { worker, port, length, .. } = trace;
    writeln!(cx.out, "packet {number}: {length} bytes in by {port}, worker {worker}")?;
    let width = |name: fn(&api::reply::Step) -> &str| {
        trace.steps.iter().map(|step| name(step).len()).max().unwrap_or(0)
    };
    let (node, edge) = (width(|step| &step.node), width(|step| &step.edge));
    for step in &trace.steps {
        let (name, left) = (&step.node, &step.edge);
        let line = format!("{:>9}  {name:node$}  {left:edge$}  {}", step.cycles, step.detail);
        writeln!(cx.out, "{}", line.trim_end())?;
    }
    for (i, line) in trace.bytes.as_bytes().chunks(32).enumerate() {
        let text = String::from_utf8_lossy(line);
        writeln!(cx.out, "           {:04x}  {text}", i * 16)?;
    }
    Ok(writeln!(cx.out)?)
}
