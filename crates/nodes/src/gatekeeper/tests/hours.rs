//! Hours of a full table, on a clock of the test's own.

use std::net::SocketAddrV4;

use graph::{Job, Progress, clock};
use wire::build::Frame;
use wire::ggu::{Decision as Sent, Flow, Verdict as Decision};

use super::super::granted::parameters;
use super::super::listing::{Filter, List, State};
use super::super::shield::Shield;
use super::super::times::Times;
use super::decisions::message;
use super::rig::Rig;
use crate::testbed::to_p0;

/// A small table, and more new sources a second than it remembers.
const ENTRIES: usize = 64;
const SOURCES: u32 = 16;
const HOURS: u32 = 4;
const HOUR: u32 = 3_600;
/// Seconds of a decision; of that for the flow that lives.
const EXPIRE_S: u32 = 60;
const LIVE_S: u32 = 2 * HOURS * HOUR;

const HOST: [u8; 4] = [10, 20, 0, 1];
const LIVE: u32 = 0xc633_6407;
const CLIENT: u32 = 0xc633_6500;
const FLOOD: u32 = 0x4000_0000;

/// A shield, its time, and a Grantor that answers what comes to it.
struct Hours {
    rig: Rig,
    now: u64,
    times: Times,
    /// The flood's next source.
    next: u32,
    pushed: u64,
}

impl Hours {
    fn new(full: &str) -> Hours {
        let times = Times::new(clock::rate());
        Hours { rig: Rig::with(ENTRIES, full), now: clock::now(), times, next: FLOOD, pushed: 0 }
    }

    /// A second in which each of `from` sends a packet; gives those that left, by source, and
    /// their DSCPs.
    fn second(&mut self, from: impl Iterator<Item = u32>) -> Vec<(u32, u8)> {
        let to = SocketAddrV4::new(HOST.into(), 53);
        for from in from {
            let frame = Frame::udp4(SocketAddrV4::new(from.into(), 9), to);
            self.rig.front.push(&to_p0(frame));
            self.pushed += 1;
        }
        self.poll();
        let seen =
            |sent: &Vec<u8>| (u32::from_be_bytes(sent[46..50].try_into().unwrap()), sent[15] >> 2);
        let sent: Vec<_> = self.rig.back.take().iter().map(seen).collect();
        let asked = sent.iter().filter(|(_, dscp)| *dscp > 2);
        let decided = asked.filter_map(|(from, _)| {
            let flow = Flow::V4 { src: (*from).into(), dst: HOST.into() };
            Some(Sent { flow, verdict: verdict(*from)? })
        });
        let decided: Vec<_> = decided.collect();
        if !decided.is_empty() {
            self.rig.back.push(&message("10.0.2.9", &decided));
            self.pushed += 1;
            self.poll();
        }
        self.now += self.times.second();
        sent
    }

    fn poll(&mut self) {
        for _ in 0..2 {
            self.rig.graph.poll_at(self.now, self.rig.thread.guard());
            self.rig.thread.quiesce();
        }
    }

    /// A second of the flood; the DSCP of the client's packet, if it left.
    fn flooded(&mut self, client: Option<u32>) -> Option<u8> {
        let flood = self.next..self.next + SOURCES;
        self.next = flood.end;
        let sent = self.second([LIVE].into_iter().chain(client).chain(flood));
        let dscp = |of: u32| sent.iter().find(|(from, _)| *from == of).map(|(_, dscp)| *dscp);
        assert!(dscp(LIVE) == Some(1) || dscp(LIVE) == Some(41) && self.next == FLOOD + SOURCES);
        client.and_then(dscp)
    }

    /// No packet, no buffer, no flow and no page is lost.
    fn check(&mut self) {
        let law = self.rig.graph.stats().snapshot().law;
        assert!(law.holds() && law.received == self.pushed, "{law:?}");
        let free = self.rig.pool.available() as u64;
        assert_eq!(free + law.held, self.rig.pool.size() as u64);
        assert!(self.rig.kernel.is_empty());
        let node = self.rig.graph.node_mut::<Shield>().unwrap();
        let Progress::Last(rows) = List::new(Filter::default()).step(node, 4_096) else {
            panic!("it is a small table");
        };
        let decided = rows.iter().filter(|row| row.known.state() != State::Request).count();
        let table = self.rig.flows().table();
        let (places, counts) = (table.capacity(), table.counts());
        assert_eq!((places.entries, counts.pages), (rows.len(), decided));
        assert_eq!(counts.flows.iter().sum::<usize>(), rows.len());
        assert!(places.entries <= places.max_entries && counts.pages <= counts.decided_max);
    }
}

/// What the Grantor says: of the flood it grants and declines a few.
fn verdict(from: u32) -> Option<Decision> {
    let granted = |expire_s| Decision::Granted {
        expire_s,
        rate_kib: 1_024,
        next_renewal_ms: u32::MAX,
        renewal_step_ms: 1_000,
    };
    let program = Decision::Program {
        expire_s: EXPIRE_S,
        index: 0,
        cookie: parameters(1_024, u32::MAX, 1_000),
    };
    match (from, from % SOURCES) {
        (LIVE, _) => Some(granted(LIVE_S)),
        (CLIENT.., _) | (_, 0) => Some(granted(EXPIRE_S)),
        (_, 1) => Some(program),
        (_, 2 | 3) => Some(Decision::Declined { expire_s: EXPIRE_S }),
        _ => None,
    }
}

/// Under each rule for a full table the flow that lives passes in each second, and a client that
/// comes is granted: at once where others make room, else when there is a place.
#[test]
fn a_full_table_serves_for_hours() {
    for (full, wait) in [("replace", 1), ("thesis", EXPIRE_S), ("deployed", EXPIRE_S)] {
        let mut hours = Hours::new(full);
        for hour in 1..=HOURS {
            (0..HOUR).for_each(|_| _ = hours.flooded(None));
            hours.check();
            let granted = (0..=wait).any(|_| hours.flooded(Some(CLIENT + hour)) == Some(1));
            assert!(granted, "{full}, hour {hour}");
        }
        let counts = hours.rig.flows().table().counts();
        let [replaced, refused] = [counts.replaced.iter().sum(), counts.refused];
        assert_eq!((replaced > 0, refused > 0), (full == "replace", full != "replace"), "{full}");
        // Nobody comes any more, and all decisions end.
        hours.now += hours.times.seconds(LIVE_S);
        (0..EXPIRE_S).for_each(|_| _ = hours.second(std::iter::empty()));
        hours.check();
        let counts = hours.rig.flows().table().counts();
        assert_eq!((counts.flows, counts.pages), ([0; 3], 0), "{full}");
    }
}
