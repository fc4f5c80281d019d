//! A Grantor's worker; the test is its policy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use graph::ring::frames;
use graph::{Graph, Snapshot, clock};
use io::mem::{Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::sync::{Domain, Published, Thread};
use policy::ask::{Asker, Facts, Full, Matter, Question, Verdict};
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Control, Iface, Limits, PortId, VrfConfig};
use wire::checksum;
use wire::ggu::{Decision, Message, Ports};

use super::super::nets::Nets;
use super::super::settings::{Counters, Settings};
use super::super::{ENTRY, Parts, add};
use crate::assembly::{Assembly, Common};
use crate::switch::Bridging;
use crate::testbed::{P0, P1};
use crate::{router, switch};

/// A Gatekeeper's address.
pub(super) const GATEKEEPER: [u8; 6] = [4, 0, 0, 0, 0, 1];
/// The address of the router to the served networks.
pub(super) const SERVED: [u8; 6] = [4, 0, 0, 0, 0, 9];

pub(super) struct Rig {
    pub(super) graph: Graph,
    /// The port towards Gatekeepers.
    pub(super) back: Peer,
    /// The port towards the served networks.
    pub(super) inside: Peer,
    pub(super) kernel: frames::Consumer,
    pub(super) control: Control,
    pub(super) thread: Thread,
    pub(super) pool: Pool,
    pub(super) counters: Arc<Counters>,
    pub(super) settings: Arc<Published<Settings>>,
    pub(super) policy: Policy,
    /// The rig's clock, in ticks: a busy machine cannot make anything late.
    pub(super) now: u64,
    _to_router: frames::Producer,
}

/// The policy's state, shared by both of its ends.
#[derive(Clone, Default)]
pub(super) struct Policy(Arc<Mutex<State>>);

pub(super) struct State {
    /// Questions that it takes before it is full.
    pub(super) room: usize,
    /// The most answers that it gives in one poll.
    pub(super) pace: usize,
    /// It grants everything, and records no questions.
    pub(super) quiet: bool,
    /// It answers at once.
    pub(super) decide: fn(&Asked) -> Option<Verdict>,
    pub(super) asked: Vec<Asked>,
    pub(super) answers: VecDeque<Verdict>,
    pub(super) flushes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: u32,
    pub(super) matter: Matter,
    pub(super) facts: Facts,
    pub(super) bytes: Vec<u8>,
}

impl Default for State {
    fn default() -> Self {
        let (asked, answers) = (Vec::with_capacity(1 << 12), VecDeque::with_capacity(1 << 12));
        State {
            room: usize::MAX,
            pace: usize::MAX,
            quiet: false,
            decide: |_| None,
            asked,
            answers,
            flushes: 0,
        }
    }
}

impl Policy {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Asker for Policy {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        let state = &mut *self.0.lock().unwrap();
        if state.asked.len() >= state.room {
            return Err(Full);
        }
        let Question { id, matter, facts, bytes } = *question;
        if state.quiet {
            state.answers.push_back(Verdict { id, forward: true, decision: Some(GRANTED) });
            return Ok(());
        }
        let asked = Asked { id, matter, facts, bytes: bytes.to_vec() };
        state.answers.extend((state.decide)(&asked));
        state.asked.push(asked);
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let state = &mut *self.0.lock().unwrap();
        let n = most.min(state.answers.len()).min(state.pace);
        state.answers.drain(..n).for_each(take);
        n
    }

    fn flush(&mut self) {
        self.0.lock().unwrap().flushes += 1;
    }
}

/// Grants everything for 300 seconds to every source.
pub(super) fn grant(asked: &Asked) -> Option<Verdict> {
    Some(Verdict { id: asked.id, forward: true, decision: Some(GRANTED) })
}

/// Declines everything for a minute.
pub(super) fn decline(asked: &Asked) -> Option<Verdict> {
    Some(Verdict { id: asked.id, forward: false, decision: Some(DECLINED) })
}

pub(super) const GRANTED: wire::ggu::Verdict = wire::ggu::Verdict::Granted {
    rate_kib: 1_024,
    expire_s: 300,
    next_renewal_ms: 240_000,
    renewal_step_ms: 3_000,
};
pub(super) const DECLINED: wire::ggu::Verdict = wire::ggu::Verdict::Declined { expire_s: 60 };

/// The highest priority of a packet that was shed; 0: none was.
pub fn highest_shed(counters: &Counters) -> u64 {
    let of = counters.shed_of.all();
    let highest = of.iter().rposition(|count| count.get() > 0);
    assert_eq!(of.iter().map(|count| count.get()).sum::<u64>(), counters.shed.get());
    highest.unwrap_or(0) as u64
}

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

pub(super) fn neighbour(link: u32, ip: &str, mac: [u8; 6], state: NeighbourState) -> Event {
    let (link, ip, mac) = (LinkId(link), ip.parse().unwrap(), Some(mac));
    Event::Neighbour(Neighbour { link, ip, mac, state })
}

fn control(domain: &Arc<Domain>) -> Control {
    let mut control = Control::new(domain, Limits::default(), &VrfConfig::default()).unwrap();
    let mut events = Vec::new();
    for (i, mac) in [P0, P1].into_iter().enumerate() {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        let iface = Iface { name: name.clone(), port, mac, mtu: 1500, ..Iface::default() };
        control.add_iface(iface).unwrap();
        let index = LinkId(i as u32 + 1);
        events.push(Event::Link(Link { index, name, up: true, mtu: 1500, mac, ..Link::default() }));
    }
    control.handle(&events);
    control.handle(&[
        address(1, "10.0.2.9/24"),
        address(1, "2001:db8:2::9/64"),
        address(2, "10.0.3.1/24"),
        address(2, "2001:db8:3::1/64"),
        route("10.0.2.0/24", 1, None),
        route("2001:db8:2::/64", 1, None),
        route("10.0.3.0/24", 2, None),
        route("2001:db8:3::/64", 2, None),
        route("10.20.0.0/16", 2, Some("10.0.3.9")),
        route("10.21.0.0/16", 2, Some("10.0.3.9")),
        route("2001:db8:20::/48", 2, Some("2001:db8:3::9")),
        route("10.0.1.0/24", 1, Some("10.0.2.1")),
        neighbour(1, "10.0.2.1", GATEKEEPER, NeighbourState::Reachable),
        neighbour(1, "2001:db8:2::1", GATEKEEPER, NeighbourState::Reachable),
        neighbour(2, "10.0.3.9", SERVED, NeighbourState::Reachable),
        neighbour(2, "2001:db8:3::9", SERVED, NeighbourState::Reachable),
    ]);
    control.commit();
    control
}

/// Settings of the rigs.
pub(super) fn settings() -> Settings {
    let nets = |all: &[&str]| {
        Nets::new(all.iter().map(|text| {
            let (ip, len) = text.split_once('/').unwrap();
            (ip.parse().unwrap(), len.parse().unwrap())
        }))
    };
    let gatekeepers = nets(&["10.0.1.0/24", "10.0.2.1/32", "2001:db8:2::1/128"]);
    let serves = nets(&["10.20.0.0/16", "2001:db8:20::/48"]);
    Settings { gatekeepers, serves, limit_ms: 60_000, ..Settings::default() }
}

impl Rig {
    /// A rig whose policy gives these answers.
    pub(super) fn new(decide: fn(&Asked) -> Option<Verdict>) -> Rig {
        Rig::with(decide, 1 << 10, settings())
    }

    /// A rig in which this many packets may wait.
    pub(super) fn with(
        decide: fn(&Asked) -> Option<Verdict>,
        capacity: usize,
        settings: Settings,
    ) -> Rig {
        Rig::gathering(decide, (capacity, 0), settings)
    }

    /// A rig in which this many fragments may wait as well.
    pub(super) fn gathering(
        decide: fn(&Asked) -> Option<Verdict>,
        (capacity, fragments): (usize, usize),
        settings: Settings,
    ) -> Rig {
        let pool = Pool::new(&PoolConfig { packets: 4096, mtu: 9000, large_pages: false }).unwrap();
        Rig::of(pool, Some(decide), (capacity, fragments), settings)
    }

    /// A rig with packets of this pool; without a policy it asks the policy of the rig before it.
    pub(super) fn of(
        pool: Pool,
        decide: Option<fn(&Asked) -> Option<Verdict>>,
        (capacity, fragments): (usize, usize),
        settings: Settings,
    ) -> Rig {
        let domain = Domain::new();
        let control = control(&domain);
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let (_to_router, from_kernel) = frames::ring(1 << 16);
        let common = Common::alone(control.forwarding().clone(), (to_kernel, from_kernel), 2);
        let counters = Counters::new();
        let settings = Arc::new(Published::new(&domain, settings));
        let policy = Policy::default();
        policy.lock().decide = decide.unwrap_or(|_| None);
        let parts = Parts {
            settings: settings.clone(),
            counters: counters.clone(),
            asker: decide.map(|_| Box::new(policy.clone()) as Box<dyn Asker>),
            capacity,
            fragments,
        };
        let assembly = router::add(switch::add(Assembly::new(common), Bridging::none()));
        let assembly = router::tunnels(add(assembly, parts, None), (false, false), ENTRY);
        let mut graph = assembly.finish().build(0).unwrap();
        let mut peers = Vec::new();
        for port in 0..2 {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], &pool);
            graph.ports().set(port, device.start(1).unwrap().remove(0));
            peers.push(peer);
        }
        let (inside, back) = (peers.pop().unwrap(), peers.pop().unwrap());
        let thread = domain.register("rig");
        Rig {
            graph,
            back,
            inside,
            kernel,
            control,
            thread,
            pool,
            counters,
            settings,
            policy,
            now: clock::now(),
            _to_router,
        }
    }

    /// The packets that are forwarded once `frames` came from a Gatekeeper.
    pub(super) fn send(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for frames in frames.chunks(64) {
            frames.iter().for_each(|frame| self.back.push(frame));
            self.run();
        }
        self.inside.take()
    }

    /// Runs some polls.
    pub(super) fn run(&mut self) -> Snapshot {
        (0..20).for_each(|_| self.poll());
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        assert_eq!(self.pool.available() as u64 + counts.law.held, self.pool.size() as u64);
        counts
    }

    /// Runs one poll, 10 µs after the one before. Whatever it asks, it wakes the policy once at most.
    pub(super) fn poll(&mut self) {
        self.later(Duration::from_micros(10));
        let before = self.policy.lock().flushes;
        self.graph.poll_at(self.now, self.thread.guard());
        self.thread.quiesce();
        assert!(self.policy.lock().flushes - before <= 1, "flushes of a poll");
    }

    /// Lets this much time pass.
    pub(super) fn later(&mut self, time: Duration) {
        self.now += clock::ticks(time);
    }

    pub(super) fn dropped(&mut self, node: &str, why: &str) -> u64 {
        self.run().dropped(node, why)
    }

    pub(super) fn held(&mut self) -> u64 {
        self.run().law.held
    }

    /// Moves the Gatekeepers' packets to another VRF.
    pub(super) fn leave_vrf(&mut self) {
        let config = VrfConfig { name: "blue".into(), table: 10, ..VrfConfig::default() };
        self.control.add_vrf(&config).unwrap();
        let (index, table) = (LinkId(9), Some(10));
        let device = Link { index, name: "blue".into(), vrf_table: table, ..Link::default() };
        let (up, master) = (true, Some(index));
        let (index, name) = (LinkId(1), "p0".into());
        let below = Link { index, name, up, mtu: 1500, mac: P0, master, ..Link::default() };
        self.control.handle(&[Event::Link(device), Event::Link(below)]);
        self.control.commit();
    }

    /// Sets the policy's answer from now on.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.load(self.thread.guard()).clone();
        change(&mut settings);
        self.settings.publish(settings);
    }

    /// The decisions in the messages that left for Gatekeepers, with the ends of each message.
    pub(super) fn decisions(&mut self) -> Vec<(String, Vec<Decision>)> {
        self.run();
        let frames = self.back.take();
        frames.iter().map(|frame| message(frame)).collect()
    }
}

impl Drop for Rig {
    /// Returns waiting packets to their pool.
    fn drop(&mut self) {
        while !std::thread::panicking() && self.graph.drain(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
    }
}

/// The ends and decisions of a message.
pub(super) fn message(frame: &[u8]) -> (String, Vec<Decision>) {
    let mut to = None;
    let ours = |ip| {
        to = Some(ip);
        true
    };
    let message = Message::receive(&frame[14..], Ports::default(), ours).unwrap();
    let decisions = message.decisions().map(Result::unwrap).collect();
    (format!("{} > {}", message.from, to.unwrap()), decisions)
}

/// `inner` behind a link header and an outer IPv4 header, from a Gatekeeper, with this type of service.
pub(super) fn in_v4_from(from: [u8; 4], tos: u8, inner: &[u8]) -> Vec<u8> {
    let len = inner.len() as u16 + 20;
    let mut outer = [0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, 4, 0, 0, 0, 0, 0, 0, 10, 0, 2, 9];
    outer[2..4].copy_from_slice(&len.to_be_bytes());
    outer[12..16].copy_from_slice(&from);
    let sum = checksum::checksum(&outer).to_be_bytes();
    outer[10..12].copy_from_slice(&sum);
    [&P0[..], &GATEKEEPER, &[8, 0], &outer, inner].concat()
}

/// The same with a DSCP.
pub(super) fn in_v4(dscp: u8, inner: &[u8]) -> Vec<u8> {
    in_v4_from([10, 0, 2, 1], dscp << 2, inner)
}

/// The same for IPv6, with this traffic class.
pub(super) fn in_v6(dscp: u8, ecn: u8, inner: &[u8]) -> Vec<u8> {
    let len = (inner.len() as u16).to_be_bytes();
    let class = (0x6000_u16 | u16::from(dscp << 2 | ecn) << 4).to_be_bytes();
    let ends = ["2001:db8:2::1", "2001:db8:2::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>());
    let [from, to] = ends.map(|ip| ip.unwrap().octets());
    let head = [class[0], class[1], 0, 0, len[0], len[1], 41, 255];
    [&P0[..], &GATEKEEPER, &[0x86, 0xdd], &head, &from, &to, inner].concat()
}

/// `packet` as it leaves for a served network.
pub(super) fn inside(packet: &[u8]) -> Vec<u8> {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&SERVED[..], &P1, &ethertype, packet].concat()
}

/// A datagram from a client to a served network, from its IP header on.
pub(super) fn datagram(client: u32, len: usize) -> Vec<u8> {
    let from = std::net::SocketAddrV4::new((0xc633_6400 + client).into(), 4_000);
    let to = std::net::SocketAddrV4::new([10, 20, 0, 1].into(), 53);
    wire::build::Frame::udp4(from, to).payload(&vec![7; len]).build()[14..].to_vec()
}

pub(super) fn datagram6(client: u16, len: usize) -> Vec<u8> {
    let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, client);
    let from = std::net::SocketAddrV6::new(from, 4_000, 0, 0);
    let to = "[2001:db8:20::1]:53".parse().unwrap();
    wire::build::Frame::udp6(from, to).payload(&vec![7; len]).build()[14..].to_vec()
}
