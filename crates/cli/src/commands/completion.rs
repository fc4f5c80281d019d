//! `rutter completion`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Print a script that completes commands and options in a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter completion bash > /etc/bash_completion.d/rutter
  rutter completion zsh > ~/.zfunc/_rutter
  rutter completion fish > ~/.config/fish/completions/rutter.fish")]
pub struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let mut script = Vec::new(); // the generator panics where its writer fails
    clap_complete::generate(args.shell, &mut crate::Rutter::command(), "rutter", &mut script);
    if cx.json {
        let script = String::from_utf8_lossy(&script);
        cx.print_json(&serde_json::json!({ "script": script }))?;
    } else {
        cx.out.write_all(&script)?;
    }
    Ok(Status::Success)
}
