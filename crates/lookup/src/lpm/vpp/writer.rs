//! Building and updating: the FIB, and beside it whatever guides there.

use std::sync::Arc;

use super::fib::{Fib, Hashing, narrow, wide};
use super::{Guide, MAX_PREFIXES, Table};
use crate::hash::crc32c;
use crate::lpm::default_hop::DefaultHop;
use crate::lpm::hashed::{HashedWriter, NoRoom, Tally};
use crate::lpm::isa::Isa;
use crate::lpm::{Applied, Card, Lpm, Options, Refusal, Writer};
use crate::rib::Change;
use crate::sync::{Congested, Domain};
use crate::{Prefix, Rib};

/// A way to find the lengths to probe; the writer's half.
pub(super) trait Steer: Send + 'static {
    /// What the readers see of it.
    type Guide: Guide;

    fn guide(&self) -> Arc<Self::Guide>;

    /// Takes a prefix that the FIB has got; without room nothing changes.
    fn insert(&mut self, prefix: Prefix<u128>, hash: u64) -> Result<(), NoRoom>;

    /// Forgets a prefix that was inserted.
    fn remove(&mut self, prefix: Prefix<u128>, hash: u64);

    fn admit(&mut self) -> Result<(), Congested> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// - I1: the FIB holds the prefixes of the `Rib`, but for /0, and `steer` the same.
/// - I2: `counts[n]` of them have length n.
struct VppWriter<S: Steer> {
    card: &'static Card,
    table: Arc<Table<S::Guide>>,
    narrow: HashedWriter<2>,
    wide: HashedWriter<3>,
    steer: S,
    counts: [u32; 129],
    lengths: u128,
}

/// Builds one of the engines. `steer` makes an empty guide; it is asked again, for
/// more room and with another hash, where the first had none.
pub(super) fn build<S: Steer>(
    card: &'static Card,
    rib: &Rib<u128>,
    options: &Options,
    domain: &Arc<Domain>,
    steer: impl Fn(u32) -> std::io::Result<S>,
) -> Result<Box<dyn Writer<u128>>, Refusal> {
    options.check(card)?;
    let isa = Isa::choose(card, options)?;
    if rib.len() as u64 > MAX_PREFIXES {
        return Err(card.refuse(format!("{} prefixes exceed {MAX_PREFIXES}", rib.len())));
    }
    rib.iter().try_for_each(|(_, hop)| card.admit_hop(hop))?;
    let no_memory = |error: std::io::Error| card.refuse(format!("no memory: {error}"));
    for attempt in 0..ATTEMPTS {
        let steer = steer(attempt).map_err(no_memory)?;
        let built = VppWriter::new(card, rib, domain, isa, Hashing::new(attempt), steer);
        if let Ok(writer) = built.map_err(no_memory)? {
            return Ok(Box::new(writer));
        }
    }
    Err(card.refuse(format!("the filter found no place for a prefix with {ATTEMPTS} hashes")))
}

impl<S: Steer> VppWriter<S> {
    fn new(
        card: &'static Card,
        rib: &Rib<u128>,
        domain: &Arc<Domain>,
        isa: Isa,
        hashing: Hashing,
        mut steer: S,
    ) -> std::io::Result<Result<Self, NoRoom>> {
        let (mut short, mut long, mut counts) = (Vec::new(), Vec::new(), [0; 129]);
        short.reserve_exact(rib.len());
        let mut lengths = 0;
        for (prefix, hop) in rib.iter().filter(|(prefix, _)| prefix.len() > 0) {
            let hash = hash_of(&hashing, prefix);
            let (dst, len, hop) = (prefix.first(), prefix.len(), u64::from(hop.0));
            if len > 64 {
                let [high, low, last] = wide(dst, len);
                long.push((hash as u32, [high, low, last | hop]));
            } else {
                let [high, last] = narrow(dst, len);
                short.push((hash as u32, [high, last | hop]));
            }
            if steer.insert(prefix, hash).is_err() {
                return Ok(Err(NoRoom));
            }
            counts[usize::from(len)] += 1;
            lengths |= 1 << (len - 1);
        }
        let narrow = HashedWriter::build(domain, &short)?;
        let wide = HashedWriter::build(domain, &long)?;
        let fib = Fib::new(narrow.table().clone(), wide.table().clone(), hashing);
        fib.set_lengths(lengths);
        let default = DefaultHop::of(rib);
        let table =
            Arc::new(Table { fib, guide: steer.guide(), default, tally: Tally::new(), isa });
        Ok(Ok(VppWriter { card, table, narrow, wide, steer, counts, lengths }))
    }

    /// Inserts or changes; returns the hop before, 0 for none. Without room nothing
    /// has changed.
    fn set(&mut self, prefix: Prefix<u128>, hop: u32) -> Result<u32, NoRoom> {
        let (hash, len) = (hash_of(&self.table.fib.hashing, prefix), prefix.len());
        let old = if len > 64 {
            self.wide.set(hash as u32, &wide(prefix.first(), len), hop)?
        } else {
            self.narrow.set(hash as u32, &narrow(prefix.first(), len), hop)?
        };
        if old == 0 {
            if let Err(NoRoom) = self.steer.insert(prefix, hash) {
                self.forget(hash as u32, prefix);
                return Err(NoRoom);
            }
            self.count(len, 1);
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: Prefix<u128>) {
        let hash = hash_of(&self.table.fib.hashing, prefix);
        // Only what is in the FIB is in the filter, and may be removed from it.
        if self.forget(hash as u32, prefix) != 0 {
            self.steer.remove(prefix, hash);
            self.count(prefix.len(), -1);
        }
    }

    fn forget(&mut self, hash: u32, prefix: Prefix<u128>) -> u32 {
        let (dst, len) = (prefix.first(), prefix.len());
        if len > 64 {
            self.wide.remove(hash, &wide(dst, len))
        } else {
            self.narrow.remove(hash, &narrow(dst, len))
        }
    }

    fn count(&mut self, len: u8, by: i32) {
        let count = &mut self.counts[usize::from(len)];
        *count = count.wrapping_add_signed(by);
        let bit = 1 << (len - 1);
        let lengths = if *count > 0 { self.lengths | bit } else { self.lengths & !bit };
        if lengths != self.lengths {
            self.lengths = lengths;
            self.table.fib.set_lengths(lengths);
        }
    }

    /// Inserts and changes what the `Rib` has of `changes`: all or, for want of
    /// room, none.
    fn set_all(&mut self, rib: &Rib<u128>, changes: &[Change<u128>]) -> Result<(), NoRoom> {
        let mut done = Vec::with_capacity(changes.len());
        for change in changes.iter().filter(|change| change.prefix.len() > 0) {
            let Some(hop) = rib.get(&change.prefix) else { continue };
            match self.set(change.prefix, hop.0) {
                Ok(old) => done.push((change.prefix, old)),
                Err(NoRoom) => {
                    self.undo(&done);
                    return Err(NoRoom);
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, done: &[(Prefix<u128>, u32)]) {
        for &(prefix, old) in done.iter().rev() {
            if old == 0 {
                self.remove(prefix);
            } else {
                self.set(prefix, old).expect("a prefix that is there needs no room");
            }
        }
    }
}

impl<S: Steer> Writer<u128> for VppWriter<S> {
    fn table(&self) -> Arc<dyn Lpm<u128>> {
        self.table.clone()
    }

    fn apply(&mut self, rib: &Rib<u128>, changes: &[Change<u128>]) -> Result<Applied, Refusal> {
        for hop in changes.iter().filter_map(|change| change.hop) {
            self.card.admit_hop(hop)?;
        }
        let admitted = self.narrow.admit().and_then(|()| self.wide.admit());
        let admitted = admitted.and_then(|()| self.steer.admit());
        admitted.map_err(|congested| self.card.refuse(congested.to_string()))?;
        // What the Rib says in the end, so that order does not matter; removals
        // last, for they cannot fail.
        if let Err(NoRoom) = self.set_all(rib, changes) {
            return Ok(Applied::Rebuild);
        }
        for change in changes {
            if change.prefix.len() == 0 {
                self.table.default.follow(rib);
            } else if rib.get(&change.prefix).is_none() {
                self.remove(change.prefix);
            }
        }
        Ok(Applied::InPlace)
    }

    fn bytes(&self) -> usize {
        self.narrow.bytes() + self.wide.bytes() + self.steer.bytes()
    }
}

fn hash_of(hashing: &Hashing, prefix: Prefix<u128>) -> u64 {
    /// What the processor does best, chosen at each step: for the writer.
    struct Any;
    impl crate::hash::Crc32c for Any {
        fn word(crc: u32, word: u64) -> u32 {
            crc32c(crc, word)
        }
    }
    let (dst, len) = (prefix.first(), prefix.len());
    if len > 64 {
        hashing.of::<Any, 3>(len, &wide(dst, len))
    } else {
        hashing.of::<Any, 2>(len, &narrow(dst, len))
    }
}

/// Hashes tried, and steps of growth, before a table is refused.
const ATTEMPTS: u32 = 8;
