//! `RUSTFLAGS="--cfg loom" cargo test -p lookup --release loom`
//!
//! Two buckets of two slots, a version each, one reader, one writer. None explores
//! a batch, the counters' wrap, or a version shared by two buckets.

use loom::thread;
use std::sync::Arc;

use super::table::{BATCH, Cuckoo, Prefetch, Steps};
use crate::exact::lines::Lines;
use crate::exact::search::{Buckets, Slot};
use crate::pages::Kind;

const KEY: u64 = 5;
const WORD: u64 = KEY << 16 | 8;

fn table(atomic: bool) -> Arc<Cuckoo> {
    let steps = Steps { atomic, batch: BATCH, prefetch: Prefetch::None };
    Arc::new(Cuckoo::new(Lines::zeroed(1, Kind::Small).expect("there is memory"), 1, 3, steps))
}

/// The key is moved from bucket `first`, in which readers look first, or to it.
fn moved(to_first: bool, guarded: bool) {
    loom::model(move || {
        let table = table(false);
        let [first, second] = table.buckets_of(KEY);
        let (from, to) = if to_first { (second, first) } else { (first, second) };
        let (from, to) = (Slot { bucket: from, slot: 0 }, Slot { bucket: to, slot: 1 });
        table.buckets[from.bucket].store(from.slot, WORD);
        let theirs = table.clone();
        let reader = thread::spawn(move || {
            assert_eq!(theirs.lookup_number(KEY), 7, "it was missed");
        });
        if guarded {
            (&mut &*table).move_entry(from, to);
        } else {
            table.buckets[to.bucket].store(to.slot, WORD);
            table.buckets[from.bucket].store(from.slot, 0);
        }
        reader.join().unwrap();
    });
}

/// Interleavings A, B, C.
#[test]
fn loom_a_key_that_moves_to_its_first_bucket_is_found() {
    moved(true, true);
}

#[test]
fn loom_a_key_that_moves_to_its_second_bucket_is_found() {
    moved(false, true);
}

/// The negative control: the model sees a move between even versions.
#[test]
#[should_panic(expected = "it was missed")]
fn loom_sees_a_move_without_versions() {
    moved(true, false);
}
