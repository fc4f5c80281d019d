//! For tests of nodes: one node run on given frames, and an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use io::mem::{Mem, Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::exact::Key;
use lookup::sync::{Domain, Thread};

use crate::card::{Card, DROP};
use crate::context::{Context, Ports};
use crate::inset::Insets;
use crate::node::{Node, Seat, View};
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
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The edge's name, `drop: reason`, or `kept`.
    pub to: String,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Bytes from the head to the end.
    pub len: u16,
    /// The lane of this name.
    pub key32: u32,
    /// The lane of this name.
    pub hop: u32,
    /// The lane of this name.
    pub out: u16,
    /// The lane of this name.
    pub iface: u16,
    /// The lane of this name.
    pub key64: Key,
    /// The lane of this name.
    pub key128: u128,
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
        let context = Context { worker: 0, now: crate::clock::now(), ports, stats, watch };
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
        mut prepare: impl FnMut(&mut View<'_, N>, usize),
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
        let (guard, node_type) = (self.thread.guard(), std::marker::PhantomData);
        let context = &mut self.context;
        let seat = Seat { slot: 0, reasons: 0 };
        let mut view = View { vector: &mut vector, context, guard, seat, node: node_type };
        (0..frames.len()).for_each(|i| prepare(&mut view, i));
        node.process(&mut view);
        let outcomes = (0..view.n()).map(|i| outcome(&card, &view, i)).collect();
        self.context.ports.free(0, vector.burst.packets());
        outcomes
    }
}

fn outcome<N: Node>(card: &Card, view: &View<'_, N>, i: usize) -> Outcome {
    let packet = view.vector.burst.packet(i);
    let to = match view.vector.edge[i] {
        _ if packet.is_none() => "kept".to_owned(),
        DROP => format!("drop: {}", card.drops[usize::from(view.vector.why[i])]),
        edge => (*card.edges.get(usize::from(edge)).unwrap_or(&"nowhere")).to_owned(),
    };
    Outcome {
        to,
        frame: packet.map_or(Vec::new(), |packet| packet.data().to_vec()),
        len: view.len(i),
        key32: view.key32[i],
        hop: view.hop[i].0,
        out: view.out[i],
        iface: view.iface[i],
        key64: view.wide.key64[i],
        key128: view.wide.key128[i],
    }
}

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
