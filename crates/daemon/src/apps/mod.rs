//! The applications: one folder each, and one line here. Nothing in them touches a packet: the
//! nodes are in `nodes`, in a folder of the same name.
//!
//! The order is that in which applications see packets and read the configuration: the switch
//! creates interfaces that the router's routes may name.

pub mod gatekeeper;
pub mod grantor;
pub mod router;
pub mod span;
pub mod switch;
#[cfg(test)]
mod tests;

use std::path::Path;

use rustix::thread::CapabilitySet;

use crate::app::{Application, Running, Setup};
use crate::config::section::Section;
use crate::config::{self, Config, Declared, Mistakes, Text, keys};
use crate::error::Error;

/// The registry.
pub const APPLICATIONS: &[&dyn Application] =
    &[&switch::Switch, &router::Router, &gatekeeper::Gatekeeper, &grantor::Grantor, &span::Mirror];

impl Config {
    /// Reads a file, for this machine; also returns its text.
    ///
    /// # Errors
    /// Every mistake in it, or that it cannot be read.
    pub fn load(path: &Path) -> Result<(Config, Text), Mistakes> {
        Config::load_with(path, &declared())
    }

    /// Reads a text; `file` is its name in mistakes.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(file: &str, text: &str) -> Result<Config, Mistakes> {
        Config::parse_with(file, text, &declared())
    }
}

fn declared() -> Vec<Declared> {
    APPLICATIONS.iter().map(|application| application.declared()).collect()
}

/// Every section of the configuration, in the order of the example.
pub fn sections() -> impl Iterator<Item = &'static Section> {
    keys::SECTIONS.iter().chain(declared().into_iter().flat_map(|declared| declared.sections))
}

/// A whole configuration with every key, its meaning and default. With `all`, optional tables are
/// live too; otherwise they are comments.
pub fn example(all: bool) -> String {
    keys::example(sections(), all, change)
}

/// The command by which a running instance changes the settings in `section`.
fn change(section: &Section) -> Option<&'static str> {
    let mut all = APPLICATIONS.iter().flat_map(|application| application.requests().changes);
    all.find(|change| change.section == section.path).map(|change| change.by)
}

/// The example for this machine: on a single core, that core forwards.
pub fn example_here() -> String {
    keys::for_this_machine(example(false))
}

/// The purpose of the ports: `router`, `router and switch`.
pub fn names(config: &Config) -> String {
    let serving = APPLICATIONS.iter().filter(|application| application.serves(config));
    let mut names: Vec<_> = serving.map(|application| application.name()).collect();
    names.sort_unstable();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Whether an application needs every pair of `port`'s packets to reach one worker.
pub fn by_pair(config: &Config, port: &config::Port) -> bool {
    APPLICATIONS.iter().any(|application| application.by_pair(config, port))
}

/// The rights of root that they need, in addition to those of every router.
pub fn privileges(config: &Config) -> CapabilitySet {
    let all = APPLICATIONS.iter().map(|application| application.privileges(config));
    all.fold(CapabilitySet::empty(), CapabilitySet::union)
}

/// Starts all of them.
///
/// # Errors
/// When an application cannot get what it needs.
pub fn start(setup: &Setup<'_>) -> Result<Vec<Box<dyn Running>>, Error> {
    APPLICATIONS.iter().map(|application| application.start(setup)).collect()
}
