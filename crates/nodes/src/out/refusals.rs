//! When a port last refused a packet of this worker: its queue was full, or the ring to the
//! worker that has it.

use graph::Counter;

/// Written by `output`, read by nodes of the same worker that can hold packets back.
#[derive(Debug)]
pub struct Refusals(Box<[Counter]>);

impl Refusals {
    /// Of ports below `ports`.
    pub fn new(ports: u16) -> Refusals {
        Refusals((0..ports).map(|_| Counter::default()).collect())
    }

    /// The port refused one now, in ticks.
    #[cold]
    pub(super) fn note(&self, port: u16, now: u64) {
        if let Some(last) = self.0.get(usize::from(port)) {
            last.set(now.max(1));
        }
    }

    /// When it last did; `None`: never.
    #[inline]
    pub fn last(&self, port: u16) -> Option<u64> {
        let last = self.0.get(usize::from(port))?.get();
        (last != 0).then_some(last)
    }
}
