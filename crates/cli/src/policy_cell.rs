//! `rutter policy-cell`: a process in which a Grantor's policy runs. The daemon starts it, and
//! nobody else: it is none of the commands that help and completion list.

use std::process::ExitCode;

use policy::cell::{child, lua, trial};

/// Serves until the daemon ends it, where this process was started for that; or the command
/// that tries a policy.
pub fn called() -> Option<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = words.iter().map_while(|word| word.to_str()).collect();
    match words[..] {
        [NAME] => Some(child::main(lua::make)),
        [NAME, trial::WORD, v4, v6] => Some(child::main(|handed| trial::make(handed, [v4, v6]))),
        _ => None,
    }
}

/// As `policy::cell::Settings` has it.
const NAME: &str = "policy-cell";
