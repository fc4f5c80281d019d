//! Many lookups at once: three chunks of keys under way, each one step behind
//! the next, so that a line is read when it has come.
//!
//! ```text
//!    chunk c      mix, ask for the first lines
//!    chunk c-1    read the first lines, ask for the second lines of the rest
//!    chunk c-2    read the second lines; what is absent is final if nothing moved
//! ```

use super::frame::Frame;
use super::mix::Mix;
use crate::exact::{ABSENT, Key};
use crate::hint::prefetch;

/// Keys that wait for their lines.
///
/// I1: of `mixed` the first `len`, of `late` the first `lates` are in use; a late
/// one is less than `len`.
pub(super) struct Flight {
    len: usize,
    mixed: [u64; CHUNK],
    moves: u64,
    late: [u8; CHUNK],
    lates: usize,
}

impl Flight {
    pub(super) const EMPTY: Flight =
        Flight { len: 0, mixed: [0; CHUNK], moves: 0, late: [0; CHUNK], lates: 0 };
}

impl Frame {
    /// `values[i]` is the value of `keys[i]`, of the numbers drawn by `mix`.
    pub(super) fn lookup_batch(&self, mix: &Mix, keys: &[Key], values: &mut [u16]) {
        assert_eq!(keys.len(), values.len());
        let mut flights = [Flight::EMPTY; 3];
        let [next, now, last] = &mut flights;
        let (mut next, mut now, mut last) = (next, now, last);
        let mut keys = keys.chunks(CHUNK);
        let (mut values_now, mut values_last): (&mut [u16], &mut [u16]) = (&mut [], &mut []);
        let mut rest = values;
        loop {
            let chunk = keys.next().unwrap_or(&[]);
            self.step(mix, chunk, next, now, values_now);
            self.finish(last, values_last);
            if chunk.is_empty() && now.len == 0 {
                return;
            }
            let (values_next, behind) = rest.split_at_mut(chunk.len());
            (rest, values_last, values_now) = (behind, values_now, values_next);
            (next, now, last) = (last, next, now);
        }
    }

    /// Starts `keys` as `next`, and reads the first lines of `now`.
    #[inline(always)]
    fn step(
        &self,
        mix: &Mix,
        keys: &[Key],
        next: &mut Flight,
        now: &mut Flight,
        values: &mut [u16],
    ) {
        next.len = keys.len();
        now.lates = 0;
        now.moves = self.moves(); // before the lines are read (I3)
        // One loop for both: requests in a row would wait for each other.
        let both = keys.len().min(values.len());
        for i in 0..both {
            self.start(mix, keys[i], i, next);
            self.read_first(i, now, &mut values[i]);
        }
        for (i, &key) in keys.iter().enumerate().skip(both) {
            self.start(mix, key, i, next);
        }
        for (i, value) in values.iter_mut().enumerate().skip(both) {
            self.read_first(i, now, value);
        }
        for &i in &now.late[..now.lates] {
            let first = self.first(now.mixed[usize::from(i) % CHUNK]);
            prefetch(self.line(self.second(first).line));
        }
    }

    #[inline(always)]
    fn start(&self, mix: &Mix, key: Key, i: usize, flight: &mut Flight) {
        let mixed = mix.mix(key);
        self.ask(mixed);
        flight.mixed[i % CHUNK] = mixed;
    }

    /// Writes the value if the first line has it; lists the key if not.
    #[inline(always)]
    fn read_first(&self, i: usize, flight: &mut Flight, value: &mut u16) {
        let first = self.first(flight.mixed[i % CHUNK]);
        let word = self.find(first);
        *value = if word == 0 { ABSENT } else { word as u16 };
        flight.late[flight.lates % CHUNK] = i as u8;
        flight.lates += usize::from((word == 0) & self.hints(first));
    }

    /// Reads the second lines of `flight`, and asks again for what a move may
    /// have hidden.
    #[inline(always)]
    fn finish(&self, flight: &Flight, values: &mut [u16]) {
        for &i in &flight.late[..flight.lates] {
            let i = usize::from(i) % CHUNK;
            let word = self.find(self.second(self.first(flight.mixed[i])));
            values[i] = if word == 0 { ABSENT } else { word as u16 };
        }
        if !self.still(flight.moves) {
            for (value, &mixed) in values.iter_mut().zip(&flight.mixed) {
                if *value == ABSENT {
                    *value = self.lookup(mixed);
                }
            }
        }
    }
}

/// Keys of one step: 16 to 32 lines keep memory busy.
const CHUNK: usize = 32;
