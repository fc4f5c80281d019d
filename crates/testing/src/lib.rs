//! What tests share: how one says that it could not run, where data lie that are no part of
//! the repository, and how a thread ends with its test.
//!
//! A test that could not run did not pass. Such a test ends with [`skip`] and the reason;
//! nothing else prints "skipped" (`tests/skips.rs` looks). `scripts/test.sh` counts and
//! lists the skips at its end. With `RUTTER_STRICT=1` a skip is a failure, unless
//! `scripts/skips.txt` has it. `scripts/skip.sh` is the same for scripts.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, by a panic as well: whoever ends a loop of another thread by
/// a flag of its own would wait for that thread for ever after an error.
pub struct Stops<'s>(pub &'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Says that the running test, or a part of it, cannot run for `reason`: on standard
/// error, and as a line (name, tab, reason) of the file that `RUTTER_SKIPS` names.
///
/// # Panics
/// With `RUTTER_STRICT=1`, unless `scripts/skips.txt` has the test and the reason; and
/// when the file cannot be written.
#[track_caller]
pub fn skip(reason: impl Display) {
    let name = format!("{}::{}", crate_of(Location::caller().file()), name());
    let reason = reason.to_string().replace(['\n', '\t'], " ");
    eprintln!("skipped: {name}: {reason}");
    if let Some(path) = std::env::var_os("RUTTER_SKIPS") {
        // One write to the end of a file: lines of several processes do not mix.
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written =
            file.and_then(|mut file| file.write_all(format!("{name}\t{reason}\n").as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let strict = std::env::var_os("RUTTER_STRICT").is_some_and(|value| value == "1");
    assert!(
        !strict || entries(LIST).any(|entry| entry.covers(&name, &reason)),
        "{name} could not run ({reason}), and scripts/skips.txt does not have it"
    );
}

/// The running test. A thread that a test starts has to bear its name, so that what is
/// skipped there has it, too.
pub fn name() -> String {
    std::thread::current().name().unwrap_or("?").to_owned()
}

/// True where root is root of a user namespace alone, as scripts/userns.sh makes one.
pub fn in_user_namespace() -> bool {
    let all = "4294967295"; // users that a machine's own namespace has
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !map.contains(all))
}

/// A file or folder of the data that are no part of the repository: below `$RUTTER_DATA`,
/// or else `../shared/data` beside the checkout. Where it is missing the test is skipped.
#[track_caller]
pub fn data(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("RUTTER_DATA").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = named.unwrap_or_else(beside);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    match folder.exists() {
        true => skip(format_args!("no {name} in the data folder {}", folder.display())),
        false => skip(format_args!("no data folder {} (set RUTTER_DATA)", folder.display())),
    }
    None
}

/// What may be skipped: a line of `scripts/skips.txt`.
#[derive(Debug)]
pub struct Entry<'a> {
    /// A test with its crate, or a script with its folder; with a `*` at the end all
    /// that begin so.
    pub name: &'a str,
    /// A part of what it says.
    pub says: &'a str,
    /// Why it may.
    pub why: &'a str,
}

impl<'a> Entry<'a> {
    /// `NAME | SAYS | WHY`, nothing of it empty.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, '|').map(str::trim).filter(|part| !part.is_empty());
        Some(Entry { name: parts.next()?, says: parts.next()?, why: parts.next()? })
    }

    /// True when `name` may be skipped for `reason`.
    pub fn covers(&self, name: &str, reason: &str) -> bool {
        let named = match self.name.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == self.name,
        };
        named && reason.contains(self.says)
    }
}

/// The entries of a list. Comments and lines that are none are left out.
pub fn entries(list: &str) -> impl Iterator<Item = Entry<'_>> {
    list.lines().filter(|line| !line.starts_with('#')).filter_map(Entry::parse)
}

/// The name of the crate in whose folder `file` lies.
fn crate_of(file: &str) -> &str {
    file.split('/').skip_while(|part| *part != "crates").nth(1).unwrap_or("?")
}

/// The short list.
pub const LIST: &str = include_str!("../../../scripts/skips.txt");
