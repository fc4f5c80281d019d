//! The switch's table of MAC addresses: two buckets of one cache line each, hits decided
//! by one atomic load, growth beside the readers.
//!
//! ```text
//!    key = domain (12 bits) · MAC (48 bits) ─► keyed permutation ─► 60 bits
//!                                                          b bits │ rest
//!    lines    2^b × 64 B           first line ◄────────────┘      │
//!                                  second = first xor odd(rest) ◄─┘
//!    line     8 entries × 8 B
//!
//!    entry    63            19   18     17    16   15          0
//!             [    rest     │ other │ used │ hint │    value    ]
//!              left-aligned    in its second line, instead of its first
//! ```
//!
//! The line's number and the rest together are the key (quotienting), so a hit is exact,
//! and a move to the other line needs only the entry. `hint` belongs to the slot: it is
//! one of eight bits that say that an entry of this first line may be in its second line.
//! Where the bit is clear, an absent key costs one line. The writer counts these entries,
//! and clears the hint with the last.
//!
//! | operation | cost                                                             |
//! |-----------|------------------------------------------------------------------|
//! | lookup    | 1 line; 2 for the 17 % in their second line (at 95 % load)       |
//! | absent    | 1 line; 2 where the hint is set (about a fifth at 95 %)          |
//! | insert    | 1 line; 2 where it is full; beyond that, a bounded search        |
//! | change    | one 8-byte store                                                 |
//! | grow      | 4 lines an insert, beside the running table; one store at the end |
//! | memory    | 8 B a slot, 8.42 B an entry at 95 %; doubles at 87 % until the limit |
//! | writer    | 0.5 B a slot more, which only the writer reads                   |
//!
//! Source: Zhou, Fan, Lim, Kaminsky, Andersen, *Scalable, High Performance
//! Ethernet Forwarding with CuckooSwitch*, CoNEXT 2013. We differ:
//!
//! - eight slots a line instead of four: 17 instead of 29 % of the entries are in
//!   their second line, and half as many move;
//! - a hit reads no version: key and value are one word. Only a lookup of an absent key
//!   checks whether an entry moved meanwhile;
//! - the hash is keyed, so nobody can choose addresses for one line; it is a permutation,
//!   so that 60 bits and the value fit 64;
//! - chunks of a batch overlap instead of following each other;
//! - the table grows.
//!
//! Concurrency. One thread writes. A move writes the copy (W1), advances `moves` (W2) and
//! overwrites the old place (W3), each store with release. A reader loads `moves` (R1),
//! the first line (R2), the second (R3), and, if it found nothing, `moves` again (R4),
//! each with acquire:
//!
//! - A. W3 before R2 or R3 reads the old place: then W2 before R4, so R4 sees a
//!   move that R1 saw too, or asks again. If R1 saw it, W1 was before R2.
//! - B. R2 and R3 before W3: the old place still has the entry, a hit.
//! - C. Two moves of one key during a lookup: A holds for each: the place after
//!   the last move that R1 saw has the copy, until a later move, seen by R4.
//! - D. The hint: set before W1, so for a key that moves to its second line as
//!   the copy in A; for a new key, before it is written.
//! - H. The hint is cleared (W4) with the last entry that needed it: by a delete, F; by a
//!   move to the first line, after W2, so a reader that read that line before W1 and then
//!   the hint after W4 sees the move in R4, as in A.
//! - E. A change of the value: one store to the one place that has the key; a
//!   stale copy in the old place (before W3 is seen) has the value before, and a
//!   reader that saw the new one has seen W3.
//! - F. A delete is no move: the key was absent at the time of its store.
//! - G. Growth: every change goes to both tables until the new one is published
//!   whole; a reader of the old one, which is no longer changed, has begun its
//!   batch before.

mod away;
mod batch;
mod frame;
mod mix;
mod replace;
mod writer;

use std::sync::Arc;

pub use replace::Inserted;
pub use writer::{Fate, MacWriter, Settings};

use self::batch::Flight;
use self::frame::{Frame, View};
use self::mix::Mix;
use super::scan::{self, Scan, Work};
use super::{ABSENT, Card, Entry, Exact, Key, Writer};
use crate::lpm::isa::{self, Isa};
use crate::lpm::{Options, Refusal};
use crate::pages::{self, Kind};
use crate::sync::{Domain, Guard, Published};

/// The registry's line.
pub const ENTRY: Entry = Entry { card: &CARD, build };

const CARD: Card = Card {
    name: "mac-table",
    family: "mac",
    paper: "Zhou, Fan, Lim, Kaminsky, Andersen: CuckooSwitch (2013); ours",
    help: "MAC address and VLAN in 8 bytes; one load decides a hit, a count of moves a miss; grows",
    key_bits: 60,
    max_value: ABSENT as u32 - 1,
    max_entries: Some(writer::MAX_ENTRIES as u64),
    options: &[
        isa::OPTION,
        ("pages", "large", pages::HELP),
        ("start", "0", "number of entries for which there is room from the start"),
        ("seed", "random", "seed of the hash: a number, or random"),
    ],
};

fn build(
    max_entries: usize,
    options: &Options,
    domain: &Arc<Domain>,
) -> Result<Box<dyn Writer>, Refusal> {
    options.check_of(CARD.name, CARD.options)?;
    let text = |name, valid: fn(&String) -> bool| {
        options.get_of::<String>(CARD.name, CARD.options, name, valid)
    };
    let isa = text("isa", |isa| Isa::named(isa).is_some())?;
    let pages = text("pages", |pages| Kind::named(pages).is_some())?;
    let seed = text("seed", |seed| seed == "random" || seed.parse::<u64>().is_ok())?;
    let settings = Settings {
        max_entries,
        start_entries: options.get_of(CARD.name, CARD.options, "start", |_: &usize| true)?,
        seed: seed.parse().ok(),
        isa: Isa::named(&isa).map(Isa::name),
        pages: Kind::named(&pages).unwrap_or_default(),
    };
    let writer = MacWriter::new(settings, domain).map_err(|refused| CARD.refuse(refused))?;
    Ok(Box::new(writer))
}

/// What the readers share. Made by [`MacWriter::new`].
pub struct MacTable {
    mix: Mix,
    isa: Isa,
    now: Published<Arc<Frame>>,
}

/// The keys of one burst that wait for the next: [`MacTable::exchange`].
#[derive(Default)]
pub struct Pipeline {
    /// Two, that take turns.
    flights: [Flight<PIPELINE>; 2],
    turn: usize,
}

impl MacTable {
    fn new(mix: Mix, isa: Isa, first: Arc<Frame>, domain: &Arc<Domain>) -> MacTable {
        MacTable { mix, isa, now: Published::new(domain, first) }
    }

    fn publish(&self, next: Arc<Frame>) {
        self.now.publish(next);
    }

    /// The instructions that compare a line.
    pub fn isa(&self) -> &'static str {
        self.isa.name()
    }

    /// Takes the next burst of `keys`, at most [`PIPELINE`], and gives the `values`
    /// of the burst before: its lines have come meanwhile.
    ///
    /// # Panics
    /// When there are too many keys, or not as many values as keys were before.
    pub fn exchange(
        &self,
        guard: Guard<'_>,
        pipeline: &mut Pipeline,
        keys: &[Key],
        values: &mut [u16],
    ) {
        assert!(keys.len() <= PIPELINE && values.len() == pipeline.flights[pipeline.turn].len());
        let view = self.now.load(guard).view();
        let [now, next] = &mut pipeline.flights;
        let [now, next] = if pipeline.turn == 0 { [now, next] } else { [next, now] };
        scan::run(self.isa, Exchange { view, mix: &self.mix, now, next, keys, values });
        pipeline.turn ^= 1;
    }
}

impl Exact for MacTable {
    fn lookup(&self, guard: Guard<'_>, key: Key) -> u16 {
        let view = self.now.load(guard).view();
        view.lookup(view.first(self.mix.mix(key)))
    }

    fn lookup_batch(&self, guard: Guard<'_>, keys: &[Key], values: &mut [u16]) {
        assert_eq!(keys.len(), values.len());
        let view = self.now.load(guard).view();
        scan::run(self.isa, Batch { view, mix: &self.mix, keys, values });
    }
}

struct Batch<'a> {
    view: View<'a>,
    mix: &'a Mix,
    keys: &'a [Key],
    values: &'a mut [u16],
}

impl Work for Batch<'_> {
    #[inline(always)]
    unsafe fn with<S: Scan>(self) {
        // SAFETY: passed on.
        unsafe { self.view.lookup_batch::<S>(self.mix, self.keys, self.values) }
    }
}

struct Exchange<'a> {
    view: View<'a>,
    mix: &'a Mix,
    now: &'a mut Flight<PIPELINE>,
    next: &'a mut Flight<PIPELINE>,
    keys: &'a [Key],
    values: &'a mut [u16],
}

impl Work for Exchange<'_> {
    #[inline(always)]
    unsafe fn with<S: Scan>(self) {
        let Exchange { view, mix, now, next, keys, values } = self;
        // SAFETY: passed on.
        unsafe { view.step::<S, PIPELINE>(mix, keys, next, now, values) };
        // SAFETY: passed on.
        unsafe { view.finish::<S, PIPELINE>(now, values) };
    }
}

/// The largest burst of a [`Pipeline`].
pub const PIPELINE: usize = 64;

/// The smallest table: 2^15 lines are one page of 2 MB. With fewer an entry
/// would not hold the rest of the key.
const BITS_AT_LEAST: u32 = if cfg!(loom) { 1 } else { 15 };

/// The largest: 2^31 slots, 16 GiB.
const BITS_AT_MOST: u32 = 28;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
