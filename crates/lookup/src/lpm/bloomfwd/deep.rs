//! IPv6 prefixes longer than /64, which the paper leaves out: a hash probe for each
//! of their lengths, in the few /64s that hold some.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::mix_128;
use crate::lpm::hashed::{Hashed, HashedWriter, NoRoom};
use crate::sync::{Congested, Domain};
use crate::{Addr, Hop, Prefix, Rib};

/// What readers share.
pub(super) struct Deep {
    table: Arc<Hashed<3>>,
    /// Bit n - 65 stands for length n.
    lengths: AtomicU64,
}

impl Deep {
    /// The hop of the longest of these prefixes that covers `dst`, 0 for none.
    pub(super) fn lookup(&self, dst: u128) -> u32 {
        let mut lengths = self.lengths.load(Ordering::Acquire);
        while lengths != 0 {
            let bit = lengths.ilog2();
            lengths &= !(1 << bit);
            let (hash, key) = key(dst, bit as u8 + 65);
            let hop = self.table.find(self.table.header(hash), &key);
            if hop != 0 {
                return hop;
            }
        }
        0
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// The lengths, and the table.
    pub(super) fn parts(&self) -> (u64, &Hashed<3>) {
        (self.lengths.load(Ordering::Acquire), &self.table)
    }
}

/// I1: a length of which there are prefixes has its bit in `lengths`.
pub(super) struct DeepWriter {
    table: HashedWriter<3>,
    counts: [u32; 64],
}

impl DeepWriter {
    /// Of the prefixes of `rib` longer than /64.
    pub(super) fn build<A: Addr>(
        rib: &Rib<A>,
        domain: &Arc<Domain>,
    ) -> std::io::Result<(DeepWriter, Deep)> {
        let (mut records, mut counts, mut lengths) = (Vec::new(), [0; 64], 0);
        for (prefix, hop) in rib.iter().filter(|(prefix, _)| prefix.len() > 64) {
            let (hash, mut record) = key(prefix.first().to_u128(), prefix.len());
            record[2] |= u64::from(hop.0);
            records.push((hash, record));
            counts[usize::from(prefix.len()) - 65] += 1;
            lengths |= 1 << (prefix.len() - 65);
        }
        let table = HashedWriter::build(domain, &records)?;
        let deep = Deep { table: table.table().clone(), lengths: AtomicU64::new(lengths) };
        Ok((DeepWriter { table, counts }, deep))
    }

    pub(super) fn admit(&mut self) -> Result<(), Congested> {
        self.table.admit()
    }

    pub(super) fn is_loose(&self) -> bool {
        self.table.is_loose()
    }

    /// Sets the hop of a prefix, or with 0 removes it; returns the one before.
    /// Only a new prefix can find no room.
    pub(super) fn put<A: Addr>(
        &mut self,
        deep: &Deep,
        prefix: Prefix<A>,
        hop: u32,
    ) -> Result<u32, NoRoom> {
        let (hash, key) = key(prefix.first().to_u128(), prefix.len());
        let count = &mut self.counts[usize::from(prefix.len()) - 65];
        let old = if hop == 0 {
            self.table.remove(hash, &key)
        } else {
            self.table.set(hash, &key, hop)?
        };
        *count = *count + u32::from(old == 0 && hop != 0) - u32::from(old != 0 && hop == 0);
        let bit = 1 << (prefix.len() - 65);
        let lengths = deep.lengths.load(Ordering::Relaxed); // we alone write
        let lengths = if *count > 0 { lengths | bit } else { lengths & !bit };
        deep.lengths.store(lengths, Ordering::Release);
        Ok(old)
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// True if `rib` has prefixes longer than /64 inside the /64 of `prefix`.
pub(super) fn holds_deep<A: Addr>(rib: &Rib<A>, prefix: Prefix<A>) -> bool {
    let around = Prefix::covering(prefix.first(), 64);
    rib.inside(around.first()..=around.last()).any(|(prefix, _)| prefix.len() > 64)
}

fn key(dst: u128, len: u8) -> (u32, [u64; 3]) {
    let prefix = dst & u128::mask(len);
    let hash = mix_128(prefix, len.into()) as u32;
    (hash, [(prefix >> 64) as u64, prefix as u64, u64::from(len) << 32])
}

/// A hop to put.
pub(super) fn id(hop: Option<Hop>) -> u32 {
    hop.map_or(0, |hop| hop.0)
}
