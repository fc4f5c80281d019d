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
