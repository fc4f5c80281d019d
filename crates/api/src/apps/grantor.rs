//! The Grantor: what it does, and what became of packets.

use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// All of it.
    Show,
    /// The policy and its processes.
    Policies,
    /// Another policy.
    Load {
        /// Its file, where the daemon finds it.
        path: String,
    },
    /// The policy before this one.
    Rollback,
    /// A chunk, run in every process of the policy.
    Exec {
        /// In Lua.
        chunk: String,
    },
}

/// What is answered.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Show`].
    Show(Box<Shown>),
    /// To [`Request::Policies`].
    Policies(Box<Policies>),
    /// To [`Request::Exec`].
    Executed(Vec<Executed>),
}

/// The Grantor.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Shown {
    /// Prefixes of those who may ask.
    pub gatekeepers: Vec<String>,
    /// Prefixes of those who are served.
    pub serves: Vec<String>,
    /// What decides.
    pub policy: String,
    /// Milliseconds that packets wait at most.
    pub limit_ms: u64,
    /// What becomes of those that have waited so long.
    pub on_limit: String,
    /// What becomes of those for which there is no room.
    pub on_full: String,
    /// The rule for congestion that outer headers report.
    pub ecn: String,
    /// Whether nothing is forwarded.
    pub shadow: bool,
    /// UDP ports of decisions: source, destination.
    pub ports: [u16; 2],
    /// Packets that wait.
    pub waiting: u64,
    /// How many may.
    pub room: u64,
    /// What became of packets, questions and decisions.
    pub counts: Vec<Count>,
    /// What was dropped, as `node.reason`.
    pub drops: Vec<Count>,
    /// The processes of a policy in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
}

/// A policy in a file, and its processes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Policies {
    /// What decides; empty: none does.
    pub policy: String,
    /// What would after a rollback.
    pub before: Option<String>,
    /// What is being loaded.
    pub loading: Option<String>,
    /// Its processes.
    pub processes: Vec<Process>,
    /// Questions that were put to processes, also to those that are gone.
    pub asked: u64,
    /// Of these, the policy decided.
    pub decided: u64,
    /// Of these, the policy failed or was stopped.
    pub failed: u64,
    /// Of these, the process ended.
    pub lost: u64,
    /// What processes said and was no verdict.
    pub refused: u64,
    /// Questions that could not be put: as many waited as may.
    pub full: u64,
    /// Failures of the policy within the last minute.
    pub failures: u64,
    /// So many, and the one before it comes back.
    pub roll_back_at: u64,
    /// Processes that were started in the place of others.
    pub restarts: u64,
    /// Policies that were taken back because they failed.
    pub rollbacks: u64,
    /// How policies failed, each way once: the policy and its line.
    pub causes: Vec<String>,
    /// What processes have that they should not, and why.
    pub missing: Vec<String>,
    /// With what less than they should have the processes do.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// A process of a policy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Process {
    /// Its number with the system.
    pub pid: u32,
    /// The policy in it.
    pub policy: String,
    /// What it does.
    pub stage: String,
    /// Questions that were put.
    pub asked: u64,
    /// Of these, the policy decided.
    pub decided: u64,
    /// Of these, the policy failed or was stopped.
    pub failed: u64,
    /// Of these, the process ended.
    pub lost: u64,
    /// What it said and was no verdict.
    pub refused: u64,
}

/// What a process answered to a chunk.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Executed {
    /// The process.
    pub pid: u32,
    /// It failed: `result` is how.
    pub failed: bool,
    /// What the chunk gave, in words.
    pub result: String,
}

/// A number of something.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Of what.
    pub what: String,
    /// How many.
    pub count: u64,
}
