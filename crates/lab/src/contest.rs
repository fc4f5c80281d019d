//! Contestants: our engines and the rivals, brought to one shape so that
//! experiments can compare them.
//!
//! What is timed is each contestant's own call on its own arrays: byte orders
//! and widths are converted before and after, never inside a timed slice.

use std::sync::Arc;

use lookup::lpm::{Applied, Entry, Instruments, Lpm, Options, Writer};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Prefix, Rib};

use crate::{machine, reads, rivals};

/// An address family: its engines, and the rivals that know it.
pub trait Family: Instruments {
    /// Other people's tables for this family; empty without the feature `rivals`.
    fn rivals() -> Vec<Contestant<Self>>;
}

impl Family for u32 {
    fn rivals() -> Vec<Contestant<u32>> {
        rivals::ipv4()
    }
}

impl Family for u128 {
    fn rivals() -> Vec<Contestant<u128>> {
        rivals::ipv6()
    }
}

/// A table that does not exist yet.
pub struct Contestant<A: Addr> {
    /// Its name in records.
    pub name: String,
    /// Ours, or a rival.
    pub ours: bool,
    /// Takes minutes to build a full table.
    pub slow: bool,
    build: Box<Build<A>>,
}

/// Why a table refuses is a text for the record.
type Build<A> = dyn Fn(&Rib<A>) -> Result<Box<dyn Subject<A>>, String>;

impl<A: Addr> Contestant<A> {
    /// A contestant that `build` makes out of a table's routes.
    pub fn rival<S: Subject<A> + 'static>(
        name: &str,
        build: impl Fn(&Rib<A>) -> Result<S, String> + 'static,
    ) -> Self {
        let build = move |rib: &Rib<A>| build(rib).map(|s| Box::new(s) as Box<dyn Subject<A>>);
        Contestant { name: name.into(), ours: false, slow: false, build: Box::new(build) }
    }

    /// One of our engines.
    pub fn engine(entry: &'static Entry<A>, options: Options) -> Self {
        let build = move |rib: &Rib<A>| {
            let engine = Engine::new(entry, &options, rib)?;
            Ok(Box::new(engine) as Box<dyn Subject<A>>)
        };
        Contestant { name: entry.card.name.into(), ours: true, slow: false, build: Box::new(build) }
    }

    /// The same one, marked as slow to build.
    pub fn slow(self) -> Self {
        Contestant { slow: true, ..self }
    }

    /// Builds the table.
    ///
    /// # Errors
    /// When it refuses the routes: the text names the limit.
    pub fn build(&self, rib: &Rib<A>) -> Result<Box<dyn Subject<A>>, String> {
        (self.build)(rib)
    }
}

/// The one called `name`, an engine of ours with `options`, its reads, or a rival.
///
/// # Errors
/// When this build has none of that name.
pub fn named<A: Family>(name: &str, options: Options) -> Result<Contestant<A>, String> {
    if let Some(entry) = A::engine(name) {
        return Ok(Contestant::engine(entry, options));
    }
    if let Some(reads) = name.strip_suffix(reads::SUFFIX).and_then(|name| reads::of(name, options))
    {
        return Ok(reads);
    }
    let rival = A::rivals().into_iter().find(|rival| rival.name == name);
    rival.ok_or_else(|| format!("this build has no {name} for {}", A::FAMILY))
}

/// Every engine of a family with its default options, some as they are on a
/// processor without AVX-512, then every rival.
pub fn all<A: Family>() -> Vec<Contestant<A>> {
    let engines = A::engines().iter().map(|e| Contestant::engine(e, Options::default()));
    let narrower = A::engines().iter().filter_map(narrower);
    engines.chain(narrower).chain(A::rivals()).collect()
}

/// `engine` told to use AVX2, on a processor that has more.
fn narrower<A: Family>(entry: &'static Entry<A>) -> Option<Contestant<A>> {
    let more = machine::has("avx512vl") && AVX2_TOO.contains(&entry.card.name);
    let avx2 = Options([("isa".to_string(), "avx2".to_string())].into());
    let name = format!("{}-avx2", entry.card.name);
    more.then(|| Contestant { name, ..Contestant::engine(entry, avx2) })
}

/// A table that answers.
pub trait Subject<A: Addr> {
    /// Takes these destinations, in its own byte order, to look them up again and again.
    fn stream<'s>(&'s self, dsts: &[A]) -> Box<dyn Stream + 's>;

    /// One destination.
    fn lookup(&self, dst: A) -> Hop;

    /// Bytes of the table without the store of its routes; `None` where it does
    /// not say.
    fn bytes(&self) -> Option<usize>;

    /// Bytes of the writer's own state, beside the table and the store of routes.
    fn writer_bytes(&self) -> usize {
        0
    }

    /// Counters of the table by name; none where it has none.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Makes one change, in `rib` and in the table: the time of both is the
    /// time of an update. False where it cannot update in place.
    fn update(&mut self, rib: &mut Rib<A>, change: &Change<A>) -> Result<bool, String>;

    /// What another thread calls, again and again, to look these destinations
    /// up while this one updates; `None` where that is not allowed.
    fn reader(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>>;
}

/// Destinations that are looked up again and again.
pub trait Stream {
    /// The `n` from the one numbered `from`, `burst` at a time, the results left
    /// where they fall. This is what is timed.
    fn run(&mut self, from: usize, n: usize, burst: usize);

    /// All of them once; the results, to be checked.
    fn answers(&mut self) -> Vec<Hop>;
}

/// One of our engines, built.
pub(crate) struct Engine<A: Addr> {
    writer: Box<dyn Writer<A>>,
    table: Arc<dyn Lpm<A>>,
    domain: Arc<Domain>,
}

impl<A: Addr> Engine<A> {
    fn new(entry: &Entry<A>, options: &Options, rib: &Rib<A>) -> Result<Self, String> {
        let domain = Domain::new();
        let writer = (entry.build)(rib, options, &domain).map_err(|refusal| refusal.to_string())?;
        Ok(Engine::of(writer, domain))
    }

    /// What `writer` has built for readers of `domain`.
    pub(crate) fn of(writer: Box<dyn Writer<A>>, domain: Arc<Domain>) -> Self {
        Engine { table: writer.table(), writer, domain }
    }
}

impl<A: Addr> Subject<A> for Engine<A> {
    fn stream<'s>(&'s self, dsts: &[A]) -> Box<dyn Stream + 's> {
        let hops = vec![Hop::NONE; LARGEST_BURST];
        Box::new(EngineStream { table: &*self.table, dsts: dsts.to_vec(), hops })
    }

    fn lookup(&self, dst: A) -> Hop {
        self.table.lookup(dst)
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.table.bytes())
    }

    fn writer_bytes(&self) -> usize {
        self.writer.bytes()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.table.counters()
    }

    fn update(&mut self, rib: &mut Rib<A>, change: &Change<A>) -> Result<bool, String> {
        rib.apply(change);
        let applied = self.writer.apply(rib, std::slice::from_ref(change));
        Ok(applied.map_err(|refusal| refusal.to_string())? == Applied::InPlace)
    }

    fn reader(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        let mut thread = self.domain.register("lab reader");
        let (table, dsts) = (self.table.clone(), dsts.to_vec());
        let mut hops = vec![Hop::NONE; READER_BURST];
        Some(Box::new(move || {
            for dsts in dsts.chunks(READER_BURST) {
                table.lookup_batch(dsts, &mut hops[..dsts.len()]);
                std::hint::black_box(&mut hops);
                thread.quiesce();
            }
        }))
    }
}

struct EngineStream<'s, A: Addr> {
    table: &'s dyn Lpm<A>,
    dsts: Vec<A>,
    hops: Vec<Hop>,
}

impl<A: Addr> Stream for EngineStream<'_, A> {
    fn run(&mut self, from: usize, n: usize, burst: usize) {
        for dsts in self.dsts[from..from + n].chunks(burst) {
            self.table.lookup_batch(dsts, &mut self.hops[..dsts.len()]);
            std::hint::black_box(&mut self.hops);
        }
    }

    fn answers(&mut self) -> Vec<Hop> {
        let mut hops = vec![Hop::NONE; self.dsts.len()];
        for (dsts, hops) in self.dsts.chunks(LARGEST_BURST).zip(hops.chunks_mut(LARGEST_BURST)) {
            self.table.lookup_batch(dsts, hops);
        }
        hops
    }
}

/// The same routes with at most `most` different hops: 1 + id mod `most`, so that
/// tables of narrow hops can take part.
pub fn folded<A: Addr>(
    routes: impl IntoIterator<Item = (Prefix<A>, Hop)>,
    most: u32,
) -> Vec<(Prefix<A>, Hop)> {
    routes.into_iter().map(|(prefix, hop)| (prefix, Hop(1 + hop.0 % most))).collect()
}

/// A checksum of answers in their order.
pub fn checksum(hops: &[Hop]) -> u64 {
    hops.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, hop| {
        (sum ^ u64::from(hop.0)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Engines that take part once more as on a processor with no more than AVX2.
const AVX2_TOO: [&str; 4] = ["rutter4", "rutter6", "poptrie", "planb"];

/// No experiment looks up more at once.
pub const LARGEST_BURST: usize = 4096;

const READER_BURST: usize = 256;

#[cfg(test)]
mod tests {
    use lookup::lpm::Intervals;

    use super::*;
    use crate::data::{Rng, Traffic};

    fn table<A: Addr>(shortest: usize, longest: usize) -> Vec<(Prefix<A>, Hop)> {
        let mut rng = Rng::new(5);
        let mut routes: Vec<_> = (1..2000)
            .map(|i| {
                let len = (shortest + rng.below(longest - shortest + 1)) as u8;
                (Prefix::covering(A::from_u128(rng.wide()), len), Hop(i % 300 + 1))
            })
            .collect();
        routes.sort_by_key(|(prefix, _)| *prefix);
        routes.dedup_by_key(|(prefix, _)| *prefix);
        routes
    }

    /// Every contestant answers rightly, at once and one by one, before and
    /// after updates.
    fn answers<A: Family>(shortest: usize, longest: usize) {
        let routes = table::<A>(shortest, longest);
        let flat = Intervals::new(routes.iter().copied());
        let dsts = Traffic::Prefix.draw(&routes, 5000, 3);
        let want: Vec<Hop> = dsts.iter().map(|dst| flat.lookup(*dst)).collect();
        for contestant in all::<A>() {
            let mut rib: Rib<A> = routes.iter().copied().collect();
            let name = &contestant.name;
            let mut subject = contestant.build(&rib).unwrap_or_else(|e| panic!("{name}: {e}"));
            let check = |subject: &dyn Subject<A>| {
                let mut stream = subject.stream(&dsts);
                stream.run(0, dsts.len(), 64);
                assert_eq!(stream.answers(), want, "{name}");
                for (dst, want) in dsts.iter().zip(&want).take(200) {
                    assert_eq!(subject.lookup(*dst), *want, "{name}");
                }
            };
            check(&*subject);
            for (prefix, hop) in routes.iter().step_by(7) {
                for hop in [None, Some(*hop)] {
                    let change = Change { prefix: *prefix, hop };
                    if !subject.update(&mut rib, &change).unwrap_or_else(|e| panic!("{name}: {e}"))
                    {
                        rib.apply(&Change { prefix: *prefix, hop: Some(routes[0].1) });
                    }
                }
            }
            if let Some(mut reader) = subject.reader(&dsts) {
                reader();
            }
            check(&*subject);
        }
    }

    #[test]
    fn ipv4_contestants_answer_rightly() {
        answers::<u32>(8, 32);
    }

    #[test]
    fn ipv6_contestants_answer_rightly() {
        answers::<u128>(19, 64);
    }

    #[test]
    fn folding_keeps_hops_small_and_true() {
        let routes = [(Prefix::<u32>::all(), Hop(1_000_000))];
        let hops = folded(routes, 100);
        assert!((1..=100).contains(&hops[0].1.0));
    }
}
