//! The hidden command of a binary whose processes run policies. Help and completion do not list it.

use std::process::ExitCode;

use super::{child, lua, trial};

/// If this process was started as a policy's process, serves until its parent ends it; otherwise
/// returns `None`. `main` calls it before anything else, before there are other threads.
pub fn called() -> Option<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = words.iter().map_while(|word| word.to_str()).collect();
    match words[..] {
        [NAME, v4, v6] => Some(child::main(|handed| lua::make(handed, [v4, v6]))),
        [NAME, trial::WORD, v4, v6] => Some(child::main(|handed| trial::make(handed, [v4, v6]))),
        _ => None,
    }
}

/// The default of [`super::Settings`].
const NAME: &str = "policy-cell";
