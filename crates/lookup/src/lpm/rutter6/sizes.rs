//! How large a table's arrays are.

/// Values for which address space is reserved, powers of two: some times what the routes
/// take. Memory comes as it is used; who needs more builds anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) cells: usize,
    pub(super) units: usize,
    pub(super) deep: usize,
}

impl Sizes {
    /// For a table of so many routes.
    pub(super) fn of(routes: usize) -> Sizes {
        let room = |each: usize, least: usize, most: usize| {
            routes.saturating_mul(each).clamp(least.min(most), most).next_power_of_two()
        };
        Sizes {
            cells: room(8, LEAST_CELLS, CELLS),
            units: room(4, LEAST_UNITS, UNITS),
            deep: room(2, LEAST_DEEPS, DEEPS),
        }
    }

    /// The next larger ones; `None` where there are none.
    pub(super) fn next(self) -> Option<Sizes> {
        let next = |size: usize, most: usize| (4 * size).min(most);
        let Sizes { cells, units, deep } = self;
        let all = [next(cells, CELLS), next(units, UNITS), next(deep, DEEPS)];
        let larger = Sizes { cells: all[0], units: all[1], deep: all[2] };
        (all != [cells, units, deep]).then_some(larger)
    }
}

/// The most of each.
const CELLS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 26 };
pub(super) const UNITS: usize = if cfg!(miri) { 1 << 13 } else { 1 << 26 };
pub(super) const DEEPS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 24 };

/// The least: 1 MiB, 2 MiB and 64 KiB.
const LEAST_CELLS: usize = 1 << 18;
const LEAST_UNITS: usize = 1 << 15;
const LEAST_DEEPS: usize = 1 << 14;
