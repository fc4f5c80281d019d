//! A Grantor between captures: what Gatekeepers ask at one end, by a policy for all.

use std::fs::File;

use ::io::pcap::{ETHERNET, Reader, Style, Writer};
use api::apps::grantor::{Reply, Request, Shown};
use api::apps::{Reply as AppReply, Request as AppRequest};
use wire::build::Frame;
use wire::ethernet;
use wire::ggu::{Decision, Message, Ports, Verdict};
use wire::ipip::Tunnel4;

use super::*;

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEM: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A packet of client number `client` to what is served.
fn packet(client: u8) -> Vec<u8> {
    let src = format!("198.51.100.{client}:1000").parse().unwrap();
    Frame::udp4(src, "203.0.113.5:53".parse().unwrap()).payload(&[7; 40]).build()[14..].to_vec()
}

/// The same as a Gatekeeper wraps it, with this DSCP.
fn wrapped(client: u8, dscp: u8) -> Vec<u8> {
    let inner = packet(client);
    let tunnel = Tunnel4::new([10, 0, 2, 1].into(), [10, 0, 2, 9].into());
    let outer = tunnel.header(dscp, inner[..20].try_into().unwrap()).unwrap();
    [&US[..], &THEM, &ethernet::IPV4.to_be_bytes(), &outer, &inner].concat()
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut file = Reader::new(File::open(path).unwrap()).unwrap();
    while let Some(frame) = file.next_frame().unwrap() {
        all.push(frame.data.to_vec());
    }
    all
}

/// Workers that have taken in what was asked; its captures lie in the folder.
fn asked(folder: &Folder, more: &str, asked: &[Vec<u8>]) -> (Running, Receiver<Stop>, Instance) {
    let at = |name: &str| folder.0.join(name).display().to_string();
    for (file, frames) in [("asked.pcap", asked), ("none.pcap", &[])] {
        let file = File::create(folder.0.join(file)).unwrap();
        let mut out = Writer::new(file, Style::Pcap, ETHERNET).unwrap();
        frames.iter().for_each(|frame| out.write(frame, 0).unwrap());
    }
    let text = format!(
        "workers = [0]\nbuffers = 4096\n\
         [ports.p0]\ndevice = \"pcap:{},{}\"\nmac = \"02:00:00:00:00:01\"\n\
         addresses = [\"10.0.2.9/24\"]\n\
         [ports.p1]\ndevice = \"pcap:{},{}\"\nmac = \"02:00:00:00:00:02\"\n\
         addresses = [\"203.0.113.1/24\"]\n\
         [[neighbour]]\ninterface = \"p1\"\naddress = \"203.0.113.5\"\nmac = \"{them}\"\n\
         [grantor]\ngatekeepers = [\"10.0.2.1/32\"]\nserves = [\"203.0.113.0/24\"]\n{more}",
        at("asked.pcap"),
        at("decided.pcap"),
        at("none.pcap"),
        at("out.pcap"),
        them = config::Mac(THEM),
    );
    let (running, stopped, instance) = start(&folder.0, &text);
    let begun = Instant::now();
    while running.state.snapshot().unwrap().law.received < asked.len() as u64 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", running.state.snapshot());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    (running, stopped, instance)
}

/// What came out for Gatekeepers, what for those who are served, and what is shown.
fn run(name: &str, more: &str, packets: &[Vec<u8>]) -> (Vec<Decision>, Vec<Vec<u8>>, Shown) {
    let folder = Folder::new(name);
    let (running, _stopped, _instance) = asked(&folder, more, packets);
    let mut client = api::Client::connect(&folder.0.join("api.sock")).unwrap();
    let shown = match client.call(&api::Request::App(AppRequest::Grantor(Request::Show))).unwrap() {
        api::Reply::App(AppReply::Grantor(Reply::Show(shown))) => *shown,
        other => panic!("{other:?}"),
    };
    running.stop(Remove::Nothing).unwrap(); // the accounts balance
    let decided = frames(&folder.0.join("decided.pcap"));
    let decisions = decided.iter().flat_map(|frame| {
        // No neighbour is known there: the answer goes to who asked.
        assert_eq!((&frame[..6], &frame[6..12]), (&THEM[..], &US[..]));
        let message = Message::receive(&frame[14..], Ports::default(), |_| true).unwrap();
        message.decisions().map(Result::unwrap).collect::<Vec<_>>()
    });
    (decisions.collect(), frames(&folder.0.join("out.pcap")), shown)
}

fn count(shown: &Shown, what: &str) -> u64 {
    shown.counts.iter().find(|count| count.what == what).expect(what).count
}

#[test]
fn what_is_granted_goes_on_and_gatekeepers_hear_of_it() {
    let asked: Vec<_> = (1..=20).map(|client| wrapped(client, 40)).collect();
    let (decisions, out, shown) = run("grantor-grants", "policy = \"grant 512 300\"\n", &asked);
    assert_eq!(decisions.len(), 20);
    let granted = |decision: &Decision| {
        matches!(decision.verdict, Verdict::Granted { rate_kib: 512, expire_s: 300, .. })
    };
    assert!(decisions.iter().all(granted));
    let want: Vec<_> = (1..=20).map(packet).collect();
    assert!(out.iter().map(|frame| &frame[14..]).eq(want.iter().map(|packet| &packet[..])));
    assert_eq!((count(&shown, "requests"), count(&shown, "decisions sent")), (20, 20));
    assert_eq!((shown.policy.as_str(), shown.waiting), ("grant 512 300", 0));
}

#[test]
fn what_is_declined_does_not_and_renewals_do() {
    let asked = [wrapped(1, 40), wrapped(2, 2), wrapped(3, 1), wrapped(4, 0)];
    let (decisions, out, shown) = run("grantor-declines", "policy = \"decline 60\"\n", &asked);
    let declined = |decision: &Decision| decision.verdict == Verdict::Declined { expire_s: 60 };
    assert!(decisions.len() == 2 && decisions.iter().all(declined));
    let mut sources: Vec<_> = out.iter().map(|frame| frame[29]).collect();
    sources.sort_unstable();
    assert_eq!(sources, [2, 3, 4]);
    assert_eq!((count(&shown, "renewals"), count(&shown, "passed")), (1, 2));
    let denied = shown.drops.iter().find(|drop| drop.what == "grantor.denied").unwrap();
    assert_eq!(denied.count, 1);
}

#[test]
fn who_is_no_gatekeeper_reaches_nobody() {
    let mut stranger = wrapped(1, 0);
    stranger[29] = 2;
    stranger[24..26].fill(0);
    let sum = wire::checksum::checksum(&stranger[14..34]).to_be_bytes();
    stranger[24..26].copy_from_slice(&sum);
    let (decisions, out, shown) = run("grantor-relay", "policy = \"grant 1 1\"\n", &[stranger]);
    assert!(decisions.is_empty() && out.is_empty());
    let drops = shown.drops.iter().find(|drop| drop.what == "ip4_tunnel.stranger").unwrap();
    assert_eq!(drops.count, 1);
}

/// As where a start fails behind its workers: the first fragment waits for its others.
#[test]
fn workers_that_are_dropped_leave_no_packet() {
    let mut first = wrapped(1, 40);
    let inner = 14 + 20;
    first[inner + 6] |= 0x20;
    first[inner + 10..inner + 12].fill(0);
    let sum = wire::checksum::checksum(&first[inner..inner + 20]).to_be_bytes();
    first[inner + 10..inner + 12].copy_from_slice(&sum);
    let folder = Folder::new("grantor-dropped");
    let more = "policy = \"grant 1 1\"\nfragments = 64\nfragment_ms = 60000\n";
    let (running, _stopped, _instance) = asked(&folder, more, &[first]);
    assert_eq!(running.state.snapshot().unwrap().law.held, 1);
    let workers = running.state.workers.write().unwrap().take();
    let stats = workers.as_ref().unwrap().stats.clone();
    drop(workers);
    let law = stats[0].balance();
    assert!(law.held == 0 && law.taken() == law.given(), "{law:?}");
    running.stop(Remove::Nothing).unwrap();
}
