//! Building and updating: nodes are written beside the old ones from the bottom
//! up, then one store turns the initial entry.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::{CARD, CARD_6, INITIAL, NO_NODE, TreeBitmap, bit_of, child_of, rank, slot, split};
use crate::lpm::bitmap::{SLOTS, STRIDE, six};
use crate::lpm::blocks::{BlockWriter, Node, Room, by_width};
use crate::lpm::cell::Cell;
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::flatten::owner;
use crate::lpm::isa::Isa;
use crate::lpm::staged::Full;
use crate::lpm::{Applied, Card, Lpm, Options, Refusal, Writer};
use crate::pages::Pages;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

struct TreeBitmapWriter<A, L: Cell> {
    table: Arc<TreeBitmap<L>>,
    room: Room,
    family: PhantomData<A>,
}

type Route<A> = (Prefix<A>, Hop);

pub(super) fn build<A: Addr>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    by_width(rib, build_with::<A, AtomicU16>, build_with::<A, AtomicU32>)(rib, options, domain)
}

/// Builds with results of one width, which must hold every hop.
pub(super) fn build_with<A: Addr, L: Cell>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    let card = card::<A>();
    options.check(card)?;
    let isa = Isa::choose(card, options)?;
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
    let empty = |scale| {
        let (mut room, blocks) = Room::new(domain, scale).map_err(no_memory)?;
        // NO_RESULT; where there is no memory for it, there is none for others.
        if room.hops.take(1).is_err() {
            return Err(card.refuse(room.limit()));
        }
        let initial = Pages::zeroed(1).map_err(no_memory)?;
        let table = TreeBitmap::<L> { initial, blocks, default: DefaultHop::of(rib), isa };
        table.initial[0].iter().for_each(|entry| entry.store(NO_NODE.into(), Ordering::Relaxed));
        Ok(TreeBitmapWriter { table: Arc::new(table), room, family: PhantomData })
    };
    Room::scale(rib.len()).build(|scale| match empty(scale) {
        Ok(writer) => writer.filled(card, rib),
        Err(refusal) => (Err(refusal), false),
    })
}

impl<A: Addr, L: Cell> Writer<A> for TreeBitmapWriter<A, L> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        self.apply_all(card::<A>(), rib, changes)
    }

    fn bytes(&self) -> usize {
        self.room.bytes()
    }
}

impl<A: Addr, L: Cell> BlockWriter<A, L> for TreeBitmapWriter<A, L> {
    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Routes come by address, then length: a longer one paints over a shorter one, and
    /// those of one entry follow each other.
    fn fill(&mut self, rib: &Rib<A>) -> Result<(), Full> {
        let routes: Vec<Route<A>> = rib.iter().filter(|(prefix, _)| prefix.len() > 0).collect();
        let mut next = 0;
        while let Some(&(prefix, hop)) = routes.get(next) {
            let first = slot(prefix.first());
            if prefix.len() < INITIAL {
                (first..=slot(prefix.last())).for_each(|i| self.set_hop(i, hop));
                next += 1;
                continue;
            }
            let end = next + inside(&routes[next..], Prefix::covering(prefix.first(), INITIAL));
            let root = self.grow(&routes[next..end], INITIAL)?;
            self.publish(first, Some(root))?;
            next = end;
        }
        Ok(())
    }

    fn change(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full> {
        let hop = rib.get(&prefix);
        if prefix.len() == 0 {
            self.table.default.set(hop.unwrap_or(Hop::NONE));
            return Ok(());
        }
        if prefix.len() < INITIAL {
            self.repaint(rib, prefix);
            return Ok(());
        }
        let i = slot(prefix.first());
        let (at, _) = split(self.table.initial[0][i].load(Ordering::Relaxed));
        let root = (at != NO_NODE).then(|| self.table.blocks.node(at));
        match (self.find(root, prefix), hop) {
            (None, None) => Ok(()),
            (Some(place), Some(hop)) => {
                self.table.blocks.hop(place).set(hop.0); // old or new, both of one prefix
                Ok(())
            }
            (_, hop) => {
                self.room.nodes.give_up(at, u32::from(root.is_some()));
                let root = self.renew(root, INITIAL, prefix, hop)?;
                self.publish(i, root)
            }
        }
    }
}

impl<A: Addr, L: Cell> TreeBitmapWriter<A, L> {
    /// A node of the prefixes `routes`, all inside it, `from` bits down.
    fn grow(&mut self, routes: &[Route<A>], from: u8) -> Result<Node, Full> {
        let below = from + STRIDE;
        let (mut node, mut hops) = (Node::default(), [0; SLOTS]);
        let mut children = [Node::default(); SLOTS];
        let mut next = 0;
        while let Some(&(prefix, hop)) = routes.get(next) {
            if prefix.len() < below {
                let bit = internal_bit(prefix, from);
                node.maps[0] |= 1 << bit;
                hops[bit as usize] = hop.0;
                next += 1;
                continue;
            }
            let v = six(prefix.first(), from);
            let end = next + inside(&routes[next..], Prefix::covering(prefix.first(), below));
            node.maps[1] |= 1 << v;
            children[v as usize] = self.grow(&routes[next..end], below)?;
            next = end;
        }
        node.hops = self.room.hops.take(node.maps[0].count_ones())?;
        for (place, bit) in (node.hops..).zip(bits(node.maps[0])) {
            self.table.blocks.hop(place).set(hops[bit as usize]);
        }
        node.children = self.room.nodes.take(node.maps[1].count_ones())?;
        for (place, v) in (node.children..).zip(bits(node.maps[1])) {
            self.table.blocks.write(place, &children[v as usize]);
        }
        Ok(node)
    }

    /// Where the hop of exactly this prefix is.
    fn find(&self, root: Option<Node>, prefix: Prefix<A>) -> Option<u32> {
        let (mut node, mut from) = (root?, INITIAL);
        while prefix.len() >= from + STRIDE {
            let (there, child) = child_of(&node, six(prefix.first(), from));
            node = there.then(|| self.table.blocks.node(child))?;
            from += STRIDE;
        }
        let bit = internal_bit(prefix, from);
        (node.maps[0] >> bit & 1 != 0).then(|| node.hops + rank(node.maps[0], bit))
    }

    /// A new version of `old` in which `prefix` is inserted (it is not there) or
    /// deleted (it is); `None` where nothing remains.
    fn renew(
        &mut self,
        old: Option<Node>,
        from: u8,
        prefix: Prefix<A>,
        hop: Option<Hop>,
    ) -> Result<Option<Node>, Full> {
        let mut node = old.unwrap_or_default();
        if prefix.len() < from + STRIDE {
            self.renew_results(&mut node, internal_bit(prefix, from), hop)?;
        } else {
            let v = six(prefix.first(), from);
            let (there, child) = child_of(&node, v);
            let child = there.then(|| self.table.blocks.node(child));
            let child = self.renew(child, from + STRIDE, prefix, hop)?;
            self.renew_children(&mut node, v, child)?;
        }
        Ok((node.maps[0] | node.maps[1] != 0).then_some(node))
    }

    fn renew_results(&mut self, node: &mut Node, bit: u32, hop: Option<Hop>) -> Result<(), Full> {
        let old = *node;
        node.maps[0] = old.maps[0] & !(1 << bit) | u64::from(hop.is_some()) << bit;
        node.hops = self.room.hops.take(node.maps[0].count_ones())?;
        for (place, other) in (node.hops..).zip(bits(node.maps[0])) {
            let kept = || self.table.blocks.hop(old.hops + rank(old.maps[0], other)).get();
            let value = hop.filter(|_| other == bit).map_or_else(kept, |hop| hop.0);
            self.table.blocks.hop(place).set(value);
        }
        self.room.hops.give_up(old.hops, old.maps[0].count_ones());
        Ok(())
    }

    fn renew_children(&mut self, node: &mut Node, v: u32, child: Option<Node>) -> Result<(), Full> {
        let old = *node;
        node.maps[1] = old.maps[1] & !(1 << v) | u64::from(child.is_some()) << v;
        node.children = self.room.nodes.take(node.maps[1].count_ones())?;
        for (place, other) in (node.children..).zip(bits(node.maps[1])) {
            let kept = || self.table.blocks.node(child_of(&old, other).1);
            let value = child.filter(|_| other == v).unwrap_or_else(kept);
            self.table.blocks.write(place, &value);
        }
        self.room.nodes.give_up(old.children, old.maps[1].count_ones());
        Ok(())
    }

    /// Makes a new version visible (I1).
    fn publish(&mut self, i: usize, root: Option<Node>) -> Result<(), Full> {
        let at = match root {
            None => NO_NODE,
            Some(node) => self.room.place(&self.table.blocks, &node)?,
        };
        let entry = &self.table.initial[0][i];
        let (_, hop) = split(entry.load(Ordering::Relaxed)); // we alone write
        entry.store(u64::from(at) | u64::from(hop) << 32, Ordering::Release);
        self.room.commit();
        Ok(())
    }

    /// Brings the initial entries that `prefix`, shorter than they, owns or owned
    /// in line with `rib`.
    fn repaint(&self, rib: &Rib<A>, prefix: Prefix<A>) {
        let hop = owner(rib, prefix);
        let mut next = slot(prefix.first());
        for (child, _) in rib.children(prefix).filter(|(child, _)| child.len() < INITIAL) {
            (next..slot(child.first())).for_each(|i| self.set_hop(i, hop));
            next = slot(child.last()) + 1;
        }
        (next..=slot(prefix.last())).for_each(|i| self.set_hop(i, hop));
    }

    fn set_hop(&self, i: usize, hop: Hop) {
        let entry = &self.table.initial[0][i];
        let (at, _) = split(entry.load(Ordering::Relaxed)); // we alone write
        entry.store(u64::from(at) | u64::from(hop.0) << 32, Ordering::Release);
    }
}

/// The bit in a node `from` bits down of a prefix that is in it.
fn internal_bit<A: Addr>(prefix: Prefix<A>, from: u8) -> u32 {
    let len = prefix.len() - from;
    bit_of(len, six(prefix.first(), from) >> (STRIDE - len))
}

/// How many of the first `routes` lie inside `around`.
fn inside<A: Addr>(routes: &[Route<A>], around: Prefix<A>) -> usize {
    routes.iter().take_while(|(prefix, _)| around.covers(prefix)).count()
}

/// The numbers of the bits that are set, ascending.
fn bits(mut map: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (map != 0).then(|| map.trailing_zeros())?;
        map &= map - 1;
        Some(bit)
    })
}

fn card<A: Addr>() -> &'static Card {
    if A::WIDTH == 32 { &CARD } else { &CARD_6 }
}
