//! The trait of nodes, and a node's view of a vector.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use io::{Owned, VECTOR};
use lookup::sync::Guard;

use crate::card::{Card, DROP, Label, NoEdge};
use crate::context::{Context, Ports};
use crate::kept::{Kept, Unsent};
use crate::lanes::{Lane, Lanes};
use crate::packets::{Declares, Packets};
use crate::slots::{Hops, Stored};
use crate::stats::{Account, Counter};
use crate::tick::Due;
use crate::vector::{POSTPONED, Vector};
use crate::watch::{Point, Step};

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
    /// Lanes that it reads and nodes before it filled. What itself fills, its edges
    /// say (`carries` in [`labels!`](crate::labels)).
    ///
    /// Packets that a source or a node that ticks puts in come with nothing but what
    /// its edges carry.
    const READS: Lanes = Lanes::NONE;
    /// True: called once a poll with an empty vector, to fill it.
    const SOURCE: bool = false;
    /// Of a source. True: whoever gives it something rings the worker's [`Bell`](crate::Bell)
    /// or is a node of the same worker, so a worker may sleep and not ask.
    const WAKES: bool = false;
    /// True: [`Node::tick`] is called.
    const TICKS: bool = false;
    /// True: it may [keep](View::keep) packets over polls.
    const KEEPS: bool = false;

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

    /// Gives one of the packets out that it keeps, and the reason for which it is
    /// dropped. Called until there is none: at a stop, and when the graph is replaced,
    /// for what [`Node::take_over`] left.
    fn abandon(&mut self) -> Option<(Kept, Self::Drop)> {
        None
    }

    /// Its graph replaces one with the node `old` of the same name and type: takes over
    /// what should not be lost, packets and tables. On the worker's thread: to be moved,
    /// not copied.
    fn take_over(&mut self, _old: &mut Self) {}
}

/// Where a node is in its graph.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    pub slot: u16,
    /// Index of its first drop reason.
    pub reasons: u16,
}

impl<N: Node> Declares for N {
    const LANES: Lanes = N::READS;
    const CARRIES: &'static [Lanes] = N::Edge::CARRIES;
}

/// A vector as one node sees it: it sets edges and reasons of its own only.
pub struct View<'v, N> {
    pub(crate) vector: &'v mut Packets<N>,
    pub(crate) context: &'v mut Context,
    pub(crate) guard: Guard<'v>,
    pub(crate) seat: Seat,
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
        self.vector.why[i] = self.seat.reasons + u16::from(reason.code());
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
        let passed = crate::clock::now().saturating_sub(self.context.clock);
        self.context.now.saturating_add(passed)
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
        let reason = usize::from(self.seat.reasons) + usize::from(reason.code());
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
        let (iface, port) = (self.vector.slots.ifaces[i], self.vector.port);
        self.context.watch.capture(packet.data(), point, iface, port, self.context.now);
    }

    /// Whether there is room for a packet of `port`: the vector is empty, or it is not
    /// full and has packets of that port. Where there is none, a source leaves the
    /// packet where it is, and is asked again in this poll.
    #[inline]
    pub fn has_room(&mut self, port: u16) -> bool {
        let (n, vector) = (self.n(), &mut *self.vector);
        let fits = n == 0 || n < VECTOR && vector.port == port;
        vector.refused |= !fits;
        fits
    }

    /// Appends a packet that came by `port` or from its pool, and returns its index: what
    /// a source does, or a node that ticks or keeps packets. Gives it back where
    /// there is no such port or no [room](View::has_room).
    ///
    /// Another node cannot: its packet would have none of the lanes that those before it
    /// filled.
    /// ```compile_fail,E0080
    /// graph::labels! { enum To { Out = "out" } }
    /// struct Adds(Option<io::Owned>);
    /// impl graph::Node for Adds {
    ///     type Edge = To;
    ///     type Drop = graph::NoDrop;
    ///     const NAME: &'static str = "adds";
    ///     const HELP: &'static str = "adds a packet on the way";
    ///     fn process(&mut self, v: &mut graph::View<'_, Self>) {
    ///         let packet = self.0.take().unwrap();
    ///         let _ = v.push(packet, 0);
    ///     }
    /// }
    /// let _: fn(&mut Adds, &mut graph::View<'_, Adds>) = <Adds as graph::Node>::process;
    /// ```
    ///
    /// # Errors
    /// The packet, to be freed or kept.
    pub fn push(&mut self, packet: Owned, port: u16) -> Result<usize, Owned> {
        const { assert!(Card::of::<N>().puts_in(), "neither a source, nor TICKS, nor KEEPS") }
        self.put(packet, port)
    }

    fn put(&mut self, packet: Owned, port: u16) -> Result<usize, Owned> {
        let Some(world) = self.context.ports.world(port) else { return Err(packet) };
        if !self.has_room(port) {
            return Err(packet);
        }
        let n = self.n();
        if n == 0 {
            (self.vector.world, self.vector.port) = (world, port);
        }
        if self.vector.world != world {
            return Err(packet); // the node has put another port in the port's place
        }
        self.vector.burst.push(packet);
        self.vector.set_mark(n, 0);
        Ok(n)
    }
}

/// For nodes that keep packets ([`Node::KEEPS`]).
impl<N: Node> View<'_, N> {
    /// Takes packet `i` out; it counts as held until it is emitted or discarded. The
    /// others keep their places while the node works. `None` where there is no packet `i`.
    pub fn keep(&mut self, i: usize) -> Option<Kept> {
        const { assert!(N::KEEPS, "Node::KEEPS is false") };
        let (vector, watch) = (&mut *self.vector, &mut self.context.watch);
        let mark = if vector.marked { vector.mark[i] } else { 0 };
        if mark != 0
            && let Some(step) =
                Step::of(vector, i, self.seat.slot, Step::KEPT, Card::of::<N>().fills(Hops::BIT))
        {
            watch.step(step);
        }
        let packet = vector.take(i)?;
        self.held().add(1);
        let (port, world) = (self.vector.port, self.vector.world);
        Some(Kept { packet, port, world, mark, trace: self.context.watch.trace_id() })
    }

    /// Makes a packet of `port`'s pool, which came from elsewhere than the vector, one
    /// that the node keeps.
    ///
    /// # Errors
    /// The packet, where there is no such port.
    pub fn adopt(&mut self, packet: Owned, port: u16) -> Result<Kept, Owned> {
        const { assert!(N::KEEPS, "Node::KEEPS is false") };
        let Some(world) = self.context.ports.world(port) else { return Err(packet) };
        self.held().add(1);
        Ok(Kept { packet, port, world, mark: 0, trace: 0 })
    }

    /// Puts a kept packet in, behind those that there are, and returns its index.
    ///
    /// # Errors
    /// The packet, and whether to wait or to discard it.
    pub fn emit(&mut self, kept: Kept) -> Result<usize, Unsent> {
        const { assert!(N::KEEPS, "Node::KEEPS is false") };
        self.restore(kept)
    }

    fn restore(&mut self, kept: Kept) -> Result<usize, Unsent> {
        let Kept { packet, port, world, mark, trace } = kept;
        if self.context.ports.world(port) != Some(world) {
            return Err(Unsent::Gone(Kept { packet, port, world, mark, trace }));
        }
        let pushed = self.put(packet, port);
        let i = pushed.map_err(|packet| Unsent::Full(Kept { packet, port, world, mark, trace }))?;
        self.held().less(1);
        let traced = mark != 0 && trace == self.context.watch.trace_id();
        self.vector.set_mark(i, if traced { mark } else { 0 });
        Ok(i)
    }

    /// Frees a kept packet that cannot be emitted, counted as dropped for `reason`. One
    /// that can is better emitted and [dropped](View::drop): captures see it then.
    pub fn discard(&mut self, kept: Kept, reason: N::Drop) {
        self.throw(kept, reason.code());
    }

    fn throw(&mut self, kept: Kept, reason: u8) {
        self.held().less(1);
        let reason = usize::from(self.seat.reasons) + usize::from(reason);
        self.context.stats.drops[reason].add(1);
        self.context.ports.give_back(kept);
    }

    #[inline]
    fn held(&self) -> &Counter {
        &self.context.stats.nodes[usize::from(self.seat.slot)].held
    }
}

impl<N: Node<Edge = NoEdge>> View<'_, N> {
    /// The packets, which a sink has to take, and this worker's ports, which
    /// take them. Heads and lengths are gone from here on.
    #[inline]
    pub fn sink(&mut self) -> (&mut [Option<Owned>], &mut Ports) {
        (self.vector.burst.packets(), &mut self.context.ports)
    }

    /// The packets, which a sink has to take, and what the lane holds for each: the
    /// port to leave by, say. Heads and lengths are gone from here on.
    #[inline]
    pub fn packets_and<L: Lane>(
        &mut self,
        lane: L,
    ) -> impl Iterator<Item = (&mut Option<Owned>, L::Value)> {
        self.vector.packets_and(lane)
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
    type Target = Packets<N>;
    #[inline(always)]
    fn deref(&self) -> &Packets<N> {
        self.vector
    }
}

impl<N> DerefMut for View<'_, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Packets<N> {
        self.vector
    }
}

/// What the graph stores: every [`Node`] is one, its types erased. One indirect
/// call a vector.
pub(crate) trait AnyNode: Send {
    fn card(&self) -> Card;
    fn run(&mut self, v: &mut Vector, context: &mut Context, guard: Guard<'_>, seat: Seat);
    fn run_tick(&mut self, v: &mut Vector, cx: &mut Context, guard: Guard<'_>, seat: Seat) -> Due;
    /// Fills the vector with packets that the node abandons, on the drop edge; `rest` is
    /// one that did not fit, with its reason.
    fn surrender(
        &mut self,
        v: &mut Vector,
        context: &mut Context,
        guard: Guard<'_>,
        seat: Seat,
        rest: &mut Option<(Kept, u8)>,
    );
    /// Takes over from `old`; nothing is done where that is of another type.
    fn inherit(&mut self, old: &mut dyn AnyNode);
    fn any(&mut self) -> &mut dyn Any;
}

impl<N: Node + 'static> AnyNode for N {
    fn card(&self) -> Card {
        Card::of::<N>()
    }

    fn run(&mut self, vector: &mut Vector, context: &mut Context, guard: Guard<'_>, seat: Seat) {
        process(self, &mut View { vector: Packets::of(vector), context, guard, seat });
    }

    fn run_tick(
        &mut self,
        vector: &mut Vector,
        context: &mut Context,
        guard: Guard<'_>,
        seat: Seat,
    ) -> Due {
        self.tick(&mut View { vector: Packets::of(vector), context, guard, seat })
    }

    fn surrender(
        &mut self,
        vector: &mut Vector,
        context: &mut Context,
        guard: Guard<'_>,
        seat: Seat,
        rest: &mut Option<(Kept, u8)>,
    ) {
        let mut view = View::<N> { vector: Packets::of(vector), context, guard, seat };
        let next = |node: &mut N| node.abandon().map(|(kept, reason)| (kept, reason.code()));
        while let Some((kept, reason)) = rest.take().or_else(|| next(self)) {
            match view.restore(kept) {
                Ok(i) => {
                    view.vector.edge[i] = DROP;
                    view.vector.why[i] = seat.reasons + u16::from(reason);
                }
                Err(Unsent::Full(kept)) => {
                    *rest = Some((kept, reason));
                    break;
                }
                Err(Unsent::Gone(kept)) => view.throw(kept, reason),
            }
        }
    }

    fn inherit(&mut self, old: &mut dyn AnyNode) {
        if let Some(old) = old.any().downcast_mut::<N>() {
            self.take_over(old);
        }
    }

    fn any(&mut self) -> &mut dyn Any {
        self
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
            reads: N::READS,
            carries: N::Edge::CARRIES,
            source: N::SOURCE,
            wakes: N::WAKES,
            ticks: N::TICKS,
            keeps: N::KEEPS,
        }
    }
}
