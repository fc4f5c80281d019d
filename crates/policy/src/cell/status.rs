//! What the supervisor says: by itself, and when asked.

use std::fmt;

/// Something that an operator should know; each is said once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A policy decides from now on.
    Serves {
        /// Which.
        policy: String,
    },
    /// A policy failed in a way in which it had not before.
    Failed {
        /// Which.
        policy: String,
        /// How, with its line where that is known.
        cause: String,
    },
    /// A policy failed too often, and the one before it decides again.
    RolledBack {
        /// What failed.
        from: String,
        /// What comes back.
        to: String,
        /// How often within a minute.
        failures: usize,
    },
    /// A policy fails too often, and there is none before it.
    NothingBefore {
        /// Which.
        policy: String,
        /// How often within a minute.
        failures: usize,
    },
    /// Processes have more than they should, because the system did not take it from them.
    NotShutIn {
        /// What, and why.
        missing: Vec<String>,
    },
    /// The system does not start or end processes.
    System {
        /// What it says.
        error: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Serves { policy } => write!(f, "policy {policy} decides"),
            Event::Failed { policy, cause } => write!(f, "policy {policy} failed: {cause}"),
            Event::RolledBack { from, to, failures } => write!(
                f,
                "policy {from} failed {failures} times within a minute: {to}, the one before \
                 it, decides again"
            ),
            Event::NothingBefore { policy, failures } => write!(
                f,
                "policy {policy} failed {failures} times within a minute, and there is none \
                 before it to go back to"
            ),
            Event::NotShutIn { missing } => {
                write!(f, "processes of policies are not fully shut in: {}", missing.join("; "))
            }
            Event::System { error } => write!(f, "processes of policies: {error}"),
        }
    }
}

/// How it is with policies and their processes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Status {
    /// What decides.
    pub policy: Option<String>,
    /// What would decide after a rollback.
    pub before: Option<String>,
    /// What is being loaded.
    pub loading: Option<String>,
    /// Its processes.
    pub processes: Vec<ProcessStatus>,
    /// Of all processes that there have been.
    pub counts: Counts,
    /// Questions that could not be put: as many waited as may.
    pub full: u64,
    /// Failures of the policy within the last minute.
    pub failures: usize,
    /// The last of them.
    pub last_failure: Option<String>,
    /// Processes that were started in the place of others.
    pub restarts: u64,
    /// Policies that were taken back because they failed.
    pub rollbacks: u64,
    /// What processes have that they should not, and why.
    pub missing: Vec<String>,
    /// With what less than they should have the processes do.
    pub remarks: Vec<String>,
}

/// A process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessStatus {
    /// Its number with the system.
    pub pid: u32,
    /// The policy in it.
    pub policy: String,
    /// What it does.
    pub stage: &'static str,
    /// What it was asked and said.
    pub counts: Counts,
}

/// What became of questions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Those that were put.
    pub asked: u64,
    /// The policy gave a verdict.
    pub decided: u64,
    /// The policy failed at them.
    pub failed: u64,
    /// Their process ended.
    pub lost: u64,
    /// What was said and no verdict.
    pub refused: u64,
}

impl Counts {
    /// Both together.
    pub(crate) fn and(self, other: Counts) -> Counts {
        Counts {
            asked: self.asked + other.asked,
            decided: self.decided + other.decided,
            failed: self.failed + other.failed,
            lost: self.lost + other.lost,
            refused: self.refused + other.refused,
        }
    }
}

/// What a process answered to a chunk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Executed {
    /// The process's number with the system.
    pub pid: u32,
    /// What the chunk gave, or how it failed.
    pub result: Result<String, String>,
}

/// Why a policy does not serve, or a call had no answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// It does not begin.
    #[error("policy {policy} is refused: {cause}")]
    Refused {
        /// Which.
        policy: String,
        /// Why.
        cause: String,
    },
    /// Another is being loaded.
    #[error("policy {0} is being loaded")]
    Busy(String),
    /// There is none.
    #[error("there is no policy before this one")]
    NothingBefore,
    /// The chunk is longer than a message.
    #[error("the chunk is too long: {0} bytes")]
    TooLong(usize),
    /// The supervisor has ended.
    #[error("the supervisor of the policies has ended")]
    Ended,
}
