//! A ring of items of one type.

use std::mem::MaybeUninit;

use lookup::hint::prefetch_to_write;

use super::{Consuming, Indices, Producing};
use crate::sync::{Arc, UnsafeCell};

/// A ring for `capacity` items (rounded up to a power of two).
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(2).next_power_of_two();
    let place = |_| UnsafeCell::new(MaybeUninit::uninit());
    let shared = Arc::new(Shared {
        indices: Indices::new(capacity),
        places: (0..capacity).map(place).collect(),
    });
    let producer = Producer { shared: shared.clone(), mine: Producing::default() };
    (producer, Consumer { shared, mine: Consuming::default() })
}

struct Shared<T> {
    indices: Indices,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a place is touched by one side at a time (R1), and handed over with
// release and acquire (R2); the items themselves may change threads.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

/// The side that puts items in.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    mine: Producing,
}

impl<T: Send> Producer<T> {
    /// Puts `item` in, or gives it back when the ring is full.
    ///
    /// # Errors
    /// The item.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if !self.has_room(1) {
            return Err(item);
        }
        self.put(item, |_| {});
        Ok(())
    }

    /// Puts `item` in and lets `change` write to it in its place: what is written there field by
    /// field need not be copied. False when the ring is full.
    #[inline(always)]
    pub fn push_with(&mut self, item: T, change: impl FnOnce(&mut T)) -> bool {
        let has_room = self.has_room(1);
        if has_room {
            self.put(item, change);
        }
        has_room
    }

    /// Where there is room.
    #[inline(always)]
    fn put(&mut self, item: T, change: impl FnOnce(&mut T)) {
        let shared = &*self.shared;
        let place = |at: usize| &shared.places[at & (shared.indices.capacity - 1)];
        // The consumer's core has it still, where it is another: a write would wait for that.
        prefetch_to_write(place(self.mine.head.wrapping_add(AHEAD)));
        place(self.mine.head).with_mut(|place| {
            // SAFETY: R1: the place is free, so only this side touches it.
            let place = unsafe { &mut *place };
            change(place.write(item));
        });
        self.mine.publish(&shared.indices, 1);
    }

    /// True when the next [`Producer::push`] would be refused.
    pub fn is_full(&mut self) -> bool {
        !self.has_room(1)
    }

    /// True when the next `n` items would be taken.
    #[inline]
    pub fn has_room(&mut self, n: usize) -> bool {
        self.mine.room(&self.shared.indices, n)
    }
}

/// Places between the one that is written and the one that is asked for.
const AHEAD: usize = 8;

/// The side that takes items out. Items left in when it is dropped are dropped.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    mine: Consuming,
}

impl<T> Consumer<T> {
    /// The oldest item, which stays in.
    #[inline]
    pub fn peek(&mut self) -> Option<&T> {
        let shared = &*self.shared;
        if !self.mine.any(&shared.indices) {
            return None;
        }
        let place = &shared.places[self.mine.tail & (shared.indices.capacity - 1)];
        place.with(|place| {
            // SAFETY: R1: the place holds an item and only this side touches it, which
            // is borrowed as long as the item.
            let place = unsafe { &*place };
            // SAFETY: initialised by `push`.
            Some(unsafe { place.assume_init_ref() })
        })
    }

    /// Takes the oldest item out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let shared = &*self.shared;
        if !self.mine.any(&shared.indices) {
            return None;
        }
        let place = &shared.places[self.mine.tail & (shared.indices.capacity - 1)];
        let item = place.with(|place| {
            // SAFETY: R1: the place holds an item and only this side touches it.
            let place = unsafe { &*place };
            // SAFETY: initialised by `push`, and read once: `release` follows.
            unsafe { place.assume_init_read() }
        });
        self.mine.release(&shared.indices, 1);
        Some(item)
    }
}

/// Items that are read where they lie.
impl<T: Copy> Consumer<T> {
    /// The number of items that wait, of which [`Consumer::peek_at`] shows each.
    #[inline]
    pub fn waiting(&mut self) -> usize {
        self.mine.waiting(&self.shared.indices)
    }

    /// The item that has `n` older ones before it; `None` where [`Consumer::waiting`] reported no
    /// more than `n`.
    #[inline]
    pub fn peek_at(&self, n: usize) -> Option<&T> {
        if n >= self.mine.seen() {
            return None;
        }
        let at = self.mine.tail.wrapping_add(n);
        let place = &self.shared.places[at & (self.shared.indices.capacity - 1)];
        place.with(|place| {
            // SAFETY: R1: the place holds an item and only this side touches it, which
            // is borrowed as long as the item.
            let place = unsafe { &*place };
            // SAFETY: initialised by `push`.
            Some(unsafe { place.assume_init_ref() })
        })
    }

    /// Takes the `n` oldest items out, or all that [`Consumer::waiting`] reported.
    #[inline]
    pub fn discard(&mut self, n: usize) {
        let n = n.min(self.mine.seen());
        self.mine.release(&self.shared.indices, n);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Items that a still living producer adds later are leaked, not dropped.
        while self.pop().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_and_a_full_ring_refuses() {
        let (mut producer, mut consumer) = ring(4);
        for round in 0..10 {
            for i in 0..4 {
                assert_eq!(producer.push(round * 4 + i), Ok(()));
            }
            assert!(producer.is_full());
            assert_eq!(producer.push(99), Err(99));
            for i in 0..4 {
                assert_eq!(consumer.peek(), Some(&(round * 4 + i)));
                assert_eq!(consumer.pop(), Some(round * 4 + i));
            }
            assert!(consumer.peek().is_none() && consumer.pop().is_none());
        }
    }

    #[test]
    fn items_are_read_where_they_lie() {
        let (mut producer, mut consumer) = ring(4);
        let mut next = 0;
        for n in [0, 1, 2, 3, 4, 4, 2] {
            (next..next + n).for_each(|i| producer.push(i).unwrap());
            let seen: Vec<_> = (0..5).map_while(|i| consumer.peek_at(i).copied()).collect();
            assert!(seen.is_empty(), "nothing was asked for yet");
            assert_eq!(consumer.waiting(), n);
            let seen: Vec<_> = (0..5).map_while(|i| consumer.peek_at(i).copied()).collect();
            assert_eq!(seen, (next..next + n).collect::<Vec<_>>());
            consumer.discard(n / 2);
            assert_eq!(consumer.peek_at(0).copied(), (n > 0).then_some(next + n / 2));
            consumer.discard(usize::MAX);
            assert!(consumer.waiting() == 0 && consumer.pop().is_none());
            next += n;
        }
    }

    #[test]
    fn items_are_written_where_they_lie() {
        let (mut producer, mut consumer) = ring(2);
        for round in 0..5 {
            let put = |at: usize, to: u8| move |item: &mut [u8; 200]| item[at] = to;
            assert!(producer.push_with([round; 200], put(7, 70)));
            assert!(producer.push_with([round; 200], put(199, 71)));
            assert!(!producer.push_with([round; 200], |_| panic!("it is full")));
            let [first, second] = [(); 2].map(|()| consumer.pop().expect("two were put in"));
            assert_eq!((first[6], first[7], first[199]), (round, 70, round));
            assert_eq!((second[7], second[198], second[199]), (round, round, 71));
        }
    }

    #[test]
    fn what_is_left_is_dropped() {
        let item = std::sync::Arc::new(());
        let (mut producer, consumer) = ring(8);
        producer.push(item.clone()).unwrap();
        drop(consumer);
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    }

    #[test]
    fn two_threads() {
        let items = if cfg!(miri) { 300 } else { 20_000_u64 };
        let (mut producer, mut consumer) = ring(64);
        let sender = std::thread::spawn(move || {
            for i in 0..items {
                while producer.push(i).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < items {
            match consumer.pop() {
                Some(i) => {
                    assert_eq!(i, next);
                    next += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        sender.join().unwrap();
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p graph --release ring`. Explored:
/// three items through a ring of two places, so that both indices wrap, one side
/// is refused and the other finds nothing; where they are read in place, with at most three
/// preemptions. Not explored: wrap of the machine word.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Comes through a ring of two places.
    fn three_items() -> (loom::thread::JoinHandle<()>, Consumer<u32>) {
        let (mut producer, consumer) = ring(2);
        let sender = loom::thread::spawn(move || {
            for i in 0..3 {
                while producer.push(i).is_err() {
                    loom::thread::yield_now();
                }
            }
        });
        (sender, consumer)
    }

    #[test]
    fn every_item_is_read_where_it_lies() {
        let mut model = loom::model::Builder::new();
        // The consumer looks at the producer's index each time: without a bound 90 seconds.
        model.preemption_bound = Some(3);
        model.check(|| {
            let (sender, mut consumer) = three_items();
            let mut next = 0;
            while next < 3 {
                let n = consumer.waiting();
                for i in 0..n {
                    assert_eq!(consumer.peek_at(i).copied(), Some(next));
                    next += 1;
                }
                consumer.discard(n);
                if n == 0 {
                    loom::thread::yield_now();
                }
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn every_item_arrives_once_in_order() {
        loom::model(|| {
            let (sender, mut consumer) = three_items();
            for i in 0..3 {
                let item = loop {
                    match consumer.pop() {
                        Some(item) => break item,
                        None => loom::thread::yield_now(),
                    }
                };
                assert_eq!(item, i);
            }
            sender.join().unwrap();
        });
    }
}
