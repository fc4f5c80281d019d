//! The reports of the supervisor: events, and answers about its state.

use std::fmt;

/// An event that an operator should know; each is reported once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A policy decides from now on.
    Serves {
        /// The policy.
        policy: String,
    },
    /// A policy failed with a new cause.
    Failed {
        /// The policy.
        policy: String,
        /// The cause, with its line where that is known.
        cause: String,
    },
    /// A policy failed with so many causes of one kind that further ones are not reported.
    TooManyCauses {
        /// The policy.
        policy: String,
        /// Causes of that kind that were reported.
        causes: usize,
    },
    /// A policy failed too often, and the one before it decides again.
    RolledBack {
        /// The policy that failed.
        from: String,
        /// The policy that decides again.
        to: String,
        /// Failures within a minute.
        failures: usize,
    },
    /// A policy fails too often, and there is no policy before it.
    NothingBefore {
        /// The policy.
        policy: String,
        /// Failures within a minute.
        failures: usize,
    },
    /// Processes have rights that they should not have, because the system did not remove them.
    NotShutIn {
        /// The rights, and why they remain.
        missing: Vec<String>,
    },
    /// The system refuses to start or end processes.
    System {
        /// The system's error.
        error: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Serves { policy } => write!(f, "policy {policy} decides from now on"),
            Event::Failed { policy, cause } => write!(f, "policy {policy} failed: {cause}"),
            Event::TooManyCauses { policy, causes } => write!(
                f,
                "policy {policy} failed with more than {causes} causes; further ones of that kind \
                 are counted, and not reported until a policy is loaded"
            ),
            Event::RolledBack { from, to, failures } => write!(
                f,
                "policy {from} failed {failures} times within a minute; {to}, the policy before \
                 it, decides again"
            ),
            Event::NothingBefore { policy, failures } => write!(
                f,
                "policy {policy} failed {failures} times within a minute, and there is no \
                 earlier policy to return to"
            ),
            Event::NotShutIn { missing } => {
                write!(f, "policy processes are not fully confined: {}", missing.join("; "))
            }
            Event::System { error } => {
                write!(f, "policy processes: {error}")
            }
        }
    }
}

/// The state of policies and their processes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Status {
    /// The policy that decides.
    pub policy: Option<String>,
    /// The policy that would decide after a rollback.
    pub before: Option<String>,
    /// The policy that is being loaded.
    pub loading: Option<String>,
    /// The processes.
    pub processes: Vec<ProcessStatus>,
    /// Counters over all processes since the start.
    pub counts: Counts,
    /// Questions that were refused because too many were waiting.
    pub full: u64,
    /// Failures of the policy within the last minute.
    pub failures: usize,
    /// The last failure.
    pub last_failure: Option<String>,
    /// Processes that replaced others.
    pub restarts: u64,
    /// Policies that were rolled back because they failed.
    pub rollbacks: u64,
    /// Rights that processes should not have, and why they remain.
    pub missing: Vec<String>,
    /// Resources that processes lack and work without.
    pub remarks: Vec<String>,
}

/// A process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessStatus {
    /// Its process id.
    pub pid: u32,
    /// The policy that it runs.
    pub policy: String,
    /// What it does at present.
    pub stage: &'static str,
    /// Its counters.
    pub counts: Counts,
}

/// What became of questions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Questions that a policy was asked.
    pub asked: u64,
    /// Questions to which the policy gave a verdict.
    pub decided: u64,
    /// Questions that the policy failed to answer.
    pub failed: u64,
    /// Questions whose process ended.
    pub lost: u64,
    /// Messages that were not a valid verdict.
    pub refused: u64,
}

impl Counts {
    /// The sum of both.
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

/// A process's answer to a chunk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Executed {
    /// The process id.
    pub pid: u32,
    /// The chunk's result, or how it failed.
    pub result: Result<String, String>,
}

/// Why a policy does not serve, or a call had no answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The policy does not start.
    #[error("policy {policy} is refused: {cause}")]
    Refused {
        /// The policy.
        policy: String,
        /// The cause.
        cause: String,
    },
    /// Another policy is being loaded.
    #[error("policy {0} is being loaded")]
    Busy(String),
    /// There is no policy.
    #[error("there is no earlier policy to return to")]
    NothingBefore,
    /// The chunk is longer than a message.
    #[error("the chunk is too long: {0} bytes")]
    TooLong(usize),
    /// The supervisor has ended.
    #[error("the supervisor of the policies has ended")]
    Ended,
}
