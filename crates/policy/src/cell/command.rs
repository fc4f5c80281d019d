//! The hidden command of a binary whose processes run policies: none that help and completion
//! list.

use std::process::ExitCode;

use super::{child, lua, trial};

/// Serves until its parent ends it, where this process was started for that; to be called by
/// `main` before anything else, before there are other threads. `None` where it was not.
pub fn called() -> Option<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = words.iter().map_while(|word| word.to_str()).collect();
    match words[..] {
        [NAME] => Some(child::main(lua::make)),
        [NAME, trial::WORD, v4, v6] => Some(child::main(|handed| trial::make(handed, [v4, v6]))),
        _ => None,
    }
}

/// As [`super::Settings`] has it.
const NAME: &str = "policy-cell";
