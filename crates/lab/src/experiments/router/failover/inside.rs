//! The data plane alone: control's tables on one core, a worker's graph between `mem`
//! ports on the other.
//!
//! ```text
//!  packets of all prefixes ─► p2 ─► graph ─┬─► p0, which loses its carrier
//!  in turn, for ever                       └─► p1
//! ```
//!
//! The ports note how many packets they were given, and when the last. Traffic has moved
//! when a packet to every prefix has left by `p1`, and none otherwise, since the last that
//! did not: that last packet's time is the figure. (The first packet of each prefix on `p1`
//! says how often each prefix has one, which at a million is once in a tenth of a second.)

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use graph::ring::frames as frame_ring;
use io::mem::{Ring, RingDevice};
use io::{Burst, Device, Owned, Pool, PoolConfig, Port};
use lookup::sync::Domain;
use lookup::{Hop, Prefix};
use nodes::assembly::Common;
use nodes::switch::Bridging;
use tables::control::{MAIN_TABLE, VrfConfig};
use tables::event::Target;
use tables::{Control, Family, Forwarding, Iface, IfaceId, Limits, PortId};

use super::super::frames::{Frames, LEN, ROUTER, stamp};
use super::Kind;
use super::events::{PORTS, link, neighbours, objects, path, route};
use crate::clock;
use crate::data::Rng;

/// What one loss of the carrier was like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// Until the last packet that did not leave by the other port.
    pub(super) moved: Duration,
    /// Until the first that did.
    pub(super) first: Duration,
    /// Of control's thread.
    pub(super) control: Duration,
    /// Packets given to the port without carrier, dropped or punted.
    pub(super) lost: u64,
}

/// How routes followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    /// Since the carrier was lost.
    pub(super) since: Duration,
    /// Of that, control was at it.
    pub(super) took: Duration,
    /// The longest step, behind which the next loss would wait.
    pub(super) step: Duration,
    /// Changes made to the forwarding table.
    pub(super) changes: u64,
}

/// What flaps did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flaps {
    pub(super) changes: u64,
    pub(super) lost: u64,
    pub(super) packets: u64,
}

/// A router with two ways out, and a worker that forwards on another core.
pub(super) struct Router {
    control: Control,
    seen: Arc<Seen>,
    lost: IfaceId,
    /// Packets until each prefix has had one.
    lap: u64,
    worker: Option<thread::JoinHandle<Result<(), String>>>,
}

/// What the worker notes; times in nanoseconds since `epoch`.
struct Seen {
    epoch: Instant,
    received: AtomicU64,
    /// Given to `p0`.
    lost: Way,
    /// Given to `p1`.
    other: Way,
    /// Given to none.
    kept: Way,
    stop: AtomicBool,
}

/// Packets that went one way.
#[derive(Default)]
struct Way {
    packets: AtomicU64,
    last: AtomicU64,
    /// Since this was 0.
    first: AtomicU64,
}

impl Way {
    fn note(&self, packets: u64, now: u64) {
        self.packets.store(self.packets.load(Relaxed) + packets, Relaxed);
        self.last.store(now, Relaxed);
        if self.first.load(Relaxed) == 0 {
            self.first.store(now, Relaxed);
        }
    }
}

impl Seen {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Packets that did not leave by the other port.
    fn strays(&self) -> u64 {
        self.lost.packets.load(Relaxed) + self.kept.packets.load(Relaxed)
    }

    fn last_stray(&self) -> u64 {
        self.lost.last.load(Relaxed).max(self.kept.last.load(Relaxed))
    }
}

impl Router {
    /// With `routes`, each as `kind` has it.
    pub(super) fn new(kind: Kind, routes: &[(Prefix<u32>, Hop)]) -> Result<Router, String> {
        let said = |error: tables::Error| error.to_string();
        let domain = Domain::new();
        let control = Control::new(&domain, Limits::default(), &VrfConfig::default());
        let mut control = control.map_err(said)?;
        let mut ids = Vec::new();
        for port in 0..PORTS {
            let iface = Iface { name: format!("p{port}"), port: PortId(port), ..Iface::default() };
            ids.push(control.add_iface(iface).map_err(said)?);
        }
        control.handle(&(0..PORTS).map(link).collect::<Vec<_>>());
        control.handle(&neighbours(kind));
        control.handle(&objects(kind));
        if kind == Kind::Only {
            control.handle(&[route(Prefix::all(), 10, Target::Path(path(1, 0)))]);
        }
        for some in routes.chunks(BATCH) {
            control.handle(&some.iter().flat_map(|route| kind.events(route)).collect::<Vec<_>>());
        }
        let vrf = control.vrf_by_table(MAIN_TABLE).ok_or("no main table")?;
        let in_table = |control: &Control| {
            let info = control.fib_info(vrf, Family::V4)?;
            Some(!info.behind && info.prefixes as usize >= routes.len())
        };
        let begun = Instant::now();
        while in_table(&control) != Some(true) {
            control.tick();
            if begun.elapsed() > PATIENCE {
                return Err(format!("not all routes are in the table after {PATIENCE:?}"));
            }
        }
        let seen = Arc::new(Seen {
            epoch: Instant::now(),
            received: AtomicU64::new(0),
            lost: Way::default(),
            other: Way::default(),
            kept: Way::default(),
            stop: AtomicBool::new(false),
        });
        let (dsts, theirs) = (destinations(routes), seen.clone());
        let forwarding = control.forwarding().clone();
        let lap = (dsts.len() + RING) as u64;
        let worker = thread::spawn(move || work(&forwarding, &domain, &dsts, &theirs));
        let mut router = Router { control, seen, lost: ids[0], lap, worker: Some(worker) };
        router.begin(kind)?;
        Ok(router)
    }

    /// Waits until packets go the way that they should before anything is lost.
    fn begin(&mut self, kind: Kind) -> Result<(), String> {
        let begun = Instant::now();
        while self.seen.received.load(Acquire) < 2 * self.lap {
            if begun.elapsed() > PATIENCE || self.is_over() {
                return Err(self.end().err().unwrap_or_else(|| "no packets come".into()));
            }
            self.serve(Duration::from_millis(1));
        }
        let before = [&self.seen.lost, &self.seen.other, &self.seen.kept]
            .map(|way| way.packets.load(Relaxed));
        self.wait_lap(true);
        let after = [&self.seen.lost, &self.seen.other, &self.seen.kept]
            .map(|way| way.packets.load(Relaxed));
        let went: Vec<_> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        let right = match kind {
            Kind::Ecmp | Kind::Objects => went[0] > 0 && went[1] > 0 && went[2] == 0,
            _ => went[0] > 0 && went[1] == 0 && went[2] == 0,
        };
        let wrong = || format!("{kind}: by p0, p1 and not at all: {went:?}");
        if right { Ok(()) } else { Err(wrong()) }
    }

    /// How many of `what` are in use, as `show capacity` has them, and were refused.
    pub(super) fn used(&self, what: &str) -> (u64, u64) {
        let capacity = self.control.capacity();
        let found = capacity.iter().find(|capacity| capacity.what == what);
        found.map_or((0, 0), |capacity| (capacity.used, capacity.refused))
    }

    /// `p0` loses its carrier, and everything moves: at once, or, with `follow`, once control
    /// has gone through the routes.
    pub(super) fn lose(&mut self, follow: bool) -> Result<(Loss, Option<Followed>), String> {
        self.wait_turn();
        let changes = self.control.counters().changes;
        self.seen.other.first.store(0, Relaxed);
        let (strays, begun) = (self.seen.strays(), self.seen.now());
        self.control.set_carrier(self.lost, false);
        let done = self.seen.now();
        let followed = if follow { Some(self.follow(begun, changes)?) } else { None };
        let patience = Instant::now();
        loop {
            let before = self.seen.strays();
            // Control does nothing meanwhile: its first look at routes would come later than
            // all this is to take (see `tables::pace`), and the next loss find it in between.
            self.wait_lap(false);
            if self.seen.strays() == before {
                break;
            }
            if patience.elapsed() > PATIENCE || self.is_over() {
                return Err(format!("packets have not moved after {PATIENCE:?}"));
            }
        }
        let since = |time: u64| Duration::from_nanos(time.saturating_sub(begun));
        let loss = Loss {
            moved: since(self.seen.last_stray()),
            first: since(self.seen.other.first.load(Relaxed)),
            control: since(done),
            lost: self.seen.strays() - strays,
        };
        Ok((loss, followed))
    }

    /// Until the worker is seen to forward: what has no core loses no packet.
    fn wait_turn(&self) {
        let before = self.seen.received.load(Acquire);
        while self.seen.received.load(Acquire) == before && !self.is_over() {
            std::hint::spin_loop();
        }
    }

    /// `p0` has its carrier again.
    pub(super) fn restore(&mut self) {
        self.control.set_carrier(self.lost, true);
        self.wait_lap(false);
    }

    /// Loses and restores the carrier `n` times, each for `PAUSE`.
    pub(super) fn flap(&mut self, n: usize) -> Flaps {
        let count = |seen: &Seen| seen.received.load(Acquire);
        let (changes, packets) = (self.control.counters().changes, count(&self.seen));
        let mut lost = 0;
        for _ in 0..n {
            let before = self.seen.strays();
            self.control.set_carrier(self.lost, false);
            self.serve(PAUSE);
            lost += self.seen.strays() - before;
            self.control.set_carrier(self.lost, true);
            self.serve(PAUSE);
        }
        let changes = self.control.counters().changes - changes;
        Flaps { changes, lost, packets: count(&self.seen) - packets }
    }

    /// Lets routes follow a carrier lost at `begun`.
    fn follow(&mut self, begun: u64, changes: u64) -> Result<Followed, String> {
        let now = |seen: &Seen| Duration::from_nanos(seen.now() - begun);
        let at_once = now(&self.seen);
        let (mut at_it, mut step) = (None, Duration::ZERO);
        loop {
            let (pause, since) = (self.control.pause(), now(&self.seen));
            let changes = || self.control.counters().changes - changes;
            match at_it {
                // Due, or under way.
                None if pause.is_zero() => at_it = Some(since),
                // Few routes have followed already.
                None if since > QUIET => {
                    let (since, took, step) = (at_once, at_once, at_once);
                    return Ok(Followed { since, took, step, changes: changes() });
                }
                Some(start) if !pause.is_zero() => {
                    return Ok(Followed { since, took: since - start, step, changes: changes() });
                }
                _ if since > PATIENCE => {
                    return Err(format!("routes have not followed after {PATIENCE:?}"));
                }
                _ => {}
            }
            thread::sleep(pause.min(NAP));
            let start = Instant::now();
            self.control.tick();
            step = step.max(start.elapsed());
        }
    }

    /// Ends the worker.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.seen.stop.store(true, Relaxed);
        let ended = self.worker.take().map(thread::JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err("the worker panicked".into()))
    }

    fn is_over(&self) -> bool {
        self.worker.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }

    /// Until every prefix has had a packet; control does meanwhile what is due.
    fn wait_lap(&mut self, serving: bool) {
        let until = self.seen.received.load(Acquire) + self.lap;
        while self.seen.received.load(Acquire) < until && !self.is_over() {
            if serving { self.serve(NAP) } else { thread::sleep(NAP) }
        }
    }

    /// Does what is due for so long, as the daemon's control thread does.
    fn serve(&mut self, long: Duration) {
        let until = Instant::now() + long;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let pause = self.control.pause();
            thread::sleep(pause.min(left));
            if pause > left {
                return;
            }
            self.control.tick();
            if left.is_zero() {
                return;
            }
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.end(); // whoever wanted its words has asked for them
    }
}

/// The worker's life.
fn work(
    forwarding: &Arc<Forwarding>,
    domain: &Arc<Domain>,
    dsts: &[u32],
    seen: &Arc<Seen>,
) -> Result<(), String> {
    clock::cores().last().map(|&core| clock::pin(core));
    let said = |error: io::Error| error.to_string();
    let config = PoolConfig { packets: RING, ..PoolConfig::default() };
    let ring = Ring::new(&config, 1, |_, frame| u32::write(dsts[0], frame)).map_err(said)?;
    let frame = |dst: &u32| {
        let mut frame = [0; LEN];
        u32::write(*dst, &mut frame);
        wire::bytes::array::<34>(&frame, 0)
    };
    ring.set_stamp(Some(stamp::<34>(dsts.iter().map(frame).collect(), 0))).map_err(said)?;
    let pool = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).map_err(said)?;
    let (to_kernel, _kernel) = frame_ring::ring(1 << 16);
    let (_, from_kernel) = frame_ring::ring(1 << 16);
    let common = Common::alone(forwarding.clone(), (to_kernel, from_kernel), PORTS);
    let graph = nodes::router_and_switch(common, Bridging::none()).build(0);
    let mut graph = graph.map_err(|error| error.to_string())?;
    let mut devices = Vec::new();
    for number in 0..PORTS {
        let name = format!("m{number}");
        let rings = std::slice::from_ref(&ring);
        let mut device = RingDevice::new(&name, ROUTER, number, rings, &pool);
        for mut port in device.start(1).map_err(said)? {
            port.attach(0);
            graph.ports().set(number, Box::new(Watched { port, number, seen: seen.clone() }));
        }
        devices.push(device);
    }
    let mut thread = domain.register("lab worker");
    let gone = |seen: &Seen| seen.lost.packets.load(Relaxed) + seen.other.packets.load(Relaxed);
    while !seen.stop.load(Relaxed) {
        let before = gone(seen);
        let came = graph.poll(thread.guard()) as u64;
        let kept = came.saturating_sub(gone(seen) - before);
        if kept > 0 {
            seen.kept.note(kept, seen.now());
        }
        thread.quiesce();
        // Behind all that this poll's packets had to note.
        seen.received.store(seen.received.load(Relaxed) + came, Release);
    }
    Ok(())
}

/// A port that notes what it is given; packets come by the last one alone.
struct Watched {
    port: Box<dyn Port>,
    number: u16,
    seen: Arc<Seen>,
}

impl Port for Watched {
    io::around_port!(self.port: rest);

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        if self.number + 1 == PORTS { self.port.receive(burst, most) } else { 0 }
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        let n = self.port.transmit(packets);
        let way = if self.number == 0 { &self.seen.lost } else { &self.seen.other };
        way.note(n as u64, self.seen.now());
        n
    }
}

/// An address of each prefix, in any order.
fn destinations(routes: &[(Prefix<u32>, Hop)]) -> Vec<u32> {
    let mut rng = Rng::new(1);
    let inside = |(prefix, _): &(Prefix<u32>, Hop)| {
        prefix.first() | (rng.next() as u32 & prefix.host_mask())
    };
    let mut dsts: Vec<u32> = routes.iter().map(inside).collect();
    rng.shuffle(&mut dsts);
    dsts
}

const RING: usize = 4096;
const BATCH: usize = 1000;
/// Between the changes of a flapping link.
const PAUSE: Duration = Duration::from_millis(2);
/// Longer than links have to be quiet the first time.
const QUIET: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    /// More routes than follow at once.
    #[test]
    fn every_kind_moves_and_flaps_change_nothing() {
        let table = Table::load("internet:6000").unwrap();
        for kind in [Kind::Second, Kind::Ecmp, Kind::Objects] {
            let mut router = Router::new(kind, &table.ipv4).unwrap();
            let (loss, _) = router.lose(false).unwrap();
            assert!(loss.moved < PATIENCE, "{kind}: {loss:?}");
            router.restore();
            assert_eq!(router.flap(3).changes, 0, "{kind}");
            let (_, followed) = router.lose(true).unwrap();
            assert_eq!(followed.unwrap().changes, 0, "{kind}");
            router.end().unwrap();
        }
        let mut router = Router::new(Kind::Only, &table.ipv4).unwrap();
        let (loss, followed) = router.lose(true).unwrap();
        // Not `moved`: the worker may have had no core just before its packets took another way.
        assert!(loss.first >= Duration::from_millis(100), "once the link is quiet: {loss:?}");
        assert_eq!(followed.unwrap().changes, 6000);
        router.end().unwrap();
    }
}
