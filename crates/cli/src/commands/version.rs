//! `rutter version`.

use std::io::Write;

use serde::Serialize;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Print the version
#[derive(clap::Args)]
pub struct Args {}

#[derive(Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
}

/// Prints the version.
pub fn run(_: Args, cx: &mut Context) -> Result<Status, Error> {
    let version = Version { name: "rutter", version: env!("CARGO_PKG_VERSION") };
    if cx.json {
        cx.print_json(&version)?;
    } else {
        writeln!(cx.out, "{} {}", version.name, version.version)?;
    }
    Ok(Status::Success)
}
