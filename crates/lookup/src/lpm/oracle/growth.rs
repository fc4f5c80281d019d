//! What becomes of a table's memory in the long run, and of what waits for readers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Applied, Built, Rng, Route, Suite, edges, scaled};
use crate::rib::Change;
use crate::sync::patience;
use crate::{Addr, Hop, Prefix};

impl<A: Addr> Suite<A> {
    /// Routes come and go at ever new places: results that leak, nodes that are empty and
    /// stay, and holes in an arena would fill the memory. `RUTTER_CHANGES` makes it longer,
    /// and does the same with a table that is large beside what may be left over.
    pub(crate) fn memory_stays_near_a_fresh_build(&self) {
        let changes = std::env::var("RUTTER_CHANGES").ok().and_then(|n| n.parse().ok());
        // What an empty table has hides nothing of what a large one takes.
        let small = |_, empty: usize| (empty / 8).min(160 << 10) + SLACK;
        self.stays_near(700, changes.unwrap_or(24_000), small);
        if let Some(changes) = changes {
            self.stays_near(MANY_ROUTES, changes, |fresh, _| fresh / 8);
        }
    }

    /// With so many routes and changes; `beside` twice a fresh table (what an empty one has
    /// counts once), so many bytes of a fresh and an empty one may be left over.
    fn stays_near(&self, routes: u64, asked: u64, beside: impl Fn(usize, usize) -> usize) {
        let mut rng = Rng::new(13);
        let routes: Vec<_> = (0..scaled(routes)).map(|_| self.long_route(&mut rng)).collect();
        let mut built = self.built(&routes);
        let mut there: VecDeque<Prefix<A>> = built.rib.iter().map(|(prefix, _)| prefix).collect();
        let (begun, mut made, mut rebuilt, mut now) = (Instant::now(), 0, 0, 0);
        let patience = if asked > 100_000 { A_LONG_WHILE } else { A_WHILE };
        let bytes = |built: &Built<A>| built.writer.table().bytes();
        for round in 0..scaled(asked / 3) {
            let mut some = (0..9).map(|_| self.long_route(&mut rng));
            let new = some.find(|(prefix, _)| built.rib.get(prefix).is_none());
            let Some((prefix, hop)) = new else { continue };
            there.push_back(prefix);
            let gone = there.pop_front().expect("there are routes");
            let other = there[rng.below(there.len() as u32) as usize];
            let changes = [
                Change { prefix, hop: Some(hop) },
                Change { prefix: gone, hop: None },
                Change { prefix: other, hop: Some(Hop(1 + rng.below(200))) },
            ];
            if round % 64 == 0 {
                // Also of a table that starts anew where an arena is full.
                now = now.max(bytes(&built));
            }
            made += changes.len() as u64;
            rebuilt += u64::from(self.apply(&mut built, &changes) == Applied::Rebuild);
            // An engine that is built anew for most changes needs no more.
            if begun.elapsed() > patience || rebuilt > MANY_BUILDS + round / 8 {
                break;
            }
        }
        let all: Vec<_> = built.rib.iter().collect();
        let dsts: Vec<A> = all.iter().take(200).flat_map(|(prefix, _)| edges(prefix)).collect();
        built.agree(self.name(), &dsts);
        let (empty, fresh) = (bytes(&self.built(&[])), bytes(&self.built(&all)));
        let now = now.max(bytes(&built));
        let figures = format!(
            "{} {}: {now} bytes at most in {made} changes of {} routes, built anew {rebuilt} times; \
             fresh {fresh}, empty {empty}",
            A::FAMILY,
            self.name(),
            all.len(),
        );
        println!("{figures}");
        let most = 2 * fresh - empty.min(fresh) + beside(fresh, empty);
        assert!(now <= most, "{figures}: more than {most}");
    }

    /// What a table says that it takes, beside what the system and the heap gave for it.
    pub(crate) fn bytes_are_what_the_allocator_gave(&self) {
        #[cfg(not(miri))]
        {
            use crate::{heap, pages};
            pages::SMALL_PAGES.set(true);
            let mut rng = Rng::new(14);
            let routes: Vec<_> = (0..6000).map(|_| self.long_route(&mut rng)).collect();
            let mut built = self.built(&routes);
            self.some_come_and_go(&mut built, &mut rng, 200);
            let Built { rib, writer, domain } = built;
            let table = writer.table();
            drop(writer);
            drop((rib, domain));
            let told = table.bytes();
            let (with_it, before) = (heap::live() + pages::resident() as isize, pages::arrays());
            drop(table);
            let given = with_it - heap::live() - pages::resident() as isize;
            pages::SMALL_PAGES.set(false);
            // The last pages of each array are not full.
            let last = PAGES * (before - pages::arrays()) as isize + (16 << 10);
            let figures = format!("{}: {told} told, {given} given, {last}", self.name());
            assert!(2 * told as isize + last >= given, "{figures}");
        }
    }

    /// A table that followed its routes is dropped with its writer: of all that was built,
    /// changed and built anew nothing stays, in the heap or mapped.
    pub(crate) fn nothing_is_left_behind(&self) {
        use crate::heap;
        #[cfg(not(miri))]
        use crate::pages::arrays;
        #[cfg(miri)]
        let arrays = || 0; // they are of the heap
        let follow = || {
            let mut rng = Rng::new(17);
            let routes: Vec<_> = (0..scaled(200)).map(|_| self.long_route(&mut rng)).collect();
            let mut built = self.built(&routes);
            self.some_come_and_go(&mut built, &mut rng, scaled(60));
        };
        follow(); // once for what a thread takes for good
        let before = (heap::live(), arrays());
        follow();
        let after = (heap::live(), arrays());
        assert_eq!(after, before, "{}: bytes of the heap, and arrays", self.name());
    }

    /// Starts with an empty table and adds routes, some at once; how often it was built anew.
    #[cfg(not(miri))]
    pub(crate) fn builds_of_growth(&self, routes: &[Route<A>]) -> usize {
        let (mut built, mut builds) = (self.built(&[]), 0);
        for routes in routes.chunks(500) {
            let change = |&(prefix, hop): &Route<A>| Change { prefix, hop: Some(hop) };
            let changes: Vec<_> = routes.iter().map(change).collect();
            builds += usize::from(self.apply(&mut built, &changes) == Applied::Rebuild);
            let table = built.writer.table();
            for (prefix, hop) in routes {
                assert_eq!(table.lookup(prefix.last()), *hop, "{}: {prefix}", self.name());
            }
        }
        let all: Vec<A> = routes.iter().flat_map(|(prefix, _)| edges(prefix)).collect();
        built.agree(self.name(), &all);
        builds
    }

    /// In so many updates, or fewer where most are builds, each time one route less, one
    /// more and one with another hop.
    fn some_come_and_go(&self, built: &mut Built<A>, rng: &mut Rng, updates: u64) {
        let there: Vec<_> = built.rib.iter().map(|(prefix, _)| prefix).collect();
        let mut builds = 0;
        for gone in there.iter().step_by(2).take(updates as usize) {
            let (new, hop) = self.long_route(rng);
            let other = there[rng.below(there.len() as u32) as usize];
            let changes = [
                Change { prefix: *gone, hop: None },
                Change { prefix: new, hop: Some(hop) },
                Change { prefix: other, hop: Some(Hop(1 + rng.below(200))) },
            ];
            builds += u64::from(self.apply(built, &changes) == Applied::Rebuild);
            if builds > FEW_BUILDS {
                break;
            }
        }
    }

    /// What a silent reader may still see is not used again, and no more than the limit
    /// waits for it: then the writer refuses, and goes on when the reader has spoken.
    pub(crate) fn a_silent_reader_stops_the_writer(&self) {
        let mut rng = Rng::new(15);
        let routes: Vec<_> = (0..scaled(200)).map(|_| self.long_route(&mut rng)).collect();
        let mut built = self.built(&routes);
        let silent = built.domain.register("silent");
        patience::LIMIT.set(Some(100));
        for _ in 0..scaled(4000) {
            let change = self.change(&built.rib, &mut rng);
            let change = Change { prefix: long(&change.prefix, self.max_len()), hop: change.hop };
            let old = built.rib.apply(&change);
            match built.writer.apply(&built.rib, &[change]) {
                Ok(Applied::InPlace) => {}
                Ok(Applied::Rebuild) => {
                    built.writer = self.built_of(&built).expect("within the limits");
                    break;
                }
                Err(_) => {
                    built.rib.apply(&Change { prefix: change.prefix, hop: old });
                    break;
                }
            }
        }
        drop(silent);
        let dsts: Vec<A> = routes.iter().flat_map(|(prefix, _)| edges(prefix)).collect();
        built.agree(self.name(), &dsts);
        self.goes_on(&mut built, &mut rng);
        patience::LIMIT.set(None);
    }

    /// Not so short that an engine which paints takes long.
    fn long_route(&self, rng: &mut Rng) -> Route<A> {
        let (prefix, hop) = self.route(rng);
        // Most anywhere; those near others nest.
        let addr = if rng.below(2) == 0 { rng.addr() } else { prefix.first() };
        (long(&Prefix::covering(addr, prefix.len()), self.max_len()), hop)
    }
}

#[cfg(not(miri))]
impl Suite<u32> {
    /// A table that has room for 4,096 /24s with longer routes gets more of them: it is built
    /// anew, once.
    pub(crate) fn outgrows_its_chunks(&self) {
        let route = |i: u32| (Prefix::covering(i << 8 | 128, 25), Hop(1 + i));
        let routes: Vec<_> = (0..5000).map(route).collect();
        assert_eq!(self.builds_of_growth(&routes), 1);
    }
}

fn long<A: Addr>(prefix: &Prefix<A>, most: u8) -> Prefix<A> {
    let least = (A::WIDTH / 4 + 8).min(most);
    Prefix::covering(prefix.first(), prefix.len().clamp(least, most))
}

const MANY_BUILDS: u64 = 60;

const FEW_BUILDS: u64 = 8;

const A_WHILE: Duration = Duration::from_secs(3);
const A_LONG_WHILE: Duration = Duration::from_secs(600);

/// Enough that holes and what waits for readers are little beside them.
const MANY_ROUTES: u64 = 20_000;

/// Bytes that a small table may have beside twice those of a fresh one.
const SLACK: usize = 48 << 10;

#[cfg(not(miri))]
const PAGES: isize = 8 << 10;
