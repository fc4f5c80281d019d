//! Nodes as full as they can be, prefixes longer than the Internet's in crowded blocks, and
//! hops that outgrow the width they were built with.

use super::{Rng, Suite, edges, probes, quick, scaled, shuffle};
use crate::rib::Change;
use crate::{Addr, Hop, Prefix};

impl<A: Addr> Suite<A> {
    /// A table of small hops gets large ones by updates, by each width that an engine may
    /// keep them in.
    pub(crate) fn wider_hops_come_by_updates(&self) {
        let most = self.entry.card.max_hop;
        let tops = [0x101, 0x8001, 0x1_0001, 0x2_3456, 0x100_0001, most];
        for top in tops.into_iter().step_by(if cfg!(miri) { 2 } else { 1 }) {
            let (top, mut rng) = (top.min(most), Rng::new(top.into()));
            let small = |rng: &mut Rng| (self.route(rng).0, Hop(1 + rng.below(100)));
            let routes: Vec<_> = (0..scaled(100)).map(|_| small(&mut rng)).collect();
            let mut built = self.built(&routes);
            for round in 0..scaled(12) as u32 {
                let prefix = match rng.below(2) {
                    0 => routes[rng.below(routes.len() as u32) as usize].0,
                    _ => self.route(&mut rng).0,
                };
                let hop = Some(Hop(top - round % 3));
                self.apply(&mut built, &[Change { prefix, hop }]);
                built.agree(self.name(), &edges(&prefix));
            }
            let dsts = probes(&built.rib.iter().collect::<Vec<_>>(), &mut rng);
            built.agree(self.name(), &dsts);
        }
    }

    /// All 511 prefixes of a block and its 8 bits below, at many depths: built, grown one by
    /// one, and taken away.
    pub(crate) fn dense_nodes_answer(&self) {
        let bases: &[u8] =
            if A::WIDTH == 32 { &[13, 16, 24] } else { &[14, 16, 24, 40, 48, 56, 64, 120] };
        let fits = |base: &&u8| **base + BITS <= self.max_len() && quick(**base) == **base;
        for &base in bases.iter().filter(fits).step_by(if cfg!(miri) { 4 } else { 1 }) {
            let mut rng = Rng::new(base.into());
            let place = Prefix::covering(rng.addr::<A>(), base);
            let mut routes = Vec::new();
            for len in (base..=base + BITS).filter(|len| !cfg!(miri) || len % 4 == 0) {
                let all = (0..1_u128 << (len - base)).step_by(if cfg!(miri) { 37 } else { 1 });
                let under = |i: u128| {
                    place
                        .first()
                        .or(A::from_u128(i.checked_shl((A::WIDTH - len).into()).unwrap_or(0)))
                };
                let mut hop = || Hop(1 + rng.below(1000));
                routes.extend(all.map(|i| (Prefix::covering(under(i), len), hop())));
            }
            let dsts: Vec<A> = routes.iter().flat_map(|(prefix, _)| edges(prefix)).collect();
            self.built(&routes).agree(self.name(), &dsts);
            shuffle(&mut routes, &mut rng);
            let mut built = self.built(&[]);
            let change = |&(prefix, hop): &(Prefix<A>, Hop)| Change { prefix, hop: Some(hop) };
            for some in routes.chunks(64) {
                self.apply(&mut built, &some.iter().map(change).collect::<Vec<_>>());
            }
            built.agree(self.name(), &dsts);
            for some in routes.chunks(64).take(4) {
                let gone = some.iter().map(|route| Change { hop: None, ..change(route) });
                self.apply(&mut built, &gone.collect::<Vec<_>>());
            }
            built.agree(self.name(), &dsts);
        }
    }

    /// Many prefixes longer than /24 (IPv6: /48) in few blocks, as location data have them,
    /// beside the ones that cover them and their neighbours: all come and go.
    pub(crate) fn crowded_blocks_answer(&self) {
        let block = if A::WIDTH == 32 { 24 } else { 48 };
        for seed in 0..if cfg!(miri) { 1 } else { 3 } {
            let mut rng = Rng::new(40 + seed);
            let region = Prefix::covering(rng.addr::<A>(), block - 8);
            let blocks = 1 + 15 * seed as u32;
            let route = |rng: &mut Rng| {
                let at = A::from_u128(u128::from(rng.below(blocks)) << (A::WIDTH - block));
                let place = Prefix::covering(region.first().or(at), block);
                let addr = place.first().or(rng.addr::<A>().and(place.host_mask()));
                // One in five covers blocks.
                let len = match rng.below(5) {
                    0 => block - rng.below(9) as u8,
                    _ if A::WIDTH == 32 => block + 1 + rng.below(8) as u8,
                    1 => A::WIDTH,
                    _ => block + 1 + rng.below(16) as u8,
                };
                let prefix = Prefix::covering(addr, quick(len.min(self.max_len())));
                (prefix, Hop(1 + rng.below(9)))
            };
            let routes: Vec<_> =
                (0..scaled(7 * u64::from(blocks))).map(|_| route(&mut rng)).collect();
            let mut built = self.built(&routes);
            let dsts: Vec<A> = routes.iter().flat_map(|(prefix, _)| edges(prefix)).collect();
            built.agree(self.name(), &dsts);
            for round in 0..scaled(150) {
                let change = |rng: &mut Rng| {
                    let (prefix, hop) = match rng.below(2) {
                        0 => routes[rng.below(routes.len() as u32) as usize],
                        _ => route(rng),
                    };
                    Change { prefix, hop: (rng.below(2) == 0).then_some(hop) }
                };
                let some = if round % 5 == 4 { 7 } else { 1 };
                let changes: Vec<_> = (0..some).map(|_| change(&mut rng)).collect();
                self.apply(&mut built, &changes);
                let mut at: Vec<A> = changes.iter().flat_map(|c| edges(&c.prefix)).collect();
                at.extend(dsts.iter().skip(round as usize % 8).step_by(8));
                built.agree(self.name(), &at);
            }
        }
    }
}

/// Bits below a block: the widest stride of an engine.
const BITS: u8 = 8;
