//! What the lookups of a table have cost, summed over all threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters in stripes: threads rarely share one, so that counting costs an
/// uncontended addition a call.
pub(in crate::lpm) struct Tally([Stripe; STRIPES]);

#[derive(Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; 5]);

/// What one call has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::lpm) struct Sums {
    /// Addresses looked up.
    pub lookups: u64,
    /// Prefixes asked of a filter; nodes read, for a trie.
    pub filter_probes: u64,
    /// Prefixes searched in the FIB.
    pub fib_probes: u64,
    /// Of these, the ones that were not there.
    pub false_positives: u64,
    /// Of the time stamp counter.
    pub cycles: u64,
}

impl Tally {
    pub(in crate::lpm) fn new() -> Self {
        Tally(Default::default())
    }

    #[inline]
    pub(in crate::lpm) fn add(&self, sums: &Sums) {
        let Sums { lookups, filter_probes, fib_probes, false_positives, cycles } = *sums;
        let figures = [lookups, filter_probes, fib_probes, false_positives, cycles];
        let stripe = &self.0[STRIPE.with(|stripe| *stripe)];
        for (counter, figure) in stripe.0.iter().zip(figures) {
            counter.fetch_add(figure, Ordering::Relaxed);
        }
    }

    /// Forgets what was counted; exact where nobody looks up meanwhile.
    pub(in crate::lpm) fn reset(&self) {
        let all = self.0.iter().flat_map(|stripe| &stripe.0);
        all.for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    pub(in crate::lpm) fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = |i: usize| self.0.iter().map(|stripe| stripe.0[i].load(Ordering::Relaxed)).sum();
        NAMES.into_iter().enumerate().map(|(i, name)| (name, sum(i))).collect()
    }
}

thread_local! {
    static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

const NAMES: [&str; 5] =
    ["lookups", "filter_probes", "fib_probes", "false_positives", "tsc_cycles"];

const STRIPES: usize = 16;
