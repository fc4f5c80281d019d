//! Devices over interfaces of the kernel, in a network namespace that each
//! test makes for itself.
#![cfg(feature = "dpdk")]

use io::{Burst, Device, Owned, Port};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

static ONE: Mutex<()> = Mutex::new(());

/// Runs `test` on a thread that has a namespace with the veth pair v0, v1.
fn with_veth(leaks: Leaks, test: impl FnOnce() + Send) {
    let _alone = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let config = io_dpdk::Config { hugepages: Some(false), packets: 8191, ..Default::default() };
    io_dpdk::init(&config).unwrap();
    let missing = || {
        let (free, all) = io_dpdk::packets();
        all - free
    };
    let before = missing();
    let result = std::thread::scope(|s| {
        let run = || {
            // SAFETY: takes a number; only this thread moves.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                let error = std::io::Error::last_os_error();
                return testing::skip(format_args!("no network namespace: {error}"));
            }
            if !ip("link add v0 type veth peer name v1") {
                return testing::skip("no veth pair here");
            }
            for end in ["v0", "v1"] {
                let ipv6 = format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6");
                let _ = std::fs::write(ipv6, "1"); // a kernel without IPv6 is as good
                assert!(ip(&format!("link set {end} up")));
            }
            test();
        };
        let thread = std::thread::Builder::new().name(testing::name());
        thread.spawn_scoped(s, run).unwrap().join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if leaks == Leaks::Nothing {
        assert_eq!(missing(), before, "packets are missing");
    }
}

/// What a driver keeps when its device is closed.
#[derive(PartialEq)]
enum Leaks {
    Nothing,
    /// DPDK 22.11's af_xdp: what the kernel's fill ring holds.
    FillRing,
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
}

fn open(argument: &str) -> Box<dyn Device> {
    io_dpdk::open(argument).unwrap_or_else(|error| panic!("{error}"))
}

fn start(device: &mut dyn Device, queues: u16) -> Vec<Box<dyn Port>> {
    let mut ports = device.start(queues).unwrap_or_else(|error| panic!("{error}"));
    ports.iter_mut().for_each(|port| port.attach(0));
    ports
}

/// A frame of the ethertype for local experiments, which no kernel sends.
fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![number; len];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, number]);
    frame[12..14].copy_from_slice(&EXPERIMENT);
    frame
}

const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

fn send(port: &mut dyn Port, frames: &[Vec<u8>]) {
    let packet = |frame: &Vec<u8>| {
        let mut packet = port.allocate().unwrap();
        assert!(packet.fill(frame));
        Some(packet)
    };
    let mut packets: Vec<_> = frames.iter().map(packet).collect();
    let end = Instant::now() + Duration::from_secs(5);
    let mut sent = 0;
    while sent < packets.len() && Instant::now() < end {
        sent += port.transmit(&mut packets[sent..]);
    }
    assert_eq!(sent, frames.len());
}

/// Frames for which `want` holds, until there are `n` or five seconds are over.
fn receive(ports: &mut [Box<dyn Port>], n: usize, want: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(5);
    let mut frames = vec![];
    while frames.len() < n && Instant::now() < end {
        for port in &mut *ports {
            let mut burst = Burst::new();
            let got = port.receive(&mut burst, 64);
            let data = (0..got).filter_map(|i| burst.packet(i)).map(Owned::data);
            frames.extend(data.filter(|frame| want(frame)).map(<[u8]>::to_vec));
            port.free(burst.packets());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    frames
}

fn ours(frame: &[u8]) -> bool {
    frame[12..14] == EXPERIMENT
}

/// The kernel announces a change of the carrier at its leisure.
fn link_becomes(device: &dyn Device, up: bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while device.link().up != up {
        assert!(Instant::now() < end, "nobody noticed: up is not {up}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Opens `first` over v0 and af_packet over v1, and passes frames both ways.
fn passes_frames(first: &str) {
    let mut device = open(first);
    let mut other = open("net_af_packet9,iface=v1");
    let mut ports = start(&mut *device, 1);
    let mut others = start(&mut *other, 1);
    assert_eq!(device.netdev().as_deref(), Some("v0"));
    assert_ne!(device.mac(), [0; 6]);
    let frames: Vec<_> = (0..50).map(|i| frame(i, 60 + 20 * usize::from(i))).collect();
    send(&mut *others[0], &frames);
    assert!(receive(&mut ports, 50, ours) == frames, "towards {first}");
    send(&mut *ports[0], &frames);
    assert!(receive(&mut others, 50, ours) == frames, "from {first}");
    assert!(device.counters().rx_packets >= 50 && device.counters().tx_packets >= 50);
    assert!(device.link().up);
    assert!(ip("link set v1 down"));
    link_becomes(&*device, false);
    drop((ports, others));
}

/// `device` over v0 becomes readable when a frame comes, and until it is received.
fn wakes_who_sleeps(mut device: Box<dyn Device>) {
    let mut other = open("net_af_packet7,iface=v1");
    let (mut ports, mut others) = (start(&mut *device, 1), start(&mut *other, 1));
    let readable = |port: &dyn Port, ms| {
        let fd = port.wakes().expect("a file to sleep on").as_raw_fd();
        let mut fds = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, and one structure for it.
        unsafe { libc::poll(&raw mut fds, 1, ms) };
        fds.revents & libc::POLLIN != 0
    };
    receive(&mut ports, 1, |_| false); // what the kernel says by itself, and fills the rings
    assert!(!readable(&*ports[0], 50));
    for number in 0..3 {
        send(&mut *others[0], &[frame(number, 60)]);
        assert!(readable(&*ports[0], 5000));
        assert_eq!(receive(&mut ports, 1, ours), [frame(number, 60)]);
        assert!(!readable(&*ports[0], 0));
    }
    assert!(others[0].wakes().is_none());
    drop((ports, others));
}

#[test]
fn af_packet() {
    with_veth(Leaks::Nothing, || passes_frames("net_af_packet0,iface=v0"));
}

#[test]
fn a_deleted_interface_is_down() {
    with_veth(Leaks::Nothing, || {
        let mut device = open("net_af_packet0,iface=v0");
        let _ports = start(&mut *device, 1);
        link_becomes(&*device, true);
        assert!(ip("link del v0"));
        assert!(!device.link().up);
        assert_eq!(device.netdev(), None);
    });
}

#[test]
fn af_xdp() {
    if testing::in_user_namespace() {
        return testing::skip("AF_XDP needs more than a user namespace");
    }
    with_veth(Leaks::FillRing, || match io_dpdk::open("net_af_xdp0,iface=v0") {
        Ok(device) => {
            drop(device);
            passes_frames("net_af_xdp1,iface=v0");
            let link = Command::new("ip").args(["link", "show", "v0"]).output().unwrap();
            let link = String::from_utf8_lossy(&link.stdout).into_owned();
            assert!(!link.contains("xdp"), "the program was left behind: {link}");
        }
        Err(error) => testing::skip(error),
    });
}

#[test]
fn af_xdp_wakes_who_sleeps() {
    if testing::in_user_namespace() {
        return testing::skip("AF_XDP needs more than a user namespace");
    }
    with_veth(Leaks::FillRing, || match io_dpdk::open("net_af_xdp2,iface=v0") {
        Ok(device) => wakes_who_sleeps(device),
        Err(error) => testing::skip(error),
    });
}

#[test]
fn pcap_over_an_interface() {
    with_veth(Leaks::Nothing, || passes_frames("net_pcap0,iface=v0"));
}

#[test]
fn af_packet_spreads_over_its_queues() {
    with_veth(Leaks::Nothing, || {
        let mut device = open("net_af_packet1,iface=v0,qpairs=2");
        let mut other = open("net_af_packet8,iface=v1");
        assert_eq!(device.max_queues(), 2);
        let mut ports = start(&mut *device, 2);
        let mut others = start(&mut *other, 1);
        let frames: Vec<_> = (0..40).map(|i| frame(i, 60)).collect();
        send(&mut *others[0], &frames);
        let mut got = receive(&mut ports, 40, ours);
        got.sort_unstable_by_key(|frame| frame[11]);
        assert!(got == frames);
        drop((ports, others));
    });
}

#[test]
fn tap() {
    with_veth(Leaks::Nothing, || {
        let mut device = open("net_tap0,iface=t0");
        let mut ports = start(&mut *device, 1);
        assert_eq!(device.netdev().as_deref(), Some("t0"));
        assert!(ip("address add 192.0.2.1/24 dev t0") && ip("link set t0 up"));
        // The kernel asks for the address before it can send.
        let socket = std::net::UdpSocket::bind("192.0.2.1:0").unwrap();
        socket.send_to(b"hello", "192.0.2.2:9").unwrap();
        let asked = receive(&mut ports, 1, |frame| frame[12..14] == [8, 6]);
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0][38..42], [192, 0, 2, 2]);
        drop(ports);
    });
}

#[test]
fn what_the_kernel_refuses_is_said() {
    with_veth(Leaks::Nothing, || {
        let error = io_dpdk::open("net_af_packet2,iface=nosuch").err().unwrap().to_string();
        assert!(error.contains("net_af_packet2") && error.contains("No such device"), "{error}");
    });
}
