//! The registry of commands.

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// One line a command: its name, and the file that holds its arguments (`Args`)
/// and its work (`run`).
macro_rules! commands {
    ($($name:ident: $file:ident,)*) => {
        $(mod $file;)*

        /// Every command and its arguments.
        #[derive(clap::Subcommand)]
        pub enum Command {
            $(#[allow(missing_docs)] $name($file::Args),)*
        }

        impl Command {
            /// Does the command's work.
            pub fn run(self, cx: &mut Context) -> Result<Status, Error> {
                match self {
                    $(Command::$name(args) => $file::run(args, cx),)*
                }
            }
        }
    };
}

commands! {
    Run: run,
    Demo: demo,
    Show: show,
    Route: route,
    Neighbour: neighbour,
    Mac: mac,
    Span: span,
    Fib: fib,
    Trace: trace,
    Capture: capture,
    Stop: stop,
    Config: config,
    Doctor: doctor,
    Lookup: lookup,
    Check: check,
    Engines: engines,
    Lab: lab,
    Completion: completion,
    Version: version,
}
