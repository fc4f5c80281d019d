//! A burst of searches, on any processor.

use super::View;
use super::search::{DIRECT, Search, format_of};
use crate::Hop;
use crate::lpm::default_hop;

impl View<'_> {
    /// As `Lpm::lookup_batch`; the slices are of one length.
    #[inline(always)]
    pub(super) fn batch(self, default: u32, dsts: &[u32], hops: &mut [Hop]) {
        for (dsts, hops) in dsts.chunks(BURST).zip(hops.chunks_mut(BURST)) {
            self.burst(dsts, hops);
            default_hop::fill(hops, default);
        }
    }

    #[inline(always)]
    fn burst(self, dsts: &[u32], hops: &mut [Hop]) {
        let (mut whose, mut count) = ([0_u8; BURST], 0);
        for (i, (&dst, hop)) in dsts.iter().zip(hops.iter_mut()).enumerate() {
            hop.0 = self.entry(dst);
            whose[count % BURST] = i as u8; // to be written over where it is a hop
            count += usize::from(format_of(hop.0) != DIRECT);
        }
        let (mut searches, mut active) = ([Search::default(); BURST], [0_u8; BURST]);
        let whose = &whose[..count];
        for (j, (search, &i)) in searches.iter_mut().zip(whose).enumerate() {
            let (dst, entry) = (dsts[usize::from(i)], hops[usize::from(i)].0);
            *search = Search::new(entry, dst & self.low_mask());
            search.prefetch(self);
            active[j] = j as u8;
        }
        while count > 0 {
            let mut left = 0;
            for at in 0..count {
                let j = active[at % BURST];
                let search = &mut searches[usize::from(j) % BURST];
                search.step(self);
                active[left % BURST] = j; // `left` is not ahead of `at`
                left += usize::from(search.left > 1);
            }
            count = left;
        }
        for (search, &i) in searches.iter().zip(whose) {
            hops[usize::from(i)].0 = search.hop(self);
        }
    }
}

const BURST: usize = 256;
