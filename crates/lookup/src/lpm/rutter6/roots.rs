//! Root words: a /16 has cells of its own, or shares those of all /16s with the
//! same one answer.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::X_BITS;
use super::cells::{cell, choose_bits, groups};
use super::table::{DEEP, Value};
use super::tree::{Answer, Kind, Patch, Spliced, Trees, patched, push};
use crate::lpm::flatten::Flatten;

/// The cells of all /16s with one answer.
pub(super) struct Shared {
    word: u32,
    pub(super) users: u32,
}

/// A /16 with cells of its own.
#[derive(Default)]
pub(super) struct Own {
    /// Groups that had to be divided since the bits were chosen.
    divided: u32,
}

/// A table and what is needed to change it.
///
/// - I5: root word i has cells of its own where `own` has i; else it is that of
///   `uniform[hop]`, which counts the words that share it.
/// - I6: a value that names a deeper tree occurs once, for one `x`.
pub(super) struct Rutter6<V> {
    pub(super) trees: Trees<V>,
    pub(super) uniform: HashMap<u32, Shared>,
    pub(super) own: HashMap<u32, Own>,
    pub(super) flatten: Flatten<u128>,
}

impl<V: Value> Rutter6<V> {
    pub(super) fn set_uniform(&mut self, at: u32, hop: u32) -> Option<()> {
        self.replace(at, &[(0, hop)], true)
    }

    /// Gives a /16 new answers. Those that it had may name deeper trees, which go
    /// if `deep` says so.
    pub(super) fn replace(&mut self, at: u32, answers: &[Answer], deep: bool) -> Option<()> {
        let root = at as usize;
        let old = self.trees.table.view().root_word(root).load(Ordering::Relaxed);
        let had_own = self.own.remove(&at).is_some();
        let word = match answers {
            &[(_, value)] if value & DEEP == 0 => {
                if !had_own && self.uniform_hop(old) == value {
                    return Some(());
                }
                let word = self.shared_word(value)?;
                self.uniform.get_mut(&value)?.users += 1;
                word
            }
            _ => {
                self.own.insert(at, Own::default());
                self.own_word(answers)?
            }
        };
        self.trees.table.view().root_word(root).store(word, Ordering::Release);
        if had_own {
            self.uproot_cells(old, deep);
        } else {
            self.leave_shared(self.uniform_hop(old));
        }
        self.trees.retire();
        Some(())
    }

    /// New cells for a /16.
    fn own_word(&mut self, answers: &[Answer]) -> Option<u32> {
        let bits = choose_bits::<V>(answers);
        let cells = self.trees.take_cells(bits)?;
        self.divide(cells, bits, (0, (1 << bits) - 1), answers)?;
        Some(word(cells, bits))
    }

    /// Gives cells `range` the trees of these answers.
    fn divide(
        &mut self,
        cells: u32,
        bits: u32,
        range: (u32, u32),
        answers: &[Answer],
    ) -> Option<()> {
        for group in groups::<V>(bits, range, answers) {
            let tree = self.trees.plant(&group.answers, Kind::Cell)?;
            self.store(cells, (group.first, group.last), tree);
        }
        Some(())
    }

    fn store(&self, cells: u32, (first, last): (u32, u32), tree: u32) {
        for i in first..=last {
            self.trees.table.view().cell((cells + i) as usize).store(tree, Ordering::Release);
        }
    }

    fn load(&self, cells: u32, i: u32) -> u32 {
        self.trees.table.view().cell((cells + i) as usize).load(Ordering::Relaxed)
    }

    /// The entry of the tree for `x` in the /16.
    pub(super) fn entry(&self, at: u32, x: u32) -> u32 {
        let (cells, bits) =
            cells_of(self.trees.table.view().root_word(at as usize).load(Ordering::Relaxed));
        self.load(cells, cell(x, bits))
    }

    /// Changes a part of a /16.
    pub(super) fn splice(
        &mut self,
        at: u32,
        patch: Patch<'_>,
        dropped: &mut Vec<u32>,
    ) -> Option<()> {
        let old = self.trees.table.view().root_word(at as usize).load(Ordering::Relaxed);
        let (cells, bits) = cells_of(old);
        if !self.own.contains_key(&at) {
            let mut answers = vec![(0, self.uniform_hop(old))];
            let outside = answers[0].1;
            patch.answers.iter().for_each(|&answer| push(&mut answers, answer));
            if let Some(next) = patch.last.checked_add(1) {
                push(&mut answers, (next, outside));
            }
            return self.replace(at, &answers, false);
        }
        let range = self.groups_around(cells, bits, patch);
        let entry = self.load(cells, range.0);
        let (from, to) = (range.0 << (X_BITS - bits), last_x(range.1, bits));
        let answers = if self.load(cells, range.1) != entry {
            self.join(cells, bits, range, patch, dropped)
        } else {
            match self.trees.splice(entry, (from, to), patch, Kind::Cell, dropped)? {
                Spliced::Same => return Some(()),
                Spliced::Tree(tree) => {
                    self.store(cells, range, tree);
                    return Some(());
                }
                Spliced::Overflow(answers) => answers,
            }
        };
        self.divide(cells, bits, range, &answers)?;
        self.trees.retire();
        self.widen(at, cells, bits)
    }

    /// All answers of several groups, with the patch in them; uproots the groups.
    fn join(
        &mut self,
        cells: u32,
        bits: u32,
        range: (u32, u32),
        patch: Patch<'_>,
        dropped: &mut Vec<u32>,
    ) -> Vec<Answer> {
        let mut all = self.harvest(cells, bits, range, true);
        let touched = |x| x >= patch.first && x <= patch.last;
        let gone = all.iter().filter(|&&(x, value)| touched(x) && value & DEEP != 0);
        dropped.extend(gone.map(|&(_, value)| value));
        let mut joined = Vec::new();
        patched(&all, patch, last_x(range.1, bits), &mut joined);
        all.clear();
        joined
    }

    /// The answers of cells `range`, whole groups.
    fn harvest(
        &mut self,
        cells: u32,
        bits: u32,
        (first, last): (u32, u32),
        uproot: bool,
    ) -> Vec<Answer> {
        let (mut answers, mut next) = (Vec::new(), first);
        while next <= last {
            let (entry, from) = (self.load(cells, next), next);
            while next <= last && self.load(cells, next) == entry {
                next += 1;
            }
            let range = (from << (X_BITS - bits), last_x(next - 1, bits));
            self.trees.harvest(entry, range, &mut answers);
            if uproot {
                self.trees.uproot(entry);
            }
        }
        answers
    }

    /// The cells of the groups that the patch lies in.
    fn groups_around(&self, cells: u32, bits: u32, patch: Patch<'_>) -> (u32, u32) {
        let (mut first, mut last) = (cell(patch.first, bits), cell(patch.last, bits));
        let (low, high) = (self.load(cells, first), self.load(cells, last));
        while first > 0 && self.load(cells, first - 1) == low {
            first -= 1;
        }
        while last + 1 < 1 << bits && self.load(cells, last + 1) == high {
            last += 1;
        }
        (first, last)
    }

    /// After a division: chooses the bits of the /16 anew when there were many.
    fn widen(&mut self, at: u32, cells: u32, bits: u32) -> Option<()> {
        let own = self.own.get_mut(&at)?;
        own.divided += 1;
        if own.divided < DIVISIONS + (1 << bits) / 4 {
            return Some(());
        }
        let all = self.harvest(cells, bits, (0, (1 << bits) - 1), false);
        self.replace(at, &all, false)
    }

    /// Retires the cells of a root word, and their trees.
    fn uproot_cells(&mut self, word: u32, deep: bool) {
        let (cells, bits) = cells_of(word);
        let answers = self.harvest(cells, bits, (0, (1 << bits) - 1), true);
        if deep {
            let deep = answers.iter().map(|&(_, value)| value).filter(|value| value & DEEP != 0);
            self.drop_deep(&deep.collect::<Vec<_>>());
        }
        self.trees.discard_cells(cells, bits);
    }

    /// The root word of /16s that have this one answer.
    pub(super) fn shared_word(&mut self, hop: u32) -> Option<u32> {
        if let Some(shared) = self.uniform.get(&hop) {
            return Some(shared.word);
        }
        let bits = 1;
        let cells = self.trees.take_cells(bits)?;
        let tree = self.trees.plant(&[(0, hop)], Kind::Cell)?;
        self.store(cells, (0, 1), tree);
        self.uniform.insert(hop, Shared { word: word(cells, bits), users: 0 });
        Some(word(cells, bits))
    }

    /// The answer of a shared root word.
    fn uniform_hop(&self, word: u32) -> u32 {
        let (cells, _) = cells_of(word);
        self.trees.table.view().value(self.load(cells, 0), 0)
    }

    fn leave_shared(&mut self, hop: u32) {
        let shared = self.uniform.get_mut(&hop).expect("I5: it was shared");
        shared.users -= 1;
        if shared.users == 0 && hop != 0 {
            let word = shared.word;
            self.uniform.remove(&hop);
            self.uproot_cells(word, false);
        }
    }
}

fn word(cells: u32, bits: u32) -> u32 {
    cells << 6 | (64 - bits)
}

fn cells_of(word: u32) -> (u32, u32) {
    (word >> 6, 64 - word % 64)
}

/// The last `x` of a cell.
fn last_x(cell: u32, bits: u32) -> u32 {
    (cell << (X_BITS - bits)) | (u32::MAX >> bits)
}

/// Divided groups after which a /16 of two cells is laid out anew. With 4 it would be
/// when both cells have a node above the plain one already, and each lookup its read.
const DIVISIONS: u32 = 2;
