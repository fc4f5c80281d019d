//! A worker of a Gatekeeper between a front and a back.

use std::sync::Arc;

use graph::ring::{frames, spsc};
use graph::{Graph, Snapshot, clock};
use io::mem::{Peer, connect};
use io::{Device, Pool, PoolConfig};
use lookup::exact::flow::{FlowKey, Wanted, engine};
use lookup::lpm::Options;
use lookup::sync::{Domain, Published, Thread};
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Action, Control, Iface, Limits, Named, PortId, Protect, SetId, Side};
use tables::{VrfConfig, VrfId};
use wire::ggu::Verdict as Decision;

use super::super::flows::{Flows, Heard};
use super::super::machine::Machine;
use super::super::mix::Mix;
use super::super::programs::Programs;
use super::super::settings::{Counters, Ends, Settings};
use super::super::shield::Shield;
use super::super::solicitor::{CAPACITY, Channel, Member};
use super::super::times::Times;
use super::super::{ENTRY, Parts, add};
use crate::assembly::{Assembly, Common};
use crate::parse::owner::Owners;
use crate::switch::Bridging;
use crate::testbed::{P0, P1, to_p0, udp4};
use crate::{router, switch};

/// Of the other back port.
pub(super) const P2: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The Grantor's.
pub(super) const GRANTOR: [u8; 6] = [4, 0, 0, 0, 0, 9];

pub(super) struct Rig {
    pub(super) graph: Graph,
    pub(super) front: Peer,
    pub(super) back: Peer,
    pub(super) other_back: Peer,
    pub(super) kernel: frames::Consumer,
    pub(super) control: Control,
    pub(super) thread: Thread,
    pub(super) pool: Pool,
    pub(super) counters: Arc<Counters>,
    pub(super) settings: Arc<Published<Settings>>,
    pub(super) programs: Arc<Published<Programs>>,
    pub(super) heard: spsc::Producer<Heard>,
    _to_router: frames::Producer,
}

pub(super) fn address(link: u32, text: &str) -> Event {
    let (ip, len) = text.split_once('/').unwrap();
    let (ip, len) = (ip.parse().unwrap(), len.parse().unwrap());
    Event::Address(Address { link: LinkId(link), ip, len })
}

pub(super) fn route(net: &str, link: u32, via: Option<&str>) -> Event {
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

pub(super) fn neighbour(ip: &str, state: NeighbourState) -> Event {
    let (link, ip, mac) = (LinkId(2), ip.parse().unwrap(), Some(GRANTOR));
    Event::Neighbour(Neighbour { link, ip, mac, state })
}

pub(super) fn control(domain: &Arc<Domain>) -> Control {
    let mut control = Control::new(domain, Limits::default(), &VrfConfig::default()).unwrap();
    let mut events = Vec::new();
    for (i, mac) in [P0, P1, P2].into_iter().enumerate() {
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
        address(3, "10.0.3.1/24"),
        route("10.0.0.0/24", 1, None),
        route("10.0.2.0/24", 2, None),
        route("2001:db8:2::/64", 2, None),
        route("10.0.3.0/24", 3, None),
        route("10.0.0.0/8", 2, Some("10.0.2.9")),
        neighbour("10.0.2.9", NeighbourState::Reachable),
        neighbour("2001:db8:2::9", NeighbourState::Reachable),
    ]);
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
    control
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::with(1 << 12, "")
    }

    /// With a table of so many entries, or none, and this rule for a full one.
    pub(super) fn with(entries: usize, full: &str) -> Rig {
        Rig::paced(entries, full, 125_000_000)
    }

    /// The same with a channel of so many bytes a second.
    pub(super) fn paced(entries: usize, full: &str, bytes_per_s: u64) -> Rig {
        let domain = Domain::new();
        let control = control(&domain);
        let pool = Pool::new(&PoolConfig { packets: 4096, mtu: 9000, large_pages: false }).unwrap();
        let (heard, from) = spsc::ring(1 << 10);
        let (hears, heard_here) = spsc::ring(1 << 10);
        let of = Of { domain: &domain, control: &control, pool: &pool, owners: None };
        let channel = Channel::new(bytes_per_s, 1, clock::now());
        let rings = (vec![from, heard_here], vec![hears]);
        let seat = of.seat(channel.member(0), rings, entries, full);
        let Seat {
            graph,
            front,
            back,
            other_back,
            kernel,
            counters,
            settings,
            programs,
            _to_router,
        } = seat;
        let thread = domain.register("rig");
        Rig {
            graph,
            front,
            back,
            other_back,
            kernel,
            control,
            thread,
            pool,
            counters,
            settings,
            programs,
            heard,
            _to_router,
        }
    }

    /// What leaves at the back once `frames` came in at the front.
    pub(super) fn send(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| self.front.push(frame));
        self.run();
        self.back.take()
    }

    pub(super) fn run(&mut self) -> Snapshot {
        let counts = self.work();
        assert!(self.kernel.is_empty(), "nothing that is protected goes to the kernel");
        counts
    }

    /// Runs until nothing comes any more.
    pub(super) fn work(&mut self) -> Snapshot {
        // The channel has room for all.
        while self.graph.poll(self.thread.guard()) > 0 || self.graph.stats().balance().held > 0 {
            self.thread.quiesce();
        }
        let counts = self.graph.stats().snapshot();
        assert!(counts.law.holds(), "{:?}", counts.law);
        assert_eq!(self.pool.available() as u64 + counts.law.held, self.pool.size() as u64);
        counts
    }

    pub(super) fn dropped(&mut self, node: &str, why: &str) -> u64 {
        self.run().dropped(node, why)
    }

    pub(super) fn set(&self, dst: &str) -> SetId {
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
    pub(super) fn decide(&mut self, dst: &str, decision: Decision) {
        self.decide_as_of(self.set(dst), dst, decision);
    }

    /// The same, heard when `set` was the protection.
    pub(super) fn decide_as_of(&mut self, set: SetId, dst: &str, decision: Decision) {
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
        let heard = Heard { key, set, decided };
        assert!(self.heard.push(heard).is_ok());
        // With a packet that is none of ours: an idle graph does not tick at once.
        self.front.push(&to_p0(udp4("10.22.0.1")));
        self.run();
    }

    pub(super) fn flows(&mut self) -> &mut Flows {
        self.graph.node_mut::<Shield>().unwrap().flows().unwrap()
    }
}

/// One worker, and the other ends of all that goes in and out.
pub(super) struct Seat {
    pub(super) graph: Graph,
    pub(super) front: Peer,
    pub(super) back: Peer,
    pub(super) other_back: Peer,
    pub(super) kernel: frames::Consumer,
    pub(super) counters: Arc<Counters>,
    pub(super) settings: Arc<Published<Settings>>,
    pub(super) programs: Arc<Published<Programs>>,
    _to_router: frames::Producer,
}

/// What workers share.
pub(super) struct Of<'a> {
    pub(super) domain: &'a Arc<Domain>,
    pub(super) control: &'a Control,
    pub(super) pool: &'a Pool,
    pub(super) owners: Option<Arc<Owners>>,
}

/// Those from which a worker hears decisions, and those to which it passes them on.
pub(super) type Rings = (Vec<spsc::Consumer<Heard>>, Vec<spsc::Producer<Heard>>);

impl Of<'_> {
    /// A worker with ports of its own.
    pub(super) fn seat(&self, member: Member, rings: Rings, entries: usize, full: &str) -> Seat {
        let (to_kernel, kernel) = frames::ring(1 << 20);
        let (_to_router, from_kernel) = frames::ring(1 << 16);
        let common = Common::alone(self.control.forwarding().clone(), (to_kernel, from_kernel), 3);
        let counters = Counters::new(16);
        let settings = Arc::new(Published::new(self.domain, settings()));
        let programs = Arc::new(Published::new(self.domain, Programs::default()));
        let shared = (&settings, &counters, &programs);
        let parts = parts(shared, (rings, member), entries, full);
        let assembly = Assembly::new(common).owned(self.owners.clone());
        let assembly = router::add(switch::add(assembly, Bridging::none()));
        let assembly = router::shield(add(assembly, parts), false, ENTRY);
        let mut graph = assembly.finish().build(0).unwrap();
        let mut peers = Vec::new();
        for port in 0..3 {
            let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, port as u8], self.pool);
            graph.ports().set(port, device.start(1).unwrap().remove(0));
            peers.push(peer);
        }
        let [front, back, other_back] = peers.try_into().ok().unwrap();
        Seat { graph, front, back, other_back, kernel, counters, settings, programs, _to_router }
    }
}

/// Settings of the rigs.
pub(super) fn settings() -> Settings {
    let from = Ends {
        v4: Some([10, 0, 2, 1].into()),
        v6: Some("2001:db8:2::1".parse().unwrap()),
        hop_limit: 255,
    };
    Settings { from, ..Settings::default() }
}

type Shared<'a> = (&'a Arc<Published<Settings>>, &'a Arc<Counters>, &'a Arc<Published<Programs>>);

fn parts(
    (settings, counters, programs): Shared<'_>,
    ((heard, hears), member): (Rings, Member),
    entries: usize,
    full: &str,
) -> Parts {
    Parts {
        settings: settings.clone(),
        counters: counters.clone(),
        mix: Mix::new(1),
        flows: (entries > 0).then(|| flows("flow-table", entries, full)),
        heard,
        hears,
        programs: programs.clone(),
        capacity: CAPACITY,
        member,
        here: None,
    }
}

/// No flows, in a table of this name.
pub(super) fn flows(table: &str, entries: usize, full: &str) -> Flows {
    let wanted = Wanted { entries, second: clock::hz() };
    // The hash is always the same: what is swept when depends on it.
    let given = [("seed", "1"), ("full", full)].into_iter().filter(|(_, value)| !value.is_empty());
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options(given.collect());
    let table = (engine(table).unwrap().build)(wanted, &options).unwrap();
    Flows::new(table, full == "thesis")
}

/// `inner` behind the link header and this outer one of IPv4, whose checksum is right.
pub(super) fn in_v4(dscp: u8, inner: &[u8]) -> Vec<u8> {
    let len = inner.len() as u16 + 20;
    let mut outer = [0x45, dscp << 2, 0, 0, 0, 0, 0x40, 0, 64, 4, 0, 0, 10, 0, 2, 1, 10, 0, 2, 9];
    outer[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = wire::checksum::checksum(&outer).to_be_bytes();
    outer[10..12].copy_from_slice(&sum);
    [&GRANTOR[..], &P1, &[8, 0], &outer, inner].concat()
}

pub(super) fn in_v6(dscp: u8, inner: &[u8]) -> Vec<u8> {
    let len = (inner.len() as u16).to_be_bytes();
    let class = (0x6000_u16 | u16::from(dscp) << 6).to_be_bytes();
    let ends = ["2001:db8:2::1", "2001:db8:2::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>());
    let [from, to] = ends.map(|ip| ip.unwrap().octets());
    let head = [class[0], class[1], 0, 0, len[0], len[1], 41, 255];
    [&GRANTOR[..], &P1, &[0x86, 0xdd], &head, &from, &to, inner].concat()
}
