//! Many lookups at once: three chunks of keys under way, each one step behind
//! the next, so that a line is read when it has come.
//!
//! ```text
//!    chunk c      mix, ask for the first lines
//!    chunk c-1    read the first lines, ask for the second lines of the rest
//!    chunk c-2    read the second lines; what is absent is final if nothing moved
//! ```
//!
//! The comparison of a line has no branch ([`crate::exact::scan`]), and the keys of a chunk are
//! mixed by a loop of their own, which compilers make vectors of.

use super::frame::{HINT, OTHER, Place, View, hint_slot};
use super::mix::Mix;
use crate::exact::scan::Scan;
use crate::exact::{ABSENT, Key};

/// Keys that wait for their lines, each as its first place.
///
/// - I1: of `lines` and `wants` the first `len`, of `late` the first `lates` are in
///   use; a late one is less than `len`.
/// - I2: all `lines` are less than 2^`bits`, the lines of the table for which they
///   were made.
pub(super) struct Flight<const N: usize> {
    bits: u32,
    len: usize,
    lines: [u32; N],
    wants: [u64; N],
    moves: u64,
    late: [u8; N],
    lates: usize,
}

impl<const N: usize> Flight<N> {
    pub(super) const EMPTY: Self =
        Flight { bits: 0, len: 0, lines: [0; N], wants: [0; N], moves: 0, late: [0; N], lates: 0 };

    /// Keys under way.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first place of the key numbered `i`, modulo `N`.
    #[inline(always)]
    fn place(&self, i: usize) -> Place {
        Place { line: self.lines[i % N] as usize, want: self.wants[i % N] }
    }
}

impl<const N: usize> Default for Flight<N> {
    fn default() -> Self {
        Flight::EMPTY
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
        self.mix_all(mix, keys, next);
        if now.bits != self.bits {
            self.has_grown(now);
        }
        now.moves = self.moves(); // before the lines are read (I3)
        let both = next.len.min(now.len);
        let mut lates = 0;
        let mut read = |i, line, want, value| {
            now.late[lates % N] = i as u8;
            // SAFETY: passed on; I2, of this table.
            lates += usize::from(unsafe { self.read_first::<S>(line, want, value) });
        };
        let (values_both, values_more) = values[..now.len].split_at_mut(both);
        let reading = now.lines[..both].iter().zip(&now.wants[..both]).zip(values_both);
        // One loop for both: requests in a row would wait for each other.
        for (i, (((&line, want), value), &asked)) in reading.zip(&next.lines[..both]).enumerate() {
            // SAFETY: I2, of this table.
            unsafe { self.ask(asked as usize) };
            read(i, line as usize, want, value);
        }
        for &asked in &next.lines[both..next.len] {
            // SAFETY: I2, of this table.
            unsafe { self.ask(asked as usize) };
        }
        let more = now.lines[both..now.len].iter().zip(&now.wants[both..]).zip(values_more);
        for (i, ((&line, want), value)) in more.enumerate() {
            read(both + i, line as usize, want, value);
        }
        now.lates = lates;
        for &i in &now.late[..lates] {
            let second = self.second(now.place(usize::from(i)));
            // SAFETY: the second line of a first of this table is one too.
            unsafe { self.ask(second.line) };
        }
    }

    /// The first places of `keys`. A loop of its own, for the compiler to do
    /// several at once.
    #[inline(always)]
    fn mix_all<const N: usize>(self, mix: &Mix, keys: &[Key], next: &mut Flight<N>) {
        (next.len, next.bits) = (keys.len(), self.bits);
        let places = next.lines.iter_mut().zip(&mut next.wants);
        for (key, (line, want)) in keys.iter().zip(places) {
            let first = self.first(mix.mix(*key));
            (*line, *want) = (first.line as u32, first.want);
        }
    }

    /// Makes the first places anew for this table, which is larger than that of
    /// which they were.
    #[cold]
    fn has_grown<const N: usize>(self, flight: &mut Flight<N>) {
        let places = flight.lines.iter_mut().zip(&mut flight.wants);
        for (line, want) in places.take(flight.len) {
            let first = self.first(Place { line: *line as usize, want: *want }.mixed(flight.bits));
            (*line, *want) = (first.line as u32, first.want);
        }
        flight.bits = self.bits;
    }

    /// Writes the value if the first line has it; says if it may be in the second.
    ///
    /// # Safety
    /// As [`Scan::scan`], and `line` is one of the table.
    #[inline(always)]
    unsafe fn read_first<S: Scan>(self, line: usize, want: &u64, value: &mut u16) -> bool {
        // SAFETY: by the caller.
        let line = unsafe { self.line_of(line) };
        // SAFETY: passed on.
        let word = unsafe { S::scan(line, want) };
        *value = word as u16;
        // Of a word that is found here `OTHER` is clear; of none it is set.
        let absent = word / (OTHER / HINT);
        absent & line.load(hint_slot(*want)) & HINT != 0
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
            let Place { line, want } = self.second(flight.place(usize::from(i)));
            // SAFETY: passed on.
            values[usize::from(i)] = unsafe { S::scan(self.line(line), &want) } as u16;
        }
        if !self.still(flight.moves) {
            self.ask_again(flight, values);
        }
    }

    #[cold]
    fn ask_again<const N: usize>(self, flight: &Flight<N>, values: &mut [u16]) {
        for (i, value) in values.iter_mut().enumerate() {
            if *value == ABSENT {
                *value = self.lookup(flight.place(i));
            }
        }
    }
}

/// Keys of one step: 16 to 32 lines keep memory busy, and the end of each step's
/// list of late keys is a branch that nobody can predict.
const CHUNK: usize = 64;
