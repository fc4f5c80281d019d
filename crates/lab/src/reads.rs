//! The reads of a lookup without the lookup: what a table would do if nothing but
//! its memory took time.
//!
//! ```text
//!   engine       key ─► root ─► cell ─► hop       each read waits for the one before
//!   its reads    place, place, place, place …     known beforehand: none waits
//! ```
//!
//! The places are those that the engine's instrument reports ([`lpm::Reads`](lookup::lpm::Reads)),
//! in memory of the same shape: a huge page for each one that it reads from, each line where it was in it.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use lookup::lpm::{Instrumented, Instruments, Options, Reads};
use lookup::pages::Pages;
use lookup::rib::Change;
use lookup::sync::Domain;
use lookup::{Addr, Hop, Rib};

use crate::contest::{Contestant, Engine, Stream, Subject};

/// Behind an engine's name: its reads.
pub const SUFFIX: &str = "-reads";

/// The reads of the engine called `name`; `None` where there is no such engine, or it
/// does not report its reads.
pub fn of<A: Instruments>(name: &str, options: Options) -> Option<Contestant<A>> {
    let (_, build) = A::instrumented().iter().find(|(engine, _)| *engine == name)?;
    let build = move |rib: &Rib<A>| {
        let domain = Domain::new();
        let built = build(rib, &options, &domain).map_err(|refusal| refusal.to_string())?;
        let Instrumented { writer, reads } = built;
        Ok(Replayed { engine: Engine::of(writer, domain), reads, answered: Cell::new(0) })
    };
    Some(Contestant::rival(&format!("{name}{SUFFIX}"), build))
}

/// An engine that answers as ever, but whose streams only read. It takes no updates.
struct Replayed<A: Addr> {
    engine: Engine<A>,
    reads: Arc<dyn Reads<A>>,
    /// Reads of the keys that were answered.
    answered: Cell<u64>,
}

impl<A: Addr> Subject<A> for Replayed<A> {
    fn stream<'s>(&'s self, dsts: &[A]) -> Box<dyn Stream + 's> {
        let places = Places::new(&*self.reads, dsts);
        Box::new(ReadStream { places, answers: self.engine.stream(dsts), answered: &self.answered })
    }

    fn lookup(&self, dst: A) -> Hop {
        self.engine.lookup(dst)
    }

    fn bytes(&self) -> Option<usize> {
        self.engine.bytes()
    }

    /// That of the engine, whose claims compare it with its reads.
    fn isa(&self) -> Option<&'static str> {
        self.engine.isa()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("reads", self.answered.get())]
    }

    fn update(&mut self, _: &mut Rib<A>, _: &Change<A>) -> Result<bool, String> {
        Ok(false)
    }

    fn bursts(&self, _: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        None
    }
}

/// Reads `memory` at `words`: by gathers where there are such, which keep more reads
/// in flight than loads one by one.
fn sum(memory: &[u32], words: &[u32]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: it was detected.
        return unsafe { gathered(memory, words) };
    }
    words.iter().fold(0, |sum, &word| sum ^ memory[word as usize])
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn gathered(memory: &[u32], words: &[u32]) -> u32 {
    use core::arch::x86_64::*;
    let last = i32::try_from(memory.len() - 1).expect("a table of less than 8 GB");
    let (last, mut sum) = (_mm256_set1_epi32(last), _mm256_setzero_si256());
    for words in words.as_chunks::<8>().0 {
        // SAFETY: eight words.
        let places = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        let places = _mm256_min_epu32(places, last);
        // SAFETY: each is the place of a word, no greater than the last one's.
        let read = unsafe { _mm256_i32gather_epi32::<4>(memory.as_ptr().cast(), places) };
        sum = _mm256_xor_si256(sum, read);
    }
    _mm256_extract_epi32::<0>(black_box(sum)) as u32
}

struct ReadStream<'s> {
    places: Places,
    answers: Box<dyn Stream + 's>,
    answered: &'s Cell<u64>,
}

impl Stream for ReadStream<'_> {
    /// Without bursts: no read waits, so there is nothing to take together.
    fn run(&mut self, from: usize, n: usize, _burst: usize) {
        let Places { memory, words, starts } = &self.places;
        let words = &words[starts[from]..starts[from + n]];
        black_box(sum(memory.as_flattened(), words));
    }

    fn answers(&mut self) -> Vec<Hop> {
        self.answered.set(self.answered.get() + self.places.words.len() as u64);
        self.answers.answers()
    }
}

/// Where lookups read, as words of memory of the table's shape.
struct Places {
    memory: Pages<[u32; WORDS]>,
    /// The words read for all keys, in their order.
    words: Vec<u32>,
    /// Where those of each key start in `words`, and where the last end.
    starts: Vec<usize>,
}

impl Places {
    fn new<A: Addr>(table: &dyn Reads<A>, dsts: &[A]) -> Self {
        let (mut pages, mut words, mut starts) = (BTreeMap::new(), Vec::new(), vec![0]);
        for &dst in dsts {
            for address in table.reads(dst) {
                let next = pages.len();
                let page = *pages.entry(address / PAGE).or_insert(next);
                words.push((page * WORDS + address % PAGE / 4) as u32);
            }
            starts.push(words.len());
        }
        let mut memory = Pages::zeroed(pages.len().max(1)).expect("as much as the table has");
        // Memory that was never written is one page of zeros.
        memory.as_mut_slice().iter_mut().for_each(|page: &mut [u32; WORDS]| page.fill(1));
        Places { memory, words, starts }
    }
}

/// Bytes of a huge page, and its words.
const PAGE: usize = 1 << 21;
const WORDS: usize = PAGE / 4;

#[cfg(test)]
mod tests {
    use lookup::Prefix;

    use super::*;

    #[test]
    fn each_key_brings_its_reads() {
        let routes = [(0x0a01_0200, 24, 1), (0x0a02_0000, 16, 2), (0x0a01_0380, 25, 3)];
        let rib: Rib<u32> = routes
            .map(|(first, len, hop)| (Prefix::covering(first, len), Hop(hop)))
            .into_iter()
            .collect();
        let dsts = [0x0a02_0304, 0x0a01_0204, 0x0a01_0390];
        for (name, each) in [("dir-24-8", [1, 1, 2]), ("rutter4", [1, 2, 4])] {
            let reads = of::<u32>(name, Options::default()).unwrap();
            let reads = reads.build(&rib).unwrap();
            let answers = reads.stream(&dsts).answers();
            assert_eq!(answers, [Hop(2), Hop(1), Hop(3)], "{name}");
            assert_eq!(reads.counters(), [("reads", each.iter().sum())], "{name}");
            let entry = <u32 as lookup::lpm::Engines>::engine(name).expect("is one");
            let writer = (entry.build)(&rib, &Options::default(), &Domain::new()).unwrap();
            let isa = writer.table().isa();
            assert_eq!(reads.isa(), Some(isa), "{name}: claims compare equal instruction sets");
            let mut stream = reads.stream(&dsts);
            stream.run(0, 3, 2);
        }
        assert!(of::<u32>("no-such", Options::default()).is_none());
    }
}
