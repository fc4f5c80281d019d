//! The writer of tables that are built anew on every change but one: the default
//! route's hop is a word of its own, and changes in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Applied, Card, Lpm, Refusal, Writer};
use crate::rib::Change;
use crate::{Addr, Hop, Prefix, Rib};

/// A table that never changes after `build`, but for its default hop.
pub(super) trait Rebuilt<A: Addr>: Lpm<A> + 'static {
    /// The engine's card: its limits hold for the default hop too.
    const CARD: &'static Card;

    /// The hop of /0, 0 for none. Readers load it with `Acquire`.
    fn default_hop(&self) -> &AtomicU32;
}

/// The default hop of a table that is being built.
pub(super) fn default_hop<A: Addr>(rib: &Rib<A>) -> AtomicU32 {
    AtomicU32::new(rib.get(&Prefix::all()).unwrap_or(Hop::NONE).0)
}

/// See [`Rebuilt`].
pub(super) struct RebuiltWriter<T>(pub Arc<T>);

impl<A: Addr, T: Rebuilt<A>> Writer<A> for RebuiltWriter<T> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.0.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        if changes.iter().any(|change| change.prefix.len() > 0) {
            return Ok(Applied::Rebuild);
        }
        let hop = rib.get(&Prefix::all()).unwrap_or(Hop::NONE);
        T::CARD.admit_hop(hop)?;
        self.0.default_hop().store(hop.0, Ordering::Release);
        Ok(Applied::InPlace)
    }
}
