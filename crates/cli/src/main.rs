//! `rutter`: every command is one file in `commands/` and one line in its
//! registry.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   commands
//!   context engine table whole
//!   error view
//!   columns pcapng status warn
//! ```
#![forbid(unsafe_code)]

mod columns;
mod commands;
mod context;
mod engine;
mod error;
mod pcapng;
mod status;
mod table;
mod view;
mod warn;
mod whole;

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::context::Context;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: graph::testing::Counting = graph::testing::Counting;

/// A software router and switch, and the tools around it.
///
/// Exit status: 0 success, 1 the answer is "no", 2 usage or input error,
/// 3 a fault ended the data plane, 130 interrupted.
#[derive(Parser)]
#[command(name = "rutter", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Try: rutter lookup --table internet:100000 8.8.8.8")]
struct Rutter {
    /// Print JSON instead of text
    #[arg(short, long, global = true)]
    json: bool,

    /// The daemon's API socket
    #[arg(long, global = true, value_name = "PATH", env = api::SOCKET_VARIABLE,
          default_value = api::DEFAULT_SOCKET, hide_env_values = true)]
    socket: PathBuf,

    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    if let Some(ended) = policy::cell::called() {
        return ended;
    }
    let Rutter { json, socket, command } = Rutter::parse();
    let mut cx = Context::new(json, socket);
    let done = command.run(&mut cx).and_then(|status| cx.finish().map(|()| status));
    let code = match done {
        Ok(status) => status as u8,
        Err(error) => error.report(),
    };
    if offload::devices::any_stuck() {
        // What the driver of a device that hangs runs at the end may hang, too.
        let _ = stdout().flush();
        signal_hook::low_level::exit(code.into());
    }
    code.into()
}
