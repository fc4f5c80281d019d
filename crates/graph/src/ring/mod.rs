//! Rings between two threads: one produces, one consumes, neither waits.
//!
//! ```text
//!         tail: written by the consumer      head: written by the producer
//!           ▼                                  ▼
//!  [  free  | oldest … newest                  | free …  ]   places, modulo capacity
//! ```
//!
//! Both indices only grow. The producer writes the places in front of `head`,
//! then stores `head` (release); the consumer loads `head` (acquire) and so
//! sees what was written. The same holds for `tail` and the places given back.
//! Each side keeps its own index and the last one seen of the other side, and
//! reads the other's cache line only when the ring looks full or empty.
//!
//! Why this is enough (also explored by loom, see the tests of [`spsc`]): there
//! are two shared words, each with one writer. R1: the producer writes only
//! places in `head..tail + capacity`, the consumer reads only those in
//! `tail..head`; each computes its limit from an older value of the other's
//! index, which is never larger than the true one, so both sets are subsets of
//! the true ones and never overlap. R2: a place changes sides only through a
//! release store that the other side acquires, so what was written or read
//! there happened before.

pub mod frames;
pub mod spsc;

use crate::sync::{AtomicUsize, Ordering};

/// Keeps the two indices on cache lines (and prefetched pairs) of their own.
#[repr(align(128))]
#[derive(Debug)]
struct Padded<T>(T);

/// The two shared words of a ring.
#[derive(Debug)]
struct Indices {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    capacity: usize,
}

impl Indices {
    /// `capacity` must be a power of two.
    fn new(capacity: usize) -> Indices {
        debug_assert!(capacity.is_power_of_two());
        let zero = || Padded(AtomicUsize::new(0));
        Indices { head: zero(), tail: zero(), capacity }
    }
}

/// The producer's side of [`Indices`].
#[derive(Debug, Default)]
struct Producing {
    head: usize,
    tail_seen: usize,
}

impl Producing {
    /// True when `n` places are free (R1).
    #[inline]
    fn room(&mut self, shared: &Indices, n: usize) -> bool {
        if self.free(shared) >= n {
            return true;
        }
        self.tail_seen = shared.tail.0.load(Ordering::Acquire);
        self.free(shared) >= n
    }

    fn free(&self, shared: &Indices) -> usize {
        shared.capacity - self.head.wrapping_sub(self.tail_seen)
    }

    /// Hands `n` places over to the consumer (R2).
    #[inline]
    fn publish(&mut self, shared: &Indices, n: usize) {
        self.head = self.head.wrapping_add(n);
        shared.head.0.store(self.head, Ordering::Release);
    }
}

/// The consumer's side of [`Indices`].
#[derive(Debug, Default)]
struct Consuming {
    tail: usize,
    head_seen: usize,
}

impl Consuming {
    /// True when something waits (R1).
    #[inline]
    fn any(&mut self, shared: &Indices) -> bool {
        if self.head_seen != self.tail {
            return true;
        }
        self.head_seen = shared.head.0.load(Ordering::Acquire);
        self.head_seen != self.tail
    }

    /// How many items wait (R1).
    #[inline]
    fn waiting(&mut self, shared: &Indices) -> usize {
        self.head_seen = shared.head.0.load(Ordering::Acquire);
        self.seen()
    }

    /// How many waited when the producer's index was last read.
    #[inline]
    fn seen(&self) -> usize {
        self.head_seen.wrapping_sub(self.tail)
    }

    /// Gives `n` places back to the producer (R2).
    #[inline]
    fn release(&mut self, shared: &Indices, n: usize) {
        self.tail = self.tail.wrapping_add(n);
        shared.tail.0.store(self.tail, Ordering::Release);
    }
}
