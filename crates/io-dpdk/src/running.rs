//! How long a device lives: as long as somebody holds it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shim;

/// DPDK's control calls are not made for several threads at once.
static CONTROL: Mutex<()> = Mutex::new(());

/// A device that is plugged in: unplugged when its last holder is gone.
pub(crate) struct Plugged {
    pub(crate) port: u16,
}

impl Drop for Plugged {
    fn drop(&mut self) {
        let _control = control();
        // SAFETY: takes a number; nobody uses the port any more.
        unsafe { shim::rutter_remove(self.port) };
    }
}

/// A device that was started: stopped when its last holder is gone. Its ports
/// hold it, so whoever drops or stops the device while a worker polls stops nothing
/// under the worker.
pub(crate) struct Running(pub(crate) Arc<Plugged>);

impl Running {
    /// DPDK's number.
    #[inline]
    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _control = control();
        // SAFETY: takes a number; the ports are gone. A device that does
        // not stop is closed all the same.
        unsafe { shim::rutter_stop(self.0.port) };
    }
}

/// The right to make a control call.
pub(crate) fn control() -> MutexGuard<'static, ()> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}
