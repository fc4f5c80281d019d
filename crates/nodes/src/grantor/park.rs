//! Packets that wait for a verdict.
//!
//! ```text
//!  put ─► levels  63 │ first ⇄ … ⇄ last      not asked yet: the first of the highest is next,
//!                  ⋮                          the last of the lowest makes room
//!     ask ─┴────► asked                       by id: slot, and how often the slot was used
//!         ages    oldest ⇄ … ⇄ youngest       both of them: who has waited too long
//! ```
//!
//! | cost | put, ask, answer, give up: a few slots each, however many wait |
//! |------|------------------------------------------------------------------|

/// A bounded set of waiting items.
///
/// Invariants: I1: a level's bit is set exactly when its ends are slots. I2: a slot without
/// an item is in the free chain; one with an item is in the ages, and in its level's chain
/// unless it is asked.
pub struct Park<T> {
    slots: Box<[Slot<T>]>,
    ends: [Ends; LEVELS],
    levels: u64,
    ages: Ends,
    free: u32,
    len: usize,
    asked: usize,
}

struct Slot<T> {
    /// The next slot in the level's chain, towards its last; or the next free slot.
    next: u32,
    before: u32,
    /// Its neighbours in the ages.
    younger: u32,
    older: u32,
    since: u64,
    uses: u16,
    level: u8,
    asked: bool,
    item: Option<T>,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl<T> Park<T> {
    /// A set with this much room: at least 1 item, at most 65,536.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, MOST) as u32;
        let slot = |at| Slot {
            next: at + 1,
            before: NONE,
            younger: NONE,
            older: NONE,
            since: 0,
            uses: 0,
            level: 0,
            asked: false,
            item: None,
        };
        let mut slots: Box<[_]> = (0..capacity).map(slot).collect();
        slots[capacity as usize - 1].next = NONE;
        let none = Ends { first: NONE, last: NONE };
        Park { slots, ends: [none; LEVELS], levels: 0, ages: none, free: 0, len: 0, asked: 0 }
    }

    /// Puts an item in; it waits to be asked about. The lowest six bits of `level` count.
    ///
    /// # Errors
    /// The item, when there is no room.
    pub fn put(&mut self, level: u8, since: u64, item: T) -> Result<(), T> {
        let at = self.free;
        if at == NONE {
            return Err(item);
        }
        let level = level & LEVEL_MASK;
        let youngest = self.ages.last;
        let slot = &mut self.slots[at as usize];
        self.free = slot.next;
        (slot.item, slot.since, slot.level, slot.asked) = (Some(item), since, level, false);
        (slot.older, slot.younger) = (youngest, NONE);
        match youngest {
            NONE => self.ages.first = at,
            youngest => self.slots[youngest as usize].younger = at,
        }
        self.ages.last = at;
        self.len += 1;
        self.line_up(at);
        Ok(())
    }

    /// The lowest level that has an item not asked about yet.
    pub fn lowest(&self) -> Option<u8> {
        (self.levels != 0).then(|| self.levels.trailing_zeros() as u8)
    }

    /// Takes out the item that makes room: the last of the lowest level that is not asked about yet.
    pub fn take_lowest(&mut self) -> Option<T> {
        let level = self.lowest()?;
        self.take(self.ends[usize::from(level)].last)
    }

    /// The next item to ask about, and the id that its answer will carry.
    pub fn next(&mut self) -> Option<(u32, &mut T)> {
        let at = self.first()?;
        let slot = &mut self.slots[at as usize];
        let id = at | u32::from(slot.uses) << 16;
        Some((id, slot.item.as_mut()?))
    }

    /// Notes that the item of [`Park::next`] was asked about.
    pub fn ask(&mut self) {
        let Some(at) = self.first() else { return };
        self.step_out(at);
        self.slots[at as usize].asked = true;
        self.asked += 1;
    }

    /// Takes out the item that was asked about as `id`; `None` if it has left already.
    pub fn answered(&mut self, id: u32) -> Option<T> {
        let at = id & (MOST as u32 - 1);
        let slot = self.slots.get(at as usize)?;
        let is = slot.asked && slot.item.is_some() && u32::from(slot.uses) == id >> 16;
        is.then(|| self.take(at))?
    }

    /// Takes out the oldest item that was put in at `until` or earlier.
    pub fn overdue(&mut self, until: u64) -> Option<T> {
        let at = self.ages.first;
        let since = self.slots.get(at as usize)?.since;
        (since <= until).then(|| self.take(at))?
    }

    /// When the oldest item was put in.
    pub fn oldest(&self) -> Option<u64> {
        Some(self.slots.get(self.ages.first as usize)?.since)
    }

    /// Makes all items that were asked about wait again, because the policy that was asked is gone.
    /// Their ids become invalid.
    pub fn ask_again(&mut self) {
        let mut at = self.ages.first;
        while let Some(slot) = self.slots.get_mut(at as usize) {
            let (this, asked) = (at, slot.asked);
            at = slot.younger;
            if asked {
                slot.asked = false;
                slot.uses = slot.uses.wrapping_add(1);
                self.asked -= 1;
                self.line_up(this);
            }
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of items that were asked about.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// The number of items that fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn first(&self) -> Option<u32> {
        let highest = self.levels.checked_ilog2()?;
        Some(self.ends[highest as usize].first)
    }

    /// Adds a slot behind the last of its level.
    fn line_up(&mut self, at: u32) {
        let level = self.slots[at as usize].level;
        let ends = &mut self.ends[usize::from(level)];
        let last = std::mem::replace(&mut ends.last, at);
        match last {
            NONE => ends.first = at,
            last => self.slots[last as usize].next = at,
        }
        let slot = &mut self.slots[at as usize];
        (slot.before, slot.next) = (last, NONE);
        self.levels |= 1 << level;
    }

    /// Takes a slot out of its level's chain.
    fn step_out(&mut self, at: u32) {
        let &Slot { next, before, level, .. } = &self.slots[at as usize];
        let ends = &mut self.ends[usize::from(level)];
        match before {
            NONE => ends.first = next,
            before => self.slots[before as usize].next = next,
        }
        let ends = &mut self.ends[usize::from(level)];
        match next {
            NONE => ends.last = before,
            next => self.slots[next as usize].before = before,
        }
        if self.ends[usize::from(level)].first == NONE {
            self.levels &= !(1 << level);
        }
    }

    fn take(&mut self, at: u32) -> Option<T> {
        let &Slot { younger, older, asked, .. } = self.slots.get(at as usize)?;
        match asked {
            true => self.asked -= 1,
            false => self.step_out(at),
        }
        match older {
            NONE => self.ages.first = younger,
            older => self.slots[older as usize].younger = younger,
        }
        match younger {
            NONE => self.ages.last = older,
            younger => self.slots[younger as usize].older = older,
        }
        let slot = &mut self.slots[at as usize];
        slot.next = std::mem::replace(&mut self.free, at);
        (slot.asked, slot.uses) = (false, slot.uses.wrapping_add(1));
        self.len -= 1;
        slot.item.take()
    }
}

const LEVELS: usize = 64;
const LEVEL_MASK: u8 = 63;
/// A slot number takes half of an id.
const MOST: usize = 1 << 16;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_highest_is_next_and_the_youngest_of_the_lowest_makes_room() {
        let mut park = Park::new(4);
        for (level, item) in [(5, 'a'), (7, 'b'), (5, 'c'), (7, 'd')] {
            park.put(level, 0, item).unwrap();
        }
        assert_eq!(park.put(9, 0, 'e'), Err('e'));
        assert_eq!((park.lowest(), park.take_lowest()), (Some(5), Some('c')));
        let (id, item) = park.next().unwrap();
        assert_eq!(*item, 'b');
        park.ask();
        assert_eq!((park.asked(), park.len()), (1, 3));
        assert_eq!(park.next().unwrap().1, &'d');
        assert_eq!((park.answered(id), park.answered(id)), (Some('b'), None));
        // The slot's next item gets another id.
        park.put(63, 0, 'f').unwrap();
        let (other, item) = park.next().unwrap();
        assert_eq!((*item, other & 0xffff, other == id), ('f', id & 0xffff, false));
        assert_eq!(park.answered(other), None, "not asked about");
    }

    #[test]
    fn the_oldest_goes_first_asked_about_or_not() {
        let mut park = Park::new(8);
        (0..6).for_each(|n| park.put(n % 3, u64::from(n), n).unwrap());
        park.ask(); // 2
        assert_eq!(park.oldest(), Some(0));
        let gone: Vec<_> = std::iter::from_fn(|| park.overdue(3)).collect();
        assert_eq!((gone, park.asked(), park.oldest()), (vec![0, 1, 2, 3], 0, Some(4)));
    }

    #[test]
    fn who_asks_another_forgets_the_ids() {
        let mut park = Park::new(2);
        park.put(1, 0, 'a').unwrap();
        let id = park.next().unwrap().0;
        park.ask();
        assert!(park.next().is_none());
        park.ask_again();
        assert_eq!((park.answered(id), park.asked()), (None, 0));
        assert_eq!(park.next().unwrap().1, &'a');
    }

    proptest! {
        /// The same operations on plain lists.
        #[test]
        fn as_lists(steps in proptest::collection::vec((0_u8..6, 0_u8..64), 0..400)) {
            let mut park = Park::new(16);
            // Level, number, and id once asked about; in order of age.
            let mut model: Vec<(u8, u64, Option<u32>)> = Vec::new();
            for (n, (what, level)) in steps.into_iter().enumerate() {
                let n = n as u64;
                match what {
                    0 | 1 => {
                        let put = park.put(level, n, n);
                        prop_assert_eq!(put.is_ok(), model.len() < 16);
                        if put.is_ok() {
                            model.push((level, n, None));
                        }
                    }
                    2 => {
                        let waits = model.iter().enumerate().filter(|(_, item)| item.2.is_none());
                        let next = waits.max_by_key(|(at, item)| (item.0, usize::MAX - at));
                        let next = next.map(|(at, _)| at);
                        let got = park.next().map(|(id, item)| (id, *item));
                        prop_assert_eq!(got.map(|got| got.1), next.map(|at| model[at].1));
                        if let (Some(at), Some((id, _))) = (next, got) {
                            park.ask();
                            model[at].2 = Some(id);
                        }
                    }
                    3 => {
                        let asked: Vec<_> = model.iter().filter_map(|item| item.2).collect();
                        if let Some(&id) = asked.get(usize::from(level) % asked.len().max(1)) {
                            let at = model.iter().position(|item| item.2 == Some(id)).unwrap();
                            prop_assert_eq!(park.answered(id), Some(model.remove(at).1));
                        }
                    }
                    4 => {
                        let waits = model.iter().enumerate().filter(|(_, item)| item.2.is_none());
                        let last = waits.min_by_key(|(at, item)| (item.0, usize::MAX - at));
                        let last = last.map(|(at, _)| at);
                        let want = last.map(|at| model.remove(at).1);
                        prop_assert_eq!(park.take_lowest(), want);
                    }
                    _ => {
                        let want = (!model.is_empty()).then(|| model.remove(0).1);
                        prop_assert_eq!(park.overdue(u64::MAX), want);
                    }
                }
                let asked = model.iter().filter(|item| item.2.is_some()).count();
                prop_assert_eq!((park.len(), park.asked()), (model.len(), asked));
                prop_assert_eq!(park.oldest(), model.first().map(|item| item.1));
            }
        }
    }
}
