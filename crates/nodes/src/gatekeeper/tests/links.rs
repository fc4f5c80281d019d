//! Links that fall while a flood fills the solicitor, and come back.

use std::net::SocketAddrV4;
use std::time::Duration;

use graph::clock;
use tables::event::{Event, Link, LinkId, Neighbour, NeighbourState};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::{Decision as Sent, Flow, Verdict as Decision};

use super::super::solicit::Solicit;
use super::super::solicitor::{CAPACITY, OVERHEAD};
use super::decisions::{decided, hear, message};
use super::rig::{GRANTOR, Rig, address, in_v4, neighbour, route};
use crate::testbed::{P0, P1, PEER, to_p0, udp4};

const V4: &str = "10.20.0.1";
/// What a request of the flood costs the channel, as a frame of 100 bytes with its outer header.
const COST: u64 = 100 + OVERHEAD;
/// Requests a second, so one a poll.
const RATE: u64 = 1_000;
/// Requests that come in a poll.
const FLOOD: u32 = 32;

const GRANT: Decision = Decision::Granted {
    expire_s: 300,
    rate_kib: 1 << 20,
    next_renewal_ms: 3_600_000,
    renewal_step_ms: 3_000,
};

/// A rig under a flood, and a client that has a grant.
struct Flooded {
    rig: Rig,
    start: u64,
    now: u64,
    /// The flood's next source.
    next: u32,
    granted: Vec<u8>,
    /// Requests of the flood that have left.
    asked: u64,
}

/// What left at the back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Left {
    asked: u64,
    granted: u64,
}

impl Flooded {
    fn new() -> Flooded {
        let mut rig = Rig::paced(1 << 12, "", RATE * COST);
        let (ip, mac) = ("10.0.0.9".parse().unwrap(), Some(PEER));
        let (link, state) = (LinkId(1), NeighbourState::Reachable);
        let client = Event::Neighbour(Neighbour { link, ip, mac, state });
        rig.control.handle(&[client, route("198.51.100.0/24", 1, Some("10.0.0.9"))]);
        rig.control.commit();
        hear(&mut rig, &message("10.0.2.9", &decided(GRANT)[..1]));
        let now = clock::now();
        let granted = to_p0(udp4(V4).payload(&[7; 60]));
        Flooded { rig, start: now, now, next: 0, granted, asked: 0 }
    }

    fn poll(&mut self) -> Left {
        self.rig.graph.poll_at(self.now, self.rig.thread.guard());
        self.rig.thread.quiesce();
        self.now += clock::ticks(Duration::from_millis(1));
        let law = self.rig.graph.stats().snapshot().law;
        assert!(law.holds(), "{law:?}");
        let pool = &self.rig.pool;
        assert_eq!(pool.available() as u64 + law.held, pool.size() as u64);
        assert_eq!(law.held, self.waiting() as u64, "nothing is held but requests");
        let out = self.rig.back.take();
        let granted = in_v4(1, &self.granted[14..]);
        let granted = out.iter().filter(|frame| **frame == granted).count() as u64;
        let left = Left { asked: out.len() as u64 - granted, granted };
        self.asked += left.asked;
        left
    }

    /// So many polls, each with the flood and a packet of the client that is granted.
    fn flood(&mut self, polls: usize) -> Left {
        let mut all = Left::default();
        for _ in 0..polls {
            for _ in 0..FLOOD {
                let from = SocketAddrV4::new((0x6000_0000 + self.next).into(), 9);
                self.next += 1;
                let to = "10.20.0.1:53".parse().unwrap();
                self.rig.front.push(&to_p0(Frame::udp4(from, to).payload(&[7; 38])));
            }
            self.rig.front.push(&self.granted);
            let Left { asked, granted } = self.poll();
            all = Left { asked: all.asked + asked, granted: all.granted + granted };
        }
        all
    }

    fn waiting(&mut self) -> usize {
        self.rig.graph.node_mut::<Solicit>().unwrap().waiting()
    }

    /// Up to what the last poll has sent.
    fn is_full(&mut self) -> bool {
        self.waiting() + 2 >= CAPACITY
    }

    fn dropped(&self, node: &str, why: &str) -> u64 {
        self.rig.graph.stats().snapshot().dropped(node, why)
    }

    /// What control hears when the link of this number falls, or comes back.
    fn hears(&mut self, link: u32, up: bool) {
        let (name, mac) = (format!("p{}", link - 1), [P0, P1][link as usize - 1]);
        let link = Link { index: LinkId(link), name, up, mtu: 1500, mac, ..Link::default() };
        self.rig.control.handle(&[Event::Link(link)]);
        self.rig.control.commit();
    }

    /// What is left behind of all that came: nothing.
    fn end(mut self) {
        // A full bucket, and what was made since.
        let made =
            RATE + RATE * clock::rate().time(self.now - self.start).as_millis() as u64 / 1_000;
        assert!(self.asked <= made + 1, "{} of {made}", self.asked);
        let waiting = self.waiting() as u64;
        while self.rig.graph.drain(self.rig.thread.guard()) > 0 {
            self.rig.thread.quiesce();
        }
        let counts = self.rig.graph.stats().snapshot();
        assert!(counts.law.holds() && counts.law.held == 0, "{:?}", counts.law);
        assert_eq!(counts.dropped("solicit", "stopped"), waiting);
        assert_eq!(self.rig.pool.available(), self.rig.pool.size());
    }
}

#[test]
fn a_back_link_that_falls_under_a_flood_comes_back() {
    let mut flooded = Flooded::new();
    // A full bucket first; then the queue fills, and each poll makes a request's worth.
    flooded.flood(100);
    assert!(flooded.is_full() && flooded.dropped("solicit", "full") > 0);
    let left = flooded.flood(100);
    assert!((98..=102).contains(&left.asked) && left.granted == 100, "{left:?}");

    // It takes nothing any more, and nobody knows yet: requests wait, but for one that is tried
    // now and then. What is granted is lost by name.
    flooded.rig.back.set_link(false);
    flooded.rig.back.accept(0);
    assert_eq!(flooded.flood(100), Left::default());
    assert!(flooded.is_full());
    let lost = flooded.dropped("output", "transmit_full");
    assert!((100..=100 + 32 + 100).contains(&lost), "{lost}");

    // It is known: no request waits for what it cannot reach, and none is paid for.
    flooded.hears(2, false);
    for ip in ["10.0.2.9", "2001:db8:2::9"] {
        flooded.rig.control.handle(&[neighbour(ip, NeighbourState::Failed)]);
    }
    flooded.rig.control.commit();
    let before = flooded.dropped("shield", "unresolved");
    assert_eq!(flooded.flood(100), Left::default());
    assert_eq!(flooded.waiting(), 0);
    assert_eq!(flooded.dropped("shield", "unresolved") - before, 100, "what is granted");
    assert!(flooded.dropped("solicit", "unresolved") >= (CAPACITY + 99 * 32) as u64);
    assert_eq!(flooded.dropped("output", "transmit_full"), lost);

    // It comes back.
    flooded.rig.back.set_link(true);
    flooded.rig.back.accept(usize::MAX);
    flooded.hears(2, true);
    flooded.rig.control.handle(&[
        address(2, "10.0.2.1/24"),
        address(2, "2001:db8:2::1/64"),
        route("10.0.2.0/24", 2, None),
        route("2001:db8:2::/64", 2, None),
        route("10.0.0.0/8", 2, Some("10.0.2.9")),
        neighbour("10.0.2.9", NeighbourState::Reachable),
        neighbour("2001:db8:2::9", NeighbourState::Reachable),
    ]);
    flooded.rig.control.commit();
    // The grant was kept, and 200 requests' worth was made meanwhile.
    let left = flooded.flood(100);
    assert!((150..=302).contains(&left.asked) && left.granted == 100, "{left:?}");
    assert!(flooded.is_full());
    let left = flooded.flood(100);
    assert!((98..=102).contains(&left.asked) && left.granted == 100, "{left:?}");

    // A new client is decided as ever.
    let (src, dst) = ([198, 51, 100, 9].into(), V4.parse().unwrap());
    let frame = Frame::udp4(SocketAddrV4::new(src, 9), SocketAddrV4::new(dst, 53));
    flooded.granted = to_p0(frame);
    assert_eq!(flooded.flood(1).granted, 0, "it asks, and waits");
    let flow = Flow::V4 { src, dst };
    flooded.rig.back.push(&message("10.0.2.9", &[Sent { flow, verdict: GRANT }]));
    flooded.flood(2);
    assert_eq!(flooded.flood(10).granted, 10);
    flooded.end();
}

#[test]
fn a_front_link_that_falls_under_a_flood_comes_back() {
    let mut flooded = Flooded::new();
    flooded.flood(100);
    assert!(flooded.is_full());
    let from = SocketAddrV4::new([10, 20, 0, 1].into(), 53);
    let answer = Frame::udp4(from, "198.51.100.7:4000".parse().unwrap());
    let answer = answer.macs(Mac(GRANTOR), Mac(P1)).payload(&[9; 30]).build().to_vec();
    let answers = |flooded: &mut Flooded| {
        flooded.rig.back.push(&answer);
        flooded.poll();
        flooded.rig.front.take()
    };
    let sent = answers(&mut flooded);
    assert!(sent.len() == 1 && sent[0][..6] == PEER, "{sent:x?}");

    // Nothing comes, and answers are lost by name. What waits leaves at its rate.
    flooded.rig.front.set_link(false);
    flooded.rig.front.accept(0);
    let (before, before_all) = (flooded.asked, flooded.waiting() as u64);
    assert!((0..50).all(|_| answers(&mut flooded).is_empty()));
    assert_eq!(flooded.dropped("output", "transmit_full"), 50);
    flooded.hears(1, false);
    let gone = Event::Neighbour(Neighbour {
        link: LinkId(1),
        ip: "10.0.0.9".parse().unwrap(),
        mac: Some(PEER),
        state: NeighbourState::Failed,
    });
    flooded.rig.control.handle(&[gone]);
    flooded.rig.control.commit();
    assert!((0..100).all(|_| answers(&mut flooded).is_empty()));
    assert_eq!(flooded.dropped("output", "transmit_full"), 50, "there is no way");
    let asked = flooded.asked - before;
    assert!((148..=152).contains(&asked), "{asked}");
    assert_eq!(flooded.waiting() as u64 + asked, before_all, "none of them is lost");

    flooded.rig.front.set_link(true);
    flooded.rig.front.accept(usize::MAX);
    flooded.hears(1, true);
    let there = Event::Neighbour(Neighbour {
        link: LinkId(1),
        ip: "10.0.0.9".parse().unwrap(),
        mac: Some(PEER),
        state: NeighbourState::Reachable,
    });
    flooded.rig.control.handle(&[
        address(1, "10.0.0.1/24"),
        route("10.0.0.0/24", 1, None),
        route("198.51.100.0/24", 1, Some("10.0.0.9")),
        there,
    ]);
    flooded.rig.control.commit();
    assert_eq!(answers(&mut flooded).len(), 1);
    let left = flooded.flood(100);
    assert!((98..=102).contains(&left.asked) && left.granted == 100, "{left:?}");
    assert!(flooded.is_full());
    flooded.end();
}
