//! For tests of nodes: one node run on given frames, and an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use io::mem::{Mem, Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::sync::{Domain, Thread};

use crate::card::{Card, DROP};
use crate::context::{Context, Ports};
use crate::inset::Insets;
use crate::lanes::Lane;
use crate::node::{Node, Seat, View};
use crate::packets::Packets;
#[cfg(debug_assertions)]
use crate::slots::SlotSet;
use crate::slots::{Slots, Stored};
use crate::stats::{Place, Stats};
use crate::vector::Vector;
use crate::watch::Watch;

/// Runs nodes outside a graph: bytes in, edge and bytes out.
pub struct Bench {
    context: Context,
    thread: Thread,
    peer: Peer,
    /// Keeps the cable's other end.
    _device: Mem,
}

/// What a node did with one packet.
#[derive(Clone)]
pub struct Outcome {
    /// The edge's name, `drop: reason`, or `kept`.
    pub to: String,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Bytes from the head to the end.
    pub len: u16,
    /// What nodes learnt, and which packet of the vector it was.
    lanes: (Arc<Slots>, usize),
}

impl Outcome {
    /// What the lane holds.
    pub fn get<L: Lane>(&self, _: L) -> L::Value {
        let (slots, i) = &self.lanes;
        L::Slot::of(slots)[*i].into()
    }
}

/// A vector that is made ready for a node: lanes are set as the nodes before it would.
pub struct Before<'v>(&'v mut Vector);

impl Before<'_> {
    /// Sets what the lane holds for packet `i`.
    pub fn set<L: Lane>(&mut self, _: L, i: usize, value: L::Value) {
        L::Slot::of_mut(&mut self.0.slots)[i] = value.into();
    }
}

impl Deref for Before<'_> {
    type Target = Vector;
    fn deref(&self) -> &Vector {
        self.0
    }
}

impl DerefMut for Before<'_> {
    fn deref_mut(&mut self) -> &mut Vector {
        self.0
    }
}

impl Bench {
    /// A bench with one port, number 0, whose guard belongs to `domain`.
    ///
    /// # Panics
    /// When there is no memory for a pool.
    pub fn new(domain: &Arc<Domain>) -> Bench {
        let config = PoolConfig { packets: 1024, mtu: 9000, large_pages: false };
        let pool = Pool::new(&config).expect("memory for a test");
        let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 1], &pool);
        let mut ports = Ports::new();
        ports.set(0, device.start(1).expect("one queue").remove(0));
        let (stats, watch) =
            (Arc::new(Stats::new(Vec::new(), Insets::default(), 0)), Watch::default());
        let now = crate::clock::now();
        let context = Context { worker: 0, now, clock: now, ports, stats, watch };
        Bench { context, thread: domain.register("bench"), peer, _device: device }
    }

    /// Runs `node` on a vector of `frames`, each prepared by `prepare` as the
    /// nodes before it would have done.
    ///
    /// # Panics
    /// When the node is a sink, or there are more than [`io::VECTOR`] frames.
    pub fn run<N: Node>(
        &mut self,
        node: &mut N,
        frames: &[&[u8]],
        mut prepare: impl FnMut(&mut Before<'_>, usize),
    ) -> Vec<Outcome> {
        let card = Card::of::<N>();
        assert!(!card.edges.is_empty(), "a sink is tested in a graph");
        let place = Place { card, next: Vec::new(), reasons: 0 };
        self.context.stats = Arc::new(Stats::new(vec![place], Insets::default(), 0));
        frames.iter().for_each(|frame| self.peer.push(frame));
        let mut vector = Vector::new();
        let port = self.context.ports.get(0).expect("the bench has port 0");
        assert_eq!(port.receive(&mut vector.burst, io::VECTOR), frames.len());
        vector.edge.first_mut(frames.len()).fill(DROP - 1); // no edge yet
        #[cfg(debug_assertions)]
        vector.poison(SlotSet::NONE);
        (0..frames.len()).for_each(|i| prepare(&mut Before(&mut vector), i));
        let (guard, context) = (self.thread.guard(), &mut self.context);
        let seat = Seat { slot: 0, reasons: 0 };
        node.process(&mut View { vector: Packets::of(&mut vector), context, guard, seat });
        let slots = Arc::new(vector.slots.clone());
        let outcomes = (0..vector.n()).map(|i| outcome(&card, &vector, (slots.clone(), i)));
        let outcomes = outcomes.collect();
        self.context.ports.free(0, vector.burst.packets());
        outcomes
    }
}

fn outcome(card: &Card, vector: &Vector, lanes: (Arc<Slots>, usize)) -> Outcome {
    let i = lanes.1;
    let packet = vector.burst.packet(i);
    let to = match vector.edge[i] {
        _ if packet.is_none() => "kept".to_owned(),
        DROP => format!("drop: {}", card.drops[usize::from(vector.why[i])]),
        edge => (*card.edges.get(usize::from(edge)).unwrap_or(&"nowhere")).to_owned(),
    };
    let frame = packet.map_or(Vec::new(), |packet| packet.data().to_vec());
    Outcome { to, frame, len: vector.len(i), lanes }
}

/// While it lives, nobody may count another reference to its [`Arc`]: see [`uncounted`].
pub struct Uncounted<'a>(&'a AtomicUsize);

/// Sets the count of strong references to where [`Arc::clone`] and [`Weak::upgrade`] end the
/// process, until what it returns is dropped. So a clone that is gone again is seen, too.
///
/// # Panics
/// When the count is not where this looks for it: another version of the library.
///
/// [`Weak::upgrade`]: std::sync::Weak::upgrade
pub fn uncounted<T: ?Sized>(arc: &Arc<T>) -> Uncounted<'_> {
    // The counts, strong and weak, lie before the value (`ArcInner` is `repr(C)`).
    let before = (2 * size_of::<usize>()).next_multiple_of(align_of_val(&**arc));
    let place = Arc::as_ptr(arc).cast::<u8>().wrapping_sub(before).cast::<AtomicUsize>();
    // SAFETY: inside the allocation of `arc`, which lives as long as what this returns, and
    // a count that is changed by atomic operations alone.
    let strong = unsafe { &*place };
    let seen = || (strong.load(Ordering::Relaxed), Arc::strong_count(arc));
    let (found, said) = seen();
    let clone = arc.clone();
    assert_eq!((found, seen()), (said, (said + 1, said + 1)), "the count is elsewhere");
    drop(clone);
    strong.fetch_add(LIMIT, Ordering::Relaxed);
    Uncounted(strong)
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(LIMIT, Ordering::Relaxed);
    }
}

/// Beyond what `Arc` counts to.
const LIMIT: usize = 1 << (usize::BITS - 1);

/// The system's allocator, counting: `#[global_allocator]` of a test that
/// asserts that nothing is allocated.
pub struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

impl Counting {
    /// Allocations of the calling thread so far.
    pub fn allocations() -> u64 {
        ALLOCATIONS.with(Cell::get)
    }

    fn count() {
        // A thread that ends may allocate after its locals are gone: not counted.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: the system's allocator does the work; the counter changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count();
        // SAFETY: the caller's obligations are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::count();
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
