//! Workers of one machine that is Gatekeeper and Grantor, whose policy the test is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use graph::ring::{frames, spsc};
use graph::{Graph, Snapshot, clock};
use io::mem::{Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::exact::flow::{Wanted, engine};
use lookup::lpm::Options;
use lookup::sync::{Domain, Published, Thread};
use policy::ask::{Asker, Full, Question, Verdict};
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Action, Control, Iface, LOCAL, Limits, PortId, Protect, Side, VrfConfig, VrfId};
use wire::ggu;

use crate::assembly::{Assembly, Common};
use crate::gatekeeper::flows::{Flows, Heard};
use crate::gatekeeper::mix::Mix;
use crate::gatekeeper::programs::Programs;
use crate::gatekeeper::solicit::DECISION;
use crate::gatekeeper::solicitor::{CAPACITY, Channel};
use crate::gatekeeper::{self, settings as shield};
use crate::grantor::nets::Nets;
use crate::grantor::{self, settings as granting};
use crate::parse::owner::Owners;
use crate::switch::Bridging;
use crate::testbed::{P0, P1};
use crate::{router, switch};

/// The router to what is protected.
pub(super) const INSIDE: [u8; 6] = [4, 0, 0, 0, 0, 9];
/// That to clients.
pub(super) const CLIENTS: [u8; 6] = [4, 0, 0, 0, 0, 1];
pub(super) const V4: &str = "10.20.0.1";
pub(super) const V6: &str = "2001:db8:20::1";

pub(super) struct Rig {
    pub(super) seats: Vec<Seat>,
    pub(super) control: Control,
    pub(super) owners: Arc<Owners>,
    pub(super) policy: Policy,
    pub(super) thread: Thread,
    pool: Pool,
}

/// One worker, and the other ends of all that goes in and out.
pub(super) struct Seat {
    pub(super) graph: Graph,
    pub(super) front: Peer,
    pub(super) back: Peer,
    pub(super) kernel: frames::Consumer,
    pub(super) shield: Arc<shield::Counters>,
    pub(super) settings: Arc<Published<shield::Settings>>,
    pub(super) programs: Arc<Published<Programs>>,
    pub(super) grantor: Arc<granting::Counters>,
    _to_router: frames::Producer,
}

/// What is asked, and what is said to it.
#[derive(Clone, Default)]
pub(super) struct Policy(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    /// Whether packets go on, and what is decided; `None`: nothing is said.
    pub(super) says: Option<(bool, Option<ggu::Verdict>)>,
    /// Priority and IP protocol of what was asked, and the packet from its inner header on.
    pub(super) asked: Vec<(u8, u8, Vec<u8>)>,
    /// Whether Gatekeepers ask, by wrapped packets.
    pub(super) wrapped: bool,
    answers: VecDeque<Verdict>,
}

impl Policy {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn asked(&self) -> usize {
        self.lock().asked.len()
    }
}

impl Asker for Policy {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        let state = &mut *self.0.lock().unwrap();
        let facts = question.facts;
        assert_eq!(facts.outer_l3 != facts.inner_l3, state.wrapped, "a header around it");
        let packet = question.bytes[usize::from(facts.inner_l3)..].to_vec();
        state.asked.push((facts.priority, facts.l4_proto, packet));
        if let Some((forward, decision)) = state.says {
            state.answers.push_back(Verdict { id: question.id, forward, decision });
        }
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let state = &mut *self.0.lock().unwrap();
        let n = most.min(state.answers.len());
        state.answers.drain(..n).for_each(take);
        n
    }

    fn flush(&mut self) {}
}

/// Five minutes, to be asked for again after so many milliseconds.
pub(super) fn grant(next_renewal_ms: u32) -> Option<(bool, Option<ggu::Verdict>)> {
    let renewal_step_ms = 3_600_000;
    let granted =
        ggu::Verdict::Granted { rate_kib: 1_024, expire_s: 300, next_renewal_ms, renewal_step_ms };
    Some((true, Some(granted)))
}

pub(super) const DECLINE: Option<(bool, Option<ggu::Verdict>)> =
    Some((false, Some(ggu::Verdict::Declined { expire_s: 60 })));

fn address(link: u32, text: &str) -> Event {
    let (ip, len) = text.split_once('/').unwrap();
    let (ip, len) = (ip.parse().unwrap(), len.parse().unwrap());
    Event::Address(Address { link: LinkId(link), ip, len })
}

fn route(net: &str, link: u32, via: Option<&str>) -> Event {
    let via = via.map(|via| via.parse().unwrap());
    let path = Path { link: LinkId(link), via, weight: 1, mtu: 0 };
    let route = Route {
        table: VrfConfig::default().table,
        net: net.parse().unwrap(),
        metric: 0,
        protocol: 4,
        source: Source::Kernel,
        target: Target::Path(path),
    };
    Event::Route(route, How::Create)
}

pub(super) fn inside(ip: &str, state: NeighbourState) -> Event {
    let (link, ip, mac) = (LinkId(2), ip.parse().unwrap(), Some(INSIDE));
    Event::Neighbour(Neighbour { link, ip, mac, state })
}

fn control(domain: &Arc<Domain>) -> Control {
    let mut control = Control::new(domain, Limits::default(), &VrfConfig::default()).unwrap();
    let mut events = Vec::new();
    for (i, mac) in [P0, P1].into_iter().enumerate() {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        let side = if i == 0 { Side::Front } else { Side::Back };
        let iface = Iface { name: name.clone(), port, mac, mtu: 1500, side, ..Iface::default() };
        control.add_iface(iface).unwrap();
        let index = LinkId(i as u32 + 1);
        events.push(Event::Link(Link { index, name, up: true, mtu: 1500, mac, ..Link::default() }));
    }
    control.handle(&events);
    let client = Neighbour {
        link: LinkId(1),
        ip: "10.0.0.9".parse().unwrap(),
        mac: Some(CLIENTS),
        state: NeighbourState::Reachable,
    };
    control.handle(&[
        address(1, "10.0.0.1/24"),
        address(1, "2001:db8:1::1/64"),
        address(2, "10.0.2.1/24"),
        address(2, "2001:db8:2::1/64"),
        route("10.0.0.0/24", 1, None),
        route("10.0.2.0/24", 2, None),
        route("2001:db8:2::/64", 2, None),
        route("198.51.100.0/24", 1, Some("10.0.0.9")),
        route("10.20.0.0/16", 2, Some("10.0.2.9")),
        route("2001:db8:20::/48", 2, Some("2001:db8:2::9")),
        inside("10.0.2.9", NeighbourState::Reachable),
        inside("2001:db8:2::9", NeighbourState::Reachable),
        Event::Neighbour(client),
    ]);
    for net in ["10.20.0.0/16", "2001:db8:20::/48"] {
        control.protect(VrfId(0), &decided_here(net, 0)).unwrap();
    }
    control.commit();
    control
}

/// This machine at the back.
pub(super) fn shield_settings() -> shield::Settings {
    let v4 = Some([10, 0, 2, 1].into());
    let from = shield::Ends { v4, ..shield::Settings::default().from };
    shield::Settings { from, ..shield::Settings::default() }
}

/// It is a Grantor, too, for Gatekeepers that have the addresses of its clients.
fn granting_settings() -> granting::Settings {
    let nets =
        |nets: &[(&str, u8)]| Nets::new(nets.iter().map(|(net, len)| (net.parse().unwrap(), *len)));
    granting::Settings {
        gatekeepers: nets(&[("198.51.100.7", 32), ("2001:db8:9::7", 128)]),
        serves: nets(&[("10.20.0.0", 16), ("2001:db8:20::", 48)]),
        ..granting::Settings::default()
    }
}

/// A protection without a Grantor.
pub(super) fn decided_here(net: &str, options: u32) -> Protect {
    let (net, options) = (net.parse().unwrap(), options | LOCAL);
    Protect { net, action: Action::Protect, options, grantors: Vec::new() }
}

impl Rig {
    /// One worker, which may make a million decisions a second.
    pub(super) fn new(says: Option<(bool, Option<ggu::Verdict>)>) -> Rig {
        Rig::with(says, 1, 1_000_000)
    }

    pub(super) fn with(
        says: Option<(bool, Option<ggu::Verdict>)>,
        workers: usize,
        decisions_per_s: u64,
    ) -> Rig {
        let domain = Domain::new();
        let control = control(&domain);
        let pool = Pool::new(&PoolConfig { packets: 4096, mtu: 9000, large_pages: false }).unwrap();
        let owners = Arc::new(Owners::new(5, workers as u16));
        let policy = Policy::default();
        policy.lock().says = says;
        let away = Channel::new(1_000, workers, clock::now());
        let here = Channel::new(decisions_per_s * DECISION, workers, clock::now());
        let (hears, heard) = rings(workers);
        let (makes, made) = rings(workers);
        let rings = hears.into_iter().zip(heard).zip(makes.into_iter().zip(made)).enumerate();
        let seats = rings.map(|(worker, ((hears, mut heard), (makes, made)))| {
            heard.extend(made);
            let counters = shield::Counters::new(16);
            let settings = Arc::new(Published::new(&domain, shield_settings()));
            let wanted = Wanted { entries: 1 << 12, second: clock::hz() };
            let table = (engine("flow-table").unwrap().build)(wanted, &Options::default());
            let parts = gatekeeper::Parts {
                settings,
                counters: counters.clone(),
                mix: Mix::new(1),
                flows: Some(Flows::new(table.unwrap(), false)),
                heard,
                hears,
                programs: Arc::new(Published::new(&domain, Programs::default())),
                capacity: CAPACITY,
                member: away.member(worker),
                here: Some(gatekeeper::Here { member: here.member(worker), hears: makes }),
            };
            let granting = granting::Counters::new();
            let asks = grantor::Parts {
                settings: Arc::new(Published::new(&domain, granting_settings())),
                counters: granting.clone(),
                asker: Some(Box::new(policy.clone())),
                fragments: 0,
                capacity: 1 << 10,
            };
            seat(&control, &pool, owners.clone(), (parts, counters), (asks, granting))
        });
        let seats = seats.collect();
        let thread = domain.register("rig");
        Rig { seats, control, owners, policy, thread, pool }
    }

    /// What leaves at the back of the first worker once `frames` came in at its front.
    pub(super) fn send(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.send_to(0, frames)
    }

    pub(super) fn send_to(&mut self, worker: usize, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for frames in frames.chunks(64) {
            frames.iter().for_each(|frame| self.seats[worker].front.push(frame));
            self.run();
        }
        self.seats[worker].back.take()
    }

    /// A frame at the front of a worker, which the next poll finds.
    pub(super) fn push(&mut self, worker: usize, frame: &[u8]) {
        self.seats[worker].front.push(frame);
    }

    /// One poll of each worker at this time.
    pub(super) fn poll_at(&mut self, now: u64) {
        for seat in &mut self.seats {
            // With a frame for another machine: an idle graph does not tick at once.
            seat.front.push(&[&CLIENTS[..], &INSIDE, &[8, 0], &[0; 50]].concat());
            seat.graph.poll_at(now, self.thread.guard());
            self.thread.quiesce();
        }
    }

    /// Some polls of all workers; nothing goes to the kernel.
    pub(super) fn run(&mut self) -> Snapshot {
        let counts = self.work();
        let quiet = |seat: &mut Seat| seat.kernel.is_empty();
        assert!(self.seats.iter_mut().all(quiet), "nothing that is protected goes to the kernel");
        counts
    }

    pub(super) fn work(&mut self) -> Snapshot {
        for _ in 0..20 {
            for seat in &mut self.seats {
                seat.graph.poll(self.thread.guard());
                self.thread.quiesce();
            }
        }
        let mut held = 0;
        for seat in &mut self.seats {
            let law = seat.graph.stats().snapshot().law;
            assert!(law.holds(), "{law:?}");
            held += law.held;
        }
        assert_eq!(self.pool.available() as u64 + held, self.pool.size() as u64);
        self.seats[0].graph.stats().snapshot()
    }

    pub(super) fn dropped(&mut self, node: &str, why: &str) -> u64 {
        self.run().dropped(node, why)
    }
}

impl Drop for Rig {
    /// What waits goes back to its pool.
    fn drop(&mut self) {
        for seat in &mut self.seats {
            while !std::thread::panicking() && seat.graph.drain(self.thread.guard()) > 0 {
                self.thread.quiesce();
            }
        }
    }
}

type Rings = (Vec<Vec<spsc::Producer<Heard>>>, Vec<Vec<spsc::Consumer<Heard>>>);

fn rings(workers: usize) -> Rings {
    let mut hears: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    let mut heard: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for from in &mut hears {
        for to in &mut heard {
            let (producer, consumer) = spsc::ring(1 << 9);
            from.push(producer);
            to.push(consumer);
        }
    }
    (hears, heard)
}

fn seat(
    control: &Control,
    pool: &Pool,
    owners: Arc<Owners>,
    (parts, shield): (gatekeeper::Parts, Arc<shield::Counters>),
    (asks, grantor): (grantor::Parts, Arc<granting::Counters>),
) -> Seat {
    let (to_kernel, kernel) = frames::ring(1 << 20);
    let (_to_router, from_kernel) = frames::ring(1 << 16);
    let common = Common::alone(control.forwarding().clone(), (to_kernel, from_kernel), 2);
    let assembly = Assembly::new(common).owned(Some(owners));
    let assembly = router::add(switch::add(assembly, Bridging::none()));
    let (settings, programs) = (parts.settings.clone(), parts.programs.clone());
    let assembly = gatekeeper::add(assembly, parts);
    let assembly = router::shield(assembly, false, gatekeeper::ENTRY);
    let assembly = grantor::add(assembly, asks, Some("ip4_special"));
    let assembly = router::tunnels(assembly, (false, true), grantor::ENTRY);
    let mut graph = assembly.finish().build(0).unwrap();
    let mut peers = Vec::new();
    for port in 0..2 {
        let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], pool);
        graph.ports().set(port, device.start(1).unwrap().remove(0));
        peers.push(peer);
    }
    let (back, front) = (peers.pop().unwrap(), peers.pop().unwrap());
    Seat { graph, front, back, kernel, shield, settings, programs, grantor, _to_router }
}
