//! A whole worker of a Gatekeeper between a front and a back: bytes in, bytes out.

use std::sync::Arc;

use graph::ring::{frames, spsc};
use graph::testing::{Counting, uncounted};
use graph::{Graph, Snapshot, clock};
use io::mem::{Peer, Ring, RingDevice, connect};
use io::{Device, Pool, PoolConfig};
use lookup::exact::flow::{FlowKey, Wanted, engine};
use lookup::lpm::Options;
use lookup::sync::{Domain, Published, Thread};
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Action, Control, Iface, Limits, Named, PortId, Protect, SetId, Side};
use tables::{VrfConfig, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::flow::Hasher;
use wire::ggu::Verdict as Decision;

use super::super::flows::{Flows, Heard};
use super::super::machine::Machine;
use super::super::mix::Mix;
use super::super::programs::Programs;
use super::super::settings::{Counters, Ends, SHADOW, Settings};
use super::super::shield::Shield;
use super::super::solicitor::{CAPACITY, Channel};
use super::super::times::Times;
use super::super::{ENTRY, Parts, add};
use crate::assembly::{Assembly, Common};
use crate::switch::Bridging;
use crate::testbed::{P0, P1, borrowed, to_p0, udp4, udp6};
use crate::{IfaceCounters, Rates, router, switch};

/// The Grantor's.
const GRANTOR: [u8; 6] = [4, 0, 0, 0, 0, 9];
const V4: &str = "10.20.0.1";
const V6: &str = "2001:db8:20::1";

struct Rig {
    graph: Graph,
    front: Peer,
    back: Peer,
    kernel: frames::Consumer,
    control: Control,
    thread: Thread,
    pool: Pool,
    counters: Arc<Counters>,
    heard: spsc::Producer<Heard>,
    _to_router: frames::Producer,
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

fn neighbour(ip: &str, state: NeighbourState) -> Event {
    let (link, ip, mac) = (LinkId(2), ip.parse().unwrap(), Some(GRANTOR));
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
    control.handle(&[
        address(1, "10.0.0.1/24"),
        address(2, "10.0.2.1/24"),
        address(2, "2001:db8:2::1/64"),
        route("10.0.0.0/24", 1, None),
        route("10.0.2.0/24", 2, None),
        route("2001:db8:2::/64", 2, None),
        route("10.0.0.0/8", 2, Some("10.0.2.9")),
        neighbour("10.0.2.9", NeighbourState::Reachable),
        neighbour("2001:db8:2::9", NeighbourState::Reachable),
    ]);
    control
}

impl Rig {
    fn new() -> Rig {
        Rig::with(1 << 12, "")
    }

    /// With a table of so many entries, or none, and this rule for a full one.
    fn with(entries: usize, full: &str) -> Rig {
        let domain = Domain::new();
        let mut control = control(&domain);
        let protect = |net: &str, action, grantor: &str| {
            let ip = grantor.parse();
            let named = ip.map(|ip| Named { ip, weight: 1, shadow: false });
            let grantors = named.into_iter().collect();
            Protect { net: net.parse().unwrap(), action, options: 0, grantors }
        };
        for protect in [
            protect("10.20.0.0/16", Action::Protect, "10.0.2.9"),
            protect("2001:db8:20::/48", Action::Protect, "2001:db8:2::9"),
            protect("10.21.0.0/16", Action::Bypass, ""),
            protect("10.22.0.0/16", Action::Discard, ""),
            protect("10.23.0.0/16", Action::Protect, "10.0.2.77"),
        ] {
            control.protect(VrfId(0), &protect).unwrap();
        }
        control.commit();
        let pool = Pool::new(&PoolConfig { packets: 4096, mtu: 9000, large_pages: false }).unwrap();
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let (_to_router, from_kernel) = frames::ring(1 << 16);
        let common = Common {
            forwarding: control.forwarding().clone(),
            counters: IfaceCounters::new(),
            hasher: Hasher::new(1),
            rates: Rates::default(),
            to_kernel,
            from_kernel,
            ports: 2,
            remotes: Vec::new(),
            from_workers: Vec::new(),
        };
        let (heard, from) = spsc::ring(1 << 10);
        let counters = Counters::new(16);
        let parts = parts(&domain, &counters, vec![from], entries, full);
        let assembly = router::add(switch::add(Assembly::new(common), Bridging::none()));
        let assembly = router::shield(add(assembly, parts), false, ENTRY);
        let mut graph = assembly.finish().build(0).unwrap();
        let mut peers = Vec::new();
        for port in 0..2 {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], &pool);
            graph.ports().set(port, device.start(1).unwrap().remove(0));
            peers.push(peer);
        }
        let (back, front) = (peers.pop().unwrap(), peers.pop().unwrap());
        let thread = domain.register("rig");
        Rig { graph, front, back, kernel, control, thread, pool, counters, heard, _to_router }
    }

    /// What leaves at the back once `frames` came in at the front.
    fn send(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| self.front.push(frame));
        self.run();
        self.back.take()
    }

    fn run(&mut self) -> Snapshot {
        // The channel has room for all.
        while self.graph.poll(self.thread.guard()) > 0 || self.graph.stats().balance().held > 0 {
            self.thread.quiesce();
        }
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        assert_eq!(self.pool.available() as u64 + counts.law.held, self.pool.size() as u64);
        assert!(self.kernel.is_empty(), "nothing that is protected goes to the kernel");
        counts
    }

    fn dropped(&mut self, node: &str, why: &str) -> u64 {
        self.run().dropped(node, why)
    }

    fn set(&self, dst: &str) -> SetId {
        let forwarding = self.control.forwarding();
        let vrfs = forwarding.vrfs.load(self.thread.guard());
        let front = vrfs[0].front.as_ref().unwrap();
        let hop = match dst.parse().unwrap() {
            std::net::IpAddr::V4(ip) => front.v4.lookup(ip.into()),
            std::net::IpAddr::V6(ip) => front.v6.lookup(ip.into()),
        };
        let step = forwarding.hops.load(self.thread.guard()).step(hop);
        forwarding.protections.load(self.thread.guard()).at(step.index()).unwrap().id
    }

    /// A decision on the flow of [`udp4`] and [`udp6`] to `dst`, heard just now.
    fn decide(&mut self, dst: &str, decision: Decision) {
        let (programs, times) = (Programs::default(), Times::new(clock::rate()));
        let machine = Machine { times: &times, programs: &programs };
        let decided = machine.decision(&decision, clock::now()).unwrap();
        let key = match dst.parse().unwrap() {
            std::net::IpAddr::V4(ip) => FlowKey::v4(0xc633_6407, ip.into()),
            std::net::IpAddr::V6(ip) => {
                let from: std::net::Ipv6Addr = "2001:db8:9::7".parse().unwrap();
                FlowKey::v6(from.into(), ip.into())
            }
        };
        let heard = Heard { key, set: self.set(dst), decided };
        assert!(self.heard.push(heard).is_ok());
        // With a packet that is none of ours: an idle graph does not tick at once.
        self.front.push(&to_p0(udp4("10.22.0.1")));
        self.run();
    }

    fn flows(&mut self) -> &mut Flows {
        self.graph.node_mut::<Shield>().unwrap().flows().unwrap()
    }
}

fn parts(
    domain: &Arc<Domain>,
    counters: &Arc<Counters>,
    heard: Vec<spsc::Consumer<Heard>>,
    entries: usize,
    full: &str,
) -> Parts {
    let from = Ends {
        v4: Some([10, 0, 2, 1].into()),
        v6: Some("2001:db8:2::1".parse().unwrap()),
        hop_limit: 255,
    };
    let settings = Settings { from, ..Settings::default() };
    let wanted = Wanted { entries, second: clock::hz() };
    let given = (!full.is_empty()).then(|| ("full".to_owned(), full.to_owned()));
    let unbacked = full == "thesis";
    let options = Options(given.into_iter().collect());
    let table = (engine("flow-table").unwrap().build)(wanted, &options).unwrap();
    let channel = Channel::new(125_000_000, 1, clock::now());
    Parts {
        settings: Arc::new(Published::new(domain, settings)),
        counters: counters.clone(),
        mix: Mix::new(1),
        flows: (entries > 0).then(|| Flows::new(table, unbacked, Programs::default())),
        heard,
        capacity: CAPACITY,
        member: channel.member(0),
    }
}

/// `inner` behind the link header and this outer one of IPv4, whose checksum is right.
fn in_v4(dscp: u8, inner: &[u8]) -> Vec<u8> {
    let len = inner.len() as u16 + 20;
    let mut outer = [0x45, dscp << 2, 0, 0, 0, 0, 0x40, 0, 64, 4, 0, 0, 10, 0, 2, 1, 10, 0, 2, 9];
    outer[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = wire::checksum::checksum(&outer).to_be_bytes();
    outer[10..12].copy_from_slice(&sum);
    [&GRANTOR[..], &P1, &[8, 0], &outer, inner].concat()
}

fn in_v6(dscp: u8, inner: &[u8]) -> Vec<u8> {
    let len = (inner.len() as u16).to_be_bytes();
    let class = (0x6000_u16 | u16::from(dscp) << 6).to_be_bytes();
    let ends = ["2001:db8:2::1", "2001:db8:2::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>());
    let [from, to] = ends.map(|ip| ip.unwrap().octets());
    let head = [class[0], class[1], 0, 0, len[0], len[1], 41, 255];
    [&GRANTOR[..], &P1, &[0x86, 0xdd], &head, &from, &to, inner].concat()
}

fn four() -> Vec<u8> {
    to_p0(udp4(V4).ttl(1).payload(&[7; 60]))
}

fn six() -> Vec<u8> {
    to_p0(udp6(V6).ttl(1).payload(&[7; 60]))
}

const GRANT: Decision = Decision::Granted {
    expire_s: 300,
    rate_kib: 1_024,
    next_renewal_ms: 3_600_000,
    renewal_step_ms: 3_000,
};

#[test]
fn a_flow_asks_is_granted_is_renewed_and_is_declined() {
    let mut rig = Rig::new();
    let (four, six) = (four(), six());
    // With an inner TTL of 1, which nobody looks at.
    let sent = rig.send(&[four.clone(), six.clone()]);
    assert_eq!(sent, [in_v4(41, &four[14..]), in_v6(41, &six[14..])]);
    assert_eq!(rig.counters.all.requests.get(), 2);
    let bytes = (four.len() + 20 + six.len() + 40) as u64;
    assert_eq!(rig.counters.all.request_bytes.get(), bytes);
    rig.decide(V4, GRANT);
    rig.decide(V6, GRANT);
    let sent = rig.send(&[four.clone(), six.clone()]);
    assert_eq!(sent, [in_v4(1, &four[14..]), in_v6(1, &six[14..])]);
    let at_once = Decision::Granted {
        expire_s: 300,
        rate_kib: 1_024,
        next_renewal_ms: 0,
        renewal_step_ms: 3_600_000,
    };
    rig.decide(V4, at_once);
    let sent = rig.send(&[four.clone(), four.clone()]);
    assert_eq!(sent, [in_v4(2, &four[14..]), in_v4(1, &four[14..])]);
    assert_eq!(rig.counters.all.granted.get(), 4);
    rig.decide(V4, Decision::Declined { expire_s: 60 });
    assert_eq!(rig.send(&[four.clone(), six.clone()]), [in_v6(1, &six[14..])]);
    assert_eq!((rig.dropped("shield", "declined"), rig.counters.all.declined.get()), (1, 1));
    let set = rig.set(V4);
    assert_eq!(rig.counters.of(set).unwrap().declined.get(), 1);
    assert_eq!(rig.counters.decisions.granted.get() + rig.counters.decisions.declined.get(), 4);
    // Other flows to the same host still ask.
    let from = "198.51.100.8:9".parse().unwrap();
    let other = to_p0(Frame::udp4(from, "10.20.0.1:53".parse().unwrap()));
    assert_eq!(rig.send(&[other]).len(), 1);
}

#[test]
fn a_budget_is_of_whole_frames() {
    let mut rig = Rig::new();
    let frame = to_p0(udp4(V4).payload(&[0; 400])); // 442 bytes
    assert_eq!(frame.len(), 442);
    let few = Decision::Granted {
        expire_s: 300,
        rate_kib: 2,
        next_renewal_ms: 3_600_000,
        renewal_step_ms: 1,
    };
    rig.decide(V4, few);
    assert_eq!(rig.send(&vec![frame; 9]).len(), 4);
    assert_eq!((rig.dropped("shield", "over_budget"), rig.counters.all.declined.get()), (5, 5));
}

/// Easy version 9.
#[test]
fn nothing_passes_but_what_may() {
    let mut rig = Rig::new();
    let inner = |frame: &[u8]| in_v4(41, &frame[14..]);
    let parts = [udp4(V4).fragment(7, 0, true), udp4(V4).fragment(7, 1480, false)];
    for frame in [udp4(V4).ttl(0), udp4(V4).options(&[7, 4, 4, 0])].into_iter().chain(parts) {
        let frame = to_p0(frame.payload(&[1; 40]));
        assert_eq!(rig.send(&[frame.clone()]), [inner(&frame)]);
    }
    assert_eq!(rig.flows().table().capacity().entries, 1, "one flow");
    // 1,500 bytes with the outer header is what the way carries.
    let longest = to_p0(udp4(V4).payload(&[1; 1452]));
    assert_eq!(rig.send(&[longest.clone()]), [inner(&longest)]);
    assert!(rig.send(&[to_p0(udp4(V4).payload(&[1; 1453]))]).is_empty());
    assert_eq!(rig.dropped("solicit", "too_long"), 1);
    rig.decide(V4, GRANT);
    assert!(rig.send(&[to_p0(udp4(V4).payload(&[1; 1453]))]).is_empty());
    assert_eq!(rig.dropped("shield", "too_long"), 1);
    assert!(rig.send(&[to_p0(udp4("10.23.0.1")), to_p0(udp4("10.22.0.1"))]).is_empty());
    assert_eq!(rig.dropped("solicit", "unresolved"), 1);
    assert!(rig.dropped("shield", "discarded") >= 1);
    // A minimal frame: what it is filled up with stays out of the outer packet.
    let mut short = to_p0(udp4("10.20.0.9"));
    let packet = short[14..].to_vec();
    short.resize(60, 0xee);
    assert_eq!(rig.send(&[short]), [in_v4(41, &packet)]);
}

#[test]
fn a_bypass_is_routed() {
    let mut rig = Rig::new();
    let frame = udp4("10.21.0.1").payload(&[1; 40]);
    let want = frame.ttl(63).macs(Mac(P1), Mac(GRANTOR)).build().to_vec();
    assert_eq!(rig.send(&[to_p0(frame)]), [want]);
    assert_eq!(rig.flows().table().capacity().entries, 0);
}

#[test]
fn a_lost_grantor_and_a_stale_entry() {
    let mut rig = Rig::new();
    let four = four();
    rig.decide(V4, GRANT);
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Failed)]);
    assert!(rig.send(&[four.clone()]).is_empty());
    assert_eq!(rig.dropped("shield", "unresolved"), 1);
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Reachable)]);
    assert_eq!(rig.send(&[four.clone()]), [in_v4(1, &four[14..])]);
    // Other options: what was decided is as good as not there.
    let pages = rig.flows().table().counts().pages;
    let ip = "10.0.2.9".parse().unwrap();
    let protect = Protect {
        net: "10.20.0.0/16".parse().unwrap(),
        action: Action::Protect,
        options: SHADOW,
        grantors: vec![Named { ip, weight: 1, shadow: false }],
    };
    rig.control.change_protection(VrfId(0), &protect).unwrap();
    rig.control.commit();
    let before = rig.counters.all.requests.get();
    let frame = udp4(V4).payload(&[7; 60]);
    let want = frame.ttl(63).macs(Mac(P1), Mac(GRANTOR)).build().to_vec();
    assert_eq!(rig.send(&[to_p0(frame)]), [want], "a shadow lets pass");
    assert_eq!(rig.counters.all.requests.get(), before + 1);
    assert_eq!(rig.flows().table().counts().pages, pages - 1, "its page went back");
}

#[test]
fn a_full_table_makes_room_and_the_thesis_rule_does_not() {
    let flood = |n: u32| -> Vec<Vec<u8>> {
        let from = |i: u32| std::net::SocketAddrV4::new((0xc612_0000 + i).into(), 9);
        let to = "10.20.0.1:53".parse().unwrap();
        (0..n).map(|i| to_p0(Frame::udp4(from(i), to))).collect()
    };
    let mut rig = Rig::with(1_024, "replace");
    rig.decide(V4, GRANT);
    assert_eq!(rig.send(&[four()]).len(), 1);
    for frames in flood(4_000).chunks(100) {
        assert_eq!(rig.send(frames).len(), frames.len());
    }
    let counts = rig.flows().table().counts();
    assert!(counts.replaced[0] > 2_900 && counts.replaced[2] == 0, "{counts:?}");
    assert_eq!(rig.send(&[four()]), [in_v4(1, &four()[14..])], "a live grant stays");
    let mut rig = Rig::with(1_024, "thesis");
    let sent: Vec<_> = flood(4_000).chunks(100).flat_map(|frames| rig.send(frames)).collect();
    let unbacked = sent.iter().filter(|frame| frame[15] == 3 << 2).count();
    assert!(sent.len() == 4_000 && unbacked > 2_900, "{unbacked} of {}", sent.len());
    let mut rig = Rig::with(1_024, "deployed");
    let sent: usize = flood(4_000).chunks(100).map(|frames| rig.send(frames).len()).sum();
    assert!(sent <= 1_024, "{sent}");
    let dropped = rig.dropped("shield", "no_place");
    assert_eq!((dropped, rig.counters.all.dropped.get()), (4_000 - sent as u64, dropped));
}

/// Easy version 11, with entries that live for a moment.
#[test]
fn an_idle_table_is_swept() {
    let mut rig = Rig::new();
    rig.decide(V4, Decision::Declined { expire_s: 1 });
    assert_eq!(rig.flows().table().capacity().entries, 1);
    let begun = std::time::Instant::now();
    while rig.flows().table().capacity().entries > 0 {
        rig.graph.poll(rig.thread.guard());
        rig.thread.quiesce();
        assert!(begun.elapsed().as_secs() < 10, "still there");
    }
}

#[test]
fn requests_that_wait_are_dropped_by_name_at_a_stop() {
    let mut rig = Rig::new();
    // More a poll than are sent in one.
    (0..60).for_each(|_| rig.front.push(&four()));
    rig.graph.poll(rig.thread.guard());
    rig.thread.quiesce();
    let law = rig.graph.stats().balance();
    assert!(law.holds() && law.held > 0, "{law:?}");
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    let counts = rig.graph.stats().snapshot();
    assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
    assert_eq!(counts.dropped("solicit", "stopped"), law.held);
    assert_eq!(rig.back.take().len() as u64 + law.held, 60);
    assert_eq!(rig.pool.available(), rig.pool.size());
}

#[test]
fn nothing_is_allocated() {
    let mut rig = Rig::new();
    rig.decide(V4, GRANT);
    let config = PoolConfig { packets: 1024, mtu: 1500, large_pages: false };
    let fill = |i: usize, room: &mut [u8]| {
        let frame = [four(), six(), to_p0(udp4("10.20.0.7"))][i % 3].clone();
        room[..frame.len()].copy_from_slice(&frame);
        frame.len()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    for number in 0..2 {
        let rings = std::slice::from_ref(&ring);
        let mut device = RingDevice::new("m", P0, number, rings, &rig.pool);
        let mut port = device.start(1).unwrap().remove(0);
        port.attach(0);
        drop(rig.graph.ports().set(number, port));
    }
    let poll = |rig: &mut Rig| {
        let guard = rig.thread.guard();
        let forwarding = rig.control.forwarding();
        let borrowed = (borrowed(forwarding, guard), uncounted(&rig.counters));
        let before = Counting::allocations();
        rig.graph.poll(guard);
        let allocated = Counting::allocations() - before;
        drop(borrowed);
        rig.thread.quiesce();
        allocated
    };
    // The first poll fills the pools' caches.
    let allocations: Vec<u64> = (0..8).map(|_| poll(&mut rig)).collect();
    assert_eq!(allocations[1..], [0; 7]);
    assert!(rig.counters.all.requests.get() > 60 && rig.counters.all.granted.get() > 30);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
}

#[test]
fn flows_outlive_a_graph() {
    let [mut old, mut new] = [Rig::new(), Rig::with(0, "")];
    old.decide(V4, GRANT);
    // Without flows nothing passes.
    assert!(new.send(&[four()]).is_empty());
    assert_eq!(new.dropped("shield", "no_place"), 1);
    let before = old.graph.node_mut::<Shield>().unwrap();
    graph::Node::take_over(new.graph.node_mut::<Shield>().unwrap(), before);
    assert_eq!(new.send(&[four()]), [in_v4(1, &four()[14..])]);
    assert!(old.send(&[four()]).is_empty());
}
