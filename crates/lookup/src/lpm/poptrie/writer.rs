//! Building and updating: nodes are written beside the old ones from the bottom
//! up, then one store turns the direct entry.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::{CARD, CARD_6, LEAF, Poptrie, step};
use crate::lpm::bitmap::{SLOTS, STRIDE, six};
use crate::lpm::blocks::{BlockWriter, Node, Room, by_width};
use crate::lpm::cell::Cell;
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::flatten::owner;
use crate::lpm::isa::Isa;
use crate::lpm::staged::Full;
use crate::lpm::{Applied, Card, Lpm, Options, Refusal, Writer};
use crate::pages::{self, Pages};
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

struct PoptrieWriter<A, L: Cell> {
    table: Arc<Poptrie<L>>,
    room: Room,
    /// Store a run of equal leaves once.
    compress: bool,
    /// Routes under a node that is built.
    routes: Vec<Route<A>>,
    family: PhantomData<A>,
}

type Route<A> = (Prefix<A>, Hop);

/// What a slot of a node, or a direct entry, leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Slot {
    Leaf(u32),
    Inner(Node),
}

type Slots = [Slot; SLOTS];

pub(super) fn build<A: Addr>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    by_width(rib, build_with::<A, AtomicU16>, build_with::<A, AtomicU32>)(rib, options, domain)
}

/// Builds with leaves of one width, which must hold every hop.
pub(super) fn build_with<A: Addr, L: Cell>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    let card = card::<A>();
    options.check(card)?;
    let s: u8 = options.get(card, "s", |s| (12..=24).contains(s))?;
    let known = |name: &String| ["yes", "no"].contains(&name.as_str());
    let compress = options.get(card, "leafvec", known)? == "yes";
    let isa = Isa::choose(card, options)?;
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    card.admit_bytes(size_of::<u32>() << s)?;
    let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
    let empty = |scale| -> std::io::Result<_> {
        let (room, blocks) = Room::new(domain, scale)?;
        let direct = Pages::zeroed(1_usize << s)?;
        let table = Poptrie::<L> { direct, s, blocks, default: DefaultHop::of(rib), isa };
        let (table, routes) = (Arc::new(table), Vec::new());
        Ok(PoptrieWriter { table, room, compress, routes, family: PhantomData })
    };
    Room::scale(rib.len()).build(|scale| match empty(scale).map_err(no_memory) {
        Ok(writer) => writer.filled(card, rib),
        Err(refusal) => (Err(refusal), false),
    })
}

impl<A: Addr, L: Cell> Writer<A> for PoptrieWriter<A, L> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        self.apply_all(card::<A>(), rib, changes)
    }

    fn bytes(&self) -> usize {
        let routes = self.routes.capacity() * size_of::<Route<A>>();
        self.room.bytes() + routes
    }
}

impl<A: Addr, L: Cell> BlockWriter<A, L> for PoptrieWriter<A, L> {
    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Routes come by address, then length: a longer one paints over a shorter one, and
    /// those of one entry follow each other.
    fn fill(&mut self, rib: &Rib<A>) -> Result<(), Full> {
        let s = self.table.s;
        pages::fill(&self.table.direct, LEAF);
        let mut routes = rib.iter().filter(|(prefix, _)| prefix.len() > 0).peekable();
        while let Some((prefix, hop)) = routes.next() {
            let first = self.slot(prefix.first());
            if prefix.len() <= s {
                let entries = &self.table.direct[first..=self.slot(prefix.last())];
                pages::fill(entries, LEAF | hop.0);
                continue;
            }
            let around = Prefix::covering(prefix.first(), s);
            self.routes.clear();
            self.routes.push((prefix, hop));
            while let Some(route) = routes.next_if(|(next, _)| around.covers(next)) {
                self.routes.push(route);
            }
            let outside = self.table.direct[first].load(Ordering::Relaxed) & !LEAF;
            let slot = self.grow_all(s, outside)?;
            self.publish(first, slot)?;
        }
        Ok(())
    }

    fn change(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full> {
        let s = self.table.s;
        if prefix.len() == 0 {
            self.table.default.follow(rib);
            return Ok(());
        }
        if prefix.len() > s {
            let i = self.slot(prefix.first());
            let old = self.open_entry(i);
            return self.renew(rib, s, old, prefix).and_then(|new| self.publish(i, new));
        }
        let (mut next, last) = (self.slot(prefix.first()), self.slot(prefix.last()));
        let hop = owner(rib, prefix).0;
        for (child, _) in rib.children(prefix) {
            let first = self.slot(child.first());
            if first < next {
                continue; // longer than /s, in an entry that has been seen
            }
            self.lead(next, first, hop)?;
            if child.len() > s {
                let around = Prefix::covering(child.first(), s);
                let old = self.open_entry(first);
                self.discard(old);
                let new = self.grow(rib, around, s, hop)?;
                self.publish(first, new)?;
            }
            next = self.slot(child.last()) + 1;
        }
        self.lead(next, last + 1, hop)
    }
}

impl<A: Addr, L: Cell> PoptrieWriter<A, L> {
    /// Leads the direct entries from `first` up to `end` to `hop`.
    fn lead(&mut self, first: usize, end: usize, hop: u32) -> Result<(), Full> {
        for i in first..end {
            let old = self.open_entry(i);
            self.discard(old);
            self.publish(i, Slot::Leaf(hop))?;
        }
        Ok(())
    }

    /// What a direct entry leads to; gives its node up.
    fn open_entry(&mut self, i: usize) -> Slot {
        let entry = self.table.direct[i].load(Ordering::Relaxed); // we alone write
        if entry & LEAF != 0 {
            return Slot::Leaf(entry & !LEAF);
        }
        self.room.nodes.give_up(entry, 1);
        Slot::Inner(self.table.blocks.node(entry))
    }

    /// Makes a new version visible (I1).
    fn publish(&mut self, i: usize, slot: Slot) -> Result<(), Full> {
        let entry = match slot {
            Slot::Leaf(hop) => LEAF | hop,
            Slot::Inner(node) => self.room.place(&self.table.blocks, &node)?,
        };
        self.table.direct[i].store(entry, Ordering::Release);
        self.room.commit();
        Ok(())
    }

    /// The slot of `from` bits around `changed`, brought in line with `rib` where
    /// `changed` lies. `old` is as it was; its blocks are given up.
    fn renew(
        &mut self,
        rib: &Rib<A>,
        from: u8,
        old: Slot,
        changed: Prefix<A>,
    ) -> Result<Slot, Full> {
        let around = Prefix::covering(changed.first(), from);
        if !longer_inside(rib, around) {
            self.discard(old);
            return Ok(Slot::Leaf(owner(rib, around).0));
        }
        let mut slots = self.open(old);
        let below = from + STRIDE;
        if changed.len() >= below {
            let slot = &mut slots[six(changed.first(), from) as usize];
            *slot = self.renew(rib, below, *slot, changed)?;
        } else {
            let first = six(changed.first(), from) as usize;
            let count = 1 << (below - changed.len());
            slots[first..first + count].iter().for_each(|&slot| self.discard(slot));
            self.collect(rib, changed, from);
            let routes = std::mem::take(&mut self.routes);
            slots[first..first + count].fill(Slot::Leaf(owner(rib, changed).0));
            let grown = self.paint(&routes, from, &mut slots);
            self.routes = routes;
            grown?;
        }
        self.close(&slots)
    }

    /// The slot of `from` bits that is `around`, from `rib`; `outside` is the hop
    /// around it.
    fn grow(
        &mut self,
        rib: &Rib<A>,
        around: Prefix<A>,
        from: u8,
        outside: u32,
    ) -> Result<Slot, Full> {
        self.collect(rib, around, from);
        self.grow_all(from, outside)
    }

    /// The same from `self.routes`.
    fn grow_all(&mut self, from: u8, outside: u32) -> Result<Slot, Full> {
        let routes = std::mem::take(&mut self.routes);
        let slot = self.grow_from(&routes, from, outside);
        self.routes = routes;
        slot
    }

    /// The same from `routes`, all inside the slot and longer than `from`.
    fn grow_from(&mut self, routes: &[Route<A>], from: u8, outside: u32) -> Result<Slot, Full> {
        let mut slots = [Slot::Leaf(outside); SLOTS];
        self.paint(routes, from, &mut slots)?;
        self.close(&slots)
    }

    /// Paints `routes`, by address, then length, over `slots`.
    fn paint(&mut self, routes: &[Route<A>], from: u8, slots: &mut Slots) -> Result<(), Full> {
        let below = from + STRIDE;
        let mut next = 0;
        while let Some(&(prefix, hop)) = routes.get(next) {
            let first = six(prefix.first(), from) as usize;
            if prefix.len() <= below {
                let count = 1 << (below - prefix.len());
                slots[first..first + count].fill(Slot::Leaf(hop.0));
                next += 1;
                continue;
            }
            let around = Prefix::covering(prefix.first(), below);
            let inside = routes[next..].iter().take_while(|(prefix, _)| around.covers(prefix));
            let end = next + inside.count();
            let Slot::Leaf(outside) = slots[first] else {
                unreachable!("the routes of one slot follow each other")
            };
            slots[first] = self.grow_from(&routes[next..end], below, outside)?;
            next = end;
        }
        Ok(())
    }

    /// Routes of `rib` inside `prefix` that are longer than it and than `from`.
    fn collect(&mut self, rib: &Rib<A>, prefix: Prefix<A>, from: u8) {
        let longer = from.max(prefix.len());
        let inside = rib.inside(prefix.first()..=prefix.last());
        self.routes.clear();
        self.routes.extend(inside.filter(|(inner, _)| inner.len() > longer));
    }

    /// A node's slots; gives up the blocks of its leaves and children.
    fn open(&mut self, slot: Slot) -> Slots {
        let node = match slot {
            Slot::Leaf(_) => return [slot; SLOTS],
            Slot::Inner(node) => node,
        };
        self.give_up(&node);
        std::array::from_fn(|v| match step(&node, v as u32) {
            (true, at) => Slot::Inner(self.table.blocks.node(at)),
            (false, at) => Slot::Leaf(self.table.blocks.hop(at).get()),
        })
    }

    /// Gives up a slot with all that it leads to.
    fn discard(&mut self, slot: Slot) {
        let Slot::Inner(node) = slot else { return };
        self.give_up(&node);
        for i in 0..node.maps[0].count_ones() {
            self.discard(Slot::Inner(self.table.blocks.node(node.children + i)));
        }
    }

    fn give_up(&mut self, node: &Node) {
        self.room.nodes.give_up(node.children, node.maps[0].count_ones());
        self.room.hops.give_up(node.hops, node.maps[1].count_ones());
    }

    /// Writes leaves and children of a node with these slots (I2).
    fn close(&mut self, slots: &Slots) -> Result<Slot, Full> {
        if let (Slot::Leaf(_), true) = (slots[0], slots.iter().all(|slot| *slot == slots[0])) {
            return Ok(slots[0]);
        }
        let mut node = Node::default();
        let mut before = None;
        for (v, slot) in slots.iter().enumerate() {
            match slot {
                Slot::Inner(_) => node.maps[0] |= 1 << v,
                Slot::Leaf(hop) if self.compress && before == Some(hop) => {}
                Slot::Leaf(hop) => {
                    node.maps[1] |= 1 << v;
                    before = Some(hop);
                }
            }
        }
        node.children = self.room.nodes.take(node.maps[0].count_ones())?;
        node.hops = self.room.hops.take(node.maps[1].count_ones())?;
        let (mut child, mut leaf) = (node.children, node.hops);
        for (v, slot) in slots.iter().enumerate() {
            match slot {
                Slot::Inner(inner) => {
                    self.table.blocks.write(child, inner);
                    child += 1;
                }
                Slot::Leaf(hop) if node.maps[1] >> v & 1 != 0 => {
                    self.table.blocks.hop(leaf).set(*hop);
                    leaf += 1;
                }
                Slot::Leaf(_) => {}
            }
        }
        Ok(Slot::Inner(node))
    }

    fn slot(&self, dst: A) -> usize {
        dst.bits(0, self.table.s) as usize
    }
}

fn longer_inside<A: Addr>(rib: &Rib<A>, around: Prefix<A>) -> bool {
    let mut inside = rib.inside(around.first()..=around.last());
    inside.any(|(prefix, _)| prefix.len() > around.len())
}

fn card<A: Addr>() -> &'static Card {
    if A::WIDTH == 32 { &CARD } else { &CARD_6 }
}
