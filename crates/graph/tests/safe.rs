//! What nodes and ports without `unsafe` may try on the packets of a graph. Each attempt
//! is refused or harmless here; that it is harmless to memory, miri and
//! AddressSanitizer see (`scripts/deep.sh`).
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use graph::{BEFORE, Builder, Graph, L2_ROOM, Lanes, NoDrop, NoEdge, Node, View, labels};
use io::mem::{Peer, connect};
use io::{Burst, Device, Owned, Pool, PoolConfig, Port, VECTOR};
use lookup::sync::{Domain, Thread};

graph::lanes! {
    /// In the vector.
    Short = "short": A32 as u32;
    /// In its box.
    Long = "long": A128 as u128;
}
labels! { enum To { Next = "next" carries [Short, Long], Other = "other" carries [Short, Long] } }
labels! { enum On { Sink = "sink" carries [Short, Long] } }

/// Indices inside, beside, and far outside.
fn indices() -> impl Iterator<Item = usize> {
    (0..VECTOR + 3).step_by(7).chain([usize::MAX - 1, usize::MAX])
}

/// Writes through everything that a vector hands out.
fn scribble<N: Node>(v: &mut View<'_, N>) {
    for i in indices() {
        v.head_mut(i).fill(0xee);
        v.before_mut(i).fill(0xee);
        assert_eq!(v.head(i), &[0xee; 64]);
        if i % VECTOR >= v.n() {
            assert!(!v.advance(i, 1) && !v.frame(i, 0, 0) && !v.retreat(i, 0));
            assert!(!v.unwrap(i, 0, 0) && v.behind(i, 1).is_none());
            assert!(v.device_hash(i).is_none() && v.edit(i, |_| ()).is_none());
            v.rewind(i);
            v.postpone(i);
        }
    }
}

/// And through its lanes.
fn fill<N: Node>(v: &mut View<'_, N>) {
    for i in indices() {
        v.set(Short, i, 7);
        v.set(Long, i, 7);
        let (short, long) = v.between(Short, Long);
        long[i] = short[i].into();
        assert_eq!((v.get(Short, i), v.lane(Long)[i]), (7, 7));
    }
}

/// A node of code that tests bring.
macro_rules! node {
    ($type:ident, $name:literal, $edge:ty, $reads:ty, |$node:ident, $v:ident| $body:block) => {
        impl Node for $type {
            type Edge = $edge;
            type Drop = NoDrop;
            const NAME: &'static str = $name;
            const HELP: &'static str = "tries";
            const READS: Lanes = Lanes::of::<$reads>();

            fn process(&mut self, $v: &mut View<'_, Self>) {
                let $node = self;
                $body
            }
        }
    };
}

/// Keeps a packet back and hands it over in the next one's place, moves heads over
/// both ends, and sends every second packet elsewhere.
struct First(Option<Owned>);
node!(First, "first", To, (), |node, v| {
    scribble(v);
    fill(v);
    for i in 0..v.n() {
        let kept = &mut node.0;
        v.edit(i, |packet| match kept {
            Some(other) => std::mem::swap(packet, other),
            None => assert!(packet.resize(20)),
        });
        while v.advance(i, 5) {}
        while v.retreat(i, 3) {}
        for _ in 0..20 {
            let len = v.len(i).into();
            v.frame(i, L2_ROOM, len);
            v.rewind(i);
        }
        assert!(v.packet(i).packet().headroom() >= BEFORE as u16);
        v.leave(i, [To::Next, To::Other][i % 2]);
    }
    scribble(v);
});

struct Next;
node!(Next, "next", On, (Short, Long), |_node, v| {
    scribble(v);
    fill(v);
    v.leave_all(On::Sink);
});

struct Other;
node!(Other, "other", On, (Short, Long), |_node, v| {
    scribble(v);
    fill(v);
    v.leave_all(On::Sink);
});

/// Frees, swaps and hands on packets, and looks at their heads between.
struct Sink {
    thread: Option<std::sync::mpsc::Sender<Owned>>,
    seen: Arc<AtomicUsize>,
}
node!(Sink, "sink", NoEdge, (Short, Long), |node, v| {
    scribble(v);
    node.seen.fetch_add(v.n(), Ordering::Relaxed);
    let n = v.n();
    if let Some(thread) = &node.thread
        && let Some(packet) = v.take(0)
    {
        thread.send(packet).unwrap();
    }
    scribble(v);
    let (packets, ports) = v.sink();
    packets.reverse();
    ports.free(0, &mut packets[..n / 2]);
    scribble(v);
    v.rewind(n - 1);
    scribble(v);
    v.packets_and(Short).for_each(|_| ());
    v.free();
    scribble(v);
});

struct Drop;
node!(Drop, "drop", NoEdge, (), |_node, v| {
    v.free();
});

struct Rig {
    graph: Graph,
    thread: Thread,
    peer: Peer,
    pool: Pool,
    seen: Arc<AtomicUsize>,
}

fn rig(wrap: impl Fn(Box<dyn Port>) -> Box<dyn Port>) -> (Rig, std::sync::mpsc::Receiver<Owned>) {
    let pool = Pool::new(&PoolConfig { packets: 512, mtu: 600, large_pages: false }).unwrap();
    let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 1], &pool);
    let (give, got) = std::sync::mpsc::channel();
    let seen = Arc::<AtomicUsize>::default();
    let sink = Sink { thread: Some(give), seen: seen.clone() };
    let builder = Builder::new("first").node(First(pool.allocate())).node(Next).node(Other);
    let mut graph = builder.node(sink).node(Drop).build(0).unwrap();
    graph.ports().set(0, wrap(device.start(1).unwrap().remove(0)));
    (Rig { graph, thread: Domain::new().register("test"), peer, pool, seen }, got)
}

#[test]
fn nodes_cannot_reach_what_they_do_not_hold() {
    let (mut rig, got) = rig(|port| port);
    let mut pool = rig.pool.clone();
    // What sinks hand to another thread belongs to it alone.
    let other = std::thread::spawn(move || {
        pool.attach(1);
        let mut n = 0;
        for mut packet in got {
            packet.data_mut().fill(0x11);
            assert!(packet.data().iter().all(|&byte| byte == 0x11));
            pool.put(&mut [Some(packet)]);
            n += 1;
        }
        n
    });
    for round in 0..if cfg!(miri) { 2 } else { 50 } {
        (0..40 + round % 20).for_each(|i| rig.peer.push(&[i as u8; 60]));
        rig.graph.poll(rig.thread.guard());
        rig.thread.quiesce();
    }
    assert!(rig.seen.load(Ordering::Relaxed) >= 80);
    drop(rig.graph.ports().remove(0));
    // With the packet that `First` keeps: it is lost, which debug builds refuse.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(rig.graph)));
    assert!(other.join().unwrap() > 0);
    assert!(rig.pool.available() >= rig.pool.size() - 1);
}

/// A port in safe code that says what is not so, and hands out what it likes.
struct Liar(Box<dyn Port>, usize);

impl Port for Liar {
    io::around_port!(self.0: rest);

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        self.0.receive(burst, most);
        indices().for_each(|i| burst.head_mut(i).fill(0xdd));
        // Another burst in its place, after its heads were moved.
        let mut other = Burst::new();
        std::mem::swap(burst, &mut other);
        for i in 0..other.n() {
            let _ = other.advance(i, 9);
        }
        std::mem::swap(burst, &mut other);
        // A hole in the middle, a packet beyond the end.
        if burst.n() > 3 {
            let taken = burst.take(2);
            self.0.free(&mut [taken]);
            burst.retain(0, Some);
            burst.spare()[7] = self.0.allocate();
        }
        self.1
    }
    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        packets.reverse();
        self.0.transmit(packets)
    }
}

#[test]
fn ports_that_lie_lose_packets_at_most() {
    for says in [0, 1, 64, usize::MAX] {
        let (mut rig, got) = rig(move |port| Box::new(Liar(port, says)));
        (0..20).for_each(|i| rig.peer.push(&[i; 60]));
        // A packet that lies beyond the end may be dropped, which debug builds refuse.
        let poll = AssertUnwindSafe(|| rig.graph.poll(rig.thread.guard()));
        let _ = catch_unwind(poll);
        got.try_iter().for_each(std::mem::forget);
        assert!(rig.pool.available() + 24 >= rig.pool.size());
        std::mem::forget(rig.graph);
    }
}

/// A source that puts packets of both ports in, one after the other, as of ports that
/// there are not, too; and one beyond what a vector holds.
struct Mixer {
    packets: Vec<Owned>,
    refused: Arc<AtomicUsize>,
}

impl Node for Mixer {
    type Edge = On;
    type Drop = NoDrop;
    const NAME: &'static str = "mixer";
    const HELP: &'static str = "mixes packets of two ports";
    const SOURCE: bool = true;

    fn process(&mut self, v: &mut View<'_, Self>) {
        for i in 0..self.packets.len() {
            let Some(packet) = self.packets.pop() else { break };
            let n = v.n();
            let port = [0, 1, 9, u16::MAX][i % 4];
            match v.push(packet, port) {
                Ok(at) => assert_eq!((at, v.n(), v.port()), (n, n + 1, port)),
                Err(packet) => {
                    assert!(v.n() == n && (port > 1 || !v.has_room(port)));
                    assert!(n == 0 || n == VECTOR || port != v.port());
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    self.packets.insert(0, packet);
                }
            }
        }
        scribble(v);
        fill(v);
        v.leave_all(On::Sink);
    }
}

#[test]
fn a_vector_is_of_one_port_whatever_a_source_does() {
    let pool = Pool::new(&PoolConfig { packets: 700, mtu: 600, large_pages: false }).unwrap();
    let (seen, refused) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let packets = (0..600).map(|_| pool.allocate().unwrap()).collect();
    let mixer = Mixer { packets, refused: refused.clone() };
    let sink = Sink { thread: None, seen: seen.clone() };
    let builder = Builder::new("first").node(First(None)).node(Next).node(Other).node(mixer);
    let mut graph = builder.node(sink).node(Drop).build(0).unwrap();
    for port in 0..2 {
        let (mut device, _peer) = connect("p", [2, 0, 0, 0, 0, port as u8], &pool);
        graph.ports().set(port, device.start(1).unwrap().remove(0));
    }
    let thread = Domain::new().register("test");
    // Asked again in one poll, as long as it was refused and no burst has come.
    while graph.poll(thread.guard()) > 0 {}
    assert_eq!((seen.load(Ordering::Relaxed), pool.available()), (600, pool.size()));
    assert!(refused.load(Ordering::Relaxed) > 300);
}

#[test]
fn a_port_of_the_last_number_leaves_the_others_as_they_are() {
    let (mut rig, got) = rig(|port| port);
    let (mut device, _peer) = connect("last", [2; 6], &rig.pool);
    let last = device.start(1).unwrap().remove(0);
    assert!(rig.graph.ports().set(u16::MAX, last).is_none());
    (0..4).for_each(|i| rig.peer.push(&[i; 60]));
    assert_eq!(rig.graph.poll(rig.thread.guard()), 4);
    got.try_iter().for_each(std::mem::forget);
    std::mem::forget(rig.graph);
}

/// The port whose packets are on their way goes, and the pool's last handles too.
#[test]
fn packets_outlive_their_ports() {
    let (mut rig, got) = rig(|port| port);
    (0..4).for_each(|i| rig.peer.push(&[i; 60]));
    rig.graph.poll(rig.thread.guard());
    drop(rig.graph.ports().remove(0));
    drop(rig.pool);
    drop(rig.peer);
    let mut kept: Vec<_> = got.try_iter().collect();
    assert!(!kept.is_empty());
    kept.iter_mut().for_each(|packet| packet.data_mut().fill(9));
    std::mem::forget((kept, rig.graph));
}
