//! Contestants: our engines and the rivals, brought to one shape so that
//! experiments can compare them.
//!
//! What is timed is each contestant's own call on its own arrays: byte orders
//! and widths are converted before and after, never inside a timed slice.

use std::sync::Arc;

use lookup::lpm::{Applied, Entry, Lpm, Options, Writer};
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Prefix, Rib};

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

    /// The same one under another name.
    pub fn named(self, name: String) -> Self {
        Contestant { name, ..self }
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

    /// The instruction set of its lookups in bursts; `None` where it does not say.
    fn isa(&self) -> Option<&'static str> {
        None
    }

    /// Counters of the table by name; none where it has none.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Makes one change, in `rib` and in the table: the time of both is the
    /// time of an update. False where it cannot update in place.
    fn update(&mut self, rib: &mut Rib<A>, change: &Change<A>) -> Result<bool, String>;

    /// What another thread calls, again and again, to look up the next burst of these
    /// destinations, [`READER_BURST`] at most, while this one updates; `None` where that is
    /// not allowed.
    fn bursts(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>>;

    /// The same, one address after the other, each a call of its own; `None` where that is not
    /// allowed, or not there.
    fn singles(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        let _ = dsts;
        None
    }

    /// What [`Subject::bursts`] does, all of them at each call.
    fn reader(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        let (bursts, mut burst) = (dsts.len().div_ceil(READER_BURST), self.bursts(dsts)?);
        Some(Box::new(move || (0..bursts).for_each(|_| burst())))
    }
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

    fn isa(&self) -> Option<&'static str> {
        Some(self.table.isa())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.table.counters()
    }

    fn update(&mut self, rib: &mut Rib<A>, change: &Change<A>) -> Result<bool, String> {
        rib.apply(change);
        let applied = self.writer.apply(rib, std::slice::from_ref(change));
        Ok(applied.map_err(|refusal| refusal.to_string())? == Applied::InPlace)
    }

    fn bursts(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        let mut thread = self.domain.register("lab reader");
        let (table, mut hops) = (self.table.clone(), vec![Hop::NONE; READER_BURST]);
        Some(round(dsts.to_vec(), move |dsts| {
            table.lookup_batch(dsts, &mut hops[..dsts.len()]);
            std::hint::black_box(&mut hops);
            thread.quiesce();
        }))
    }

    fn singles(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        let (mut thread, table) = (self.domain.register("lab reader"), self.table.clone());
        Some(round(dsts.to_vec(), move |dsts| {
            for dst in dsts {
                std::hint::black_box(table.lookup(*dst));
            }
            thread.quiesce();
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

/// Calls `look_up` with the next [`READER_BURST`] of `dsts` at each call, round and round.
pub(crate) fn round<K: Send + 'static>(
    dsts: Vec<K>,
    mut look_up: impl FnMut(&[K]) + Send + 'static,
) -> Box<dyn FnMut() + Send> {
    let mut at = 0;
    Box::new(move || {
        let end = (at + READER_BURST).min(dsts.len());
        look_up(&dsts[at..end]);
        at = if end == dsts.len() { 0 } else { end };
    })
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

/// No experiment looks up more at once.
pub const LARGEST_BURST: usize = 4096;

/// What a reader looks up at once.
pub const READER_BURST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_go_round() {
        let (asked, answered) = std::sync::mpsc::channel();
        let count = READER_BURST as u64 + 3;
        let mut burst = round((0..count).collect(), move |dsts: &[u64]| {
            asked.send((dsts[0], dsts.len())).expect("the receiver lives");
        });
        (0..3).for_each(|_| burst());
        drop(burst);
        let first = (0, READER_BURST);
        assert!(answered.iter().eq([first, (READER_BURST as u64, 3), first]));
    }

    #[test]
    fn folding_keeps_hops_small_and_true() {
        let routes = [(Prefix::<u32>::all(), Hop(1_000_000))];
        let hops = folded(routes, 100);
        assert!((1..=100).contains(&hops[0].1.0));
    }
}
