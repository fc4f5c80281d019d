//! The front view of a VRF and family: its routes, overlaid with protections.
//!
//! ```text
//!  destination ─► protections ─┬ inside one ─► its hop
//!                              └ else ─► the plain view ─┬ for us, martian, … ─► that hop
//!                                                        └ leads out ─► withheld
//! ```
//!
//! Protections are in a table of their own, by the same engine as the routes, asked first: so
//! they hide whatever routes lie inside them, and those that come later. The routes are
//! those of the plain view, not a copy: **a route is in both views at the same store, and
//! a protection in the front view at one.** Where an engine is rebuilt or changed, both
//! tables are published in one list of VRFs.
//!
//! | cost | one lookup among the protections; two, where none covers the address |
//! |------|-----------------------------------------------------------------------|

use std::collections::BTreeMap;
use std::sync::Arc;

use lookup::lpm::{Engines, Lpm, Options, Refusal};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Prefix};

use crate::build::Builder;
use crate::error::Error;
use crate::fib::Fib;
use crate::hops::{fixed, withheld};
use crate::limits::Memory;
use crate::nests::Nest;
use crate::protections::Action;

/// Prefixes that are protected, and the table that has them.
pub(crate) struct Front<A: Engines> {
    /// Index, by prefix.
    pub(crate) prefixes: BTreeMap<Prefix<A>, u32>,
    shields: Nest<A>,
    passes: Nest<A>,
    /// What the next commit changes.
    pending: BTreeMap<Prefix<A>, Option<Hop>>,
    /// While there are protections.
    pub(crate) fib: Option<Fib<A>>,
    /// An engine that the table could not be changed to.
    refused: Option<(&'static str, Options)>,
}

impl<A: Engines> Front<A> {
    pub(crate) fn new() -> Self {
        Front {
            prefixes: BTreeMap::new(),
            shields: Nest::new(),
            passes: Nest::new(),
            pending: BTreeMap::new(),
            fib: None,
            refused: None,
        }
    }

    /// A prefix that `prefix` must not lie inside of, or have inside: a hole in a shield.
    pub(crate) fn hole(
        &self,
        prefix: &Prefix<A>,
        action: Action,
        steps: &mut u64,
    ) -> Option<Prefix<A>> {
        let others = if action == Action::Bypass { &self.shields } else { &self.passes };
        others.overlapping(prefix, steps)
    }

    /// Makes room for one more, by the engine of `plain`.
    ///
    /// # Errors
    /// When the engine has none.
    pub(crate) fn admit(
        &mut self,
        prefix: &Prefix<A>,
        hop: Hop,
        plain: &Fib<A>,
        domain: &Arc<Domain>,
    ) -> Result<(), Error> {
        if self.fib.is_none() {
            let (entry, options) = plain.choice();
            self.fib = Some(Fib::new(entry, options, fixed::BLACKHOLE, domain)?);
        }
        let Some(fib) = &self.fib else { return Ok(()) };
        let count = self.prefixes.len();
        let limit = if !fib.takes(hop) {
            format!("hop {} is more than it has room for", hop.0)
        } else if !fib.takes_length(prefix.len()) {
            format!("length {} is more than it takes", prefix.len())
        } else if fib.max_prefixes().is_some_and(|most| count as u64 >= most) {
            format!("{count} protections are in")
        } else {
            return Ok(());
        };
        Err(Refusal { engine: fib.engine(), limit }.into())
    }

    pub(crate) fn insert(&mut self, prefix: Prefix<A>, action: Action, index: u32, hop: Hop) {
        self.prefixes.insert(prefix, index);
        self.nest(action).insert(prefix);
        self.pending.insert(prefix, Some(hop));
    }

    pub(crate) fn remove(&mut self, prefix: &Prefix<A>, action: Action) {
        self.prefixes.remove(prefix);
        self.nest(action).remove(prefix);
        self.pending.insert(*prefix, None);
    }

    fn nest(&mut self, action: Action) -> &mut Nest<A> {
        if action == Action::Bypass { &mut self.passes } else { &mut self.shields }
    }

    /// Brings the table in line; returns the number of its changes.
    pub(crate) fn commit(&mut self, seq: u64) -> usize {
        let Some(fib) = &mut self.fib else { return 0 };
        if self.pending.is_empty() {
            fib.idle(seq);
            return 0;
        }
        let pending = std::mem::take(&mut self.pending).into_iter();
        let changes = pending.map(|(prefix, hop)| Change { prefix, hop });
        let changes: Vec<_> =
            changes.filter(|change| change.hop != fib.rib().get(&change.prefix)).collect();
        fib.apply(&changes, seq);
        changes.len()
    }

    /// Whether the table has the protection: the engine may have refused it.
    pub(crate) fn holds(&self, prefix: &Prefix<A>, hop: Hop) -> bool {
        self.fib.as_ref().is_some_and(|fib| fib.rib().get(prefix) == Some(hop))
    }

    /// Takes a finished build in and follows the engine of `plain`. True when another table
    /// serves now, or none.
    pub(crate) fn poll(&mut self, plain: &Fib<A>, builder: &mut Builder, memory: &Memory) -> bool {
        let Some(fib) = &mut self.fib else { return false };
        if self.prefixes.is_empty() && self.pending.is_empty() {
            self.fib = None;
            return true;
        }
        let swapped = fib.poll(builder, memory);
        let (entry, options) = plain.choice();
        let (now, has) = fib.choice();
        let wanted = (entry.card.name, options.clone());
        if (now.card.name, has) == wanted || fib.switching_to().is_some() {
            return swapped;
        }
        // An engine is asked for once: where it was refused, the table stays as it is, and is listed so.
        if self.refused.as_ref() != Some(&wanted) {
            drop(fib.set_engine(entry, options, builder, memory));
            self.refused = Some(wanted);
        }
        swapped
    }

    /// The commit from which on no reader meets older hops in the table.
    pub(crate) fn synced(&self) -> u64 {
        self.fib.as_ref().map_or(u64::MAX, Fib::synced)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.fib.as_ref().is_some_and(Fib::is_busy)
    }

    /// What front interfaces look up in, where `plain` is what others do.
    pub(crate) fn view(&self, plain: Arc<dyn Lpm<A>>) -> Arc<dyn Lpm<A>> {
        Arc::new(View { protections: self.fib.as_ref().map(Fib::table), plain })
    }
}

/// The front view.
struct View<A: Addr> {
    protections: Option<Arc<dyn Lpm<A>>>,
    plain: Arc<dyn Lpm<A>>,
}

impl<A: Addr> Lpm<A> for View<A> {
    fn lookup(&self, dst: A) -> Hop {
        let protected = self.protections.as_ref().map(|table| table.lookup(dst));
        match protected.filter(|hop| !hop.is_none()) {
            Some(hop) => hop,
            None => unprotected(self.plain.lookup(dst)),
        }
    }

    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        assert_eq!(dsts.len(), hops.len());
        match &self.protections {
            Some(table) => table.lookup_batch(dsts, hops),
            None => hops.fill(Hop::NONE),
        }
        let mut from = 0;
        while let Some(skip) = hops[from..].iter().position(|hop| hop.is_none()) {
            from += skip;
            let run = hops[from..].iter().take_while(|hop| hop.is_none()).count();
            let (dsts, hops) = (&dsts[from..][..run], &mut hops[from..][..run]);
            self.plain.lookup_batch(dsts, hops);
            hops.iter_mut().for_each(|hop| *hop = unprotected(*hop));
            from += run;
        }
    }

    fn isa(&self) -> &'static str {
        self.plain.isa()
    }

    /// Those of the plain view are its own.
    fn bytes(&self) -> usize {
        self.protections.as_ref().map_or(0, |table| table.bytes())
    }
}

/// What leads to no other network stays as it is.
fn unprotected(hop: Hop) -> Hop {
    match hop {
        fixed::FOR_US | fixed::MULTICAST | fixed::MARTIAN | fixed::BLACKHOLE | fixed::NOT_READY => {
            hop
        }
        _ => withheld(hop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookup::Rib;

    struct Plain(Rib<u32>);

    impl Lpm<u32> for Plain {
        fn lookup(&self, dst: u32) -> Hop {
            self.0.lookup(dst).map(|(_, hop)| hop).unwrap_or_default()
        }
        fn lookup_batch(&self, dsts: &[u32], hops: &mut [Hop]) {
            dsts.iter().zip(hops).for_each(|(dst, hop)| *hop = self.lookup(*dst));
        }
        fn bytes(&self) -> usize {
            1000
        }
    }

    fn table(all: &[(u32, u8, Hop)]) -> Arc<dyn Lpm<u32>> {
        let mut rib = Rib::new();
        for &(first, len, hop) in all {
            rib.apply(&Change { prefix: Prefix::covering(first, len), hop: Some(hop) });
        }
        Arc::new(Plain(rib))
    }

    #[test]
    fn a_batch_is_what_each_is() {
        let plain = table(&[
            (0, 0, Hop(20)),
            (0x0a01_0000, 16, Hop(21)),
            (0x0a02_0001, 32, fixed::FOR_US),
            (0x0b00_0000, 8, fixed::NOT_READY),
        ]);
        let protections = table(&[(0x0a00_0000, 15, Hop(30)), (0x0a01_ff00, 24, Hop(31))]);
        let view = View { protections: Some(protections), plain: plain.clone() };
        let dsts: Vec<u32> =
            (0..4096_u32).map(|i| 0x09ff_0000 + i * 0x9_8765 % 0x0202_0002).collect();
        let dsts = [&dsts[..], &[0x0a02_0001, 0x0b00_0001]].concat();
        for n in [0, 1, 2, 3, 64, dsts.len()] {
            let mut hops = vec![Hop(99); n];
            view.lookup_batch(&dsts[..n], &mut hops);
            assert!(dsts.iter().zip(&hops).all(|(dst, hop)| view.lookup(*dst) == *hop), "{n}");
        }
        assert_eq!(view.lookup(0x0a01_0001), Hop(30), "its route is hidden");
        assert_eq!(view.lookup(0x0a01_ff01), Hop(31));
        assert_eq!(view.lookup(0x0a02_0000), withheld(Hop(20)));
        assert_eq!(view.lookup(0x0a02_0001), fixed::FOR_US);
        assert_eq!(view.lookup(0x0b00_0001), fixed::NOT_READY);
        assert_eq!(view.bytes(), 1000);
        let empty = View { protections: None, plain };
        let mut hops = [Hop(1); 2];
        empty.lookup_batch(&[0x0a00_0001, 0x0a02_0001], &mut hops);
        assert_eq!((hops, empty.bytes()), ([withheld(Hop(20)), fixed::FOR_US], 0));
    }
}
