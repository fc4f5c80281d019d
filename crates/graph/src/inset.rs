//! Nodes that come before another while they are switched on.
//!
//! ```text
//!  off:  a ─► output        on:  a ─► mirror ─► output
//!        b ─► output             b ─► mirror ─┘
//!        c ─► output             c ─► output          (`c` is one of `but`)
//! ```
//!
//! Each node has a table of the targets of its edges. Switching rewrites the tables between
//! two polls, so an inset that is off costs no instruction.

use std::sync::atomic::{AtomicBool, Ordering};

/// One of them; nodes by their place in the graph.
#[derive(Debug)]
pub(crate) struct Inset {
    pub node: usize,
    pub before: usize,
    /// Nodes whose edges stay as they are.
    pub but: Vec<usize>,
}

impl Inset {
    /// With the places that the graph's order gives.
    pub fn ranked(self, rank: &[usize]) -> Inset {
        let but = self.but.iter().map(|&node| rank[node]).collect();
        Inset { node: rank[self.node], before: rank[self.before], but }
    }
}

/// All of a graph, in the order in which they were added. Written by the graph's
/// thread between polls, read by whoever draws it.
#[derive(Debug, Default)]
pub(crate) struct Insets(Vec<(Inset, AtomicBool)>);

impl Insets {
    pub fn new(insets: Vec<Inset>) -> Insets {
        Insets(insets.into_iter().map(|inset| (inset, AtomicBool::new(false))).collect())
    }

    /// Switches the inset at `node`; false where there is none.
    pub fn switch(&self, node: usize, on: bool) -> bool {
        let found = self.0.iter().find(|(inset, _)| inset.node == node);
        found.inspect(|(_, is)| is.store(on, Ordering::Relaxed)).is_some()
    }

    /// Where an edge of `from` to `to` leads now; `None` is the way in.
    pub fn resolve(&self, from: Option<usize>, to: usize) -> usize {
        let own = self.0.iter().position(|(inset, _)| Some(inset.node) == from);
        // Behind an inset come those that were added after it.
        let rest = self.0.iter().skip(own.map_or(0, |own| own + 1));
        let mut rest = rest.filter(|(inset, is)| {
            let takes = from.is_none_or(|from| !inset.but.contains(&from));
            inset.before == to && takes && is.load(Ordering::Relaxed)
        });
        rest.next().map_or(to, |(inset, _)| inset.node)
    }
}

/// Where an edge of `from` to `to` may lead: there, and to each inset that may take it
/// over. `None` is the way in.
pub(crate) fn targets(
    insets: &[Inset],
    from: Option<usize>,
    to: usize,
) -> impl Iterator<Item = usize> {
    let own = insets.iter().rposition(|inset| Some(inset.node) == from);
    // Behind an inset come those that were added after it.
    let rest = insets.iter().skip(own.map_or(0, |own| own + 1));
    let takes = move |inset: &&Inset| {
        inset.before == to && from.is_none_or(|from| !inset.but.contains(&from))
    };
    std::iter::once(to).chain(rest.filter(takes).map(|inset| inset.node))
}

/// The edges `next` of each node, and those that insets may make: for the order.
pub(crate) fn with_insets(next: &[Vec<usize>], insets: &[Inset]) -> Vec<Vec<usize>> {
    let all = |(from, edges): (usize, &Vec<usize>)| {
        edges.iter().flat_map(|&to| targets(insets, Some(from), to)).collect()
    };
    next.iter().enumerate().map(all).collect()
}
