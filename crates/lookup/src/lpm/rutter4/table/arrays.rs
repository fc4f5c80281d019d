//! The memory of a table.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

use super::{ROOTS, SPARE, Value};
use crate::pages::Pages;

/// Roots and cells, in one mapping: roots alone would fill half a page of 2 MB, and the
/// system gives none for that.
///
/// - I5: `all` has the roots, then `mask + 1` cells, a power of two, and [`SPARE`] more.
pub(super) struct Arrays<V: Value> {
    all: Pages<AtomicU32>,
    mask: u32,
    of: PhantomData<V>,
}

impl<V: Value> Arrays<V> {
    /// So many cells, a power of two.
    pub(super) fn zeroed(cells: usize) -> std::io::Result<Self> {
        assert!(cells.is_power_of_two());
        let words = (cells + SPARE) * size_of::<V::Cell>() / size_of::<AtomicU32>();
        let mask = u32::try_from(cells - 1).expect("a place has 27 bits");
        Ok(Arrays { all: Pages::zeroed(ROOTS + words)?, mask, of: PhantomData })
    }

    /// Roots, cells with the spare ones, and the mask.
    #[inline(always)]
    pub(super) fn all(&self) -> (&[AtomicU32; ROOTS], &[V::Cell], u32) {
        let first = self.all.as_ptr();
        // SAFETY: the roots come first (I5).
        let roots = unsafe { &*first.cast() };
        // SAFETY: the cells come behind them.
        let cells = unsafe { first.add(ROOTS) }.cast();
        // SAFETY: so many (I5), of which zero is a value, and which nobody uses as another type;
        // a word is aligned to one.
        let cells = unsafe { std::slice::from_raw_parts(cells, self.mask as usize + 1 + SPARE) };
        (roots, cells, self.mask)
    }
}
