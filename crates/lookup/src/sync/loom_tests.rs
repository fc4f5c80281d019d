//! `RUSTFLAGS="--cfg loom" cargo test -p lookup --release loom`
//!
//! None of them explores more than two readers, more than one writer, or the
//! wrap of the epoch; each says what else it leaves out.

use std::sync::Arc;

use loom::sync::Arc as LoomArc;
use loom::thread;

use super::*;

/// Says when it is dropped; reading `alive` after that is the fault.
struct Canary {
    number: usize,
    alive: LoomArc<AtomicUsize>,
}

impl Canary {
    fn new(number: usize) -> (Self, LoomArc<AtomicUsize>) {
        let alive = LoomArc::new(AtomicUsize::new(1));
        (Canary { number, alive: alive.clone() }, alive)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.alive.store(0, Ordering::Release);
    }
}

/// Reads the version twice under one guard; it must be alive throughout.
fn read(published: &Published<Canary>, thread: &Thread) -> usize {
    let canary = published.load(thread.guard());
    assert_eq!(canary.alive.load(Ordering::Acquire), 1, "read after drop");
    canary.number
}

/// Interleavings A, B: a reader loads, quiesces, loads, against publish and
/// reclaim. Leaves out: offline, threads that come and go.
#[test]
fn loom_publish_and_reclaim() {
    loom::model(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Canary::new(0).0));
        let mut reader = domain.register("reader");
        let shared = published.clone();
        let handle = thread::spawn(move || {
            let first = read(&shared, &reader);
            reader.quiesce();
            assert!(read(&shared, &reader) >= first, "versions go forward");
        });
        published.publish(Canary::new(1).0);
        domain.reclaim();
        domain.reclaim();
        handle.join().unwrap();
    });
}

/// Interleaving C: a reader comes online while the writer publishes and
/// reclaims. Leaves out: quiescence while online.
#[test]
fn loom_online_against_reclaim() {
    loom::model(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Canary::new(0).0));
        let mut reader = domain.register("reader");
        reader.offline();
        let shared = published.clone();
        let handle = thread::spawn(move || {
            reader.online();
            read(&shared, &reader);
            reader.offline();
        });
        published.publish(Canary::new(1).0);
        domain.reclaim();
        handle.join().unwrap();
    });
}

/// Interleaving D: a thread registers, reads and goes while the writer
/// publishes and reclaims. Leaves out: a second reader.
#[test]
fn loom_register_against_reclaim() {
    loom::model(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Canary::new(0).0));
        let (shared, theirs) = (published.clone(), domain.clone());
        let handle = thread::spawn(move || {
            let reader = theirs.register("reader");
            read(&shared, &reader);
        });
        published.publish(Canary::new(1).0);
        domain.reclaim();
        handle.join().unwrap();
    });
}

/// Interleaving E: an engine that updates in place. `root` names one of two
/// cells; the writer fills the free one, turns the root, and uses the old
/// cell again only after the grace period. Leaves out: more cells, batches.
fn in_place(wait: bool) {
    loom::model(move || {
        const POISON: usize = 99;
        let domain = Domain::new();
        let root = LoomArc::new(AtomicUsize::new(0));
        let cells = LoomArc::new([AtomicUsize::new(10), AtomicUsize::new(POISON)]);
        let mut reader = domain.register("reader");
        let (r, c) = (root.clone(), cells.clone());
        let handle = thread::spawn(move || {
            for _ in 0..2 {
                let cell = r.load(Ordering::Acquire);
                let value = c[cell].load(Ordering::Relaxed);
                assert_ne!(value, POISON, "a cell is read while it is rewritten");
                reader.quiesce();
            }
        });
        let mut limbo = Limbo::new(&domain, 8);
        cells[1].store(11, Ordering::Relaxed);
        root.store(1, Ordering::Release);
        limbo.push(0);
        if wait {
            limbo.drain(|cell: usize| cells[cell].store(POISON, Ordering::Relaxed));
        } else {
            cells[0].store(POISON, Ordering::Relaxed);
        }
        handle.join().unwrap();
    });
}

#[test]
fn loom_cells_are_reused_after_the_grace_period() {
    in_place(true);
}

/// The negative control: the model can see the fault.
#[test]
#[should_panic(expected = "while it is rewritten")]
fn loom_sees_a_reuse_without_grace() {
    in_place(false);
}
