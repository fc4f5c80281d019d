//! The writer of tables that are built anew on every change but one: the default
//! route's hop is a word of its own, and changes in place.

use std::sync::Arc;

use super::default_hop::DefaultHop;
use super::{Applied, Card, Lpm, Refusal, Writer};
use crate::rib::Change;
use crate::{Addr, Hop, Prefix, Rib};

/// A table that never changes after `build`, but for its default hop.
pub(super) trait Rebuilt<A: Addr>: Lpm<A> + 'static {
    /// The engine's card: its limits hold for the default hop too.
    const CARD: &'static Card;

    /// The hop of /0.
    fn default_hop(&self) -> &DefaultHop;
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
        self.0.default_hop().set(hop);
        Ok(Applied::InPlace)
    }
}
