//! Gatekeeper and Grantor in one graph: what is asked, what passes, and that nothing else does.

mod budget;
mod programs;
mod rig;

use tables::event::NeighbourState;
use tables::{Action, Protect, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::ggu::{Decision, Flow, Ports, Writer};
use wire::vlan::Tag;

use crate::gatekeeper::settings::{DecisionsFrom, SHADOW, Settings};
use crate::testbed::{P0, P1, PEER, to_p0, udp4, udp6};
use rig::{CLIENTS, DECLINE, INSIDE, Rig, V4, V6, decided_here, grant, inside};

/// As the router sends it inside: the next hop, one hop less, and else as it came.
fn routed(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&INSIDE);
    frame[6..12].copy_from_slice(&P1);
    if frame[12..14] == [8, 0] {
        let headers = 14 + usize::from(frame[14] & 15) * 4;
        frame[22] -= 1;
        frame[24..26].fill(0);
        let sum = wire::checksum::checksum(&frame[14..headers]).to_be_bytes();
        frame[24..26].copy_from_slice(&sum);
    } else {
        frame[21] -= 1;
    }
    frame
}

/// A datagram of a client with this number.
fn of_client(client: u32) -> Vec<u8> {
    let from = std::net::SocketAddrV4::new((0xc633_6400 + client).into(), 4_000);
    to_p0(Frame::udp4(from, std::net::SocketAddrV4::new([10, 20, 0, 1].into(), 53)))
}

#[test]
fn the_first_packet_asks_and_all_pass_as_they_came() {
    let mut rig = Rig::new(grant(240_000));
    for frame in [to_p0(udp4(V4).payload(&[7; 40])), to_p0(udp6(V6).payload(&[7; 40]))] {
        let mut frame = frame;
        // DSCP 46, ECT(0).
        if frame[12..14] == [8, 0] {
            frame[15] = 46 << 2 | 2;
            frame[24..26].fill(0);
            let sum = wire::checksum::checksum(&frame[14..34]).to_be_bytes();
            frame[24..26].copy_from_slice(&sum);
        } else {
            frame[14..16].copy_from_slice(&[0x60 | 184 >> 4, (184 & 15 | 2) << 4]);
        }
        let before = rig.policy.asked();
        for _ in 0..3 {
            assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)]);
        }
        assert_eq!(rig.policy.asked(), before + 1);
        let asked = rig.policy.lock().asked.pop().unwrap();
        assert_eq!((asked.0, asked.1, &asked.2[..]), (41, 17, &frame[14..]));
        rig.policy.lock().asked.push(asked);
    }
    let seat = &rig.seats[0];
    let all = &seat.shield.all;
    assert_eq!((all.requests.get(), all.granted.get()), (2, 4));
    assert_eq!((seat.grantor.forwarded.get(), seat.grantor.decisions.get()), (2, 2));
    assert_eq!(seat.shield.decisions.all.granted.get(), 2);
    assert_eq!(all.request_bytes.get(), 82 + 102, "there is no outer header");
}

#[test]
fn what_is_declined_gets_nothing() {
    let mut rig = Rig::new(DECLINE);
    for frame in [to_p0(udp4(V4)), to_p0(udp6(V6))] {
        assert!(rig.send(std::slice::from_ref(&frame)).is_empty());
        assert!(rig.send(&vec![frame; 5]).is_empty());
    }
    assert_eq!(rig.policy.asked(), 2);
    assert_eq!((rig.dropped("grantor", "denied"), rig.dropped("shield", "declined")), (2, 10));
}

#[test]
fn a_verdict_without_a_decision_is_for_one_packet() {
    let mut rig = Rig::new(Some((true, None)));
    let frame = to_p0(udp4(V4));
    for n in 1..4 {
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)]);
        assert_eq!(rig.policy.asked(), n);
    }
}

#[test]
fn a_renewal_asks_and_delays_nothing() {
    let mut rig = Rig::new(grant(0));
    let frame = to_p0(udp4(V4).payload(&[1; 100]));
    assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)]);
    rig.policy.lock().says = None;
    assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)], "nobody has answered yet");
    assert_eq!(rig.policy.asked(), 2);
    assert_eq!(rig.policy.lock().asked[1].0, 2);
    assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)]);
    assert_eq!((rig.policy.asked(), rig.seats[0].grantor.renewals.get()), (2, 1));
    assert_eq!(rig.run().law.held, 1, "the copy waits");
}

#[test]
fn what_comes_back_is_routed() {
    let mut rig = Rig::new(DECLINE);
    let from = std::net::SocketAddrV4::new([10, 20, 0, 1].into(), 53);
    let to = "198.51.100.7:4000".parse().unwrap();
    let frame = Frame::udp4(from, to).macs(Mac(INSIDE), Mac(P1)).build().to_vec();
    rig.seats[0].back.push(&frame);
    rig.run();
    let sent = rig.seats[0].front.take();
    assert_eq!((sent.len(), &sent[0][..6]), (1, &CLIENTS[..]));
    assert_eq!(rig.policy.asked(), 0);
}

#[test]
fn ip_in_ip_from_the_front_is_never_unwrapped() {
    let mut rig = Rig::new(grant(240_000));
    let inner = &to_p0(udp4(V4))[14..];
    let wrapped = |to: &str, protocol, inner: &[u8]| {
        let from = [198, 51, 100, 7].into();
        to_p0(Frame::ipv4(from, to.parse().unwrap(), protocol).payload(inner))
    };
    // For what is protected: wrong, as it would be at a Grantor of its own.
    assert!(rig.send(&[wrapped(V4, 4, inner)]).is_empty());
    let inner6 = &to_p0(udp6(V6))[14..];
    assert!(rig.send(&[wrapped(V4, 41, inner6)]).is_empty());
    let six = Frame::ipv6("2001:db8:9::7".parse().unwrap(), V6.parse().unwrap(), 41);
    assert!(rig.send(&[to_p0(six.payload(inner6))]).is_empty());
    assert_eq!((rig.dropped("asked_here", "nested"), rig.policy.asked()), (3, 0));
    // For this machine, from addresses that its Gatekeepers have: the kernel's, whole.
    let wrapped6 = |to: &str| {
        to_p0(
            Frame::ipv6("2001:db8:9::7".parse().unwrap(), to.parse().unwrap(), 41).payload(inner6),
        )
    };
    let to_us = [
        wrapped("10.0.0.1", 4, inner),
        wrapped("10.0.2.1", 4, inner),
        wrapped6("2001:db8:1::1"),
        wrapped6("2001:db8:2::1"),
    ];
    for dscp in [0, 2, 41] {
        for (n, frame) in to_us.iter().enumerate() {
            let frame = with_dscp(frame, dscp);
            rig.seats[0].front.push(&frame);
            rig.work();
            assert!(rig.seats[0].back.take().is_empty(), "{n} {dscp}");
            let same = |_, got: &[u8]| assert!(got.ends_with(&frame[14..]), "{n} {dscp}");
            assert!(rig.seats[0].kernel.pop(same).is_some(), "{n} {dscp}");
        }
    }
    assert_eq!((rig.policy.asked(), rig.seats[0].grantor.passed.get()), (0, 0));
    // From the back, the same packets are unwrapped, and asked about.
    rig.policy.lock().wrapped = true;
    for (n, frame) in to_us.iter().enumerate() {
        for (dscp, seen) in [(0, (0, 1)), (41, (1, 0))] {
            let before = (rig.policy.asked() as u64, rig.seats[0].grantor.passed.get());
            let mut frame = with_dscp(frame, dscp);
            frame[..6].copy_from_slice(&P1);
            rig.seats[0].back.push(&frame);
            rig.work();
            let after = (rig.policy.asked() as u64, rig.seats[0].grantor.passed.get());
            assert_eq!((after.0 - before.0, after.1 - before.1), seen, "{n} {dscp}");
        }
    }
}

/// A frame of IPv4 or IPv6 without a tag, its checksum mended.
fn with_dscp(frame: &[u8], dscp: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[14] >> 4 == 6 {
        frame[14..16].copy_from_slice(&(0x6000 | u16::from(dscp) << 6).to_be_bytes());
    } else {
        frame[15] = dscp << 2;
        frame[24..26].fill(0);
        let sum = wire::checksum::checksum(&frame[14..34]).to_be_bytes();
        frame[24..26].copy_from_slice(&sum);
    }
    frame
}

/// What a Grantor of its own would find wrong in the tunnel is wrong here, whatever was decided.
#[test]
fn what_is_granted_is_looked_at_as_a_grantor_would() {
    let mut rig = Rig::new(grant(240_000));
    let (four, six) = (to_p0(udp4(V4)), to_p0(udp6(V6)));
    assert_eq!(rig.send(&[four.clone(), six.clone()]).len(), 2);
    let (client, client6) = ([198, 51, 100, 7].into(), "2001:db8:9::7".parse().unwrap());
    for (protocol, inner) in [(4, &four[14..]), (41, &six[14..])] {
        let frames = [
            to_p0(Frame::ipv4(client, V4.parse().unwrap(), protocol).payload(inner)),
            to_p0(Frame::ipv6(client6, V6.parse().unwrap(), protocol).payload(inner)),
        ];
        assert!(rig.send(&frames).is_empty(), "{protocol}");
    }
    assert_eq!((rig.dropped("asked_here", "nested"), rig.policy.asked()), (4, 2));
    assert_eq!(rig.seats[0].shield.all.granted.get(), 4, "judged as all others");
    // What is right passes, without what is behind it in its frame.
    let padded = to_p0(udp4(V4).payload(&[7; 40]).pad_to(300));
    let plain = to_p0(udp4(V4).payload(&[7; 40]));
    assert_eq!(rig.send(&[padded]), [routed(&plain)]);
}

/// Whoever else may decide for other protections: for what is decided here nobody but the policy.
#[test]
fn no_grantor_decides_for_what_is_decided_here() {
    let all = [DecisionsFrom::ItsGrantors, DecisionsFrom::Grantors, DecisionsFrom::Anybody];
    for decisions_from in all {
        let mut rig = Rig::new(DECLINE);
        // A Grantor of another protection.
        let ip = "10.0.2.9".parse().unwrap();
        let grantors = vec![tables::Named { ip, weight: 1, shadow: false }];
        let net = "10.30.0.0/16".parse().unwrap();
        let other = Protect { net, action: Action::Protect, options: 0, grantors };
        rig.control.protect(VrfId(0), &other).unwrap();
        rig.control.commit();
        let settings = Settings { decisions_from, ..rig::shield_settings() };
        rig.seats[0].settings.publish(settings);
        let verdict = grant(240_000).unwrap().1.unwrap();
        let flow =
            |dst: &str| Flow::V4 { src: [198, 51, 100, 7].into(), dst: dst.parse().unwrap() };
        let decisions = [V4, "10.30.0.1"].map(|dst| Decision { flow: flow(dst), verdict });
        let mut buffer = [0; 256];
        let [from, to] = ["10.0.2.9", "10.0.2.1"].map(|ip| ip.parse().unwrap());
        let mut message = Writer::new(&mut buffer, from, to, Ports::default()).unwrap();
        decisions.iter().for_each(|one| message.push(one).unwrap());
        let frame = [&P1[..], &INSIDE, &[8, 0], message.finish()].concat();
        rig.seats[0].back.push(&frame);
        rig.run();
        let counts = &rig.seats[0].shield.decisions;
        let heard = [counts.all.granted.get(), counts.all.not_its_grantor.get()];
        assert_eq!(heard, [1, 1], "{decisions_from:?}");
        assert!(rig.send(&[to_p0(udp4(V4))]).is_empty(), "the policy declines it");
        assert_eq!(rig.policy.asked(), 1);
    }
}

#[test]
fn the_owner_of_a_flow_hears_what_another_worker_has_asked() {
    let mut rig = Rig::with(grant(240_000), 2, 1_000_000);
    let owner = |client: u32| {
        let from: std::net::Ipv4Addr = (0xc633_6400 + client).into();
        rig.owners.ipv4(from, [10, 20, 0, 1].into())
    };
    let clients = [0, 1].map(|worker| (1..).find(|&client| owner(client) == worker).unwrap());
    for (worker, client) in clients.into_iter().enumerate() {
        let frame = of_client(client);
        let before = rig.policy.asked();
        // At the other one: its own table knows nothing of the decision.
        for n in 1..3 {
            assert_eq!(rig.send_to(1 - worker, std::slice::from_ref(&frame)).len(), 1);
            assert_eq!(rig.policy.asked(), before + n);
        }
        rig.run();
        for _ in 0..3 {
            assert_eq!(rig.send_to(worker, std::slice::from_ref(&frame)), [routed(&frame)]);
        }
        assert_eq!(rig.policy.asked(), before + 2, "it was granted when it came");
        assert_eq!(rig.seats[worker].shield.all.granted.get(), 3);
    }
}

#[test]
fn decisions_have_a_budget_and_patience_comes_first() {
    let mut rig = Rig::with(grant(240_000), 1, 10);
    let patient = of_client(200);
    rig.send(std::slice::from_ref(&patient));
    rig.policy.lock().says = Some((false, None));
    // Nine are left of this second's; those that wait are what there is room for.
    let flood: Vec<_> = (0..100).map(of_client).collect();
    rig.send(&flood);
    let asked = rig.policy.asked();
    assert!((10..=14).contains(&asked), "{asked} of 101");
    assert_eq!(
        rig.send(std::slice::from_ref(&patient)),
        [routed(&patient)],
        "what is granted passes"
    );
    let held = rig.run().law.held;
    assert_eq!(held + asked as u64, 101, "the others wait");
}

#[test]
fn a_shadow_asks_with_copies_and_lets_all_pass() {
    let mut rig = Rig::new(DECLINE);
    rig.control.change_protection(VrfId(0), &decided_here("10.20.0.0/16", SHADOW)).unwrap();
    rig.control.commit();
    let frame = to_p0(udp4(V4));
    for _ in 0..3 {
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)], "once");
    }
    assert_eq!((rig.policy.asked(), rig.dropped("grantor", "shadow")), (1, 1));
    let seat = &rig.seats[0];
    assert_eq!(seat.shield.shadow.declined.get(), 2);
    assert_eq!((seat.shield.all.declined.get(), seat.shield.shadows.passed.get()), (0, 1));
}

#[test]
fn what_has_no_way_inside_is_dropped_by_name() {
    let mut rig = Rig::new(grant(240_000));
    let frame = to_p0(udp4(V4));
    assert_eq!(rig.send(std::slice::from_ref(&frame)).len(), 1);
    rig.control.handle(&[inside("10.0.2.9", NeighbourState::Failed)]);
    assert!(rig.send(std::slice::from_ref(&frame)).is_empty());
    assert_eq!(rig.dropped("decisions", "no_way"), 1);
    rig.control.handle(&[inside("10.0.2.9", NeighbourState::Reachable)]);
    assert_eq!(rig.send(&[frame]).len(), 1);
}

#[test]
fn what_a_protection_was_is_not_what_it_is() {
    let mut rig = Rig::new(grant(240_000));
    let frame = to_p0(udp4(V4));
    assert_eq!(rig.send(std::slice::from_ref(&frame)).len(), 1);
    // Another decides, who is not there: the grant was another's.
    let grantors =
        vec![tables::Named { ip: "10.0.2.77".parse().unwrap(), weight: 1, shadow: false }];
    let net = "10.20.0.0/16".parse().unwrap();
    let away = Protect { net, action: Action::Protect, options: 0, grantors };
    rig.control.change_protection(VrfId(0), &away).unwrap();
    rig.control.commit();
    assert!(rig.send(std::slice::from_ref(&frame)).is_empty());
    assert_eq!(rig.dropped("solicit", "unresolved"), 1);
    rig.control.change_protection(VrfId(0), &decided_here("10.20.0.0/16", 0)).unwrap();
    rig.control.commit();
    assert_eq!(rig.send(&[frame]).len(), 1);
    assert_eq!(rig.policy.asked(), 2);
}

/// Each of F8, whatever the policy says: `run` asserts that nothing is punted.
#[test]
fn no_kind_of_packet_is_punted_or_passes_unasked() {
    let four = || {
        [
            udp4(V4).options(&[7, 4, 4, 0]),
            udp4(V4).options(&[131, 4, 4, 0]),
            udp4(V4).ttl(0),
            udp4(V4).ttl(1),
            udp4(V4).fragment(7, 0, true),
            udp4(V4).fragment(7, 1_480, false),
            udp4(V4).payload(&[1; 1_473]),
            udp4(V4).payload(&[1; 1_473]).fragment(7, 0, true),
            udp4(V4).wrong_ip_checksum(),
            udp4(V4).claim_len(19),
            udp4(V4).claim_len(400),
            udp4(V4).pad_to(300),
            udp4(V4).tag(Tag::outer(5)).tag(Tag::new(6)),
            udp4(V4).tag(Tag::new(5)),
            Frame::ipv4([169, 254, 0, 9].into(), V4.parse().unwrap(), 17),
            Frame::ipv4([127, 0, 0, 1].into(), V4.parse().unwrap(), 17),
            Frame::ipv4([224, 0, 0, 1].into(), V4.parse().unwrap(), 17),
        ]
    };
    let six = || {
        let link = "fe80::7".parse().unwrap();
        [
            udp6(V6).ttl(0),
            udp6(V6).ttl(1),
            udp6(V6).extension(0, [5, 2, 0, 0, 1, 0]),
            udp6(V6).extension(43, [0, 0, 0, 0, 0, 0]),
            udp6(V6).extension(60, [1, 4, 0, 0, 0, 0]),
            udp6(V6).fragment(7, 0, true),
            udp6(V6).fragment(7, 1_480, false),
            udp6(V6).payload(&[1; 1_453]),
            udp6(V6).claim_len(900),
            udp6(V6).pad_to(300),
            Frame::ipv6(link, V6.parse().unwrap(), 17),
            Frame::ipv6("::".parse().unwrap(), V6.parse().unwrap(), 17),
            Frame::ipv6("ff02::1".parse().unwrap(), V6.parse().unwrap(), 17),
            Frame::ipv6("::ffff:1.2.3.4".parse().unwrap(), V6.parse().unwrap(), 17),
        ]
    };
    let groups = [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]];
    for says in [grant(240_000), grant(0), DECLINE, Some((true, None)), Some((false, None)), None] {
        for shadow in [0, SHADOW] {
            let mut rig = Rig::new(says);
            for net in ["10.20.0.0/16", "2001:db8:20::/48"] {
                rig.control.change_protection(VrfId(0), &decided_here(net, shadow)).unwrap();
            }
            rig.control.commit();
            for state in [NeighbourState::Reachable, NeighbourState::Failed] {
                for ip in ["10.0.2.9", "2001:db8:2::9"] {
                    rig.control.handle(&[inside(ip, state)]);
                }
                for mac in [P0].into_iter().chain(groups) {
                    let all = four().into_iter().chain(six());
                    let frames = all.map(|it| it.macs(Mac(PEER), Mac(mac)).build().to_vec());
                    let sent = rig.send(&frames.collect::<Vec<_>>());
                    let passes = says.is_some_and(|says| says.0) || shadow != 0;
                    assert!(passes || sent.is_empty(), "{says:?}");
                    assert!(sent.iter().all(|frame| frame.len() <= 1_514));
                }
                let back = rig.seats[0].front.take();
                assert!(back.iter().all(|frame| frame[..6] == PEER), "to who sent it alone");
            }
        }
    }
}

#[test]
fn the_last_hop_and_what_does_not_fit_are_reported_to_the_source() {
    let mut rig = Rig::new(grant(240_000));
    for granted in [false, true] {
        for frame in [
            to_p0(udp4(V4).ttl(1)),
            to_p0(udp6(V6).ttl(1)),
            to_p0(udp4(V4).payload(&[1; 1_473])),
            to_p0(udp6(V6).payload(&[1; 1_453])),
        ] {
            assert!(rig.send(&[frame]).is_empty());
            assert_eq!(rig.seats[0].front.take().len(), 1, "granted before: {granted}");
        }
    }
    let errors = &rig.seats[0].shield.errors;
    assert_eq!((errors.ttl_exceeded.get(), errors.too_long.get()), (4, 4));
}
