//! A router's tables and graphs on the bench, without the daemon.

use std::sync::Arc;

use graph::Graph;
use graph::ring::frames as frame_ring;
use lookup::lpm::{Intervals, Options, Writer};
use lookup::rib::Change;
use lookup::sync::{Domain, Thread};
use lookup::{Hop, Prefix, Rib};
use nodes::assembly::Common;
use nodes::switch::Bridging;
use tables::hops::fixed;
use tables::{
    Adjacency, AdjacencyId, Forwarding, HopTable, Iface, IfaceId, Ifaces, Kind, PortId, Step, Tags,
};

use super::frames::{Frames, ROUTER, mark};

/// The tables of a router with two ports and [`GATEWAYS`] next hops, as workers
/// read them, and what is right.
pub(in crate::experiments) struct Tables<A: Frames> {
    domain: Arc<Domain>,
    forwarding: Arc<Forwarding>,
    oracle: Intervals<A>,
    multipath: bool,
    isa: &'static str,
}

/// The side that changes the table: it may go to another thread.
pub(in crate::experiments) struct Updater<A: Frames> {
    pub rib: Rib<A>,
    writer: Box<dyn Writer<A>>,
}

impl<A: Frames> Tables<A> {
    /// Builds the engine called `engine` from `routes`, whose hops are folded
    /// to the gateways, and publishes it; with `multipath` every route leads to
    /// a group of gateways.
    pub fn new(
        routes: &[(Prefix<A>, Hop)],
        engine: &str,
        multipath: bool,
    ) -> Result<(Self, Updater<A>), String> {
        let routes = gateways(routes, multipath);
        let rib: Rib<A> = routes.iter().copied().collect();
        let domain = Domain::new();
        let entry = A::engine(engine).ok_or_else(|| format!("no engine `{engine}`"))?;
        let writer = (entry.build)(&rib, &Options::default(), &domain);
        let writer = writer.map_err(|refusal| refusal.to_string())?;
        let forwarding = Forwarding::new(&domain);
        forwarding.ifaces.publish(ifaces());
        forwarding.hops.publish(Arc::new(hops(A::WIDTH == 128)));
        let reader = domain.register("lab setup");
        let mut vrfs = forwarding.vrfs.load(reader.guard()).clone();
        drop(reader);
        vrfs.iter_mut().for_each(|vrf| A::install(vrf, writer.table()));
        forwarding.vrfs.publish(vrfs);
        let (oracle, isa) = (Intervals::new(routes), writer.table().isa());
        Ok((Tables { domain, forwarding, oracle, multipath, isa }, Updater { rib, writer }))
    }

    /// The instruction set of the engine's lookups in bursts.
    pub fn isa(&self) -> &'static str {
        self.isa
    }

    /// Registers the calling thread as one that reads the tables.
    pub fn register(&self, name: &str) -> Thread {
        self.domain.register(name)
    }

    /// Drops what no reader can hold any more.
    pub fn reclaim(&self) {
        self.domain.reclaim();
    }

    /// True when a packet to `dst` may leave by `hop`.
    pub fn allows(&self, dst: A, hop: Hop) -> bool {
        let want = self.oracle.lookup(dst);
        if !self.multipath {
            return hop == want;
        }
        members(want.0 - fixed::FIRST_FREE - GATEWAYS).contains(&hop)
    }

    /// A worker's graph without ports.
    pub fn graph(&self, worker: usize) -> Result<Graph, String> {
        nodes::router_and_switch(self.common(), Bridging::none())
            .build(worker)
            .map_err(|error| error.to_string())
    }

    /// What the nodes of a worker share: other graphs than a router's have it, too.
    pub fn common(&self) -> Common {
        let (to_kernel, _) = frame_ring::ring(1 << 16);
        let (_, from_kernel) = frame_ring::ring(1 << 16);
        Common::alone(self.forwarding.clone(), (to_kernel, from_kernel), 2)
    }

    /// Whose readers workers are.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    #[cfg(test)]
    pub fn expect_other(&mut self, oracle: Intervals<A>) {
        self.oracle = oracle;
    }
}

impl<A: Frames> Updater<A> {
    /// Makes changes in the store of routes and in the table.
    pub fn apply(&mut self, changes: &[Change<A>]) -> Result<(), String> {
        changes.iter().for_each(|change| {
            self.rib.apply(change);
        });
        let applied = self.writer.apply(&self.rib, changes);
        applied.map(|_| ()).map_err(|refusal| refusal.to_string())
    }
}

/// Routes to gateways, or to groups of them; hop ids as the hop table has them.
pub(super) fn gateways<A: Frames>(
    routes: &[(Prefix<A>, Hop)],
    multipath: bool,
) -> Vec<(Prefix<A>, Hop)> {
    let first = fixed::FIRST_FREE + if multipath { GATEWAYS } else { 0 };
    let hop = |hop: Hop| Hop(first + hop.0 % GATEWAYS);
    // What no route covers is forwarded too: so is all random traffic.
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

/// Next hops of a bench router.
const GATEWAYS: u32 = 64;

/// Members of each multipath group.
const MEMBERS: u32 = 4;
