//! Many lookups at once: three chunks of keys under way, each one step behind
//! the next, so that a line is read when it has come.
//!
//! ```text
//!    chunk c      mix, ask for the first lines
//!    chunk c-1    read the first lines, ask for the second lines of the rest
//!    chunk c-2    read the second lines; what is absent is final if nothing moved
//! ```

use super::frame::View;
use super::mix::Mix;
use crate::exact::scan::Scan;
use crate::exact::{ABSENT, Key};

/// Keys that wait for their lines.
///
/// I1: of `mixed` the first `len`, of `late` the first `lates` are in use; a late
/// one is less than `len`.
pub(super) struct Flight<const N: usize> {
    len: usize,
    mixed: [u64; N],
    moves: u64,
    late: [u8; N],
    lates: usize,
}

impl<const N: usize> Flight<N> {
    pub(super) const EMPTY: Self =
        Flight { len: 0, mixed: [0; N], moves: 0, late: [0; N], lates: 0 };

    /// Keys under way.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl View<'_> {
    /// `values[i]` is the value of `keys[i]`, of the numbers drawn by `mix`.
    ///
    /// # Safety
    /// As [`Scan::scan`].
    #[inline(always)]
    pub(super) unsafe fn lookup_batch<S: Scan>(self, mix: &Mix, keys: &[Key], values: &mut [u16]) {
        let mut flights = [Flight::<CHUNK>::EMPTY; 3];
        let [next, now, last] = &mut flights;
        let (mut next, mut now, mut last) = (next, now, last);
        let mut keys = keys.chunks(CHUNK);
        let (mut values_now, mut values_last): (&mut [u16], &mut [u16]) = (&mut [], &mut []);
        let mut rest = values;
        loop {
            let chunk = keys.next().unwrap_or(&[]);
            // SAFETY: passed on.
            unsafe { self.step::<S, CHUNK>(mix, chunk, next, now, values_now) };
            // SAFETY: passed on.
            unsafe { self.finish::<S, CHUNK>(last, values_last) };
            if chunk.is_empty() && now.len == 0 {
                return;
            }
            let (values_next, behind) = rest.split_at_mut(chunk.len());
            (rest, values_last, values_now) = (behind, values_now, values_next);
            (next, now, last) = (last, next, now);
        }
    }

    /// Starts `keys` as `next`, and reads the first lines of `now`.
    ///
    /// # Safety
    /// As [`Scan::scan`].
    #[inline(always)]
    pub(super) unsafe fn step<S: Scan, const N: usize>(
        self,
        mix: &Mix,
        keys: &[Key],
        next: &mut Flight<N>,
        now: &mut Flight<N>,
        values: &mut [u16],
    ) {
        next.len = keys.len();
        now.moves = self.moves(); // before the lines are read (I3)
        let mut lates = 0;
        // One loop for both: requests in a row would wait for each other.
        let both = keys.len().min(now.len);
        let (keys_both, keys_more) = keys.split_at(both);
        let (values_both, values_more) = values.split_at_mut(both);
        let (next_both, next_more) = next.mixed.split_at_mut(both);
        let (now_both, now_more) = now.mixed.split_at(both);
        let starting = keys_both.iter().zip(next_both);
        let reading = now_both.iter().zip(values_both);
        for (i, ((&key, next), (&mixed, value))) in starting.zip(reading).enumerate() {
            *next = self.start(mix, key);
            now.late[lates % N] = i as u8;
            // SAFETY: passed on.
            lates += usize::from(unsafe { self.read_first::<S>(mixed, value) });
        }
        for (&key, next) in keys_more.iter().zip(next_more) {
            *next = self.start(mix, key);
        }
        for (i, (&mixed, value)) in now_more.iter().zip(values_more).enumerate() {
            now.late[lates % N] = (both + i) as u8;
            // SAFETY: passed on.
            lates += usize::from(unsafe { self.read_first::<S>(mixed, value) });
        }
        now.lates = lates;
        for &i in &now.late[..lates] {
            self.ask(self.second(self.first(now.mixed[usize::from(i) % N])));
        }
    }

    #[inline(always)]
    fn start(self, mix: &Mix, key: Key) -> u64 {
        let mixed = mix.mix(key);
        self.ask(self.first(mixed));
        mixed
    }

    /// Writes the value if the first line has it; says if it may be in the second.
    ///
    /// # Safety
    /// As [`Scan::scan`].
    #[inline(always)]
    unsafe fn read_first<S: Scan>(self, mixed: u64, value: &mut u16) -> bool {
        let first = self.first(mixed);
        // SAFETY: passed on.
        let word = unsafe { self.find::<S>(first) };
        *value = if word == 0 { ABSENT } else { word as u16 };
        (word == 0) & self.hints(first)
    }

    /// Reads the second lines of `flight`, and asks again for what a move may
    /// have hidden.
    ///
    /// # Safety
    /// As [`Scan::scan`].
    #[inline(always)]
    pub(super) unsafe fn finish<S: Scan, const N: usize>(
        self,
        flight: &Flight<N>,
        values: &mut [u16],
    ) {
        for &i in &flight.late[..flight.lates] {
            let i = usize::from(i) % N;
            let second = self.second(self.first(flight.mixed[i]));
            // SAFETY: passed on.
            let word = unsafe { self.find::<S>(second) };
            values[i] = if word == 0 { ABSENT } else { word as u16 };
        }
        if !self.still(flight.moves) {
            self.ask_again(&flight.mixed, values);
        }
    }

    #[cold]
    fn ask_again(self, mixed: &[u64], values: &mut [u16]) {
        for (value, &mixed) in values.iter_mut().zip(mixed) {
            if *value == ABSENT {
                *value = self.lookup(mixed);
            }
        }
    }
}

/// Keys of one step: 16 to 32 lines keep memory busy.
const CHUNK: usize = 32;
