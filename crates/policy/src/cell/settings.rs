//! How the processes of a Grantor are to be.

use std::ffi::OsString;
use std::time::Duration;

use crate::ask::Instead;

/// What a Grantor's policy may have, and what becomes of packets for which it has no answer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is started, and its words: it calls [`super::child::main`].
    pub command: Vec<OsString>,
    /// Processes that decide.
    pub processes: usize,
    /// Processes more that are ready to take the place of one that ends.
    pub spares: usize,
    /// Workers that ask.
    pub workers: usize,
    /// Questions of a worker to a process without a verdict, at most.
    pub depth: u32,
    /// Bytes of each packet that a policy sees, at most.
    pub captured: u32,
    /// How long a policy may take for a batch before it is stopped.
    pub limit: Duration,
    /// How long it may take to begin.
    pub load: Duration,
    /// Bytes of memory beyond those that a process begins with.
    pub memory: u64,
    /// The user of the first process, those of others follow; `None`: the daemon's.
    pub user: Option<u32>,
    /// How long a process looks for questions before it sleeps; `None`: for ever.
    pub spin: Option<Duration>,
    /// What becomes of a packet whose policy failed.
    pub instead: Instead,
    /// So many failures within a minute, and the policy before it comes back.
    pub failures: usize,
}

impl Default for Settings {
    /// As the running binary's hidden command; packets without a verdict are dropped.
    fn default() -> Settings {
        Settings {
            command: vec!["/proc/self/exe".into(), "policy-cell".into()],
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
    /// A process that was asked and has said nothing for so long is ended from outside: its
    /// own watch had nine chances.
    pub(crate) fn silence(&self) -> Duration {
        (10 * self.limit).max(Duration::from_millis(100))
    }
}

/// Above those that systemd gives to services and containers.
pub const FIRST_USER: u32 = 2_000_000_000;
