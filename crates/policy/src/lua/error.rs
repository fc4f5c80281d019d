//! What may go wrong in a policy.

use super::layout::BadDecision;

/// Why a policy was not loaded, or has no answer. What it says of a policy's own errors
/// names the policy's line: `web.lua:12: attempt to …`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no memory for a Lua state.
    #[error("there is no memory for a Lua state")]
    NoState,
    /// It is not Lua.
    #[error("{message}")]
    Syntax {
        /// With file and line.
        message: String,
    },
    /// It defines neither function that can be asked.
    #[error("{name} defines no function lookup_policy, nor lookup_policy_batch")]
    NoPolicy {
        /// The policy's.
        name: String,
    },
    /// It threw an error.
    #[error("{message}")]
    Thrown {
        /// With file and line, and where the call came from.
        message: String,
    },
    /// It wanted more memory than it may have.
    #[error("not enough memory: {message}")]
    Memory {
        /// Where.
        message: String,
    },
    /// It was stopped ([`Stopper`](super::Stopper)).
    #[error("{at}: stopped, it took too long")]
    Stopped {
        /// File and line.
        at: String,
    },
    /// What it decided is no decision.
    #[error("{name}: {bad}")]
    Decision {
        /// The policy's.
        name: String,
        /// What it is.
        bad: BadDecision,
    },
    /// No such engine, or it takes no table of a policy's.
    #[error("{what}")]
    Engine {
        /// Which, and why.
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
