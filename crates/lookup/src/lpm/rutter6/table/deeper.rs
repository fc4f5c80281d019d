//! What is longer than /48: trees below trees, whose reads of a burst overlap as those above do.

use std::sync::atomic::Ordering;

use super::{DEEP, MOST_STEPS, Value, View};
use crate::Hop;
use crate::hint::prefetch;
use crate::lpm::default_hop;
use crate::lpm::rutter6::rank::{BURST, Rank};
use crate::lpm::rutter6::{LEVELS, LINE, SUPER, x_of};

impl<V: Value> View<'_, V> {
    /// The hop behind a value that names a deeper tree.
    #[cold]
    #[inline(never)]
    pub(super) fn below(self, mut value: u32, dst: u128) -> u32 {
        for level in 1..LEVELS {
            let entry = self.deep(value).load(Ordering::Acquire);
            value = self.value(entry, x_of(dst, level));
            if value & DEEP == 0 {
                break;
            }
        }
        value & !DEEP
    }

    /// The answers of keys whose values name deeper trees, [`BURST`] keys at most: a level of
    /// all of them at a time, so that their reads overlap.
    #[inline(always)]
    pub(super) fn finish_deep(
        self,
        rank: impl Rank,
        dsts: &[u128],
        hops: &mut [Hop],
        default: u32,
    ) {
        let (mut places, mut entries, mut count) = ([0_u8; BURST], [0; BURST], 0);
        for (i, hop) in hops.iter().enumerate().take(BURST) {
            places[count] = i as u8; // `count` is not ahead of `i`
            count += usize::from(hop.0 > V::MOST);
        }
        for level in 1..LEVELS {
            let listed = &places[..count];
            for &i in listed {
                prefetch(self.deep(V::widen(hops[usize::from(i)].0)));
            }
            for (entry, &i) in entries.iter_mut().zip(listed) {
                *entry = self.deep(V::widen(hops[usize::from(i)].0)).load(Ordering::Acquire);
                prefetch(self.unit(*entry));
            }
            for (entry, &i) in entries.iter_mut().zip(listed) {
                let x = x_of(dsts[usize::from(i)], level);
                // A tree of more than 16 lines is rare in one /48.
                for _ in 1..MOST_STEPS {
                    if *entry & SUPER == 0 {
                        break;
                    }
                    *entry = self.step(rank, *entry, x);
                }
                // Without a branch: which trees are a line alone depends on the address.
                let next = self.step(rank, *entry, x);
                *entry = if *entry & LINE == 0 { next } else { *entry };
                prefetch(self.unit(*entry));
            }
            let mut left = 0;
            for at in 0..count {
                let i = usize::from(places[at]);
                let raw = V::search(rank, self.unit(entries[at]), x_of(dsts[i], level));
                hops[i] = default_hop::or(raw, default);
                places[left] = i as u8; // `left` is not ahead of `at`
                left += usize::from(raw > V::MOST);
            }
            count = left;
            if count == 0 {
                return;
            }
        }
        // Of a reader that does not quiesce: some hop or other.
        for &i in &places[..count] {
            let hop = &mut hops[usize::from(i)];
            *hop = default_hop::or(hop.0 & V::MOST, default);
        }
    }
}
