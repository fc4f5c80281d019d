//! Packets of many pairs, whose ports, protocols, tags and fragments vary, over every kind
//! of device that there is without hardware: no pair meets two workers, and each meets the
//! one that is said to own it.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use ::io::{AfPacket, Burst, Device, Owned, Pool, PoolConfig};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::vlan::Tag;

use super::*;
use crate::config::Config;
use crate::parts::devices;

type Pair = (IpAddr, IpAddr);

/// Frames, each with its pair.
fn frames() -> Vec<(Vec<u8>, Pair)> {
    let mut all = Vec::new();
    for pair in 0..PAIRS {
        let (from, to) = (Ipv4Addr::new(198, 51, 100, pair), Ipv4Addr::new(10, 0, pair / 3, 1));
        let (from6, to6) = (
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 7, pair.into()),
            Ipv6Addr::new(0x2001, 0xdb8, 9, u16::from(pair) / 3, 0, 0, 0, 1),
        );
        for port in 0..8_u16 {
            let four = (SocketAddrV4::new(from, 1000 + port), SocketAddrV4::new(to, 9 * port));
            let six = (
                SocketAddrV6::new(from6, 1000 + port, 0, 0),
                SocketAddrV6::new(to6, 9 * port, 0, 0),
            );
            let (mut four, mut six) = match port % 4 {
                0 => (Frame::udp4(four.0, four.1), Frame::udp6(six.0, six.1)),
                1 => (Frame::tcp4(four.0, four.1, 2), Frame::tcp6(six.0, six.1, 2)),
                2 => (
                    Frame::udp4(four.0, four.1).fragment(7, 0, true),
                    Frame::udp6(six.0, six.1).extension(60, [1, 4, 0, 0, 0, 0]),
                ),
                _ => (
                    Frame::udp4(four.0, four.1).fragment(7, 1480, false),
                    Frame::udp6(six.0, six.1).fragment(7, 1480, false),
                ),
            };
            if port > 2 {
                (four, six) = (four.tag(Tag::new(5)), six.tag(Tag::new(5)));
            }
            if port > 5 {
                (four, six) = (four.tag(Tag::new(6)), six.tag(Tag::new(6)));
            }
            // Drivers may take tags off: the end says which it is.
            let (mark4, mark6) = ([MARK, 4, pair], [MARK, 6, pair]);
            let whole = |frame: Frame<'_>| frame.macs(Mac(OURS), Mac([2; 6])).build().to_vec();
            all.push((whole(four.payload(&mark4)), (from.into(), to.into())));
            all.push((whole(six.payload(&mark6)), (from6.into(), to6.into())));
        }
    }
    all
}

const PAIRS: u8 = 40;
const MARK: u8 = 0x5c;
/// As many are on the way at a time: fewer than any device holds.
const PART: usize = 160;
/// Where our frames come from.
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

/// What the workers of these ports get of all frames, which `give` puts in.
fn check(ports: &mut [Port], workers: usize, give: impl FnMut(&[(Vec<u8>, Pair)])) {
    check_of(&frames(), ports, workers, give);
}

fn check_of(
    all: &[(Vec<u8>, Pair)],
    ports: &mut [Port],
    workers: usize,
    mut give: impl FnMut(&[(Vec<u8>, Pair)]),
) {
    let bells: Vec<_> = (0..workers).map(|_| Bell::new().unwrap()).collect();
    let owners = Arc::new(Owners::new(11, workers as u16));
    let dealing = Dealing {
        bells: &bells,
        buffers: 4096,
        hasher: None,
        owners: Some(owners.clone()),
        by_pair: &|_| true,
    };
    let name = ports[0].config.device_text.clone();
    let (mut queues, away) = dealing.start(ports).unwrap();
    let own = |worker: &Vec<(u16, Box<dyn ::io::Port>)>| worker.len() == ports.len();
    assert!(queues.by_worker.iter().all(own), "{name}: {away:?}");
    for (worker, ports) in queues.by_worker.iter_mut().enumerate() {
        ports.iter_mut().for_each(|(_, port)| port.attach(worker));
    }
    let pair_of: BTreeMap<&[u8], Pair> = all.iter().map(|(f, pair)| (end(f), *pair)).collect();
    let (mut got, mut met) = (0, BTreeMap::<Pair, usize>::new());
    let most = all.len() * ports.len();
    for (part, frames) in (1..).zip(all.chunks(PART)) {
        give(frames);
        let want = most.min(part * PART * ports.len());
        let (mut quiet, until) = (0, Instant::now() + Duration::from_secs(10));
        // Once all of them are there: what comes twice comes within 20 rounds more.
        while quiet < 20 && Instant::now() < until {
            let mut received = 0;
            for (worker, ports) in queues.by_worker.iter_mut().enumerate() {
                for (_, port) in ports {
                    let mut burst = Burst::new();
                    let n = port.receive(&mut burst, 64);
                    received += n;
                    let frames = (0..n).filter_map(|i| burst.packet(i)).map(Owned::data);
                    for frame in frames.filter(|frame| frame[6..12] == OURS) {
                        got += 1;
                        let pair = pair_of.get(end(frame)).expect("one of ours");
                        let first = *met.entry(*pair).or_insert(worker);
                        assert_eq!(first, worker, "{name}: {pair:?} meets two workers");
                    }
                    port.free(burst.packets());
                }
            }
            quiet = if received > 0 || got < want { 0 } else { quiet + 1 };
        }
    }
    let lost: u64 = ports.iter().flat_map(|port| &port.lost).map(|lost| lost.received.get()).sum();
    assert_eq!((got, lost), (most, 0), "{name}");
    assert_eq!(met.len(), 2 * usize::from(PAIRS));
    let mut shares = vec![0; workers];
    for ((source, destination), worker) in met {
        let owner = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => owners.ipv4(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => owners.ipv6(source, destination),
            _ => unreachable!("a pair is of one family"),
        };
        assert_eq!(owner, worker, "{name}: {source} {destination}");
        shares[worker] += 1;
    }
    assert!(shares.iter().all(|share| *share > 10), "{name}: {shares:?}");
    drop(queues);
    ports.iter_mut().for_each(|port| port.device.stop());
}

/// What only frames of one pair have.
fn end(frame: &[u8]) -> &[u8] {
    &frame[frame.len() - 3..]
}

fn open(workers: usize, devices: &[&str]) -> Vec<Port> {
    let cores: Vec<_> = (0..workers).map(|core| core.to_string()).collect();
    let mut text = format!("buffers = 4096\nworkers = [{}]\n", cores.join(","));
    for (i, device) in devices.iter().enumerate() {
        text += &format!("[ports.p{i}]\ndevice = \"{device}\"\n");
    }
    devices::open(&Config::parse("t", &text).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// Every packet comes in by a queue that nobody would think of.
#[test]
fn memory_with_many_queues() {
    let config = PoolConfig { packets: 8192, ..PoolConfig::default() };
    let pool = Pool::new(&config).unwrap();
    for workers in [2, 3, 4] {
        // Two ports: a pair has one worker, by whichever it comes in.
        let mut ports = open(workers, &["mem", "mem"]);
        let mut peers = Vec::new();
        for port in &mut ports {
            let (device, peer) = ::io::mem::connect("p", [2, 0, 0, 0, 0, 1], &pool);
            port.device = Box::new(device);
            peers.push(peer);
        }
        check(&mut ports, workers, |frames| {
            for (i, (frame, _)) in frames.iter().enumerate() {
                peers[0].push_to(i % workers, frame);
                peers[1].push_to(i / 2 % workers, frame);
            }
        });
    }
    assert_eq!(pool.available(), pool.size());
}

/// A queue for fewer workers than there are is for one.
#[test]
fn memory_with_few_queues() {
    let pool = Pool::new(&PoolConfig { packets: 8192, ..PoolConfig::default() }).unwrap();
    for (workers, queues) in [(2, 1), (3, 2)] {
        let mut ports = open(workers, &["mem", "mem"]);
        let mut peers = Vec::new();
        for port in &mut ports {
            let (device, peer) = ::io::mem::connect("p", [2, 0, 0, 0, 0, 1], &pool);
            (port.device, port.config.queues) = (Box::new(device), queues);
            peers.push(peer);
        }
        check(&mut ports, workers, |frames| {
            frames.iter().for_each(|(frame, _)| peers.iter().for_each(|peer| peer.push(frame)));
        });
        assert!(ports.iter().all(|port| port.queues == 1));
    }
    assert_eq!(pool.available(), pool.size());
}

#[test]
fn captures() {
    let dir = crate::trusted::tests::own_folder("dealing");
    let path = dir.join("in.pcap");
    let mut file = Vec::new();
    let head: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1];
    file.extend(head.iter().flat_map(|word| word.to_ne_bytes()));
    for (frame, _) in frames() {
        let record = [0, 0, frame.len() as u32, frame.len() as u32];
        file.extend(record.iter().flat_map(|word| word.to_ne_bytes()));
        file.extend(frame);
    }
    std::fs::write(&path, file).unwrap();
    check(&mut open(2, &[&format!("pcap:{},", path.display())]), 2, |_| {});
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Runs `test` on a thread in a network namespace with the veth pair v0, v1.
fn with_veth(name: &str, test: impl FnOnce() + Send) {
    struct Gone(String);
    impl Drop for Gone {
        fn drop(&mut self) {
            ip(&format!("netns del {}", self.0));
        }
    }
    let space = Gone(format!("rt{}-{name}", std::process::id()));
    if !ip(&format!("netns add {}", space.0)) {
        return testing::skip("no network namespace");
    }
    std::thread::scope(|s| {
        let run = || {
            let file = File::open(format!("/run/netns/{}", space.0)).unwrap();
            let into = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
            into.unwrap();
            if !ip("link add v0 type veth peer name v1") {
                return testing::skip("no veth pair here");
            }
            assert!(ip("link set v0 up") && ip("link set v1 up"));
            test();
        };
        let thread = std::thread::Builder::new().name(testing::name());
        let result = thread.spawn_scoped(s, run).unwrap().join();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
}

/// Sends them by the interface of this name.
fn send(interface: &str, frames: &[(Vec<u8>, Pair)]) {
    let pool = Pool::new(&PoolConfig { packets: 512, ..PoolConfig::default() }).unwrap();
    let mut device = AfPacket::open(interface, false, &pool).unwrap();
    let mut port = device.start(1).unwrap().remove(0);
    port.attach(0);
    for frames in frames.chunks(32) {
        let fill = |(frame, _): &(Vec<u8>, Pair)| {
            let mut packet = port.allocate().unwrap();
            assert!(packet.fill(frame));
            Some(packet)
        };
        let mut packets: Vec<_> = frames.iter().map(fill).collect();
        assert_eq!(port.transmit(&mut packets), packets.len());
    }
    drop(port);
}

#[test]
fn packet_sockets() {
    with_veth("packet", || {
        for workers in [2, 3] {
            let mut ports = open(workers, &["packet:v0"]);
            check(&mut ports, workers, |frames| send("v1", frames));
            assert!(matches!(ports[0].device.spread(), Spread::ByPair(_)));
            assert_eq!(usize::from(ports[0].queues), workers);
        }
    });
}

#[test]
fn a_tap() {
    with_veth("tap", || {
        let mut ports = open(2, &["tap:t0"]);
        check(&mut ports, 2, |frames| send("t0", frames));
    });
}

#[cfg(feature = "dpdk")]
#[test]
fn dpdks_sockets() {
    with_veth("dpdk", || {
        // That driver has the kernel join fragments of IPv4.
        let whole = |(i, _): &(usize, _)| i % 2 == 1 || i / 2 % 4 < 2;
        let whole = frames().into_iter().enumerate().filter(whole).map(|(_, frame)| frame);
        let whole: Vec<_> = whole.collect();
        let mut ports = open(2, &["net_af_packet0,iface=v0"]);
        check_of(&whole, &mut ports, 2, |frames| send("v1", frames));
        drop(ports);
        let mut ports = open(2, &["net_af_packet1,iface=v0,qpairs=2"]);
        check_of(&whole, &mut ports, 2, |frames| send("v1", frames));
        assert_eq!((ports[0].queues, ports[0].device.spread()), (2, Spread::Unknown));
        if testing::in_user_namespace() {
            return testing::skip("AF_XDP needs more than a user namespace");
        }
        let text = "buffers = 4096\n[ports.p0]\ndevice = \"net_af_xdp0,iface=v0\"\n";
        match devices::open(&Config::parse("t", text).unwrap()) {
            Ok(mut ports) => check(&mut ports, 2, |frames| send("v1", frames)),
            Err(error) => testing::skip(error),
        }
    });
}
