//! Nothing that is protected gets to the kernel, or out by another way (F8); errors that are
//! due come from here.

use tables::event::{Event, LinkId, Neighbour, NeighbourState, Target};
use tables::{Action, Protect, VrfId};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::vlan::Tag;
use wire::{icmp, icmpv6};

use super::super::settings::{SHADOW, Settings};
use super::rig::{Rig, address, in_v4, in_v6, neighbour, route, settings};
use crate::testbed::{P0, P1, PEER, to_p0, udp4, udp6};

const V4: &str = "10.20.0.1";
const V6: &str = "2001:db8:20::1";

/// A rig whose front has an address of IPv6, too, and bypasses of both families.
fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.control.handle(&[
        address(1, "2001:db8:1::1/64"),
        address(1, "2001:db8:1::2/64"),
        address(1, "fe80::1/64"),
        route("2001:db8:21::/48", 2, Some("2001:db8:2::9")),
    ]);
    bypass(&mut rig, "2001:db8:21::/48");
    rig
}

fn bypass(rig: &mut Rig, net: &str) {
    let net = net.parse().unwrap();
    let bypass = Protect { net, action: Action::Bypass, options: 0, grantors: Vec::new() };
    rig.control.protect(VrfId(0), &bypass).unwrap();
    rig.control.commit();
}

/// What is sent back for frames that all go nowhere.
fn answers(rig: &mut Rig, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    assert!(rig.send(frames).is_empty(), "nothing leaves at the back");
    rig.front.take()
}

/// The ICMP error about `frame`: type, code, what follows; a packet of so many bytes is quoted.
fn error(frame: &[u8], kind: u8, code: u8, rest: u32, quoted: usize) -> Vec<u8> {
    let is_v4 = frame[12..14] == [8, 0];
    let quote = &frame[14..14 + quoted];
    let len = 8 + quoted;
    let mut message = [&[kind, code, 0, 0][..], &rest.to_be_bytes(), quote].concat();
    let mut packet = if is_v4 {
        icmp::fill_checksum(&mut message).unwrap();
        let total = (20 + len as u16).to_be_bytes();
        let mut head = vec![0x45, 0xc0, total[0], total[1], 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1];
        head.extend(&frame[26..30]);
        let sum = wire::checksum::checksum(&head).to_be_bytes();
        head[10..12].copy_from_slice(&sum);
        head
    } else {
        let from: std::net::Ipv6Addr = "2001:db8:1::1".parse().unwrap();
        let to: [u8; 16] = frame[22..38].try_into().unwrap();
        icmpv6::fill_checksum(from, to.into(), &mut message).unwrap();
        let total = (len as u16).to_be_bytes();
        let mut head = vec![0x60, 0, 0, 0, total[0], total[1], 58, 64];
        head.extend(from.octets());
        head.extend(to);
        head
    };
    packet.extend(message);
    [&PEER[..], &P0, &frame[12..14], &packet].concat()
}

#[test]
fn what_the_back_cannot_carry_encapsulated_is_reported_to_the_source() {
    let mut rig = rig();
    // 1,500 bytes less the outer header.
    let four = to_p0(udp4(V4).payload(&[1; 1_453]));
    let six = to_p0(udp6(V6).payload(&[1; 1_413]));
    let want = [
        error(&four, icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED, 1_480, 576 - 28),
        error(&six, icmpv6::PACKET_TOO_BIG, 0, 1_460, 1_280 - 48),
    ];
    assert_eq!(answers(&mut rig, &[four.clone(), six.clone()]), want, "of requests");
    let grant = wire::ggu::Verdict::Granted {
        expire_s: 300,
        rate_kib: 1_024,
        next_renewal_ms: 3_600_000,
        renewal_step_ms: 1,
    };
    rig.decide(V4, grant);
    rig.decide(V6, grant);
    assert_eq!(answers(&mut rig, &[four, six]), want, "of what is granted");
    assert_eq!(rig.counters.errors.too_long.get(), 4);
    // Who lets others fragment is not asked not to; nobody does.
    let may = to_p0(udp4(V4).fragment(7, 0, true).payload(&[1; 1_453]));
    assert!(answers(&mut rig, &[may]).is_empty());
    assert_eq!(rig.dropped("shield", "too_long"), 1);
}

/// A router behind the back says that it does not carry what we have encapsulated.
#[test]
fn errors_about_what_is_too_long_behind_the_back_are_counted_and_go_on() {
    let mut rig = rig();
    let (router, us) = ("10.0.2.9".parse().unwrap(), [10, 0, 2, 1].into());
    let (router6, us6) = ("2001:db8:2::9".parse().unwrap(), "2001:db8:2::1".parse().unwrap());
    let sent = to_p0(udp4(V4).payload(&[1; 800]));
    let sent = &in_v4(1, &sent[14..])[14..42];
    let sent6 = to_p0(udp6(V6).payload(&[1; 800]));
    let sent6 = &in_v6(1, &sent6[14..])[14..62];
    let others = &to_p0(udp4("10.0.2.9"))[14..];
    let error = |kind, code| icmp::Header { kind, code, rest: [0, 0, 5, 0] };
    let too_long = error(icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED);
    let too_long6 = error(icmpv6::PACKET_TOO_BIG, 0);
    for (frame, counted) in [
        (Frame::icmp4(router, us, too_long).payload(sent), 1),
        (Frame::icmp6(router6, us6, too_long6).payload(sent6), 1),
        // About something else, something else, and cut off.
        (Frame::icmp4(router, us, too_long).payload(others), 0),
        (Frame::icmp4(router, us, error(icmp::UNREACHABLE, icmp::HOST)).payload(sent), 0),
        (Frame::icmp6(router6, us6, error(icmpv6::UNREACHABLE, 0)).payload(sent6), 0),
        (Frame::icmp4(router, us, too_long).payload(&sent[..19]), 0),
        (Frame::icmp6(router6, us6, too_long6), 0),
    ] {
        let before = rig.counters.errors.too_long_beyond.get();
        rig.back.push(&frame.macs(Mac(PEER), Mac(P1)).build());
        rig.work();
        assert!(rig.kernel.pop(|_, _| ()).is_some(), "for the kernel, too");
        assert_eq!(rig.counters.errors.too_long_beyond.get() - before, counted);
    }
    // From the front it is nobody's business.
    rig.front
        .push(&Frame::icmp4(router, us, too_long).payload(sent).macs(Mac(PEER), Mac(P0)).build());
    rig.work();
    assert!(rig.kernel.pop(|_, _| ()).is_some());
    assert_eq!(rig.counters.errors.too_long_beyond.get(), 2);
}

#[test]
fn a_bypass_reports_time_exceeded_too_long_and_unreachable() {
    let mut rig = rig();
    for ttl in [0, 1] {
        let four = to_p0(udp4("10.21.0.1").ttl(ttl));
        let six = to_p0(udp6("2001:db8:21::1").ttl(ttl));
        let want = [
            error(&four, icmp::TIME_EXCEEDED, 0, 0, four.len() - 14),
            error(&six, icmpv6::TIME_EXCEEDED, 0, 0, six.len() - 14),
        ];
        assert_eq!(answers(&mut rig, &[four, six]), want, "{ttl}");
    }
    let four = to_p0(udp4("10.21.0.1").payload(&[1; 1_473]));
    let six = to_p0(udp6("2001:db8:21::1").payload(&[1; 1_453]));
    let want = [
        error(&four, icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED, 1_500, 576 - 28),
        error(&six, icmpv6::PACKET_TOO_BIG, 0, 1_500, 1_280 - 48),
    ];
    assert_eq!(answers(&mut rig, &[four, six]), want);
    let may = to_p0(udp4("10.21.0.1").fragment(7, 0, true).payload(&[1; 1_473]));
    assert!(answers(&mut rig, &[may]).is_empty());
    assert_eq!(rig.dropped("unsent", "too_long"), 1);
    // No route.
    bypass(&mut rig, "172.16.0.0/16");
    let four = to_p0(udp4("172.16.0.1"));
    let want = error(&four, icmp::UNREACHABLE, icmp::NETWORK, 0, four.len() - 14);
    assert_eq!(answers(&mut rig, &[four]), [want]);
    let counts = &rig.counters.errors;
    assert_eq!(
        (counts.ttl_exceeded.get(), counts.too_long.get(), counts.unreachable.get()),
        (4, 2, 1)
    );
}

#[test]
fn no_error_is_about_what_none_is_due_for() {
    let mut rig = rig();
    let from = [198, 51, 100, 7].into();
    let to = "10.21.0.1".parse().unwrap();
    let error4 = |kind| icmp::Header { kind, code: 0, rest: [0; 4] };
    let (from6, to6) = ("2001:db8:9::7".parse().unwrap(), "2001:db8:21::1".parse().unwrap());
    let none = [
        Frame::icmp4(from, to, error4(3)).ttl(1),
        Frame::icmp4(from, to, error4(11)).ttl(1),
        udp4("10.21.0.1").ttl(1).fragment(7, 1_480, false),
        Frame::icmp6(from6, to6, error4(1)).ttl(1),
        Frame::icmp6(from6, to6, error4(137)).ttl(1),
        Frame::icmp6(from6, to6, error4(2)).ttl(1).extension(60, [1, 4, 0, 0, 0, 0]),
        udp6("2001:db8:21::1").ttl(1).fragment(7, 1_480, false),
    ];
    let frames: Vec<_> = none.iter().map(|frame| to_p0(*frame)).collect();
    assert!(answers(&mut rig, &frames).is_empty());
    assert_eq!(rig.dropped("icmp_error", "ttl_exceeded"), frames.len() as u64);
    let due = [
        Frame::icmp4_echo(from, to, 1, 1).ttl(1),
        udp4("10.21.0.1").ttl(1).fragment(7, 0, true),
        Frame::icmp6_echo(from6, to6, 1, 1).ttl(1),
        udp6("2001:db8:21::1").ttl(1).extension(60, [1, 4, 0, 0, 0, 0]),
        udp6("2001:db8:21::1").ttl(1).fragment(7, 0, true),
    ];
    let due: Vec<_> = due.iter().map(|frame| to_p0(*frame)).collect();
    assert_eq!(answers(&mut rig, &due).len(), due.len());
}

#[test]
fn errors_keep_to_their_rate_and_need_an_address() {
    let mut rig = Rig::new();
    rig.settings.publish(Settings { errors_per_s: 1, ..settings() });
    let flood = vec![to_p0(udp4("10.21.0.1").ttl(1)); 200];
    let sent = answers(&mut rig, &flood).len();
    assert!((32..=40).contains(&sent), "{sent}");
    assert_eq!(rig.dropped("icmp_error", "rate"), 200 - sent as u64);
    rig.settings.publish(Settings { errors_per_s: 0, ..settings() });
    assert!(answers(&mut rig, &flood).is_empty());
    // Of IPv6 this front has no address.
    bypass(&mut rig, "2001:db8:2100::/48");
    assert!(answers(&mut rig, &[to_p0(udp6("2001:db8:2100::1"))]).is_empty());
    assert_eq!(rig.dropped("icmp_error", "no_address"), 1);
}

/// Each of F8, to what is protected, bypassed, dropped: `run` asserts that nothing is punted.
#[test]
fn no_kind_of_packet_is_punted() {
    let mut rig = rig();
    let four = |dst: &'static str| {
        [
            udp4(dst).options(&[7, 4, 4, 0]),
            udp4(dst).options(&[131, 4, 4, 0]),
            udp4(dst).ttl(0),
            udp4(dst).ttl(1),
            udp4(dst).fragment(7, 0, true),
            udp4(dst).fragment(7, 1_480, false),
            udp4(dst).payload(&[1; 1_472]),
            udp4(dst).wrong_checksum(),
            udp4(dst).wrong_ip_checksum(),
            udp4(dst).claim_len(19),
            udp4(dst).claim_len(400),
            udp4(dst).pad_to(300),
            udp4(dst).tag(Tag::outer(5)).tag(Tag::new(6)),
            udp4(dst).tag(Tag::new(5)).tag(Tag::new(6)),
            udp4(dst).tag(Tag::new(5)),
            udp4(dst).tag(Tag::new(5)).tag(Tag::new(6)).tag(Tag::new(7)),
            Frame::ipv4([169, 254, 0, 9].into(), dst.parse().unwrap(), 17),
            Frame::ipv4([169, 254, 0, 9].into(), dst.parse().unwrap(), 17).options(&[7, 4, 4, 0]),
            Frame::ipv4([127, 0, 0, 1].into(), dst.parse().unwrap(), 17),
            Frame::ipv4([224, 0, 0, 1].into(), dst.parse().unwrap(), 17),
        ]
    };
    let six = |dst: &'static str| {
        let link = "fe80::7".parse().unwrap();
        [
            udp6(dst).ttl(0),
            udp6(dst).ttl(1),
            udp6(dst).extension(0, [5, 2, 0, 0, 1, 0]),
            udp6(dst).extension(0, [0xc2, 4, 0, 1, 0, 0]),
            udp6(dst).extension(43, [0, 0, 0, 0, 0, 0]),
            udp6(dst).extension(60, [1, 4, 0, 0, 0, 0]),
            udp6(dst).fragment(7, 0, true),
            udp6(dst).fragment(7, 1_480, false),
            udp6(dst).payload(&[1; 1_452]),
            udp6(dst).claim_len(900),
            udp6(dst).pad_to(300),
            udp6(dst).tag(Tag::outer(5)).tag(Tag::new(6)),
            Frame::ipv6(link, dst.parse().unwrap(), 17),
            Frame::ipv6("::".parse().unwrap(), dst.parse().unwrap(), 17),
            Frame::ipv6("ff02::1".parse().unwrap(), dst.parse().unwrap(), 17),
            Frame::ipv6("::ffff:1.2.3.4".parse().unwrap(), dst.parse().unwrap(), 17),
        ]
    };
    let groups = [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]];
    let macs = |mac| move |frame: Frame<'static>| frame.macs(Mac(PEER), Mac(mac)).build().to_vec();
    // Not resolved, no route, through the kernel: withdrawn below.
    bypass(&mut rig, "172.16.0.0/16");
    for shadow in [0, SHADOW] {
        let grantors =
            vec![tables::Named { ip: "10.0.2.9".parse().unwrap(), weight: 1, shadow: false }];
        let net = "10.20.0.0/16".parse().unwrap();
        let protect = Protect { net, action: Action::Protect, options: shadow, grantors };
        rig.control.change_protection(VrfId(0), &protect).unwrap();
        rig.control.commit();
        for state in [NeighbourState::Reachable, NeighbourState::Failed] {
            for ip in ["10.0.2.9", "2001:db8:2::9"] {
                rig.control.handle(&[neighbour(ip, state)]);
            }
            for dst in [V4, "10.20.255.255", "10.21.0.1", "10.22.0.1", "10.23.0.1", "172.16.0.1"] {
                for mac in [P0].into_iter().chain(groups) {
                    let frames: Vec<_> = four(dst).into_iter().map(macs(mac)).collect();
                    rig.send(&frames);
                }
            }
            for dst in [V6, "2001:db8:21::1"] {
                for mac in [P0].into_iter().chain(groups) {
                    let frames: Vec<_> = six(dst).into_iter().map(macs(mac)).collect();
                    rig.send(&frames);
                }
            }
            let sent = rig.front.take();
            assert!(sent.iter().all(|frame| frame[..6] == PEER), "errors to who sent it alone");
        }
    }
    // Each first byte of a packet, damaged.
    for at in 14..60 {
        for bit in 0..8 {
            let mut frames = [to_p0(udp4(V4).payload(&[1; 40])), to_p0(udp6(V6))];
            frames.iter_mut().for_each(|frame| frame[at] ^= 1 << bit);
            let is_group = |frame: &Vec<u8>| {
                frame[12..14] == [8, 0] && frame[30] >= 224
                    || frame[12] == 0x86 && frame[38] == 0xff
            };
            let frames: Vec<_> = frames.into_iter().filter(|frame| !is_group(frame)).collect();
            frames.iter().for_each(|frame| rig.front.push(frame));
            rig.work();
            // Link-local destinations of IPv6 are on the link, whoever has them.
            while rig.kernel.pop(|_, frame| assert_eq!(frame[38..40], [0xfe, 0x80])).is_some() {}
        }
    }
}

#[test]
fn what_bypasses_without_a_way_is_dropped_by_name() {
    let mut rig = rig();
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Failed)]);
    assert!(answers(&mut rig, &[to_p0(udp4("10.21.0.1"))]).is_empty());
    assert_eq!(rig.dropped("decisions", "no_way"), 1);
}

/// The kernel forwards what has options, and resolves neighbours to send them packets.
#[test]
fn from_the_back_the_kernel_gets_nothing_that_leads_there() {
    let mut rig = rig();
    let from_back = |frame: Frame<'_>| frame.macs(Mac(PEER), Mac(P1)).build().to_vec();
    let options = |dst| from_back(udp4(dst).options(&[7, 4, 4, 0]));
    for frame in [options(V4), options("10.0.2.9"), options("10.0.2.77")] {
        rig.back.push(&frame);
    }
    assert_eq!(rig.dropped("ip4_special", "back_to_back"), 3);
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Failed)]);
    for dst in [V4, "10.99.0.1", "10.0.2.77", "10.0.3.77"] {
        rig.back.push(&from_back(udp4(dst)));
    }
    for dst in ["2001:db8:2::77", "2001:db8:21::1"] {
        rig.back.push(&from_back(udp6(dst)));
    }
    assert_eq!(rig.dropped("ip4_lookup", "back_to_back"), 4);
    assert_eq!(rig.dropped("ip6_lookup", "back_to_back"), 1, "the other one is resolved");
    assert_eq!(rig.dropped("ip6_sides", "back_to_back"), 1);
    // At the front, both are the kernel's as ever.
    for frame in [options("10.0.0.77"), from_back(udp4("10.0.0.77"))] {
        rig.back.push(&frame);
        rig.work();
        assert!(rig.kernel.pop(|_, _| ()).is_some());
    }
}

/// BIRD with `merge paths on`, and a provider and the protected network that announce the same.
#[test]
fn of_a_route_that_both_sides_have_no_flow_is_lost() {
    let mut rig = rig();
    let path = |link, via: &str| {
        let via = Some(via.parse().unwrap());
        tables::event::Path { link: LinkId(link), via, weight: 1, mtu: 0 }
    };
    let (ip, mac) = ("10.0.0.7".parse().unwrap(), Some(PEER));
    let state = NeighbourState::Reachable;
    let mut both = route("172.16.0.0/12", 0, None);
    if let Event::Route(route, _) = &mut both {
        route.target = Target::Paths([path(1, "10.0.0.7"), path(2, "10.0.2.9")].into());
    }
    rig.control.handle(&[Event::Neighbour(Neighbour { link: LinkId(1), ip, mac, state }), both]);
    bypass(&mut rig, "172.16.0.0/16");
    let flows = |net: &str| (0..40).map(|host| format!("{net}.{host}")).collect::<Vec<_>>();
    let bypassed: Vec<_> = flows("172.16.0").iter().map(|dst| to_p0(udp4(dst))).collect();
    assert_eq!(rig.send(&bypassed).len(), 40, "to the back");
    for dst in flows("172.17.0") {
        rig.back.push(&udp4(&dst).macs(Mac(PEER), Mac(P1)).build());
    }
    rig.run();
    assert_eq!((rig.front.take().len(), rig.back.take().len()), (40, 0), "answers, to the front");
    rig.control.handle(&[neighbour("10.0.2.9", NeighbourState::Failed)]);
    assert!(answers(&mut rig, &bypassed).is_empty());
    let dropped = ["ip4_sides.front_to_front", "decisions.no_way"].map(|of| {
        let (node, why) = of.split_once('.').unwrap();
        rig.dropped(node, why)
    });
    assert!(dropped[0] > 0 && dropped[0] + dropped[1] == 40, "no way: by name, {dropped:?}");
}

#[test]
fn a_broadcast_frame_for_this_router_is_punted_and_others_are_not() {
    let mut rig = rig();
    let broadcast = |frame: Frame<'_>| frame.macs(Mac(PEER), Mac([0xff; 6])).build().to_vec();
    assert!(answers(&mut rig, &[broadcast(udp4(V4)), broadcast(udp6(V6))]).is_empty());
    assert_eq!(rig.dropped("group_framed", "not_for_us"), 2);
    for dst in ["10.0.0.1", "255.255.255.255", "224.0.0.5"] {
        rig.front.push(&broadcast(udp4(dst)));
    }
    rig.back.push(&udp4("10.30.0.1").macs(Mac(PEER), Mac([0xff; 6])).build());
    rig.work();
    let mut punted = 0;
    while rig.kernel.pop(|_, _| punted += 1).is_some() {}
    assert_eq!(punted, 4);
}
