//! When each port last refused a packet of this worker: the port's queue was full, or the ring to
//! the worker that has the port.

use graph::Counter;

/// Written by `output`; read by those nodes of the same worker that can hold packets back.
#[derive(Debug)]
pub struct Refusals(Box<[Counter]>);

impl Refusals {
    /// Refusals of the ports below `ports`.
    pub fn new(ports: u16) -> Refusals {
        Refusals((0..ports).map(|_| Counter::default()).collect())
    }

    /// Notes that the port refused a packet at `now`, in ticks.
    #[cold]
    pub(super) fn note(&self, port: u16, now: u64) {
        if let Some(last) = self.0.get(usize::from(port)) {
            last.set(now.max(1));
        }
    }

    /// When the port last refused a packet; `None`: never.
    #[inline]
    pub fn last(&self, port: u16) -> Option<u64> {
        let last = self.0.get(usize::from(port))?.get();
        (last != 0).then_some(last)
    }
}
