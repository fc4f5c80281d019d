//! A worker of a Grantor between Gatekeepers and what it serves, driven by bytes: what
//! Gatekeepers send, and what they cannot have sent; frames of both sides; a policy that is
//! full, silent, late or wrong; options; ports and neighbours that come and go; and a clock
//! that jumps forwards and backwards. After each step
//!
//! - the accounting law holds, and no packet is lost to the pool
//! - what left for Gatekeepers is a message that they can read, to one of them
//! - it is no relay: of what came wrapped nothing left but for what is served, unwrapped
//!   (until other frames have come, which are routed)
//!
//! ```text
//!  bytes:  operation, arguments │ operation, arguments │ …
//!    0 client, service, DSCP, kind, length, place     a packet of a Gatekeeper
//!    1 length, bytes                                  a frame from there, whatever it is
//!    2 length, bytes                                  a frame from what is served
//!    3 how                                            the policy answers from now on
//!    4 what                                           neighbours, MTU
//!    5 options
//!    6 shift                  time goes 2^(shift & 63) ticks on, or back (bit 7)
//!    7 there                  the port of the Gatekeepers
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use graph::ring::frames;
use graph::{Graph, clock};
use io::mem::{Peer, connect};
use io::{Device, Pool, PoolConfig, Port};
use lookup::sync::{Domain, Published, Thread};
use nodes::assembly::{Assembly, Common};
use nodes::grantor::nets::Nets;
use nodes::grantor::settings::{Counters, Ecn, Instead, Settings};
use nodes::grantor::{ENTRY, Parts, add};
use nodes::switch::Bridging;
use nodes::{IfaceCounters, Rates, router, switch};
use policy::ask::{Asker, Full, Matter, Question, Verdict};
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Control, Iface, Limits, PortId, VrfConfig};
use wire::build::Frame;
use wire::flow::Hasher;
use wire::ggu::{self, Message, Ports};
use wire::{checksum, ipv4};

const P0: [u8; 6] = [2, 0, 0, 0, 0, 0xa0];
const P1: [u8; 6] = [2, 0, 0, 0, 0, 0xa1];
const GATEKEEPER: [u8; 6] = [4, 0, 0, 0, 0, 1];
const SERVED: [u8; 6] = [4, 0, 0, 0, 0, 9];

/// Bytes as what happens to a Grantor.
pub fn grantor(bytes: &[u8]) {
    reached(bytes);
}

/// What it drops with these bytes, by node and reason, and what it does with the rest.
pub fn reached(bytes: &[u8]) -> BTreeMap<String, u64> {
    let mut world = World::new();
    let mut rest = bytes;
    for _ in 0..1_024 {
        let Some((&code, more)) = rest.split_first() else { break };
        rest = more;
        let length = match code & 7 {
            0 => 6,
            1 | 2 => {
                let Some((&length, more)) = rest.split_first() else { break };
                rest = more;
                usize::from(length)
            }
            _ => 1,
        };
        let Some((arguments, more)) = rest.split_at_checked(length) else { break };
        rest = more;
        world.does(code & 7, arguments);
        world.run();
    }
    world.end()
}

/// A policy, and how it answers.
#[derive(Clone)]
struct Policy(Arc<Mutex<State>>);

struct State {
    how: u8,
    asked: VecDeque<(u32, Matter)>,
}

impl Asker for Policy {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        let state = &mut *self.0.lock().expect("nobody panics with it");
        let Question { facts, bytes, .. } = question;
        let end = usize::from(facts.l4) + usize::from(facts.upper_len);
        assert!(facts.outer_l3 < facts.inner_l3 && facts.inner_l3 < facts.l4, "{facts:?}");
        assert!(bytes.len() <= end.max(MOST), "more than there is: {facts:?}");
        if state.asked.len() >= usize::from(state.how >> 4) * 4 {
            return Err(Full);
        }
        state.asked.push_back((question.id, question.matter));
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let state = &mut *self.0.lock().expect("nobody panics with it");
        let how = state.how & 15;
        let n = if how == 0 { 0 } else { most.min(state.asked.len()) };
        for (id, matter) in state.asked.drain(..n) {
            let by_program = ggu::Verdict::Program { expire_s: 7, index: 1, cookie: [how; 64] };
            let granted = ggu::Verdict::Granted {
                rate_kib: 7,
                expire_s: 7,
                next_renewal_ms: 7,
                renewal_step_ms: 7,
            };
            let decision = match (how % 5, matter) {
                (0, _) => None,
                (1, _) => Some(by_program),
                (_, Matter::Punish) | (2, _) => Some(ggu::Verdict::Declined { expire_s: 7 }),
                _ => Some(granted),
            };
            take(Verdict { id, forward: how != 2 && how != 7, decision });
            if how > 10 {
                take(Verdict { id: id ^ u32::from(how), forward: true, decision });
            }
        }
        n
    }

    fn flush(&mut self) {}
}

struct World {
    graph: Graph,
    back: Peer,
    inside: Peer,
    /// The port of the Gatekeepers, while it is not there.
    gone: Option<Box<dyn Port>>,
    kernel: frames::Consumer,
    control: Control,
    thread: Thread,
    pool: Pool,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    policy: Policy,
    now: u64,
    /// Frames have come that are routed.
    routed: bool,
    _to_router: frames::Producer,
}

impl World {
    fn new() -> World {
        let domain = Domain::new();
        let control = control(&domain);
        let pool = Pool::new(&PoolConfig { packets: 512, mtu: 2_000, large_pages: false });
        let pool = pool.expect("memory for a small pool");
        let (to_kernel, kernel) = frames::ring(1 << 16);
        let (_to_router, from_kernel) = frames::ring(1 << 12);
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
        let settings = Arc::new(Published::new(&domain, settings(0)));
        let counters = Counters::new();
        let policy = Policy(Arc::new(Mutex::new(State { how: 0xf3, asked: VecDeque::new() })));
        let parts = Parts {
            settings: settings.clone(),
            counters: counters.clone(),
            asker: Some(Box::new(policy.clone())),
            capacity: 16,
            fragments: 80,
        };
        let assembly = router::add(switch::add(Assembly::new(common), Bridging::none()));
        let assembly = router::tunnels(add(assembly, parts, None), (false, false), ENTRY);
        let mut graph = assembly.finish().build(0).expect("the graph as the daemon builds it");
        let mut peers = Vec::new();
        for port in 0..2 {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], &pool);
            let queue = device.start(1).expect("a device of memory").remove(0);
            graph.ports().set(port, queue);
            peers.push(peer);
        }
        let (inside, back) = (peers.remove(1), peers.remove(0));
        let (thread, now) = (domain.register("fuzz"), clock::now());
        World {
            graph,
            back,
            inside,
            gone: None,
            kernel,
            control,
            thread,
            pool,
            settings,
            counters,
            policy,
            now,
            routed: false,
            _to_router,
        }
    }

    fn does(&mut self, code: u8, arguments: &[u8]) {
        match (code, arguments) {
            (0, &[client, service, dscp, kind, len, place]) => {
                self.back.push(&packet([client, service, dscp, kind, len, place]));
            }
            (1, bytes) => {
                self.routed = true;
                self.back.push(&[&P0[..], &GATEKEEPER, bytes].concat());
            }
            (2, bytes) => {
                self.routed = true;
                self.inside.push(&[&P1[..], &SERVED, bytes].concat());
            }
            (3, &[how]) => self.policy.0.lock().expect("nobody panics with it").how = how,
            (4, &[what]) => {
                let up = what & 1 == 1;
                let state = if up { NeighbourState::Reachable } else { NeighbourState::Failed };
                let mtu = if what & 2 == 2 { 100 } else { 1_500 };
                self.control.handle(&[
                    neighbour(1, "10.0.2.1", GATEKEEPER, state),
                    neighbour(1, "2001:db8:2::1", GATEKEEPER, state),
                    neighbour(2, "10.0.3.9", SERVED, state),
                    link(0, P0, mtu),
                ]);
                self.control.commit();
            }
            (5, &[options]) => self.settings.publish(settings(options)),
            (7, &[there]) => match (there & 1, self.gone.take()) {
                (0, None) => self.gone = self.graph.ports().remove(0),
                (1, Some(port)) => drop(self.graph.ports().set(0, port)),
                (_, before) => self.gone = before,
            },
            (_, &[shift, ..]) => {
                let step = 1 << (shift & 63);
                let back = shift & 128 != 0;
                let now =
                    if back { self.now.checked_sub(step) } else { self.now.checked_add(step) };
                self.now = now.unwrap_or(self.now);
            }
            _ => {}
        }
    }

    fn run(&mut self) {
        self.now = self.now.saturating_add(POLL);
        for _ in 0..64 {
            if self.graph.poll_at(self.now, self.thread.guard()) == 0 {
                break;
            }
            self.thread.quiesce();
        }
        self.thread.quiesce();
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        if self.gone.is_none() {
            let lost = self.pool.size() as u64 - self.pool.available() as u64;
            assert_eq!(lost, counts.law.held, "packets of the pool");
        }
        while self.kernel.pop(|_, _| ()).is_some() {}
        for frame in self.back.take() {
            let is_message = match frame[12..14] {
                [8, 0] => frame[23] == 17 && frame[34..38] == PORTS,
                _ => frame[20] == 17 && frame[54..58] == PORTS,
            };
            if !is_message {
                assert!(self.routed, "left for Gatekeepers: {frame:x?}");
                continue;
            }
            let mut known = false;
            let to = |ip: std::net::IpAddr| {
                let ip = ip.to_string();
                known = ip == "10.0.2.1" || ip.starts_with("10.0.1.") || ip == "2001:db8:2::1";
                true
            };
            let message = Message::receive(&frame[14..], Ports::default(), to);
            let message = message.unwrap_or_else(|error| panic!("{error:?}: {frame:x?}"));
            assert!(known || self.routed, "a message to a stranger: {frame:x?}");
            assert!(message.decisions().all(|decision| decision.is_ok()) || self.routed);
        }
        for frame in self.inside.take() {
            let served = match frame[12..14] {
                [8, 0] => frame[30..32] == [10, 20] && frame[23] != 4 && frame[23] != 41,
                _ => frame[38..44] == [0x20, 1, 0x0d, 0xb8, 0, 0x20] && frame[20] != 41,
            };
            assert!(served || self.routed, "left for others than are served: {frame:x?}");
        }
    }

    fn end(mut self) -> BTreeMap<String, u64> {
        if let Some(port) = self.gone.take() {
            drop(self.graph.ports().set(0, port));
        }
        while self.graph.drain(self.thread.guard()) > 0 {
            self.thread.quiesce();
        }
        let law = self.graph.stats().balance();
        assert!(law.holds() && law.held == 0, "{law:?}");
        let snapshot = self.graph.stats().snapshot();
        let drops = snapshot.drops.iter();
        let drops = drops.map(|of| (format!("{}.{}", of.node, of.reason), of.packets));
        let of = &self.counters;
        let counts = [
            ("passed", &of.passed),
            ("renewals", &of.renewals),
            ("requests", &of.requests),
            ("whole", &of.whole),
            ("punished", &of.punished),
            ("refused", &of.refused),
            ("forwarded", &of.forwarded),
            ("denied", &of.denied),
            ("undecided", &of.undecided),
            ("late", &of.late),
            ("overdue", &of.overdue),
            ("shed", &of.shed),
            ("decisions", &of.decisions),
            ("messages", &of.messages),
            ("unsent", &of.unsent),
        ];
        let counts = counts.map(|(name, counter)| (name.to_owned(), counter.get()));
        drops.chain(counts).filter(|(_, count)| *count > 0).collect()
    }
}

/// Ticks between two steps.
const POLL: u64 = 1 << 12;
/// Bytes of a question.
const MOST: usize = 256;
/// The ports of messages, from and to.
const PORTS: [u8; 4] = [0xa0, 0xa0, 0xb0, 0xb0];

/// What a Gatekeeper sends, or cannot have sent.
///
/// Bits of `kind`: 0 to 2 what is with the inner packet; 3 more fragments; 4 a byte more; 5 what is with the
/// outer header, by `place`; 6 IPv6. Of `service`: the destination; 6 and 7 the outer ECN bits.
fn packet([client, service, dscp, kind, len, place]: [u8; 6]) -> Vec<u8> {
    let is_v4 = kind & 64 == 0;
    let net = [20, 20, 20, 21][usize::from(service & 3)];
    let frame = if is_v4 {
        let from = std::net::SocketAddrV4::new([198, 51, 100, client].into(), 4_000);
        let to = std::net::SocketAddrV4::new([10, net, 0, 1].into(), 53);
        Frame::udp4(from, to)
    } else {
        let at = |ip, port| std::net::SocketAddrV6::new(ip, port, 0, 0);
        let net = 0x20 + u16::from(net) - 20;
        let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, client.into());
        let to = std::net::Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, 1);
        Frame::udp6(at(from, 4_000), at(to, 53))
    };
    let frame = match kind & 7 {
        1 => frame.fragment(client.into(), u16::from(place) * 8, kind & 8 != 0),
        2 if is_v4 => frame.options(&[7, 4, 4, 0]),
        2 => frame.extension(60, [1, 4, 0, 0, 0, 0]),
        3 if !is_v4 => frame.claim_len(u16::from(len) * 16),
        4 => frame.claim_len(u16::from(len) * 7),
        _ => frame,
    };
    let len = usize::from(len.min(150)) * 8 + usize::from(kind & 16 != 0);
    let mut inner = frame.payload(&vec![kind; len]).build()[14..].to_vec();
    match (kind & 7, is_v4) {
        (3, true) => inner[10] ^= 0x55,
        (5, true) => inner[9] = 4,
        (5, false) => inner[6] = 41,
        (6, true) => inner[12] = 127,
        (6, false) => inner[8] = 0xff,
        (7, _) if place & 1 == 1 => inner[0] ^= 0x20,
        (7, false) => (inner[6], inner[40], inner[41]) = (60, 60, 255),
        _ => {}
    }
    if is_v4 && matches!(kind & 7, 5 | 6) {
        inner[10..12].fill(0);
        let sum = checksum::checksum(&inner[..20]).to_be_bytes();
        inner[10..12].copy_from_slice(&sum);
    }
    let wrong = if kind & 32 == 0 { 0 } else { 1 + place % 6 };
    if is_v4 {
        in_v4(dscp << 2 | service >> 6, &inner, wrong)
    } else {
        in_v6(dscp << 2 | service >> 6, &inner, wrong)
    }
}

fn in_v4(tos: u8, inner: &[u8], wrong: u8) -> Vec<u8> {
    let options: &[u8] = if wrong == 4 { &[7, 4, 4, 0] } else { &[] };
    let headers = ipv4::MIN_LEN + options.len();
    let mut outer = vec![0x40 | (headers / 4) as u8, tos, 0, 0, 0, 0, 0x40, 0, 64, 4, 0, 0];
    outer.extend([10, 0, if wrong == 1 { 9 } else { 2 }, 1, 10, 0, 2, 9]);
    outer.extend(options);
    let len = (headers + inner.len()) as u16;
    outer[2..4].copy_from_slice(&if wrong == 5 { len / 2 } else { len }.to_be_bytes());
    match wrong {
        2 => outer[6] = 0x20,
        3 => outer[9] = 41,
        6 => outer[14..16].copy_from_slice(&[1, tos]),
        _ => {}
    }
    let sum = checksum::checksum(&outer).to_be_bytes();
    outer[10..12].copy_from_slice(&sum);
    [&P0[..], &GATEKEEPER, &[8, 0], &outer, inner].concat()
}

fn in_v6(class: u8, inner: &[u8], wrong: u8) -> Vec<u8> {
    let extension: &[u8] = match wrong {
        2 => &[41, 0, 0, 1, 0, 0, 0, 7],
        4 => &[41, 0, 1, 4, 0, 0, 0, 0],
        _ => &[],
    };
    let len = (inner.len() + extension.len()) as u16;
    let len = if wrong == 5 { len / 2 } else { len }.to_be_bytes();
    let next = match wrong {
        2 => 44,
        3 => 4,
        4 => 60,
        _ => 41,
    };
    let from = if wrong == 1 { "2001:db8:2::7" } else { "2001:db8:2::1" };
    let [from, to] = [from, "2001:db8:2::9"].map(|ip| {
        let ip: std::net::Ipv6Addr = ip.parse().expect("an address");
        ip.octets()
    });
    let head = [0x60 | class >> 4, class << 4, 0, 0, len[0], len[1], next, 255];
    [&P0[..], &GATEKEEPER, &[0x86, 0xdd], &head, &from, &to, extension, inner].concat()
}

/// Bits: 0 shadow, 1 RFC 6040, 2 and 3 what stands for a verdict, 4 the time limit is long.
fn settings(options: u8) -> Settings {
    let nets = |all: &[(&str, u8)]| {
        Nets::new(all.iter().map(|(ip, len)| (ip.parse().expect("an address"), *len)))
    };
    let decision = Some(ggu::Verdict::Declined { expire_s: 60 });
    let instead = Instead {
        forward: options & 4 != 0,
        decision: if options & 8 != 0 { decision } else { None },
    };
    Settings {
        gatekeepers: nets(&[("10.0.2.1", 32), ("10.0.1.0", 24), ("2001:db8:2::1", 128)]),
        serves: nets(&[("10.20.0.0", 16), ("2001:db8:20::", 48)]),
        ecn: if options & 2 != 0 { Ecn::Rfc6040 } else { Ecn::Deployed },
        shadow: options & 1 != 0,
        question: MOST,
        limit_ms: if options & 16 != 0 { 60_000 } else { 100 },
        on_limit: instead,
        on_full: instead,
        asked: 8,
        ..Settings::default()
    }
}

fn neighbour(link: u32, ip: &str, mac: [u8; 6], state: NeighbourState) -> Event {
    let ip = ip.parse().expect("an address");
    Event::Neighbour(Neighbour { link: LinkId(link), ip, mac: Some(mac), state })
}

fn link(port: usize, mac: [u8; 6], mtu: u16) -> Event {
    let index = LinkId(port as u32 + 1);
    let name = format!("p{port}");
    Event::Link(Link { index, name, up: true, mtu: mtu.into(), mac, ..Link::default() })
}

fn control(domain: &Arc<Domain>) -> Control {
    let config = VrfConfig::default();
    let mut control = Control::new(domain, Limits::default(), &config).expect("small tables");
    for (i, mac) in [P0, P1].into_iter().enumerate() {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        let iface = Iface { name, port, mac, mtu: 1_500, ..Iface::default() };
        control.add_iface(iface).expect("two interfaces");
    }
    control.handle(&[link(0, P0, 1_500), link(1, P1, 1_500)]);
    let address = |link, ip: &str, len| {
        let ip = ip.parse().expect("an address");
        Event::Address(Address { link: LinkId(link), ip, len })
    };
    let route = |net: &str, link, via: Option<&str>| {
        let via = via.map(|via| via.parse().expect("an address"));
        let path = Path { link: LinkId(link), via, weight: 1, mtu: 0 };
        let route = Route {
            table: VrfConfig::default().table,
            net: net.parse().expect("a prefix"),
            metric: 0,
            protocol: 4,
            source: Source::Kernel,
            target: Target::Path(path),
        };
        Event::Route(route, How::Create)
    };
    control.handle(&[
        address(1, "10.0.2.9", 24),
        address(1, "2001:db8:2::9", 64),
        address(2, "10.0.3.1", 24),
        address(2, "2001:db8:3::1", 64),
        route("10.0.2.0/24", 1, None),
        route("10.0.1.0/24", 1, Some("10.0.2.1")),
        route("2001:db8:2::/64", 1, None),
        route("10.0.3.0/24", 2, None),
        route("10.20.0.0/16", 2, Some("10.0.3.9")),
        route("10.21.0.0/16", 2, Some("10.0.3.9")),
        route("2001:db8:20::/47", 2, Some("2001:db8:3::9")),
        neighbour(1, "10.0.2.1", GATEKEEPER, NeighbourState::Reachable),
        neighbour(1, "2001:db8:2::1", GATEKEEPER, NeighbourState::Reachable),
        neighbour(2, "10.0.3.9", SERVED, NeighbourState::Reachable),
        neighbour(2, "2001:db8:3::9", SERVED, NeighbourState::Reachable),
    ]);
    control.commit();
    control
}

/// Packets, and what changes in between.
fn pieces() -> Vec<(&'static str, String, Vec<u8>)> {
    let packet = |client: u8, service: u8, dscp: u8, kind: u8, len: u8, place: u8| {
        vec![0, client, service, dscp, kind, len, place]
    };
    let both = |client: u8, dscp: u8, kind: u8| {
        [packet(client, 0, dscp, kind, 9, 0), packet(client, 0, dscp, kind | 64, 9, 0)].concat()
    };
    let all_of = |dscp: u8| -> Vec<u8> {
        let kinds = (0..8).flat_map(|kind| [kind, kind | 64]);
        kinds
            .flat_map(|kind| {
                [packet(1, 0, dscp, kind, 9, 0), packet(1, 3, dscp, kind, 9, 1)].concat()
            })
            .collect()
    };
    let outer: Vec<u8> = (0..6)
        .flat_map(|place| [packet(1, 0, 41, 32, 9, place), packet(1, 0, 41, 96, 9, place)])
        .flatten()
        .collect();
    let ecn: Vec<u8> =
        (0..4).flat_map(|bits| [both(bits, 1, 0), both(bits, 41, 0)].concat()).collect();
    let marked: Vec<u8> = [0, 64]
        .into_iter()
        .flat_map(|kind| [packet(1, 0xc0, 1, kind, 9, 0), packet(1, 0xc0, 41, kind, 9, 0)].concat())
        .collect();
    let flood = |n: u8, dscp: u8| -> Vec<u8> {
        (0..n).flat_map(|i| packet(i, 0, dscp + i % 9, i & 64, 9, 0)).collect()
    };
    // Behind the UDP header are eights: parts that begin at 0 have one eight more.
    let part = |client: u8, kind: u8, at: u8, len: u8, more: bool| {
        packet(client, 0, 41, kind | 1 | if more { 8 } else { 0 }, len, at)
    };
    let parts = |client: u8, kind: u8| {
        [
            part(client, kind, 0, 9, true),
            part(client, kind, 10, 9, true),
            part(client, kind, 20, 3, false),
        ]
    };
    let wholes: Vec<u8> = [0, 64]
        .into_iter()
        .flat_map(|kind| {
            let [a, b, c] = parts(7, kind);
            [a.clone(), a, c.clone(), b.clone(), b, c].concat()
        })
        .collect();
    let overlaps: Vec<u8> =
        [part(8, 0, 0, 9, true), part(8, 0, 5, 9, true), part(8, 0, 10, 9, true)].concat();
    let wrong: Vec<u8> = [
        part(9, 0, 0, 0, true),
        part(9, 0, 255, 255, false),
        part(9, 24, 0, 3, true),
        part(9, 88, 0, 3, true),
    ]
    .concat();
    let many: Vec<u8> = (0..70).flat_map(|n| part(10, 0, 3 * n, 1, true)).collect();
    let firsts: Vec<u8> = (0..100).flat_map(|n| part(n, 0, 0, 1, true)).collect();
    let all = [
        ("asks", [both(1, 41, 0), both(2, 3, 0), both(3, 63, 0)].concat()),
        ("granted", [both(1, 0, 0), both(1, 1, 0), both(1, 2, 0)].concat()),
        ("kinds", all_of(41)),
        ("kinds_granted", all_of(1)),
        ("kinds_renewing", all_of(2)),
        ("outer", outer.clone()),
        ("ecn", [&ecn[..], &marked, &[5, 2], &ecn, &marked].concat()),
        ("shadow", [&[5, 1][..], &all_of(41), &all_of(1), &wholes, &outer].concat()),
        (
            "denied",
            [&[3, 0xf2][..], &both(1, 41, 0), &both(1, 2, 0), &[3, 0xf7], &both(1, 9, 0)].concat(),
        ),
        (
            "programs",
            [&[3, 0xf1][..], &flood(40, 40), &[3, 0xf5], &flood(9, 40), &[3, 0xff], &flood(9, 40)]
                .concat(),
        ),
        (
            "silent",
            [
                &[3, 0xf0][..],
                &flood(40, 20),
                &flood(40, 40),
                &[6, 30],
                &both(1, 41, 0),
                &[3, 0xf3, 6, 10],
            ]
            .concat(),
        ),
        (
            "full",
            [
                &[3, 0x13][..],
                &flood(40, 20),
                &[3, 0x03],
                &flood(40, 20),
                &[6, 30, 3, 0xf3],
                &both(1, 2, 0),
            ]
            .concat(),
        ),
        (
            "instead",
            [&[3, 0xf0, 5, 12][..], &flood(60, 20), &[6, 30], &flood(30, 50), &[6, 31]].concat(),
        ),
        ("wholes", wholes.clone()),
        ("parts", [&overlaps[..], &wrong, &many, &wholes].concat()),
        ("late", [&firsts[..20], &[6, 32], &firsts, &[6, 33], &wholes].concat()),
        ("room", [&firsts[..], &firsts, &wholes, &[3, 0xf0], &wholes, &firsts].concat()),
        (
            "ports",
            [
                &[3, 0xf0][..],
                &both(1, 41, 0),
                &wholes,
                &[7, 0, 3, 0xf3, 6, 10],
                &both(1, 41, 0),
                &[7, 1],
                &both(1, 41, 0),
            ]
            .concat(),
        ),
        (
            "ways",
            [
                &[3, 0xf1, 4, 2][..],
                &both(1, 41, 0),
                &[4, 3],
                &both(1, 41, 0),
                &[4, 1],
                &both(1, 41, 0),
            ]
            .concat(),
        ),
        (
            "clocks",
            [
                &[3, 0xf0][..],
                &both(1, 41, 0),
                &[6, 190],
                &both(1, 41, 0),
                &[6, 62, 6, 62, 3, 0xf3],
                &wholes,
            ]
            .concat(),
        ),
        ("stops", [&[3, 0xf0][..], &both(1, 41, 0), &wholes, &firsts[..14]].concat()),
        ("others", [&[1, 40, 8, 0, 0x45, 0, 0, 38][..], &[0; 34], &[2, 4, 8, 6, 0, 1]].concat()),
    ];
    all.into_iter().map(|(name, bytes)| ("grantor", name.to_owned(), bytes)).collect()
}

/// The same, and random ones.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let some = (0..8).map(|n| ("grantor", format!("random_{n:02}"), random(n, 30)));
    pieces().into_iter().chain(some).collect()
}

/// A random input of so many pieces, those of the seeds, of which some bytes are others.
pub fn random(seed: u64, n: usize) -> Vec<u8> {
    crate::shield::mixed(&pieces(), seed, n, &[6, 3, 4, 5])
}
