//! A router on the bench: its tables, its graph, packets that go round, and the
//! check that each left by the right next hop.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use graph::ring::frames as frame_ring;
use graph::{Graph, Snapshot};
use io::mem::{Ring, RingDevice};
use io::{Device, Pool, PoolConfig, Port};
use lookup::lpm::{Intervals, Options, Writer};
use lookup::sync::{Domain, Thread};
use lookup::{Hop, Prefix, Rib};
use nodes::router::{Parts, router};
use nodes::{IfaceCounters, Rates};
use tables::hops::fixed;
use tables::{
    Adjacency, AdjacencyId, Forwarding, HopTable, Iface, IfaceId, Ifaces, Kind, PortId, Step, Tags,
    Vrf,
};
use wire::flow::Hasher;

use super::frames::{Frames, MOST_LAPS, ROUTER, mark, taken};
use crate::clock;
use crate::slices::{Sample, Work};

/// Next hops of a bench router.
pub(super) const GATEWAYS: u32 = 64;

/// Members of each multipath group.
const MEMBERS: u32 = 4;

/// The tables of a router with two ports and [`GATEWAYS`] next hops.
pub(super) struct Tables<A: Frames> {
    domain: Arc<Domain>,
    forwarding: Arc<Forwarding>,
    writer: Box<dyn Writer<A>>,
    oracle: Intervals<A>,
    multipath: bool,
}

impl<A: Frames> Tables<A> {
    /// Builds the engine called `engine` from `routes`, whose hops are folded
    /// to the gateways; with `multipath` every route leads to a group of them.
    pub fn new(routes: &[(Prefix<A>, Hop)], engine: &str, multipath: bool) -> Result<Self, String> {
        let routes = gateways(routes, multipath);
        let rib: Rib<A> = routes.iter().copied().collect();
        let domain = Domain::new();
        let entry = A::engine(engine).ok_or_else(|| format!("no engine `{engine}`"))?;
        let writer = (entry.build)(&rib, &Options::default(), &domain);
        let writer = writer.map_err(|refusal| refusal.to_string())?;
        let forwarding = Forwarding::new(&domain);
        forwarding.ifaces.publish(ifaces());
        forwarding.hops.publish(Arc::new(hops(A::WIDTH == 128)));
        let oracle = Intervals::new(routes);
        let tables = Tables { domain, forwarding, writer, oracle, multipath };
        tables.publish();
        Ok(tables)
    }

    /// Publishes the engine's table, beside an empty one of the other family.
    pub fn publish(&self) {
        let Some(mut vrf) = self.empty() else { return };
        A::install(&mut vrf, self.writer.table());
        self.forwarding.vrfs.publish(vec![vrf]);
    }

    fn empty(&self) -> Option<Vrf> {
        let reader = self.domain.register("lab setup");
        self.forwarding.vrfs.load(reader.guard()).first().cloned()
    }

    /// True when a packet to `dst` may leave by `hop`.
    fn allows(&self, dst: A, hop: Hop) -> bool {
        let want = self.oracle.lookup(dst);
        if !self.multipath {
            return hop == want;
        }
        let group = want.0 - fixed::FIRST_FREE - GATEWAYS;
        members(group).contains(&hop)
    }

    /// A worker's graph without ports.
    pub fn graph(&self, worker: usize) -> Result<Graph, String> {
        let (to_kernel, _) = frame_ring::ring(1 << 16);
        let (_, from_kernel) = frame_ring::ring(1 << 16);
        let parts = Parts {
            forwarding: self.forwarding.clone(),
            counters: IfaceCounters::new(),
            hasher: Hasher::new(7),
            rates: Rates::default(),
            to_kernel,
            from_kernel,
            ports: 2,
            remotes: Vec::new(),
            from_workers: Vec::new(),
        };
        router(parts).build(worker).map_err(|error| error.to_string())
    }
}

/// Routes to gateways, or to groups of them; hop ids as the hop table has them.
fn gateways<A: Frames>(routes: &[(Prefix<A>, Hop)], multipath: bool) -> Vec<(Prefix<A>, Hop)> {
    let first = fixed::FIRST_FREE + if multipath { GATEWAYS } else { 0 };
    let hop = |hop: Hop| Hop(first + hop.0 % GATEWAYS);
    // What no route covers is forwarded too: random traffic is to be forwarded.
    let mut all = vec![(Prefix::all(), hop(Hop::NONE))];
    all.extend(routes.iter().filter(|(p, _)| p.len() > 0).map(|(p, h)| (*p, hop(*h))));
    all
}

fn members(group: u32) -> Vec<Hop> {
    (0..MEMBERS).map(|i| Hop(fixed::FIRST_FREE + (group + i * 7) % GATEWAYS)).collect()
}

fn ifaces() -> Ifaces {
    Ifaces::new((0..2).map(|port| Iface {
        name: format!("p{port}"),
        port: PortId(port),
        mac: ROUTER,
        mtu: 1500,
        up: true,
        ..Iface::default()
    }))
}

fn hops(ipv6: bool) -> HopTable {
    let table = HopTable::new(256, 128, 1024);
    let ethertype = if ipv6 { wire::ethernet::IPV6 } else { wire::ethernet::IPV4 };
    for i in 0..GATEWAYS {
        let (hop, id) = (Hop(fixed::FIRST_FREE + i), AdjacencyId(1 + i));
        let port = (i % 2) as u16;
        let out = (IfaceId(port + 1), PortId(port), 1500);
        table.set_adjacency(id, &Adjacency::new(out, ROUTER, mark(hop), Tags::None, ethertype));
        table.set_step(hop, Step::new(Kind::Forward, id.0));
        table.set_group(i, i * MEMBERS, &members(i));
        table.set_step(Hop(hop.0 + GATEWAYS), Step::new(Kind::Multipath, i));
    }
    table
}

/// What was wrong with forwarded packets: the same list for all beds of a run.
pub(super) type Faults = Rc<RefCell<Vec<String>>>;

/// Packets that go round through a router.
pub(super) struct Bed<'t, A: Frames> {
    tables: &'t Tables<A>,
    graph: Graph,
    thread: Thread,
    ring: Ring,
    packets: usize,
    /// Since hop limits were brought back.
    forwarded: u64,
    stamped: bool,
    name: String,
    faults: Faults,
    _pool: Pool,
}

impl<'t, A: Frames> Bed<'t, A> {
    /// A ring of `packets` to `dsts`, over two `mem` ports.
    pub fn new(
        tables: &'t Tables<A>,
        name: &str,
        packets: usize,
        dsts: &[A],
        faults: &Faults,
    ) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let ring = ring(packets, dsts).map_err(said)?;
        let pool = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).map_err(said)?;
        let mut graph = tables.graph(0)?;
        for (number, mut port) in ports(&ring, &pool)?.into_iter().enumerate() {
            port.attach(0);
            graph.ports().set(number as u16, port);
        }
        let thread = tables.domain.register(name);
        Ok(Bed {
            tables,
            graph,
            thread,
            ring,
            packets,
            forwarded: 0,
            stamped: false,
            name: name.into(),
            faults: faults.clone(),
            _pool: pool,
        })
    }

    /// From now on every packet gets the next of these destinations as it comes in.
    pub fn stamp(mut self, dsts: &[A]) -> Result<Self, String> {
        self.ring.set_stamp(Some(A::stamp(dsts))).map_err(|error| error.to_string())?;
        self.stamped = true;
        Ok(self)
    }

    /// Checks where packets went, and brings them back to what they were.
    fn lap_over(&mut self) {
        let (mut seen, mut wrong) = (0, None);
        let (tables, forwarded) = (self.tables, self.forwarded);
        let checked = self.ring.each(|_, frame| {
            seen += 1;
            let (dst, hop) = (A::dst(frame), taken(frame));
            if hop != Hop::NONE && !tables.allows(dst, hop) {
                wrong.get_or_insert((dst, hop));
            }
            A::refresh(frame);
        });
        if let Err(error) = checked {
            self.fault(error.to_string());
        }
        if let Some((dst, hop)) = wrong {
            self.fault(format!("{} left by hop {}", dst.to_ip(), hop.0));
        }
        if seen != self.packets {
            self.fault(format!("{} of {} packets are left after {forwarded}", seen, self.packets));
        }
        self.forwarded = 0;
    }

    fn fault(&self, what: String) {
        let mut faults = self.faults.borrow_mut();
        if faults.len() < MOST_FAULTS {
            faults.push(format!("{}: {what}", self.name));
        }
    }

    /// Polls for about `target`, outside of which hop limits are brought back;
    /// the processor time of the polls.
    fn poll_for(&mut self, target: Duration) -> Duration {
        let mut spent = Duration::ZERO;
        while spent < target {
            if self.forwarded + AT_ONCE >= MOST_LAPS * self.packets as u64 && !self.stamped {
                self.lap_over();
            }
            let (start, mut n) = (clock::thread_time(), 0);
            while n < AT_ONCE {
                let came = self.graph.poll(self.thread.guard());
                self.thread.quiesce();
                n += came as u64;
                if came == 0 {
                    self.fault("no packets come".into());
                    return spent.max(target);
                }
            }
            spent += clock::thread_time() - start;
            self.forwarded += n;
        }
        spent
    }
}

impl<A: Frames> Work for Bed<'_, A> {
    fn slice(&mut self, target: Duration) -> Sample {
        let before = self.graph.stats().snapshot();
        let time = self.poll_for(target);
        let after = self.graph.stats().snapshot();
        let law = after.law;
        if law.given() != law.transmitted || !law.holds() {
            let lost = after.drops.iter().filter(|drop| drop.packets > 0);
            let lost: Vec<_> = lost.map(|d| format!("{}.{}", d.node, d.reason)).collect();
            self.fault(format!("not every packet was forwarded: {law:?} {}", lost.join(" ")));
        }
        self.lap_over();
        let ops = after.law.transmitted - before.law.transmitted;
        let right = self.faults.borrow().is_empty();
        Sample { ops, time, checksum: right.then_some(0), parts: per_node(&before, &after) }
    }
}

/// Nanoseconds a packet of each node that packets went through.
fn per_node(before: &Snapshot, after: &Snapshot) -> Vec<(String, f64)> {
    let nanos = |ticks: u64, packets: u64| {
        ticks as f64 / packets.max(1) as f64 * 1e9 / graph::clock::hz() as f64
    };
    let received = after.receive.packets - before.receive.packets;
    let ticks = after.receive.cycles - before.receive.cycles;
    let mut parts = vec![("receive".to_string(), nanos(ticks, received))];
    let old: BTreeMap<&str, (u64, u64)> =
        before.nodes.iter().map(|node| (node.name, (node.packets, node.cycles))).collect();
    for node in &after.nodes {
        let (packets, ticks) = old.get(node.name).copied().unwrap_or_default();
        if node.packets > packets {
            // A packet of all, not of those that took this way: the parts add up.
            parts.push((node.name.to_string(), nanos(node.cycles - ticks, received)));
        }
    }
    parts
}

/// Receive and transmit, and nothing between: the ports' own cost.
pub(super) struct Shuttle {
    ports: Vec<Box<dyn Port>>,
    burst: Box<io::Burst>,
    _ring: Ring,
    _pool: Pool,
}

impl Shuttle {
    /// Between two `mem` ports with a ring of `packets`; with `stamp`, packets get
    /// fresh destinations as they come in.
    pub fn new<A: Frames>(packets: usize, dsts: &[A], stamp: bool) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let ring = ring(packets, dsts).map_err(said)?;
        if stamp {
            ring.set_stamp(Some(A::stamp(dsts))).map_err(said)?;
        }
        let pool = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).map_err(said)?;
        let mut ports = ports(&ring, &pool)?;
        ports.iter_mut().for_each(|port| port.attach(0));
        Ok(Shuttle { ports, burst: io::Burst::new(), _ring: ring, _pool: pool })
    }
}

impl Work for Shuttle {
    fn slice(&mut self, target: Duration) -> Sample {
        let (start, mut ops, mut time) = (clock::thread_time(), 0, Duration::ZERO);
        while time < target {
            for _ in 0..AT_ONCE / io::BURST as u64 {
                let port = &mut self.ports[(ops & 1) as usize];
                let n = port.receive(&mut self.burst, io::BURST);
                port.transmit(&mut self.burst.pkt[..n]);
                self.burst.n = 0;
                ops += n as u64;
            }
            time = clock::thread_time() - start;
        }
        Sample { ops, time, checksum: Some(0), parts: Vec::new() }
    }
}

fn ring<A: Frames>(packets: usize, dsts: &[A]) -> Result<Ring, io::Error> {
    let config = PoolConfig { packets, ..PoolConfig::default() };
    Ring::new(&config, 1, |number, frame| A::write(dsts[number % dsts.len()], frame))
}

fn ports(ring: &Ring, pool: &Pool) -> Result<Vec<Box<dyn Port>>, String> {
    let mut all = Vec::new();
    for number in 0..2 {
        let rings = std::slice::from_ref(ring);
        let mut device = RingDevice::new(&format!("p{number}"), ROUTER, number, rings, pool);
        all.extend(device.start(1).map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// Packets between two looks at the clock.
const AT_ONCE: u64 = 8192;
const MOST_FAULTS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Rng, Traffic};
    use lookup::lpm::Engines as _;

    fn forwards<A: Frames>(multipath: bool, stamped: bool) {
        let mut rng = Rng::new(3);
        let route = |i: u32| {
            // Unicast on both sides: 16.0.0.0/4 and 1000::/4.
            let first = A::from_u128(rng.wide()).and(A::mask(24)).bits(4, 20);
            let high = u128::from(1_u32 << 28 | first << 8) << (u32::from(A::WIDTH) - 32);
            (Prefix::covering(A::from_u128(high), 8 + (i % 17) as u8), Hop(i))
        };
        let mut routes: Vec<_> = (1..200).map(route).collect();
        routes.sort();
        routes.dedup_by_key(|(prefix, _)| *prefix);
        let dsts = Traffic::Prefix.draw(&routes, 1000, 1);
        let tables = Tables::new(&routes, A::DEFAULT, multipath).unwrap();
        let faults = Faults::default();
        let mut bed = Bed::new(&tables, "bed", 500, &dsts, &faults).unwrap();
        if stamped {
            bed = bed.stamp(&dsts).unwrap();
        }
        for _ in 0..2 {
            let sample = bed.slice(Duration::from_millis(5));
            assert_eq!(*faults.borrow(), Vec::<String>::new());
            assert!(sample.ops >= AT_ONCE && sample.parts.len() >= 5, "{sample:?}");
        }
    }

    #[test]
    fn every_packet_leaves_by_its_next_hop() {
        forwards::<u32>(false, false);
        forwards::<u128>(false, false);
    }

    #[test]
    fn every_packet_leaves_by_a_member_of_its_group() {
        forwards::<u32>(true, false);
        forwards::<u128>(true, false);
    }

    #[test]
    fn fresh_destinations_are_forwarded_too() {
        forwards::<u32>(false, true);
        forwards::<u128>(false, true);
    }

    #[test]
    fn a_wrong_next_hop_is_noticed() {
        let routes = [(Prefix::new(0x1000_0000_u32, 8).unwrap(), Hop(5))];
        let mut tables = Tables::new(&routes, u32::DEFAULT, false).unwrap();
        tables.oracle = Intervals::new([(Prefix::<u32>::all(), Hop(fixed::FIRST_FREE + 9))]);
        let faults = Faults::default();
        let mut bed = Bed::new(&tables, "bed", 500, &[0x1000_0001], &faults).unwrap();
        bed.slice(Duration::from_millis(1));
        assert!(faults.borrow()[0].contains("left by hop"), "{faults:?}");
    }
}
