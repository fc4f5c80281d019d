//! `packet:IFACE` over a veth pair, in a network namespace that each test makes for
//! itself.
#![cfg(not(miri))] // system calls

mod veth;

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::Command;

use io::{Burst, Pool, PoolConfig};
use veth::{ip, link_becomes, open, receive, send, start, with_veth};

fn promiscuous(name: &str) -> bool {
    let said = Command::new("ip").args(["-d", "link", "show", name]).output().unwrap();
    String::from_utf8_lossy(&said.stdout).contains("promiscuity 1")
}

/// A frame of the ethertype for local experiments, which no kernel sends.
fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![number; len];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, number]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// What `poll` says of a descriptor within `ms`.
fn poll(fd: BorrowedFd<'_>, ms: i32) -> i16 {
    let mut fds = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, and one structure for it.
    unsafe { libc::poll(&raw mut fds, 1, ms) };
    fds.revents
}

#[test]
fn frames_pass_both_ways_and_are_counted() {
    with_veth(1500, |pool| {
        let (mut device, mut other) = (open("v0", pool), open("v1", pool));
        let mut ports = start(&mut *device, 1);
        let mut others = start(&mut *other, 1);
        assert_eq!(device.netdev().as_deref(), Some("v0"));
        assert_ne!(device.mac(), [0; 6]);
        assert!(promiscuous("v0"));
        let frames: Vec<_> = (0..73).map(|i| frame(i, 14 + 20 * usize::from(i))).collect();
        assert_eq!(send(&mut *others[0], &frames), 73);
        assert!(receive(&mut ports, 73) == frames);
        assert_eq!(send(&mut *ports[0], &frames), 73);
        assert!(receive(&mut others, 73) == frames);
        let (counters, bytes) = (device.counters(), frames.iter().map(|f| f.len() as u64).sum());
        assert_eq!((counters.rx_packets, counters.rx_bytes), (73, bytes));
        assert_eq!((counters.tx_packets, counters.tx_bytes), (73, bytes));
        assert_eq!((counters.rx_missed, counters.rx_errors, counters.tx_errors), (0, 0, 0));
        // A frame that the interface does not take is counted, and those behind it go.
        assert_eq!(send(&mut *ports[0], &[frame(1, 1600), frame(2, 60)]), 2);
        assert_eq!(device.counters().tx_errors, 1);
        assert_eq!(receive(&mut others, 1), [frame(2, 60)]);
        drop((ports, others));
        device.stop();
        assert!(!promiscuous("v0"), "it listens on");
    });
}

#[test]
fn a_tag_keeps_its_type_both_ways() {
    with_veth(1500, |pool| {
        let (mut device, mut other) = (open("v0", pool), open("v1", pool));
        let mut ports = start(&mut *device, 1);
        let mut others = start(&mut *other, 1);
        let tagged = |number: u8, tags: &[[u8; 4]]| {
            let mut frame = frame(number, 60);
            let tags: Vec<u8> = tags.concat();
            frame.splice(12..12, tags);
            frame
        };
        let (c, s) = ([0x81, 0, 0xa0, 7], [0x88, 0xa8, 0x00, 9]);
        let frames = [
            tagged(1, &[c]),
            tagged(2, &[s]),
            tagged(3, &[s, c]),
            tagged(4, &[c, s]),
            tagged(5, &[[0x81, 0, 0, 0]]),
            tagged(6, &[[0x91, 0, 0, 1], c]),
        ];
        assert_eq!(send(&mut *others[0], &frames), frames.len());
        assert_eq!(receive(&mut ports, frames.len()), frames);
        assert_eq!(send(&mut *ports[0], &frames), frames.len());
        assert_eq!(receive(&mut others, frames.len()), frames);
    });
}

/// As they were sent: the kernel would join them if the fan-out asked for it.
#[test]
fn fragments_are_not_joined_and_queues_share_what_comes() {
    with_veth(1500, |pool| {
        let (mut device, mut other) = (open("v0", pool), open("v1", pool));
        assert!(device.start(0).is_err() && device.start(65).is_err());
        let mut ports = start(&mut *device, 3);
        let mut others = start(&mut *other, 1);
        let ip = |source: u8, fragment: u16, proto: u8, data: usize| {
            let mut frame = vec![2; 12];
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + data as u16).to_be_bytes());
            frame.extend([0, source]);
            frame.extend(fragment.to_be_bytes());
            frame.extend([64, proto, 0, 0, 10, 0, 0, source, 10, 0, 1, 1]);
            let sum = frame[14..].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            let sum: u32 = sum.sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame.extend(vec![source; data]);
            frame
        };
        let mut frames = vec![];
        for source in 0..100 {
            frames.push(ip(source, 0x2000, 17, 104));
            frames.push(ip(source, 13, 17, 40));
            frames.push(ip(source, 0, 6, 40));
        }
        for part in frames.chunks(64) {
            assert_eq!(send(&mut *others[0], part), part.len());
        }
        let mut shares = Vec::new();
        let mut got = Vec::new();
        for port in ports.chunks_mut(1) {
            let some = receive(port, 0);
            shares.push(some.len());
            got.extend(some);
            assert!(got.len() <= 300, "a frame came twice: {shares:?}");
        }
        got.sort();
        frames.sort();
        assert_eq!(got.len(), 300, "{shares:?}");
        assert!(got == frames);
        assert!(shares.iter().all(|share| *share > 30), "{shares:?}");
    });
}

#[test]
fn jumbo_frames_pass() {
    with_veth(9000, |pool| {
        let (mut device, mut other) = (open("v0", pool), open("v1", pool));
        device.set_mtu(9000).unwrap();
        other.set_mtu(9000).unwrap();
        assert!(device.set_mtu(9300).is_err(), "longer than the pool's packets");
        let mut ports = start(&mut *device, 2);
        let mut others = start(&mut *other, 1);
        let mut tagged = frame(3, 9014);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        let frames = [frame(1, 9014), frame(2, 60), tagged];
        assert_eq!(send(&mut *others[0], &frames), 3);
        let mut got = receive(&mut ports, 3);
        got.sort_by_key(|frame| frame[11]);
        assert!(got == frames);
        assert_eq!(send(&mut *ports[1], &frames), 3);
        assert!(receive(&mut others, 3) == frames);
        assert!(device.set_mtu(1500).is_ok() && device.set_mtu(9001).is_err(), "it runs");
    });
}

/// The sum over an IPv4 frame's UDP, with its pseudo-header: 0 where it is right.
fn udp_sum(frame: &[u8]) -> u16 {
    let udp = &frame[34..];
    let words = |bytes: &[u8]| -> u32 {
        let word = |w: &[u8]| u32::from(w[0]) << 8 | w.get(1).map_or(0, |low| u32::from(*low));
        bytes.chunks(2).map(word).sum()
    };
    let sum = words(&frame[26..34]) + 17 + udp.len() as u32 + words(udp);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[test]
fn what_a_host_leaves_to_its_card_is_done() {
    with_veth(1500, |pool| {
        assert!(ip("address add 192.0.2.1/24 dev v1"));
        assert!(ip("neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev v1"));
        let mut device = open("v0", pool);
        let mut ports = start(&mut *device, 1);
        let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
        socket.connect("192.0.2.2:9").unwrap();
        for len in [1, 18, 999, 1472] {
            socket.send(&vec![7; len]).unwrap();
            let got = receive(&mut ports, 1);
            assert_eq!((got.len(), got[0].len(), udp_sum(&got[0])), (1, 42 + len, 0));
        }
        // One frame for many, as the kernel hands it to a card that can cut it. A short one
        // lies in the ring, a long one waits beside it.
        for (segment, total) in [(100, 1000), (1448, 2000), (1448, 40_000), (1000, 60_500)] {
            let size: libc::c_int = segment;
            // SAFETY: reads one number.
            let set = unsafe {
                let place = (&raw const size).cast();
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, place, 4)
            };
            if set != 0 {
                return testing::skip("the kernel cuts no datagrams");
            }
            let data: Vec<u8> = (0..total).map(|i| (i / segment) as u8).collect();
            socket.send(&data).unwrap();
            let count = data.len().div_ceil(segment as usize);
            let got = receive(&mut ports, count);
            assert_eq!(got.len(), count, "{segment} {total}");
            for (frame, data) in got.iter().zip(data.chunks(segment as usize)) {
                assert_eq!((&frame[42..], udp_sum(frame)), (data, 0));
            }
        }
        assert_eq!(device.counters().rx_errors, 0);
        assert!(ip("link set v0 mtu 9000") && ip("link set v1 mtu 9000"));
        // Longer than the port's packets: refused, and what follows is received.
        let zero: libc::c_int = 0;
        // SAFETY: reads one number.
        unsafe {
            let place = (&raw const zero).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, place, 4);
        }
        socket.send(&[1; 8000]).unwrap();
        socket.send(&[2; 10]).unwrap();
        assert_eq!(receive(&mut ports, 1)[0][42..], [2; 10]);
        assert_eq!(device.counters().rx_errors, 1);
    });
}

#[test]
fn it_wakes_who_sleeps_and_only_then() {
    with_veth(1500, |pool| {
        let (mut device, mut other) = (open("v0", pool), open("v1", pool));
        let mut ports = start(&mut *device, 1);
        let mut others = start(&mut *other, 1);
        assert_eq!(poll(ports[0].wakes().unwrap(), 50), 0);
        send(&mut *others[0], &[frame(1, 60), frame(2, 60)]);
        assert_eq!(poll(ports[0].wakes().unwrap(), 5000), libc::POLLIN);
        receive(&mut ports, 2);
        assert_eq!(poll(ports[0].wakes().unwrap(), 0), 0);
        // What goes out there, of ours or others', is nobody's to receive.
        send(&mut *ports[0], &[frame(3, 60)]);
        let mut third = open("v0", pool);
        let mut thirds = start(&mut *third, 1);
        send(&mut *thirds[0], &[frame(4, 60)]);
        assert_eq!(receive(&mut others, 2), [frame(3, 60), frame(4, 60)]);
        assert_eq!(poll(ports[0].wakes().unwrap(), 0), 0);
        assert!(receive(&mut ports, 0).is_empty());
        // An interface that goes down says so once.
        assert!(ip("link set v0 down"));
        assert_ne!(poll(ports[0].wakes().unwrap(), 5000), 0);
        ports[0].idle();
        assert_eq!(poll(ports[0].wakes().unwrap(), 50), 0);
        link_becomes(&*device, false);
        assert_eq!(send(&mut *ports[0], &[frame(5, 60)]), 1);
        assert_eq!(device.counters().tx_errors, 1);
        assert!(ip("link set v0 up"));
        link_becomes(&*device, true);
        send(&mut *others[0], &[frame(6, 60)]);
        assert_eq!(receive(&mut ports, 1), [frame(6, 60)]);
        assert!(ip("link del v0"));
        link_becomes(&*device, false);
        assert_eq!(device.netdev(), None);
        ports[0].idle();
        assert_eq!(poll(ports[0].wakes().unwrap(), 50), 0, "a port that is gone");
    });
}

#[test]
fn a_full_ring_and_an_empty_pool_are_counted_by_the_kernel() {
    with_veth(1500, |_| {
        let small = Pool::new(&PoolConfig { packets: 100, ..PoolConfig::default() }).unwrap();
        let large = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).unwrap();
        let (mut device, mut other) = (open("v0", &small), open("v1", &large));
        let mut ports = start(&mut *device, 1);
        let mut others = start(&mut *other, 1);
        let frames: Vec<_> = (0..50).map(|i| frame(i, 60)).collect();
        for _ in 0..100 {
            assert_eq!(send(&mut *others[0], &frames), 50);
        }
        let mut bursts: Vec<_> = (0..3).map(|_| Burst::new()).collect();
        let got: Vec<_> = bursts.iter_mut().map(|burst| ports[0].receive(burst, 64)).collect();
        assert_eq!(got, [64, 36, 0], "as many as there are packets");
        assert_eq!(poll(ports[0].wakes().unwrap(), 0), libc::POLLIN, "they wait");
        bursts.iter_mut().for_each(|burst| ports[0].free(burst.packets()));
        let mut all = 100;
        loop {
            let got = ports[0].receive(&mut bursts[0], 64);
            ports[0].free(bursts[0].packets());
            bursts[0].clear();
            all += got as u64;
            if got == 0 {
                break;
            }
        }
        let counters = device.counters();
        assert_eq!((counters.rx_packets, all + counters.rx_missed), (all, 5000));
        assert!(counters.rx_missed > 500, "{}", counters.rx_missed);
        assert_eq!(device.counters().rx_missed, counters.rx_missed, "reported twice, counted once");
        drop((ports, others));
        assert_eq!((small.available(), large.available()), (100, 64));
    });
}

#[test]
fn what_is_no_ethernet_interface_is_refused() {
    with_veth(1500, |pool| {
        let refusal = |name: &str| io::open_with(name, pool).err().unwrap().to_string();
        assert!(
            refusal("packet:nosuch").contains("No such device"),
            "{}",
            refusal("packet:nosuch")
        );
        assert!(refusal("packet:lo").contains("no Ethernet interface"));
        assert!(refusal("packet:sixteen-bytes-xx").contains("no name for an interface"));
        assert!(refusal("packet:v0,tap").contains("packet:IFACE,direct"));
        let mut device = io::open_with("packet:v0,direct", pool).unwrap();
        let mut other = open("v1", pool);
        let mut ports = start(&mut *device, 1);
        let mut others = start(&mut *other, 1);
        send(&mut *ports[0], &[frame(1, 60)]);
        assert_eq!(receive(&mut others, 1), [frame(1, 60)]);
        assert!(receive(&mut ports, 0).is_empty());
    });
}
