//! The registries: of commands, and of what `rutter show` shows. An application has its own
//! of both in its file, and lines here.

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
    Gatekeeper: gatekeeper,
    Grantor: grantor,
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

/// One line a view: its name, and the type that holds its arguments and its work (`show`).
macro_rules! views {
    ($($name:ident: $file:ident::$view:ident,)*) => {
        /// Every view of `rutter show`.
        #[derive(clap::Subcommand)]
        pub enum View {
            $(#[allow(missing_docs)] $name($file::$view),)*
        }

        impl View {
            /// Asks and prints.
            pub fn show(self, cx: &mut Context) -> Result<Status, Error> {
                match self {
                    $(View::$name(view) => view.show(cx),)*
                }
            }
        }
    };
}

views! {
    Ports: show::Ports,
    Interfaces: show::Interfaces,
    Routes: route::Routes,
    Neighbours: neighbour::Neighbours,
    Bridges: mac::Bridges,
    Macs: mac::Macs,
    Graph: show::Graph,
    Runtime: show::Runtime,
    Drops: show::Drops,
    Fib: fib::Tables,
    Capacity: show::Capacity,
    System: show::System,
}
