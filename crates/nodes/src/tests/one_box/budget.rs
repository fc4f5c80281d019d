//! `requests = N`: how many are asked about, by a clock of the test's own.

use std::net::SocketAddrV4;
use std::time::Duration;

use graph::clock;
use wire::build::Frame;

use super::rig::Rig;
use crate::testbed::to_p0;

/// A second, in steps of 100 µs: a worker's level counts for 200.
const SECOND: u64 = 10_000;
/// Decisions a second.
const EACH: usize = 500;

fn from(source: u32) -> Vec<u8> {
    let from = SocketAddrV4::new(source.into(), 4_000);
    to_p0(Frame::udp4(from, SocketAddrV4::new([10, 20, 0, 1].into(), 53)))
}

/// Two workers under a flood of five times what may be asked about. The first second has what a
/// full budget has besides, each later one just so many; who comes again after a second comes
/// before all that come once, at either worker.
#[test]
fn so_many_a_second_are_asked_about_and_the_patient_first() {
    let mut rig = Rig::with(Some((false, None)), 2, EACH as u64);
    let (start, step) = (clock::now(), clock::ticks(Duration::from_micros(100)));
    let mut asked = Vec::new();
    let mut patient = Vec::new();
    for at in 0..4 * SECOND {
        if at % 4 == 0 {
            rig.push((at / 4) as usize % 2, &from(0x6000_0000 | at as u32));
        }
        // Eight clients, in the first half of each second.
        let (of, n) = (at % SECOND, at % SECOND / 600);
        if of % 600 == 300 && n < 8 {
            let client = 0xc633_6400 | n as u32;
            rig.push(n as usize % 2, &from(client));
            patient.push((at, client));
        }
        rig.poll_at(start + at * step);
        for (_, _, packet) in rig.policy.lock().asked.drain(..) {
            asked.push((at, u32::from_be_bytes(packet[12..16].try_into().unwrap())));
        }
    }
    let count = |second: u64| asked.iter().filter(|(at, _)| at / SECOND == second).count();
    assert!((2 * EACH - 2..=2 * EACH + 2).contains(&count(0)), "{} in the first second", count(0));
    for second in 1..4 {
        let n = count(second);
        assert!((EACH - 2..=EACH + 2).contains(&n), "{n} in second {second}");
    }
    for &(at, client) in patient.iter().filter(|(at, _)| *at >= SECOND) {
        let first = asked.iter().find(|(then, source)| *then >= at && *source == client);
        let (then, _) = first.unwrap_or_else(|| panic!("{client:x} of {at} is not asked about"));
        // One comes free in 2 ms.
        assert!(then - at <= 50, "{client:x} of {at} waits until {then}");
    }
    // Of those that come once, most wait, or had no room.
    let flood = asked.iter().filter(|(_, source)| source >> 24 == 0x60).count();
    assert!(flood < 5 * EACH, "{flood} of 10,000");
}
