//! Programs on a machine that is Gatekeeper and Grantor: the committed objects, decided by its own
//! policy.

use std::sync::{Arc, Weak};

use graph::{Job, Progress, clock};
use policy::bpf::assemble::{call, exit, mov, object};
use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use policy::program::Program;
use wire::build::Frame;
use wire::ggu::{COOKIE_LEN, Verdict};
use wire::tcp::{ACK, SYN};

use super::rig::{Rig, V4, V6, grant};
use super::{of_client, routed};
use crate::gatekeeper::listing::{Filter, Flush};
use crate::gatekeeper::programs::Programs;
use crate::gatekeeper::shield::Shield;
use crate::gatekeeper::times::Times;
use crate::testbed::{to_p0, udp4, udp6};

const MUCH: u32 = 1 << 20;
const LATE: u32 = 3_600_000;
const SENT: [u32; 5] = [MUCH, MUCH, LATE, LATE, 0];
const STRAIGHT: [u32; 5] = [MUCH, MUCH, LATE, LATE, 1];

/// The policy grants by program `index`, with these words as its cookie.
fn by(index: u8, words: &[u32]) -> Option<(bool, Option<Verdict>)> {
    let mut cookie = [0; COOKIE_LEN];
    for (place, word) in cookie.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Some((true, Some(Verdict::Program { expire_s: 300, index, cookie })))
}

fn program(object: &[u8]) -> Arc<dyn Program> {
    let times = Times::new(clock::rate());
    load(object, Clock { cycles_per_sec: times.second(), cycles_per_ms: times.millis(1) }).unwrap()
}

/// The five, by their numbers.
fn stock() -> Programs {
    let mut programs = Programs::default();
    for stock in STOCK {
        programs.set(stock.index, Some(Arc::new(program(stock.object))));
    }
    programs
}

fn rig(says: Option<(bool, Option<Verdict>)>) -> Rig {
    let rig = Rig::new(says);
    rig.seats[0].programs.publish(stock());
    rig
}

/// One of each family, with a DSCP and ECN of its own.
fn both() -> [Vec<u8>; 2] {
    [to_p0(udp4(V4).tos(0xb9).payload(&[7; 40])), to_p0(udp6(V6).tos(0xb9).payload(&[7; 40]))]
}

#[test]
fn what_a_program_grants_goes_by_its_route_as_it_came() {
    for (index, words) in [(0, &[MUCH, LATE, LATE][..]), (2, &SENT), (2, &STRAIGHT)] {
        let mut rig = rig(by(index, words));
        for frame in both() {
            for _ in 0..4 {
                assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)], "{words:?}");
            }
        }
        assert_eq!(rig.policy.asked(), 2, "the first of each flow");
        let all = &rig.seats[0].shield.all;
        assert_eq!((all.requests.get(), all.granted.get()), (2, 6));
        let bytes: usize = both().iter().map(|frame| 3 * frame.len()).sum();
        assert_eq!(all.granted_bytes.get(), bytes as u64, "there is no outer header");
        assert_eq!(rig.seats[0].shield.decisions.all.by_program.get(), 2);
    }
}

/// However a program says that a packet goes, it is looked at as in the tunnel of a Grantor of its
/// own: nobody behind this machine would.
#[test]
fn straight_on_is_looked_at_as_a_grantor_would() {
    for words in [SENT, STRAIGHT] {
        let mut rig = rig(by(2, &words));
        let [four, six] = both();
        assert_eq!(rig.send(&[four.clone(), six.clone()]).len(), 2);
        let (client, host) = ([198, 51, 100, 7].into(), V4.parse().unwrap());
        let (client6, host6) = ("2001:db8:9::7".parse().unwrap(), V6.parse().unwrap());
        for (protocol, inner) in [(4, &four[14..]), (41, &six[14..])] {
            let frames = [
                to_p0(Frame::ipv4(client, host, protocol).payload(inner)),
                to_p0(Frame::ipv6(client6, host6, protocol).payload(inner)),
            ];
            assert!(rig.send(&frames).is_empty(), "{protocol} by {words:?}");
        }
        // Extension headers beyond the end are no program's: the flow asks again.
        let cut = to_p0(Frame::ipv6(client6, host6, 60).payload(&[6, 9, 1, 4, 0, 0, 0, 0]));
        assert!(rig.send(&[cut]).is_empty());
        let dropped = ["nested", "inner_extensions"].map(|why| rig.dropped("asked_here", why));
        assert_eq!((dropped, rig.policy.asked()), ([4, 1], 2), "{words:?}");
        assert_eq!(rig.seats[0].shield.all.granted.get(), 4, "judged as all others");
        // What is right passes, without what is behind it in its frame.
        let padded = [&four[..], &[0; 90]].concat();
        assert_eq!(rig.send(&[padded]), [routed(&four)]);
    }
}

#[test]
fn a_budget_of_a_program_goes_into_debt() {
    // 442 bytes twice are within 1 KiB, and no third time.
    for direct in [0, 1] {
        let mut rig = rig(by(2, &[1, 1, LATE, LATE, direct]));
        let frame = to_p0(udp4(V4).payload(&[7; 400]));
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)], "it asks");
        let sent = rig.send(&vec![frame.clone(); 6]);
        assert_eq!(sent, [routed(&frame), routed(&frame)]);
        // A smaller one would have fit, were there no debt.
        let small = to_p0(udp4(V4).payload(&[7; 40]));
        assert!(rig.send(&[small]).is_empty());
        assert_eq!(rig.dropped("shield", "declined"), 5);
    }
}

#[test]
fn a_web_server_gets_what_is_for_one() {
    let mut rig = rig(by(3, &STRAIGHT));
    let segment = |from: u16, to: u16, flags| {
        let from = std::net::SocketAddrV4::new([198, 51, 100, 7].into(), from);
        to_p0(Frame::tcp4(from, std::net::SocketAddrV4::new([10, 20, 0, 1].into(), to), flags))
    };
    let segment6 = |from: u16, to: u16, flags| {
        let end = |ip: &str, port| std::net::SocketAddrV6::new(ip.parse().unwrap(), port, 0, 0);
        to_p0(Frame::tcp6(end("2001:db8:9::7", from), end(V6, to), flags))
    };
    for frame in [segment(9, 80, SYN), segment6(9, 80, SYN)] {
        assert_eq!(rig.send(std::slice::from_ref(&frame)), [routed(&frame)], "it asks");
    }
    for (from, to, flags, passes) in [
        (9, 80, SYN, true),
        (9, 443, ACK, true),
        (9, 80, SYN | ACK, false),
        (9, 8_080, ACK, false),
        (9, 8_080, SYN, false),
        (443, 8_080, ACK, true),
    ] {
        for frame in [segment(from, to, flags), segment6(from, to, flags)] {
            let wanted = if passes { vec![routed(&frame)] } else { Vec::new() };
            assert_eq!(rig.send(&[frame]), wanted, "{from} to {to}, {flags:x}");
        }
    }
    let [udp, udp6] = both();
    assert!(rig.send(&[udp, udp6]).is_empty());
    assert_eq!((rig.policy.asked(), rig.dropped("shield", "declined")), (2, 8));
}

/// Control makes program after program, while packets go round: none of them is lost, or asks, and
/// who has gone is freed.
#[test]
fn programs_are_replaced_under_traffic() {
    const SWAPS: u64 = 200;
    let mut rig = Rig::new(by(9, &[]));
    let init = [mov(0, 0), exit()].concat();
    let goes = |direct| {
        let sends = [mov(2, 1), mov(3, direct), call("gk_bpf_prep_for_tx"), mov(0, 0), exit()];
        object(&init, &sends.concat())
    };
    let objects = [goes(0), goes(1)];
    let nth = move |n: u64| program(&objects[(n % 2) as usize]);
    let first = |program: Arc<dyn Program>| {
        let mut programs = Programs::default();
        programs.set(9, Some(Arc::new(program)));
        programs
    };
    let published = rig.seats[0].programs.clone();
    published.publish(first(nth(0)));
    let frames: Vec<_> = (0..16).map(of_client).collect();
    assert_eq!(rig.send(&frames).len(), 16, "they ask");
    let domain = rig.thread.domain().clone();
    let control = std::thread::spawn(move || {
        let mut known: Vec<Weak<dyn Program>> = Vec::new();
        for n in 1..=SWAPS {
            let program = nth(n);
            known.push(Arc::downgrade(&program));
            published.publish(first(program));
            domain.reclaim();
            std::thread::yield_now();
        }
        known
    });
    let mut want: Vec<_> = frames.iter().map(|frame| routed(frame)).collect();
    want.sort_unstable();
    let (mut rounds, mut more) = (0, 3);
    while more > 0 {
        // Some rounds by the last one alone.
        more -= u32::from(control.is_finished());
        let mut out = rig.send(&frames);
        out.sort_unstable();
        assert_eq!(out, want, "round {rounds}");
        rounds += 1;
    }
    let known = control.join().unwrap();
    rig.thread.domain().reclaim();
    assert_eq!(known.iter().filter(|one| one.strong_count() > 0).count(), 1, "the one that runs");
    assert_eq!((rig.policy.asked(), rig.seats[0].shield.program(9).failed.get()), (16, 0));
}

/// Of one number, and of its programs before the one that is there.
#[test]
fn flows_are_flushed_by_the_number_of_their_program() {
    let mut rig = rig(by(2, &STRAIGHT));
    let frames: Vec<_> = (0..8).map(of_client).collect();
    assert_eq!(rig.send(&frames[..4]).len(), 4);
    rig.policy.lock().says = by(0, &[MUCH, LATE, LATE]);
    assert_eq!(rig.send(&frames[4..6]).len(), 2);
    rig.policy.lock().says = grant(LATE);
    assert_eq!(rig.send(&frames[6..]).len(), 2);
    assert_eq!((rig.send(&frames).len(), rig.policy.asked()), (8, 8));
    let flush = |rig: &mut Rig, program, not_of| {
        let filter = Filter { program: Some(program), not_of, ..Filter::default() };
        let node = rig.seats[0].graph.node_mut::<Shield>().unwrap();
        let (Progress::More(gone) | Progress::Last(gone)) = Flush::new(filter).step(node, 1 << 20);
        gone
    };
    let asks = |rig: &mut Rig| {
        let before = rig.policy.asked();
        assert_eq!(rig.send(&frames).len(), 8);
        let asked = rig.policy.asked() - before;
        // The next packets find what was decided.
        assert_eq!((rig.send(&frames).len(), rig.policy.asked()), (8, before + asked));
        asked
    };
    assert_eq!((flush(&mut rig, 3, None), asks(&mut rig)), (0, 0));
    assert_eq!((flush(&mut rig, 2, Some(0)), asks(&mut rig)), (0, 0), "they are of this one");
    assert_eq!(flush(&mut rig, 2, None), 4);
    assert_eq!(asks(&mut rig), 4, "none of the others");
    assert_eq!((flush(&mut rig, 0, None), asks(&mut rig)), (2, 2));
    // Another object at the same number: those of the one before ask, whether flushed or not.
    let mut programs = stock();
    programs.set_edition(2, 1);
    rig.policy.lock().says = by(2, &STRAIGHT);
    assert_eq!(flush(&mut rig, 0, None), 0);
    let node = rig.seats[0].graph.node_mut::<Shield>().unwrap();
    _ = Flush::new(Filter::default()).step(node, 1 << 20);
    assert_eq!(asks(&mut rig), 8);
    rig.seats[0].programs.publish(programs);
    assert_eq!(flush(&mut rig, 2, Some(1)), 8);
    assert_eq!(asks(&mut rig), 8);
    assert_eq!((flush(&mut rig, 2, Some(1)), asks(&mut rig)), (0, 0));
}
