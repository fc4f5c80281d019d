//! Devices that need neither root nor hugepages. One process, one environment.
#![cfg(feature = "dpdk")]

use io::{BURST, Burst, ByPair, Device, Port, Spread, World};
use std::sync::{Mutex, MutexGuard};

/// Packets are counted over all devices of the process: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let config = io_dpdk::Config { hugepages: Some(false), packets: 4095, ..Default::default() };
    io_dpdk::init(&config).unwrap();
    guard
}

fn open(argument: &str) -> Box<dyn Device> {
    io_dpdk::open(argument).unwrap_or_else(|error| panic!("{error}"))
}

fn start(device: &mut dyn Device) -> Box<dyn Port> {
    let mut ports = device.start(1).unwrap_or_else(|error| panic!("{error}"));
    ports[0].attach(0);
    ports.remove(0)
}

fn assert_all_home() {
    let (free, all) = io_dpdk::packets();
    assert!(all > 0);
    assert_eq!(free, all, "packets are missing");
}

#[test]
fn null_gives_and_takes() {
    let _alone = alone();
    let mut device = open("net_null0");
    assert_eq!((device.name(), device.netdev()), ("net_null0", None));
    let mut port = start(&mut *device);
    assert_eq!(port.world(), World::Dpdk);
    assert!(device.link().up);
    for _ in 0..100 {
        let mut burst = Burst::new();
        assert_eq!(port.receive(&mut burst, BURST), BURST);
        assert_eq!(port.receive(&mut burst, 1000), 256 - BURST, "the vector is full");
        assert!((0..256).all(|i| burst.len(i) == 64));
        let packets = burst.packets();
        assert!(packets.iter().flatten().all(|p| p.packet().flow().is_none()));
        let taken = port.transmit(&mut packets[..200]);
        assert!(packets[..taken].iter().all(Option::is_none));
        port.free(packets);
    }
    let counters = device.counters();
    assert!(counters.rx_packets == 25_600 && counters.tx_packets >= 100, "{counters:?}");
    drop(port);
    device.stop();
    drop(device);
    assert_all_home();
}

#[test]
fn a_ring_gives_back_what_was_sent() {
    let _alone = alone();
    let mut device = open("net_ring0");
    let mut port = start(&mut *device);
    let mut packets: Vec<_> = (0..100u8)
        .map(|i| {
            let mut packet = port.allocate().unwrap();
            assert!(packet.data().is_empty() && packet.room() > 1600);
            assert!(packet.fill(&[i; 100]));
            Some(packet)
        })
        .collect();
    assert_eq!(port.transmit(&mut packets), 100);
    let mut burst = Burst::new();
    while burst.n() < 100 {
        assert_ne!(port.receive(&mut burst, 64), 0);
    }
    for (i, packet) in burst.packets().iter().flatten().enumerate() {
        assert_eq!(packet.data(), [i as u8; 100]);
    }
    port.free(burst.packets());
    drop(port);
    drop(device);
    assert_all_home();
}

/// Two ends of a shared-memory link, as between two processes. Again and again,
/// because only now and then an end that was closed while DPDK's own thread heard
/// that the other had gone was freed twice, or one that took the number of a file
/// just closed was waited for in vain.
#[test]
fn memif_links_two_devices() {
    let _alone = alone();
    (0..20).for_each(|_| link_two_devices());
    assert_all_home();
}

fn link_two_devices() {
    let socket = std::env::temp_dir().join(format!("rutter-memif-{}", std::process::id()));
    let argument = |end, role| {
        format!("net_memif{end},role={role},socket={},socket-abstract=no", socket.display())
    };
    let mut server = open(&argument(0, "server"));
    let mut client = open(&argument(1, "client"));
    let mut to = start(&mut *server);
    let mut from = start(&mut *client);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !(server.link().up && client.link().up) {
        assert!(std::time::Instant::now() < end, "the ends never met");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut packet = from.allocate().unwrap();
    packet.fill(&[7; 60]);
    assert_eq!(from.transmit(&mut [Some(packet)]), 1);
    let mut burst = Burst::new();
    while to.receive(&mut burst, 64) == 0 {
        assert!(std::time::Instant::now() < end, "nothing came");
    }
    assert_eq!(burst.packet(0).unwrap().data(), [7; 60]);
    to.free(burst.packets());
    drop((to, from));
    drop((client, server));
    let _ = std::fs::remove_file(socket);
}

#[test]
fn captures_are_read_and_written() {
    let _alone = alone();
    let dir = std::env::temp_dir().join(format!("rutter-dpdk-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (input, output) = (dir.join("in.pcap"), dir.join("out.pcap"));
    // Microseconds: what DPDK 22.11's libpcap writes, and so can compare.
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    capture.extend([0; 8]);
    capture.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for i in 0..10u8 {
        capture.extend([0; 8]);
        capture.extend([60, 0, 0, 0, 60, 0, 0, 0]);
        capture.extend([i; 60]);
    }
    std::fs::write(&input, capture).unwrap();
    let argument = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let mut device = open(&argument);
    let mut port = start(&mut *device);
    let mut burst = Burst::new();
    assert_eq!(port.receive(&mut burst, 64), 10);
    assert_eq!(port.transmit(burst.packets()), 10);
    drop(port);
    device.stop();
    drop(device);
    let written = std::fs::File::open(&output).unwrap();
    let mut reader = io::pcap::Reader::new(written).unwrap();
    for i in 0..10 {
        assert_eq!(reader.next_frame().unwrap().unwrap().data, [i; 60]);
    }
    assert!(reader.next_frame().unwrap().is_none());
    std::fs::remove_dir_all(dir).unwrap();
    assert_all_home();
}

#[test]
fn several_queues_and_threads() {
    let _alone = alone();
    let mut device = open("net_null7");
    assert!(device.max_queues() >= 2);
    let ports = device.start(2).unwrap();
    let work = |mut port: Box<dyn Port>| {
        port.attach(0);
        let mut burst = Burst::new();
        for _ in 0..1000 {
            assert_eq!(port.receive(&mut burst, BURST), BURST);
            port.free(burst.packets());
            burst.clear();
        }
    };
    std::thread::scope(|s| ports.into_iter().for_each(|port| drop(s.spawn(move || work(port)))));
    assert_eq!(device.counters().rx_packets, 2 * 1000 * BURST as u64);
    drop(device);
    assert_all_home();
}

/// The driver keeps key and table, and is asked for them; what it deals is all the same.
#[test]
fn a_device_deals_by_pair_or_says_that_it_does_not() {
    let _alone = alone();
    let by = |bits| ByPair { key: std::array::from_fn(|i| 3 * i as u8 + 1), bits };
    let mut device = open("net_null9");
    let start = |device: &mut dyn Device, by: &ByPair, queues| {
        device.deal_by_pair(by);
        let mut port = device.start(queues).unwrap().remove(0);
        port.attach(0);
        let mut burst = Burst::new();
        assert_eq!(port.receive(&mut burst, BURST), BURST);
        port.free(burst.packets());
        drop(port);
        device.stop();
        device.spread()
    };
    assert_eq!(start(&mut *device, &by(7), 2), Spread::ByPair(by(7)));
    assert_eq!(start(&mut *device, &by(6), 3), Spread::ByPair(by(6)));
    assert_eq!(start(&mut *device, &by(12), 2), Spread::ByFlow, "its table is shorter");
    assert_eq!(start(&mut *device, &by(7), 1), Spread::Unknown, "there is nothing to deal");
    drop(device);
    let mut device = open("net_null10");
    drop(device.start(2).unwrap());
    assert_eq!(device.spread(), Spread::ByFlow);
    drop(device);
    assert_all_home();
}

/// Threads come and go for as long as the process lives; DPDK has 128 places.
#[test]
fn threads_give_their_places_back() {
    let _alone = alone();
    let mut device = open("net_null8");
    for _ in 0..300 {
        let mut port = device.start(1).unwrap().remove(0);
        std::thread::spawn(move || {
            port.attach(0);
            let mut burst = Burst::new();
            port.receive(&mut burst, BURST);
            port.free(burst.packets());
        })
        .join()
        .unwrap();
        device.stop();
    }
    drop(device);
    assert_all_home();
}

#[test]
fn packets_cross_between_the_worlds_by_copy() {
    let _alone = alone();
    let pool = io::Pool::new(&io::PoolConfig { packets: 10, ..Default::default() }).unwrap();
    let mut device = open("net_ring1");
    let mut port = start(&mut *device);
    let mut own = pool.allocate().unwrap();
    own.fill(b"from here to there and back");
    let mut theirs = port.allocate().unwrap();
    assert!(theirs.copy_from(&own));
    assert_eq!(theirs.data(), own.data());
    own.fill(b"");
    assert!(own.copy_from(&theirs));
    assert_eq!(own.data(), b"from here to there and back");
    pool.put(&mut [Some(own)]);
    port.free(&mut [Some(theirs), None]);
    drop(port);
    drop(device);
    assert_all_home();
}

/// What safe code may try: the device goes before its port; a packet of another
/// world, or none at all, is given to DPDK.
#[test]
fn a_port_outlives_its_device_and_refuses_strangers() {
    let _alone = alone();
    let pool = io::Pool::new(&io::PoolConfig { packets: 4, ..Default::default() }).unwrap();
    let mut device = open("net_null10");
    let mut port = start(&mut *device);
    device.stop();
    assert!(device.start(1).is_err(), "it runs until its port is gone");
    drop(device);
    let mut burst = Burst::new();
    assert_eq!(port.receive(&mut burst, BURST), BURST);
    port.free(burst.packets());
    burst.clear();
    let mut mixed = [pool.allocate(), None, port.allocate()];
    assert_eq!((port.transmit(&mut mixed), port.transmit(&mut mixed[1..])), (0, 0));
    let free = std::panic::AssertUnwindSafe(|| port.free(&mut mixed));
    assert!(std::panic::catch_unwind(free).is_err());
    pool.put(&mut mixed[..1]);
    port.free(&mut mixed);
    drop(port);
    assert_all_home();
    drop(open("net_null10"));
}

#[test]
fn mtu_is_held_to_what_packets_hold() {
    let _alone = alone();
    let mut device = open("net_null9");
    device.set_mtu(9000).unwrap();
    let port = start(&mut *device);
    device.set_mtu(1500).unwrap();
    device.set_mtu(9000).unwrap();
    assert!(device.set_mtu(20_000).is_err());
    drop(port);
}

#[test]
fn mistakes_are_explained() {
    let _alone = alone();
    let message = |argument: &str| io_dpdk::open(argument).err().unwrap().to_string();
    let unknown = message("net_nosuch0");
    assert!(unknown.contains("net_nosuch0") && unknown.contains("driver"), "{unknown}");
    assert!(message("").contains("expected"));
    assert!(message("0000:03:00.0").contains("PCI"));
    assert!(message("net_null5,nosuch=1").contains("net_null5"));
    let _first = open("net_null6");
    assert!(message("net_null6").contains("another device"));
    let mut device = open("net_null4");
    assert!(device.start(0).is_err() && device.start(u16::MAX).is_err());
}

#[test]
fn the_status_is_known() {
    let _alone = alone();
    let status = io_dpdk::status().unwrap();
    assert!(status.version.contains("DPDK") && status.hugepages == Some(false));
}
