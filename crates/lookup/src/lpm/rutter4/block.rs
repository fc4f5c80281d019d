//! A block under construction: the records of a /13 (wide: /14) on as few lines
//! as they fit, a record of up to a line on one.

use super::REST_BITS;
use super::record::Painted;
use super::table::{DEEP_WORDS, LINE_BITS, PLACE, Table, Value};
use crate::Hop;

/// Memory that is kept from one block to the next.
pub(super) struct Draft {
    entries: Vec<u32>,
    /// Records one after the other, before they have places.
    bodies: Vec<u32>,
    spans: Vec<Span>,
    /// Deep records, by lines; places in values count from the first of them.
    deep: Vec<u32>,
    /// Cells in use of each line.
    used: Vec<usize>,
    cells: Vec<u32>,
    painted: Painted,
}

/// The record of one entry, in `bodies`.
#[derive(Clone, Copy)]
struct Span {
    entry: usize,
    start: usize,
    len: usize,
}

impl Draft {
    pub(super) fn new() -> Self {
        Draft {
            entries: Vec::new(),
            bodies: Vec::new(),
            spans: Vec::new(),
            deep: Vec::new(),
            used: Vec::new(),
            cells: Vec::new(),
            painted: Painted::new(),
        }
    }

    /// Begins another block: entries are added from the first to the last.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bodies.clear();
        self.spans.clear();
        self.deep.clear();
    }

    /// Adds entries up to the one that holds `last`, from all intervals that
    /// start in them; `outside` holds before the first. The hop at the end.
    pub(super) fn paint<V: Value>(
        &mut self,
        first: u32,
        last: u32,
        mut intervals: &[(u32, Hop)],
        mut outside: u32,
    ) -> u32 {
        for number in first >> REST_BITS..=last >> REST_BITS {
            let here = intervals.partition_point(|&(start, _)| start >> REST_BITS <= number);
            let (of_entry, rest) = intervals.split_at(here);
            let start = of_entry.first().map_or(0, |&(start, _)| start);
            match of_entry {
                [] => self.entries.push(outside),
                [(_, hop)] if start << (32 - REST_BITS) == 0 => self.entries.push(hop.0),
                _ => self.record::<V>(of_entry, outside),
            }
            outside = of_entry.last().map_or(outside, |&(_, hop)| hop.0);
            intervals = rest;
        }
        outside
    }

    fn record<V: Value>(&mut self, intervals: &[(u32, Hop)], outside: u32) {
        self.painted.paint(intervals, outside);
        if let Some(hop) = self.painted.uniform() {
            return self.entries.push(hop);
        }
        let start = self.bodies.len();
        self.painted.encode::<V>(&mut self.bodies, &mut self.deep);
        self.add_span(start);
    }

    fn add_span(&mut self, start: usize) {
        let entry = self.entries.len();
        self.spans.push(Span { entry, start, len: self.bodies.len() - start });
        self.entries.push(PLACE);
    }

    /// Adds entries `which` of a block of the table as they are.
    pub(super) fn copy<V: Value>(
        &mut self,
        table: &Table<V>,
        block: u32,
        which: std::ops::Range<usize>,
    ) {
        for entry in which.map(|i| table.view().cell(block + i as u32)) {
            if entry & PLACE == 0 {
                self.entries.push(entry);
            } else {
                self.copy_record(table, block, block + (entry & !PLACE));
            }
        }
    }

    fn copy_record<V: Value>(&mut self, table: &Table<V>, block: u32, at: u32) {
        let start = self.bodies.len();
        let maps = V::MAP_CELLS as u32;
        let len = maps + table.view().map(at).count_ones() + 1;
        self.bodies.extend((at..at + len).map(|at| table.view().cell(at)));
        for i in start + V::MAP_CELLS..self.bodies.len() {
            if self.bodies[i] & PLACE == 0 {
                continue;
            }
            let lines = (self.deep.len() / V::ENTRIES) as u32;
            let at = block + (self.bodies[i] & !PLACE) * V::ENTRIES as u32;
            let ones = (0..DEEP_WORDS).map(|word| table.view().map(at + word * maps).count_ones());
            let len = DEEP_WORDS * maps + ones.sum::<u32>() + 1;
            self.deep.extend((at..at + len).map(|at| table.view().cell(at)));
            self.deep.resize(self.deep.len().next_multiple_of(V::ENTRIES), 0);
            self.bodies[i] = PLACE | lines;
        }
        self.add_span(start);
    }

    /// The hop that all entries have, if they do.
    pub(super) fn uniform(&self) -> Option<u32> {
        let first = self.entries[0];
        (first & PLACE == 0 && self.entries.iter().all(|&entry| entry == first)).then_some(first)
    }

    /// The only entry so far and its record, empty for a hop; `None` where it leads
    /// to deep records.
    pub(super) fn only(&self) -> Option<(u32, &[u32])> {
        debug_assert_eq!(self.entries.len(), 1);
        self.deep.is_empty().then_some((self.entries[0], &self.bodies))
    }

    /// The cells of the block, whole lines.
    pub(super) fn finish<V: Value>(&mut self) -> &[u32] {
        let line = V::ENTRIES;
        debug_assert_eq!((self.entries.len(), LINE_BITS), (line, line * V::WIDTH as usize));
        // The longest first, each into the first line with room for it.
        self.spans.sort_unstable_by_key(|span| std::cmp::Reverse(span.len));
        self.used.clear();
        self.used.push(line);
        for span in &self.spans {
            let len = span.len;
            let fits = self.used.iter().position(|&used| used + len <= line);
            let at = fits.unwrap_or(self.used.len());
            if fits.is_none() {
                self.used.resize(at + len.div_ceil(line), line);
                self.used[at + (len - 1) / line] = 0;
            }
            let at_cell = at * line + if fits.is_some() { self.used[at] } else { 0 };
            let last = at + (len - 1) / line;
            self.used[last] += (len - 1) % line + 1;
            self.entries[span.entry] = PLACE | at_cell as u32;
        }
        self.assemble::<V>()
    }

    fn assemble<V: Value>(&mut self) -> &[u32] {
        let lines = self.used.len();
        self.cells.clear();
        self.cells.extend_from_slice(&self.entries);
        self.cells.resize(lines * V::ENTRIES, 0);
        for span in &self.spans {
            let at = (self.entries[span.entry] & !PLACE) as usize;
            let body = &mut self.bodies[span.start..span.start + span.len];
            if !self.deep.is_empty() {
                for value in body[V::MAP_CELLS..].iter_mut().filter(|value| **value & PLACE != 0) {
                    *value += lines as u32;
                }
            }
            self.cells[at..at + span.len].copy_from_slice(body);
        }
        self.cells.extend_from_slice(&self.deep);
        &self.cells
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let cells = self.entries.capacity()
            + self.bodies.capacity()
            + self.deep.capacity()
            + self.cells.capacity();
        cells * 4 + self.spans.capacity() * size_of::<Span>() + self.used.capacity() * 8
    }
}
