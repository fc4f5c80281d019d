//! The scheduler: takes bursts from the ports and follows each through the nodes
//! until nothing waits.

mod control;

use std::collections::VecDeque;
use std::sync::Arc;

use io::{BURST, Burst, Port, VECTOR};
use lookup::sync::Guard;

use crate::clock;
use crate::context::{Context, Ports};
use crate::needs::Needs;
use crate::node::{AnyNode, Seat};
use crate::stats::{Account, Stats};
use crate::tick::{Due, Ticking};
use crate::vector::Vector;
use crate::watch::{NO_IFACE, Point, Step, Watch};

pub use control::NodeError;

/// The nodes of one worker, connected. Made by a [`Builder`](crate::Builder).
///
/// ```text
///  per port: receive ─► vector ─► node ─ all packets on one edge: the same box goes on ─► node …
///                                   └── mixed: most stay in the box, the others move to
///                                       vectors that wait at their nodes
/// ```
///
/// Nodes are in topological order, so what waits is taken from the lowest
/// first and meets as much company as it can. One port's vector is finished
/// before the next is received: receiving all first doubles the working set
/// (measured: 9 to 22 cycles a packet).
pub struct Graph {
    slots: Vec<Slot>,
    /// Bit i: vectors wait at slot i.
    waiting: [u64; 4],
    spare: Vec<Box<Vector>>,
    sources: Vec<usize>,
    ticking: Ticking,
    entry: usize,
    drop_node: usize,
    /// Packets of the last poll that came from ports and sources.
    came: usize,
    context: Context,
}

pub(crate) struct Slot {
    pub node: Box<dyn AnyNode>,
    /// Where each edge leads.
    pub next: [u8; 32],
    pub sink: bool,
    pub keeps: bool,
    /// What moves with a packet to this node, and behind it.
    pub needs: Needs,
    /// It fills [`Hops`](crate::slot::Hops): traces show it.
    pub answers: bool,
    pub seat: Seat,
    pub waiting: VecDeque<Box<Vector>>,
}

impl Graph {
    pub(crate) fn new(slots: Vec<Slot>, stats: Stats, drop_node: usize, worker: usize) -> Graph {
        let cards = |i: &usize| stats.places[*i].card;
        let sources = (0..slots.len()).filter(|i| cards(i).source).collect();
        let ticking = Ticking::new((0..slots.len()).filter(|i| cards(i).ticks));
        // Of one burst each node has at most one waiting vector: all fit in one.
        let spare = (0..slots.len() + 2).map(|_| Vector::new()).collect();
        let (entry, stats) = (stats.entry, Arc::new(stats));
        let (ports, watch) = (Ports::new(), Watch::default());
        clock::rate(); // estimated here, or the first packet would wait for it
        let now = clock::now();
        let context = Context { worker, now, clock: now, ports, stats, watch };
        Graph {
            slots,
            waiting: [0; 4],
            spare,
            sources,
            ticking,
            entry,
            drop_node,
            came: 0,
            context,
        }
    }

    /// Receives up to [`VECTOR`] packets from each port, asks each source, lets tick
    /// what has to, and follows what came until nothing waits. Returns how many
    /// packets came, those included that nodes put in at their tick.
    ///
    /// The caller quiesces the guard's thread between polls.
    #[inline]
    pub fn poll(&mut self, guard: Guard<'_>) -> usize {
        let now = clock::now();
        self.poll_from(now, now, guard)
    }

    /// The same at a time that the caller says, which may jump: for tests of what time does.
    pub fn poll_at(&mut self, now: u64, guard: Guard<'_>) -> usize {
        self.poll_from(now, clock::now(), guard)
    }

    /// It is `now` for nodes; what they take is counted from `before` on.
    #[inline]
    fn poll_from(&mut self, now: u64, mut before: u64, guard: Guard<'_>) -> usize {
        (self.context.now, self.context.clock) = (now, before);
        let mut packets = 0;
        for port in 0..self.context.ports.end() {
            let (n, after) = self.receive(port, before, guard, <dyn Port>::receive);
            packets += n;
            before = after;
        }
        for i in 0..self.sources.len() {
            let (n, after) = self.ask(self.sources[i], before, guard);
            packets += n;
            before = after;
        }
        self.came = packets;
        if !self.ticking.is_empty() {
            packets += self.tick(packets > 0, before, guard);
        }
        packets
    }

    /// Of the last [`Graph::poll`]'s packets, those that came: more may follow them. What
    /// nodes put in at their tick says nothing of that.
    pub(crate) fn came(&self) -> usize {
        self.came
    }

    /// Runs the nodes that tick: with traffic all, else those whose time has come.
    /// Returns how many packets they put in.
    #[inline(never)]
    fn tick(&mut self, mut traffic: bool, mut before: u64, guard: Guard<'_>) -> usize {
        let (now, mut packets) = (self.context.now, 0);
        for k in 0..self.ticking.len() {
            let Some(slot) = self.ticking.to_run(k, traffic, now) else { continue };
            for _ in 0..VECTORS_A_TICK {
                let (n, after, due) = self.tick_one(slot, before, guard);
                self.ticking.set(k, due);
                before = after;
                if n == 0 {
                    break;
                }
                packets += n;
                traffic = true;
                if !due.has_come(now) {
                    break;
                }
            }
        }
        packets
    }

    fn tick_one(&mut self, i: usize, before: u64, guard: Guard<'_>) -> (usize, u64, Due) {
        let mut v = self.spare.pop().unwrap_or_else(Vector::new);
        let slot = &mut self.slots[i];
        #[cfg(debug_assertions)]
        v.poison(slot.needs.here);
        let due = slot.node.run_tick(&mut v, &mut self.context, guard, slot.seat);
        if v.holed {
            v.close(slot.needs.behind);
        }
        let (n, now) = (v.n(), clock::now());
        // Its packets were counted when they came to the node, or are by the next one.
        self.context.stats.nodes[i].cycles.add(now.wrapping_sub(before));
        if n == 0 {
            self.spare.push(v);
            return (0, now, due);
        }
        (n, self.depart(i, v, now, guard), due)
    }

    /// As [`Graph::poll`], but nothing is received from devices: what other
    /// threads have put into rings is worked off before a stop, and once nothing is
    /// left there, what nodes keep is dropped by name.
    pub fn drain(&mut self, guard: Guard<'_>) -> usize {
        match self.work_off(guard) {
            0 => self.abandon(guard),
            packets => packets,
        }
    }

    /// Takes in what waits in rings to it.
    fn work_off(&mut self, guard: Guard<'_>) -> usize {
        let now = clock::now();
        (self.context.now, self.context.clock) = (now, now);
        let mut packets = 0;
        for port in 0..self.context.ports.end() {
            packets += self.receive(port, clock::now(), guard, <dyn Port>::drain).0;
        }
        for i in 0..self.sources.len() {
            packets += self.ask(self.sources[i], clock::now(), guard).0;
        }
        packets
    }

    #[inline(always)]
    fn receive(
        &mut self,
        number: u16,
        before: u64,
        guard: Guard<'_>,
        how: impl Fn(&mut (dyn Port + 'static), &mut Burst, usize) -> usize,
    ) -> (usize, u64) {
        let Some(port) = self.context.ports.get(number) else { return (0, before) };
        let mut v = self.spare.pop().unwrap_or_else(Vector::new);
        v.world = port.world();
        v.port = number;
        how(port, &mut v.burst, VECTOR);
        let n = v.n(); // not what the port says: it may be wrong
        if n == 0 {
            self.spare.push(v);
            return (0, before);
        }
        let now = clock::now();
        let stats = &self.context.stats;
        stats.receive.visit(n, now.wrapping_sub(before));
        stats.law.add(Account::Received, n as u64);
        if self.context.watch.tracing() || self.context.watch.capturing(Point::Received) {
            self.watch_received(&mut v);
        }
        (n, self.follow(self.entry, v, now, guard))
    }

    /// Asks a source, again where what it has is of several ports, until a burst has come.
    #[inline]
    fn ask(&mut self, source: usize, before: u64, guard: Guard<'_>) -> (usize, u64) {
        let (mut packets, mut before, mut more) = (0, before, true);
        while more && packets < BURST {
            let n;
            (n, before, more) = self.ask_once(source, before, guard);
            packets += n;
        }
        (packets, before)
    }

    /// Returns the packets that came, the time, and whether the source has more.
    fn ask_once(&mut self, source: usize, before: u64, guard: Guard<'_>) -> (usize, u64, bool) {
        let mut v = self.spare.pop().unwrap_or_else(Vector::new);
        let slot = &mut self.slots[source];
        #[cfg(debug_assertions)]
        v.poison(slot.needs.here);
        slot.node.run(&mut v, &mut self.context, guard, slot.seat);
        if v.holed {
            v.close(slot.needs.behind);
        }
        let n = v.n();
        if n == 0 {
            self.spare.push(v);
            return (0, before, false);
        }
        let (now, more) = (clock::now(), std::mem::take(&mut v.refused));
        self.context.stats.nodes[source].visit(n, now.wrapping_sub(before));
        (n, self.depart(source, v, now, guard), more)
    }

    /// Sends what the node at slot `from` put into `v` on its way.
    fn depart(&mut self, from: usize, mut v: Box<Vector>, now: u64, guard: Guard<'_>) -> u64 {
        if v.marked {
            self.record(from, &v, None);
        }
        let next = self.next(from, &mut v);
        self.follow(next, v, now, guard)
    }

    /// Drops what nodes keep, by name; returns how many packets there were.
    fn abandon(&mut self, guard: Guard<'_>) -> usize {
        let mut packets = 0;
        for i in 0..self.slots.len() {
            if !self.slots[i].keeps {
                continue;
            }
            let mut rest = None;
            loop {
                let mut v = self.spare.pop().unwrap_or_else(Vector::new);
                let slot = &mut self.slots[i];
                slot.node.surrender(&mut v, &mut self.context, guard, slot.seat, &mut rest);
                if v.is_empty() {
                    self.spare.push(v);
                    break;
                }
                packets += v.n();
                self.depart(i, v, clock::now(), guard);
            }
        }
        packets
    }

    /// Runs `v` through the graph from `slot` on, and all that this makes wait.
    fn follow(
        &mut self,
        mut i: usize,
        mut v: Box<Vector>,
        mut before: u64,
        guard: Guard<'_>,
    ) -> u64 {
        loop {
            let slot = &mut self.slots[i];
            let (n, sink) = (v.n(), slot.sink);
            if sink {
                self.arrive(i, &v);
            }
            let slot = &mut self.slots[i];
            #[cfg(debug_assertions)]
            v.poison(slot.needs.here);
            slot.node.run(&mut v, &mut self.context, guard, slot.seat);
            let now = clock::now();
            self.context.stats.nodes[i].visit(n, now.wrapping_sub(before));
            before = now;
            if !sink && (!(v.holed | v.marked) || self.tidy(i, &mut v)) {
                i = self.next(i, &mut v);
                continue;
            }
            v.clear();
            self.spare.push(v);
            match self.first_waiting() {
                Some(waiting) => (i, v) = waiting,
                None => return before,
            }
        }
    }

    /// Closes the holes that the node at `slot` left, and notes what it did with traced
    /// packets. False where it kept them all.
    #[cold]
    fn tidy(&mut self, slot: usize, v: &mut Vector) -> bool {
        if v.holed {
            v.close(self.slots[slot].needs.behind);
        }
        if v.marked {
            self.record(slot, v, None);
        }
        !v.is_empty()
    }

    /// What has to be seen of packets before a sink takes them.
    #[inline]
    fn arrive(&mut self, slot: usize, v: &Vector) {
        if slot == self.drop_node {
            // A flood's packets are dropped for one reason: counted together.
            for alike in v.why.first(v.n()).chunk_by(|one, other| one == other) {
                self.context.stats.drops[usize::from(alike[0])].add(alike.len() as u64);
            }
        }
        if v.marked {
            self.record(slot, v, Some(Step::SUNK));
        }
    }

    /// Counts the edges, and returns the node to which `v` goes; packets that go
    /// elsewhere have been moved out and wait there.
    #[inline]
    fn next(&mut self, from: usize, v: &mut Vector) -> usize {
        let edge = match v.uniform() {
            Some(edge) => {
                self.count(from, edge, v.n());
                edge
            }
            None => self.split(from, v),
        };
        usize::from(self.slots[from].next[usize::from(edge) % 32])
    }

    #[inline]
    fn count(&self, from: usize, edge: u8, n: usize) {
        self.context.stats.nodes[from].edges[usize::from(edge) % 32].add(n as u64);
    }

    /// Mixed edges: most packets stay in place, moved together as whole runs,
    /// the others go to vectors that wait. Returns the edge of those that stay.
    #[inline(never)]
    fn split(&mut self, from: usize, v: &mut Vector) -> u8 {
        let (n, stay) = (v.n(), v.majority());
        let next = |slot: &Slot, edge: u8| usize::from(slot.next[usize::from(edge) % 32]);
        let live = self.slots[next(&self.slots[from], stay)].needs.here;
        let (mut kept, mut start) = (0, 0);
        while start < n {
            let edge = v.edge[start];
            let mut end = start + 1;
            while end < n && v.edge[end] == edge {
                end += 1;
            }
            if edge == stay {
                if kept != start {
                    // SAFETY: what lies from `kept` to `start` was moved out, by
                    // `enqueue` or by this; `truncate` follows.
                    unsafe { v.shift(start..end, kept, live) };
                }
                kept += end - start;
            } else {
                self.count(from, edge, end - start);
                let to = next(&self.slots[from], edge);
                // SAFETY: `truncate` follows, and nothing else is called of `v`
                // that reads what has gone.
                unsafe { self.enqueue(to, v, start..end) };
            }
            start = end;
        }
        v.truncate(kept);
        self.count(from, stay, kept);
        stay
    }

    /// Moves the packets `run` out of `v`, to where they wait for node `to`.
    ///
    /// # Safety
    /// As [`Vector::append`]: the caller closes `v`.
    unsafe fn enqueue(&mut self, to: usize, v: &Vector, run: std::ops::Range<usize>) {
        let live = self.slots[to].needs.here;
        let waiting = &mut self.slots[to].waiting;
        let fits = |last: &&mut Box<Vector>| {
            last.n() + run.len() <= VECTOR && last.world == v.world && last.port == v.port
        };
        match waiting.back_mut().filter(fits) {
            // SAFETY: passed on unchanged.
            Some(last) => unsafe { last.append(v, run, live) },
            None => {
                let mut fresh = self.spare.pop().unwrap_or_else(Vector::new);
                (fresh.world, fresh.port) = (v.world, v.port);
                // SAFETY: as above.
                unsafe { fresh.append(v, run, live) };
                waiting.push_back(fresh);
            }
        }
        self.waiting[to / 64] |= 1 << (to % 64);
    }

    #[inline]
    fn first_waiting(&mut self) -> Option<(usize, Box<Vector>)> {
        let word = self.waiting.iter().position(|&word| word != 0)?;
        let i = word * 64 + self.waiting[word].trailing_zeros() as usize;
        let waiting = &mut self.slots[i].waiting;
        let v = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting[word] &= !(1 << (i % 64));
        }
        v.map(|v| (i, v))
    }

    #[cold]
    fn watch_received(&mut self, v: &mut Vector) {
        let watch = &mut self.context.watch;
        v.marked = watch.tracing();
        for i in 0..v.n() {
            let Some(packet) = v.burst.packet(i) else { continue };
            if watch.capturing(Point::Received) {
                watch.capture(packet.data(), Point::Received, NO_IFACE, v.port, self.context.now);
            }
            v.mark[i] = watch.mark(packet.data());
        }
    }

    /// Notes what the node at `slot` did with the traced packets of `v`.
    #[cold]
    fn record(&mut self, slot: usize, v: &Vector, edge: Option<u8>) {
        let answers = self.slots[slot].answers;
        for i in (0..v.n()).filter(|&i| v.mark[i] != 0) {
            let edge = edge.unwrap_or(v.edge[i]);
            if let Some(step) = Step::of(v, i, slot as u16, edge, answers) {
                self.context.watch.step(step);
            }
        }
    }
}

/// Most vectors that a node puts in at one tick, as long as it says that there is more:
/// packets of several ports need a vector each.
const VECTORS_A_TICK: usize = 8;
