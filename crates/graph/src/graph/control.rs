//! What control does to a graph, between polls: ports, counters, nodes, and the change to
//! another graph.

use std::sync::Arc;

use lookup::sync::Guard;

use super::{Graph, Slot};
use crate::context::Ports;
use crate::node::Node;
use crate::stats::{Place, Stats};
use crate::tick::Due;
use crate::watch::{Capture, Trace};

impl Graph {
    /// Its ports. Between polls a graph holds no packets but those that nodes keep; of
    /// one that goes meanwhile, they are dropped when their time comes.
    pub fn ports(&mut self) -> &mut Ports {
        &mut self.context.ports
    }

    /// When it has something to do even if no packet comes.
    pub fn due(&self) -> Due {
        self.ticking.first()
    }

    /// Whether packets may wait that nothing reports: a port or a source has to be
    /// looked at.
    pub fn must_poll(&mut self) -> bool {
        let places = &self.context.stats.places;
        let silent = self.sources.iter().any(|&at| !places[at].card.wakes);
        silent || self.context.ports.iter_mut().any(|(_, port)| port.wakes().is_none())
    }

    /// Makes it the successor of `old`, which first works off what waits in its rings:
    /// nodes take over from those of the same name and type, what is still kept there is
    /// dropped by name, counters go on from the old ones, and ports that this graph has
    /// not got move over.
    pub(crate) fn succeed(&mut self, old: &mut Graph, guard: Guard<'_>) {
        for _ in 0..ROUNDS {
            if old.work_off(guard) == 0 {
                break;
            }
        }
        for slot in &mut self.slots {
            let name = slot.node.card().name;
            let same = |old: &&mut Slot| old.node.card().name == name;
            if let Some(old) = old.slots.iter_mut().find(same) {
                slot.node.inherit(&mut *old.node);
            }
        }
        old.abandon(guard);
        self.stats().take_over(old.stats());
        for number in 0..old.ports().end() {
            if self.ports().world(number).is_none()
                && let Some(port) = old.ports().remove(number)
            {
                self.ports().set(number, port);
            }
        }
    }

    /// Its counters, to be shared.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.context.stats
    }

    /// The worker that it was built for.
    pub fn worker(&self) -> usize {
        self.context.worker
    }

    /// The node of type `N`, to look at it and to change it between polls: a short piece
    /// of work; a [`Job`](crate::Job) is for a long one. It ticks in the next poll.
    ///
    /// # Errors
    /// When the graph has none of its name, or one of another type.
    pub fn node_mut<N: Node + 'static>(&mut self) -> Result<&mut N, NodeError> {
        let node = N::NAME;
        let same = |place: &Place| place.card.name == node;
        let slot = self.context.stats.places.iter().position(same);
        let slot = slot.ok_or(NodeError::None { node })?;
        self.ticking.wake(slot);
        let wanted = std::any::type_name::<N>();
        self.slots[slot].node.any().downcast_mut().ok_or(NodeError::Type { node, wanted })
    }

    /// Switches an [inset](crate::Builder::inset) on or off, by its name; false, and
    /// nothing done, where there is none. All are off in a new graph.
    pub fn switch(&mut self, inset: &str, on: bool) -> bool {
        let stats = &self.context.stats;
        let node = stats.places.iter().position(|place| place.card.name == inset);
        if !node.is_some_and(|node| stats.insets.switch(node, on)) {
            return false;
        }
        self.entry = stats.insets.resolve(None, stats.entry);
        for (from, (slot, place)) in self.slots.iter_mut().zip(&stats.places).enumerate() {
            for (now, &to) in slot.next.iter_mut().zip(&place.next) {
                *now = stats.insets.resolve(Some(from), to) as u8; // at most 256 nodes
            }
        }
        true
    }

    /// Has a [dormant](crate::Builder::dormant) source asked from now on: it stays awake, as
    /// packets may wait in it. False, and nothing done, where there is no such source.
    pub fn wake(&mut self, source: &str) -> bool {
        let mut places = self.context.stats.places.iter();
        let at = places.position(|place| place.card.source && place.card.name == source);
        if let Some(at) = at.filter(|at| !self.sources.contains(at)) {
            self.sources.push(at);
            self.sources.sort_unstable(); // asked in the graph's order
        }
        at.is_some()
    }

    pub(crate) fn lull(&mut self, source: &str) {
        let places = &self.context.stats.places;
        self.sources.retain(|&at| places[at].card.name != source);
    }

    /// Starts a capture, or ends it; returns the one before.
    pub fn set_capture(&mut self, capture: Option<Capture>) -> Option<Capture> {
        self.context.watch.set_capture(capture)
    }

    /// Starts a trace, or ends it; returns the one before.
    pub fn set_trace(&mut self, trace: Option<Trace>) -> Option<Trace> {
        self.context.watch.set_trace(trace)
    }

    /// Frames and steps that captures and traces lost because their ring was full.
    pub fn lost(&self) -> u64 {
        self.context.watch.lost
    }

    /// The drawing of its nodes with their counts.
    pub fn draw(&self) -> String {
        self.context.stats.snapshot().draw()
    }
}

/// Rounds in which a graph that is replaced works off its rings, a burst of each a round:
/// far more than they hold, and an end where others go on filling them.
const ROUNDS: usize = 1024;

/// Why a node is not reached.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The graph has no node of that name.
    #[error("the graph has no node `{node}`")]
    None {
        /// The name.
        node: &'static str,
    },
    /// A node of another type has the name.
    #[error("node `{node}` is not a {wanted}")]
    Type {
        /// The name.
        node: &'static str,
        /// The type that was asked for.
        wanted: &'static str,
    },
}
