//! The slow, plainly right answer, and the tests that every engine owes it.
//!
//! `conformance!(u32, ENTRY)` at the bottom of an engine's tests instantiates
//! the whole suite; `conformance!(d18r: u32, ENTRY, "k" = "18")` once more, with
//! options, in a module of its own.

mod growth;
mod memory;
mod nodes;
mod planted;
mod readers;
mod routes;

use std::sync::Arc;

use super::isa::Isa;
use super::{Applied, Engines, Entry, Intervals, Options, Refusal, Writer};
use crate::pages::Guarded;
use crate::rib::Change;
use crate::sync::Domain;
use crate::{Addr, Hop, Prefix, Rib};

pub(crate) use crate::rng::Rng;

/// A list of routes, searched from end to end.
pub(crate) struct Linear<A>(Vec<(Prefix<A>, Hop)>);

impl<A: Addr> Linear<A> {
    pub(crate) fn new(routes: &[(Prefix<A>, Hop)]) -> Self {
        Linear(routes.to_vec())
    }

    pub(crate) fn route(&self, dst: A) -> Option<(Prefix<A>, Hop)> {
        let covers = |(prefix, _): &&(Prefix<A>, Hop)| prefix.contains(dst);
        // max_by_key returns the last of equals: the later route wins.
        self.0.iter().filter(covers).max_by_key(|(prefix, _)| prefix.len()).copied()
    }

    pub(crate) fn lookup(&self, dst: A) -> Hop {
        self.route(dst).map_or(Hop::NONE, |(_, hop)| hop)
    }
}

/// Instantiates the whole suite for one engine (and one set of options).
macro_rules! conformance {
    ($addr:ty, $entry:expr) => {
        $crate::lpm::oracle::conformance!(conformance: $addr, $entry);
    };
    ($name:ident: $addr:ty, $entry:expr $(, $option:literal = $value:literal)*) => {
        mod $name {
            use super::*;

            fn suite() -> $crate::lpm::oracle::Suite<$addr> {
                $crate::lpm::oracle::Suite::new($entry, &[$(($option, $value)),*])
            }

            $crate::lpm::oracle::conformance!(@tests
                agrees_with_the_oracle,
                batch_agrees_with_scalar_at_every_length,
                an_empty_table_has_no_route,
                a_default_route_answers_everywhere,
                every_length_is_taken,
                the_largest_hop_is_taken_and_a_larger_one_refused,
                updates_leave_what_a_rebuild_gives,
                a_refused_update_changes_nothing,
                memory_is_used_again,
                memory_is_told,
                reservations_follow_need,
                without_memory_no_route_is_lost,
                hops_of_every_size_are_found,
                wider_hops_come_by_updates,
                dense_nodes_answer,
                crowded_blocks_answer,
                memory_stays_near_a_fresh_build,
                bytes_are_what_the_allocator_gave,
                nothing_is_left_behind,
                a_silent_reader_stops_the_writer,
                readers_see_old_or_new,
                no_reader_sees_a_torn_node
            );
        }
    };
    (@tests $($test:ident),*) => {
        $(
            #[test]
            fn $test() {
                suite().$test();
            }
        )*
    };
}
pub(crate) use conformance;

/// An engine under test.
pub(crate) struct Suite<A: Addr> {
    entry: Entry<A>,
    options: Options,
}

/// A table, its writer, and the routes that both should stand for.
struct Built<A: Addr> {
    rib: Rib<A>,
    writer: Box<dyn Writer<A>>,
    domain: Arc<Domain>,
}

type Route<A> = (Prefix<A>, Hop);

impl<A: Addr> Suite<A> {
    pub(crate) fn new(entry: Entry<A>, options: &[(&str, &str)]) -> Self {
        let named = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Suite { entry, options: Options(options.iter().map(named).collect()) }
    }

    pub(crate) fn agrees_with_the_oracle(&self) {
        for seed in 0..scaled(24) {
            let mut rng = Rng::new(seed);
            let count = scaled(1 << (seed % 9));
            let routes: Vec<_> = (0..count).map(|_| self.route(&mut rng)).collect();
            let built = self.built(&routes);
            let (table, oracle) = (built.writer.table(), Linear::new(&routes));
            for dst in probes(&routes, &mut rng) {
                let (got, want) = (table.lookup(dst), oracle.lookup(dst));
                assert_eq!(got, want, "{} seed {seed} dst {dst:#x?}\n{routes:x?}", self.name());
            }
        }
    }

    pub(crate) fn batch_agrees_with_scalar_at_every_length(&self) {
        let mut rng = Rng::new(7);
        let routes: Vec<_> = (0..scaled(300)).map(|_| self.route(&mut rng)).collect();
        let table = self.built(&routes).writer.table();
        let mut dsts = probes(&routes, &mut rng);
        shuffle(&mut dsts, &mut rng);
        let most = dsts.len().min(if cfg!(miri) { 70 } else { 650 });
        let (asked, mut found) =
            (Guarded::from(&dsts[..most]), Guarded::from(&vec![Hop(99); most][..]));
        for len in (0..=most).filter(|len| !cfg!(miri) || *len < 18 || len % 17 == 0) {
            // Every length, and every alignment; nothing behind either end may be touched.
            let (dsts, hops) = (&asked[most - len..], &mut found[most - len..]);
            hops.fill(Hop(99));
            table.lookup_batch(dsts, hops);
            let want: Vec<_> = dsts.iter().map(|&dst| table.lookup(dst)).collect();
            assert_eq!(hops, want, "{} length {len}", self.name());
        }
        // What one key asks for is not taken back by another like it in the same lane.
        for pair in dsts.windows(2).step_by(if cfg!(miri) { 16 } else { 4 }) {
            let want = [table.lookup(pair[0]), table.lookup(pair[1])];
            let of_pair: [usize; 64] = std::array::from_fn(|i| usize::from(i % 16 < 5));
            for len in [16 + 5, 64] {
                let mut hops = [Hop(99); 64];
                table.lookup_batch(&of_pair.map(|i| pair[i])[..len], &mut hops[..len]);
                let wrong = (0..len).find(|&i| hops[i] != want[of_pair[i]]);
                assert_eq!(wrong, None, "{} {pair:x?} length {len}", self.name());
            }
        }
    }

    pub(crate) fn an_empty_table_has_no_route(&self) {
        let table = self.built(&[]).writer.table();
        for dst in probes(&[], &mut Rng::new(1)) {
            assert_eq!(table.lookup(dst), Hop::NONE);
        }
    }

    pub(crate) fn a_default_route_answers_everywhere(&self) {
        let mut built = self.built(&[(Prefix::all(), Hop(5))]);
        let dsts = probes::<A>(&[], &mut Rng::new(2));
        for hop in [Some(Hop(5)), Some(Hop(6)), None] {
            self.apply(&mut built, &[Change { prefix: Prefix::all(), hop }]);
            let mut hops = vec![Hop(99); dsts.len()];
            built.writer.table().lookup_batch(&dsts, &mut hops);
            assert!(hops.iter().all(|&got| got == hop.unwrap_or(Hop::NONE)), "{hop:?}");
        }
    }

    pub(crate) fn every_length_is_taken(&self) {
        let mut rng = Rng::new(3);
        let anywhere = rng.addr::<A>();
        let mut routes: Vec<Route<A>> = Vec::new();
        for len in (0..=self.max_len()).filter(|&len| !cfg!(miri) || len % (A::WIDTH / 4) == 0) {
            let hop = Hop(u32::from(len) + 1);
            for addr in [anywhere, A::default(), A::MAX, rng.addr()] {
                routes.push((Prefix::covering(addr, quick(len)), hop));
            }
        }
        let mut built = self.built(&routes);
        built.agree(self.name(), &probes(&routes, &mut rng));
        // And taken away again, the longest first, as nested as they are.
        for (prefix, _) in routes.iter().rev() {
            self.apply(&mut built, &[Change { prefix: *prefix, hop: None }]);
            built.agree(self.name(), &edges(prefix));
        }
    }

    pub(crate) fn the_largest_hop_is_taken_and_a_larger_one_refused(&self) {
        let most = Hop(self.entry.card.max_hop);
        for len in [0, 8, 24, 32, 48, 64, 128] {
            let prefix = Prefix::covering(A::MAX, quick(len.min(self.max_len())));
            let built = self.built(&[(prefix, most)]);
            assert_eq!(built.writer.table().lookup(A::MAX), most, "/{len}");
            let beyond = [(prefix, Hop(most.0 + 1))].into_iter().collect();
            let refusal = self.build(&beyond, &Domain::new()).err();
            let refusal = refusal.expect("the hop is beyond the limit");
            assert_eq!(refusal.engine, self.name());
            assert!(refusal.limit.contains(&most.0.to_string()), "{refusal}");
        }
    }

    pub(crate) fn updates_leave_what_a_rebuild_gives(&self) {
        for seed in 0..scaled(5) {
            let mut rng = Rng::new(100 + seed);
            let count = scaled(if seed == 0 { 0 } else { 150 });
            let routes: Vec<_> = (0..count).map(|_| self.route(&mut rng)).collect();
            let mut built = self.built(&routes);
            for round in 0..scaled(80) {
                let changes: Vec<_> =
                    (0..1 + rng.below(9)).map(|_| self.change(&built.rib, &mut rng)).collect();
                self.apply(&mut built, &changes);
                let mut dsts: Vec<A> = changes.iter().flat_map(|c| edges(&c.prefix)).collect();
                if round % 16 == 15 {
                    let all: Vec<_> = built.rib.iter().collect();
                    dsts.extend(probes(&all, &mut rng));
                }
                built.agree(self.name(), &dsts);
            }
        }
    }

    pub(crate) fn a_refused_update_changes_nothing(&self) {
        let mut rng = Rng::new(4);
        let routes: Vec<_> = (0..scaled(60)).map(|_| self.route(&mut rng)).collect();
        let mut built = self.built(&routes);
        let before = built.rib.clone();
        let too_large = Hop(self.entry.card.max_hop + 1);
        for _ in 0..scaled(10) {
            let mut changes: Vec<_> = (0..4).map(|_| self.change(&built.rib, &mut rng)).collect();
            let at = rng.below(4) as usize;
            changes[at].hop = Some(too_large);
            // The last change of a prefix counts; this one must be it.
            let refused = changes[at].prefix;
            changes.retain(|c| c.prefix != refused || c.hop == Some(too_large));
            changes.iter().for_each(|change| {
                built.rib.apply(change);
            });
            match built.writer.apply(&built.rib, &changes) {
                Err(_) => {}
                Ok(Applied::Rebuild) => assert!(self.build(&built.rib, &built.domain).is_err()),
                Ok(Applied::InPlace) => panic!("{} took hop {too_large:?}", self.name()),
            }
            built.rib = before.clone();
            let dsts: Vec<A> = changes.iter().flat_map(|c| edges(&c.prefix)).collect();
            built.agree(self.name(), &dsts);
        }
        self.goes_on(&mut built, &mut rng);
    }

    /// Hops around each width in which an engine may keep them, alone and mixed.
    pub(crate) fn hops_of_every_size_are_found(&self) {
        let most = self.entry.card.max_hop;
        let tops = [1, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0xff_ffff, most];
        for top in tops.into_iter().step_by(if cfg!(miri) { 4 } else { 1 }) {
            let (top, mut rng) = (top.min(most), Rng::new(top.into()));
            let hop = |rng: &mut Rng| Hop(if rng.below(2) == 0 { top } else { 1 + rng.below(top) });
            let route = |rng: &mut Rng| (self.route(rng).0, hop(rng));
            let routes: Vec<_> = (0..scaled(100)).map(|_| route(&mut rng)).collect();
            let mut built = self.built(&routes);
            for round in 0..2 {
                let dsts = probes(&built.rib.iter().collect::<Vec<_>>(), &mut rng);
                built.agree(self.name(), &dsts);
                let (table, mut hops) = (built.writer.table(), vec![Hop(99); dsts.len()]);
                table.lookup_batch(&dsts, &mut hops);
                let wrong = dsts.iter().zip(&hops).find(|&(&dst, &hop)| table.lookup(dst) != hop);
                assert_eq!(wrong, None, "{} round {round} to {top}", self.name());
                let changes: Vec<_> = (0..8)
                    .map(|_| Change {
                        hop: Some(hop(&mut rng)),
                        ..self.change(&built.rib, &mut rng)
                    })
                    .collect();
                self.apply(&mut built, &changes);
            }
        }
    }

    fn name(&self) -> &'static str {
        self.entry.card.name
    }

    fn max_len(&self) -> u8 {
        self.entry.card.max_len.min(A::WIDTH)
    }

    fn build(&self, rib: &Rib<A>, domain: &Arc<Domain>) -> Result<Box<dyn Writer<A>>, Refusal> {
        (self.entry.build)(rib, &self.options, domain)
    }

    fn built_of(&self, built: &Built<A>) -> Result<Box<dyn Writer<A>>, Refusal> {
        self.build(&built.rib, &built.domain)
    }

    fn built(&self, routes: &[Route<A>]) -> Built<A> {
        let (rib, domain) = (routes.iter().copied().collect(), Domain::new());
        let writer = self.build(&rib, &domain).expect("within the engine's limits");
        Built { rib, writer, domain }
    }

    fn apply(&self, built: &mut Built<A>, changes: &[Change<A>]) -> Applied {
        changes.iter().for_each(|change| {
            built.rib.apply(change);
        });
        let applied = built.writer.apply(&built.rib, changes).expect("within the limits");
        if applied == Applied::Rebuild {
            built.writer = self.build(&built.rib, &built.domain).expect("within the limits");
        }
        applied
    }

    /// After refusals: the next change is taken, and all is right.
    fn goes_on(&self, built: &mut Built<A>, rng: &mut Rng) {
        let change = self.change(&built.rib, rng);
        self.apply(built, &[change]);
        let all: Vec<_> = built.rib.iter().collect();
        built.agree(self.name(), &probes(&all, rng));
    }

    fn route(&self, rng: &mut Rng) -> Route<A> {
        let (prefix, hop) = rng.route::<A>();
        let len = quick(prefix.len().min(self.max_len()));
        (Prefix::covering(prefix.first(), len), hop)
    }

    /// An insert, a change, a delete, or a delete of what is not there.
    fn change(&self, rib: &Rib<A>, rng: &mut Rng) -> Change<A> {
        let (prefix, hop) = self.route(rng);
        let there = rib.iter().nth(rng.below(rib.len().max(1) as u32) as usize);
        match (rng.below(8), there) {
            (0..=2, Some((prefix, _))) => Change { prefix, hop: None },
            (3..=4, Some((prefix, _))) => Change { prefix, hop: Some(hop) },
            (5, _) => Change { prefix, hop: None },
            _ => Change { prefix, hop: Some(hop) },
        }
    }
}

impl<A: Addr> Built<A> {
    fn agree(&self, name: &str, dsts: &[A]) {
        let routes: Vec<_> = self.rib.iter().collect();
        let (table, flat) = (self.writer.table(), Intervals::new(routes.iter().copied()));
        for &dst in dsts {
            let (got, want) = (table.lookup(dst), flat.lookup(dst));
            assert_eq!(got, want, "{name} dst {dst:#x?}\n{routes:x?}");
        }
    }
}

/// An engine with one instruction set, where this processor has it; the suite with
/// the best one runs the rest.
pub(crate) fn passes_with_isa<A: Addr>(entry: Entry<A>, isa: &str) {
    if Isa::named(isa).is_none() {
        return testing::skip(format_args!("no {isa}"));
    }
    let suite = Suite::new(entry, &[("isa", isa)]);
    suite.agrees_with_the_oracle();
    suite.batch_agrees_with_scalar_at_every_length();
}

/// Addresses at, and one beside, both ends of every prefix; then random ones.
/// Errors live at the edges: uniform addresses alone would almost never hit a /30.
pub(crate) fn probes<A: Addr>(routes: &[Route<A>], rng: &mut Rng) -> Vec<A> {
    let mut all: Vec<A> = routes.iter().flat_map(|(prefix, _)| edges(prefix)).collect();
    all.extend([A::default(), A::MAX]);
    all.extend((0..scaled(128)).map(|_| rng.addr::<A>()));
    all.extend((0..scaled(128)).map(|_| rng.near::<A>()));
    all
}

fn edges<A: Addr>(prefix: &Prefix<A>) -> [A; 4] {
    let (first, last) = (prefix.first(), prefix.last());
    [first, last, first.minus(1), last.plus(1)]
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i as u32 + 1) as usize);
    }
}

/// Under miri, which is a thousand times slower, a twentieth.
fn scaled(count: u64) -> u64 {
    if cfg!(miri) { count.div_ceil(20) } else { count }
}

/// Under miri no prefix but /0 is shorter than /14: engines that paint would write
/// thousands of entries, or millions.
fn quick(len: u8) -> u8 {
    if cfg!(miri) && len > 0 { len.max(14) } else { len }
}

fn the_registry_is_complete<A: Engines>() {
    let mut names: Vec<_> = A::engines().iter().map(|entry| entry.card.name).collect();
    assert!(names.contains(&A::DEFAULT), "{}: no default engine", A::FAMILY);
    for entry in A::engines() {
        let card = entry.card;
        assert!(!card.paper.is_empty() && !card.help.is_empty(), "{}", card.name);
        assert!(
            !card.help.contains('\n') && card.help.len() <= 100,
            "{}: {}",
            card.name,
            card.help
        );
        assert!(card.max_hop > 0 && card.max_len <= A::WIDTH, "{}", card.name);
        let build = |options: Options| (entry.build)(&Rib::new(), &options, &Domain::new());
        let default = |(name, value, _): &(&str, &str, &str)| (name.to_string(), value.to_string());
        let defaults = Options(card.options.iter().map(default).collect());
        assert!(build(defaults).is_ok(), "{}: its defaults are refused", card.name);
        let unknown = Options([("no-such-option".to_string(), "1".to_string())].into());
        assert!(build(unknown).is_err(), "{}: an unknown option is taken", card.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), A::engines().len(), "two engines of one name");
}

#[test]
fn the_registries_are_complete() {
    the_registry_is_complete::<u32>();
    the_registry_is_complete::<u128>();
}
