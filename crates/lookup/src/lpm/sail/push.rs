//! The writer of pushed levels: a prefix is pushed to the next level and owns the
//! cells there that no longer prefix does; a cell that holds longer ones is a
//! chunk a level below.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::accesses::{Accesses, words};
use super::levels::{CELLS, CHUNK, Cell, Levels};
use super::owned::{gaps, holds_longer, owner};
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::scale::Scale;
use crate::lpm::space::Space;
use crate::lpm::{Applied, Card, Lpm, Refusal, Writer};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

pub(super) struct Pusher<A: Addr, C: Cell, const ROOT: u8> {
    card: &'static Card,
    table: Arc<Levels<A, C, ROOT>>,
    /// Of chunks below the root, and deeper ones; counted in lines.
    spaces: [Space; 2],
}

/// This of the spaces has no chunk left.
struct Full(usize);

/// The cells that an address is looked up in next: of the root and its level, or of a
/// chunk and the level of its parent.
#[derive(Clone, Copy)]
enum Node {
    Root(u8),
    Mid(u32, u8),
    Deep(u32, u8),
}

impl Node {
    /// Bits of an address before its cell's.
    fn from(self) -> u8 {
        match self {
            Node::Root(_) => 0,
            Node::Mid(_, from) | Node::Deep(_, from) => from,
        }
    }

    /// The length of the prefix that a cell stands for.
    fn level(self) -> u8 {
        match self {
            Node::Root(level) => level,
            Node::Mid(..) | Node::Deep(..) => self.from() + 8,
        }
    }

    /// What the chunk's number in a cell of this node names.
    fn child(self, entry: u32) -> Node {
        match self {
            Node::Root(level) => Node::Mid(entry & !CHUNK, level),
            Node::Mid(..) | Node::Deep(..) => Node::Deep(entry & !CHUNK, self.level()),
        }
    }

    fn cell_of<A: Addr>(self, addr: A) -> usize {
        addr.bits(self.from(), self.level() - self.from()) as usize
    }
}

impl<A: Addr, C: Cell, const ROOT: u8> Pusher<A, C, ROOT> {
    /// The most chunks below the root, one for each entry and as many that wait for readers;
    /// and deeper ones.
    const MOST: [usize; 2] = [
        if cfg!(miri) { 1 << 8 } else { min(2 << ROOT, DEEP_CHUNKS) },
        min(C::MOST as usize + 1, DEEP_CHUNKS),
    ];

    /// Builds from all routes, whose hops fit the cells.
    pub(super) fn build(
        card: &'static Card,
        rib: &Rib<A>,
        domain: &Arc<Domain>,
    ) -> Result<Self, Refusal> {
        Scale::of(rib.len(), 2, DEEP_CHUNKS).build(|scale| {
            let mut pusher = match Pusher::empty(card, domain, scale) {
                Ok(pusher) => pusher,
                Err(refusal) => return (Err(refusal), false),
            };
            let mut routes = rib.iter().filter(|(prefix, _)| prefix.len() > 0);
            // By address, then length: a longer prefix paints over a shorter one.
            let done = routes.try_for_each(|(prefix, hop)| pusher.paint(prefix, hop.0));
            let is_tight = pusher.is_tight();
            if let Err(full) = done {
                return (Err(pusher.refusal(full)), is_tight);
            }
            pusher.set_default(rib);
            pusher.table.accesses.reset();
            (Ok(pusher), is_tight)
        })
    }

    fn empty(card: &'static Card, domain: &Arc<Domain>, scale: Scale) -> Result<Self, Refusal> {
        let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
        let chunks = Self::MOST.map(|most| most.min(scale.len(DEEP_CHUNKS)));
        let space =
            |chunks: usize| Space::new(domain, chunks as u32 * lines::<C>(), CHUNKS_IN_LIMBO);
        let spaces = chunks.map(space);
        let table = Levels {
            root: Pages::zeroed(1 << ROOT).map_err(no_memory)?,
            mid: Pages::zeroed(chunks[0]).map_err(no_memory)?,
            deep: Pages::zeroed(chunks[1]).map_err(no_memory)?,
            touched: [spaces[0].touched(), spaces[1].touched()],
            default: DefaultHop::default(),
            accesses: Accesses::default(),
            family: PhantomData,
        };
        Ok(Pusher { card, table: Arc::new(table), spaces })
    }

    /// While building: writes `hop` over all that `prefix` covers.
    fn paint(&mut self, prefix: Prefix<A>, hop: u32) -> Result<(), Full> {
        let mut node = Node::Root(ROOT);
        while prefix.len() > node.level() {
            node = self.open(node, node.cell_of(prefix.first()))?;
        }
        let (first, last) = (node.cell_of(prefix.first()), node.cell_of(prefix.last()));
        self.store(node, first, last, hop);
        Ok(())
    }

    /// Brings everything that `prefix` owns, or owned, in line with `rib`.
    fn repaint(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full> {
        if prefix.len() == 0 {
            self.set_default(rib);
            return Ok(());
        }
        let mut node = Node::Root(ROOT);
        while prefix.len() > node.level() {
            let (cell, around) =
                (node.cell_of(prefix.first()), Prefix::covering(prefix.first(), node.level()));
            if !holds_longer(rib, around) {
                self.store(node, cell, cell, owner(rib, around, 1));
                return Ok(());
            }
            node = self.open(node, cell)?;
        }
        let hop = owner(rib, prefix, 1);
        for (first, last) in gaps(rib, prefix) {
            self.fill(node, first, last, hop);
        }
        Ok(())
    }

    /// Writes `hop` to the addresses `first..=last` of `node`, among which there is
    /// no longer prefix.
    fn fill(&mut self, node: Node, first: A, last: A, hop: u32) {
        let (mut low, mut high) = (node.cell_of(first), node.cell_of(last));
        let inside = A::mask(node.level()).not();
        let cut_low = first.and(inside) != A::default();
        let cut_high = last.and(inside) != inside;
        // A cell that is cut holds a longer prefix beside: a chunk, or it becomes
        // one when the change that brings this prefix is made.
        if cut_low || (cut_high && low == high) {
            let end = if low == high { last } else { first.or(inside) };
            self.fill_part(node, low, first, end, hop);
            low += 1;
        }
        if cut_high && low <= high {
            self.fill_part(node, high, last.and(A::mask(node.level())), last, hop);
            high -= 1; // not below 0: low was less
        }
        if low <= high {
            self.store(node, low, high, hop);
        }
    }

    fn fill_part(&mut self, node: Node, cell: usize, first: A, last: A, hop: u32) {
        let entry = self.load(node, cell);
        if entry & CHUNK == 0 {
            self.store(node, cell, cell, hop);
        } else {
            self.fill(node.child(entry), first, last, hop);
        }
    }

    /// The chunk at `cell`, which gets one if it has none.
    fn open(&mut self, node: Node, cell: usize) -> Result<Node, Full> {
        let old = self.load(node, cell);
        if old & CHUNK != 0 {
            return Ok(node.child(old));
        }
        let space = usize::from(!matches!(node, Node::Root(_)));
        let at = self.spaces[space].take(lines::<C>()).ok_or(Full(space))?;
        let number = at / lines::<C>(); // exact: there are no other blocks
        let child = node.child(number);
        self.store_new(child, old); // the shorter route shows through
        self.set(node, cell, CHUNK | number); // I1
        self.count(node, cell, cell);
        Ok(child)
    }

    fn load(&self, node: Node, cell: usize) -> u32 {
        match node {
            Node::Root(_) => self.table.root[cell].load(Ordering::Relaxed),
            Node::Mid(number, _) => {
                self.table.mid[number as usize][cell].load() & (C::MOST | CHUNK)
            }
            Node::Deep(number, _) => {
                self.table.deep[number as usize][cell].load() & (C::MOST | CHUNK)
            }
        }
    }

    fn set(&self, node: Node, cell: usize, entry: u32) {
        match node {
            Node::Root(_) => self.table.root[cell].store(entry, Ordering::Release),
            Node::Mid(number, _) => self.table.mid[number as usize][cell].store(entry),
            Node::Deep(number, _) => self.table.deep[number as usize][cell].store(entry),
        }
    }

    /// Writes `hop` to cells; chunks that it replaces go.
    fn store(&mut self, node: Node, first: usize, last: usize, hop: u32) {
        self.count(node, first, last);
        for cell in first..=last {
            let old = self.load(node, cell);
            self.set(node, cell, hop);
            if old & CHUNK != 0 {
                self.retire(node.child(old));
            }
        }
    }

    fn store_new(&self, node: Node, hop: u32) {
        self.count(node, 0, CELLS - 1);
        (0..CELLS).for_each(|cell| self.set(node, cell, hop));
    }

    fn count(&self, node: Node, first: usize, last: usize) {
        match node {
            Node::Root(_) => self.table.accesses.on_chip(words(first, last, size_of::<u32>())),
            _ => self.table.accesses.off_chip(words(first, last, size_of::<C>())),
        }
    }

    /// Hands a chunk and those below it to the readers' grace period.
    fn retire(&mut self, node: Node) {
        for cell in 0..CELLS {
            let entry = self.load(node, cell);
            if entry & CHUNK != 0 {
                self.retire(node.child(entry));
            }
        }
        match node {
            Node::Root(_) => {}
            Node::Mid(number, _) => self.spaces[0].retire(number * lines::<C>(), lines::<C>()),
            Node::Deep(number, _) => self.spaces[1].retire(number * lines::<C>(), lines::<C>()),
        }
    }

    fn set_default(&self, rib: &Rib<A>) {
        self.table.default.follow(rib);
    }

    /// True where updates soon lack chunks, of which there might be more.
    fn is_tight(&self) -> bool {
        let lens = [self.table.mid.len(), self.table.deep.len()];
        let is_tight = |i: usize| self.spaces[i].is_tight() && lens[i] < Self::MOST[i];
        (is_tight(0) || is_tight(1)) && !self.spaces.iter().any(Space::lacks_memory)
    }

    fn refusal(&self, Full(space): Full) -> Refusal {
        let most = [self.table.mid.len(), self.table.deep.len()][space];
        let levels = [format!("/{ROOT}"), format!("/{}, /{} …", ROOT + 8, ROOT + 16)];
        let full = || format!("more than {most} prefixes of {} hold longer routes", levels[space]);
        self.card.refuse(self.spaces[space].limit(full))
    }

    /// Asks whether garbage and memory allow `changes`, before the first is made.
    fn admit(&mut self, changes: &[Change<A>]) -> Result<(), Refusal> {
        let grow = changes.iter().filter(|change| change.hop.is_some());
        let levels =
            grow.map(|change| usize::from(change.prefix.len().saturating_sub(ROOT - 7) / 8));
        let mut wanted = [0, 0];
        for chunks in levels.filter(|&chunks| chunks > 0) {
            wanted = [wanted[0] + 1, wanted[1] + chunks - 1];
        }
        for (space, wanted) in self.spaces.iter_mut().zip(wanted) {
            space.admit().map_err(|congested| self.card.refuse(congested.to_string()))?;
            let more = wanted.saturating_sub(space.spare(lines::<C>()));
            if more > 0 {
                self.card.admit_bytes(more * size_of::<[C; CELLS]>())?;
            }
        }
        Ok(())
    }
}

impl<A: Addr, C: Cell, const ROOT: u8> Writer<A> for Pusher<A, C, ROOT> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        let largest = changes.iter().filter_map(|change| change.hop).max().unwrap_or(Hop::NONE);
        self.card.admit_hop(largest)?;
        if largest.0 > C::MOST {
            return Ok(Applied::Rebuild); // with wider cells
        }
        self.admit(changes)?;
        // Each prefix repaints what it owns by the Rib as it is after all changes,
        // so their order does not matter.
        for change in changes {
            self.table.accesses.begin();
            if self.repaint(rib, change.prefix).is_err() {
                // Half-way: a rebuilt table has more chunks or wider cells, or names the limit.
                return Ok(Applied::Rebuild);
            }
            self.table.accesses.end();
        }
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        self.spaces.iter().map(Space::bytes).sum()
    }
}

/// Lines of 64 bytes in a chunk.
const fn lines<C: Cell>() -> u32 {
    size_of::<[C; CELLS]>() as u32 / 64
}

/// Address space is reserved for so many at most; memory comes as they are used.
const DEEP_CHUNKS: usize = if cfg!(miri) { 1 << 10 } else { 1 << 22 };

const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

/// Chunks that may wait for readers.
const CHUNKS_IN_LIMBO: usize = 1 << 16;
