//! Building and updating.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::btree::Btree;
use super::priority::Tries;
use super::{
    CARD, CARD_6, DNODES, INODES, Item, Miht, NODES_IN_LIMBO, NONE, key, order, suffix, words_of,
};
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::scale::Scale;
use crate::lpm::staged::{Full, Staged};
use crate::lpm::{Applied, Card, Exported, Lpm, Options, Refusal, Writer};
use crate::pages::Cut;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

struct MihtWriter<A> {
    table: Arc<Miht<A>>,
    tree: Btree<A>,
    tries: Tries<A>,
}

pub(super) fn build<A: Addr>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer<A>>, Refusal> {
    Ok(exported(rib, options, domain)?.writer)
}

/// The table, and what copies it.
pub(in crate::lpm) fn exported<A: Addr>(
    rib: &Rib<A>,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Exported<A>, Refusal> {
    let card = card::<A>();
    options.check(card)?;
    let most = if A::WIDTH == 32 { 24 } else { 32 };
    let k: u8 = options.get(card, "k", |k| (8..=most).contains(k))?;
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
    let empty = |scale: Scale| -> std::io::Result<_> {
        let lens = [INODES, DNODES].map(|most| scale.len(most));
        let [inodes, dnodes] = lens.map(|len| Staged::new(domain, len as u32, NODES_IN_LIMBO));
        let table = Arc::new(Miht {
            root: AtomicU64::new(0),
            keyless: AtomicU32::new(NONE),
            inodes: Cut::zeroed(lens[0] * 2 * order::<A>())?,
            dnodes: Cut::zeroed(lens[1] * words_of::<A>())?,
            k,
            default: DefaultHop::of(rib),
            touched: [inodes.touched(), dnodes.touched()],
            family: PhantomData,
        });
        let tree = Btree { table: table.clone(), nodes: inodes };
        let tries = Tries { table: table.clone(), nodes: dnodes };
        Ok(MihtWriter { table, tree, tries })
    };
    let writer = Scale::of(rib.len(), 4, DNODES).build(|scale| {
        let mut writer = match empty(scale) {
            Ok(writer) => writer,
            Err(error) => return (Err(no_memory(error)), false),
        };
        let filled = writer.fill(rib).map_err(|Full| card.refuse(writer.limit()));
        let nodes = [&writer.tree.nodes, &writer.tries.nodes];
        let is_tight = nodes.iter().any(|nodes| nodes.is_tight());
        let lacks_memory = nodes.iter().any(|nodes| nodes.lacks_memory());
        (filled.map(|()| writer), is_tight && !lacks_memory)
    })?;
    Ok(Exported { export: writer.table.clone(), writer: Box::new(writer) })
}

impl<A: Addr> Writer<A> for MihtWriter<A> {
    fn table(&self) -> Arc<dyn Lpm<A>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<Applied, Refusal> {
        let card = card::<A>();
        for hop in changes.iter().filter_map(|change| change.hop) {
            card.admit_hop(hop)?;
        }
        for staged in [&mut self.tree.nodes, &mut self.tries.nodes] {
            staged.admit().map_err(|congested| card.refuse(congested.to_string()))?;
        }
        // Full half-way: a rebuilt table has no gaps, or names the limit.
        if changes.iter().try_for_each(|change| self.change(rib, change.prefix)).is_err() {
            self.tree.nodes.abort();
            self.tries.nodes.abort();
            return Ok(Applied::Rebuild);
        }
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        self.tree.nodes.bytes() + self.tries.nodes.bytes()
    }
}

impl<A: Addr> MihtWriter<A> {
    fn limit(&self) -> String {
        let full = || format!("more than {DNODES} d-nodes or {INODES} i-nodes");
        self.tree.nodes.limit(|| self.tries.nodes.limit(full))
    }

    fn fill(&mut self, rib: &Rib<A>) -> Result<(), Full> {
        let k = self.table.k;
        let routes = rib.iter().filter(|(prefix, _)| prefix.len() > 0);
        let (keyless, keyed): (Vec<_>, Vec<_>) = routes.partition(|(prefix, _)| prefix.len() < k);
        let mut items: Vec<_> =
            keyless.iter().map(|&(prefix, hop)| item(prefix, k).with(hop)).collect();
        let trie = self.tries.grow(&mut items, 0)?;
        self.table.keyless.store(trie, Ordering::Release);
        let mut places = Vec::new();
        for routes in keyed.chunk_by(|a, b| key(a.0.first(), k) == key(b.0.first(), k)) {
            items.clear();
            items.extend(routes.iter().map(|&(prefix, hop)| item(prefix, k).with(hop)));
            places.push((key(routes[0].0.first(), k), self.tries.grow(&mut items, 0)?));
            self.tries.nodes.commit();
        }
        self.tree.grow(places)
    }

    fn change(&mut self, rib: &Rib<A>, prefix: Prefix<A>) -> Result<(), Full> {
        let hop = rib.get(&prefix);
        if prefix.len() == 0 {
            self.table.default.set(hop.unwrap_or(Hop::NONE));
            return Ok(());
        }
        let (k, keyless) = (self.table.k, prefix.len() < self.table.k);
        let key = key(prefix.first(), k);
        let trie = if keyless {
            self.table.keyless.load(Ordering::Relaxed) // we alone write
        } else {
            self.table.trie_of(key)
        };
        let item = item(prefix, k);
        let there = self.tries.find(trie, item).is_some();
        let new = match hop {
            Some(hop) if there => {
                self.tries.change(trie, item.with(hop));
                return Ok(());
            }
            Some(hop) => self.tries.insert(trie, 0, item.with(hop))?,
            None if there => self.tries.delete(trie, 0, item)?,
            None => return Ok(()),
        };
        // Each of these is one store, of a release (I1).
        match (keyless, trie, new) {
            (true, ..) => self.table.keyless.store(new, Ordering::Release),
            (_, NONE, _) => self.tree.insert(key, new)?,
            (_, _, NONE) => self.tree.delete(key)?,
            _ => self.tree.turn(key, new),
        }
        self.tries.nodes.commit();
        Ok(())
    }
}

/// `prefix` as it is in its trie, without a hop: the bits behind its key, or
/// all of them where it is shorter.
fn item<A: Addr>(prefix: Prefix<A>, k: u8) -> Item<A> {
    let (first, len) = (prefix.first(), prefix.len());
    let (suffix, len) = if len < k { (first, len) } else { (suffix(first, k), len - k) };
    Item { suffix, len, hop: Hop::NONE }
}

fn card<A: Addr>() -> &'static Card {
    if A::WIDTH == 32 { &CARD } else { &CARD_6 }
}
