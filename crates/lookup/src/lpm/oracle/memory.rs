//! What engines owe about memory: they use it again, tell it, and lose nothing
//! where there is none.

use super::{Applied, Rng, Suite, edges, scaled};
use crate::rib::Change;
use crate::{Addr, Hop, heap, pages};

impl<A: Addr> Suite<A> {
    pub(crate) fn memory_is_used_again(&self) {
        let mut rng = Rng::new(5);
        let routes: Vec<_> = (0..scaled(100)).map(|_| self.route(&mut rng)).collect();
        let mut built = self.built(&routes);
        let mut after_a_while = 0;
        for round in 0..scaled(if cfg!(miri) { 160 } else { 400 }) {
            // The same few prefixes come and go with changing hops.
            for (prefix, _) in &routes[..routes.len().min(10)] {
                let hop = (rng.below(3) > 0).then(|| Hop(1 + rng.below(200)));
                self.apply(&mut built, &[Change { prefix: *prefix, hop }]);
            }
            if round == scaled(100) {
                after_a_while = built.writer.table().bytes();
            }
        }
        // What an empty table has would hide what leaks; some waits for readers.
        let (bytes, empty) = (built.writer.table().bytes(), self.built(&[]).writer.table().bytes());
        let most = after_a_while + after_a_while.saturating_sub(empty) / 2 + WAITING;
        assert!(bytes <= most, "{}: {empty}, {after_a_while} -> {bytes}", self.name());
    }

    /// The table's bytes grow with the routes, and the writer's are what goes from the
    /// heap with it.
    pub(crate) fn memory_is_told(&self) {
        let mut rng = Rng::new(8);
        let routes: Vec<_> =
            (0..if cfg!(miri) { 30 } else { 3000 }).map(|_| self.route(&mut rng)).collect();
        let mut built = self.built(&routes);
        for (prefix, _) in routes.iter().take(routes.len() / 4) {
            let change = Change { prefix: *prefix, hop: Some(Hop(1 + rng.below(200))) };
            self.apply(&mut built, &[change]);
        }
        let (table, writers) = (built.writer.table(), built.writer.bytes());
        let with_it = heap::live();
        drop(built.writer);
        let went = (with_it - heap::live()).unsigned_abs();
        let told = format!("{}: {writers} told, {went} went", self.name());
        assert!(writers.abs_diff(went) <= (16 << 10) + went / 4, "{told}");
        let (empty, tables) = (self.built(&[]).writer.table().bytes(), table.bytes());
        assert!(tables >= empty + built.rib.len(), "{}: table {tables}, {empty}", self.name());
    }

    /// Address space is what `ulimit -v` and strict overcommit count: a few routes need little,
    /// and what an engine takes for them is all but what it has for none.
    pub(crate) fn reservations_follow_need(&self) {
        #[cfg(not(miri))]
        for routes in [0, 300] {
            let mut rng = Rng::new(16);
            let routes: Vec<_> = (0..routes).map(|_| self.route(&mut rng)).collect();
            let before = pages::address_space();
            let built = self.built(&routes);
            let (taken, bytes) = (pages::address_space() - before, built.writer.table().bytes());
            let figures = format!("{}: {taken} for {bytes} of {}", self.name(), routes.len());
            assert!(taken <= 4 * bytes + LEAST_SPACE, "{figures}");
        }
    }

    /// A machine that has nothing left: what is there goes on, and when there is
    /// memory again, so does the writer.
    pub(crate) fn without_memory_no_route_is_lost(&self) {
        let mut rng = Rng::new(9);
        let routes: Vec<_> = (0..scaled(60)).map(|_| self.route(&mut rng)).collect();
        let mut built = self.built(&routes);
        for _ in 0..scaled(100) {
            let before = built.rib.clone();
            let changes: Vec<_> = (0..3).map(|_| self.change(&built.rib, &mut rng)).collect();
            changes.iter().for_each(|change| {
                built.rib.apply(change);
            });
            match without_memory(|| built.writer.apply(&built.rib, &changes)) {
                Ok(Applied::InPlace) => {}
                Ok(Applied::Rebuild) => match without_memory(|| self.built_of(&built)) {
                    Ok(writer) => built.writer = writer,
                    Err(_) => built.writer = self.built_of(&built).expect("there is memory"),
                },
                Err(_) => built.rib = before,
            }
            let dsts: Vec<A> = changes.iter().flat_map(|c| edges(&c.prefix)).collect();
            built.agree(self.name(), &dsts);
        }
        self.goes_on(&mut built, &mut rng);
    }
}

/// On a machine that has no memory left to grow.
fn without_memory<T>(work: impl FnOnce() -> T) -> T {
    pages::PRETENDED.set(Some(0));
    let mut left = pages::STEP as usize; // what other tests were granted
    while left > 0 {
        if pages::admit(left).is_err() {
            left /= 2;
        }
    }
    let done = work();
    pages::PRETENDED.set(None);
    done
}

/// Bytes of address space that a small table may take beside four times its bytes.
#[cfg(not(miri))]
const LEAST_SPACE: usize = 192 << 20;

/// Bytes that may wait for a grace period, beside half of what is used.
const WAITING: usize = 16 << 10;
