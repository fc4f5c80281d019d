//! `rutter gatekeeper`: the shield at run time.

mod text;
mod words;

use std::io::Write;

use api::apps::gatekeeper::{Filter, Flow, Protect as Wanted, Protected, Reply, Request};
use api::apps::{Reply as AppReply, Request as AppRequest};
use api::{CallError, Request as Ask};
use clap::ValueEnum;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::cut;

/// Protect networks from floods: protections, flows, programs
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter gatekeeper show
  rutter gatekeeper protect add 203.0.113.0/24 via 198.51.100.9 via 198.51.100.10 weight 2
  rutter gatekeeper protect add 203.0.113.128/25 drop
  rutter gatekeeper protect change 203.0.113.0/24 via 198.51.100.10 --flush
  rutter gatekeeper protect del 203.0.113.0/24
  rutter gatekeeper flows to 203.0.113.5/32 state granted
  rutter gatekeeper flush from 192.0.2.0/24
  rutter gatekeeper shadow 203.0.113.0/24 on
  rutter gatekeeper program load 5 dns.bpf

Protections and programs last until the router ends. Permanent ones: [[gatekeeper.protect]] and
[[gatekeeper.program]] in rutter.toml.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// The whole shield, with every counter
    Show,
    /// List, add, change and delete protections
    Protect {
        #[command(subcommand)]
        action: Option<Protect>,
    },
    /// List flows: state, budget, time left
    Flows {
        /// Show at most this many; 0: all
        #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
        limit: u64,
        /// Which: from PREFIX, to PREFIX, of PREFIX (the protection), grantor ADDRESS,
        /// state request|granted|declined|program, program N
        filter: Vec<String>,
    },
    /// Forget flows: their next packets are requests
    Flush {
        /// All of them
        #[arg(long, conflicts_with = "filter", required_unless_present_any = ["filter", "program"])]
        all: bool,
        /// Flows that the program of this number decides
        #[arg(long, value_name = "N", conflicts_with = "all")]
        program: Option<u8>,
        /// Which, as for `flows`
        filter: Vec<String>,
    },
    /// eBPF programs, which decisions name by number
    Program {
        #[command(subcommand)]
        action: Program,
    },
    /// List protections in shadow mode; turn shadow mode on or off
    Shadow {
        /// The prefix of a protection
        #[arg(requires = "switch")]
        prefix: Option<String>,
        /// on: verdicts are counted, and packets pass; off: verdicts are carried out
        #[arg(value_enum)]
        switch: Option<Switch>,
    },
}

#[derive(clap::Subcommand)]
enum Protect {
    /// Protect a prefix
    Add {
        /// What is protected: 203.0.113.0/24
        prefix: String,
        /// via ADDRESS [weight N] [shadow] …: its Grantors; or bypass, or drop; without words: the
        /// [grantor] of this router
        words: Vec<String>,
        /// Count verdicts, and let packets pass
        #[arg(long)]
        shadow: bool,
    },
    /// Change the Grantors, weights or shadow of a protection
    Change {
        /// As it was added
        prefix: String,
        /// The new ones, as for `add`
        words: Vec<String>,
        /// Count verdicts, and let packets pass
        #[arg(long)]
        shadow: bool,
        /// Forget its flows, too
        #[arg(long)]
        flush: bool,
    },
    /// Delete a protection, and forget its flows
    Del {
        /// As it was added
        prefix: String,
    },
}

#[derive(clap::Subcommand)]
enum Program {
    /// Every program, how it runs, and its faults
    Show,
    /// Check an eBPF object and load it; flows of a program that it replaces ask again
    Load {
        /// The program's number in decisions: 0 to 255
        index: u8,
        /// An ELF file with the functions `init` and `pkt`
        file: std::path::PathBuf,
        /// The name to show instead of the file's name
        #[arg(long)]
        name: Option<String>,
    },
    /// Unload a program: the built-in one of that number returns, and its flows ask again
    Unload {
        /// The program's number
        index: u8,
    },
}

#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    match args.action {
        Action::Show => match one(cx, Request::Show)? {
            Reply::Show(shield) => cx.print(&*shield, text::shield),
            _ => Err(CallError::Unexpected.into()),
        },
        Action::Protect { action: None } => {
            let all = protections(cx)?;
            cx.print(&all[..], |all| text::protections(all).to_string())
        }
        Action::Protect { action: Some(action) } => {
            let request = match action {
                Protect::Add { prefix, words, shadow } => {
                    Request::Add(words::protect(prefix, &words, shadow)?)
                }
                Protect::Change { prefix, words, shadow, flush } => {
                    let shadow = shadow.then_some(true);
                    let Wanted { prefix, action, grantors, .. } =
                        words::protect(prefix, &words, false)?;
                    Request::Change { prefix, action, grantors, shadow, flush }
                }
                Protect::Del { prefix } => Request::Del { prefix },
            };
            cx.change(ask(request))
        }
        Action::Flows { limit, filter } => {
            let limit = Some(limit).filter(|limit| *limit > 0);
            flows(words::filter(&filter)?, limit, cx)
        }
        Action::Flush { all: _, program, filter } => {
            let mut filter = words::filter(&filter)?;
            filter.program = program.or(filter.program);
            match one(cx, Request::Flush { filter })? {
                Reply::Flushed(flows) => cx.print(&serde_json::json!({ "flows": flows }), |_| {
                    format!("{} flows\n", crate::columns::number(flows))
                }),
                _ => Err(CallError::Unexpected.into()),
            }
        }
        Action::Program { action: Program::Show } => match one(cx, Request::Programs)? {
            Reply::Programs(all) => cx.print(&all[..], |all| text::programs(all).to_string()),
            _ => Err(CallError::Unexpected.into()),
        },
        Action::Program { action: Program::Load { index, file, name } } => {
            let file = std::path::absolute(&file).unwrap_or(file);
            // JSON has text alone.
            let Some(object) = file.to_str().map(str::to_string) else {
                return Err(Error::Usage("the file's path is not UTF-8"));
            };
            cx.change(ask(Request::LoadProgram { index, object, name }))
        }
        Action::Program { action: Program::Unload { index } } => {
            cx.change(ask(Request::UnloadProgram { index }))
        }
        Action::Shadow { prefix: Some(prefix), switch: Some(switch) } => {
            cx.change(ask(Request::Shadow { prefix, on: switch == Switch::On }))
        }
        Action::Shadow { .. } => {
            let mut all = protections(cx)?;
            all.retain(|one| one.protect.shadow);
            cx.print(&all[..], |all| text::shadows(all).to_string())
        }
    }
}

fn ask(request: Request) -> Ask {
    Ask::App(AppRequest::Gatekeeper(request))
}

fn one(cx: &Context, request: Request) -> Result<Reply, Error> {
    match cx.call(&ask(request))? {
        api::Reply::App(AppReply::Gatekeeper(reply)) => Ok(reply),
        _ => Err(CallError::Unexpected.into()),
    }
}

fn protections(cx: &Context) -> Result<Vec<Protected>, Error> {
    let mut client = cx.connect()?;
    let mut all = Vec::new();
    for part in client.stream(&ask(Request::Protections))? {
        match part? {
            api::Reply::App(AppReply::Gatekeeper(Reply::Protections(some))) => all.extend(some),
            _ => return Err(CallError::Unexpected.into()),
        }
    }
    Ok(all)
}

/// A table; in JSON a line for each flow, as they come: there may be millions.
fn flows(filter: Filter, limit: Option<u64>, cx: &mut Context) -> Result<Status, Error> {
    // One more than is shown: then it is known whether there are more.
    let asked = limit.map(|limit| limit.saturating_add(1));
    let mut client = cx.connect()?;
    let (mut all, mut count): (Vec<Flow>, u64) = (Vec::new(), 0);
    for part in client.stream(&ask(Request::Flows { filter, limit: asked }))? {
        let api::Reply::App(AppReply::Gatekeeper(Reply::Flows(some))) = part? else {
            return Err(CallError::Unexpected.into());
        };
        for flow in some {
            if limit == Some(count) {
                cut(format_args!("the first {count} flows"));
                break;
            }
            match cx.json {
                true => cx.print_json(&flow)?,
                false => all.push(flow),
            }
            count += 1;
        }
    }
    if !cx.json {
        write!(cx.out, "{}", text::flows(&all))?;
    }
    Ok(Status::Success)
}
