//! A shield that decides itself, between captures.

use std::fs::File;

use ::io::pcap::{ETHERNET, Reader, Style, Writer};
use api::apps::{Reply as AppReply, Request as AppRequest, gatekeeper, grantor};
use wire::build::Frame;
use wire::ethernet::Mac;

use super::*;

const US: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEM: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// From client number `client` to what is protected.
fn frame(client: u8) -> Vec<u8> {
    let src = format!("198.51.100.{client}:1000").parse().unwrap();
    let frame = Frame::udp4(src, "203.0.113.5:53".parse().unwrap());
    frame.macs(Mac(THEM), Mac(US)).payload(&[7; 40]).build().to_vec()
}

/// Clients whose packets came out, and what is shown, by a policy for all.
fn run(policy: &str) -> (Vec<u8>, gatekeeper::Shield, grantor::Shown) {
    let folder = Folder::new(&format!("one-box-{}", policy.split(' ').next().unwrap()));
    let at = |name: &str| folder.0.join(name).display().to_string();
    let asked: Vec<_> = (1..=20).map(frame).collect();
    for (file, frames) in [("asked.pcap", &asked[..]), ("none.pcap", &[])] {
        let file = File::create(folder.0.join(file)).unwrap();
        let mut out = Writer::new(file, Style::Pcap, ETHERNET).unwrap();
        frames.iter().for_each(|frame| out.write(frame, 0).unwrap());
    }
    let text = format!(
        "role = [\"gatekeeper\", \"grantor\"]\nworkers = [0]\nbuffers = 4096\n\
         [ports.p0]\ndevice = \"pcap:{},{}\"\nmac = \"02:00:00:00:00:01\"\n\
         addresses = [\"10.0.1.1/24\"]\n\
         [ports.p1]\ndevice = \"pcap:{},{}\"\nmac = \"02:00:00:00:00:02\"\n\
         addresses = [\"10.0.2.1/24\"]\n\
         [[neighbour]]\ninterface = \"p1\"\naddress = \"10.0.2.9\"\nmac = \"{them}\"\n\
         [[route]]\nprefix = \"203.0.113.0/24\"\nvia = [\"10.0.2.9\"]\n\
         [gatekeeper]\nfront = [\"p0\"]\nback = [\"p1\"]\nentries = 4096\nrequests = 500\n\
         [[gatekeeper.protect]]\nprefix = \"203.0.113.0/24\"\n\
         [grantor]\npolicy = \"{policy}\"\n",
        at("asked.pcap"),
        at("back.pcap"),
        at("none.pcap"),
        at("out.pcap"),
        them = config::Mac(THEM),
    );
    let (running, _stopped, _instance) = start(&folder.0, &text);
    let begun = Instant::now();
    while running.state.snapshot().unwrap().law.received < 20 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", running.state.snapshot());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let mut client = api::Client::connect(&folder.0.join("api.sock")).unwrap();
    let mut ask = |request| client.call(&api::Request::App(request)).unwrap();
    let shield = match ask(AppRequest::Gatekeeper(gatekeeper::Request::Show)) {
        api::Reply::App(AppReply::Gatekeeper(gatekeeper::Reply::Show(shield))) => *shield,
        other => panic!("{other:?}"),
    };
    let shown = match ask(AppRequest::Grantor(grantor::Request::Show)) {
        api::Reply::App(AppReply::Grantor(grantor::Reply::Show(shown))) => *shown,
        other => panic!("{other:?}"),
    };
    running.stop(Remove::Nothing).unwrap(); // the accounts balance
    let mut out = Vec::new();
    let mut file = Reader::new(File::open(folder.0.join("out.pcap")).unwrap()).unwrap();
    while let Some(frame) = file.next_frame().unwrap() {
        assert_eq!((&frame.data[..6], frame.data[22]), (&THEM[..], 63), "by its route");
        out.push(frame.data[29]);
    }
    out.sort_unstable();
    (out, shield, shown)
}

fn count(all: &[gatekeeper::Count], what: &str) -> u64 {
    all.iter().find(|count| count.what == what).expect(what).count
}

#[test]
fn who_asks_is_granted_without_another_machine() {
    let (out, shield, shown) = run("grant 512 300");
    assert!(out.into_iter().eq(1..=20));
    assert_eq!((shield.verdicts.requests, shield.requests.decisions_per_s), (20, Some(500)));
    assert_eq!(count(&shield.decisions, "granted"), 20);
    assert!(shield.grantors.is_empty() && shown.gatekeepers.is_empty());
    assert_eq!(shown.counts.iter().find(|of| of.what == "requests").unwrap().count, 20);
}

#[test]
fn who_asks_is_declined_without_another_machine() {
    let (out, shield, _) = run("decline 60");
    assert!(out.is_empty());
    assert_eq!(count(&shield.decisions, "declined"), 20);
}
