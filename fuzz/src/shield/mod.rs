//! A worker of a Gatekeeper between a front and a back, driven by bytes: frames, messages of
//! Grantors, neighbours that come and go, options, lists and flushes, and a clock that jumps
//! forwards and backwards. After each step
//!
//! - the accounting law holds, and no packet is lost to the pool
//! - nothing from the front that is protected, bypassed or dropped was punted
//! - what left at the back is in an outer header to a Grantor, on the way of a bypass, or sent
//!   straight on by a program; of what is dropped nothing left
//! - what left at the front is an ICMP error, of a rate
//!
//! ```text
//!  bytes:  operation, arguments │ operation, arguments │ …
//!    0 client, host, TTL, kind, length       a packet at the front
//!    1 length, bytes                         a frame at the front, whatever it is
//!    2 length, bytes                         a message of the Grantor: what is behind UDP
//!    3 length, bytes                         a frame at the back
//!    4 up                                    the Grantor's neighbour
//!    5 options                               of the protection
//!    6 whose                                 decisions count
//!    7 filter                                flows are listed, and flushed
//!    8 shift                                 time goes 2^(shift & 63) ticks on, or back (bit 7)
//!    9 how                                   the policy answers from now on
//! ```
//!
//! Bytes that begin with [`HERE`] are what happens to one that is Gatekeeper and Grantor in one
//! graph. What left at the back of that left as it came, and was no IP in IP, whichever way a
//! program named. The stock programs are loaded in both.

pub mod seeds;
mod site;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use graph::ring::{frames, spsc};
use graph::{Counter, Job, Progress, clock};
use lookup::exact::flow::{Wanted, engine};
use lookup::lpm::Options;
use lookup::sync::{Domain, Published};
use nodes::gatekeeper::flows::Flows;
use nodes::gatekeeper::listing::{Filter, Flush, List, State};
use nodes::gatekeeper::mix::Mix;
use nodes::gatekeeper::programs::Programs;
use nodes::gatekeeper::settings::{Counters, DecisionsFrom, SHADOW, Settings};
use nodes::gatekeeper::shield::Shield;
use nodes::gatekeeper::solicit::DECISION;
use nodes::gatekeeper::solicitor::Channel;
use nodes::gatekeeper::{ENTRY, Here, Parts, add};
use nodes::grantor::{self, settings as granting};
use nodes::switch::Bridging;
use nodes::{router, switch};
use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use tables::event::NeighbourState;
use tables::{Control, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;

use crate::says::Policy;
use crate::site::{MACS, neighbour};
use crate::worker::Worker;
use site::{GRANTOR, PEER, control, decided_here, protect, settings};

/// Bytes as what happens to a shield.
pub fn shield(bytes: &[u8]) {
    reached(bytes);
}

/// What it drops with these bytes, by node and reason, and what it does with the rest.
pub fn reached(bytes: &[u8]) -> BTreeMap<String, u64> {
    let (is_here, mut rest) = match bytes {
        [HERE, rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let mut world = World::new(is_here);
    for _ in 0..1_024 {
        let Some((&code, more)) = rest.split_first() else { break };
        rest = more;
        let length = match code & 15 {
            0 => 5,
            1..=3 => {
                let Some((&length, more)) = rest.split_first() else { break };
                rest = more;
                usize::from(length)
            }
            _ => 1,
        };
        let Some((arguments, more)) = rest.split_at_checked(length) else { break };
        rest = more;
        world.does(code & 15, arguments);
        world.run();
    }
    world.end()
}

struct World {
    worker: Worker,
    control: Control,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    /// What decides in this graph.
    here: Option<(Policy, Arc<granting::Counters>)>,
    /// The IPv4 protection is one of a shadow.
    in_shadow: bool,
    /// Frames that a program has sent straight on.
    straight: u64,
}

impl World {
    fn new(is_here: bool) -> World {
        let domain = Domain::new();
        let control = control(&domain, is_here);
        let settings = Arc::new(Published::new(&domain, settings(DecisionsFrom::ItsGrantors)));
        let counters = Counters::new(8);
        let wanted = Wanted { entries: 64, second: clock::hz() };
        let build = engine("flow-table").expect("our own engine").build;
        let table = build(wanted, &Options::default()).expect("a small table");
        let (hears, heard) = spsc::ring(64);
        let (makes, made) = spsc::ring(64);
        let member = Channel::new(DECISIONS_PER_S * DECISION, 1, clock::now()).member(0);
        let parts = Parts {
            settings: settings.clone(),
            counters: counters.clone(),
            mix: Mix::new(1),
            flows: Some(Flows::new(table, false)),
            heard: vec![heard, made],
            hears: vec![hears],
            programs: Arc::new(Published::new(&domain, PROGRAMS.clone())),
            capacity: 8,
            member: Channel::new(10_000_000, 1, clock::now()).member(0),
            here: is_here.then(|| Here { member, hears: vec![makes] }),
        };
        let here = is_here.then(|| (Policy::new(false), granting::Counters::new()));
        let grants = here.as_ref().map(|(policy, counters)| {
            let settings = granting::Settings { asked: 4, ..granting::Settings::default() };
            grantor::Parts {
                settings: Arc::new(Published::new(&domain, settings)),
                counters: counters.clone(),
                asker: Some(Box::new(policy.clone())),
                capacity: 8,
                fragments: 80,
            }
        });
        let worker = Worker::new(&domain, &control, |assembly| {
            let assembly = router::add(switch::add(assembly, Bridging::none()));
            let assembly = router::shield(add(assembly, parts), false, ENTRY);
            let Some(grants) = grants else { return assembly };
            let assembly = grantor::add(assembly, grants, Some("ip4_special"));
            router::tunnels(assembly, (false, true), grantor::ENTRY)
        });
        World { worker, control, settings, counters, here, in_shadow: false, straight: 0 }
    }

    fn does(&mut self, code: u8, arguments: &[u8]) {
        match code {
            0 => {
                self.packet([arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]])
            }
            1 => self.worker.peers[0].push(&framed(MACS[0], arguments)),
            2 => {
                let ends = ("10.0.2.9:41120", "10.0.2.1:45232");
                let from = ends.0.parse().expect("an address");
                let frame = Frame::udp4(from, ends.1.parse().expect("an address"));
                let frame = frame.macs(Mac(GRANTOR), Mac(MACS[1])).payload(arguments);
                self.worker.peers[1].push(&frame.build());
            }
            3 => self.worker.peers[1].push(&framed(MACS[1], arguments)),
            4 => {
                let up = arguments[0] & 1 == 1;
                let state = if up { NeighbourState::Reachable } else { NeighbourState::Failed };
                self.control.handle(&[neighbour(2, "10.0.2.9", GRANTOR, state)]);
                self.control.handle(&[neighbour(2, "2001:db8:2::9", GRANTOR, state)]);
            }
            5 => {
                let options = if arguments[0] & 1 == 1 { SHADOW } else { 0 };
                let shadow = arguments[0] & 2 == 2;
                let changed = match self.here {
                    Some(_) => decided_here("10.20.0.0/16", options),
                    None => protect("10.20.0.0/16", options, shadow),
                };
                self.in_shadow = options != 0;
                self.control.change_protection(VrfId(0), &changed).expect("it is there");
                self.control.commit();
            }
            6 => {
                let all =
                    [DecisionsFrom::ItsGrantors, DecisionsFrom::Grantors, DecisionsFrom::Anybody];
                self.settings.publish(settings(all[usize::from(arguments[0] % 3)]));
            }
            7 => self.flush(arguments[0]),
            9 => {
                if let Some((policy, _)) = &self.here {
                    policy.answers(arguments[0]);
                }
            }
            _ => self.worker.jump(arguments[0]),
        }
    }

    fn packet(&mut self, [client, host, ttl, kind, len]: [u8; 5]) {
        let payload = vec![kind; usize::from(len) * if kind & 128 == 128 { 6 } else { 1 }];
        let net = [20, 20, 20, 21, 22, 9][usize::from(host % 6)];
        let v4 = std::net::SocketAddrV4::new([198, 51, 100, client & 15].into(), 4_000);
        let to = std::net::SocketAddrV4::new([10, net, 0, host].into(), 53);
        let v6 = std::net::Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, client.into());
        let to6 = std::net::Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 0, host.into());
        let frame = if kind & 64 == 0 {
            Frame::udp4(v4, to)
        } else {
            let at = |ip, port| std::net::SocketAddrV6::new(ip, port, 0, 0);
            Frame::udp6(at(v6, 4_000), at(to6, 53))
        };
        let frame = match kind & 7 {
            1 => frame.fragment(7, 0, true),
            2 if kind & 16 == 16 => frame.fragment(7, 16, false),
            2 => frame.fragment(7, 1_480, false),
            3 if kind & 64 == 0 => frame.options(&[7, 4, 4, 0]),
            3 => frame.extension(60, [1, 4, 0, 0, 0, 0]),
            4 => frame.wrong_checksum(),
            5 => frame.claim_len(u16::from(len) * 7),
            6 => frame.pad_to(200),
            _ => frame,
        };
        let to = if kind & 32 == 0 { MACS[0] } else { [0xff; 6] };
        self.worker.peers[0]
            .push(&frame.ttl(ttl).payload(&payload).macs(Mac(PEER), Mac(to)).build());
    }

    fn flush(&mut self, which: u8) {
        let state = [None, Some(State::Request), Some(State::Granted), Some(State::Declined)];
        let filter = Filter { state: state[usize::from(which & 3)], ..Filter::default() };
        let node = self.worker.graph.node_mut::<Shield>().expect("it is there");
        let mut list = List::new(filter.clone());
        let (Progress::More(part) | Progress::Last(part)) = list.step(node, 1 << 20);
        let listed = part.len();
        let mut flush = Flush::new(filter);
        let (Progress::More(gone) | Progress::Last(gone)) = flush.step(node, 1 << 20);
        assert_eq!(gone, listed, "what is flushed was listed");
    }

    fn run(&mut self) {
        self.worker.run(true);
        let punted = |meta: frames::Meta, frame: &[u8]| {
            assert!(meta.iface != 1 || !covered(frame), "punted: {frame:x?}");
        };
        while self.worker.kernel.pop(punted).is_some() {}
        for frame in self.worker.peers[1].take() {
            let from_front = frame[..6] == GRANTOR && frame[6..12] == MACS[1];
            let outer = match frame[12..14] {
                [8, 0] => frame[23] == 4 && frame[30..34] == [10, 0, 2, 9],
                _ => frame[20] == 41,
            };
            let bypass = frame[12..14] == [8, 0] && frame[30..32] == [10, 21];
            let v4 = frame[12..14] == [8, 0] && frame[30..32] == [10, 20];
            let shadow = self.in_shadow && v4;
            let v6 = frame[12..14] == [0x86, 0xdd] && covered(&frame);
            let protocol = if frame[12..14] == [8, 0] { frame[23] } else { frame[20] };
            let is_nested = [4, 41].contains(&protocol);
            let by_program = self.counters.decisions.all.by_program.get() > 0;
            let straight = by_program && (v4 || v6) && dscp(&frame) == 1;
            let right = match self.here {
                Some(_) => (v4 || v6 || bypass) && !outer && !(is_nested && !bypass && !shadow),
                None => outer || bypass || shadow || straight,
            };
            self.straight += u64::from(self.here.is_none() && !outer && straight);
            assert!(from_front && right, "left: {frame:x?}");
        }
        for frame in self.worker.peers[0].take() {
            let icmp = frame[12..14] == [8, 0] && frame[23] == 1 || frame[20] == 58;
            let routed = frame[26..28] == [10, 0] || frame[12] == 0x86;
            assert!(icmp || routed, "left at the front: {frame:x?}");
        }
    }

    fn end(self) -> BTreeMap<String, u64> {
        let all = &self.counters.all;
        let verdicts = [&all.requests, &all.granted, &all.declined, &all.dropped];
        let asked: u64 = verdicts.map(Counter::get).iter().sum();
        let Counters { errors, decisions, shadows, .. } = &*self.counters;
        let counts = [
            ("asked", &all.requests),
            ("granted", &all.granted),
            ("declined", &all.declined),
            ("too long for the back", &errors.too_long),
            ("ttl exceeded", &errors.ttl_exceeded),
            ("unreachable", &errors.unreachable),
            ("decided: granted", &decisions.all.granted),
            ("decided: declined", &decisions.all.declined),
            ("decided: by program", &decisions.all.by_program),
            ("not its Grantor", &decisions.all.not_its_grantor),
            ("shadow passed", &shadows.passed),
        ];
        let straight = Counter::default();
        straight.add(self.straight);
        let here = self.here.iter().flat_map(|(_, of)| {
            [
                ("here: asked", &of.asked),
                ("here: granted", &of.forwarded),
                ("here: denied", &of.denied),
                ("here: undecided", &of.undecided),
                ("here: decisions", &of.decisions),
                ("here: renewals", &of.renewals),
                ("here: refused", &of.refused),
                ("here: late", &of.late),
                ("here: whole", &of.whole),
            ]
        });
        let straight = [("straight on", &straight)];
        let counts: Vec<_> = counts.into_iter().chain(here).chain(straight).collect();
        let (received, reached) = self.worker.end(&counts);
        assert!(asked <= received, "verdicts on more than came");
        reached
    }
}

/// The first byte of what happens to both roles in one graph.
const HERE: u8 = 15;
/// Decisions of its policy, at most.
const DECISIONS_PER_S: u64 = 1_000_000;

/// The stock programs, at the clock's first rate.
static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let hz = clock::hz();
    let clock = Clock { cycles_per_sec: hz, cycles_per_ms: hz / 1_000 };
    let mut programs = Programs::default();
    for stock in STOCK {
        let program = load(stock.object, clock).expect("it passes its check");
        programs.set(stock.index, Some(Arc::new(program)));
    }
    programs
});

/// A frame to this machine with whatever is behind the addresses.
fn framed(to: [u8; 6], rest: &[u8]) -> Vec<u8> {
    [&to[..], &PEER, rest].concat()
}

/// In its IP header.
fn dscp(frame: &[u8]) -> u8 {
    match frame[14] >> 4 {
        4 => frame[15] >> 2,
        _ => (frame[14] & 15) << 2 | frame[15] >> 6,
    }
}

/// Whether its destination is in what the shield has.
fn covered(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([8, 0]) => frame.get(30..32).is_some_and(|net| matches!(net, [10, 20..=22])),
        Some([0x86, 0xdd]) => frame.get(38..44) == Some(&[0x20, 1, 0x0d, 0xb8, 0, 20]),
        _ => false,
    }
}
