//! `RUSTFLAGS="--cfg loom" cargo test -p lookup --release loom`
//!
//! None of them explores more than one reader, more than two publishers, or the
//! wrap of the epoch; each says what else it leaves out. Those of one publisher are
//! explored whole. With two there are three threads, and more interleavings than
//! minutes: these are explored up to [`PREEMPTIONS`] switches away from a thread
//! that could have gone on. The fault that they are for needs two.

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

/// What a second publisher does to make room.
type Reclaim = fn(&Domain);

/// [`Domain::reclaim`] as it must not be: the readers are looked at before the garbage.
fn stale_reclaim(domain: &Domain) {
    let oldest = domain.oldest();
    let ready = domain.take_ready(&mut lock(&domain.garbage), oldest);
    drop(ready);
}

fn reclaim(domain: &Domain) {
    domain.reclaim();
}

/// Two versions of a table, of one cell and of two. A dropped one is marked and stays
/// where it is, so that who reads it is caught and does no harm.
struct Versions {
    /// The one published.
    now: AtomicUsize,
    dropped: [AtomicUsize; 2],
    cells: [[AtomicUsize; 2]; 2],
}

impl Versions {
    fn new() -> Arc<Versions> {
        let zeros = || [AtomicUsize::new(0), AtomicUsize::new(0)];
        let cells = [zeros(), zeros()];
        Arc::new(Versions { now: AtomicUsize::new(0), dropped: zeros(), cells })
    }

    /// As [`Published::publish`].
    fn publish(self: &Arc<Self>, domain: &Domain) {
        self.now.swap(1, Ordering::AcqRel);
        domain.retire(Box::new(Dropped(self.clone())));
    }

    /// The version published, and cell 0 of it; it must be there.
    fn read(&self, _: Guard<'_>) -> (usize, usize) {
        let now = self.now.load(Ordering::Acquire);
        let value = self.cells[now][0].load(Ordering::Acquire);
        assert_eq!(self.dropped[now].load(Ordering::Acquire), 0, "read after drop");
        (now, value)
    }
}

/// The first version, as garbage.
struct Dropped(Arc<Versions>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped[0].store(1, Ordering::Release);
    }
}

/// Interleaving G: a reader sleeps and wakes; one publisher replaces the version while
/// another, who has nothing to do with it, reclaims. Leaves out: quiescence while
/// online, and a second round of either publisher.
fn a_reader_wakes_among_two_publishers(reclaim: Reclaim) {
    bounded().check(move || {
        let (domain, versions) = (Domain::new(), Versions::new());
        let mut reader = domain.register("reader");
        reader.offline();
        let shared = versions.clone();
        let waking = thread::spawn(move || {
            reader.online();
            shared.read(reader.guard());
            reader.offline();
        });
        let theirs = domain.clone();
        let other = thread::spawn(move || reclaim(&theirs));
        versions.publish(&domain);
        other.join().unwrap();
        waking.join().unwrap();
    });
}

#[test]
fn loom_a_reader_wakes_among_two_publishers() {
    a_reader_wakes_among_two_publishers(reclaim);
}

/// The negative control: the model sees garbage that is judged by a look at the readers
/// from before it was there.
#[test]
#[should_panic(expected = "read after drop")]
fn loom_sees_a_look_that_is_older_than_the_garbage() {
    a_reader_wakes_among_two_publishers(stale_reclaim);
}

/// Interleavings E, G: growth. A writer copies the cell of a table to one twice as large
/// that no reader knows, changes it in both, and publishes the larger; another publisher
/// reclaims; the reader wakes, looks up, quiesces, and looks up once more. Leaves out: an
/// engine's own order of stores (`mac_table`'s tests), a table that grows twice.
fn a_table_grows_beside_a_publisher(reclaim: Reclaim) {
    bounded().check(move || {
        let (domain, versions) = (Domain::new(), Versions::new());
        let mut reader = domain.register("reader");
        reader.offline();
        let shared = versions.clone();
        let waking = thread::spawn(move || {
            reader.online();
            let first = shared.read(reader.guard());
            reader.quiesce();
            let second = shared.read(reader.guard());
            assert!(first.0 <= second.0 && first.1 <= second.1, "forward: {first:?}, {second:?}");
            reader.offline();
        });
        let theirs = domain.clone();
        let other = thread::spawn(move || reclaim(&theirs));
        let [small, large] = &versions.cells;
        large[0].store(small[0].load(Ordering::Relaxed), Ordering::Release);
        small[0].store(8, Ordering::Release);
        large[0].store(8, Ordering::Release);
        versions.publish(&domain);
        other.join().unwrap();
        waking.join().unwrap();
    });
}

#[test]
fn loom_a_table_grows_beside_a_publisher() {
    a_table_grows_beside_a_publisher(reclaim);
}

/// The negative control, of growth.
#[test]
#[should_panic(expected = "read after drop")]
fn loom_sees_a_size_that_goes_too_early() {
    a_table_grows_beside_a_publisher(stale_reclaim);
}

/// Interleavings B, G: both publishers replace versions of their own, retire and
/// reclaim, and either may drop what the other has retired; the reader wakes, reads
/// both, quiesces, reads, and sleeps. Leaves out: a reader that wakes twice.
#[test]
fn loom_two_publish_and_reclaim() {
    bounded().check(|| {
        let domain = Domain::new();
        let of_control = Arc::new(Published::new(&domain, Canary::new(0).0));
        let of_bridge = Arc::new(Published::new(&domain, Canary::new(0).0));
        let mut reader = domain.register("reader");
        reader.offline();
        let (control, bridge) = (of_control.clone(), of_bridge.clone());
        let waking = thread::spawn(move || {
            reader.online();
            let first = (read(&control, &reader), read(&bridge, &reader));
            reader.quiesce();
            let second = (read(&control, &reader), read(&bridge, &reader));
            assert!(first.0 <= second.0 && first.1 <= second.1, "versions go forward");
            reader.offline();
        });
        let theirs = domain.clone();
        let other = thread::spawn(move || {
            of_bridge.publish(Canary::new(1).0);
            theirs.reclaim();
        });
        of_control.publish(Canary::new(1).0);
        domain.reclaim();
        other.join().unwrap();
        waking.join().unwrap();
    });
}

/// Interleaving G: two publishers replace the same value. Leaves out: who reclaims
/// while the other has swapped and not yet retired, but for one of the two.
#[test]
fn loom_two_publish_the_same() {
    bounded().check(|| {
        let domain = Domain::new();
        let published = Arc::new(Published::new(&domain, Canary::new(0).0));
        let mut reader = domain.register("reader");
        reader.offline();
        let (shared, theirs) = (published.clone(), published.clone());
        let waking = thread::spawn(move || {
            reader.online();
            read(&shared, &reader);
            reader.offline();
        });
        let other = thread::spawn(move || theirs.publish(Canary::new(1).0));
        published.publish(Canary::new(2).0);
        domain.reclaim();
        other.join().unwrap();
        waking.join().unwrap();
    });
}

/// Interleavings E, G: in place. The owner of a [`Limbo`] uses a cell again while
/// another publisher retires and reclaims; the reader sleeps and wakes. Leaves out:
/// batches, and a limbo that changes hands.
#[test]
fn loom_cells_are_reused_beside_a_publisher() {
    bounded().check(|| {
        const POISON: usize = 99;
        let domain = Domain::new();
        let root = LoomArc::new(AtomicUsize::new(0));
        let cells = LoomArc::new([AtomicUsize::new(10), AtomicUsize::new(11)]);
        let mut reader = domain.register("reader");
        reader.offline();
        let (r, c) = (root.clone(), cells.clone());
        let waking = thread::spawn(move || {
            reader.online();
            let cell = r.load(Ordering::Acquire);
            let value = c[cell].load(Ordering::Relaxed);
            assert_ne!(value, POISON, "a cell is read while it is rewritten");
            reader.offline();
        });
        let theirs = domain.clone();
        let other = thread::spawn(move || {
            theirs.retire(Box::new(()));
            theirs.reclaim();
        });
        let mut limbo = Limbo::new(&domain, 8);
        root.store(1, Ordering::Release);
        limbo.push(0);
        limbo.drain(|cell: usize| cells[cell].store(POISON, Ordering::Relaxed));
        other.join().unwrap();
        waking.join().unwrap();
    });
}

/// A model of three threads, explored up to so many preemptions.
fn bounded() -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model
}

const PREEMPTIONS: usize = 3;

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
