//! `rutter config`.

use std::io::Write;
use std::path::PathBuf;

use api::{Reply, Request};
use daemon::apps;
use daemon::config::{Config, DEFAULT_FILE};
use serde::Serialize;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// Check a configuration, print an example with every key
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Report every mistake of a configuration, and what `run` refuses on this machine
    Check {
        /// The file
        #[arg(default_value = DEFAULT_FILE)]
        file: PathBuf,
    },
    /// Print a configuration with every key, its meaning and its default
    Example,
    /// Print the running configuration
    Show,
}

#[derive(Serialize)]
struct Checked {
    ok: bool,
    mistakes: Vec<MistakeAt>,
}

#[derive(Serialize)]
struct Shown {
    toml: String,
}

#[derive(Serialize)]
struct MistakeAt {
    file: String,
    line: usize,
    column: usize,
    text: String,
}

/// Carries it out.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    match args.action {
        Action::Check { file } => return check(&file, cx),
        Action::Example => show(apps::example_here(), cx)?,
        Action::Show => {
            let Reply::Config(text) = cx.call(&Request::Config)? else {
                return Err(api::CallError::Unexpected.into());
            };
            show(text, cx)?;
        }
    }
    Ok(Status::Success)
}

/// A configuration is TOML; in JSON it is a string.
fn show(toml: String, cx: &mut Context) -> Result<(), Error> {
    if cx.json {
        return cx.print_json(&Shown { toml });
    }
    Ok(write!(cx.out, "{toml}")?)
}

fn check(file: &std::path::Path, cx: &mut Context) -> Result<Status, Error> {
    let result = Config::load(file).and_then(|(config, text)| {
        let (refused, absent) = daemon::run::check(&config, &text);
        // Here, and now: that it comes later is no matter of the file.
        absent.0.iter().for_each(|absent| warn(format_args!("{absent} (`rutter run` refuses it)")));
        if refused.0.is_empty() { Ok((config, text)) } else { Err(refused) }
    });
    if !cx.json {
        let (config, _) = result?;
        let (ports, routes) = (config.ports.len(), config.routes.len());
        let file = file.display();
        writeln!(cx.out, "{file}: no mistakes; {ports} ports, {routes} static routes")?;
        return Ok(Status::Success);
    }
    let mistakes = result.err().map(|mistakes| mistakes.0).unwrap_or_default();
    let place = |mistake: daemon::config::Mistake| {
        let daemon::config::Mistake { file, line, column, text } = mistake;
        MistakeAt { file, line, column, text }
    };
    let mistakes: Vec<MistakeAt> = mistakes.into_iter().map(place).collect();
    let ok = mistakes.is_empty();
    cx.print_json(&Checked { ok, mistakes })?;
    Ok(if ok { Status::Success } else { Status::Fault })
}
