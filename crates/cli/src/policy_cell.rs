//! `rutter policy-cell`: a process in which a Grantor's policy runs. The daemon starts it, and
//! nobody else: it is none of the commands that help and completion list.

use std::process::ExitCode;

/// Serves until the daemon ends it, where this process was started for that.
pub fn called() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let called = words.next().is_some_and(|word| word == NAME) && words.next().is_none();
    called.then(|| policy::cell::child::main(policy::cell::lua::make))
}

/// As `policy::cell::Settings` has it.
const NAME: &str = "policy-cell";
