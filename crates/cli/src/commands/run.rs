//! `rutter run`.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use daemon::config::{Config, DEFAULT_FILE};
use daemon::run::{Options, cleanup};

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Run the data plane in the foreground
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter config example > rutter.toml    then change it
  rutter run --config rutter.toml
  rutter run --cleanup                   after a crash: taps, rules, settings

The first SIGTERM, SIGHUP or Ctrl-C stops the router in order, a second one stops it
at once. Logs go to standard error; RUTTER_LOG=debug logs more.

Exit status: 0 stopped, 2 it could not start, 3 a thread died: settings are restored,
and the taps stay. The router may be started again; systemd does so.")]
pub struct Args {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: PathBuf,
    /// Remove what a killed instance has left behind, and exit
    #[arg(long)]
    cleanup: bool,
}

/// Runs until it is stopped.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    log_to_stderr();
    let (config, text) = Config::load(&args.config)?;
    let options = Options { text, socket: cx.socket.clone() };
    if args.cleanup {
        cleanup(&config, &options)?;
        return Ok(Status::Success);
    }
    // From here on the daemon listens to signals itself.
    cx.die_on_interrupt.store(false, Ordering::Relaxed);
    daemon::run::run(config, &options)?;
    Ok(Status::Success)
}

fn log_to_stderr() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    // `EnvFilter` has regular expressions for spans, and takes a tenth of the build.
    let filter = std::env::var("RUTTER_LOG").ok().and_then(|text| text.parse().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    // Complaints about standard error go to standard error, and panic where that
    // is a terminal that is gone.
    let lines = tracing_subscriber::fmt::layer().with_target(false).log_internal_errors(false);
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let colours = wanted && std::io::IsTerminal::is_terminal(&std::io::stderr());
    // Fails only where there is a logger already.
    let lines = lines.with_ansi(colours).with_writer(std::io::stderr);
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}
