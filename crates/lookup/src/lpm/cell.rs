//! Hops in arrays that readers and a writer share: 16 bits where every hop
//! fits, else 32. Engines choose at build, by the largest hop.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use crate::pages::Zeroed;

/// A stored hop.
pub(super) trait Cell: Zeroed + Send + Sized {
    /// The largest hop that it holds.
    const MAX_HOP: u32;

    fn get(&self) -> u32;
    fn set(&self, hop: u32);
}

impl Cell for AtomicU16 {
    const MAX_HOP: u32 = u16::MAX as u32;

    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed).into()
    }
    #[inline(always)]
    fn set(&self, hop: u32) {
        self.store(hop as u16, Ordering::Relaxed);
    }
}

impl Cell for AtomicU32 {
    const MAX_HOP: u32 = u32::MAX >> 1;

    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn set(&self, hop: u32) {
        self.store(hop, Ordering::Relaxed);
    }
}
