//! A shield between captures: what comes in at the front, by what was decided at the back.

use std::fs::File;
use std::net::Ipv4Addr;

use ::io::pcap::{ETHERNET, Reader, Style, Writer};
use api::apps::gatekeeper::{
    Action, Filter, Flow, Grantor, Protect, Protected, Reply, Request, State,
};
use api::apps::{Reply as AppReply, Request as AppRequest};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::{self, Decision, Verdict};

use super::*;

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEM: [u8; 6] = [2, 0, 0, 0, 0, 9];
const GRANTOR: [u8; 4] = [10, 0, 2, 9];

/// From client number `client` to host `host` of the protected network.
fn frame(client: u8, host: u8) -> Vec<u8> {
    let src = format!("198.51.100.{client}:1000").parse().unwrap();
    let dst = format!("203.0.113.{host}:53").parse().unwrap();
    Frame::udp4(src, dst).macs(Mac(THEM), Mac(US)).payload(&[7; 40]).build().to_vec()
}

/// What the Grantor says of the flow of [`frame`].
fn decision(client: u8, host: u8, verdict: Verdict) -> Vec<u8> {
    let flow =
        ggu::Flow::V4 { src: [198, 51, 100, client].into(), dst: [203, 0, 113, host].into() };
    let mut buffer = [0; 256];
    let [from, to] = [GRANTOR, [10, 0, 2, 1]].map(|ip| Ipv4Addr::from(ip).into());
    let mut message = ggu::Writer::new(&mut buffer, from, to, ggu::Ports::default()).unwrap();
    message.push(&Decision { flow, verdict }).unwrap();
    [&[2, 0, 0, 0, 0, 2], &THEM[..], &[8, 0], message.finish()].concat()
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut out = Writer::new(File::create(path).unwrap(), Style::Pcap, ETHERNET).unwrap();
    frames.iter().for_each(|frame| out.write(frame, 0).unwrap());
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut file = Reader::new(File::open(path).unwrap()).unwrap();
    while let Some(frame) = file.next_frame().unwrap() {
        all.push(frame.data.to_vec());
    }
    all
}

/// Inner source, inner destination, outer DSCP.
fn seen(frame: &[u8]) -> (u8, u8, u8) {
    assert_eq!((frame[14], frame[23], &frame[30..34]), (0x45, 4, &GRANTOR[..]), "to the Grantor");
    (frame[34 + 15], frame[34 + 19], frame[15] >> 2)
}

struct Rig {
    folder: Folder,
    running: Option<Running>,
    _stopped: Receiver<Stop>,
    _instance: Instance,
}

impl Rig {
    fn start(name: &str, front: &[Vec<u8>], back: &[Vec<u8>], more: &str) -> Rig {
        Rig::with_mtu(name, 1_530, [front, back], more)
    }

    fn with_mtu(name: &str, mtu: u16, frames: [&[Vec<u8>]; 2], more: &str) -> Rig {
        Rig::with(name, frames, |text| text.replace("1530", &mtu.to_string()) + more)
    }

    /// From another configuration than the usual one.
    fn with(name: &str, [front, back]: [&[Vec<u8>]; 2], edit: impl Fn(String) -> String) -> Rig {
        let folder = Folder::new(name);
        let at = |name: &str| folder.0.join(name).display().to_string();
        write(&folder.0.join("front.pcap"), front);
        write(&folder.0.join("back.pcap"), back);
        let text = format!(
            "workers = [0]\nbuffers = 4096\n\
             [ports.p0]\ndevice = \"pcap:{},\"\nmac = \"02:00:00:00:00:01\"\n\
             addresses = [\"10.0.1.1/24\"]\n\
             [ports.p1]\ndevice = \"pcap:{},{}\"\nmac = \"02:00:00:00:00:02\"\n\
             addresses = [\"10.0.2.1/24\"]\nmtu = 1530\n\
             [[neighbour]]\ninterface = \"p1\"\naddress = \"10.0.2.9\"\nmac = \"{}\"\n\
             [gatekeeper]\nfront = [\"p0\"]\nback = [\"p1\"]\nentries = 4096\n\
             [[gatekeeper.protect]]\nprefix = \"203.0.113.0/25\"\ngrantors = [\"10.0.2.9\"]\n",
            at("front.pcap"),
            at("back.pcap"),
            at("out.pcap"),
            config::Mac(THEM),
        );
        let (running, _stopped, _instance) = start(&folder.0, &edit(text));
        Rig { folder, running: Some(running), _stopped, _instance }
    }

    /// Waits until so many packets have come in.
    fn took(&self, packets: u64) {
        let running = self.running.as_ref().unwrap();
        let begun = Instant::now();
        while running.state.snapshot().unwrap().law.received < packets {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", running.state.snapshot());
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(50)); // decisions are looked for each 1 ms
    }

    fn ask(&self, request: Request) -> Vec<Reply> {
        self.try_ask(request).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_ask(&self, request: Request) -> Result<Vec<Reply>, api::CallError> {
        let mut client = api::Client::connect(&self.folder.0.join("api.sock"))?;
        let mut all = Vec::new();
        for part in client.stream(&api::Request::App(AppRequest::Gatekeeper(request)))? {
            match part? {
                api::Reply::App(AppReply::Gatekeeper(reply)) => all.push(reply),
                api::Reply::Changed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        Ok(all)
    }

    fn flows(&self, filter: Filter) -> Vec<Flow> {
        let replies = self.ask(Request::Flows { filter, limit: None });
        let flows = replies.into_iter().flat_map(|reply| match reply {
            Reply::Flows(flows) => flows,
            other => panic!("{other:?}"),
        });
        flows.collect()
    }

    fn protections(&self) -> Vec<Protected> {
        let replies = self.ask(Request::Protections);
        let all = replies.into_iter().flat_map(|reply| match reply {
            Reply::Protections(all) => all,
            other => panic!("{other:?}"),
        });
        all.collect()
    }

    /// What doctor finds, by its name.
    fn doctor(&self, what: &str) -> Option<api::reply::Finding> {
        let mut client = api::Client::connect(&self.folder.0.join("api.sock")).unwrap();
        let show = api::Request::Show { what: api::What::Doctor };
        let api::Reply::Doctor(all) = client.call(&show).unwrap() else { panic!("no doctor") };
        all.into_iter().find(|finding| finding.what == what)
    }

    /// What is used of a line of `show capacity`, and its limit.
    fn capacity(&self, what: &str) -> (u64, u64) {
        let mut client = api::Client::connect(&self.folder.0.join("api.sock")).unwrap();
        let show = api::Request::Show { what: api::What::Capacity };
        let api::Reply::Capacity(all) = client.call(&show).unwrap() else { panic!("no capacity") };
        let line = all.iter().find(|line| line.what == what);
        line.map(|line| (line.used, line.limit.unwrap())).unwrap_or_else(|| panic!("{what}"))
    }

    fn stop(mut self) -> Vec<Vec<u8>> {
        self.running.take().unwrap().stop(Remove::Nothing).unwrap(); // the accounts balance
        frames(&self.folder.0.join("out.pcap"))
    }
}

const GRANT: Verdict = Verdict::Granted {
    rate_kib: 1_024,
    expire_s: 300,
    next_renewal_ms: 240_000,
    renewal_step_ms: 3_000,
};

#[test]
fn requests_ask_grants_pass_and_what_is_declined_does_not() {
    let cookie = nodes::gatekeeper::granted::parameters(512, 240_000, 3_000);
    let program = Verdict::Program { expire_s: 60, index: 0, cookie };
    let declined = Verdict::Declined { expire_s: 60 };
    let back = [decision(2, 5, GRANT), decision(3, 5, declined), decision(6, 5, program)];
    // The decisions are heard in the first polls: what comes later meets them.
    let mut front: Vec<_> = (0..400).map(|_| frame(9, 9)).collect();
    front.extend([frame(1, 5), frame(2, 5), frame(3, 5), frame(4, 200)]);
    let rig = Rig::start("shield", &front, &back, "");
    rig.took(407);
    let state = |client: u8| {
        let from = Some(format!("198.51.100.{client}/32"));
        let flows = rig.flows(Filter { from, ..Filter::default() });
        flows.first().map(|flow| flow.state)
    };
    assert_eq!(state(1), Some(State::Request));
    assert_eq!((state(2), state(3)), (Some(State::Granted), Some(State::Declined)));
    assert_eq!(state(4), None, "not protected");
    let granted = rig.flows(Filter { state: Some(State::Granted), ..Filter::default() });
    let one = &granted[0];
    assert_eq!((granted.len(), one.rate_kib, one.grantor), (1, Some(1_024), Some(GRANTOR.into())));
    assert!(one.left_ms > 290_000 && one.budget.is_some_and(|left| left < 1_048_576), "{one:?}");
    assert_eq!(one.protection.as_deref(), Some("203.0.113.0/25"));
    let by_program = rig.flows(Filter { program: Some(0), ..Filter::default() });
    let of = |flow: &Flow| (flow.state, flow.program, flow.rate_kib, flow.budget);
    let wanted = (State::Program, Some(0), Some(512), Some(512 * 1_024));
    assert_eq!(by_program.iter().map(of).collect::<Vec<_>>(), [wanted]);
    let Some(Reply::Show(shield)) = rig.ask(Request::Show).pop() else { panic!("no shield") };
    assert_eq!((shield.verdicts.granted, shield.verdicts.declined), (1, 1));
    let heard = |what: &str| shield.decisions.iter().find(|of| of.what == what).unwrap().count;
    assert_eq!((heard("granted"), heard("declined"), heard("ring_full")), (1, 1, 0));
    assert_eq!(shield.grantors[0].by, ["p1"]);
    assert_eq!(rig.protections()[0].verdicts.granted, 1);
    let out = rig.stop();
    let to_host: Vec<_> =
        out.iter().map(|frame| seen(frame)).filter(|(_, to, _)| *to == 5).collect();
    let of = |client: u8| to_host.iter().filter(move |(from, ..)| *from == client);
    assert_eq!(of(1).map(|(.., dscp)| *dscp).collect::<Vec<_>>(), [41]);
    assert_eq!(of(2).map(|(.., dscp)| *dscp).collect::<Vec<_>>(), [1]);
    assert_eq!((of(3).count(), of(4).count()), (0, 0));
}

/// The protected network is at the back by route, as it is without a shield.
const BY_ROUTE: &str = "[[route]]\nprefix = \"203.0.113.0/24\"\nvia = \"10.0.2.9\"\n";

#[test]
fn a_frame_without_the_tag_of_the_front_is_of_the_front() {
    let tagless: Vec<_> = (1..50).map(|client| frame(client, 5)).collect();
    let rig = Rig::with("shield-tagless", [&tagless, &[]], |text| {
        let tagged = "[ports.p0.vlan.100]\naddresses = [\"10.0.1.1/24\"]";
        let text = text.replace("addresses = [\"10.0.1.1/24\"]", tagged);
        text.replace("[\"p0\"]", "[\"p0.100\"]") + BY_ROUTE
    });
    rig.took(49);
    assert_eq!(rig.flows(Filter::default()).len(), 49);
    assert!(rig.doctor("sides").is_none());
    let Some(Reply::Show(shield)) = rig.ask(Request::Show).pop() else { panic!("no shield") };
    assert_eq!(shield.front, ["p0.100", "p0"]);
    rig.stop().iter().map(|frame| seen(frame)).for_each(|(_, host, _)| assert_eq!(host, 5));
}

#[test]
fn requests_that_wait_leave_buffers_for_others() {
    let asking = (0..2_000).map(|at: u16| frame(1 + (at / 100) as u8, (at % 100) as u8));
    let mut front: Vec<_> = asking.collect();
    front.extend((0..10).map(|_| frame(1, 200)));
    let rig = Rig::with("shield-waiting", [&front, &[]], |text| {
        let text = text.replace("buffers = 4096", "buffers = 512");
        let slow = "bandwidth_mbps = 1\nrequest_percent = 0.0008\nentries";
        let bypass = "[[gatekeeper.protect]]\nprefix = \"203.0.113.128/25\"\naction = \"bypass\"\n";
        text.replace("entries", slow) + bypass + BY_ROUTE
    });
    rig.took(2_010);
    let Some(Reply::Show(shield)) = rig.ask(Request::Show).pop() else { panic!("no shield") };
    assert_eq!((shield.requests.waiting, shield.requests.room), (128, 128));
    let bare = rig.stop().iter().filter(|frame| frame[23] == 17).count();
    assert_eq!(bare, 10);
}

#[test]
fn what_is_protected_changes_while_it_runs() {
    let front: Vec<_> = (0..100).map(|host| frame(1, host)).collect();
    let rig = Rig::start("shield-runs", &front, &[], "");
    rig.took(100);
    assert_eq!(rig.flows(Filter::default()).len(), 100);
    let limited = rig.ask(Request::Flows { filter: Filter::default(), limit: Some(7) });
    assert!(matches!(&limited[..], [Reply::Flows(flows)] if flows.len() == 7));
    let grantor = Grantor { address: GRANTOR.into(), weight: 1, shadow: false };
    let protect = |prefix: &str, action, grantors: &[Grantor]| Protect {
        prefix: prefix.into(),
        action,
        grantors: grantors.to_vec(),
        shadow: false,
    };
    let refused = |request| rig.try_ask(request).unwrap_err().to_string();
    let hole = refused(Request::Add(protect("203.0.113.64/26", Action::Bypass, &[])));
    assert!(hole.contains("203.0.113.64/26 (bypass) and 203.0.113.0/25 (protect)"), "{hole}");
    let own = refused(Request::Add(protect("10.0.0.0/8", Action::Drop, &[])));
    assert!(own.contains("a network of this router"), "{own}");
    assert!(refused(Request::Del { prefix: "203.0.113.0/26".into() }).contains("no protection"));
    rig.ask(Request::Add(protect("203.0.113.128/25", Action::Protect, &[grantor])));
    let prefixes = |rig: &Rig| -> Vec<String> {
        rig.protections().iter().map(|one| one.protect.prefix.clone()).collect()
    };
    assert_eq!(prefixes(&rig), ["203.0.113.0/25", "203.0.113.128/25"]);
    rig.ask(Request::Shadow { prefix: "203.0.113.128/25".into(), on: true });
    assert!(rig.protections()[1].protect.shadow);
    let other = Grantor { weight: 3, ..grantor };
    let change = |prefix: &str, shadow, flush| Request::Change {
        prefix: prefix.into(),
        action: Action::Protect,
        grantors: vec![other],
        shadow,
        flush,
    };
    rig.ask(change("203.0.113.0/25", None, false));
    assert_eq!(rig.protections()[0].protect.grantors, [other]);
    rig.ask(change("203.0.113.128/25", None, false));
    assert!(rig.protections()[1].protect.shadow, "a shadow that is not named stays");
    rig.ask(change("203.0.113.128/25", Some(false), false));
    assert!(!rig.protections()[1].protect.shadow);
    rig.ask(change("203.0.113.128/25", Some(true), false));
    assert!(rig.protections()[1].protect.shadow);
    assert_eq!(rig.flows(Filter::default()).len(), 100, "a swap flushes nothing");
    let to = Some("203.0.113.0/28".into());
    let flush = rig.ask(Request::Flush { filter: Filter { to, ..Filter::default() } });
    assert_eq!(flush, [Reply::Flushed(16)]);
    rig.ask(change("203.0.113.0/25", None, true));
    assert_eq!(rig.flows(Filter::default()).len(), 0);
    rig.ask(Request::Del { prefix: "203.0.113.0/25".into() });
    assert_eq!(prefixes(&rig), ["203.0.113.128/25"]);
    rig.stop();
}

#[test]
fn doctor_names_what_is_in_the_way() {
    let level = |rig: &Rig, what: &str| rig.doctor(what).map(|finding| finding.level);
    let rig = Rig::start("shield-well", &[], &[], "");
    let good = Some("ok".to_string());
    assert_eq!(level(&rig, "room for the outer header"), good);
    assert_eq!(level(&rig, "Grantors"), good);
    for what in ["sides", "decisions", "shadow", "addresses at the back"] {
        assert_eq!(level(&rig, what), None, "{what}");
    }
    let messages = rig.doctor("messages of Grantors").unwrap();
    assert!(messages.found.contains("up to 2048 bytes") && messages.level == "better");
    rig.stop();
    let rig = Rig::with("shield-ill", [&[], &[]], |text| {
        text.replace("entries", "decisions_from = \"anybody\"\nentries")
            + "shadow = true\n\
               [[gatekeeper.protect]]\nprefix = \"2001:db8:9::/48\"\ngrantors = [\"2001:db8:8::9\"]\n\
               [ports.p2]\ndevice = \"mem\"\n"
    });
    let found = |what: &str| rig.doctor(what).unwrap_or_else(|| panic!("{what}")).found;
    assert!(found("room for the outer header").contains("of p1 (1530)"), "40 bytes more");
    assert!(found("Grantors").contains("2001:db8:8::9 (no route)"), "{}", found("Grantors"));
    assert!(found("sides").starts_with("p2 is on neither side"));
    assert_eq!(level(&rig, "sides"), Some("missing".into()));
    assert!(found("decisions").starts_with("decisions_from = \"anybody\": whoever"));
    assert_eq!(level(&rig, "decisions"), Some("better".into()));
    assert!(found("shadow").starts_with("203.0.113.0/25 asks no Grantor"));
    assert!(found("addresses at the back").starts_with("no IPv6 address"));
    rig.stop();
    let [src, dst] = ["198.51.100.1:1000", "203.0.113.5:53"].map(|end| end.parse().unwrap());
    let long = Frame::udp4(src, dst).macs(Mac(THEM), Mac(US)).payload(&[7; 1_472]).build();
    let rig = Rig::with_mtu("shield-long", 1_519, [&[long.to_vec()], &[]], "");
    rig.took(1);
    let found = rig.doctor("room for the outer header").unwrap().found;
    assert!(found.ends_with("p1 (1519); 1 packet was too long so far"), "{found}");
    let drops = rig.protections().remove(0).drops;
    let reported = drops.iter().find(|of| of.what == "icmp_error.reported").unwrap();
    assert_eq!((reported.count, drops.iter().map(|of| of.count).sum::<u64>()), (1, 1));
    let Some(Reply::Show(shield)) = rig.ask(Request::Show).pop() else { panic!("no shield") };
    assert_eq!(shield.protection_drops[0].what, "icmp_error.reported");
    rig.stop();
}

#[test]
fn what_is_withstood_is_among_the_capacities() {
    let rig = Rig::start("shield-capacity", &[frame(1, 1), frame(2, 1)], &[], "");
    rig.took(2);
    let of = |what: &str| rig.capacity(what);
    assert_eq!(of("flows"), (2, 4_096));
    assert_eq!(of("decided flows"), (0, 3_072));
    assert_eq!(of("new flows a second").1, 4_096 * 10 / 13);
    assert_eq!(of("requests a second").1, 6_250_000 / 98);
    assert_eq!(of("decisions of 600 s that the requests can bring"), (0, 600 * (6_250_000 / 98)));
    assert_eq!(of("protections").0, 1);
    rig.stop();
}

/// Where no flow makes room for another, each stays for the 4.4 s of a request.
#[test]
fn a_table_in_which_none_makes_room_withstands_less() {
    for full in ["thesis", "deployed"] {
        let rig = Rig::with("shield-full", [&[], &[]], |text| {
            text.replace("entries", &format!("full = \"{full}\"\nentries"))
        });
        assert_eq!(rig.capacity("new flows a second").1, 4_096 * 10 / 44, "{full}");
        rig.stop();
    }
}
