//! Settings of a Grantor's processes.

use std::ffi::OsString;
use std::time::Duration;

use crate::ask::Instead;

/// The resources of a Grantor's policy, and the fate of packets for which it has no answer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program to start, and its arguments, behind which come `engines`: it calls
    /// [`super::child::main`].
    pub command: Vec<OsString>,
    /// The engines of a policy's IPv4 and IPv6 tables, in the notation of
    /// [`lookup::lpm::Choice`]; empty: the default engines.
    pub engines: [String; 2],
    /// The number of processes that decide.
    pub processes: usize,
    /// The number of spare processes, ready to replace one that ends.
    pub spares: usize,
    /// The number of workers that ask.
    pub workers: usize,
    /// The most questions of a worker to one process without a verdict.
    pub depth: u32,
    /// The most bytes of each packet that a policy sees.
    pub captured: u32,
    /// The longest time of a batch before the policy is stopped.
    pub limit: Duration,
    /// The longest time that a policy takes to start.
    pub load: Duration,
    /// Bytes of memory in addition to those of a process at its start.
    pub memory: u64,
    /// The user id of the first process; the others get the next ones. `None`: the daemon's user.
    pub user: Option<u32>,
    /// How long a process polls for questions before it sleeps; `None`: for ever.
    pub spin: Option<Duration>,
    /// The substitute for the verdict about a packet at which the policy failed.
    pub instead: Instead,
    /// After this many failures within a minute, the last policy decides that did not fail as often.
    pub failures: usize,
}

impl Default for Settings {
    /// The running binary's hidden command; packets without a verdict are dropped.
    fn default() -> Settings {
        Settings {
            command: vec!["/proc/self/exe".into(), "policy-cell".into()],
            engines: Default::default(),
            processes: 1,
            spares: 1,
            workers: 1,
            depth: 1024,
            captured: 256,
            limit: Duration::from_millis(10),
            load: Duration::from_secs(10),
            memory: 256 << 20,
            user: Some(FIRST_USER),
            spin: Some(Duration::from_micros(50)),
            instead: Instead::default(),
            failures: 5,
        }
    }
}

impl Settings {
    /// A process that was asked and has been silent for this long is ended from outside: its own
    /// watch had nine chances to stop the policy.
    pub(crate) fn silence(&self) -> Duration {
        (10 * self.limit).max(Duration::from_millis(100))
    }
}

/// Above the user ids that systemd gives to services and containers.
pub const FIRST_USER: u32 = 2_000_000_000;
