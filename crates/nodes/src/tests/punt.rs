//! What goes to the kernel, and how much of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use tables::IfaceId;
use tables::peers::{Peers, Session};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::icmpv6::Neighbour;
use wire::vlan::Tag;
use wire::{arp, icmp, icmpv6};

use super::router::Rig;
use crate::testbed::{P1, PEER, to_p0, udp4};
use crate::{Class, Rates};

/// A refused packet reaches no kernel, so nobody asks for its destination: the next may go.
#[test]
fn what_is_refused_does_not_hold_its_destination_back() {
    let to = |host: u8| to_p0(udp4(&format!("10.3.0.{host}")).payload(&[0; 1400]));
    let mut rates = Rates::default();
    rates.set(Class::NoNeighbour, 100); // 32 at once, then one each 10 ms
    let mut rig = Rig::new(&rates);
    let begun = Instant::now();
    (0..250).for_each(|host| rig.peers[0].push(&to(host)));
    rig.run();
    assert!((32..=rates.most(Class::NoNeighbour, begun)).contains(&rig.punted().len()));
    std::thread::sleep(std::time::Duration::from_millis(50));
    rig.peers[0].push(&to(249));
    rig.run();
    assert_eq!(rig.punted().len(), 1, "beyond the rate");

    rates.set(Class::NoNeighbour, 100_000);
    let mut rig = Rig::new(&rates);
    let to = |i: u32| to_p0(udp4(&format!("10.3.{}.{}", i / 250, i % 250)).payload(&[0; 1400]));
    (0..1000).for_each(|i| rig.peers[0].push(&to(i)));
    assert!(rig.run().dropped("punt", "ring_full") > 100);
    rig.punted();
    rig.peers[0].push(&to(999));
    rig.run();
    assert_eq!(rig.punted().len(), 1, "a full ring");
}

/// Whoever takes out what is punted sleeps until then, and is not woken for anything else.
#[test]
fn the_kernel_thread_is_woken_for_what_it_gets() {
    let mut rig = Rig::new(&Rates::default());
    let mut wakes = |dst: &str| {
        rig.bell.lie_down();
        rig.peers[0].push(&to_p0(udp4(dst)));
        rig.run();
        (rig.punted().len(), !rig.bell.is_asleep())
    };
    assert_eq!(wakes("10.0.0.1"), (0, false));
    assert_eq!(wakes("10.3.0.1"), (1, true));
    assert_eq!(wakes("10.3.0.1"), (0, false), "it is asked for already");
    assert_eq!(wakes("10.3.0.2"), (1, true));
}

/// Packets to a host that is asked for already leave the rate to the other hosts.
#[test]
fn who_is_asked_for_already_uses_nothing_of_the_rate() {
    let mut rates = Rates::default();
    rates.set(Class::NoNeighbour, 100); // 32 at once
    let mut rig = Rig::new(&rates);
    (0..500).for_each(|_| rig.peers[0].push(&to_p0(udp4("10.3.0.1"))));
    (2..22).for_each(|host| rig.peers[0].push(&to_p0(udp4(&format!("10.3.0.{host}")))));
    rig.run();
    let asked = rig.punted();
    let others = asked.iter().filter(|(.., frame)| frame[33] != 1).count();
    assert_eq!(others, 20, "of {} that were punted", asked.len());
}

/// The neighbour 192.0.2.2 and fe80::2 on p0, and a session with 198.51.100.9.
fn peers() -> Peers {
    let remote = (IpAddr::from([198, 51, 100, 9]), 40_000);
    let session = Session { remote, local: (IpAddr::from([192, 0, 2, 1]), 179) };
    let neighbours = ["192.0.2.2", "fe80::2"].map(|ip| (IfaceId(1), ip.parse().unwrap()));
    Peers::new([session], neighbours)
}

fn tcp(src: &str, dst: &str) -> Frame<'static> {
    Frame::tcp4(src.parse().unwrap(), dst.parse().unwrap(), 2)
}

fn udp(src: &str, port: u16) -> Frame<'static> {
    Frame::udp4(format!("{src}:9").parse().unwrap(), SocketAddrV4::new(US, port))
}

fn solicitation(src: &str) -> Frame<'static> {
    let (src, us) = (src.parse().unwrap(), "fe80::1".parse().unwrap());
    let message =
        Neighbour { kind: icmpv6::NEIGHBOUR_SOLICITATION, flags: 0, target: us, mac: None };
    Frame::neighbour(src, us, message)
}

fn arp(sender: [u8; 4]) -> Frame<'static> {
    Frame::arp(arp::Header {
        operation: arp::REQUEST,
        sender_mac: Mac(PEER),
        sender_ip: sender.into(),
        target_mac: Mac([0; 6]),
        target_ip: US,
    })
}

const US: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

#[test]
fn packets_of_known_neighbours_and_sessions_are_told_from_strangers() {
    let mut rig = Rig::new(&Rates::default());
    rig.knows(peers());
    let ospf = |src: [u8; 4]| Frame::ipv4(src.into(), [224, 0, 0, 5].into(), 89);
    let vrrp = |src: [u8; 4]| Frame::ipv4(src.into(), [224, 0, 0, 18].into(), 112);
    let advert = Frame::icmp6(
        "fe80::2".parse().unwrap(),
        "fe80::1".parse().unwrap(),
        icmp::Header { kind: icmpv6::ROUTER_ADVERTISEMENT, code: 0, rest: [0; 4] },
    );
    let cases = [
        (tcp("198.51.100.9:40000", "192.0.2.1:179"), Class::Sessions),
        (tcp("198.51.100.9:40001", "192.0.2.1:179"), Class::Control),
        (tcp("198.51.100.8:40000", "192.0.2.1:179"), Class::Strangers),
        (tcp("192.0.2.2:646", "192.0.2.1:40000"), Class::Control),
        (tcp("192.0.2.2:40000", "192.0.2.1:22"), Class::ForUs),
        (ospf([192, 0, 2, 2]), Class::Control),
        (ospf([192, 0, 2, 3]), Class::Strangers),
        (vrrp([192, 0, 2, 2]).ttl(255), Class::Control),
        (vrrp([192, 0, 2, 2]).ttl(254), Class::Strangers),
        (udp("192.0.2.2", 3784).ttl(255), Class::Control),
        (udp("192.0.2.2", 3784).ttl(254), Class::Strangers),
        (udp("192.0.2.2", 4784).ttl(254), Class::Control),
        (udp("192.0.2.3", 646), Class::Strangers),
        (udp("192.0.2.2", 53), Class::ForUs),
        (arp([192, 0, 2, 2]), Class::ArpNd),
        (arp([192, 0, 2, 3]), Class::NewNeighbours),
        (solicitation("fe80::2").ttl(255), Class::ArpNd),
        (solicitation("fe80::2").ttl(254), Class::NewNeighbours),
        (solicitation("fe80::3").ttl(255), Class::NewNeighbours),
        (advert.ttl(255), Class::NewNeighbours),
    ];
    for (frame, class) in cases {
        rig.peers[0].push(&to_p0(frame));
        rig.run();
        assert_eq!(rig.punted(), [(1, class, to_p0(frame))]);
    }
    // The same neighbour by another interface is none.
    rig.peers[0].push(&to_p0(arp([192, 0, 2, 2]).tag(Tag::outer(5)).tag(Tag::new(6))));
    rig.run();
    assert_eq!(rig.punted()[0].1, Class::NewNeighbours);
}

#[test]
fn a_flood_of_strangers_leaves_neighbours_and_other_interfaces_theirs() {
    let (rates, begun) = (Rates::default(), Instant::now());
    let mut rig = Rig::new(&rates);
    rig.knows(peers());
    let syn = |i: u32| tcp(&format!("203.0.113.{}:{}", i % 250, 1024 + i), "192.0.2.1:179");
    (0..2000).for_each(|i| rig.peers[0].push(&to_p0(syn(i))));
    (0..500).for_each(|i| rig.peers[0].push(&to_p0(arp([192, 0, 2, 3 + (i % 200) as u8]))));
    let of_sessions =
        [tcp("198.51.100.9:40000", "192.0.2.1:179"), tcp("192.0.2.2:9", "192.0.2.1:179")];
    of_sessions.iter().for_each(|frame| rig.peers[0].push(&to_p0(*frame)));
    rig.peers[0].push(&to_p0(arp([192, 0, 2, 2])));
    rig.peers[1].push(&syn(7).macs(Mac(PEER), Mac(P1)).build());
    rig.peers[0].push(&to_p0(arp([192, 0, 2, 9]).tag(Tag::outer(5)).tag(Tag::new(6))));
    let counts = rig.run();
    let punted = rig.punted();
    let of = |iface, class| punted.iter().filter(|p| (p.0, p.1) == (iface, class)).count();
    for class in [Class::Strangers, Class::NewNeighbours] {
        assert!((32..=rates.most(class, begun)).contains(&of(1, class)), "{}", of(1, class));
    }
    assert_eq!((of(1, Class::Sessions), of(1, Class::Control), of(1, Class::ArpNd)), (1, 1, 1));
    assert_eq!(of(2, Class::Strangers), 1, "another port");
    assert_eq!(of(4, Class::NewNeighbours), 1, "another VLAN of the port");
    let strangers = counts.dropped("punt", "strangers") as usize;
    assert_eq!(strangers + of(1, Class::Strangers), 2000);
}

/// The thread that empties the ring may be behind: what comes first still finds room.
#[test]
fn the_ring_has_room_left_for_sessions() {
    let mut rates = Rates::default();
    rates.set(Class::ForUs, 1_000_000);
    let mut rig = Rig::new(&rates);
    rig.knows(peers());
    (0..1000).for_each(|_| rig.peers[0].push(&to_p0(udp4("192.0.2.1").payload(&[0; 1400]))));
    assert!(rig.run().dropped("punt", "ring_full") > 0);
    let session = || to_p0(tcp("198.51.100.9:40000", "192.0.2.1:179").payload(&[0; 1400]));
    (0..100).for_each(|_| rig.peers[0].push(&session()));
    rig.run();
    let punted = rig.punted();
    assert_eq!(punted.iter().filter(|p| p.1 == Class::Sessions).count(), 100);
}
