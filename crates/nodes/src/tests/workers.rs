//! Packets that one worker receives and another sends.

use std::sync::Arc;

use graph::ring::{frames, spsc};
use graph::spread::spread;
use io::mem::connect;
use io::{Device, Pool, PoolConfig, World};
use wire::build::Frame;
use wire::flow::Hasher;

use super::router::{Others, Rig, sent};
use crate::Rates;
use crate::out::output::Remote;
use crate::out::worker_input::Incoming;
use crate::parse::flow;
use crate::testbed::{Net, to_p0, udp4};

#[test]
fn packets_reach_ports_of_other_workers() {
    let config = PoolConfig { packets: 2048, mtu: 1500, large_pages: false };
    let (net, pool) = (Arc::new(Net::new()), Pool::new(&config).unwrap());
    let (ring, from) = spsc::ring(64);
    let remotes = vec![Remote { ring, copies: None, ports: vec![(1, World::Own)], bell: None }];
    let others = Others { remotes, from: Vec::new() };
    let mut first = Rig::with(net.clone(), &Rates::default(), &[0], others, pool.clone());
    let from = vec![Incoming { ring: from, copies: None }];
    let others = Others { remotes: Vec::new(), from };
    let mut second = Rig::with(net, &Rates::default(), &[1], others, pool.clone());
    for i in 0..100 {
        first.peers[0].push(&to_p0(udp4("10.0.0.1").payload(&[i])));
    }
    let counts = first.run();
    assert_eq!((counts.law.handed_over, counts.dropped("output", "handover_full")), (64, 36));
    let law = second.run().law;
    assert_eq!((law.from_workers, law.transmitted), (64, 64));
    let got = second.peers[0].take();
    let order: Vec<u8> = got.iter().map(|frame| frame[14 + 28]).collect();
    assert!(order.iter().copied().eq(0..64), "a flow keeps its order");
    drop((first, second));
    assert_eq!(pool.available(), pool.size());
}

/// One port that the first worker holds, spread over two: each flow keeps its
/// order, whichever worker has it, and every packet goes home.
#[test]
fn a_port_is_spread_over_two_workers() {
    let config = PoolConfig { packets: 4096, mtu: 1500, large_pages: false };
    let (net, pool) = (Arc::new(Net::new()), Pool::new(&config).unwrap());
    let rig = |net: Arc<Net>, ports: &[u16]| {
        Rig::with(net, &Rates::default(), ports, Others::default(), pool.clone())
    };
    let (mut first, mut second) = (rig(net.clone(), &[]), rig(net, &[1]));
    let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 0], &pool);
    let hasher = Hasher::new(1);
    let flow_of = Box::new(move |frame: &[u8]| flow::of_frame(&hasher, frame));
    let shares = spread(device.start(1).unwrap().remove(0), 1, 4096, flow_of);
    drop(first.graph.ports().set(0, shares.holder));
    for share in shares.borrowers {
        drop(second.graph.ports().set(0, share));
    }
    let from = |flow: u8| std::net::SocketAddrV4::new([198, 51, 100, flow].into(), 4000);
    for (number, flow) in (0..30).flat_map(|number| (0..8).map(move |flow| (number, flow))) {
        let to = "192.0.2.1:53".parse().unwrap();
        peer.push(&to_p0(Frame::udp4(from(flow), to).payload(&[number])));
        let to = "10.0.0.1:53".parse().unwrap();
        peer.push(&to_p0(Frame::udp4(from(flow), to).payload(&[number])));
    }
    for _ in 0..40 {
        first.run();
        second.run();
    }
    let laws = [first.run().law, second.run().law];
    assert!(laws.iter().all(|law| law.received > 60), "{laws:?}");
    assert_eq!(laws.iter().map(|law| law.received).sum::<u64>(), 480);
    // Only the second worker has the port by which they leave.
    let counts = first.run();
    assert_eq!(counts.dropped("output", "no_port"), laws[0].received - laws[0].punted);
    let mut next = [0; 8];
    for frame in second.peers[0].take() {
        let (flow, number) = (usize::from(frame[14 + 15]), frame[14 + 28]);
        assert_eq!(number, next[flow], "flow {flow}");
        next[flow] += 1;
    }
    assert!(next.iter().all(|count| [0, 30].contains(count)), "{next:?}");
    drop((first, second, device));
    assert_eq!(pool.available(), pool.size());
}

/// The first worker gets word that the port takes packets of another world: what it
/// sends there is copied, and its own packets stay at home.
#[test]
fn packets_reach_ports_of_another_world_as_copies() {
    let config = PoolConfig { packets: 2048, mtu: 1500, large_pages: false };
    let pools = [Pool::new(&config).unwrap(), Pool::new(&config).unwrap()];
    let net = Arc::new(Net::new());
    let (ring, from) = spsc::ring(64);
    let (copies, copied) = frames::ring(8192);
    let remotes =
        vec![Remote { ring, copies: Some(copies), ports: vec![(1, World::Dpdk)], bell: None }];
    let others = Others { remotes, from: Vec::new() };
    let mut first = Rig::with(net.clone(), &Rates::default(), &[0], others, pools[0].clone());
    let from = vec![Incoming { ring: from, copies: Some(copied) }];
    let others = Others { remotes: Vec::new(), from };
    let mut second = Rig::with(net, &Rates::default(), &[1], others, pools[1].clone());
    let payload = |i: u8| [i; 40];
    for i in 0..100 {
        first.peers[0].push(&to_p0(udp4("10.0.0.1").payload(&payload(i))));
    }
    let counts = first.run();
    let (law, full) = (counts.law, counts.dropped("output", "handover_full"));
    assert_eq!((law.handed_over + full, law.crossed), (100, law.handed_over));
    assert!(full > 0 && law.crossed > 50, "{law:?}");
    assert_eq!(pools[0].available(), pools[0].size());
    let second_law = second.run().law;
    assert_eq!((second_law.from_workers, second_law.transmitted), (law.crossed, law.crossed));
    let got = second.peers[0].take();
    for (i, frame) in (0..).zip(&got) {
        assert_eq!(*frame, sent(udp4("10.0.0.1").payload(&payload(i))));
    }
    drop((first, second));
    assert_eq!(pools[1].available(), pools[1].size());
}
