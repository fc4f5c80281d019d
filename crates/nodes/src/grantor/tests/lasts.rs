//! State that outlives a graph, and memory: nothing is allocated for a packet.

use graph::testing::{Counting, uncounted};
use graph::{Graph, Node};
use io::mem::{Ring, RingDevice};
use io::{Device, PoolConfig};
use policy::ask::Verdict;

use super::super::grantor::Grantor;
use super::rig::{GRANTED, Rig, datagram, datagram6, grant, in_v4, in_v6, inside, settings};
use crate::testbed::{P0, borrowed};

#[test]
fn nothing_is_allocated() {
    let mut rig = Rig::gathering(grant, (256, 16), settings());
    rig.policy.lock().quiet = true;
    let [first, second] = super::fragments::two(7);
    let frames = [
        in_v4(41, &datagram(1, 40)),
        in_v6(41, 0, &datagram6(1, 40)),
        in_v4(1, &datagram(2, 40)),
        in_v4(2, &datagram(3, 40)),
        in_v4(41, &first),
        in_v4(41, &second),
        in_v4(41, &datagram(1, 40)[..30]),
    ];
    let config = PoolConfig { packets: 2_048, mtu: 1_600, large_pages: false };
    let fill = |i: usize, room: &mut [u8]| {
        let frame = &frames[i % frames.len()];
        room[..frame.len()].copy_from_slice(frame);
        frame.len()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    for number in 0..2 {
        let rings = std::slice::from_ref(&ring);
        let mut device = RingDevice::new("m", P0, number, rings, &rig.pool);
        let mut port = device.start(1).unwrap().remove(0);
        port.attach(0);
        drop(rig.graph.ports().set(number, port));
    }
    let poll = |rig: &mut Rig| {
        let guard = rig.thread.guard();
        let forwarding = rig.control.forwarding();
        let borrowed = (borrowed(forwarding, guard), uncounted(&rig.counters));
        let before = Counting::allocations();
        rig.graph.poll_at(rig.now, guard);
        let allocated = Counting::allocations() - before;
        drop(borrowed);
        rig.thread.quiesce();
        allocated
    };
    // The first polls fill the pools' caches.
    let allocations: Vec<u64> = (0..16).map(|_| poll(&mut rig)).collect();
    assert_eq!(allocations[2..], [0; 14]);
    let counts = &rig.counters;
    for count in [&counts.passed, &counts.renewals, &counts.forwarded, &counts.whole] {
        assert!(count.get() > 20);
    }
    assert!(counts.decisions.get() > 60 && counts.messages.get() > 8);
    while rig.graph.drain(rig.thread.guard()) > 0 {
        rig.thread.quiesce();
    }
}

/// A graph that replaces another.
fn takes_over(new: &mut Graph, old: &mut Graph) {
    let old = old.node_mut::<Grantor>().unwrap();
    Node::take_over(new.node_mut::<Grantor>().unwrap(), old);
}

fn polls(rig: &mut Rig) {
    for _ in 0..20 {
        rig.poll();
    }
}

/// Waiting packets move to the next graph: asked about, not asked about yet, and incomplete ones.
#[test]
fn what_waits_outlives_a_graph() {
    for with_policy in [false, true] {
        let mut old = Rig::gathering(
            |_| None,
            (64, 16),
            super::super::settings::Settings { asked: 2, ..settings() },
        );
        let [first, second] = super::fragments::two(7);
        old.send(&(0..4).map(|n| in_v4(41, &datagram(n, 20))).collect::<Vec<_>>());
        old.send(&[in_v4(41, &first)]);
        assert_eq!((old.held(), old.policy.lock().asked.len()), (5, 2));
        let policy = with_policy.then_some(grant as fn(&_) -> _);
        let mut new = Rig::of(old.pool.clone(), policy, (64, 16), settings());
        takes_over(&mut new.graph, &mut old.graph);
        new.back.push(&in_v4(41, &second));
        polls(&mut new);
        let ids: Vec<_> = old.policy.lock().asked.iter().map(|asked| asked.id).collect();
        let answers = ids.iter().map(|&id| Verdict { id, forward: true, decision: Some(GRANTED) });
        old.policy.lock().answers.extend(answers);
        polls(&mut new);
        if !with_policy {
            // The former policy is still asked, and its answers count.
            assert_eq!(ids.len(), 5);
        }
        let mut want: Vec<_> = (0..4).map(|n| inside(&datagram(n, 20))).collect();
        want.extend([inside(&first), inside(&second)]);
        let mut got = new.inside.take();
        got.sort();
        want.sort();
        assert_eq!(got, want, "{with_policy}");
        let messages = new.back.take();
        let decisions: usize = messages.iter().map(|of| super::rig::message(of).1.len()).sum();
        assert_eq!(decisions, 5);
        assert_eq!(new.graph.node_mut::<Grantor>().unwrap().waiting(), 0);
        let held = [&old, &new].map(|rig| rig.graph.stats().snapshot().law.held);
        assert_eq!(held[0].wrapping_add(held[1]), 0, "what the one kept the other let go");
        assert_eq!(new.pool.available(), new.pool.size());
    }
}
