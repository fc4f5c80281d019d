//! Builds a graph from nodes and connections.

use std::collections::{HashMap, VecDeque};

use crate::card::{Card, DROP};
use crate::graph::{Graph, Slot};
use crate::inset::{self, Insets, with_insets};
use crate::needs::{self, Missing, Needs, Ways};
use crate::node::{AnyNode, Node, Seat};
use crate::slots::{Hops, Stored};
use crate::stats::{Place, Stats};

/// Collects nodes and connections. An edge leads to the node of its name unless
/// it is connected otherwise.
///
/// ```text
///  Builder::new("ethernet_input")      the node that packets from ports enter
///      .node(EthernetInput::new(…))
///      .node(Ip4Input)                 edge "ip4_lookup" ─► node "ip4_lookup"
///      .connect("ip4_lookup", "host", "ip4_rewrite")
///      .inset("output", Mirror, &[])   while switched on: all edges to "output" lead to it first
///      .node(Drop)                     every graph has one node `drop`
///      .build(worker)?
/// ```
pub struct Builder {
    entry: &'static str,
    nodes: Vec<Box<dyn AnyNode>>,
    connections: HashMap<(&'static str, &'static str), &'static str>,
    insets: Vec<Inset>,
    dormant: Vec<&'static str>,
}

/// A node that comes before another while it is switched on.
struct Inset {
    node: &'static str,
    before: &'static str,
    but: &'static [&'static str],
}

impl Builder {
    /// A graph whose packets from ports enter at the node `entry`.
    pub fn new(entry: &'static str) -> Builder {
        Builder {
            entry,
            nodes: Vec::new(),
            connections: HashMap::new(),
            insets: Vec::new(),
            dormant: Vec::new(),
        }
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, node: impl Node + 'static) -> Builder {
        self.nodes.push(Box::new(node));
        self
    }

    /// Leads `node`'s edge `edge` to the node `to`.
    #[must_use]
    pub fn connect(mut self, node: &'static str, edge: &'static str, to: &'static str) -> Builder {
        self.connections.insert((node, edge), to);
        self
    }

    /// Adds a node that takes over all edges to the node `before`, and the way in where
    /// that is the entry, while it is switched on ([`Graph::switch`]); off it costs
    /// nothing. An edge of its own is called as `before`. Edges of the nodes `but` stay
    /// as they are. Of several before one node, the first added comes first.
    #[must_use]
    pub fn inset<N: Node + 'static>(
        mut self,
        before: &'static str,
        node: N,
        but: &'static [&'static str],
    ) -> Builder {
        self.insets.push(Inset { node: N::NAME, before, but });
        self.node(node)
    }

    /// Adds a source that is not asked until it is woken ([`Graph::wake`]): what nobody has
    /// asked for costs no call a poll.
    #[must_use]
    pub fn dormant<N: Node + 'static>(mut self, node: N) -> Builder {
        self.dormant.push(N::NAME);
        self.node(node)
    }

    /// Checks everything and makes the graph of worker number `worker`.
    ///
    /// # Errors
    /// Names what does not fit together.
    pub fn build(self, worker: usize) -> Result<Graph, Error> {
        let cards: Vec<Card> = self.nodes.iter().map(|node| node.card()).collect();
        let by_name = self.names(&cards)?;
        let find = |name| by_name.get(name).copied().ok_or(Error::NoNode { name });
        let (entry, drop_node) = (find(self.entry)?, find("drop")?);
        let next = self.edges(&cards, &by_name)?;
        let insets = self.insets(&cards, &by_name)?;
        let order = order(&cards, &with_insets(&next, &insets))?;
        let ways = Ways::new(&cards, &next, &insets, (entry, drop_node));
        let needs = ways.needs(&order).map_err(Error::of)?;
        let mut rank = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            rank[old] = new;
        }
        let mut nodes: Vec<_> = self.nodes.into_iter().map(Some).collect();
        let (mut slots, mut places, mut reasons) = (Vec::new(), Vec::new(), 0);
        for &old in &order {
            let node = nodes[old].take().expect("an order names each node once");
            let next: Vec<usize> = next[old].iter().map(|&to| rank[to]).collect();
            let seat = Seat { slot: slots.len() as u16, reasons: reasons as u16 };
            let card = (&cards[old], needs[old]);
            slots.push(slot(node, card, &next, rank[drop_node], seat));
            places.push(Place { card: cards[old], next, reasons });
            reasons += cards[old].drops.len();
        }
        let ranked = |inset: inset::Inset| inset.ranked(&rank);
        let insets = Insets::new(insets.into_iter().map(ranked).collect());
        let stats = Stats::new(places, insets, rank[entry]);
        let mut graph = Graph::new(slots, stats, rank[drop_node], worker);
        self.dormant.iter().for_each(|source| graph.lull(source));
        Ok(graph)
    }

    fn insets(
        &self,
        cards: &[Card],
        by_name: &HashMap<&'static str, usize>,
    ) -> Result<Vec<inset::Inset>, Error> {
        let find = |name: &'static str| by_name.get(name).copied().ok_or(Error::NoNode { name });
        let one = |inset: &Inset| {
            let node = find(inset.node)?;
            if !cards[node].edges.contains(&inset.before) {
                return Err(Error::NoEdge { node: inset.node, edge: inset.before });
            }
            let but = inset.but.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
            Ok(inset::Inset { node, before: find(inset.before)?, but })
        };
        self.insets.iter().map(one).collect()
    }

    fn names(&self, cards: &[Card]) -> Result<HashMap<&'static str, usize>, Error> {
        if cards.len() > MOST_NODES {
            return Err(Error::TooManyNodes { nodes: cards.len() });
        }
        let mut by_name = HashMap::new();
        for (i, card) in cards.iter().enumerate() {
            if card.edges.len() > usize::from(DROP) {
                return Err(Error::TooManyEdges { node: card.name });
            }
            if let Some((edge, [a, b])) = needs::crowded(card) {
                return Err(Error::OneSlot { node: card.name, edge, lanes: [a, b] });
            }
            if by_name.insert(card.name, i).is_some() {
                return Err(Error::Twice { node: card.name });
            }
        }
        for &(node, edge) in self.connections.keys() {
            let i = *by_name.get(node).ok_or(Error::NoNode { name: node })?;
            if !cards[i].edges.contains(&edge) {
                return Err(Error::NoEdge { node, edge });
            }
        }
        Ok(by_name)
    }

    /// For each node, where its edges lead.
    fn edges(
        &self,
        cards: &[Card],
        by_name: &HashMap<&'static str, usize>,
    ) -> Result<Vec<Vec<usize>>, Error> {
        let mut open = Vec::new();
        let mut next = Vec::new();
        for card in cards {
            let mut leads = Vec::new();
            for &edge in card.edges {
                let to = self.connections.get(&(card.name, edge)).unwrap_or(&edge);
                match by_name.get(to) {
                    Some(&to) => leads.push(to),
                    None => open.push(format!("{}.{edge}", card.name)),
                }
            }
            next.push(leads);
        }
        if open.is_empty() { Ok(next) } else { Err(Error::Unconnected { edges: open }) }
    }
}

fn slot(
    node: Box<dyn AnyNode>,
    (card, needs): (&Card, Needs),
    next: &[usize],
    drop_node: usize,
    seat: Seat,
) -> Slot {
    // Codes that the node does not have lead to `drop` too: they cannot occur,
    // because a view takes only the node's own edges.
    let mut table = [drop_node as u8; 32];
    for (entry, &to) in table.iter_mut().zip(next) {
        *entry = to as u8;
    }
    Slot {
        node,
        next: table,
        sink: card.edges.is_empty(),
        keeps: card.keeps,
        needs,
        answers: card.fills(Hops::BIT),
        seat,
        waiting: VecDeque::with_capacity(8),
    }
}

/// Nodes in topological order: Kahn's algorithm, the first added first.
fn order(cards: &[Card], next: &[Vec<usize>]) -> Result<Vec<usize>, Error> {
    let mut before = vec![0; cards.len()];
    for &to in next.iter().flatten() {
        before[to] += 1;
    }
    let mut order = Vec::new();
    let mut left: Vec<usize> = (0..cards.len()).collect();
    while let Some(at) = left.iter().position(|&i| before[i] == 0) {
        let i = left.remove(at);
        for &to in &next[i] {
            before[to] -= 1;
        }
        order.push(i);
    }
    // The drop node is reached by every node's drop edge: it has none of its own
    // and can come last.
    if let Some(at) = order.iter().position(|&i| cards[i].name == "drop") {
        let drop_node = order.remove(at);
        order.push(drop_node);
    }
    if left.is_empty() {
        return Ok(order);
    }
    Err(Error::Cycle { nodes: left.into_iter().map(|i| cards[i].name).collect() })
}

/// Most nodes of a graph.
const MOST_NODES: usize = 256;

/// Why a graph cannot be built.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that no node has.
    #[error("there is no node `{name}`")]
    NoNode {
        /// The name.
        name: &'static str,
    },
    /// A connection from an edge that the node does not have.
    #[error("node `{node}` has no edge `{edge}`")]
    NoEdge {
        /// The node.
        node: &'static str,
        /// The edge.
        edge: &'static str,
    },
    /// Two nodes of one name.
    #[error("there are two nodes `{node}`")]
    Twice {
        /// The name.
        node: &'static str,
    },
    /// Edges that lead nowhere.
    #[error("edges lead nowhere: {}", edges.join(", "))]
    Unconnected {
        /// Each as `node.edge`.
        edges: Vec<String>,
    },
    /// Packets could go round.
    #[error("packets could go round: {}", nodes.join(", "))]
    Cycle {
        /// The nodes of the cycle, and those behind it.
        nodes: Vec<&'static str>,
    },
    /// More nodes than there is room for.
    #[error("{nodes} nodes exceed {MOST_NODES}")]
    TooManyNodes {
        /// How many.
        nodes: usize,
    },
    /// More edges than there is room for.
    #[error("node `{node}` has more than 31 edges")]
    TooManyEdges {
        /// The node.
        node: &'static str,
    },
    /// A lane that a node reads is not filled on every way to it.
    #[error("node `{node}` reads lane `{lane}`, which no node fills on the way {}", way.join(", "))]
    NotFilled {
        /// The node.
        node: &'static str,
        /// The lane.
        lane: &'static str,
        /// The way, each edge as `node.edge`; empty where packets enter at the node.
        way: Vec<String>,
    },
    /// Another lane is where a lane that a node reads should be.
    #[error(
        "node `{node}` reads lane `{lane}`, and finds `{other}` in its slot on the way {}",
        way.join(", ")
    )]
    Overwritten {
        /// The node.
        node: &'static str,
        /// The lane.
        lane: &'static str,
        /// The lane of the same slot.
        other: &'static str,
        /// The way from where that was filled, each edge as `node.edge`.
        way: Vec<String>,
    },
    /// An edge carries two lanes, and there is room for one.
    #[error("the edge `{node}.{edge}` carries `{}` and `{}`, which share a slot", lanes[0], lanes[1])]
    OneSlot {
        /// The node.
        node: &'static str,
        /// The edge.
        edge: &'static str,
        /// The lanes.
        lanes: [&'static str; 2],
    },
}

impl Error {
    fn of(missing: Missing) -> Error {
        let Missing { node, lane, instead, way } = missing;
        match instead {
            Some(other) => Error::Overwritten { node, lane, other, way },
            None => Error::NotFilled { node, lane, way },
        }
    }
}
