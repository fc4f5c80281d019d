//! Blocks of addresses: parsed, looked up in batches, written without an allocation a line.
//!
//! ```text
//!   input ──► block ──► words ──► addresses of each family ──► engine: hops ──────┐
//!             (whole words)          └──► engine of route numbers: prefixes ──────┴──► lines
//! ```
//!
//! Prefixes come from a second table of each family in which the hop of a route is its
//! number: one more lookup in place of a search through the routes. Beside a device, too, this thread
//! does it: shared among the cores it gained 2 % (48 million random addresses, two cores: 9.0 s, before
//! 9.2 s), less than the runs differ by; reading and writing the lines takes the time.

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use formats::Hops;
use lookup::lpm::{Engines, Exports, Lpm, Options};
use lookup::sync::Domain;
use lookup::{Addr, Hop, Rib};
use offload::crew::Crew;

use super::{Served, parse};
use crate::engine::Fib;
use crate::error::Error;

/// The result of a block.
#[derive(Default)]
pub struct Answers {
    /// The lines.
    pub lines: Vec<u8>,
    /// Line ends that were read.
    pub read: u64,
    /// Addresses that were answered.
    pub addresses: u64,
    /// Some had no route.
    pub unrouted: bool,
    /// Words that are no address, each with the number of its line in the block.
    pub faults: Vec<(u64, String)>,
}

/// Answers blocks: tables that do not change, and the texts of their answers.
pub struct Bulk<'s> {
    v4: Option<Family<'s, u32>>,
    v6: Option<Family<'s, u128>>,
    /// By hop: a tab, its name, the end of the line.
    hops: Vec<Box<[u8]>>,
    prefixes: bool,
    /// Words that are looked up together.
    piece: usize,
}

/// One family.
struct Family<'s, A: Addr> {
    engine: &'static str,
    table: Arc<dyn Lpm<A>>,
    /// The processors that look up, where it is not this thread.
    crew: Option<&'s Mutex<Crew<A>>>,
    routes: Option<Routes<A>>,
}

/// The routes by number, from 1.
struct Routes<A: Addr> {
    numbers: Arc<dyn Lpm<A>>,
    hops: Vec<Hop>,
    /// Texts of all prefixes, one behind the other; where each begins, and the last ends.
    texts: Vec<u8>,
    starts: Vec<usize>,
}

/// A thread's buffers for answering blocks; kept, so that nothing is allocated.
#[derive(Default)]
pub struct Scratch {
    words: Vec<Word>,
    v4: Asked<u32>,
    v6: Asked<u128>,
}

struct Asked<A> {
    dsts: Vec<A>,
    hops: Vec<Hop>,
    routes: Vec<Hop>,
}

impl<A> Default for Asked<A> {
    fn default() -> Self {
        Asked { dsts: Vec::new(), hops: Vec::new(), routes: Vec::new() }
    }
}

/// A word of a block, an address of one of the families.
#[derive(Clone, Copy)]
struct Word {
    start: u32,
    len: u8,
    v4: bool,
}

impl<'s> Bulk<'s> {
    /// Answers from built tables, and the routes that they are built from.
    pub fn new(
        v4: Option<(&'s Served<u32>, &Rib<u32>)>,
        v6: Option<(&'s Served<u128>, &Rib<u128>)>,
        hops: &Hops,
        prefixes: bool,
    ) -> Result<Self, Error> {
        let domain = Domain::new();
        let v4 = v4.map(|(served, rib)| Family::new(served, rib, prefixes, &domain)).transpose()?;
        let v6 = v6.map(|(served, rib)| Family::new(served, rib, prefixes, &domain)).transpose()?;
        let shared = v4.as_ref().is_some_and(|family| family.crew.is_some())
            || v6.as_ref().is_some_and(|family| family.crew.is_some());
        let name = |hop| format!("\t{}\n", hops.name(hop).unwrap_or("-")).into_bytes().into();
        let hops = (0..=hops.len() as u32).map(|hop| name(Hop(hop))).collect();
        let piece = if shared { LARGE_PIECE } else { PIECE };
        Ok(Bulk { v4, v6, hops, prefixes, piece })
    }

    /// True where pieces are large: several threads or a device share each.
    pub fn on_device(&self) -> bool {
        self.piece == LARGE_PIECE
    }

    /// Answers all words of `block`, which ends between two words.
    pub fn answer(
        &self,
        block: &[u8],
        scratch: &mut Scratch,
        answers: &mut Answers,
    ) -> Result<(), Error> {
        answers.lines.clear();
        answers.faults.clear();
        (answers.read, answers.addresses, answers.unrouted) = (0, 0, false);
        // Pieces whose addresses and hops stay in the cache.
        let mut left = block;
        while !left.is_empty() {
            let used = scratch.read(left, self.piece, answers);
            if let Some(family) = &self.v4 {
                family.look_up(&mut scratch.v4)?;
            }
            if let Some(family) = &self.v6 {
                family.look_up(&mut scratch.v6)?;
            }
            self.write(left, scratch, answers);
            left = &left[used..];
        }
        Ok(())
    }

    fn write(&self, block: &[u8], scratch: &Scratch, answers: &mut Answers) {
        let (mut next4, mut next6) = (0, 0);
        for word in &scratch.words {
            let start = word.start as usize;
            answers.lines.extend_from_slice(&block[start..start + usize::from(word.len)]);
            let hop = if word.v4 {
                next4 += 1;
                Family::put(self.v4.as_ref(), &scratch.v4, next4 - 1, self.prefixes, answers)
            } else {
                next6 += 1;
                Family::put(self.v6.as_ref(), &scratch.v6, next6 - 1, self.prefixes, answers)
            };
            let name = self.hops.get(hop.index()).or(self.hops.first());
            answers.lines.extend_from_slice(name.map_or(b"\t-\n", |name| name));
            answers.unrouted |= hop.is_none();
        }
        answers.addresses += scratch.words.len() as u64;
    }
}

impl<'s, A: Engines + Exports> Family<'s, A> {
    fn new(
        Served { fib, crew }: &'s Served<A>,
        rib: &Rib<A>,
        prefixes: bool,
        domain: &Arc<Domain>,
    ) -> Result<Self, Error> {
        let routes = prefixes.then(|| Routes::new(rib, domain)).transpose()?;
        let (engine, table) = (fib.engine, Arc::clone(&fib.table));
        Ok(Family { engine, table, crew: crew.as_ref(), routes })
    }

    fn look_up(&self, asked: &mut Asked<A>) -> Result<(), Error> {
        asked.hops.resize(asked.dsts.len(), Hop::NONE);
        match &self.crew {
            Some(crew) => {
                let mut crew = crew.lock().unwrap_or_else(PoisonError::into_inner);
                crew.answer(&asked.dsts, &mut asked.hops).map_err(Error::Offload)?;
            }
            None => self.table.lookup_batch(&asked.dsts, &mut asked.hops),
        }
        let Some(routes) = &self.routes else { return Ok(()) };
        asked.routes.resize(asked.dsts.len(), Hop::NONE);
        routes.numbers.lookup_batch(&asked.dsts, &mut asked.routes);
        let wanted = |number: Hop| number.index().checked_sub(1).map(|at| routes.hops[at]);
        let all = asked.hops.iter().zip(&asked.routes);
        let wrong = all.enumerate().find_map(|(i, (&got, &number))| {
            let want = wanted(number).unwrap_or(Hop::NONE);
            (got != want).then_some((i, got, want))
        });
        match wrong {
            None => Ok(()),
            Some((i, got, want)) => Err(Error::Disagreement {
                engine: self.engine,
                addr: asked.dsts[i].to_ip().to_string(),
                got: got.0,
                want: want.0,
            }),
        }
    }

    /// The hop of address `at`, its prefix written.
    #[inline]
    fn put(
        family: Option<&Self>,
        asked: &Asked<A>,
        at: usize,
        prefixes: bool,
        answers: &mut Answers,
    ) -> Hop {
        if prefixes {
            let routes = family.and_then(|family| family.routes.as_ref());
            let number = routes.map_or(Hop::NONE, |_| asked.routes[at]);
            answers.lines.push(b'\t');
            match (routes, number.index().checked_sub(1)) {
                (Some(routes), Some(number)) => {
                    answers.lines.extend_from_slice(routes.text(number))
                }
                _ => answers.lines.push(b'-'),
            }
        }
        family.map_or(Hop::NONE, |_| asked.hops[at])
    }
}

impl<A: Addr + Engines> Routes<A> {
    fn new(rib: &Rib<A>, domain: &Arc<Domain>) -> Result<Self, Error> {
        let numbered = rib.iter().zip(1..).map(|((prefix, _), number)| (prefix, Hop(number)));
        let engine = A::engine(A::DEFAULT).expect("the default is an engine");
        let numbers = Fib::build(engine, &Options::default(), &numbered.collect(), domain)?.table;
        let (mut texts, mut starts) = (Vec::new(), vec![0]);
        for (prefix, _) in rib.iter() {
            write!(texts, "{prefix}").map_err(Error::Output)?;
            starts.push(texts.len());
        }
        let hops = rib.iter().map(|(_, hop)| hop).collect();
        Ok(Routes { numbers, hops, texts, starts })
    }

    #[inline]
    fn text(&self, number: usize) -> &[u8] {
        &self.texts[self.starts[number]..self.starts[number + 1]]
    }
}

impl Scratch {
    /// Reads up to `piece` words; returns the bytes that were used.
    fn read(&mut self, block: &[u8], piece: usize, answers: &mut Answers) -> usize {
        self.words.clear();
        self.v4.dsts.clear();
        self.v6.dsts.clear();
        let mut at = 0;
        while at < block.len() && self.words.len() < piece {
            if block[at].is_ascii_whitespace() {
                answers.read += u64::from(block[at] == b'\n');
                at += 1;
                continue;
            }
            let rest = &block[at..];
            let len = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            let (word, start) = (&rest[..len], at as u32);
            at += len;
            // At most as long as an address: it fits a byte.
            let v4 = match parse::address(word) {
                Some(IpAddr::V4(addr)) => {
                    self.v4.dsts.push(addr.into());
                    true
                }
                Some(IpAddr::V6(addr)) => {
                    self.v6.dsts.push(addr.into());
                    false
                }
                None => {
                    let text = String::from_utf8_lossy(&word[..len.min(LONGEST)]).into_owned();
                    answers.faults.push((answers.read, text));
                    continue;
                }
            };
            self.words.push(Word { start, len: len as u8, v4 });
        }
        at
    }
}

/// Words that are looked up together.
const PIECE: usize = 2048;
const LARGE_PIECE: usize = 1 << 20;

/// Longer than any address; the rest of a longer word is not kept.
pub const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use graph::testing::Counting;
    use lookup::Prefix;

    use super::*;

    fn served<A: Engines + Exports>(rib: &Rib<A>) -> Served<A> {
        let engine = A::engine(A::DEFAULT).expect("the default is an engine");
        let fib = Fib::build(engine, &Options::default(), rib, &Domain::new()).unwrap();
        Served { fib, crew: None }
    }

    #[test]
    fn a_line_is_answered_without_an_allocation() {
        let mut hops = Hops::default();
        let hop = hops.id("gateway").unwrap();
        let v4 = [(Prefix::covering(0x0a00_0000, 8), hop)].into_iter().collect();
        let v6 = [(Prefix::covering(0x2001_0db8 << 96, 32), hop)].into_iter().collect();
        let (served4, served6) = (served::<u32>(&v4), served::<u128>(&v6));
        let mut block = String::new();
        for i in 0..4000_u32 {
            let [high, low] = [i >> 8, i & 0xff];
            write!(block, "10.0.{high}.{low}\n2001:db8::{i:x} 192.0.2.{low}\n").unwrap();
        }
        for prefixes in [false, true] {
            let (both4, both6) = (Some((&served4, &v4)), Some((&served6, &v6)));
            let bulk = Bulk::new(both4, both6, &hops, prefixes).unwrap();
            let (mut scratch, mut answers) = (Scratch::default(), Answers::default());
            let mut allocations = || {
                let before = Counting::allocations();
                bulk.answer(block.as_bytes(), &mut scratch, &mut answers).unwrap();
                assert_eq!((answers.read, answers.addresses), (8000, 12_000));
                Counting::allocations() - before
            };
            // The buffers of the first block serve all others.
            assert!(allocations() < 200);
            assert_eq!(allocations(), 0, "with prefixes: {prefixes}");
        }
    }
}
