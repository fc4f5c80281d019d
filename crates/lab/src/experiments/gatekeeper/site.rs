//! A Gatekeeper's tables and graphs on the bench, without the daemon.
//!
//! ```text
//!  front 10.0.0.1 ─► 10.20.0.0/16 is protected ─► back 10.0.2.1 ─► Grantor 10.0.2.9
//! ```
//!
//! Or with a policy in the same graph, which declines all that asks; 10.0.2.9 is the next hop
//! of what is protected then.

use std::collections::VecDeque;
use std::sync::Arc;

use graph::ring::{frames, spsc};
use graph::{Graph, clock};
use io::Port;
use lookup::exact::flow::{Wanted, engine};
use lookup::lpm::Options;
use lookup::sync::{Domain, Published};
use nodes::assembly::{Assembly, Common};
use nodes::gatekeeper::flows::{Flows, Heard};
use nodes::gatekeeper::mix::Mix;
use nodes::gatekeeper::programs::Programs;
use nodes::gatekeeper::settings::{Counters, Ends, Settings};
use nodes::gatekeeper::solicit::DECISION;
use nodes::gatekeeper::solicitor::{CAPACITY, Channel, SHARE, channel_bytes};
use nodes::gatekeeper::{ENTRY, Here, Parts, add};
use nodes::grantor::{self, settings as granting};
use nodes::parse::owner::Owners;
use nodes::switch::Bridging;
use nodes::{router, switch};
use policy::ask::{Asker, Full, Question, Verdict};
use tables::control::{MAIN_TABLE, VrfConfig};
use tables::event::{
    Address, Event, How, Link, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{
    Action, Control, Forwarding, Iface, LOCAL, Limits, LinkId, Named, PortId, Protect, SetId, Side,
    VrfId,
};

use crate::matching::fixed_seed;

/// The machine's address on every port, and that of the Grantor: what left comes in again.
pub(super) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Where it is at the back.
pub(super) const BACK: [u8; 4] = [10, 0, 2, 1];
/// Who decides.
pub(super) const GRANTOR: [u8; 4] = [10, 0, 2, 9];
/// The first address of what is protected, 16 bits long.
pub(super) const PROTECTED: u32 = 0x0a14_0000;

/// What the workers of a Gatekeeper share.
pub(super) struct Site {
    pub domain: Arc<Domain>,
    pub forwarding: Arc<Forwarding>,
    /// The protection.
    pub set: SetId,
    pub owners: Arc<Owners>,
    settings: Arc<Published<Settings>>,
    /// What decisions may name.
    pub programs: Arc<Published<Programs>>,
    channel: Arc<Channel>,
    /// The channel of decisions that are made here.
    here: Option<Arc<Channel>>,
}

/// One worker: its graph without ports, and what reaches into it.
pub(super) struct Worker {
    pub graph: Graph,
    pub counters: Arc<Counters>,
    /// Decisions, as from another worker.
    pub heard: spsc::Producer<Heard>,
    /// Of its Grantor, where decisions are made here.
    pub grantor: Option<Arc<granting::Counters>>,
}

/// Rings of decisions, of one worker.
pub(super) struct Rings {
    hears: Vec<spsc::Producer<Heard>>,
    heard: Vec<spsc::Consumer<Heard>>,
}

/// Hardware addresses.
pub(super) struct Links {
    /// Ours, at the front and at the back.
    pub ours: [[u8; 6]; 2],
    pub grantor: [u8; 6],
    /// Hosts at the front.
    pub clients: Vec<[u8; 4]>,
    pub client: [u8; 6],
}

impl Site {
    /// Of so many workers, with a back of so many bits a second; nobody is at the front.
    pub fn new(workers: usize, bits_per_s: u64) -> Result<Site, String> {
        let links = Links { ours: [MAC; 2], grantor: MAC, clients: Vec::new(), client: MAC };
        Site::between(workers, bits_per_s, &links)
    }

    /// Of one worker, whose policy is asked about so many packets a second.
    pub fn one_box(decisions_per_s: u64) -> Result<Site, String> {
        let links = Links { ours: [MAC; 2], grantor: MAC, clients: Vec::new(), client: MAC };
        let site = Site::of(1, 1, &links, true)?;
        let channel = Channel::new(decisions_per_s * DECISION, 1, clock::now());
        Ok(Site { here: Some(channel), ..site })
    }

    /// The same, with these hosts beside it.
    pub fn between(workers: usize, bits_per_s: u64, links: &Links) -> Result<Site, String> {
        Site::of(workers, bits_per_s, links, false)
    }

    fn of(workers: usize, bits_per_s: u64, links: &Links, here: bool) -> Result<Site, String> {
        let said = |error: tables::Error| error.to_string();
        let domain = Domain::new();
        let control = Control::new(&domain, Limits::default(), &VrfConfig::default());
        let mut control = control.map_err(said)?;
        let mut events = Vec::new();
        for (port, side) in [(0_u16, Side::Front), (1, Side::Back)] {
            let (name, mac) = (format!("p{port}"), links.ours[usize::from(port)]);
            let iface = Iface { name: name.clone(), port: PortId(port), mac, ..Iface::default() };
            control.add_iface(Iface { mtu: 1500, side, ..iface }).map_err(said)?;
            let index = LinkId(u32::from(port) + 1);
            let link = Link { index, name, up: true, mtu: 1500, mac, ..Link::default() };
            events.push(Event::Link(link));
        }
        control.handle(&events);
        control.handle(&[
            address(1, [10, 0, 0, 1]),
            address(2, BACK),
            route(1, "10.0.0.0/24", None),
            route(2, "10.0.2.0/24", None),
            neighbour(2, GRANTOR, links.grantor),
        ]);
        if here {
            control.handle(&[route(2, "10.20.0.0/16", Some(GRANTOR))]);
        }
        let clients = links.clients.iter().map(|&ip| neighbour(1, ip, links.client));
        control.handle(&clients.collect::<Vec<_>>());
        let named = Named { ip: GRANTOR.into(), weight: 1, shadow: false };
        let protect = Protect {
            net: "10.20.0.0/16".parse().map_err(|error| format!("{error}"))?,
            action: Action::Protect,
            options: if here { LOCAL } else { 0 },
            grantors: if here { Vec::new() } else { vec![named] },
        };
        let set = control.protect(VrfId(0), &protect).map_err(said)?;
        control.commit();
        let from = Ends { v4: Some(BACK.into()), ..Settings::default().from };
        let settings = Settings { from, ..Settings::default() };
        Ok(Site {
            forwarding: control.forwarding().clone(),
            set,
            owners: Arc::new(Owners::new(1, workers as u16)),
            settings: Arc::new(Published::new(&domain, settings)),
            programs: Arc::new(Published::new(&domain, Programs::default())),
            channel: Channel::new(channel_bytes(bits_per_s, SHARE), workers, clock::now()),
            here: None,
            domain,
        })
    }

    /// Rings from each of so many workers to each.
    pub fn rings(workers: usize) -> Vec<Rings> {
        let mut all: Vec<Rings> = (0..workers).map(|_| Rings::none()).collect();
        for from in 0..workers {
            for to in 0..workers {
                let (hears, heard) = spsc::ring(DECISIONS);
                all[from].hears.push(hears);
                all[to].heard.push(heard);
            }
        }
        all
    }

    /// A worker whose table has so many places, so many percent of them for decided flows;
    /// `ports` are front and back.
    pub fn worker(
        &self,
        (number, rings): (usize, Rings),
        (places, percent): (usize, u8),
        ports: Vec<Box<dyn Port>>,
    ) -> Result<Worker, String> {
        let table = engine("flow-table").ok_or("no engine `flow-table`")?;
        let wanted = Wanted { entries: places - 1, second: clock::hz() };
        let table =
            (table.build)(wanted, &options(percent)).map_err(|refusal| refusal.to_string())?;
        let (to_kernel, _) = frames::ring(1 << 16);
        let (_, from_kernel) = frames::ring(1 << 16);
        let common = Common::alone(self.forwarding.clone(), (to_kernel, from_kernel), 2);
        let (heard, from) = spsc::ring(DECISIONS);
        let (makes, made) = spsc::ring(DECISIONS);
        let here = self.here.as_ref();
        let here = here.map(|channel| Here { member: channel.member(number), hears: vec![makes] });
        let grantor = here.is_some().then(granting::Counters::new);
        let counters = Counters::new(16);
        let parts = Parts {
            settings: self.settings.clone(),
            counters: counters.clone(),
            mix: Mix::new(1),
            flows: Some(Flows::new(table, false)),
            heard: rings.heard.into_iter().chain([from, made]).collect(),
            hears: rings.hears,
            programs: self.programs.clone(),
            capacity: CAPACITY,
            member: self.channel.member(number),
            here,
        };
        let owned = Assembly::new(common).owned(Some(self.owners.clone()));
        let assembly = router::add(switch::add(owned, Bridging::none()));
        let mut assembly = router::shield(add(assembly, parts), false, ENTRY);
        if let Some(counters) = grantor.clone() {
            let settings = Published::new(&self.domain, granting::Settings::default());
            let (settings, asker) = (Arc::new(settings), Some(Box::new(Declines::default()) as _));
            let parts =
                grantor::Parts { settings, counters, asker, capacity: WAITING, fragments: 0 };
            assembly = grantor::add(assembly, parts, Some("ip4_special"));
            assembly = router::tunnels(assembly, (false, true), grantor::ENTRY);
        }
        let mut graph = assembly.finish().build(number).map_err(|error| error.to_string())?;
        for (number, port) in ports.into_iter().enumerate() {
            graph.ports().set(number as u16, port);
        }
        Ok(Worker { graph, counters, heard, grantor })
    }
}

/// A policy that declines whoever asks, at the next look.
struct Declines(VecDeque<u32>);

impl Default for Declines {
    fn default() -> Self {
        Declines(VecDeque::with_capacity(WAITING))
    }
}

impl Asker for Declines {
    fn ask(&mut self, question: &Question<'_>) -> Result<(), Full> {
        if self.0.len() == WAITING {
            return Err(Full);
        }
        self.0.push_back(question.id);
        Ok(())
    }

    fn verdicts(&mut self, most: usize, take: &mut dyn FnMut(Verdict)) -> usize {
        let n = most.min(self.0.len());
        let decision = Some(wire::ggu::Verdict::Declined { expire_s: 600 });
        self.0.drain(..n).for_each(|id| take(Verdict { id, forward: false, decision }));
        n
    }

    fn flush(&mut self) {}
}

impl Rings {
    /// Of a worker to which nobody speaks.
    pub fn none() -> Rings {
        Rings { hears: Vec::new(), heard: Vec::new() }
    }
}

fn options(percent: u8) -> Options {
    let mut options = fixed_seed();
    options.0.insert("decided_max".into(), percent.to_string());
    options
}

fn address(link: u32, ip: [u8; 4]) -> Event {
    Event::Address(Address { link: LinkId(link), ip: ip.into(), len: 24 })
}

fn neighbour(link: u32, ip: [u8; 4], mac: [u8; 6]) -> Event {
    let (mac, state) = (Some(mac), NeighbourState::Permanent);
    Event::Neighbour(Neighbour { link: LinkId(link), ip: ip.into(), mac, state })
}

fn route(link: u32, net: &str, via: Option<[u8; 4]>) -> Event {
    let via = via.map(Into::into);
    let path = Path { link: LinkId(link), via, weight: 1, mtu: 0 };
    let route = Route {
        table: MAIN_TABLE,
        net: net.parse().expect("it is written here"),
        metric: 0,
        protocol: 2,
        source: Source::Kernel,
        target: Target::Path(path),
    };
    Event::Route(route, How::Create)
}

/// Decisions that wait in a ring.
const DECISIONS: usize = 1 << 12;
/// Packets that wait for the policy of this graph.
const WAITING: usize = 1 << 10;
