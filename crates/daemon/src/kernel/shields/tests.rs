//! Packets put into taps, in a network namespace of their own.

use std::fs::write;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use ::io::tap::Tap;
use wire::build::Frame;
use wire::ethernet::Mac;
use wire::tcp;

use super::*;
use crate::namespace::{in_namespace, ip_batch};

const FRONT: [u8; 6] = [2, 0, 0, 0, 0, 0xf0];
const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 0xc1];

/// A kernel that forwards, with a tap at the front and one at the back: behind that, a
/// protected host and a plain one.
fn router() -> (Tap, Tap) {
    let taps = ["front", "back"].map(|name| Tap::open(name).unwrap());
    taps[0].set_mac(FRONT).unwrap();
    for key in [
        "ipv4/ip_forward",
        "ipv6/conf/all/forwarding",
        "ipv6/conf/front/forwarding",
        "ipv6/conf/back/forwarding",
    ] {
        write(format!("/proc/sys/net/{key}"), "1").unwrap();
    }
    ip_batch(
        "link set lo up\n\
         link set front up\n\
         link set back up\n\
         addr add 10.0.0.1/24 dev front\n\
         addr add 2001:db8:1::1/64 dev front nodad\n\
         addr add 10.0.1.1/24 dev back\n\
         addr add 2001:db8:2::1/64 dev back nodad\n\
         neigh add 10.0.0.9 lladdr 02:00:00:00:00:c1 dev front\n\
         neigh add 2001:db8:1::9 lladdr 02:00:00:00:00:c1 dev front\n\
         neigh add 10.0.1.2 lladdr 02:00:00:00:00:b2 dev back\n\
         neigh add 2001:db8:2::2 lladdr 02:00:00:00:00:b2 dev back\n\
         route add 20.1.0.0/16 via 10.0.1.2\n\
         route add 2001:db8:20::/48 via 2001:db8:2::2\n",
    );
    let [front, back] = taps;
    (front, back)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn packet(from: &str, to: &str, port: u16, tcp: Option<u16>) -> Vec<u8> {
    let (mut from, mut to) = (address(from), address(to));
    from.set_port(4000);
    to.set_port(port);
    let frame = match (from, to, tcp) {
        (SocketAddr::V4(from), SocketAddr::V4(to), None) => Frame::udp4(from, to),
        (SocketAddr::V4(from), SocketAddr::V4(to), Some(flags)) => Frame::tcp4(from, to, flags),
        (SocketAddr::V6(from), SocketAddr::V6(to), None) => Frame::udp6(from, to),
        (SocketAddr::V6(from), SocketAddr::V6(to), Some(flags)) => Frame::tcp6(from, to, flags),
        _ => panic!("of two families"),
    };
    frame.macs(Mac(CLIENT), Mac(FRONT)).build().to_vec()
}

/// A frame that `is` takes comes out of the tap within a while.
fn comes(tap: &Tap, is: impl Fn(&[u8]) -> bool, wait: Duration) -> bool {
    let (start, mut frame) = (Instant::now(), [0; 2048]);
    while start.elapsed() < wait {
        match tap.read(&mut frame) {
            Ok(len) if is(&frame[..len]) => return true,
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    false
}

/// An IPv4 or IPv6 packet to this destination port.
fn to_port(frame: &[u8], port: u16) -> bool {
    let at = match frame.get(12..14) {
        Some([8, 0]) => 14 + 20 + 2,
        Some([0x86, 0xdd]) => 14 + 40 + 2,
        _ => return false,
    };
    frame.get(at..at + 2) == Some(&port.to_be_bytes())
}

const LONG: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn the_kernel_forwards_nothing_from_the_front_and_answers_for_itself() {
    in_namespace(|| {
        let (front, back) = router();
        let mut rtnetlink = Rtnetlink::open().unwrap();
        // Protected or plain: the kernel knows of no difference.
        let ways = [
            ("10.0.0.9:0", "20.1.1.1:0"),
            ("10.0.0.9:0", "10.0.1.2:0"),
            ("[2001:db8:1::9]:0", "[2001:db8:20::1]:0"),
            ("[2001:db8:1::9]:0", "[2001:db8:2::2]:0"),
        ];
        let passes = |port: u16, wait| {
            ways.map(|(from, to)| {
                front.write(&packet(from, to, port, None)).unwrap();
                comes(&back, |frame| to_port(frame, port), wait)
            })
        };
        assert_eq!(passes(1001, LONG), [true; 4], "without the rules");
        rtnetlink.prohibit_from("front").unwrap();
        rtnetlink.prohibit_from("front").unwrap(); // they are there
        assert_eq!(passes(1002, SHORT), [false; 4]);
        // From the back to the front it forwards.
        let to_back = back.mac().unwrap();
        for (from, to) in
            [("20.1.1.1:0", "10.0.0.9:0"), ("[2001:db8:20::1]:0", "[2001:db8:1::9]:0")]
        {
            let mut frame = packet(from, to, 1003, None);
            frame[..6].copy_from_slice(&to_back);
            back.write(&frame).unwrap();
            assert!(comes(&front, |frame| to_port(frame, 1003), LONG));
        }
        // Sessions with this machine live on that tap: a SYN is answered.
        for (own, client) in [
            ("10.0.0.1:179", "10.0.0.9:0"),
            ("[2001:db8:1::1]:179", "[2001:db8:1::9]:0"),
            ("10.0.1.1:179", "10.0.0.9:0"),
        ] {
            let _listener = TcpListener::bind(own).unwrap();
            front.write(&packet(client, own, 179, Some(tcp::SYN))).unwrap();
            assert!(comes(&front, |frame| to_port(frame, 4000), LONG), "{own}");
        }
        rtnetlink.allow_from("front").unwrap();
        assert_eq!(passes(1004, LONG), [true; 4]);
        assert!(rtnetlink.allow_from("front").is_err());
        // Given back with the others, and no stranger's in the meantime.
        rtnetlink.prohibit_from("front").unwrap();
        assert_eq!(rtnetlink.foreign_rules().unwrap(), [""; 0]);
        rtnetlink.flush_rules().unwrap();
        assert_eq!(passes(1005, LONG), [true; 4]);
    });
}

fn shield_of(table: u32, text: &str) -> Shield {
    let (address, length) = text.split_once('/').unwrap();
    (table, Net { address: address.parse().unwrap(), length: length.parse().unwrap() })
}

#[test]
fn protections_are_blackhole_routes_that_others_see() {
    in_namespace(|| {
        let _taps = router();
        let mut rtnetlink = Rtnetlink::open().unwrap();
        let all = |texts: &[&str]| -> BTreeSet<Shield> {
            texts.iter().map(|text| shield_of(254, text)).collect()
        };
        // A static route of ours, and routes of others: one to the same prefix.
        ip_batch(
            "route add blackhole 30.0.0.0/8 proto 198\n\
             route add blackhole 30.1.0.0/16 metric 8\n",
        );
        rtnetlink.set_shields(&all(&["20.1.0.0/16", "0.0.0.0/1", "2001:db8:20::/48"])).unwrap();
        let there = rtnetlink.shields().unwrap();
        assert_eq!(there, all(&["20.1.0.0/16", "0.0.0.0/1", "2001:db8:20::/48"]));
        rtnetlink.add_shield(shield_of(254, "20.1.0.0/16")).unwrap(); // it is there
        rtnetlink.add_shield(shield_of(1000, "20.2.0.0/16")).unwrap();
        // As after a kill: another socket finds them, and what stays is not withdrawn.
        let mut later = Rtnetlink::open().unwrap();
        assert_eq!(later.flush_routes().unwrap(), 1, "the static route alone");
        let wanted: BTreeSet<_> = all(&["20.1.0.0/16", "2001:db8:30::/48"]).into_iter().collect();
        later.set_shields(&wanted).unwrap();
        assert_eq!(later.shields().unwrap(), wanted);
        later.delete_shield(shield_of(254, "20.1.0.0/16")).unwrap();
        assert!(later.delete_shield(shield_of(254, "20.1.0.0/16")).is_err());
        later.set_shields(&BTreeSet::new()).unwrap();
        assert!(later.shields().unwrap().is_empty());
        // The others' are as they were.
        ip_batch("route del 20.1.0.0/16 via 10.0.1.2\nroute del blackhole 30.1.0.0/16\n");
    });
}
