//! The real thing: control, switch, workers and their graphs, between cables.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use graph::Graph;
use graph::ring::{frames, spsc};
use io::mem::{Peer, connect};
use io::{Device, Owned, Pool, PoolConfig, World as Memory};
use lookup::sync::{Domain, Published, Thread};
use nodes::assembly::{Assembly, Common};
use nodes::out::output::Remote;
use nodes::out::worker_input::Incoming;
use nodes::span::{INSETS, Parts, SOURCE, Side, Spans};
use nodes::switch::Bridging;
use nodes::switch::loops::Loops;
use nodes::{Class, DomainCounters, IfaceCounters, router, span, switch};
use tables::bridge::DomainId;
use tables::macs::Learn;
use tables::oracle::{Interface, table};
use tables::show::FibInfo;
use tables::switch::{Sighting, Switch, Which};
use tables::{Control, Family, FibConfig, Iface, Limits, PortId, VrfConfig, VrfId};
use wire::flow::Hasher;

use super::outcome::{Counts, Out};
use super::plan::{DEVICES, Plan, own_mac};
use super::stations::Key;

/// All of it.
pub struct World {
    pub control: Control,
    pub switch: Switch,
    pub peers: Vec<Peer>,
    pool: Pool,
    workers: Vec<Worker>,
    domain: Arc<Domain>,
    spans: Arc<Published<Spans>>,
    loops: Arc<Loops>,
    names: Vec<String>,
    start: Instant,
    /// Packets that somebody else has.
    away: Vec<Option<Owned>>,
}

struct Worker {
    graph: Graph,
    thread: Thread,
    kernel: frames::Consumer,
    to_router: frames::Producer,
    learnt: spsc::Consumer<Learn>,
    /// What mirrors write, of each side.
    files: [frames::Consumer; 2],
}

impl World {
    /// Built as the daemon builds it, but in one thread.
    pub fn new(plan: &Plan) -> World {
        let domain = Domain::new();
        let mut control: Option<Control> = None;
        for (vrf, engines) in (0..).zip(&plan.vrfs) {
            let fib =
                |engine: &str| FibConfig { engine: Some(engine.into()), ..FibConfig::default() };
            let (v4, v6) = (fib(engines[0]), fib(engines[1]));
            let config = VrfConfig {
                name: format!("v{vrf}"),
                table: table(vrf),
                via_kernel: vrf == 0,
                own_sources: vrf == 0,
                v4,
                v6,
                ..VrfConfig::default()
            };
            match &mut control {
                Some(control) => drop(control.add_vrf(&config).expect("another VRF")),
                None => {
                    control =
                        Some(Control::new(&domain, Limits::default(), &config).expect("engines"))
                }
            }
        }
        let mut control = control.expect("one VRF at least");
        plan.ifaces.iter().for_each(|plan| _ = add_iface(&mut control, plan));
        let own: Vec<_> = (0..plan.bridges.len()).map(own_mac).collect();
        let forwarding = control.forwarding().clone();
        let switch = Switch::new(&forwarding, &domain, plan.bridges.clone(), (DEVICES, &own));
        let mut switch = switch.expect("memory for a small table");
        let start = Instant::now();
        (0..DEVICES).for_each(|port| switch.set_link(port, true));
        let config = PoolConfig { packets: PACKETS, mtu: 2000, large_pages: false };
        let pool = Pool::new(&config).expect("memory for a small pool");
        let spans = Arc::new(Published::new(&domain, Spans::default()));
        control.forwarding().peers.publish(plan.known.peers());
        let loops = Loops::new(DEVICES, [1, 2], None);
        let (peers, workers) = workers(plan, &control, &pool, (&domain, &spans), &loops);
        let names = plan.bridges.iter().map(|bridge| bridge.name.clone()).collect();
        let away = Vec::new();
        World { control, switch, peers, pool, workers, domain, spans, loops, names, start, away }
    }

    /// That time, as the switch is given it.
    pub fn at(&self, now: Duration) -> Instant {
        self.start + now
    }

    /// The kernel sends a frame by an interface of that port.
    pub fn send(&mut self, iface: u16, port: u16, frame: &[u8]) {
        let of = if port < DEVICES { port } else { 0 };
        let worker = usize::from(of) % self.workers.len();
        let meta = frames::Meta { iface, ..frames::Meta::default() };
        assert!(self.workers[worker].to_router.push(meta, &[frame]), "the ring has room");
    }

    /// Makes the tables those of all events so far. Where an engine changes, waits for
    /// the new one.
    pub fn commit(&mut self) {
        self.control.commit();
        let waits = |fib: &FibInfo| fib.switching_to.is_some() && fib.engine != "bsd-radix";
        while self.control.fibs().iter().any(|fib| fib.behind || waits(fib)) {
            self.tick();
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// What control does now and then.
    pub fn tick(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.thread.quiesce());
        self.control.tick();
    }

    /// Polls until nothing comes any more.
    pub fn run(&mut self) -> Vec<Out> {
        loop {
            let polled = self.workers.iter_mut().map(|worker| {
                let packets = worker.graph.poll(worker.thread.guard());
                worker.thread.quiesce();
                packets
            });
            if polled.sum::<usize>() == 0 {
                break;
            }
        }
        self.domain.reclaim();
        let mut outs = Vec::new();
        for (port, peer) in (0..).zip(&self.peers) {
            outs.extend(peer.take().into_iter().map(|frame| Out::Sent(port, frame)));
        }
        for worker in &mut self.workers {
            let mut next = |meta: frames::Meta, frame: &[u8]| {
                outs.push(Out::Punted(meta.iface, 1 << meta.kind, frame.to_vec()));
            };
            while worker.kernel.pop(&mut next).is_some() {}
            let mut next = |meta: frames::Meta, frame: &[u8]| {
                outs.push(Out::Written(meta.info, meta.iface, frame.to_vec()));
            };
            worker.files.iter_mut().for_each(|file| while file.pop(&mut next).is_some() {});
        }
        outs
    }

    /// Makes the mirrors these.
    pub fn mirror(&mut self, spans: Spans) {
        for worker in &mut self.workers {
            for (inset, side) in INSETS.into_iter().zip([Side::In, Side::Out]) {
                assert!(worker.graph.switch(inset, spans.look_at(side)));
            }
            assert!(worker.graph.wake(SOURCE));
        }
        self.spans.publish(spans);
    }

    /// What the workers say that they saw, by worker.
    pub fn learnt(&mut self) -> Vec<(usize, Learn)> {
        let all = self.workers.iter_mut().enumerate();
        all.flat_map(|(i, w)| std::iter::from_fn(|| w.learnt.pop()).map(move |learn| (i, learn)))
            .collect()
    }

    /// By which ports probes came in since the last call.
    pub fn sightings(&mut self) -> Vec<Sighting> {
        self.loops.sightings().collect()
    }

    /// Ports with a loop behind them, and when they are looked at again.
    pub fn looped(&self) -> BTreeMap<u16, Duration> {
        let looped = self.switch.looped();
        looped.iter().map(|of| (of.sighting.port, of.retry - self.start)).collect()
    }

    /// Those of them that are out.
    pub fn out(&self) -> Vec<u16> {
        let looped = self.switch.looped();
        looped.iter().filter(|of| of.out).map(|of| of.sighting.port).collect()
    }

    /// What the bridge thread does with one; whether it asks for more.
    pub fn saw_probe(&mut self, sighting: Sighting, now: Duration) -> bool {
        let asks = self.switch.loop_seen(sighting, self.at(now));
        if asks {
            self.loops.ask(sighting.domain);
        }
        asks
    }

    /// The accounting law of each worker, and no packet but those taken away is out.
    pub fn check(&mut self) {
        for worker in &self.workers {
            let law = worker.graph.stats().balance();
            assert!(law.holds(), "{law:?}");
        }
        let away = self.away.iter().flatten().count();
        assert_eq!(self.pool.available() + away, PACKETS, "a packet is lost");
    }

    /// Transmitted, punted, received from devices, from the kernel; of all workers.
    pub fn totals(&self) -> [u64; 4] {
        let law = self.workers.iter().map(|worker| worker.graph.stats().balance());
        law.fold([0; 4], |[a, b, c, d], law| {
            [a + law.transmitted, b + law.punted, c + law.received, d + law.from_kernel]
        })
    }

    /// Takes packets away so that `left` are left; the last ones come back before.
    pub fn starve(&mut self, left: Option<usize>) {
        self.pool.put(&mut self.away);
        self.away.clear();
        if let Some(left) = left {
            self.away.resize_with(self.pool.available().saturating_sub(left), || None);
            self.pool.get(&mut self.away);
        }
    }

    /// What the MAC table holds.
    pub fn stations(&self) -> HashMap<Key, (u16, bool)> {
        let (all, _) = self.switch.stations(&Which::default(), usize::MAX);
        let entry = |s: &tables::switch::Station| {
            let at = self.lan(DomainId(s.key.domain()))?;
            Some(((at, s.key.octets()), (s.port, s.age.is_none())))
        };
        all.iter().filter_map(entry).collect()
    }

    /// Bridge and VLAN of a forwarding domain.
    pub fn lan(&self, domain: DomainId) -> Option<(usize, u16)> {
        let (name, vlan) = self.switch.name(domain)?;
        Some((self.names.iter().position(|bridge| bridge == name)?, vlan))
    }

    /// The forwarding domain of a bridge's VLAN.
    pub fn domain(&self, (bridge, vlan): (usize, u16)) -> Option<DomainId> {
        self.switch.domain(self.names.get(bridge)?, vlan)
    }

    /// Adds what the counters say was reached.
    pub fn count(&self, counts: &mut Counts) {
        for worker in &self.workers {
            let snapshot = worker.graph.stats().snapshot();
            for drop in snapshot.drops {
                *counts.entry(format!("{}.{}", drop.node, drop.reason)).or_default() +=
                    drop.packets;
            }
            *counts.entry("handed over".into()).or_default() += snapshot.law.handed_over;
        }
        for fib in self.control.fibs() {
            let taken = fib.switched.is_some_and(|(_, how)| how.is_ok());
            *counts.entry("engine changed".into()).or_default() += u64::from(taken);
            *counts.entry("table built anew".into()).or_default() += fib.rebuilds;
        }
    }

    /// Begins to change an engine; it may be busy, or know none of this name.
    pub fn set_engine(&mut self, vrf: u16, six: bool, name: &str) {
        let family = if six { Family::V6 } else { Family::V4 };
        let _ = self.control.set_engine(VrfId(vrf), family, name, Default::default());
    }
}

/// Adds an interface as planned; returns its number.
pub fn add_iface(control: &mut Control, plan: &Interface) -> u16 {
    let iface = Iface {
        name: plan.name.clone(),
        port: PortId(plan.port),
        tags: plan.tags,
        vrf: VrfId(plan.vrf),
        ..Iface::default()
    };
    control.add_iface(iface).expect("no other has its frames").0
}

fn workers(
    plan: &Plan,
    control: &Control,
    pool: &Pool,
    (domain, spans): (&Arc<Domain>, &Arc<Published<Spans>>),
    loops: &Arc<Loops>,
) -> (Vec<Peer>, Vec<Worker>) {
    let count = plan.workers;
    let ports =
        |worker: usize| (0..DEVICES).filter(move |port| usize::from(*port) % count == worker);
    let (mut remotes, mut incoming): (Vec<_>, Vec<_>) =
        (0..count).map(|_| (Vec::new(), Vec::new())).unzip();
    for (from, remotes) in remotes.iter_mut().enumerate() {
        for to in (0..count).filter(|to| *to != from) {
            let (ring, other) = spsc::ring(1024);
            let ports = ports(to).map(|port| (port, Memory::Own)).collect();
            remotes.push(Remote { ring, copies: None, ports, bell: None });
            incoming[to].push(Incoming { ring: other, copies: None });
        }
    }
    let mut peers: Vec<Option<Peer>> = (0..DEVICES).map(|_| None).collect();
    let mut workers = Vec::new();
    for (worker, (remotes, from_workers)) in remotes.into_iter().zip(incoming).enumerate() {
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let (to_router, from_kernel) = frames::ring(1 << 18);
        let (learn, learnt) = spsc::ring(1024);
        let bridging = Bridging {
            bridges: plan.bridges.len() as u16,
            workers: count as u32,
            domains: DomainCounters::new(),
            learn,
            loops: loops.clone(),
        };
        let common = Common {
            forwarding: control.forwarding().clone(),
            counters: IfaceCounters::new(),
            hasher: Hasher::new(1),
            rates: plan.rates(),
            to_kernel,
            from_kernel,
            ports: DEVICES,
            remotes,
            from_workers,
        };
        let ((file_in, written_in), (file_out, written_out)) =
            (frames::ring(1 << 18), frames::ring(1 << 10));
        let (spans, files) = (spans.clone(), [file_in, file_out]);
        let parts = Parts { spans, counters: Arc::default(), files };
        let assembly = router::add(switch::add(Assembly::new(common), bridging));
        let assembly = router::check_sources(assembly);
        let graph = span::add(assembly, parts).finish().build(worker);
        let mut graph = graph.expect("the nodes fit together");
        for port in ports(worker) {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 1, port as u8], pool);
            let mut queue = device.start(1).expect("one queue").remove(0);
            queue.attach(worker);
            graph.ports().set(port, queue);
            peers[usize::from(port)] = Some(peer);
        }
        let thread = domain.register("worker");
        let files = [written_in, written_out];
        workers.push(Worker { graph, thread, kernel, to_router, learnt, files });
    }
    (peers.into_iter().flatten().collect(), workers)
}

/// The class in a punted frame's record.
pub fn class_name(code: u16) -> &'static str {
    Class::from_code(code).name()
}

/// More than the frames of a step can take, copies and all.
const PACKETS: usize = 2048;
