//! Policies that do harm, in real processes: each is ended, its packets get the configured
//! verdict, and others' decisions go on.
//!
//! To add a case: a file in `tests/hostile`; what is not Lua, a decider in `deciders.rs` and a line in
//! [`hostile::CASES`].
//!
//! The binary is its own process of policies: its `main` is that of a cell, which must not
//! have other threads. So it is no test harness; it takes names of tests, as one does.

mod contained;
mod deciders;
mod hostile;
#[cfg(feature = "lua")]
mod lua;
#[cfg(feature = "lua")]
mod million;
mod policies;
mod rig;

use std::process::ExitCode;

/// A test: its name and what it does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("policy-cell") => {
            let engine = |at: usize| words.get(at).map_or("", String::as_str);
            let engines = [engine(1), engine(2)];
            return policy::cell::child::main(|handed| deciders::make(handed, engines));
        }
        Some("daemon") => return contained::daemon(),
        _ => {}
    }
    let names: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let exact = words.iter().any(|word| word == "--exact");
    let wanted = |name: &str| {
        let fits = |of: &&String| if exact { name == **of } else { name.contains(of.as_str()) };
        names.is_empty() || names.iter().any(fits)
    };
    let mut all: Vec<(String, Box<dyn FnOnce() + Send>)> = Vec::new();
    for (name, test) in [contained::TESTS, policies::TESTS].concat() {
        all.push((name.to_owned(), Box::new(test)));
    }
    #[cfg(feature = "lua")]
    for (name, test) in [lua::TESTS, million::TESTS].concat() {
        all.push((name.to_owned(), Box::new(test)));
    }
    for case in hostile::CASES {
        all.push((format!("hostile_{}", case.policy), Box::new(|| hostile::run(case))));
    }
    all.retain(|(name, _)| wanted(name));
    if words.iter().any(|word| word == "--list") {
        all.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for (name, test) in all {
        // A thread by the test's name: `testing::skip` says it.
        let thread = std::thread::Builder::new().name(name.clone()).spawn(test);
        let good = thread.is_ok_and(|thread| thread.join().is_ok());
        println!("test {name} ... {}", if good { "ok" } else { "FAILED" });
        if !good {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nfailures: {}", failed.join(" "));
    ExitCode::FAILURE
}
