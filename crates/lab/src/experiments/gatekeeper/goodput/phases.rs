//! The worker's life, and one phase after the other.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use io::{Pool, PoolConfig};
use lookup::exact::flow::FlowKey;
use nodes::gatekeeper::flows::Heard;
use nodes::gatekeeper::machine::Machine;
use nodes::gatekeeper::programs::Programs;
use nodes::gatekeeper::shield::Shield;
use nodes::gatekeeper::times::Times;
use wire::ggu::Verdict;

use super::super::generator::{destination, known};
use super::super::site::{Links, Rings, Site, Worker};
use super::marks::{self, Counts, Mark};
use super::net::{self, BACK_MAC, CLIENT_MAC, FRONT_MAC, GRANTOR_MAC, Net, client, connect};
use super::queue::{DECLINED, FULL, Flood, Queue};
use super::traffic::{Stream, serve, tcp, udp};
use crate::{Context, Error, Row, clock};

/// What the phases reach into.
struct Run<'a> {
    net: &'a Net,
    flood: Arc<Flood>,
    stop: AtomicBool,
    /// Whoever was waited for last is there.
    ready: AtomicBool,
    /// Time-stamp ticks that it took to receive.
    receive: AtomicU64,
    /// The same in polls that took so long that the queue runs over meanwhile.
    stalled: AtomicU64,
    /// Flows that the table may hold: of the size that there was memory for.
    places: AtomicU64,
    /// Flows that it holds, of a thousand that it may.
    filled: AtomicU64,
    /// What the worker has dropped, by name, and its verdicts.
    counts: Mutex<Counts>,
    /// Frames that its ports' sockets had no room for.
    missed: AtomicU64,
    /// Frames that the stand-in, and what is behind it, could not take.
    lost_behind: AtomicU64,
    /// The worker's thread, zero before there is one.
    worker: AtomicU32,
    /// Why something ended that should not have.
    wrong: Mutex<Vec<String>>,
}

/// All phases.
pub(super) fn measure(context: &mut Context) -> Result<Vec<Row>, Error> {
    let missing = |what| Error::Missing { experiment: "gatekeeper/goodput", what };
    let wrong = |what| Error::Wrong { experiment: "gatekeeper/goodput", what };
    if clock::cores().len() < 2 {
        return Err(missing("two cores".into()));
    }
    let new_clients = context.pick(200, 20);
    let net = Net::new(new_clients + FIRST_NEW).map_err(missing)?;
    let links = Links {
        ours: [FRONT_MAC, BACK_MAC],
        grantor: GRANTOR_MAC,
        clients: (2..new_clients + FIRST_NEW).map(|n| client(n).octets()).collect(),
        client: CLIENT_MAC,
    };
    let site = Site::between(1, BITS, &links).map_err(wrong)?;
    let run = Run {
        net: &net,
        flood: Arc::default(),
        stop: AtomicBool::new(false),
        ready: AtomicBool::new(false),
        receive: AtomicU64::new(0),
        stalled: AtomicU64::new(0),
        places: AtomicU64::new(0),
        filled: AtomicU64::new(0),
        counts: Mutex::default(),
        missed: AtomicU64::new(0),
        lost_behind: AtomicU64::new(0),
        worker: AtomicU32::new(0),
        wrong: Default::default(),
    };
    // In a smaller one a request would not be remembered until its client sends it again.
    let most = context.pick(26, 24);
    // Before who else is on the machine; the worker is before them.
    let usual = rustix::process::getpriority_process(None).unwrap_or(0);
    let of_session = session_nice();
    let _ = rustix::process::setpriority_process(None, OTHERS);
    set_session_nice(FIRST);
    let found = thread::scope(|scope| {
        scope.spawn(|| run.watch(|| work(&run, &site, most)));
        // All but the worker are on this core, whoever starts them.
        clock::pin(clock::cores()[0]);
        scope.spawn(|| run.watch(|| net::stand_in(&net, grant, (&run.lost_behind, &run.stop))));
        let rows = run.phases(scope, context, new_clients);
        run.stop.store(true, Relaxed);
        rows
    });
    let _ = rustix::process::setpriority_process(None, usual);
    of_session.into_iter().for_each(set_session_nice);
    let reasons = run.wrong.into_inner().unwrap_or_default();
    match reasons.first() {
        Some(reason) => Err(wrong(reason.clone())),
        None => found.map_err(wrong),
    }
}

impl Run<'_> {
    /// Notes why `life` ended, if it says.
    fn watch(&self, life: impl FnOnce() -> Result<(), String>) {
        if let Err(reason) = life() {
            eprintln!("gatekeeper/goodput: {reason}");
            self.stop.store(true, Relaxed);
            if let Ok(mut wrong) = self.wrong.lock() {
                wrong.push(reason);
            }
        }
    }

    /// Until the worker, or the server, is there.
    fn wait(&self) {
        while !self.ready.load(Relaxed) && !self.stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn phases<'s>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        context: &mut Context,
        new_clients: u8,
    ) -> Result<Vec<Row>, String> {
        self.wait();
        context.say("gatekeeper/goodput: the table is there, its capacity is measured");
        let window = Duration::from_millis(context.pick(6_000, 1_500));
        let mut rows = Vec::new();
        let alone = self.capacity("alone", (window / 2, window / 2), &mut rows);
        let streams: Vec<_> = GRANTS.map(|(_, port, _)| (port, Arc::<Stream>::default())).into();
        let (packets, served) = (Arc::<Stream>::default(), streams.clone());
        self.ready.store(false, Relaxed);
        let life = move || serve(self.net, &served, (&self.ready, &self.stop));
        scope.spawn(move || self.watch(life));
        self.wait();
        for ((n, _, mbps), (port, stream)) in GRANTS.into_iter().zip(streams.clone()) {
            let rate = budget(mbps) * 0.8 * TCP_PAYLOAD;
            let life = move || tcp(self.net, (client(n), port), rate, (&stream, &self.stop));
            scope.spawn(move || self.watch(life));
        }
        let (len, of_udp) = (UDP_LEN, packets.clone());
        let rate = budget(UDP_GRANT) * 0.9 / (len + 42) as f64;
        let life = move || udp(self.net, (client(UDP), 9), (rate, len), (&of_udp, &self.stop));
        scope.spawn(move || self.watch(life));
        thread::sleep(Duration::from_secs(context.pick(3, 2)));
        let mut phase = |(name, capacity): (&str, f64), per_s: u64, declined: bool| {
            eprintln!("gatekeeper/goodput: {name}");
            self.flood.declined.store(declined, Relaxed);
            self.flood.per_s.store(per_s, Relaxed);
            thread::sleep(window / 3);
            self.phase(name, (window, capacity), (&streams, &packets), &mut rows);
        };
        phase(("quiet", alone), 0, false);
        // Clients' frames are the dear ones here: each costs the worker the kernel's sockets. What
        // the worker takes is what it takes beside them.
        let mut found = Vec::new();
        // In the end as many flows go as come: that costs, too.
        let settle = Duration::from_millis(context.pick(9_500, 1_500));
        let capacity = self.capacity("capacity", (settle, window / 2), &mut found);
        let most = (capacity * 0.8) as u64;
        phase(("flood", capacity), most, false);
        eprintln!("gatekeeper/goodput: clients");
        found.push(self.clients(new_clients));
        phase(("declined", capacity), most, true);
        self.flood.per_s.store(0, Relaxed);
        rows.extend(found);
        Ok(rows)
    }

    /// Frames a second that the worker takes, of the flood and, where there are some, of clients.
    fn capacity(
        &self,
        phase: &str,
        (settle, window): (Duration, Duration),
        rows: &mut Vec<Row>,
    ) -> f64 {
        self.flood.declined.store(false, Relaxed);
        self.flood.per_s.store(FULL, Relaxed);
        thread::sleep(settle);
        let found = marks::window(window, || self.mark(&[], &Stream::default()));
        self.flood.per_s.store(0, Relaxed);
        let rate = found.per_s("given");
        let row = Row::new([("phase", phase.to_string())]);
        let row = row.with("rate_mpps", rate * 1e-6);
        let row = row.with("receive_percent", found.percent("receive"));
        let row = row.with("generator_percent", found.percent("making"));
        let row = row.with("generator_ns", found.percent("making") * 1e7 / rate);
        let row = row.with("clients_per_s", found.per_s("clients"));
        rows.push(found.beside(row.with("lost_clients_per_s", found.per_s("lost_clients"))));
        rate
    }

    fn phase(
        &self,
        name: &str,
        (window, capacity): (Duration, f64),
        (streams, packets): (&[(u16, Arc<Stream>)], &Stream),
        rows: &mut Vec<Row>,
    ) {
        let found = marks::window(window, || self.mark(streams, packets));
        for ((port, _), (_, _, mbps)) in streams.iter().zip(&GRANTS) {
            let row = Row::new([
                ("phase", name.to_string()),
                ("kind", "tcp".to_string()),
                ("grant_mbps", mbps.to_string()),
            ]);
            rows.push(row.with("goodput_mbps", found.per_s(&format!("tcp {port}")) * 8e-6));
        }
        let row = |kind: &str| Row::new([("phase", name.to_string()), ("kind", kind.to_string())]);
        let sent = found.of("udp sent");
        let lost = (1.0 - found.of("udp came") / sent.max(1.0)) * 100.0;
        // A few packets are on their way at either end.
        rows.push(row("udp").with("lost_percent", lost.max(0.0)).with("sent", sent));
        let (given, lost) = (found.of("given"), found.of("lost"));
        let offered = found.per_s("given") + found.per_s("lost");
        let row = row("flood").with("rate_mpps", found.per_s("given") * 1e-6);
        let row = row.with("offered_mpps", offered * 1e-6);
        let row = row.with("generator_percent", found.percent("making"));
        let row = row.with("stalled_percent", found.percent("stalled"));
        let row = row.with("capacity_percent", offered / capacity * 100.0);
        let row = row.with("lost_percent", lost / (given + lost).max(1.0) * 100.0);
        let row = self.counts().keys().fold(row, |row, name| match found.per_s(name) {
            none if none <= 0.0 => row,
            per_s => row.with(format!("{name}_per_s"), per_s),
        });
        let whole = ["missed_by_sockets", "lost_behind", "lost_in_backlogs"];
        let whole = whole.iter().chain(&["clients", "lost_clients"]);
        let row = whole.fold(row, |row, name| row.with(*name, found.of(name)));
        let row = row.with("places", self.places.load(Relaxed) as f64);
        let filled = self.filled.load(Relaxed) as f64 / 10.0;
        rows.push(found.beside(row.with("filled_percent", filled)));
    }

    /// What has been counted so far, of these TCP streams by port, and of UDP.
    fn mark(&self, streams: &[(u16, Arc<Stream>)], packets: &Stream) -> Mark {
        let flood = &self.flood;
        let counters = [
            ("given", &flood.given),
            ("lost", &flood.lost),
            ("clients", &flood.clients),
            ("lost_clients", &flood.lost_clients),
            ("making", &flood.making),
            ("receive", &self.receive),
            ("stalled", &self.stalled),
            // None of these is of the worker: what its ports' sockets had no room for, and the
            // bench behind it.
            ("missed_by_sockets", &self.missed),
            ("lost_behind", &self.lost_behind),
            ("udp sent", &packets.sent),
            ("udp came", &packets.came),
        ];
        let counters = counters.map(|(name, counter)| (name.to_string(), counter.load(Relaxed)));
        let streams = streams.iter().map(|(port, s)| (format!("tcp {port}"), s.came.load(Relaxed)));
        let mut counts: Counts = counters.into_iter().chain(streams).chain(self.counts()).collect();
        // The kernel's, between them.
        counts.insert("lost_in_backlogs".to_string(), net::lost_in_backlogs());
        let taken = clock::taken(self.worker.load(Relaxed), last_core());
        Mark::new(taken, counts)
    }

    /// Notes what the worker has counted so far.
    fn look(&self, worker: &mut Worker) {
        let snapshot = worker.graph.stats().snapshot();
        self.receive.store(snapshot.receive.cycles, Relaxed);
        let drops = snapshot.drops.iter().filter(|drop| drop.packets > 0);
        let drops = drops.map(|drop| (format!("{}.{}", drop.node, drop.reason), drop.packets));
        let all = &worker.counters.all;
        let verdicts =
            [("requests", &all.requests), ("granted", &all.granted), ("declined", &all.declined)];
        let verdicts = verdicts.map(|(name, count)| (name.to_string(), count.get()));
        let counts = drops.chain(verdicts).collect();
        self.counts.lock().map(|mut all| *all = counts).unwrap_or(());
        let flows = worker.graph.node_mut::<Shield>().ok().and_then(Shield::flows);
        let Some(held) = flows.map(|flows| flows.table().capacity()) else { return };
        let places = held.max_entries as u64;
        self.places.store(places, Relaxed);
        self.filled.store(held.entries as u64 * 1_000 / places.max(1), Relaxed);
    }

    fn counts(&self) -> Counts {
        self.counts.lock().map(|counts| counts.clone()).unwrap_or_default()
    }

    /// New clients, one after the other, within two seconds.
    fn clients(&self, n: u8) -> Row {
        let times = std::sync::Mutex::new(Vec::new());
        thread::scope(|scope| {
            for i in 0..n {
                let (times, from) = (&times, client(FIRST_NEW + i));
                scope.spawn(move || {
                    if self.net.enter_clients().is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_secs(2) * u32::from(i) / u32::from(n));
                    let took = connect(from, GRANTS[0].1).map(|(_, took)| took);
                    let took = took.unwrap_or(Duration::from_secs(1_000));
                    times.lock().map(|mut times| times.push(took.as_secs_f64())).unwrap_or(());
                });
            }
        });
        let mut times = times.into_inner().unwrap_or_default();
        times.resize(n.into(), 1_000.0); // who did not come to it
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        let row = Row::new([("phase", "clients".to_string()), ("kind", "new".to_string())]);
        let row = row.with("median_s", at(0.5)).with("p95_s", at(0.95)).with("worst_s", at(1.0));
        row.with("clients", f64::from(n))
    }
}

/// The worker's life.
fn work(run: &Run<'_>, site: &Site, most: u32) -> Result<(), String> {
    run.net.enter_gatekeeper()?;
    let config = PoolConfig { packets: 16_384, ..PoolConfig::default() };
    let pool = Pool::new(&config).map_err(|error| error.to_string())?;
    let (front_device, front) = net::port("g0", &pool)?;
    let (back_device, back) = net::port("g1", &pool)?;
    let front = Box::new(Queue::new(front, FRONT_MAC, &run.flood));
    let mut ports: Option<Vec<Box<dyn io::Port>>> = Some(vec![front, back]);
    // The largest table that there is memory for; decisions are few.
    let mut worker = (20..=most).rev().find_map(|bits| {
        let rings = Site::rings(1).pop().unwrap_or_else(Rings::none);
        let made = site.worker((0, rings), (1 << bits, PERCENT), Vec::new());
        made.inspect_err(|reason| eprintln!("gatekeeper/goodput: 2^{bits}: {reason}")).ok()
    });
    let worker = worker.as_mut().ok_or("no memory for a table")?;
    for (number, port) in ports.take().into_iter().flatten().enumerate() {
        worker.graph.ports().set(number as u16, port);
    }
    clock::pin(last_core());
    run.worker.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Relaxed);
    // 1,024 places are filled within some hundred microseconds: nobody else is to have the core
    // for as long. Who may not ask for it is among the others.
    let _ = rustix::process::setpriority_process(None, FIRST);
    let mut thread = site.domain.register("gatekeeper");
    let (programs, times) = (Programs::default(), Times::new(graph::clock::rate()));
    let machine = Machine { times: &times, programs: &programs };
    let declined = machine.decision(&Verdict::Declined { expire_s: 3_600 }, graph::clock::now());
    let decided = declined.map_err(|_| "a decision is refused")?;
    let mut left = (0..DECLINED).map(known).peekable();
    let (mut rounds, mut then) = (0_u64, graph::clock::now());
    while !run.stop.load(Relaxed) {
        while let Some(&source) = left.peek() {
            let key = FlowKey::v4(source, destination(source));
            if worker.heard.push(Heard { key, set: site.set, decided }).is_err() {
                break;
            }
            left.next();
        }
        worker.graph.poll(thread.guard());
        thread.quiesce();
        let now = graph::clock::now();
        let took = now.saturating_sub(std::mem::replace(&mut then, now));
        if took > graph::clock::hz() / STALLS {
            run.stalled.fetch_add(took, Relaxed);
        }
        rounds += 1;
        if rounds == 1 {
            run.ready.store(true, Relaxed);
        }
        if rounds.is_multiple_of(1_024) {
            let missed = [&front_device, &back_device].map(|device| device.counters().rx_missed);
            run.missed.store(missed.iter().sum(), Relaxed);
            run.look(worker);
        }
    }
    while worker.graph.drain(thread.guard()) > 0 {
        thread.quiesce();
    }
    Ok(())
}

/// The worker's.
fn last_core() -> usize {
    clock::cores().last().copied().unwrap_or(0)
}

/// The nice value of this session, where the kernel shares cores among sessions and not among
/// all threads (`sched_autogroup_enabled`): `/autogroup-7 nice 0`.
fn session_nice() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/self/autogroup").ok()?;
    text.rsplit(' ').next()?.trim().parse().ok()
}

/// Does nothing where the kernel does not know of sessions, or this process may not.
fn set_session_nice(nice: i32) {
    let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
}

/// What clients are granted: those of [`GRANTS`] theirs, others 10 Mbit/s.
fn grant(source: Ipv4Addr) -> Verdict {
    let mbps = GRANTS.iter().find(|(n, _, _)| client(*n) == source).map_or(10, |grant| grant.2);
    Verdict::Granted {
        rate_kib: (budget(mbps) / 1024.0) as u32,
        expire_s: 300,
        next_renewal_ms: 200_000,
        renewal_step_ms: 10_000,
    }
}

/// Bytes a second of a grant.
fn budget(mbps: u32) -> f64 {
    (f64::from(mbps) * 1e6 / 8.0 / 1024.0).floor() * 1024.0
}

/// Clients with a TCP connection: address, port, megabits a second of their grants.
const GRANTS: [(u8, u16, u32); 3] = [(2, 5_001, 1), (3, 5_002, 10), (4, 5_003, 100)];
/// The one with UDP, its grant, and bytes of a packet's payload.
const UDP: u8 = 5;
const UDP_GRANT: u32 = 10;
const UDP_LEN: usize = 1_000;
const FIRST_NEW: u8 = 6;
/// Of a frame of 1,414 bytes 1,348 are payload.
const TCP_PAYLOAD: f64 = 1_348.0 / 1_414.0;
/// Bits a second of the back: the grants fit, and the kernel's way to the stand-in, some
/// microseconds a frame in the worker's time, is not most of what the flood costs.
const BITS: u64 = 200_000_000;
/// A poll that takes longer than this part of a second: 200 µs.
const STALLS: u64 = 5_000;
/// The nice value of a worker, and of all others.
const FIRST: i32 = -20;
const OTHERS: i32 = -5;
/// Of the table, for decided flows.
const PERCENT: u8 = 5;
