//! A ring of frames, copied in and out: between a worker and the kernel thread,
//! between workers whose buffers are not shared, and from worker to capture.
//!
//! ```text
//!  words of 8 bytes     │ bytes u32 · iface u16 · kind u16 │ info │ time │ data, padded to 8 │
//!                         bytes = SKIP: the rest of the ring is unused, go on at its start
//! ```
//!
//! A record never wraps, so the consumer sees its data as one slice.

use super::{Consuming, Indices, Producing};
use crate::bell::Bell;
use crate::sync::{Arc, UnsafeCell};

/// What travels with a frame. The meaning is the two sides' own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Meta {
    /// Interface.
    pub iface: u16,
    /// Class, port or point.
    pub kind: u16,
    /// Anything.
    pub info: u64,
    /// Time in ticks.
    pub time: u64,
}

/// A ring of `bytes` (rounded up to a power of two, 4 KiB to 2 GiB). A frame of
/// more than half of that is refused: so its length has 31 bits.
pub fn ring(bytes: usize) -> (Producer, Consumer) {
    let words = (bytes / WORD).clamp(512, MOST).next_power_of_two();
    let shared = Arc::new(Shared {
        indices: Indices::new(words),
        words: (0..words).map(|_| UnsafeCell::new(0)).collect(),
    });
    let producer = Producer { shared: shared.clone(), mine: Producing::default(), bell: None };
    (producer, Consumer { shared, mine: Consuming::default() })
}

struct Shared {
    indices: Indices,
    words: Box<[UnsafeCell<u64>]>,
}

// SAFETY: a word is touched by one side at a time (R1), and handed over with
// release and acquire (R2).
unsafe impl Sync for Shared {}
// SAFETY: as above; words are plain numbers.
unsafe impl Send for Shared {}

/// The side that puts frames in.
pub struct Producer {
    shared: Arc<Shared>,
    mine: Producing,
    /// The consumer's; `None`: the consumer does not sleep.
    bell: Option<Bell>,
}

impl Producer {
    /// The same, to somebody who sleeps until `bell` is rung.
    #[must_use]
    pub fn to_sleeper(self, bell: Bell) -> Producer {
        Producer { bell: Some(bell), ..self }
    }

    /// Wakes the consumer if it sleeps. One call does for all frames pushed before it.
    pub fn ring(&self) {
        self.bell.iter().for_each(Bell::ring);
    }

    /// Copies a frame in: `parts`, one after the other. False when the ring has
    /// no room for it.
    pub fn push(&mut self, meta: Meta, parts: &[&[u8]]) -> bool {
        self.push_leaving(0, meta, parts)
    }

    /// Bytes of the ring.
    pub fn capacity(&self) -> usize {
        self.shared.indices.capacity * WORD
    }

    /// As [`Producer::push`], but `spare` bytes have to be left free for frames that
    /// matter more.
    pub fn push_leaving(&mut self, spare: usize, meta: Meta, parts: &[&[u8]]) -> bool {
        let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        let capacity = self.shared.indices.capacity;
        let need = HEADER + bytes.div_ceil(WORD);
        if need > capacity / 2 {
            return false;
        }
        let to_end = capacity - (self.mine.head & (capacity - 1));
        let skip = if need > to_end { to_end } else { 0 };
        let spare = spare.div_ceil(WORD).min(capacity);
        if !self.mine.room(&self.shared.indices, skip + need + spare) {
            return false;
        }
        if skip > 0 {
            self.set(0, u64::from(SKIP));
        }
        let kind = u64::from(meta.iface) << 32 | u64::from(meta.kind) << 48;
        self.set(skip, bytes as u64 | kind);
        self.set(skip + 1, meta.info);
        self.set(skip + 2, meta.time);
        self.copy(skip + HEADER, parts);
        self.mine.publish(&self.shared.indices, skip + need);
        true
    }

    /// Writes the word `at` words after the head. `room` was asked for it.
    fn set(&mut self, at: usize, value: u64) {
        let mask = self.shared.indices.capacity - 1;
        self.shared.words[(self.mine.head + at) & mask].with_mut(|word| {
            // SAFETY: R1: the word is free, so only this side touches it.
            unsafe { *word = value }
        });
    }

    /// Copies the parts to the words `at` words after the head, in whole words:
    /// a word is put together where two parts meet.
    fn copy(&mut self, mut at: usize, parts: &[&[u8]]) {
        let (mut word, mut filled) = ([0; WORD], 0);
        for part in parts {
            let mut rest = *part;
            if filled > 0 {
                let n = rest.len().min(WORD - filled);
                word[filled..filled + n].copy_from_slice(&rest[..n]);
                (filled, rest) = (filled + n, &rest[n..]);
                if filled < WORD {
                    continue;
                }
                self.set(at, u64::from_ne_bytes(word));
                at += 1;
            }
            let mut chunks = rest.chunks_exact(WORD);
            for chunk in &mut chunks {
                self.set(at, u64::from_ne_bytes(chunk.try_into().expect("a chunk of 8")));
                at += 1;
            }
            filled = chunks.remainder().len();
            word[..filled].copy_from_slice(chunks.remainder());
        }
        if filled > 0 {
            self.set(at, u64::from_ne_bytes(word));
        }
    }
}

/// The side that takes frames out.
pub struct Consumer {
    shared: Arc<Shared>,
    mine: Consuming,
}

impl Consumer {
    /// What travels with the oldest frame, which stays in.
    pub fn peek(&mut self) -> Option<Meta> {
        self.first().map(|(meta, _)| meta)
    }

    /// Shows the oldest frame to `f` and removes it; `None` when there is none.
    pub fn pop<R>(&mut self, f: impl FnOnce(Meta, &[u8]) -> R) -> Option<R> {
        let (meta, bytes) = self.first()?;
        let answer = f(meta, self.data(bytes));
        self.mine.release(&self.shared.indices, HEADER + bytes.div_ceil(WORD));
        Some(answer)
    }

    /// True when nothing waits.
    pub fn is_empty(&mut self) -> bool {
        !self.mine.any(&self.shared.indices)
    }

    /// The oldest record's meaning and bytes, after what was skipped before it.
    #[inline]
    fn first(&mut self) -> Option<(Meta, usize)> {
        let capacity = self.shared.indices.capacity;
        loop {
            if !self.mine.any(&self.shared.indices) {
                return None;
            }
            let first = self.get(0);
            if first as u32 != SKIP {
                let (iface, kind) = ((first >> 32) as u16, (first >> 48) as u16);
                let meta = Meta { iface, kind, info: self.get(1), time: self.get(2) };
                return Some((meta, first as u32 as usize));
            }
            let to_end = capacity - (self.mine.tail & (capacity - 1));
            self.mine.release(&self.shared.indices, to_end);
        }
    }

    fn get(&self, at: usize) -> u64 {
        let mask = self.shared.indices.capacity - 1;
        self.shared.words[(self.mine.tail + at) & mask].with(|word| {
            // SAFETY: R1: the word was handed over, so the producer keeps off.
            unsafe { *word }
        })
    }

    /// The data of the record at the tail: its words lie one after the other.
    fn data(&self, bytes: usize) -> &[u8] {
        let mask = self.shared.indices.capacity - 1;
        let start = (self.mine.tail + HEADER) & mask;
        // A record of no data at the very end starts at word 0: an empty slice.
        let words = &self.shared.words[start..start + bytes.div_ceil(WORD)];
        let data = words.as_ptr().cast::<u8>();
        #[cfg(not(loom))]
        // SAFETY:
        // - the words are u64 in transparent cells, initialised, one allocation;
        // - R1: they were handed over and stay with this side until `release`.
        unsafe {
            std::slice::from_raw_parts(data, bytes)
        }
        #[cfg(loom)]
        {
            // Loom's cells are larger; its test reads no data.
            let _ = data;
            &[]
        }
    }
}

const WORD: usize = 8;
/// Words before the data.
const HEADER: usize = 3;
const SKIP: u32 = u32::MAX;
/// Words of the largest ring.
const MOST: usize = 1 << 28;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meta(i: usize) -> Meta {
        Meta { iface: i as u16, kind: (i >> 16) as u16 ^ 7, info: i as u64 * 3, time: i as u64 }
    }

    #[test]
    fn a_full_ring_refuses_and_goes_on_later() {
        let (mut producer, mut consumer) = ring(4096);
        let frame = [7; 1000];
        let mut sent = 0;
        while producer.push(meta(sent), &[&frame]) {
            sent += 1;
        }
        assert_eq!(sent, 4);
        assert!(!producer.push(meta(0), &[&[0; 3000]]));
        for i in 0..sent {
            consumer.pop(|got, data| assert!(got == meta(i) && data == frame)).unwrap();
        }
        assert!(consumer.is_empty() && consumer.pop(|_, _| ()).is_none());
        assert!(producer.push(meta(1), &[&frame]));
    }

    const MOST_FRAMES: usize = if cfg!(miri) { 20 } else { 300 };

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            frames in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..4),
                1..MOST_FRAMES,
            ),
            lag in 0_usize..10,
        ) {
            let (mut producer, mut consumer) = ring(4096);
            let mut expected = std::collections::VecDeque::new();
            for (i, parts) in frames.iter().enumerate() {
                let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                prop_assert!(producer.push(meta(i), &slices));
                expected.push_back((meta(i), parts.concat()));
                while expected.len() > lag {
                    prop_assert_eq!(consumer.peek(), expected.front().map(|(meta, _)| *meta));
                    let got = consumer.pop(|meta, data| (meta, data.to_vec()));
                    prop_assert_eq!(got, expected.pop_front());
                }
            }
            for want in expected {
                prop_assert_eq!(consumer.pop(|meta, data| (meta, data.to_vec())), Some(want));
            }
        }
    }
}
