//! These need the right to make taps.

use super::*;
use crate::{Burst, Device, Interfaces, Pool, PoolConfig};
use std::io::ErrorKind;

/// Runs `test` on a thread in a network namespace of its own, so that nothing
/// of the machine's is touched and nothing stays.
fn in_namespace(test: impl FnOnce() + Send) {
    let outcome = std::thread::scope(|s| {
        let run = || {
            // SAFETY: takes a number; only this thread moves.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(format!("no network namespace: {}", io::Error::last_os_error()));
            }
            if !std::path::Path::new("/dev/net/tun").exists() {
                return Err("no /dev/net/tun".to_owned());
            }
            test();
            Ok(())
        };
        let thread = std::thread::Builder::new().name(testing::name());
        thread.spawn_scoped(s, run).unwrap().join()
    });
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => testing::skip(reason),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[test]
fn names_are_checked() {
    for name in ["", "a/b", "a b", "tap%d", "a:b", "..", "sixteen-bytes-xx", "a\0b"] {
        assert_eq!(Tap::open(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name:?}");
    }
    assert!(check_name("fifteen-bytes-x").is_ok() && check_name("p0.100").is_ok());
}

/// The kernel announces a change of the carrier at its leisure.
fn runs_within_5_s(tap: &Tap, want: bool) {
    let interfaces = Interfaces::open().unwrap();
    let running = || interfaces.running(tap.name()).unwrap();
    let start = std::time::Instant::now();
    while running() != want {
        assert!(start.elapsed().as_secs() < 5, "running is not {want}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn an_interface_has_what_was_set() {
    in_namespace(|| {
        let tap = Tap::open("p0").unwrap();
        tap.set_mac([2, 0, 0, 0, 0, 9]).unwrap();
        assert_eq!(tap.mac().unwrap(), [2, 0, 0, 0, 0, 9]);
        tap.set_mtu(9000).unwrap();
        assert_eq!(tap.mtu().unwrap(), 9000);
        assert!(!tap.is_up().unwrap() && tap.index().unwrap() > 0);
        let interfaces = Interfaces::open().unwrap();
        assert_eq!(interfaces.name(tap.index().unwrap()).unwrap(), "p0");
        assert!(interfaces.name(u32::MAX).is_err() && interfaces.running("none").is_err());
        tap.set_up(true).unwrap();
        assert!(tap.is_up().unwrap());
        tap.set_carrier(false).unwrap();
        runs_within_5_s(&tap, false);
        tap.set_carrier(true).unwrap();
        runs_within_5_s(&tap, true);
        assert!(tap.set_mac([1, 0, 0, 0, 0, 0]).is_err(), "a group address");
    });
}

#[test]
fn a_persistent_tap_is_attached_again() {
    in_namespace(|| {
        let tap = Tap::open("p0").unwrap();
        let index = tap.index().unwrap();
        tap.set_persistent(true).unwrap();
        assert_eq!(Tap::open("p0").unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(tap);
        let tap = Tap::open("p0").unwrap();
        assert_eq!(tap.index().unwrap(), index);
        tap.delete().unwrap();
        assert_ne!(Tap::open("p0").unwrap().index().unwrap(), index);
    });
}

/// What the kernel sends by itself is IPv6's autoconfiguration: solicitations
/// and reports, all to groups.
#[test]
fn frames_pass_both_ways() {
    in_namespace(|| {
        let pool = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).unwrap();
        let mut device = TapDevice::open("p0", [2, 0, 0, 0, 0, 1], &pool).unwrap();
        assert!(device.set_mtu(1500).is_ok() && device.set_mtu(9000).is_err());
        let mut ports = device.start(1).unwrap();
        ports[0].attach(0);
        assert!(device.link().up);
        let mut burst = Burst::new();
        let wait = std::time::Instant::now();
        while ports[0].receive(&mut burst, 64) == 0 && wait.elapsed().as_secs() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // From the kernel: IPv6 multicast.
        let n = usize::from(burst.n);
        if n == 0 {
            return testing::skip("the kernel sent nothing (no IPv6)");
        }
        assert!(burst.pkt[..n].iter().flatten().all(|p| p.data()[..2] == [0x33, 0x33]));
        // To the kernel: it counts what it receives.
        assert_eq!(ports[0].transmit(&mut burst.pkt[..n]), n);
        assert_eq!(device.counters().tx_packets, n as u64);
        assert_eq!(device.counters().rx_packets, n as u64);
        drop(ports);
        assert_eq!(pool.available(), 64);
    });
}
