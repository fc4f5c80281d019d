//! The queue of one worker's requests for the channel.
//!
//! ```text
//!  levels   1 bit each: something waits there
//!  ends     63 │ first ─► slot ⇄ slot ⇄ slot ◄─ last        pushed behind the last,
//!           62 │ …                                          popped from the first of the highest,
//!            ⋮                                              dropped from the last of the lowest
//!  aside    the same again, of those that cannot leave for now
//!  links    a slab; free ones are a chain too
//!  items    of the same places, apart: so all links are in few lines
//! ```
//!
//! | cost | push, pop, what makes room: a slot or two and an end each, however many wait |
//! |------|------------------------------------------------------------------------------|

use super::chains::{Chains, LEVELS, Link, NONE};

/// A bounded queue of 64 levels: the highest first, first in first out within one.
///
/// Items that cannot leave for now are set aside: others go first, and they keep their room and,
/// when they are taken back, their place.
///
/// Invariants: I1: each slot, a link and an item of one number, is in the chain of one level, with
/// an item, or in that of the free ones, without. I2: those of a level that are set aside came
/// before its others.
pub struct Queue<T> {
    links: Box<[Link]>,
    items: Box<[Option<T>]>,
    chains: Chains,
    aside: Chains,
    free: u32,
    len: usize,
}

/// What had to go, and its level.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Dropped<T> {
    /// 0 to 63.
    pub level: u8,
    /// It.
    pub item: T,
}

impl<T> Queue<T> {
    /// Room for so many: one at least, a million at most.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, MOST) as u32;
        let mut links: Box<[_]> =
            (0..capacity).map(|at| Link { next: at + 1, before: NONE }).collect();
        links[capacity as usize - 1].next = NONE;
        let items = (0..capacity).map(|_| None).collect();
        let (chains, aside) = (Chains::default(), Chains::default());
        Queue { links, items, chains, aside, free: 0, len: 0 }
    }

    /// Whether an item of this level (of which six bits count) would stay.
    #[inline]
    pub fn takes(&self, level: u8) -> bool {
        // Full, so there is a lowest.
        self.free != NONE || Some(level & LEVEL_MASK) > self.lowest()
    }

    /// Puts an item behind those of its level (of which six bits count). Gives what there
    /// was no room for: the youngest of the lowest level, or the item itself where its
    /// level is no higher than that.
    #[inline]
    pub fn push(&mut self, level: u8, item: T) -> Option<Dropped<T>> {
        let level = level & LEVEL_MASK;
        let mut dropped = None;
        if self.free == NONE {
            let lowest = self.lowest().unwrap_or(level); // full, so there is one
            if level <= lowest {
                return Some(Dropped { level, item });
            }
            dropped = self.take_last(lowest);
        }
        let at = self.put(item);
        self.chains.append(&mut self.links, level, at);
        dropped
    }

    /// The next item and its level.
    #[inline]
    pub fn peek(&self) -> Option<(u8, &T)> {
        self.first_of(&self.chains)
    }

    /// The next item of those that are set aside, and its level.
    #[inline]
    pub fn peek_aside(&self) -> Option<(u8, &T)> {
        self.first_of(&self.aside)
    }

    fn first_of(&self, chains: &Chains) -> Option<(u8, &T)> {
        let level = chains.highest()?;
        self.items[chains.first(level) as usize].as_ref().map(|item| (level, item))
    }

    /// Where the items of the highest level are, in their order. They are not read: who knows
    /// how soon they leave may ask for them before.
    #[inline]
    pub fn next(&self) -> impl Iterator<Item = &Option<T>> {
        let first = self.head().map_or(NONE, |level| self.chains.first(level));
        let behind = |&at: &u32| self.links.get(at as usize).map(|link| link.next);
        // `NONE` is no place.
        std::iter::successors(Some(first), behind).map_while(|at| self.items.get(at as usize))
    }

    /// The level of the next item.
    #[inline]
    pub fn head(&self) -> Option<u8> {
        self.chains.highest()
    }

    /// Takes the next item out.
    #[inline]
    pub fn pop(&mut self) -> Option<(u8, T)> {
        let level = self.head()?;
        let at = self.chains.take_first(&mut self.links, level);
        self.remove(at).map(|item| (level, item))
    }

    /// Puts an item that was popped back before the others of its level. Gives it back
    /// where there is no room any more.
    pub fn put_back(&mut self, level: u8, item: T) -> Option<Dropped<T>> {
        let level = level & LEVEL_MASK;
        if self.free == NONE {
            return Some(Dropped { level, item });
        }
        let at = self.put(item);
        self.chains.prepend(&mut self.links, level, at);
        None
    }

    /// Sets the next item aside; false where there is none.
    #[cold]
    pub fn set_aside(&mut self) -> bool {
        let Some(level) = self.head() else { return false };
        let at = self.chains.take_first(&mut self.links, level);
        self.aside.append(&mut self.links, level, at);
        true
    }

    /// Takes back all that was set aside, each to where it was.
    #[cold]
    pub fn take_back(&mut self) {
        self.chains.put_before(&mut self.links, &mut self.aside);
    }

    /// Items that wait, of both kinds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there is room for.
    pub fn capacity(&self) -> usize {
        self.links.len()
    }

    /// The lowest level of all.
    #[inline]
    fn lowest(&self) -> Option<u8> {
        let levels = self.chains.levels() | self.aside.levels();
        (levels != 0).then(|| levels.trailing_zeros() as u8)
    }

    /// The youngest item of a level.
    fn take_last(&mut self, level: u8) -> Option<Dropped<T>> {
        // By I2.
        let has = self.chains.levels() >> level & 1 != 0;
        let chains = if has { &mut self.chains } else { &mut self.aside };
        let at = chains.take_last(&mut self.links, level);
        self.remove(at).map(|item| Dropped { level, item })
    }

    /// An item in a slot that was free, and is in no chain yet. There must be one.
    fn put(&mut self, item: T) -> u32 {
        let at = self.free;
        self.free = self.links[at as usize].next;
        self.items[at as usize] = Some(item);
        self.len += 1;
        at
    }

    /// The item of a slot that has left its level's chain.
    fn remove(&mut self, at: u32) -> Option<T> {
        self.links[at as usize].next = self.free;
        self.free = at;
        self.len -= 1;
        self.items[at as usize].take()
    }
}

/// Requests that wait in a worker, unless configured otherwise.
pub const CAPACITY: usize = 512;

const LEVEL_MASK: u8 = LEVELS as u8 - 1;
const MOST: usize = 1 << 20;

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_highest_is_first_and_a_level_keeps_its_order() {
        let mut queue = Queue::new(8);
        for (level, item) in [(41, 'a'), (3, 'b'), (63, 'c'), (41, 'd'), (0, 'e'), (63, 'f')] {
            assert_eq!(queue.push(level, item), None);
        }
        assert_eq!(queue.peek(), Some((63, &'c')));
        let all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(all, [(63, 'c'), (63, 'f'), (41, 'a'), (41, 'd'), (3, 'b'), (0, 'e')]);
        assert!(queue.is_empty() && queue.pop().is_none() && queue.peek().is_none());
    }

    #[test]
    fn a_full_queue_drops_the_youngest_of_the_lowest_level() {
        let mut queue = Queue::new(3);
        let dropped = |level, item| Some(Dropped { level, item });
        for (level, item, wanted) in [
            (10, 1, None),
            (10, 2, None),
            (20, 3, None),
            (9, 4, dropped(9, 4)),
            (10, 5, dropped(10, 5)),
            (11, 6, dropped(10, 2)),
            (11, 7, dropped(10, 1)),
            (20, 8, dropped(11, 7)),
            (63, 9, dropped(11, 6)),
            (20, 10, dropped(20, 10)),
        ] {
            assert_eq!(queue.push(level, item), wanted);
            assert!(queue.len() <= 3);
        }
        assert_eq!(queue.pop(), Some((63, 9)));
        assert_eq!(queue.put_back(63, 9), None);
        assert_eq!(queue.put_back(63, 11), dropped(63, 11), "no room");
    }

    #[test]
    fn a_burst_is_accepted_in_part() {
        let mut queue = Queue::new(CAPACITY);
        (0..500).for_each(|n| assert_eq!(queue.push(41, n), None));
        let refused = (500..532).filter(|n| queue.push(41, *n).is_some()).count();
        assert_eq!((refused, queue.len()), (20, 512));
        assert_eq!((Queue::<u8>::new(0).capacity(), queue.capacity()), (1, 512));
    }

    #[test]
    fn what_is_set_aside_keeps_its_room_and_its_place() {
        let mut queue = Queue::new(4);
        (0..3).for_each(|item| assert_eq!(queue.push(41, item), None));
        assert!(queue.set_aside() && queue.set_aside());
        assert_eq!(queue.peek_aside(), Some((41, &0)));
        assert_eq!(queue.pop(), Some((41, 2)));
        assert_eq!((queue.pop(), queue.len(), queue.set_aside()), (None, 2, false));
        assert_eq!((queue.push(41, 3), queue.push(42, 4)), (None, None));
        // Full: the youngest of the lowest level goes first, set aside or not.
        assert_eq!((queue.takes(41), queue.takes(42)), (false, true));
        assert_eq!(queue.push(42, 5), Some(Dropped { level: 41, item: 3 }));
        assert_eq!(queue.push(43, 6), Some(Dropped { level: 41, item: 1 }));
        queue.take_back();
        assert_eq!(queue.peek_aside(), None);
        let all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(all, [(43, 6), (42, 4), (42, 5), (41, 0)]);
    }

    #[derive(Clone, Debug)]
    enum Do {
        Push(u8),
        Pop,
        PutBack,
        SetAside,
        TakeBack,
    }

    fn dos() -> impl Strategy<Value = Vec<Do>> {
        let one = prop_oneof![
            4 => (0_u8..64).prop_map(Do::Push),
            2 => (40_u8..43).prop_map(Do::Push),
            3 => Just(Do::Pop),
            1 => Just(Do::PutBack),
            2 => Just(Do::SetAside),
            1 => Just(Do::TakeBack),
        ];
        proptest::collection::vec(one, 0..400)
    }

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn a_queue_is_its_model(capacity in 1_usize..40, dos in dos()) {
            let mut queue = Queue::new(capacity);
            // Of a level, the oldest first; the last says which are set aside.
            let mut model: Vec<(u8, usize, bool)> = Vec::new();
            let highest = |model: &[(u8, usize, bool)], aside: bool| {
                let level = model.iter().filter(|it| it.2 == aside).map(|it| it.0).max()?;
                model.iter().position(|it| (it.0, it.2) == (level, aside))
            };
            for (item, action) in dos.into_iter().enumerate() {
                match action {
                    Do::Push(level) => {
                        let mut wanted = None;
                        let lowest = model.iter().map(|it| it.0).min();
                        if model.len() < capacity {
                            model.push((level, item, false));
                        } else if lowest >= Some(level) {
                            wanted = Some(Dropped { level, item });
                        } else {
                            let last = model.iter().rposition(|it| Some(it.0) == lowest);
                            let (level_of_it, it, _) = model.remove(last.unwrap());
                            wanted = Some(Dropped { level: level_of_it, item: it });
                            model.push((level, item, false));
                        }
                        let stays = wanted.is_none_or(|dropped| dropped.item != item);
                        prop_assert_eq!(queue.takes(level), stays);
                        prop_assert_eq!(queue.push(level, item), wanted);
                    }
                    Do::Pop => {
                        let wanted = highest(&model, false).map(|at| model.remove(at));
                        prop_assert_eq!(queue.pop(), wanted.map(|it| (it.0, it.1)));
                    }
                    Do::PutBack => {
                        if let Some((level, item)) = queue.pop() {
                            prop_assert_eq!(queue.put_back(level, item), None);
                        }
                    }
                    Do::SetAside => {
                        let at = highest(&model, false);
                        at.into_iter().for_each(|at| model[at].2 = true);
                        prop_assert_eq!(queue.set_aside(), at.is_some());
                    }
                    Do::TakeBack => {
                        model.iter_mut().for_each(|it| it.2 = false);
                        queue.take_back();
                    }
                }
                let next = |aside| highest(&model, aside).map(|at| (model[at].0, &model[at].1));
                let wanted = next(false);
                prop_assert_eq!((queue.peek(), queue.peek_aside()), (wanted, next(true)));
                prop_assert_eq!(queue.head(), wanted.map(|(level, _)| level));
                prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
