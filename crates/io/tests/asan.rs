//! What AddressSanitizer sees of packets, in a build with it and `--cfg rutter_asan`
//! (`scripts/deep.sh asan`): each attempt is made by a process of its own, which has
//! to end by a report.
#![cfg(rutter_asan)]

use std::process::Command;

use io::{Owned, Pool, PoolConfig};

fn packet() -> (Pool, Owned) {
    let pool = Pool::new(&PoolConfig { packets: 8, ..PoolConfig::default() }).unwrap();
    let mut packet = pool.allocate().unwrap();
    assert!(packet.fill(&[7; 100]));
    (pool, packet)
}

/// One byte, `at` so many from `start`.
fn read(start: *const u8, at: isize) -> u8 {
    // SAFETY: it is not: that is what is tried. The byte is in the pool's mapping.
    unsafe { start.offset(at).read_volatile() }
}

/// Runs `attempt` in a process of its own; whether a report of poisoned memory ended it.
fn is_caught(test: &str, attempt: impl FnOnce()) -> bool {
    const CHILD: &str = "RUTTER_ASAN_CHILD";
    if std::env::var_os(CHILD).is_some() {
        attempt();
        std::process::exit(0);
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let report = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() || report.contains("AddressSanitizer"), "{report}");
    report.contains("use-after-poison")
}

#[test]
fn what_belongs_to_a_packet_may_be_read() {
    assert!(!is_caught("what_belongs_to_a_packet_may_be_read", || {
        let (pool, packet) = packet();
        let start = packet.data().as_ptr();
        // The headroom, the data, and 64 bytes behind them (I1).
        assert_eq!((read(start, -128), read(start, 99)), (0, 7));
        read(start, 100 + 63);
        pool.put(&mut [Some(packet)]);
    }));
}

#[test]
fn free_packets_may_not() {
    assert!(is_caught("free_packets_may_not", || {
        let (pool, packet) = packet();
        let start = packet.data().as_ptr();
        pool.put(&mut [Some(packet)]);
        read(start, 0);
    }));
}

#[test]
fn tail_room_may_not() {
    assert!(is_caught("tail_room_may_not", || {
        let (_pool, packet) = packet();
        read(packet.data().as_ptr(), 100 + 64);
        std::mem::forget(packet);
    }));
}

#[test]
fn packets_that_became_shorter_may_not() {
    assert!(is_caught("packets_that_became_shorter_may_not", || {
        let (_pool, mut packet) = packet();
        let start = packet.data().as_ptr();
        assert!(packet.resize(8));
        read(start, 8 + 64);
        std::mem::forget(packet);
    }));
}
