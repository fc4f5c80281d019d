//! When each port last refused a packet of this worker: the port's queue was full, or the ring to
//! the worker that has the port.

use graph::Counter;

/// Written by `output`; read by those nodes of the same worker that can hold packets back.
#[derive(Debug)]
pub struct Refusals {
    ports: Box<[Counter]>,
    /// Of all ports.
    latest: Counter,
}

impl Refusals {
    /// Refusals of the ports below `ports`.
    pub fn new(ports: u16) -> Refusals {
        let ports = (0..ports).map(|_| Counter::default()).collect();
        Refusals { ports, latest: Counter::default() }
    }

    /// Notes that the port refused a packet at `now`, in ticks.
    #[cold]
    pub(super) fn note(&self, port: u16, now: u64) {
        if let Some(last) = self.ports.get(usize::from(port)) {
            last.set(now.max(1));
            self.latest.set(now.max(1));
        }
    }

    /// When the port last refused a packet; `None`: never.
    #[inline]
    pub fn last(&self, port: u16) -> Option<u64> {
        let last = self.ports.get(usize::from(port))?.get();
        (last != 0).then_some(last)
    }

    /// When any port last refused a packet; `None`: never.
    #[inline]
    pub fn latest(&self) -> Option<u64> {
        let last = self.latest.get();
        (last != 0).then_some(last)
    }
}
