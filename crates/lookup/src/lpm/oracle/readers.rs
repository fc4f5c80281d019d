//! What readers see while the writer is at work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testing::Stops;

use super::{Applied, Rng, Route, Suite, probes, scaled, shuffle};
use crate::rib::Change;
use crate::{Addr, Hop, Prefix, Rib};

impl<A: Addr> Suite<A> {
    /// While half of the routes change and come and go, every answer is the
    /// hop, old or new, of a prefix on the way to the first that stays.
    pub(crate) fn readers_see_old_or_new(&self) {
        let mut rng = Rng::new(6);
        let unique: BTreeMap<_, _> = (0..scaled(200)).map(|_| self.route(&mut rng)).collect();
        let routes: Vec<Route<A>> = unique.into_iter().collect();
        let mut built = self.built(&routes);
        let mut dsts = probes(&routes, &mut rng);
        shuffle(&mut dsts, &mut rng);
        dsts.truncate(if cfg!(miri) { 20 } else { 512 });
        let (moving, legal): (Vec<_>, Vec<_>) = {
            let moving: Vec<_> = routes.iter().copied().filter(|_| rng.below(2) == 0).collect();
            let legal = dsts.iter().map(|&dst| legal_hops(dst, &built.rib, &moving)).collect();
            (moving, legal)
        };
        let (table, stop, bursts) =
            (built.writer.table(), AtomicBool::new(false), AtomicU64::new(0));
        let mut reader = built.domain.register("reader");
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| {
                let mut hops = vec![Hop::NONE; dsts.len()];
                while !stop.load(Ordering::Relaxed) {
                    table.lookup_batch(&dsts, &mut hops);
                    let wrong = (0..dsts.len()).find(|&i| !legal[i].contains(&hops[i]));
                    if let Some(i) = wrong {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{:#x?}: {:?} not in {:?}", dsts[i], hops[i], legal[i]);
                    }
                    bursts.fetch_add(1, Ordering::Relaxed);
                    reader.quiesce();
                }
                reader.offline();
            });
            let (mut rounds, begun) = (0, Instant::now());
            let enough = |rounds| {
                (rounds >= scaled(1500) || begun.elapsed() > LONG_ENOUGH)
                    && bursts.load(Ordering::Relaxed) > 20
            };
            while !stop.load(Ordering::Relaxed) && !enough(rounds) {
                let (prefix, hop) = moving[rng.below(moving.len() as u32) as usize];
                let hop = [None, Some(hop), Some(moved(hop))][rng.below(3) as usize];
                let change = Change { prefix, hop };
                built.rib.apply(&change);
                match built.writer.apply(&built.rib, &[change]) {
                    Ok(Applied::InPlace) => {}
                    Ok(Applied::Rebuild) => break,
                    Err(_) => std::thread::yield_now(), // garbage limit: the reader sleeps
                }
                rounds += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    /// Routes that stay answer as ever while others come and go in the same nodes: one
    /// that is rewritten under its readers answers with its neighbours' hops for a moment.
    pub(crate) fn no_reader_sees_a_torn_node(&self) {
        let bases = if A::WIDTH == 32 { &[16, 20, 24][..] } else { &[24, 32, 48, 60] };
        let most = if cfg!(miri) { 4 } else { CHILDREN };
        let place = Rng::new(11).addr::<A>();
        let child = |&base: &u8, i: u32| {
            let bits = A::from_u128(u128::from(i) << (A::WIDTH - base - 6));
            let first = Prefix::covering(place, base).first();
            Prefix::covering(first.or(bits), base + 6)
        };
        let mut routes = vec![(Prefix::covering(place, bases[0]), Hop(1))];
        for (at, base) in (0..).zip(bases) {
            routes.extend((0..most).map(|i| (child(base, i), Hop(10 + 100 * at + i))));
        }
        // Where prefixes of two places are one, the later counts.
        let mut built = self.built(&routes);
        let staying: Vec<Route<A>> = built.rib.iter().filter(|(_, hop)| !moves(*hop)).collect();
        let dsts: Vec<A> = staying.iter().map(|(prefix, _)| prefix.first()).collect();
        let ours = |dst: &A| built.rib.covering(Prefix::covering(*dst, A::WIDTH)).next();
        let stays = |dst: &&A| ours(dst).is_some_and(|(_, hop)| !moves(hop));
        let dsts: Vec<A> = dsts.iter().filter(stays).copied().collect();
        let want: Vec<Hop> = dsts.iter().map(|dst| built.rib.lookup(*dst).unwrap().1).collect();
        let moving: Vec<Route<A>> = built.rib.iter().filter(|(_, hop)| moves(*hop)).collect();
        let (table, stop, bursts) =
            (built.writer.table(), AtomicBool::new(false), AtomicU64::new(0));
        let mut reader = built.domain.register("reader");
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| {
                let _stops = Stops(&stop);
                let mut hops = vec![Hop::NONE; dsts.len()];
                while !stop.load(Ordering::Relaxed) {
                    table.lookup_batch(&dsts, &mut hops);
                    assert_eq!(hops, want, "{} in a batch", self.name());
                    for (dst, want) in dsts.iter().zip(&want) {
                        assert_eq!(table.lookup(*dst), *want, "{} {dst:x?}", self.name());
                    }
                    bursts.fetch_add(1, Ordering::Relaxed);
                    reader.quiesce();
                }
                reader.offline();
            });
            let (mut rng, begun, mut rounds) = (Rng::new(12), Instant::now(), 0);
            let enough = |rounds: u64| {
                let seen = bursts.load(Ordering::Relaxed) > scaled(20);
                seen && (begun.elapsed() > A_WHILE || cfg!(miri) && rounds > 20)
            };
            while !stop.load(Ordering::Relaxed) && !enough(rounds) {
                let (prefix, hop) = moving[rng.below(moving.len() as u32) as usize];
                let change = Change { prefix, hop: (rng.below(2) == 0).then_some(hop) };
                built.rib.apply(&change);
                match built.writer.apply(&built.rib, &[change]) {
                    Ok(Applied::InPlace) => {}
                    Ok(Applied::Rebuild) => break,
                    Err(_) => std::thread::yield_now(),
                }
                rounds += 1;
            }
        });
    }
}

/// The lowest of a node's children come and go, so that the place of all others moves.
fn moves(hop: Hop) -> bool {
    hop.0 >= 10 && (hop.0 - 10) % 100 < MOVING
}

fn legal_hops<A: Addr>(dst: A, rib: &Rib<A>, moving: &[Route<A>]) -> Vec<Hop> {
    let mut legal = Vec::new();
    for (prefix, hop) in rib.covering(Prefix::covering(dst, A::WIDTH)) {
        legal.push(hop);
        if !moving.iter().any(|(moves, _)| *moves == prefix) {
            return legal;
        }
        legal.push(moved(hop));
    }
    legal.push(Hop::NONE);
    legal
}

/// The hop that a moving route has half of the time.
fn moved(hop: Hop) -> Hop {
    Hop(hop.0 + 2000)
}

/// Under a sanitizer an engine that paints takes minutes for all rounds.
const LONG_ENOUGH: Duration = Duration::from_secs(5);

/// Long enough for a reader to look into a node while it is written.
const A_WHILE: Duration = Duration::from_millis(600);

const CHILDREN: u32 = 64;

const MOVING: u32 = if cfg!(miri) { 2 } else { 8 };

/// A writer that panics ends the suite with its message, and not never.
#[test]
fn a_panic_of_the_writer_ends_the_suite() {
    use std::sync::Arc;

    use crate::lpm::{Card, Entry, Lpm, Refusal, Writer, bsd_radix};

    struct Panics(Arc<dyn Lpm<u32>>);

    impl Writer<u32> for Panics {
        fn table(&self) -> Arc<dyn Lpm<u32>> {
            self.0.clone()
        }
        fn apply(&mut self, _: &Rib<u32>, _: &[Change<u32>]) -> Result<Applied, Refusal> {
            panic!("planted")
        }
    }

    const CARD: &Card = bsd_radix::ENTRY.card;
    let entry = Entry::<u32> {
        card: CARD,
        build: |rib, options, domain| {
            let built = (bsd_radix::ENTRY.build)(rib, options, domain)?;
            Ok(Box::new(Panics(built.table())))
        },
    };
    for test in [Suite::readers_see_old_or_new, Suite::no_reader_sees_a_torn_node] {
        let suite = std::panic::AssertUnwindSafe(Suite::new(entry, &[]));
        let panic = std::panic::catch_unwind(move || test(&suite)).expect_err("it panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"planted"));
    }
}
