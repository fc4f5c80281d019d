//! `rutter engines`.

use std::io::Write;

use crate::context::Context;
use crate::engine;
use crate::error::Error;
use crate::status::Status;

/// List the lookup engines: families, source, limits, options
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter engines
  rutter engines -j | jq -r '.[] | select(.families[] == \"ipv6\") | .name'

A `*` marks the default engine of a family. Each option is listed with its default.
Commands, the configuration and the lab accept the options of engines for prefixes
after the name: NAME:OPTION=VALUE,OPTION=VALUE.")]
pub struct Args {}

/// Lists them.
pub fn run(_: Args, cx: &mut Context) -> Result<Status, Error> {
    let engines = engine::all();
    if cx.json {
        cx.print_json(&engines)?;
        return Ok(Status::Success);
    }
    let name = |engine: &engine::Description| engine.name.len();
    let width = engines.iter().map(name).max().unwrap_or(0);
    for engine in &engines {
        let families: Vec<_> = engine
            .families
            .iter()
            .map(
                |&family| {
                    if engine.is_default(family) { format!("{family}*") } else { family.into() }
                },
            )
            .collect();
        writeln!(cx.out, "{:width$}  {:11}  {}", engine.name, families.join(" "), engine.help)?;
        writeln!(cx.out, "{:width$}  {:11}  {}", "", "", engine.paper)?;
        let limits = engine.limits();
        if !limits.is_empty() {
            writeln!(cx.out, "{:width$}  {:11}  limits: {limits}", "", "")?;
        }
        for (name, default, help) in engine.options {
            writeln!(cx.out, "{:width$}  {:11}  option {name} = {default}: {help}", "", "")?;
        }
    }
    Ok(Status::Success)
}
