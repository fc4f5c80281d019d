//! Making room in a table of two buckets a key: the shortest chain of entries,
//! each moved to its other bucket, that ends at a free slot; found breadth first.

/// A table whose entries stand in one of two buckets.
pub(super) trait Buckets {
    /// Entries in a bucket.
    const SLOTS: usize;
    /// Buckets looked at before the search gives up.
    const MOST: usize;

    /// A slot of `bucket` without an entry.
    fn empty(&self, bucket: usize) -> Option<Slot>;

    /// The other bucket of the entry at `slot`.
    fn other(&self, slot: Slot) -> usize;

    /// Asks for the memory of `bucket`.
    fn ask(&self, bucket: usize);

    /// Copies the entry at `from` to `to`, which is free and lies in its other
    /// bucket; `from` will be overwritten next.
    fn move_entry(&mut self, from: Slot, to: Slot);
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Slot {
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

/// The search, kept for its memory.
///
/// I1: a bucket occurs at most once on the way from a node to its root, so that
/// the moves of a way do not touch each other's slots.
#[derive(Default)]
pub(super) struct Search {
    nodes: Vec<Node>,
    /// Where the entries that were moved last stand now.
    pub(super) moved: Vec<Slot>,
}

/// A bucket that could be given room, if the entry in `slot` of the parent came.
struct Node {
    bucket: usize,
    parent: usize,
    slot: usize,
}

impl Search {
    /// A slot of one of `roots` to be written: free, or its entry has moved.
    /// `None` when the [`Buckets::MOST`] buckets around are full; nothing has moved
    /// then.
    pub(super) fn make_room<B: Buckets>(
        &mut self,
        table: &mut B,
        roots: [usize; 2],
    ) -> Option<Slot> {
        self.moved.clear();
        if let Some(slot) = roots.into_iter().find_map(|bucket| table.empty(bucket)) {
            return Some(slot);
        }
        self.nodes.clear();
        self.nodes.extend(roots.map(|bucket| Node { bucket, parent: ROOT, slot: 0 }));
        let mut at = 0;
        while at < self.nodes.len() {
            if let Some(slot) = table.empty(self.nodes[at].bucket) {
                return Some(self.shift(table, at, slot));
            }
            if self.nodes.len() + B::SLOTS <= B::MOST {
                self.expand(table, at);
            }
            at += 1;
        }
        None
    }

    /// Adds the other buckets of the entries of node `at`.
    fn expand<B: Buckets>(&mut self, table: &B, at: usize) {
        let bucket = self.nodes[at].bucket;
        for slot in 0..B::SLOTS {
            let other = table.other(Slot { bucket, slot });
            if !self.is_above(at, other) {
                table.ask(other);
                self.nodes.push(Node { bucket: other, parent: at, slot });
            }
        }
    }

    /// True when `bucket` is that of node `at` or of one above it.
    fn is_above(&self, mut at: usize, bucket: usize) -> bool {
        while at != ROOT {
            if self.nodes[at].bucket == bucket {
                return true;
            }
            at = self.nodes[at].parent;
        }
        false
    }

    /// Moves the entries on the way up from node `at`, whose `free` slot takes
    /// the first; returns the slot that the last has left.
    fn shift<B: Buckets>(&mut self, table: &mut B, mut at: usize, mut free: Slot) -> Slot {
        while self.nodes[at].parent != ROOT {
            let Node { parent, slot, .. } = self.nodes[at];
            let from = Slot { bucket: self.nodes[parent].bucket, slot };
            table.move_entry(from, free);
            self.moved.push(free);
            (at, free) = (parent, from);
        }
        free
    }
}

/// The parent of a root.
const ROOT: usize = usize::MAX;
