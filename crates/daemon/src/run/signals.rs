//! Signals that end a run.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
};

use crate::error::{Doing, Error};
use crate::parts::state::Stop;
use crate::privileges::Reduced;
use crate::threads::Threads;

/// The first SIGTERM, SIGINT, SIGQUIT or SIGHUP ends the run in order; a second one, after a while,
/// ends it at once. `timeout` and others signal both the process and its group, which counts as one
/// signal. If SIGHUP was ignored before (`nohup`), it still is. Other signals would end the process
/// at once and leave its changes behind: they are caught, and have no effect.
pub(super) fn listen(
    stop: mpsc::Sender<Stop>,
    threads: &Threads,
    reduced: Reduced,
) -> Result<(), Error> {
    let mut wanted = vec![SIGINT, SIGTERM, SIGQUIT];
    wanted.extend(MEANINGLESS);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !ignores(&status, SIGHUP) {
        wanted.push(SIGHUP);
    }
    let signals = signal_hook::iterator::Signals::new(wanted);
    let mut signals = signals.doing(|| "listen to signals".into())?;
    let listen = move || {
        reduced.give_up();
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            if MEANINGLESS.contains(&signal) {
                tracing::info!("signal {signal} has no meaning for a router: ignored");
                continue;
            }
            let since = first.get_or_insert_with(Instant::now).elapsed();
            // A terminal that closes sends two signals: one by the kernel and one by the shell.
            if since >= IMPATIENT && signal != SIGHUP {
                tracing::warn!("a second signal: ended at once; `rutter run --cleanup` cleans up");
                std::process::exit(128 + signal);
            }
            let _ = stop.send(Stop { remove: false }); // it may be stopping already
        }
    };
    let thread = threads.fatal("signals", listen);
    thread.doing(|| "start the signals thread".into()).map(|_| ())
}

/// Whether a process with this `/proc/PID/status` ignores `signal`.
pub(super) fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Signals whose meaning a program chooses; by default they kill it.
const MEANINGLESS: [i32; 6] = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO];
/// A signal this long after the first means that its sender will not wait.
const IMPATIENT: Duration = Duration::from_secs(1);
