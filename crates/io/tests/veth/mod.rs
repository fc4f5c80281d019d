//! What tests over a veth pair share.

use std::process::Command;
use std::time::{Duration, Instant};

use io::{Burst, Device, Owned, Pool, PoolConfig, Port};

/// Runs `test` on a thread that has a namespace with the veth pair v0, v1, of this MTU.
pub fn with_veth(mtu: u16, test: impl FnOnce(&Pool) + Send) {
    let config = PoolConfig { packets: 4096, mtu, ..PoolConfig::default() };
    let pool = Pool::new(&config).unwrap();
    let result = std::thread::scope(|s| {
        let run = || {
            // SAFETY: takes a number; only this thread moves.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                let error = std::io::Error::last_os_error();
                return testing::skip(format_args!("no network namespace: {error}"));
            }
            if !ip(&format!("link add v0 mtu {mtu} type veth peer name v1 mtu {mtu}")) {
                return testing::skip("no veth pair here");
            }
            for end in ["v0", "v1"] {
                let ipv6 = format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6");
                let _ = std::fs::write(ipv6, "1"); // a kernel without IPv6 is as good
                assert!(ip(&format!("link set {end} up")));
            }
            test(&pool);
        };
        let thread = std::thread::Builder::new().name(testing::name());
        thread.spawn_scoped(s, run).unwrap().join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(pool.available(), pool.size(), "packets are missing");
}

pub fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
}

pub fn open(name: &str, pool: &Pool) -> Box<dyn Device> {
    io::open_with(&format!("packet:{name}"), pool).unwrap_or_else(|error| panic!("{error}"))
}

pub fn start(device: &mut dyn Device, queues: u16) -> Vec<Box<dyn Port>> {
    let mut ports = device.start(queues).unwrap_or_else(|error| panic!("{error}"));
    ports.iter_mut().for_each(|port| port.attach(0));
    ports
}

pub fn send(port: &mut dyn Port, frames: &[Vec<u8>]) -> usize {
    let packet = |frame: &Vec<u8>| {
        let mut packet = port.allocate().unwrap();
        assert!(packet.fill(frame));
        Some(packet)
    };
    let mut packets: Vec<_> = frames.iter().map(packet).collect();
    let sent = port.transmit(&mut packets);
    port.free(&mut packets[sent..]);
    sent
}

/// Frames, until there are `n` or five seconds are over; then what comes in 20 ms more.
pub fn receive(ports: &mut [Box<dyn Port>], n: usize) -> Vec<Vec<u8>> {
    let mut end = Instant::now() + Duration::from_secs(5);
    let (mut frames, mut extra) = (vec![], false);
    while Instant::now() < end {
        for port in &mut *ports {
            let mut burst = Burst::new();
            let got = port.receive(&mut burst, 64);
            let data = (0..got).filter_map(|i| burst.packet(i)).map(Owned::data);
            frames.extend(data.map(<[u8]>::to_vec));
            port.free(burst.packets());
            burst.clear();
        }
        if frames.len() >= n && !extra {
            (end, extra) = (Instant::now() + Duration::from_millis(20), true);
        }
    }
    frames
}

pub fn link_becomes(device: &dyn Device, up: bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while device.link().up != up {
        assert!(Instant::now() < end, "nobody noticed: up is not {up}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
