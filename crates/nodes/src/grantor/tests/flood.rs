//! More requests than can be answered: ten million packets a second, of which the policy decides
//! one million, measured by the test's own clock.

use graph::clock;
use io::mem::{Ring, RingDevice};
use io::{Device, Frames, PoolConfig};
use policy::ask::Verdict;

use super::super::settings::Settings;
use super::rig::{Rig, datagram, decline, highest_shed, in_v4, settings};
use crate::testbed::P0;

/// Every priority has the same number of packets. Returns the decided packets by priority, and the
/// highest priority of which a packet was shed.
fn flood(capacity: usize, asked: usize) -> ([u64; 64], u64) {
    let mut rig = Rig::with(decline, capacity, Settings { asked, ..settings() });
    // One answer for each microsecond of a poll.
    rig.policy.lock().pace = BURST / 10;
    let of_priority: Vec<_> = (3..64).map(|dscp| in_v4(dscp, &datagram(1, 20))).collect();
    let config = PoolConfig { packets: 2 * capacity, mtu: 1_600, large_pages: false };
    let fill = |_, room: &mut [u8]| {
        room[..of_priority[0].len()].copy_from_slice(&of_priority[0]);
        of_priority[0].len()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    // Each packet as it arrives; those that wait are not among those that circulate.
    let (frames, mut next) = (of_priority.clone(), 0);
    let stamp = move |mut all: Frames<'_>| {
        for frame in all.iter_mut() {
            next = (next + 37) % frames.len();
            frame.copy_from_slice(&frames[next]);
        }
    };
    ring.set_stamp(Some(Box::new(stamp))).unwrap();
    let mut device = RingDevice::new("m", P0, 0, std::slice::from_ref(&ring), &rig.pool);
    let mut port = device.start(1).unwrap().remove(0);
    port.attach(0);
    drop(rig.graph.ports().set(0, port));
    let counts = rig.counters.clone();
    let (mut now, mut decided) = (clock::now(), [0; 64]);
    while counts.requests.get() < PACKETS {
        now += clock::hz() / 10_000_000 * BURST as u64;
        rig.graph.poll_at(now, rig.thread.guard());
        rig.thread.quiesce();
        for asked in rig.policy.lock().asked.drain(..) {
            decided[usize::from(asked.facts.priority)] += 1;
        }
    }
    let shed = rig.graph.stats().snapshot().dropped("grantor", "full");
    assert_eq!(counts.shed.get(), shed);
    assert_eq!(counts.asked.get() + shed + waiting(&mut rig), counts.requests.get());
    let highest = highest_shed(&counts);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
    (decided, highest)
}

/// Packets about which the policy was not asked.
fn waiting(rig: &mut Rig) -> u64 {
    let counts = &rig.counters;
    let answered = counts.denied.get() + counts.late.get();
    let asked = counts.asked.get() - answered;
    let node = rig.graph.node_mut::<super::super::grantor::Grantor>().unwrap();
    node.waiting() as u64 - asked
}

/// A tenth of 61 priorities is a little more than six of them: 58 to 63.
#[test]
fn the_lowest_priorities_go_first() {
    // A policy that takes more questions than packets can wait leaves the order to the park, too.
    for (capacity, asked) in [(4_096, 1_024), (1_024, 1_024), (256, 65_536)] {
        let (decided, highest) = flood(capacity, asked);
        assert!((3..=58).contains(&highest), "{capacity}, {asked}: {highest} was shed");
        let each = PACKETS / 61;
        for (priority, &n) in decided.iter().enumerate().skip(59) {
            let room = (capacity as u64).min(each / 2);
            assert!(n + room > each, "{capacity}, {asked}: {n} of {each} with {priority}");
        }
        // Except packets that came while there was room.
        let lower: u64 = decided[..56].iter().sum();
        assert!(lower <= capacity as u64, "{capacity}, {asked}: {lower} below 56");
    }
}

/// A policy that has yet to answer about all that waited before: who comes later and is more urgent
/// finds room, and is the next that is asked about.
#[test]
fn the_lowest_priorities_go_first_while_the_policy_is_silent() {
    for (capacity, asked) in [(64, 64), (64, 65_536), (64, 1_024)] {
        let mut rig = Rig::with(|_| None, capacity, Settings { asked, ..settings() });
        let of = |dscp| vec![in_v4(dscp, &datagram(1, 20)); capacity];
        rig.send(&of(5));
        assert_eq!((rig.counters.shed.get(), rig.held()), (0, capacity as u64));
        rig.send(&of(60)[..capacity / 2]);
        assert_eq!(rig.counters.shed.get(), capacity as u64 / 2);
        assert_eq!(highest_shed(&rig.counters), 5, "{capacity}, {asked}");
        let ids: Vec<_> = rig.policy.lock().asked.drain(..).map(|asked| asked.id).collect();
        let declined = |id| Verdict { id, forward: false, decision: None };
        rig.policy.lock().answers.extend(ids.into_iter().map(declined));
        rig.run();
        let asked: Vec<_> = rig.policy.lock().asked.iter().map(|of| of.facts.priority).collect();
        assert_eq!(asked, vec![60; capacity / 2]);
    }
}

/// Packets in a poll.
const BURST: usize = io::VECTOR;
const PACKETS: u64 = 300_000;
