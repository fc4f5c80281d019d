//! The errors of a policy.

use super::layout::BadDecision;

/// Why a policy was not loaded, or has no answer. What it says of a policy's own errors
/// names the policy's line: `web.lua:12: attempt to …`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is too little memory for a Lua state.
    #[error("there is no memory for a Lua state")]
    NoState,
    /// The source is not Lua.
    #[error("{message}")]
    Syntax {
        /// With file and line.
        message: String,
    },
    /// The policy defines neither of the two functions.
    #[error("{name} defines no function lookup_policy, nor lookup_policy_batch")]
    NoPolicy {
        /// The policy.
        name: String,
    },
    /// The policy threw an error.
    #[error("{message}")]
    Thrown {
        /// With file and line, and where the call came from.
        message: String,
    },
    /// The policy exceeded its memory.
    #[error("not enough memory: {message}")]
    Memory {
        /// The place.
        message: String,
    },
    /// The policy was stopped ([`Stopper`](super::Stopper)).
    #[error("{at}: stopped, it took too long")]
    Stopped {
        /// File and line.
        at: String,
    },
    /// Its decision is invalid.
    #[error("{name}: {bad}")]
    Decision {
        /// The policy.
        name: String,
        /// The mistake.
        bad: BadDecision,
    },
    /// The engine does not exist, or does not suit a policy's tables.
    #[error("{what}")]
    Engine {
        /// The engine, and the reason.
        what: String,
    },
}

/// The first `NAME:LINE` in an error's text.
pub(super) fn at(name: &str, message: &str) -> Option<String> {
    let from = message.find(&format!("{name}:"))?;
    let rest = &message[from + name.len() + 1..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| format!("{name}:{}", &rest[..digits]))
}
