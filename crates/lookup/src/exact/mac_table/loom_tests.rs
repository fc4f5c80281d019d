//! `RUSTFLAGS="--cfg loom" cargo test -p lookup --release loom`
//!
//! Two lines of two slots, one reader, one writer. None of these explores growth
//! (`sync`'s own tests do, of a table's size), vectors of several words at once, or more
//! than one lookup; each says what it moves.

use loom::thread;
use std::sync::Arc;

use super::frame::Frame;
use crate::exact::ABSENT;
use crate::exact::search::{Buckets, Slot};
use crate::pages::Kind;

/// Numbers whose first line is 0; their hints are in different slots.
const X: u64 = 1 << 60;
const Y: u64 = 1 << 40;

fn slot(bucket: usize, slot: usize) -> Slot {
    Slot { bucket, slot }
}

impl Frame {
    fn lookup(&self, mixed: u64) -> u16 {
        self.view().lookup(self.view().first(mixed))
    }
}

/// A frame with X at `at`, and Y in line 0.
fn frame(at: Slot) -> Arc<Frame> {
    let frame = Frame::new(1, Kind::Small).expect("there is memory");
    frame.write(at, X, 7);
    frame.write(slot(0, 1), Y, 8);
    Arc::new(frame)
}

/// X is at `from` and goes to `to` while `read` is looked up.
fn moved(from: Slot, to: Slot, read: u64, allowed: &'static [u16], counted: bool) {
    loom::model(move || {
        let frame = frame(from);
        let theirs = frame.clone();
        let reader = thread::spawn(move || {
            let value = theirs.lookup(read);
            assert!(allowed.contains(&value), "{value} was read");
        });
        if counted {
            (&mut &*frame).move_entry(from, to);
        } else {
            frame.write(to, X, 7);
        }
        frame.vacate(from);
        reader.join().unwrap();
    });
}

/// Interleavings A, B, H: the second line is read before the copy comes to the
/// first, and after the entry has gone; and the hint goes with it.
#[test]
fn loom_an_entry_that_moves_to_its_first_line_is_found() {
    moved(slot(1, 0), slot(0, 0), X, &[7], true);
}

/// Interleavings A, D: with the hint.
#[test]
fn loom_an_entry_that_moves_to_its_second_line_is_found() {
    moved(slot(0, 0), slot(1, 0), X, &[7], true);
}

/// Another key is found, with its own value, beside a move.
#[test]
fn loom_the_neighbour_of_a_move_is_found() {
    moved(slot(0, 0), slot(1, 0), Y, &[8], true);
}

/// The negative control: the model sees a move that is not counted.
#[test]
#[should_panic(expected = "was read")]
fn loom_sees_a_move_that_is_not_counted() {
    moved(slot(1, 0), slot(0, 0), X, &[7], false);
}

/// Interleaving C: there and back.
#[test]
fn loom_an_entry_that_moves_twice_is_found() {
    loom::model(|| {
        let (first, second) = (slot(0, 0), slot(1, 1));
        let frame = frame(first);
        let theirs = frame.clone();
        let reader = thread::spawn(move || assert_eq!(theirs.lookup(X), 7));
        (&mut &*frame).move_entry(first, second);
        frame.vacate(first);
        (&mut &*frame).move_entry(second, first);
        frame.vacate(second);
        reader.join().unwrap();
    });
}

/// Interleaving E, F: a change, a delete and another key in the same slot; what
/// is read is a value that the key had, or nothing.
#[test]
fn loom_a_value_is_never_anothers() {
    loom::model(|| {
        let at = slot(0, 0);
        let frame = frame(at);
        let theirs = frame.clone();
        let reader = thread::spawn(move || {
            let value = theirs.lookup(X);
            assert!([7, 9, ABSENT].contains(&value), "{value} was read");
        });
        frame.set_value(at, 9);
        frame.clear(at);
        frame.write(at, Y | 1 << 50, 33);
        reader.join().unwrap();
    });
}
