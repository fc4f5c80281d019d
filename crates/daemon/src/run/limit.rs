//! Limits the time of a stop. After a thread has died, another thread may hang, and so may those
//! that wait for it.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use crate::parts::kernel_side::Remove;
use crate::parts::state::State;
use crate::threads::Threads;

/// Ends the process after `limit`, with the settings restored, unless the returned value is dropped
/// before: then the stop is over.
pub(super) fn stop_within(
    limit: Duration,
    state: Arc<State>,
    threads: &Threads,
) -> Option<Sender<()>> {
    let (running, over) = mpsc::channel();
    let wait = move || {
        if over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("the stop takes too long: the process ends at once");
            give_back(&state);
            std::process::exit(DIED.into());
        }
    };
    let started = threads.contained("stop-limit", wait);
    started.inspect_err(|error| tracing::warn!("the stop has no time limit: {error}")).ok()?;
    Some(running)
}

fn give_back(state: &State) {
    let Some(kernel) = &state.kernel else { return };
    let mut kernel = match kernel.try_lock() {
        Ok(kernel) => kernel,
        // The panic of the lock's holder may be the death itself.
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            // The record beside the socket stays, and the next start restores the settings from it.
            return tracing::error!(
                "settings are not restored: the thread that changes them is stuck"
            );
        }
    };
    kernel.restore(Vec::new(), Remove::Nothing);
}

/// The exit status after a death: neither "no" (1) nor a user's mistake (2).
pub const DIED: u8 = 3;
/// Shorter than a service manager waits for a stop.
pub(super) const USUAL: Duration = Duration::from_secs(10);
