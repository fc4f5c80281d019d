//! Trees as the writer sees them: made from answers, taken apart, and changed
//! by copying the path to what changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::table::{CELL_UNIT, DEEP, Spaces, Table, Value};
use super::{LINE, SEPARATORS, SIGN, SUPER};
use crate::lpm::space::Space;

/// From this `x` on, up to the next answer, a value.
pub(super) type Answer = (u32, u32);

/// The words of a unit that is still private.
type Words = [u32; 16];

/// The table, and what of its arrays is in use.
pub(super) struct Trees<V> {
    pub(super) table: Arc<Table<V>>,
    pub(super) spaces: Spaces,
    /// Replaced, and to be retired when the replacement is published.
    old: Vec<Old>,
    /// Units in use.
    pub(super) live: usize,
    /// For one change after the other.
    before: Vec<Answer>,
    after: Vec<Answer>,
}

enum Old {
    Cells(u32, u32),
    Units(u32, u32),
    Deep(u32),
}

/// Where a tree hangs.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// At a cell. A node comes first, so that keys need no test of it.
    Cell,
    /// At a value. Most of these have few answers, and are a line alone.
    Deep,
}

impl Kind {
    const fn least_height(self) -> u32 {
        match self {
            Kind::Cell => 1,
            Kind::Deep => 0,
        }
    }
}

/// What a change of a tree comes to.
pub(super) enum Spliced {
    /// All answers are as before.
    Same,
    /// The changed tree.
    Tree(u32),
    /// More answers than the tree's height allows: all of them.
    Overflow(Vec<Answer>),
}

/// A range of `x`, and what it is to answer.
#[derive(Clone, Copy)]
pub(super) struct Patch<'a> {
    pub(super) first: u32,
    pub(super) last: u32,
    /// The first one at `first`.
    pub(super) answers: &'a [Answer],
}

/// One node on the way down to what changes, and which child leads on.
struct Stop {
    words: Words,
    /// The first `x` and the last.
    range: (u32, u32),
    child: usize,
}

impl<V: Value> Trees<V> {
    pub(super) fn new(table: Table<V>, spaces: Spaces) -> Self {
        let (before, after) = (Vec::new(), Vec::new());
        Trees { table: Arc::new(table), spaces, old: Vec::new(), live: 0, before, after }
    }

    /// Answers that a tree of `height` has room for; of height 0: a line.
    pub(super) const fn room(height: u32) -> usize {
        (V::KEYS + 1) << (4 * height)
    }

    /// The tree of these answers; `None` when the arena is full.
    pub(super) fn plant(&mut self, answers: &[Answer], kind: Kind) -> Option<u32> {
        let mut height = kind.least_height();
        while answers.len() > Self::room(height) {
            height += 1;
        }
        let words = match height {
            0 => line::<V>(answers),
            _ => self.node(answers, height, false)?,
        };
        self.root(&words, height)
    }

    /// A published tree's first unit.
    fn root(&mut self, words: &Words, height: u32) -> Option<u32> {
        let unit = self.take(1)?;
        self.write(unit, words);
        let flag = match height {
            0 => LINE,
            1 => 0,
            _ => SUPER,
        };
        Some(unit | flag)
    }

    /// A node and all below it. `loose` leaves room in the lines for more.
    fn node(&mut self, answers: &[Answer], height: u32, loose: bool) -> Option<Words> {
        let room = Self::room(height - 1);
        // Nodes are never packed: a full one would be rebuilt at the next change.
        let fill = if loose || height > 1 { room - room / 4 } else { room };
        let children = answers.len().div_ceil(fill).min(FANOUT);
        let block = self.take(children as u32)?;
        let mut words = [NO_KEY; 16];
        for i in 0..children {
            let part = answers.len() * i / children..answers.len() * (i + 1) / children;
            if i > 0 {
                words[i - 1] = key_before(answers[part.start].0);
            }
            let part = &answers[part];
            let child =
                if height == 1 { line::<V>(part) } else { self.node(part, height - 1, loose)? };
            self.write(block + i as u32, &child);
        }
        words[SEPARATORS] = block | if height > 2 { SUPER } else { 0 };
        Some(words)
    }

    /// Appends the answers of the tree of `entry`, which covers `range`.
    pub(super) fn harvest(&self, entry: u32, range: (u32, u32), answers: &mut Vec<Answer>) {
        if entry & LINE != 0 {
            return self.harvest_line(entry, range.0, answers);
        }
        self.harvest_node(&self.read(entry), entry & SUPER == 0, range, answers);
    }

    fn harvest_node(&self, words: &Words, plain: bool, range: (u32, u32), to: &mut Vec<Answer>) {
        for child in 0..children(words) {
            let range = child_range(words, range, child);
            let entry = words[SEPARATORS] + child as u32;
            if plain {
                self.harvest_line(entry, range.0, to);
            } else {
                self.harvest_node(&self.read(entry), entry & SUPER == 0, range, to);
            }
        }
    }

    fn harvest_line(&self, entry: u32, first: u32, to: &mut Vec<Answer>) {
        let unit = self.table.view().unit(entry);
        let mut start = first;
        for i in 0..=V::KEYS {
            push(to, (start, V::widen(V::raw(unit, i))));
            match unit[i].load(Ordering::Relaxed) {
                key if i < V::KEYS && key != NO_KEY => start = behind(key),
                _ => break,
            }
        }
    }

    /// Changes the tree of `entry`, which covers `range`, as `patch` says. Values
    /// that name deeper trees and go are added to `dropped`.
    ///
    /// The least subtree around the patch is made anew, with the path to it.
    pub(super) fn splice(
        &mut self,
        entry: u32,
        range: (u32, u32),
        patch: Patch<'_>,
        kind: Kind,
        dropped: &mut Vec<u32>,
    ) -> Option<Spliced> {
        let mut path = self.path(entry, range, patch);
        let heights = self.height(entry);
        let (mut before, mut after) =
            (std::mem::take(&mut self.before), std::mem::take(&mut self.after));
        // Height of what the path's last node chose: 0 is a line.
        let mut height = heights - path.len() as u32;
        let mut done = None;
        loop {
            before.clear();
            let (least, range) = reached(entry, range, &path);
            match height {
                0 => self.harvest_line(least, range.0, &mut before),
                _ => self.harvest(least, range, &mut before),
            }
            patched(&before, patch, range.1, &mut after);
            if before == after {
                done = Some(Spliced::Same);
                break;
            }
            if after.len() <= Self::room(height) {
                break;
            }
            if path.pop().is_none() {
                done = Some(Spliced::Overflow(after.clone()));
                break;
            }
            height += 1;
        }
        if !matches!(done, Some(Spliced::Same)) {
            let gone = before
                .iter()
                .filter(|&&(x, value)| value & DEEP != 0 && x >= patch.first && x <= patch.last);
            dropped.extend(gone.map(|&(_, value)| value));
        }
        let fits = after.len() <= Self::room(kind.least_height());
        let done = match done {
            Some(Spliced::Overflow(all)) => {
                self.uproot(entry);
                Some(Spliced::Overflow(all))
            }
            Some(done) => Some(done),
            // The whole tree, and lower than before.
            None if height > kind.least_height() && path.is_empty() && fits => {
                self.uproot(entry);
                self.plant(&after, kind).map(Spliced::Tree)
            }
            None => self.regrow(entry, path, height, &after).map(Spliced::Tree),
        };
        (self.before, self.after) = (before, after);
        done
    }

    /// The way from the root of `entry` to the least subtree around the patch.
    fn path(&self, entry: u32, range: (u32, u32), patch: Patch<'_>) -> Vec<Stop> {
        let mut path = Vec::new();
        let (mut entry, mut range) = (entry, range);
        if entry & LINE != 0 {
            return path;
        }
        loop {
            let words = self.read(entry);
            let before = |&&key: &&u32| key != NO_KEY && behind(key) <= patch.first;
            let child = words[..SEPARATORS].iter().filter(before).count();
            let within = child_range(&words, range, child);
            if within.1 < patch.last {
                return path;
            }
            let plain = entry & SUPER == 0;
            entry = words[SEPARATORS] + child as u32;
            path.push(Stop { words, range, child });
            range = within;
            if plain {
                return path;
            }
        }
    }

    /// The tree with `answers` instead of what `path` leads to.
    fn regrow(
        &mut self,
        entry: u32,
        mut path: Vec<Stop>,
        height: u32,
        answers: &[Answer],
    ) -> Option<u32> {
        let mut words =
            if height == 0 { line::<V>(answers) } else { self.node(answers, height, true)? };
        if height > 0 {
            let (at, _) = reached(entry, (0, 0), &path);
            self.uproot_below(&self.read(at), at & SUPER == 0);
        }
        let heights = height + path.len() as u32;
        while let Some(stop) = path.pop() {
            let (first, count) = (stop.words[SEPARATORS], children(&stop.words) as u32);
            let block = self.take(count)?;
            for i in 0..count {
                let same = self.read(first + i);
                self.write(block + i, if i == stop.child as u32 { &words } else { &same });
            }
            self.discard(first, count);
            words = stop.words;
            words[SEPARATORS] = block | first & SUPER;
        }
        self.discard(entry, 1);
        self.root(&words, heights)
    }

    /// Retires a whole tree, when the next change is published.
    pub(super) fn uproot(&mut self, entry: u32) {
        if entry & LINE == 0 {
            self.uproot_below(&self.read(entry), entry & SUPER == 0);
        }
        self.discard(entry, 1);
    }

    fn uproot_below(&mut self, words: &Words, plain: bool) {
        let (first, count) = (words[SEPARATORS], children(words) as u32);
        if !plain {
            for child in first..first + count {
                self.uproot_below(&self.read(child), child & SUPER == 0);
            }
        }
        self.discard(first, count);
    }

    /// Retires the deeper tree that `value` names, and those below it.
    pub(super) fn uproot_deep(&mut self, value: u32) {
        let entry = self.table.view().deep(value).load(Ordering::Relaxed);
        let mut answers = Vec::new();
        self.harvest(entry, (0, u32::MAX), &mut answers);
        answers.iter().filter(|(_, v)| v & DEEP != 0).for_each(|&(_, v)| self.uproot_deep(v));
        self.uproot(entry);
        self.old.push(Old::Deep(value & !DEEP));
    }

    /// Steps from a tree's root to its lines.
    fn height(&self, mut entry: u32) -> u32 {
        if entry & LINE != 0 {
            return 0;
        }
        let mut height = 1;
        while entry & SUPER != 0 {
            entry = self.table.view().unit(entry)[SEPARATORS].load(Ordering::Relaxed);
            height += 1;
        }
        height
    }

    /// Room for 2^`bits` cells; the number of the first.
    pub(super) fn take_cells(&mut self, bits: u32) -> Option<u32> {
        Some(self.spaces.cells.take(cell_units(bits))? * CELL_UNIT as u32)
    }

    pub(super) fn discard_cells(&mut self, at: u32, bits: u32) {
        self.old.push(Old::Cells(at / CELL_UNIT as u32, cell_units(bits)));
    }

    fn take(&mut self, units: u32) -> Option<u32> {
        self.live += units as usize;
        self.spaces.units.take(units)
    }

    fn discard(&mut self, entry: u32, units: u32) {
        self.live -= units as usize;
        self.old.push(Old::Units(entry & !(SUPER | LINE), units));
    }

    /// To be called when what replaces it is published.
    pub(super) fn retire(&mut self) {
        for old in self.old.drain(..) {
            match old {
                Old::Cells(at, units) => self.spaces.cells.retire(at, units),
                Old::Units(at, units) => self.spaces.units.retire(at, units),
                Old::Deep(number) => self.spaces.deep.retire(number, 1),
            }
        }
    }

    fn read(&self, entry: u32) -> Words {
        let unit = self.table.view().unit(entry);
        std::array::from_fn(|i| unit[i].load(Ordering::Relaxed))
    }

    fn write(&self, unit: u32, words: &Words) {
        for (place, &word) in self.table.view().unit(unit).iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// True where the machine had no memory for one of the arrays to grow.
    pub(super) fn lacks_memory(&self) -> bool {
        let Spaces { cells, units, deep } = &self.spaces;
        [cells, units, deep].into_iter().any(Space::lacks_memory)
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.before.capacity() + self.after.capacity();
        self.spaces.cells.bytes()
            + self.spaces.units.bytes()
            + self.spaces.deep.bytes()
            + lists * size_of::<Answer>()
            + self.old.capacity() * size_of::<Old>()
    }
}

/// The key between what starts at `start` and what comes before.
fn key_before(start: u32) -> u32 {
    (start - 1) ^ SIGN
}

/// Where begins what comes behind `key`.
fn behind(key: u32) -> u32 {
    (key ^ SIGN) + 1
}

/// A line of these answers; the first holds from wherever the line starts.
fn line<V: Value>(answers: &[Answer]) -> Words {
    let mut words = [0; 16];
    words[..V::KEYS].fill(NO_KEY);
    for (i, &(start, value)) in answers.iter().enumerate() {
        if i > 0 {
            words[i - 1] = key_before(start);
        }
        V::put(&mut words, i, value);
    }
    words
}

/// Adds an answer, unless it goes on with the one before; a later word about the
/// same `x` counts.
pub(super) fn push(answers: &mut Vec<Answer>, (start, value): Answer) {
    answers.pop_if(|last| last.0 == start);
    if answers.last().is_none_or(|&(_, before)| before != value) {
        answers.push((start, value));
    }
}

/// What `path` leads to from the tree of `entry`, which covers `range`.
fn reached(entry: u32, range: (u32, u32), path: &[Stop]) -> (u32, (u32, u32)) {
    let Some(stop) = path.last() else { return (entry, range) };
    let range = child_range(&stop.words, stop.range, stop.child);
    (stop.words[SEPARATORS] + stop.child as u32, range)
}

/// `before`, which ends at `end`, with the patch in it.
pub(super) fn patched(before: &[Answer], patch: Patch<'_>, end: u32, after: &mut Vec<Answer>) {
    after.clear();
    let head = before.partition_point(|&(start, _)| start < patch.first);
    after.extend_from_slice(&before[..head]);
    patch.answers.iter().for_each(|&answer| push(after, answer));
    let tail = before.partition_point(|&(start, _)| start <= patch.last);
    if patch.last < end && before.get(tail).is_none_or(|&(start, _)| start > patch.last + 1) {
        push(after, (patch.last + 1, before[tail - 1].1));
    }
    before[tail..].iter().for_each(|&answer| push(after, answer));
}

/// Children of a node: I4: its separators ascend, then come the largest numbers.
fn children(words: &Words) -> usize {
    words[..SEPARATORS].iter().take_while(|&&key| key != NO_KEY).count() + 1
}

fn child_range(words: &Words, (first, last): (u32, u32), child: usize) -> (u32, u32) {
    let from = if child == 0 { first } else { behind(words[child - 1]) };
    let to = if child + 1 < children(words) { behind(words[child]) - 1 } else { last };
    (from, to)
}

fn cell_units(bits: u32) -> u32 {
    (1_u32 << bits).div_ceil(CELL_UNIT as u32)
}

/// Behind the last key: the largest number, which no key is.
const NO_KEY: u32 = u32::MAX ^ SIGN;

const FANOUT: usize = SEPARATORS + 1;
