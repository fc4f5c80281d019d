//! Addresses in memory, and places for their hops. Several processors take pieces of them, from the
//! front and from the back, until they meet.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lookup::{Addr, Hop};

/// What nobody has taken yet.
pub struct Pieces<'a, A> {
    rest: Mutex<Rest<'a, A>>,
    piece: usize,
}

/// I1: as many hops as addresses.
struct Rest<'a, A> {
    dsts: &'a [A],
    hops: &'a mut [Hop],
    /// Addresses that the front and the back may still take.
    front: usize,
    back: usize,
    /// Addresses that the back has taken.
    taken: usize,
}

/// Addresses, and the places for their hops.
pub type Piece<'a, A> = (&'a [A], &'a mut [Hop]);

impl<'a, A: Addr> Pieces<'a, A> {
    /// Pieces of `piece` addresses at the back, at least one. The front takes up to `front`
    /// addresses, the back up to `back`.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn new(
        dsts: &'a [A],
        hops: &'a mut [Hop],
        piece: usize,
        [front, back]: [usize; 2],
    ) -> Self {
        assert_eq!(dsts.len(), hops.len(), "as many hops as addresses");
        let rest = Rest { dsts, hops, front, back, taken: 0 };
        Pieces { rest: Mutex::new(rest), piece: piece.max(1) }
    }

    /// The next addresses from the front, at most so many.
    pub fn front(&self, most: usize) -> Option<Piece<'a, A>> {
        let mut rest = self.lock();
        let count = most.min(rest.front).min(rest.dsts.len());
        if count == 0 {
            return None;
        }
        rest.front -= count;
        let (dsts, left) = rest.dsts.split_at(count);
        let (hops, places) = std::mem::take(&mut rest.hops).split_at_mut(count);
        (rest.dsts, rest.hops) = (left, places);
        Some((dsts, hops))
    }

    /// The next piece from the back.
    pub fn back(&self) -> Option<Piece<'a, A>> {
        let mut rest = self.lock();
        let count = self.piece.min(rest.back).min(rest.dsts.len());
        if count == 0 {
            return None;
        }
        rest.back -= count;
        rest.taken += count;
        let at = rest.dsts.len() - count;
        let (left, dsts) = rest.dsts.split_at(at);
        let (places, hops) = std::mem::take(&mut rest.hops).split_at_mut(at);
        (rest.dsts, rest.hops) = (left, places);
        Some((dsts, hops))
    }

    /// The number of pieces that the back may still take.
    pub fn pieces(&self) -> usize {
        let rest = self.lock();
        rest.back.min(rest.dsts.len()).div_ceil(self.piece)
    }

    /// Addresses that the front may still take.
    pub fn left(&self) -> usize {
        let rest = self.lock();
        rest.front.min(rest.dsts.len())
    }

    /// Addresses that the back has taken.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Leaves what is left: nobody takes more.
    pub fn close(&self) {
        let mut rest = self.lock();
        (rest.front, rest.back) = (0, 0);
    }

    /// Nobody panics who holds the lock.
    fn lock(&self) -> MutexGuard<'_, Rest<'a, A>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies addresses from the front into batches, and the hops of batches to their places.
pub struct Front<'p, 'a, A> {
    pieces: &'p Pieces<'a, A>,
    /// Places of the addresses that were taken and have no hops yet.
    places: Mutex<VecDeque<&'a mut [Hop]>>,
}

impl<'p, 'a, A: Addr> Front<'p, 'a, A> {
    /// Nothing taken yet.
    pub fn new(pieces: &'p Pieces<'a, A>) -> Self {
        Front { pieces, places: Mutex::default() }
    }

    /// Writes addresses to the beginning of `dsts`, and returns how many.
    pub fn fill(&self, dsts: &mut [A]) -> usize {
        let Some((from, places)) = self.pieces.front(dsts.len()) else { return 0 };
        dsts[..from.len()].copy_from_slice(from);
        self.places().push_back(places);
        from.len()
    }

    /// Addresses that are left.
    pub fn left(&self) -> usize {
        self.pieces.left()
    }

    /// Writes the hops of the next addresses.
    ///
    /// # Errors
    /// When there are more hops than addresses were taken.
    pub fn take(&self, mut hops: &[Hop]) -> io::Result<()> {
        let mut places = self.places();
        while !hops.is_empty() {
            let room = places.pop_front().ok_or(io::ErrorKind::WriteZero)?;
            let (now, rest) = hops.split_at(room.len().min(hops.len()));
            let (filled, unfilled) = room.split_at_mut(now.len());
            filled.copy_from_slice(now);
            if !unfilled.is_empty() {
                places.push_front(unfilled);
            }
            hops = rest;
        }
        Ok(())
    }

    fn places(&self) -> MutexGuard<'_, VecDeque<&'a mut [Hop]>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each address is taken once, whoever comes when; quotas hold.
    #[test]
    fn front_and_back_meet() {
        let dsts: Vec<u32> = (0..1000).collect();
        for quotas in [[1000, 1000], [300, 700], [0, 1000], [1000, 0], [10, 20]] {
            for turn in 1..4 {
                let mut hops = vec![Hop::NONE; dsts.len()];
                let pieces = Pieces::new(&dsts, &mut hops, 64, quotas);
                let front = Front::new(&pieces);
                let (mut room, mut filled, mut by_back) = ([0; 90], Vec::new(), 0);
                for round in 0..200 {
                    if round % turn == 0 {
                        let count = front.fill(&mut room);
                        filled.extend_from_slice(&room[..count]);
                    } else if let Some((dsts, hops)) = pieces.back() {
                        hops.iter_mut().zip(dsts).for_each(|(hop, dst)| *hop = Hop(dst + 1));
                        by_back += dsts.len();
                    }
                }
                assert_eq!(by_back, pieces.taken());
                // In batches that are others than it was taken in.
                let by_front: Vec<_> = filled.iter().map(|dst| Hop(dst + 1)).collect();
                by_front.chunks(77).for_each(|hops| front.take(hops).unwrap());
                assert!(front.take(&[Hop(1)]).is_err());
                let answered = by_front.len() + by_back;
                let most = if turn == 1 { quotas[0] } else { quotas[0] + quotas[1] };
                assert_eq!(answered, most.min(dsts.len()));
                drop(front);
                let right = hops.iter().zip(&dsts).filter(|(hop, dst)| hop.0 == *dst + 1).count();
                assert_eq!(right, answered);
            }
        }
    }

    #[test]
    fn nothing_is_taken_after_the_end() {
        let mut hops = [Hop::NONE; 4];
        let pieces = Pieces::new(&[1_u32, 2, 3, 4], &mut hops, 0, [4, 4]);
        assert_eq!((pieces.pieces(), pieces.left()), (4, 4));
        assert_eq!(pieces.back().unwrap().0, [4]);
        pieces.close();
        assert!(pieces.front(1).is_none() && pieces.back().is_none());
        assert_eq!((pieces.pieces(), pieces.left(), pieces.taken()), (0, 0, 1));
    }
}
