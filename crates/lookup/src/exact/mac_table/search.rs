//! Making room: the shortest chain of entries, each moved to its other line,
//! that ends at a free slot; found breadth first.

use super::frame::{Frame, Slot, USED};
use crate::exact::lines::SLOTS;
use crate::hint::prefetch;

/// The search, kept for its memory.
///
/// I1: a line occurs at most once on the way from a node to its root, so that
/// the moves of a way do not touch each other's slots.
#[derive(Default)]
pub(super) struct Search {
    nodes: Vec<Node>,
    /// Where the entries that were moved last stand now.
    pub(super) moved: Vec<Slot>,
}

/// A line that could be given room, if the entry in `slot` of the parent came.
struct Node {
    line: usize,
    parent: usize,
    slot: usize,
}

impl Search {
    /// A slot of one of `lines` to be written: free, or its entry has moved.
    /// `None` when [`LINES`] lines around are full; nothing has moved then.
    pub(super) fn make_room(&mut self, frame: &Frame, lines: [usize; 2]) -> Option<Slot> {
        self.moved.clear();
        if let Some(slot) = lines.into_iter().find_map(|line| frame.empty(line)) {
            return Some(slot);
        }
        self.nodes.clear();
        self.nodes.extend(lines.map(|line| Node { line, parent: ROOT, slot: 0 }));
        let mut at = 0;
        while at < self.nodes.len() {
            if let Some(slot) = frame.empty(self.nodes[at].line) {
                return Some(self.shift(frame, at, slot));
            }
            if self.nodes.len() < LINES {
                self.expand(frame, at);
            }
            at += 1;
        }
        None
    }

    /// Adds the other lines of the entries of node `at`.
    fn expand(&mut self, frame: &Frame, at: usize) {
        let line = self.nodes[at].line;
        for slot in 0..SLOTS {
            let word = frame.word(Slot { line, slot });
            debug_assert!(word & USED != 0, "the line is full");
            let other = frame.other_line(line, word);
            if !self.is_above(at, other) {
                prefetch(frame.line(other));
                self.nodes.push(Node { line: other, parent: at, slot });
            }
        }
    }

    /// True when `line` is that of node `at` or of one above it.
    fn is_above(&self, mut at: usize, line: usize) -> bool {
        while at != ROOT {
            if self.nodes[at].line == line {
                return true;
            }
            at = self.nodes[at].parent;
        }
        false
    }

    /// Moves the entries on the way up from node `at`, whose `free` slot takes
    /// the first; returns the slot that the last has left.
    fn shift(&mut self, frame: &Frame, mut at: usize, mut free: Slot) -> Slot {
        while self.nodes[at].parent != ROOT {
            let Node { parent, slot, .. } = self.nodes[at];
            let from = Slot { line: self.nodes[parent].line, slot };
            frame.move_entry(from, free);
            self.moved.push(free);
            (at, free) = (parent, from);
        }
        free
    }
}

/// The parent of a root.
const ROOT: usize = usize::MAX;

/// Lines looked at for room: the two, the 16 behind them, and 128 behind those.
/// With as many a table fills to 99 %.
const LINES: usize = 2 * (1 + SLOTS + SLOTS * SLOTS);
