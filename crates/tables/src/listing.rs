//! What lookups answer before the kernel's routes have been listed for the first time.
//!
//! Half a listing is a table in which an address may meet a shorter prefix than it should,
//! or none. What serves then is a view of the table that answers
//! [`NOT_READY`](fixed::NOT_READY) but for what no longer prefix can change: addresses of
//! this machine, multicast, martians. The table itself is filled below it, and takes its
//! place by being published: forwarding costs nothing more, before or after.

use std::sync::Arc;

use lookup::lpm::{Engines, Lpm};
use lookup::{Addr, Hop};

use crate::fib::Fib;
use crate::hops::fixed;

/// How far the first listing of a table's routes is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Listing {
    /// It is not complete, and was given up so many times.
    Awaited(u8),
    /// The commit of this number holds all of it.
    Complete(u64),
    /// It is in the table that serves, or none was to be waited for.
    Done,
}

impl Listing {
    /// The kernel has listed all routes; commit `seq` will hold them.
    pub(crate) fn complete(&mut self, seq: u64) {
        if matches!(self, Listing::Awaited(_)) {
            *self = Listing::Complete(seq);
        }
    }

    /// A listing was given up. After as many as a feed tries in a row it pauses for long,
    /// and what is there has to do: routes that change all the time are never listed whole.
    pub(crate) fn given_up(&mut self, seq: u64) {
        if let Listing::Awaited(times) = self {
            *times += 1;
            if *times >= TRIES {
                *self = Listing::Complete(seq);
            }
        }
    }

    /// True once, when the table has it all.
    pub(crate) fn is_done_by<A: Engines>(&mut self, fib: &Fib<A>) -> bool {
        let done = matches!(*self, Listing::Complete(seq) if fib.has(seq));
        if done {
            *self = Listing::Done;
        }
        done
    }

    /// What the nodes are to look up in.
    pub(crate) fn view<A: Engines>(self, fib: &Fib<A>) -> Arc<dyn Lpm<A>> {
        match self {
            Listing::Done => fib.table(),
            Listing::Awaited(_) | Listing::Complete(_) => Arc::new(NotReady(fib.table())),
        }
    }
}

/// Of a feed in a row (`feeds::netlink`).
const TRIES: u8 = 4;

struct NotReady<A: Addr>(Arc<dyn Lpm<A>>);

impl<A: Addr> Lpm<A> for NotReady<A> {
    fn lookup(&self, dst: A) -> Hop {
        known(self.0.lookup(dst))
    }
    fn lookup_batch(&self, dsts: &[A], hops: &mut [Hop]) {
        self.0.lookup_batch(dsts, hops);
        hops.iter_mut().for_each(|hop| *hop = known(*hop));
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// The hop, where it is for the kernel, which knows all routes, or for nobody.
fn known(hop: Hop) -> Hop {
    match hop {
        fixed::FOR_US | fixed::MULTICAST | fixed::MARTIAN => hop,
        _ => fixed::NOT_READY,
    }
}
