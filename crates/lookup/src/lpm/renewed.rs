//! A writer that asks for its table to be built anew before it is much larger than it has
//! to be: arenas from which blocks of many sizes come and go have holes, and nodes that
//! were full are half empty after they were divided.
//!
//! The table is in line with its routes all the while. Who asked for the changes builds
//! another one beside it, as for engines that do not update.

use std::sync::Arc;

use super::{Applied, Lpm, Refusal, Writer};
use crate::rib::Change;
use crate::{Addr, Rib};

/// See the module.
pub(super) struct Renewed<A: Addr> {
    writer: Box<dyn Writer<A>>,
    table: Arc<dyn Lpm<A>>,
    /// Bytes that a table without routes has.
    empty: usize,
    /// Bytes for so many routes, as built.
    fresh: usize,
    routes: usize,
}

impl<A: Addr> Renewed<A> {
    /// Of a writer that has just built `rib`; a table without routes has `empty` bytes.
    pub(super) fn new(writer: Box<dyn Writer<A>>, empty: usize, rib: &Rib<A>) -> Self {
        let table = writer.table();
        let fresh = table.bytes().saturating_sub(empty);
        Renewed { writer, table, empty, fresh, routes: rib.len() }
    }

    /// More than seven quarters of what a fresh table has for so many routes, as far as one
    /// can tell from the last one.
    fn is_outgrown(&self, routes: usize) -> bool {
        let each = self.fresh.checked_div(self.routes).unwrap_or(0).max(LEAST_EACH);
        let fresh = each * routes;
        self.table.bytes() > self.empty + fresh + fresh / 4 * 3 + self.empty / 16 + SLACK
    }
}

impl<A: Addr> Writer<A> for Renewed<A> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        let applied = self.writer.apply(rib, changes)?;
        Ok(if self.is_outgrown(rib.len()) { Applied::Rebuild } else { applied })
    }

    fn bytes(&self) -> usize {
        self.writer.bytes()
    }
}

/// Bytes of a route, where none was built that could tell.
const LEAST_EACH: usize = 8;

/// What is not worth a build.
const SLACK: usize = 16 << 10;
