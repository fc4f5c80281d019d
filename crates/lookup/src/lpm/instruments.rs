//! Instruments: what measurements ask of a table beside its answers. A router asks none
//! of it, so it is no part of [`Lpm`](super::Lpm): an engine that has an instrument builds
//! the same table and hands both out, by a line of its own in the registry.

use std::sync::Arc;

use super::engine::{Options, Refusal, Writer};
use crate::sync::Domain;
use crate::{Addr, Rib};

/// A table that reports where its lookups read.
pub trait Reads<A: Addr>: Send + Sync {
    /// The addresses that a lookup of `dst` reads, one for each read of a line, in order.
    /// There are four bytes of the table at each.
    fn reads(&self, dst: A) -> Vec<usize>;
}

/// A table and its instrument: `reads` is of the table that `writer` changes.
pub struct Instrumented<A: Addr> {
    /// What updates the table.
    pub writer: Box<dyn Writer<A>>,
    /// What reports where it reads.
    pub reads: Arc<dyn Reads<A>>,
}

/// Builds an engine with its instrument.
pub type BuildInstrumented<A> =
    fn(&Rib<A>, &Options, &Arc<Domain>) -> Result<Instrumented<A>, Refusal>;

/// Where `place` lies, for [`Reads`].
pub(super) fn address<T>(place: &T) -> usize {
    std::ptr::from_ref(place).addr()
}
