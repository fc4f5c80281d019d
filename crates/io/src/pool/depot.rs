//! Free packets that no worker holds: a stack of indices without a lock
//! (Treiber 1986), taken from and given to in bulk.
//!
//! ```text
//!  head  [ tag | 3 ] ──► links[3] = 7 ──► links[7] = NONE        links: 4 bytes a packet
//! ```
//!
//! A push writes the links of its own packets and then swings `head`; a pop
//! walks links that others may be changing, but only keeps what it read if
//! `head`, tag included, is still what it was: every success moves the tag on.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Invariant D1: an index is on the stack at most once: whoever pushes it owns it.
pub(super) struct Depot {
    /// Tag (upper half), index of the first packet (lower half).
    head: AtomicU64,
    links: Box<[AtomicU32]>,
    count: AtomicUsize,
}

impl Depot {
    /// An empty stack for indices below `packets`.
    pub(super) fn new(packets: u32) -> Self {
        let links = (0..packets).map(|_| AtomicU32::new(NONE)).collect();
        Depot { head: AtomicU64::new(u64::from(NONE)), links, count: AtomicUsize::new(0) }
    }

    /// Indices on the stack; exact while nobody pushes or pops.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Puts indices on the stack, the last of them on top.
    pub(super) fn push(&self, indices: &[u32]) {
        let (Some(&bottom), Some(&top)) = (indices.first(), indices.last()) else { return };
        for pair in indices.windows(2) {
            self.links[pair[1] as usize].store(pair[0], Ordering::Relaxed);
        }
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.links[bottom as usize].store(head as u32, Ordering::Relaxed);
            // Release: the links above, and what the caller did to the packets.
            match self.swing(head, top) {
                Ok(()) => break,
                Err(now) => head = now,
            }
        }
        // Last, and a release: whoever then sees all packets home may free this.
        self.count.fetch_add(indices.len(), Ordering::Release);
    }

    /// Takes up to `into.len()` indices off; returns how many.
    pub(super) fn pop(&self, into: &mut [u32]) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let mut next = head as u32;
            let mut taken = 0;
            while taken < into.len() && next != NONE {
                into[taken] = next;
                taken += 1;
                next = self.links[next as usize].load(Ordering::Relaxed);
            }
            if taken == 0 {
                return 0;
            }
            match self.swing(head, next) {
                Ok(()) => {
                    self.count.fetch_sub(taken, Ordering::Relaxed);
                    return taken;
                }
                Err(now) => head = now,
            }
        }
    }

    /// Makes `index` the first one if `head` still is what it was.
    fn swing(&self, head: u64, index: u32) -> Result<(), u64> {
        let next = (head >> 32).wrapping_add(1) << 32 | u64::from(index);
        self.head.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::scope;

    #[test]
    fn what_was_pushed_last_comes_first() {
        let depot = Depot::new(8);
        depot.push(&[]);
        depot.push(&[1, 2, 3]);
        depot.push(&[7]);
        let mut got = [0; 3];
        assert_eq!(depot.pop(&mut got), 3);
        assert_eq!(got, [7, 3, 2]);
        assert_eq!(depot.pop(&mut got), 1);
        assert_eq!((got[0], depot.pop(&mut got), depot.len()), (1, 0, 0));
    }

    #[test]
    fn threads_never_hold_one_index_twice() {
        const ALL: u32 = 64;
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let depot = Depot::new(ALL);
        depot.push(&(0..ALL).collect::<Vec<_>>());
        let held: Vec<AtomicU32> = (0..ALL).map(|_| AtomicU32::new(0)).collect();
        scope(|s| {
            for thread in 1..=4 {
                let (depot, held) = (&depot, &held);
                s.spawn(move || {
                    let mut mine = [0; 9];
                    for _ in 0..rounds {
                        let n = depot.pop(&mut mine[..1 + thread]);
                        for &index in &mine[..n] {
                            assert_eq!(held[index as usize].swap(1, Ordering::Relaxed), 0);
                        }
                        for &index in &mine[..n] {
                            held[index as usize].store(0, Ordering::Relaxed);
                        }
                        depot.push(&mine[..n]);
                    }
                });
            }
        });
        let mut all = [0; ALL as usize];
        assert_eq!(depot.pop(&mut all), ALL as usize);
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..ALL));
    }
}
