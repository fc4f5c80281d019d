//! From the routes to the nodes of an LC-trie.

use super::{MAX_BRANCH, Node, window, words_of};
use crate::{Addr, Hop, Prefix, Rib};

/// A route as the table holds it.
pub(super) struct Route<A> {
    prefix: Prefix<A>,
    hop: Hop,
    up: u32,
}

impl<A: Addr> Route<A> {
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + use<A> {
        let (addr, len) = (self.prefix.first().to_u128(), u64::from(self.prefix.len()));
        let (hop, up) = (u64::from(self.hop.0), u64::from(self.up));
        let words = if A::WIDTH == 32 {
            [addr as u64 | hop << 32, up | len << 32, 0, 0]
        } else {
            [(addr >> 64) as u64, addr as u64, hop | up << 32, len]
        };
        words.into_iter().take(words_of::<A>())
    }
}

/// The routes, by address, then length, and which of them have none inside:
/// the strings that the trie tells apart.
pub(super) struct Builder<A> {
    pub(super) routes: Vec<Route<A>>,
    leaves: Vec<u32>,
    fill: f64,
    root: u8,
}

/// A node to be built: the leaves below, and the bits that they share.
struct Task {
    node: usize,
    first: usize,
    count: usize,
    from: u8,
}

impl<A: Addr> Builder<A> {
    pub(super) fn new(rib: &Rib<A>, fill: f64, root: u8) -> Self {
        let nothing = Route { prefix: Prefix::all(), hop: Hop::NONE, up: 0 };
        let (mut routes, mut around) = (vec![nothing], vec![0_u32]);
        let mut leaves = Vec::new();
        for (prefix, hop) in rib.iter().filter(|(prefix, _)| prefix.len() > 0) {
            while !routes[around[around.len() - 1] as usize].prefix.covers(&prefix) {
                around.pop(); // never route 0: it covers every prefix
            }
            let (number, up) = (routes.len() as u32, around[around.len() - 1]);
            leaves.pop_if(|last| *last == up); // it has one inside
            leaves.push(number);
            routes.push(Route { prefix, hop, up });
            around.push(number);
        }
        Builder { routes, leaves, fill, root }
    }

    /// All nodes; `None` where a place would not fit.
    pub(super) fn grow(&self) -> Option<Vec<u64>> {
        let mut nodes = vec![Node::new(0, 0, 0).0];
        let mut tasks = Vec::new();
        if !self.leaves.is_empty() {
            tasks.push(Task { node: 0, first: 0, count: self.leaves.len(), from: 0 });
        }
        while let Some(task) = tasks.pop() {
            if task.count == 1 {
                nodes[task.node] = Node::new(self.leaves[task.first] as usize, 0, 0).0;
                continue;
            }
            let last = self.leaf(task.first + task.count - 1).first();
            let shared = self.leaf(task.first).first().common(last);
            let branch = self.branch(&task, shared);
            let place = nodes.len();
            u32::try_from(place + (1 << branch)).ok()?;
            nodes[task.node] = Node::new(place, shared - task.from, branch).0;
            nodes.resize(place + (1 << branch), 0);
            self.children(&task, shared, branch, place, &mut nodes, &mut tasks);
        }
        Some(nodes)
    }

    fn children(
        &self,
        task: &Task,
        from: u8,
        branch: u8,
        place: usize,
        nodes: &mut [u64],
        tasks: &mut Vec<Task>,
    ) {
        let (mut next, end) = (task.first, task.first + task.count);
        for slot in 0..1_usize << branch {
            let bits = |i: usize| window(self.leaf(i).first(), from, branch);
            let first = next;
            while next < end && bits(next) == slot {
                next += 1;
            }
            let (node, count, below) = (place + slot, next - first, from + branch);
            if count > 0 {
                tasks.push(Task { node, first, count, from: below });
                continue;
            }
            // What covers the slot is a leaf beside it, or around one.
            let shift = A::WIDTH - below;
            let start = self.leaf(task.first).first().and(A::mask(from));
            let start = start.or(A::from_u128((slot as u128) << shift));
            let around = Prefix::covering(start, below);
            let before = (first > task.first).then(|| self.covering(first - 1, around));
            let after = (first < end).then(|| self.covering(first, around));
            let by_len = |route: &u32| self.routes[*route as usize].prefix.len();
            let route = before.into_iter().chain(after).max_by_key(by_len).unwrap_or(0);
            nodes[node] = Node::new(route as usize, 0, 0).0;
        }
    }

    /// The longest route that is leaf `i` or around it, and covers `slot`.
    fn covering(&self, i: usize, slot: Prefix<A>) -> u32 {
        let mut at = self.leaves[i];
        while !self.routes[at as usize].prefix.covers(&slot) {
            at = self.routes[at as usize].up; // ends: route 0 covers everything
        }
        at
    }

    /// The most bits, after the first `from`, of which enough values occur.
    fn branch(&self, task: &Task, from: u8) -> u8 {
        let most = A::WIDTH - from;
        if task.node == 0 {
            // Of a small table it would be all but empty.
            let four_a_leaf = self.leaves.len().ilog2() as u8 + 2;
            return self.root.min(four_a_leaf).min(most);
        }
        let mut branch = 1;
        while branch < most.min(MAX_BRANCH) {
            let enough = self.fill * f64::from(1 << (branch + 1));
            if (task.count as f64) < enough || (self.values(task, from, branch + 1) as f64) < enough
            {
                break;
            }
            branch += 1;
        }
        branch
    }

    /// How many values the `branch` bits after the first `from` have.
    fn values(&self, task: &Task, from: u8, branch: u8) -> usize {
        let leaves = task.first..task.first + task.count;
        let mut values: Vec<_> =
            leaves.map(|i| window(self.leaf(i).first(), from, branch)).collect();
        values.dedup(); // they ascend
        values.len()
    }

    fn leaf(&self, i: usize) -> Prefix<A> {
        self.routes[self.leaves[i] as usize].prefix
    }
}
