//! Packets that are recognised as plain go where the definition says, with the same bytes: random
//! packets, many with something uncommon.

use std::marker::PhantomData;
use std::net::Ipv6Addr;
use std::sync::Arc;

use graph::testing::Outcome;
use graph::{Lanes, Node, View};
use lookup::sync::Published;
use tables::{Forwarding, IfaceId};
use wire::build::Frame;
use wire::checksum;

use super::super::inner::{self, Why};
use super::super::ip_tunnel::{IpTunnel, Tunnels, is_ours, lead_on};
use super::super::lanes::Asks;
use super::super::nets::Nets;
use super::super::plain;
use super::super::settings::{Counters, Ecn, Settings};
use super::rig::{Rig, datagram, datagram6, grant, in_v4, in_v4_from, in_v6};
use crate::family::{V4, V6};
use crate::lanes::Iface;
use crate::parse::cut::Uncut;
use crate::router::l3::ip4_input::Ip4Input;
use crate::router::l3::ip6_input::Ip6Input;
use crate::testbed::Net;

/// The definition, packet by packet.
struct Straight<F> {
    forwarding: Arc<Forwarding>,
    settings: Settings,
    counters: Counters,
    family: PhantomData<F>,
}

impl<F: Tunnels> Node for Straight<F> {
    type Edge = F::To;
    type Drop = Why;
    const NAME: &'static str = F::TUNNEL;
    const HELP: &'static str = "unwraps";
    const READS: Lanes = Lanes::of::<(Iface, F::Dst)>();

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.leave_all(F::TO_LOOKUP);
        for i in 0..v.n() {
            let (iface, dst) = (v.get(Iface, i), v.get(F::DST, i));
            if F::may_hold_ip(v.head(i))
                && is_ours::<F>(&self.forwarding, v.guard(), iface, dst)
                && F::holds_ip(v.rest(i))
                && let Err(why) = lead_on::<F, _>(v, i, &self.settings, &self.counters)
            {
                v.drop(i, why);
            }
        }
    }
}

/// Numbers below what is asked, the same in every run.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut rng = lookup::rng::SplitMix64(7);
    move |below| rng.below(below as u64) as usize
}

/// A frame with its link header's length, and the interface it came by.
type Came = (Vec<u8>, usize, IfaceId);

fn summed(header: &mut [u8]) {
    let len = (usize::from(header[0] & 15) * 4).clamp(20, header.len());
    header[10..12].fill(0);
    let sum = checksum::checksum(&header[..len]).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
}

/// Changes some byte of a header, in one of `odds` cases.
fn perhaps(header: &mut [u8], odds: usize, random: &mut impl FnMut(usize) -> usize) {
    if random(odds) == 0 {
        let at = random(header.len());
        header[at] = match random(3) {
            0 => header[at] ^ 1 << random(8),
            1 => [0, 4, 41, 44, 127, 169, 224, 255][random(8)],
            _ => random(256) as u8,
        };
    }
}

/// The length that a header gives: mostly the right one, or one beside it, or a short one.
fn length(len: usize, random: &mut impl FnMut(usize) -> usize) -> [u8; 2] {
    let len = [len, len, len, len, len + 1, len.saturating_sub(1), random(24)][random(7)];
    (len as u16).to_be_bytes()
}

/// Puts tags in and bytes behind.
fn framed(mut frame: Vec<u8>, random: &mut impl FnMut(usize) -> usize) -> Came {
    let tags = [0, 0, 1, 2][random(4)];
    for _ in 0..tags {
        frame.splice(12..12, [0x81, 0, 0, random(256) as u8]);
    }
    let len = [frame.len(), frame.len().max(64), frame.len() + random(9)][random(3)];
    frame.resize(len, 0xee);
    (frame, 14 + 4 * tags, IfaceId([1, 1, 1, 4][random(4)]))
}

fn four(random: &mut impl FnMut(usize) -> usize) -> Came {
    let src = [[198, 9, 169][random(3)], [51, 254][random(2)], 1, random(256) as u8];
    let dst = [10, [20, 20, 22, 21][random(4)], 0, random(256) as u8];
    let frame = Frame::ipv4(src.into(), dst.into(), [17, 17, 6, 1, 4, 41][random(6)]);
    let payload = vec![7; random(80)];
    let frame = frame.payload(&payload).ttl([64, 1, 0, 254, 255][random(5)]);
    let mut inner = frame.tos([0, 0, 1, 2, 3, 0xb8][random(6)]).build()[14..].to_vec();
    let total = length(inner.len(), random);
    inner[2..4].copy_from_slice(&total);
    perhaps(&mut inner[..20], 3, random);
    if random(8) > 0 {
        summed(&mut inner);
    }
    inner.extend(vec![0; [0, 0, random(9)][random(3)]]);
    let tos = ([0, 1, 1, 1, 2, 41][random(6)] << 2 | [0, 0, 1, 2, 3][random(5)]) as u8;
    let from = [[10, 0, 1, 7], [10, 0, 1, 8], [10, 0, 2, 1], [10, 0, 2, 2]][random(4)];
    let mut frame = in_v4_from(from, tos, &inner);
    let to = [[192, 0, 2, 1], [192, 0, 2, 1], [203, 0, 113, 9], [10, 0, 0, 1]][random(4)];
    frame[30..34].copy_from_slice(&to);
    perhaps(&mut frame[14..34], 12, random);
    summed(&mut frame[14..34]);
    framed(frame, random)
}

fn six(random: &mut impl FnMut(usize) -> usize) -> Came {
    let sources = ["2001:db8:9::7", "2001:db8:9::8", "fec0::1", "::9", "::1", "fe80::1"];
    let src: Ipv6Addr = sources[random(6)].parse().unwrap();
    let served = ["2001:db8:20::1", "2001:db8:22::1", "2001:db8:20::2", "2001:db8:21::1"];
    let dst: Ipv6Addr = served[random(4)].parse().unwrap();
    let frame = Frame::ipv6(src, dst, [17, 17, 6, 58, 4, 41][random(6)]);
    let payload = vec![7; random(80)];
    let frame = frame.payload(&payload).ttl([64, 1, 0, 254, 255][random(5)]);
    let frame = frame.tos([0, 0, 1, 2, 3, 0xb8][random(6)]);
    let frame = if random(6) == 0 { frame.extension(60, [1, 4, 0, 0, 0, 0]) } else { frame };
    let mut inner = frame.build()[14..].to_vec();
    let len = length(inner.len() - 40, random);
    inner[4..6].copy_from_slice(&len);
    perhaps(&mut inner[..40], 3, random);
    inner.extend(vec![0; [0, 0, random(9)][random(3)]]);
    let (dscp, ecn) = ([0, 1, 1, 1, 2, 41][random(6)], [0, 0, 1, 2, 3][random(5)]);
    let mut frame = in_v6(dscp, ecn, &inner);
    frame[37] = [1, 1, 1, 2][random(4)];
    let own = ["2001:db8:ffff::1", "2001:db8:ffff::1", "2001:db8:5::5", "2001:db8:1::1"];
    frame[38..54].copy_from_slice(&own[random(4)].parse::<Ipv6Addr>().unwrap().octets());
    perhaps(&mut frame[14..54], 12, random);
    framed(frame, random)
}

fn settings(ecn: Ecn, shadow: bool) -> Settings {
    let nets = |all: &[&str]| {
        Nets::new(all.iter().map(|text| {
            let (ip, len) = text.split_once('/').unwrap();
            (ip.parse().unwrap(), len.parse().unwrap())
        }))
    };
    let gatekeepers = nets(&["10.0.1.0/24", "10.0.2.1/32", "2001:db8:2::1/128"]);
    let all = ["10.20.0.0/16", "10.22.0.0/16", "2001:db8:20::/48", "2001:db8:22::/48"];
    Settings { gatekeepers, serves: nets(&all), ecn, shadow, ..Settings::default() }
}

/// Vectors of frames that the header check passes, through both nodes. Returns how many were
/// unwrapped, and how many dropped.
fn agree<F: Tunnels, I: Node>(
    mut input: I,
    make: impl Fn(&mut dyn FnMut(usize) -> usize) -> Came,
    settings: Settings,
    vectors: usize,
) -> (u64, usize) {
    let (net, mut random) = (Net::new(), numbers());
    let mut bench = net.bench();
    let mut straight = Straight::<F> {
        forwarding: net.forwarding.clone(),
        settings: settings.clone(),
        counters: Counters::default(),
        family: PhantomData,
    };
    let (published, counters) = (Published::new(&net.domain, settings), Counters::new());
    let mut node =
        IpTunnel::<F>::new(net.forwarding.clone(), Arc::new(published), counters.clone());
    let mut dropped = 0;
    for _ in 0..vectors {
        let came: Vec<Came> = (0..100).map(|_| make(&mut random)).collect();
        let frames: Vec<&[u8]> = came.iter().map(|(frame, ..)| &frame[..]).collect();
        let links: Vec<_> = came.iter().map(|&(_, link, iface)| (link, iface)).collect();
        let checked = bench.run(&mut input, &frames, |v, i| {
            assert!(v.advance(i, links[i].0));
        });
        let passed = checked.iter().zip(links);
        let passed = passed.filter(|(out, _)| out.to == F::LOOKUP || out.to == "longer");
        let passed: Vec<(&Outcome, _)> = passed.collect();
        let frames: Vec<&[u8]> = passed.iter().map(|(out, _)| &out.frame[..]).collect();
        let prepare = |v: &mut graph::testing::Before<'_>, i: usize| {
            let (out, (link, iface)) = passed[i];
            assert!(v.advance(i, link));
            v.set(Iface, i, iface);
            v.set(F::DST, i, out.get(F::DST));
        };
        let want = bench.run(&mut straight, &frames, prepare);
        let got = bench.run(&mut node, &frames, prepare);
        for ((got, want), frame) in got.iter().zip(&want).zip(&frames) {
            let seen = |out: &Outcome| {
                let asks = (out.to == "grantor").then(|| out.get(Asks));
                let dst = (out.to == F::LOOKUP).then(|| out.get(F::DST));
                (out.to.clone(), out.frame.clone(), out.len, asks, dst)
            };
            assert_eq!(seen(got), seen(want), "{frame:x?}");
            dropped += usize::from(want.to.starts_with("drop"));
        }
        assert_eq!(counters.passed.get(), straight.counters.passed.get());
    }
    (counters.passed.get(), dropped)
}

fn agree4(settings: Settings, vectors: usize) -> (u64, usize) {
    agree::<V4, _>(Ip4Input::default(), |mut random| four(&mut random), settings, vectors)
}

/// With bytes behind the packet in its frame, as a header check leaves them for a shield.
fn agree6(settings: Settings, vectors: usize) -> (u64, usize) {
    let uncut = Uncut::default();
    uncut.leave();
    agree::<V6, _>(Ip6Input(uncut), |mut random| six(&mut random), settings, vectors)
}

#[test]
fn what_is_plain_goes_where_the_definition_says() {
    for ecn in [Ecn::Deployed, Ecn::Rfc6040] {
        for (passed, dropped) in
            [agree4(settings(ecn, false), 200), agree6(settings(ecn, false), 200)]
        {
            assert!(passed > 1_000 && dropped > 1_000, "{passed} {dropped}");
        }
    }
    let shadow = settings(Ecn::Deployed, true);
    assert_eq!((agree4(shadow.clone(), 20).0, agree6(shadow, 20).0), (0, 0));
}

/// Networks are compared with those of the packets before, but never with those of other settings.
#[test]
fn changed_settings_hold_for_the_next_vector() {
    let mut rig = Rig::new(grant);
    let sent = [in_v4(1, &datagram(1, 9)), in_v6(1, 0, &datagram6(1, 9))];
    let reasons =
        |rig: &mut Rig, why| ["ip4_tunnel", "ip6_tunnel"].map(|node| rig.dropped(node, why));
    assert_eq!(rig.send(&sent).len(), 2);
    let before = rig.settings.load(rig.thread.guard()).clone();
    rig.change(|settings| settings.serves = Nets::default());
    assert_eq!((rig.send(&sent).len(), reasons(&mut rig, "not_served")), (0, [1, 1]));
    rig.change(|settings| {
        settings.serves = before.serves;
        settings.gatekeepers = Nets::default();
    });
    assert_eq!((rig.send(&sent).len(), reasons(&mut rig, "stranger")), (0, [1, 1]));
    rig.change(|settings| settings.gatekeepers = before.gatekeepers);
    assert_eq!(rig.send(&sent).len(), 2);
    rig.change(|settings| settings.shadow = true);
    assert_eq!((rig.send(&sent).len(), reasons(&mut rig, "shadow")), (0, [1, 1]));
}

/// What a node sends on without a look at all of it would pass that look, too.
#[test]
fn what_is_alone_has_no_defect() {
    let mut random = numbers();
    let mut alone = [0; 2];
    for _ in 0..40_000 {
        let is_v6 = random(2) == 1;
        let (frame, link, _) = if is_v6 { six(&mut random) } else { four(&mut random) };
        // The inner packet of one in a tunnel, as it would come by itself.
        let mut packet = frame.get(link + if is_v6 { 40 } else { 20 }..).unwrap_or(&[]).to_vec();
        let Some(&first) = packet.first() else { continue };
        // What the header check passes.
        let passes = match first >> 4 {
            4 if packet.len() >= 20 && first & 15 >= 5 => {
                summed(&mut packet);
                usize::from(first & 15) * 4 <= packet.len()
            }
            6 => packet.len() >= 40,
            _ => false,
        };
        let mut head = [0; 64];
        let there = packet.len().min(64);
        head[..there].copy_from_slice(&packet[..there]);
        if passes && plain::is_alone(&head, packet.len() as u16) {
            let found = match first >> 4 {
                4 => inner::four(&packet).map(|(inner, _)| inner),
                _ => inner::six(&packet).map(|(inner, _)| inner),
            };
            assert_eq!(found.map(|inner| usize::from(inner.total)), Ok(packet.len()), "{packet:?}");
            alone[usize::from(is_v6)] += 1;
        }
    }
    assert!(alone.iter().all(|&n| n > 1_000), "{alone:?}");
}
