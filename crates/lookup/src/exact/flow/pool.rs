//! Flows that stay where they are: a pool with a list of free places.

use super::{Flow, FlowKey};
use crate::exact::Card;
use crate::lpm::Refusal;
use crate::pages::Pages;

/// I1: a place below `fresh` has a flow or is in the list that begins at `free`;
/// the others were never used.
pub(super) struct Pool {
    flows: Pages<Flow>,
    free: Option<u32>,
    fresh: u32,
}

impl Pool {
    pub(super) fn new(card: &'static Card, places: usize) -> Result<Pool, Refusal> {
        Ok(Pool { flows: super::table::zeroed(card, places)?, free: None, fresh: 0 })
    }

    /// A place for `key`; `None` when all are taken.
    pub(super) fn take(&mut self, key: &FlowKey) -> Option<u32> {
        let flows = self.flows.as_mut_slice();
        let at = match self.free {
            Some(at) => {
                self.free = flows[at as usize].link.checked_sub(1);
                at
            }
            None if (self.fresh as usize) < flows.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        flows[at as usize] = Flow::new(*key);
        Some(at)
    }

    /// Frees a place.
    pub(super) fn give(&mut self, at: u32) {
        let flow = &mut self.flows.as_mut_slice()[at as usize];
        flow.clear();
        flow.link = self.free.map_or(0, |free| free + 1);
        self.free = Some(at);
    }

    #[inline(always)]
    pub(super) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub(super) fn flows_mut(&mut self) -> &mut [Flow] {
        self.flows.as_mut_slice()
    }
}
