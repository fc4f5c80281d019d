//! What a node is, and what it sees of a vector.

use std::ops::{Deref, DerefMut};

use io::{Owned, VECTOR};
use lookup::sync::Guard;

use crate::card::{Card, DROP, Label, NoEdge};
use crate::context::{Context, Ports};
use crate::stats::Account;
use crate::tick::Due;
use crate::vector::{Live, POSTPONED, Vector};
use crate::watch::Point;

/// A node: takes a vector, reads and changes its packets, and gives each an
/// edge, or takes it out (a sink, [`NoEdge`]), or puts packets in (a source).
///
/// In `process`: no allocation, lock, system call, log, format.
pub trait Node: Sized + Send {
    /// Where packets go; the first is where most do. At most 31.
    type Edge: Label;
    /// Why packets are dropped; [`NoDrop`] where none is.
    type Drop: Label;
    /// The name in drawings and counters.
    const NAME: &'static str;
    /// One line.
    const HELP: &'static str;
    /// Lanes that nodes after this one read.
    const LIVE: Live;
    /// True: called once a poll with an empty vector, to fill it.
    const SOURCE: bool = false;
    /// True: [`Node::tick`] is called.
    const TICKS: bool = false;

    /// Works through the vector. A node with edges calls [`View::leave`] or
    /// [`View::drop`] for each packet; a sink takes every packet, and counts
    /// those that it frees for a reason with [`View::count_dropped`].
    fn process(&mut self, v: &mut View<'_, Self>);

    /// What is to be done by time: called in every poll in which packets came, and
    /// when the time has come that it returned last; the first time in the first poll.
    /// An idle worker sleeps at most until then. The vector is empty; packets that are
    /// put in leave along the node's edges.
    ///
    /// A bounded piece of work at a time: what is left is done in the next poll
    /// ([`Due::NOW`]).
    fn tick(&mut self, _v: &mut View<'_, Self>) -> Due {
        Due::NEVER
    }
}

/// A vector as one node sees it: it sets edges and reasons of its own only.
pub struct View<'v, N> {
    pub(crate) vector: &'v mut Vector,
    pub(crate) context: &'v mut Context,
    pub(crate) guard: Guard<'v>,
    pub(crate) reasons: u16,
    pub(crate) node: std::marker::PhantomData<N>,
}

impl<'v, N: Node> View<'v, N> {
    /// Sends packet `i` along `edge`.
    #[inline(always)]
    pub fn leave(&mut self, i: usize, edge: N::Edge) {
        self.vector.edge[i] = edge.code();
    }

    /// Sends every packet along `edge`.
    #[inline]
    pub fn leave_all(&mut self, edge: N::Edge) {
        let n = self.n();
        self.vector.edge.first_mut(n).fill(edge.code());
    }

    /// Sends the packets that were [postponed](Vector::postpone) along `edge`, then
    /// calls `act` with each.
    #[cold]
    pub fn postponed(&mut self, edge: N::Edge, mut act: impl FnMut(&mut Self, usize)) {
        for i in 0..self.n() {
            if self.vector.edge[i] == POSTPONED {
                self.leave(i, edge);
                act(self, i);
            }
        }
    }

    /// Sends packet `i` to the `drop` node, counted as `node.reason`.
    #[inline(always)]
    pub fn drop(&mut self, i: usize, reason: N::Drop) {
        self.vector.edge[i] = DROP;
        self.vector.why[i] = self.reasons + u16::from(reason.code());
    }

    /// Permission to load published tables until the node returns.
    #[inline(always)]
    pub fn guard(&self) -> Guard<'v> {
        self.guard
    }

    /// This worker's number.
    #[inline]
    pub fn worker(&self) -> usize {
        self.context.worker
    }

    /// The time of the poll: [`crate::clock`] ticks, read once for all its packets.
    /// What is counted in milliseconds does with this.
    #[inline]
    pub fn now(&self) -> u64 {
        self.context.now
    }

    /// The time of the packet in hand: the clock, read again, for some 10 ns. For nodes
    /// that must tell how far two packets of one poll are apart. Never before
    /// [`View::now`], nor before what a call before this gave.
    #[inline]
    pub fn time(&self) -> u64 {
        crate::clock::now().max(self.context.now)
    }

    /// Whose buffers its packets are.
    #[inline]
    pub fn world(&self) -> io::World {
        self.vector.world
    }

    /// This worker's ports.
    #[inline]
    pub fn ports(&mut self) -> &mut Ports {
        &mut self.context.ports
    }

    /// Adds `n` to a term of the accounting law.
    #[inline]
    pub fn account(&self, term: Account, n: usize) {
        self.context.stats.law.add(term, n as u64);
    }

    /// Counts `n` packets as dropped that do not go to the `drop` node: those
    /// that a sink frees, and frames for which a source has no buffer.
    pub fn count_dropped(&self, reason: N::Drop, n: usize) {
        let reason = usize::from(self.reasons) + usize::from(reason.code());
        self.context.stats.drops[reason].add(n as u64);
    }

    /// True while a capture runs: call [`View::capture`] only then.
    #[inline(always)]
    pub fn capturing(&self, point: Point) -> bool {
        self.context.watch.capturing(point)
    }

    /// Copies packet `i`'s frame into the running capture.
    #[cold]
    pub fn capture(&mut self, i: usize, point: Point) {
        let Some(packet) = self.vector.burst.packet(i) else { return };
        let (iface, port) = (self.vector.iface[i], self.vector.port);
        self.context.watch.capture(packet.data(), point, iface, port, self.context.now);
    }

    /// Appends a packet that came from `port`'s pool, and returns its index:
    /// what a source does. Gives it back when the vector is full or holds
    /// packets of another world.
    ///
    /// # Errors
    /// The packet, to be freed or kept.
    pub fn push(&mut self, packet: Owned, port: u16) -> Result<usize, Owned> {
        let Some(world) = self.context.ports.world(port) else { return Err(packet) };
        let n = self.n();
        if n == 0 {
            self.vector.world = world;
            self.vector.port = port;
        }
        if n == VECTOR || self.vector.world != world {
            return Err(packet);
        }
        self.vector.burst.push(packet);
        Ok(n)
    }
}

impl<N: Node<Edge = NoEdge>> View<'_, N> {
    /// The packets, which a sink has to take, and this worker's ports, which
    /// take them. Heads and lengths are gone from here on.
    #[inline]
    pub fn sink(&mut self) -> (&mut [Option<Owned>], &mut Ports) {
        (self.vector.burst.packets(), &mut self.context.ports)
    }

    /// The packets, which a sink has to take, and the port that each leaves by.
    /// Heads and lengths are gone from here on.
    #[inline]
    pub fn by_port(&mut self) -> impl Iterator<Item = (&mut Option<Owned>, u16)> {
        let vector = &mut *self.vector;
        vector.burst.packets().iter_mut().zip(vector.out.first(VECTOR).iter().copied())
    }

    /// Takes packet `i`; the others' heads stay.
    #[inline]
    pub fn take(&mut self, i: usize) -> Option<Owned> {
        self.vector.burst.take(i)
    }

    /// Gives packets back to the pool that they came from.
    #[inline]
    pub fn free(&mut self) {
        let port = self.vector.port;
        self.context.ports.free(port, self.vector.burst.packets());
    }
}

impl<N> Deref for View<'_, N> {
    type Target = Vector;
    #[inline(always)]
    fn deref(&self) -> &Vector {
        self.vector
    }
}

impl<N> DerefMut for View<'_, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vector {
        self.vector
    }
}

/// What the graph stores: every [`Node`] is one, its types erased. One indirect
/// call a vector.
pub(crate) trait AnyNode: Send {
    fn card(&self) -> Card;
    fn run(&mut self, v: &mut Vector, context: &mut Context, guard: Guard<'_>, reasons: u16);
    fn tick(&mut self, v: &mut Vector, cx: &mut Context, guard: Guard<'_>, reasons: u16) -> Due;
}

impl<N: Node> AnyNode for N {
    fn card(&self) -> Card {
        Card::of::<N>()
    }

    fn run(&mut self, vector: &mut Vector, context: &mut Context, guard: Guard<'_>, reasons: u16) {
        let node = std::marker::PhantomData;
        process(self, &mut View { vector, context, guard, reasons, node });
    }

    fn tick(
        &mut self,
        vector: &mut Vector,
        context: &mut Context,
        guard: Guard<'_>,
        reasons: u16,
    ) -> Due {
        let node = std::marker::PhantomData;
        Node::tick(self, &mut View { vector, context, guard, reasons, node })
    }
}

/// A function of its own: a view that comes as a parameter is known to nobody
/// else, so what it points to stays in registers while the node's loop runs.
#[inline(never)]
fn process<N: Node>(node: &mut N, view: &mut View<'_, N>) {
    node.process(view);
}

impl Card {
    /// The card of a type of node.
    pub const fn of<N: Node>() -> Card {
        Card {
            name: N::NAME,
            help: N::HELP,
            edges: N::Edge::NAMES,
            drops: N::Drop::NAMES,
            drops_help: N::Drop::HELP,
            live: N::LIVE,
            source: N::SOURCE,
            ticks: N::TICKS,
        }
    }
}
