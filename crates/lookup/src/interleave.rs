//! Hiding the latency of memory: several searches take turns, each while the
//! reads of the others are under way.
//!
//! ```text
//!    one after the other    A: read……… read……… read………  B: read……… read………
//!    in turns (4)           A: read ·········· read ··········
//!                           B:  · read ·········· read ········
//!                           C:  ·  · read ·········· read ·····
//! ```
//!
//! Two forms of the same idea, neither of which allocates:
//!
//! - [`interleave`] runs async functions that ask for a place with [`fetch`] and
//!   go on when their turn comes again. A search is written as it would be for
//!   one key; one that ends makes room for the next at once.
//! - [`grouped`] takes a group of searches forward a step at a time. A search is
//!   written as a state and a step; it costs fewer instructions a step, and the
//!   longest search of a group is waited for.
//!
//! `bsd-radix` is written in both, and in neither (its option `batch`); the
//! experiment `lpm/interleave` measures the three.

use core::array;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use crate::hint::prefetch;

/// Asks for the line of `place`, and lets the other searches have a turn.
#[inline(always)]
pub fn fetch<T>(place: &T) -> Turn {
    prefetch(place);
    Turn { given: false }
}

/// Lets the other searches have a turn: what is needed was asked for already.
#[inline(always)]
pub fn turn() -> Turn {
    Turn { given: false }
}

/// Lets the others have a turn: ready when polled again.
#[derive(Debug)]
pub struct Turn {
    given: bool,
}

impl Future for Turn {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if core::mem::replace(&mut self.given, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Runs the searches `task(0)` to `task(count - 1)`, `N` of them in turns, and
/// calls `done` with the number and the output of each when it ends.
///
/// A task is polled again whenever its turn comes: it must not wait for anything
/// but its turn.
#[inline(always)]
pub fn interleave<const N: usize, F: Future>(
    count: usize,
    mut task: impl FnMut(usize) -> F,
    mut done: impl FnMut(usize, F::Output),
) {
    let mut slots = pin!(array::from_fn::<_, N, _>(|i| (i < count).then(|| task(i))));
    let mut numbers: [usize; N] = array::from_fn(|i| i);
    let (mut next, mut live) = (count.min(N), count.min(N));
    let mut context = Context::from_waker(Waker::noop());
    while live > 0 {
        for (i, number) in numbers.iter_mut().enumerate().take(count) {
            let mut slot = slot(slots.as_mut(), i);
            let Some(search) = slot.as_mut().as_pin_mut() else { continue };
            let Poll::Ready(output) = search.poll(&mut context) else { continue };
            done(*number, output);
            if next < count {
                *number = next;
                slot.set(Some(task(next)));
                next += 1;
            } else {
                slot.set(None);
                live -= 1;
            }
        }
    }
}

#[inline(always)]
fn slot<T, const N: usize>(slots: Pin<&mut [T; N]>, i: usize) -> Pin<&mut T> {
    // SAFETY: an element of a pinned array is not moved while the array is not,
    // and nothing here hands out an unpinned `&mut` to one.
    unsafe { slots.map_unchecked_mut(|slots| &mut slots[i]) }
}

/// Takes the searches for `keys` forward together, `N` at a time: `start` gives a
/// search its state, `step` takes it to its next read and asks for the place, and
/// returns false at the end; `done` gets the key's number and the final state.
///
/// # Panics
/// When `N` is 0 or exceeds 256.
#[inline(always)]
pub fn grouped<const N: usize, K: Copy, S>(
    keys: &[K],
    mut start: impl FnMut(K) -> S,
    mut step: impl FnMut(K, &mut S) -> bool,
    mut done: impl FnMut(usize, S),
) {
    const { assert!(N > 0 && N <= 256) };
    for (group, keys) in keys.chunks(N).enumerate() {
        let mut states: [Option<S>; N] = array::from_fn(|i| keys.get(i).map(|&key| start(key)));
        let mut list: [u8; N] = array::from_fn(|i| i as u8);
        let mut count = keys.len();
        while count > 0 {
            let mut left = 0;
            for k in 0..count {
                let i = usize::from(list[k]);
                let Some(state) = &mut states[i] else { continue }; // there is one for each key
                list[left] = i as u8;
                left += usize::from(step(keys[i], state));
            }
            count = left;
        }
        for (i, state) in states.into_iter().flatten().enumerate() {
            done(group * N + i, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next number in Collatz's sequence: from each, they say, 1 is reached.
    fn after(n: u64) -> u64 {
        if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 }
    }

    fn steps(mut n: u64) -> u32 {
        let mut steps = 0;
        while n != 1 {
            n = after(n);
            steps += 1;
        }
        steps
    }

    async fn steps_in_turns(mut n: u64) -> u32 {
        let mut steps = 0;
        while n != 1 {
            fetch(&n).await;
            n = after(n);
            steps += 1;
        }
        steps
    }

    #[test]
    fn every_search_ends_once_whatever_their_number() {
        for count in 0..70 {
            let want: Vec<_> = (0..count).map(|i| Some(steps(i as u64 + 1))).collect();
            let mut got = vec![None; count];
            let task = |i| steps_in_turns(i as u64 + 1);
            interleave::<16, _>(count, task, |i, steps| assert!(got[i].replace(steps).is_none()));
            assert_eq!(got, want);
            let keys: Vec<_> = (1..=count as u64).collect();
            let mut got = vec![None; count];
            grouped::<16, _, _>(
                &keys,
                |n| (n, 0),
                |_, (n, steps)| {
                    if *n == 1 {
                        return false;
                    }
                    *n = after(*n);
                    *steps += 1;
                    true
                },
                |i, (_, steps)| assert!(got[i].replace(steps).is_none()),
            );
            assert_eq!(got, want);
        }
    }

    #[test]
    fn searches_do_take_turns() {
        let trace = std::cell::RefCell::new(Vec::new());
        let trace = &trace;
        let task = |i| async move {
            for step in 0..2 {
                trace.borrow_mut().push((i, step));
                fetch(&i).await;
            }
        };
        interleave::<2, _>(3, task, |_, ()| {});
        assert_eq!(*trace.borrow(), [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]);
    }
}
