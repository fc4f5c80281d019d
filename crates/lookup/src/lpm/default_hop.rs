//! The default route's hop, which an engine keeps beside its table: there 0 says
//! "nothing but /0". So a new default route is one store, whatever the table's size.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Addr, Hop, Prefix, Rib};

/// The hop of /0, 0 for none.
#[derive(Default)]
pub(super) struct DefaultHop(AtomicU32);

impl DefaultHop {
    /// That of `rib`.
    pub(super) fn of<A: Addr>(rib: &Rib<A>) -> Self {
        let default = DefaultHop::default();
        default.follow(rib);
        default
    }

    /// Becomes that of `rib`; by the writer alone.
    pub(super) fn follow<A: Addr>(&self, rib: &Rib<A>) {
        self.set(rib.get(&Prefix::all()).unwrap_or(Hop::NONE));
    }

    /// Becomes `hop`; by the writer alone.
    pub(super) fn set(&self, hop: Hop) {
        self.0.store(hop.0, Ordering::Release);
    }

    /// For a burst, of which each lookup goes through [`or`] or [`fill`].
    #[inline(always)]
    pub(super) fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// The answer of one lookup; read only where it is needed.
    #[inline(always)]
    pub(super) fn or(&self, found: u32) -> Hop {
        Hop(if found == 0 { self.get() } else { found })
    }
}

/// The answer of a lookup that has found `found`.
#[inline(always)]
pub(super) fn or(found: u32, default: u32) -> Hop {
    Hop(if found == 0 { default } else { found })
}

/// Makes what lookups have found their answers.
#[inline(always)]
pub(super) fn fill(hops: &mut [Hop], default: u32) {
    for hop in hops {
        *hop = or(hop.0, default);
    }
}
