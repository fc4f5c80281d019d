//! Which lanes packets carry on their paths through a graph: whether each node finds the
//! lanes that it reads, and which lanes a split has to move.
//!
//! ```text
//!  forwards:  what a slot holds on every way to a node      ─► a lane read must be there
//!                a.left  {A32: Dst4} ─┐
//!                a.right {A32: Dst4} ─┴► b  A32: Dst4       two lanes, or none on a way: nothing
//!  backwards: slots that a node, or one behind it, reads before they are filled again
//!                                                           ─► what moves with a packet to it
//! ```
//!
//! A node that fills a slot on one edge leaves nothing in it on its others, the one to
//! `drop` included, unless they carry a lane there, too. Insets count as if on and off.

use crate::card::Card;
use crate::inset::{Inset, targets};
use crate::lanes::{LaneCard, Lanes};
use crate::slots::{Ifaces, SLOTS, SlotSet, Stored};

/// A graph's nodes and where packets may go from each.
pub(crate) struct Ways<'a> {
    cards: &'a [Card],
    arcs: Vec<Arc>,
    /// Nodes that packets from ports enter.
    entries: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Arc {
    from: usize,
    /// `None`: to `drop`.
    edge: Option<usize>,
    to: usize,
}

/// Slots that move with a packet, where packets of a vector part.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Needs {
    /// To the node.
    pub here: SlotSet,
    /// From the node, to any of those behind it.
    pub behind: SlotSet,
}

/// What each slot holds for certain.
type Held = [Option<&'static LaneCard>; SLOTS];

/// A lane that a node reads, and is not there.
#[derive(Debug)]
pub(crate) struct Missing {
    pub node: &'static str,
    pub lane: &'static str,
    /// The lane that is in its slot instead, if any.
    pub instead: Option<&'static str>,
    /// The way on which it is missing, each as `node.edge`: from where it could have been
    /// filled last.
    pub way: Vec<String>,
}

impl<'a> Ways<'a> {
    /// The ways of a graph whose edges lead to `next`.
    pub fn new(
        cards: &'a [Card],
        next: &[Vec<usize>],
        insets: &[Inset],
        (entry, drop_node): (usize, usize),
    ) -> Ways<'a> {
        let mut arcs = Vec::new();
        for (from, edges) in next.iter().enumerate() {
            for (edge, &to) in edges.iter().enumerate() {
                let to = targets(insets, Some(from), to);
                arcs.extend(to.map(|to| Arc { from, edge: Some(edge), to }));
            }
            if !edges.is_empty() && !cards[from].drops.is_empty() {
                arcs.push(Arc { from, edge: None, to: drop_node });
            }
        }
        Ways { cards, arcs, entries: targets(insets, None, entry).collect() }
    }

    /// By node, the slots that have to come with a packet. `order` is topological.
    pub fn needs(&self, order: &[usize]) -> Result<Vec<Needs>, Missing> {
        let (held, filled) = self.forwards(order);
        for &node in order {
            for lane in self.cards[node].reads.cards() {
                self.check(&held, node, lane)?;
            }
        }
        let mut needs = vec![Needs::default(); self.cards.len()];
        for &node in order.iter().rev() {
            let (mut here, mut behind) =
                (self.cards[node].reads.slots().and(Ifaces::BIT), SlotSet::NONE);
            for arc in self.arcs.iter().filter(|arc| arc.from == node) {
                behind = behind.and(needs[arc.to].here);
                here = here.and(needs[arc.to].here.without(self.carried(*arc).slots()));
            }
            // What nobody fills before it does not move.
            needs[node] = Needs { here: here.both(filled[node]), behind };
        }
        Ok(needs)
    }

    /// By node, what its packets come with: for certain (`None`: no packet comes), and
    /// perhaps.
    fn forwards(&self, order: &[usize]) -> (Vec<Option<Held>>, Vec<SlotSet>) {
        let mut held: Vec<Option<Held>> = vec![None; self.cards.len()];
        let mut filled = vec![SlotSet::NONE; self.cards.len()];
        self.entries.iter().for_each(|&entry| held[entry] = Some(Held::default()));
        for &node in order {
            for &arc in self.arcs.iter().filter(|arc| arc.from == node) {
                let Some(leaves) = self.leaves(&held, arc) else { continue };
                let came = held[arc.to].get_or_insert(leaves);
                for (came, leaves) in came.iter_mut().zip(leaves) {
                    *came = came.filter(|came| leaves == Some(*came));
                }
                filled[arc.to] = filled[arc.to].and(filled[node]).and(self.carried(arc).slots());
            }
        }
        (held, filled)
    }

    /// What packets hold that leave by `arc`; `None` where none does.
    fn leaves(&self, held: &[Option<Held>], arc: Arc) -> Option<Held> {
        let card = &self.cards[arc.from];
        let mut leaves = if card.puts_in() { Held::default() } else { held[arc.from]? };
        for lane in card.carries.iter().flat_map(|lanes| lanes.cards()) {
            leaves[lane.slot.index()] = None;
        }
        for lane in self.carried(arc).cards() {
            leaves[lane.slot.index()] = Some(lane);
        }
        Some(leaves)
    }

    fn carried(&self, arc: Arc) -> Lanes {
        let edges = self.cards[arc.from].carries;
        arc.edge.and_then(|edge| edges.get(edge)).copied().unwrap_or(Lanes::NONE)
    }

    /// Does `node` find `lane` on every way?
    fn check(
        &self,
        held: &[Option<Held>],
        node: usize,
        lane: &'static LaneCard,
    ) -> Result<(), Missing> {
        let (card, slot) = (&self.cards[node], lane.slot.index());
        let found = match &held[node] {
            Some(held) => held[slot] == Some(lane),
            None => !card.puts_in(), // else no packet comes
        };
        if found {
            return Ok(());
        }
        let mut missing = Missing { node: card.name, lane: lane.name, instead: None, way: vec![] };
        let mut at = node;
        // Back along a way without it, to where it got lost or packets come from.
        while let Some((arc, leaves)) = self.lacks(held, at, lane) {
            let from = &self.cards[arc.from];
            let edge = arc.edge.map_or("drop", |edge| from.edges[edge]);
            missing.way.insert(0, format!("{}.{edge}", from.name));
            let mut own = from.carries.iter().flat_map(|lanes| lanes.cards());
            let own = own.find(|own| own.slot == lane.slot);
            if let Some(instead) = leaves[slot].or(own) {
                // Else it fills the lane itself, but for other edges.
                missing.instead = Some(instead.name).filter(|_| instead != lane);
                break;
            }
            at = arc.from;
        }
        Err(missing)
    }

    /// A way into `node` without `lane`, and what comes by it. None where packets enter.
    fn lacks(
        &self,
        held: &[Option<Held>],
        node: usize,
        lane: &'static LaneCard,
    ) -> Option<(Arc, Held)> {
        let mut arcs = self.arcs.iter().filter(|arc| arc.to == node);
        arcs.find_map(|&arc| {
            let leaves = self.leaves(held, arc)?;
            (leaves[lane.slot.index()] != Some(lane)).then_some((arc, leaves))
        })
    }
}

/// The first edge that carries two lanes of one slot, and their names.
pub(crate) fn crowded(card: &Card) -> Option<(&'static str, [&'static str; 2])> {
    card.edges.iter().zip(card.carries).find_map(|(edge, lanes)| {
        let lanes = lanes.cards();
        let pairs = lanes.iter().enumerate();
        let mut pairs = pairs.flat_map(|(i, a)| lanes[i + 1..].iter().map(move |b| (a, b)));
        let found = pairs.find(|(a, b)| a.slot == b.slot);
        found.map(|(a, b)| (*edge, [a.name, b.name]))
    })
}
