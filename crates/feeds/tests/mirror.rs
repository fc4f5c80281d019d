//! The mirror against a real kernel: in a network namespace of its own, `ip`
//! changes things, and what packets would meet is read from the data plane.
//! Without root the tests say so and pass.

mod namespace;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feeds::netlink::{Keeper, Mirror};
use lookup::Hop;
use lookup::sync::{Domain, Thread};
use namespace::{in_namespace, ip, ip_batch};
use tables::event::Event;
use tables::{AdjacencyId, Control, Iface, Kind, Limits, PortId, VrfConfig};

#[test]
fn what_ip_does_is_what_packets_meet() {
    with_bench(|mut b| {
        ip("route add 192.0.2.0/24 via 10.0.0.2");
        b.is("192.0.2.9", "p0:02");
        ip("route replace 192.0.2.0/24 via 10.0.1.2 metric 0");
        b.is("192.0.2.9", "p1:03");
        ip("route add 192.0.2.0/24 via 10.0.0.2 metric 5");
        b.is("192.0.2.9", "p1:03");
        ip("route del 192.0.2.0/24 metric 0");
        b.is("192.0.2.9", "p0:02");
        for (kind, seen) in [
            ("blackhole", "Blackhole"),
            ("unreachable", "Unreachable"),
            ("prohibit", "Unreachable"),
            ("throw", "Unreachable"),
        ] {
            ip(&format!("route add {kind} 198.51.100.0/24"));
            b.is("198.51.100.1", seen);
            ip(&format!("route del {kind} 198.51.100.0/24"));
            b.is("198.51.100.1", "NoRoute");
        }
        b.is("10.0.0.1", "ForUs");
        b.is("10.0.0.255", "Multicast");
        b.is("10.0.0.77", "NoNeighbour");
        b.is("10.0.0.2", "p0:02");
        ip("neigh replace 10.0.0.2 lladdr 04:00:00:00:00:09 dev p0 nud permanent");
        b.is("192.0.2.9", "p0:09");
        ip("neigh del 10.0.0.2 dev p0");
        b.is("192.0.2.9", "NoNeighbour");
        b.is("10.0.0.2", "NoNeighbour");
    });
}

#[test]
fn several_ways_and_both_families() {
    with_bench(|mut b| {
        ip("route add 192.0.2.0/24 nexthop via 10.0.0.2 weight 1 nexthop via 10.0.1.2 weight 3");
        b.is("192.0.2.9", "p0:02 p1:03");
        ip("route add 198.51.100.0/24 via inet6 fe80::5 dev p0");
        b.is("198.51.100.9", "p0:05");
        ip("-6 route add 2001:db8:9::/48 via 2001:db8:1::2");
        b.is("2001:db8:9::1", "p1:06");
        ip("-6 route append 2001:db8:9::/48 via fe80::5 dev p0");
        b.is("2001:db8:9::1", "p0:05 p1:06");
        ip("-6 route del 2001:db8:9::/48 via 2001:db8:1::2");
        b.is("2001:db8:9::1", "p0:05");
        ip("-6 route replace 2001:db8:9::/48 nexthop via 2001:db8:1::2 nexthop via fe80::5 dev p0");
        b.is("2001:db8:9::1", "p0:05 p1:06");
        ip("-6 route del 2001:db8:9::/48");
        b.is("2001:db8:9::1", "NoRoute");
        b.is("2001:db8:1::2", "p1:06");
        b.is("2001:db8:1::1", "ForUs");
        b.is("fe80::1234", "Martian");
    });
}

#[test]
fn next_hop_objects() {
    with_bench(|mut b| {
        ip("nexthop add id 1 via 10.0.0.2 dev p0");
        ip("nexthop add id 2 via 10.0.1.2 dev p1");
        ip("nexthop add id 3 group 1/2,2");
        ip("nexthop add id 4 blackhole");
        ip("route add 192.0.2.0/24 nhid 1");
        ip("route add 198.51.100.0/24 nhid 3");
        ip("route add 203.0.113.0/24 nhid 4");
        b.is("192.0.2.9", "p0:02");
        b.is("198.51.100.9", "p0:02 p1:03");
        b.is("203.0.113.9", "Blackhole");
        ip("nexthop replace id 1 via 10.0.1.2 dev p1");
        b.is("192.0.2.9", "p1:03");
        b.is("198.51.100.9", "p1:03");
        ip("nexthop replace id 1 via 10.0.0.2 dev p0");
        b.is("198.51.100.9", "p0:02 p1:03");
        // The kernel says nothing of the routes that go with an object.
        ip("nexthop del id 1");
        b.is("192.0.2.9", "NoRoute");
        b.is("198.51.100.9", "p1:03");
        ip("nexthop del id 3");
        b.is("198.51.100.9", "NoRoute");
        b.agrees();
    });
}

#[test]
fn what_vanishes_silently() {
    with_bench(|mut b| {
        ip("route add 192.0.2.0/24 via 10.0.0.2");
        ip("route add 198.51.100.0/24 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
        ip("route add 203.0.113.0/24 via 10.0.1.2 src 10.0.0.1");
        ip("-6 route add 2001:db8:9::/48 via fe80::5 dev p0");
        ip("nexthop add id 1 via 10.0.0.2 dev p0");
        ip("route add 203.0.112.0/24 nhid 1");
        b.is("203.0.112.9", "p0:02");
        b.is("198.51.100.9", "p0:02 p1:03");
        b.is("203.0.113.9", "p1:03");
        ip("link set p0 down");
        for ip in ["192.0.2.9", "2001:db8:9::1", "10.0.0.2", "203.0.112.9"] {
            b.is(ip, "NoRoute");
        }
        b.is("198.51.100.9", "p1:03");
        b.agrees();
        ip("link set p0 up");
        ip("neigh replace 10.0.0.2 lladdr 04:00:00:00:00:02 dev p0 nud permanent");
        // The kernel revives the dead way of a route without a word.
        b.is("198.51.100.9", "p0:02 p1:03");
        b.is("192.0.2.9", "NoRoute");
        ip("route add 192.0.2.0/24 via 10.0.0.2");
        b.is("192.0.2.9", "p0:02");
        b.is("203.0.113.9", "p1:03");
        // Routes with this address as their source go with it, without a word.
        ip("address del 10.0.0.1/24 dev p0");
        b.is("192.0.2.9", "NoRoute");
        b.is("203.0.113.9", "NoRoute");
        b.is("10.0.0.1", "NoRoute");
        b.is("198.51.100.9", "p1:03");
        b.agrees();
        ip("link del p1");
        b.is("198.51.100.9", "NoRoute");
        b.is("2001:db8:1::1", "NoRoute");
        b.agrees();
    });
}

#[test]
fn carrier_lost_and_back() {
    with_bench(|mut b| {
        ip("route add 192.0.2.0/24 via 10.0.0.2");
        ip("route add 192.0.2.0/24 via 10.0.1.2 metric 9");
        b.is("192.0.2.9", "p0:02");
        ip("link set p0x down");
        b.is("192.0.2.9", "p1:03");
        ip("link set p0x up");
        b.is("192.0.2.9", "p0:02");
    });
}

#[test]
fn messages_lost_in_a_small_buffer_are_made_good() {
    with_bench(|mut b| {
        b.mirror = Mirror::open(2048).unwrap();
        b.sync();
        let add: String = (0..3000)
            .map(|i| format!("route add 20.{}.{}.0/24 via 10.0.0.2\n", i / 250, i % 250))
            .collect();
        ip_batch(&add);
        b.is("20.0.0.1", "p0:02");
        b.is("20.11.249.1", "p0:02");
        assert!(b.mirror.counters().overruns > 0, "{:?}", b.mirror.counters());
        b.agrees();
        let del: String =
            (0..2990).map(|i| format!("route del 20.{}.{}.0/24\n", i / 250, i % 250)).collect();
        ip_batch(&del);
        b.is("20.0.0.1", "NoRoute");
        b.is("20.11.249.1", "p0:02");
        b.agrees();
    });
}

#[test]
fn gateways_are_managed_and_hosts_in_use_are_asked_for() {
    with_bench(|mut b| {
        let mut keeper = Keeper::open().unwrap();
        ip("route add 192.0.2.0/24 via 10.0.0.77");
        b.is("192.0.2.9", "NoNeighbour");
        assert_eq!(b.control.gateways().len(), 1);
        keeper.tend(&b.control.gateways(), &[]).unwrap();
        let entry = |is: &str, not: &str| {
            let start = Instant::now();
            loop {
                let output = Command::new("ip").args(["neigh", "show", "10.0.0.77"]).output();
                let text = String::from_utf8(output.unwrap().stdout).unwrap();
                if text.contains(is) && (not.is_empty() || !text.contains(not)) {
                    break;
                }
                assert!(start.elapsed() < LIMIT, "{text}, not {is} without {not}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        entry("managed", "");
        // One that failed, and lost its flag, is asked for again at once. The kernel
        // does not tell of one that it begins to ask for, but of one that it has found.
        for (state, known) in
            [("lladdr 04:00:00:00:00:77 nud reachable", true), ("nud failed", false)]
        {
            ip(&format!("neigh replace 10.0.0.77 dev p0 {state}"));
            let start = Instant::now();
            while b.control.gateways()[0].known != known {
                assert!(start.elapsed() < LIMIT, "known is not {known}");
                b.sync();
            }
        }
        entry("FAILED", "managed");
        keeper.tend(&b.control.gateways(), &[]).unwrap();
        entry("managed", "");
        // A permanent one is left alone, even when it is used.
        let kept = b.control.gateways();
        ip("route add 198.51.100.0/24 via 10.0.0.2");
        b.is("198.51.100.9", "p0:02");
        assert_eq!(b.control.gateways().len(), kept.len());
        ip("route del 192.0.2.0/24");
        b.is("192.0.2.9", "NoRoute");
        while !b.control.gateways().is_empty() {
            b.sync(); // its hop returns after a grace period
        }
        keeper.tend(&[], &[]).unwrap();
        entry("10.0.0.77", "managed");
        ip("neigh del 10.0.0.77 dev p0");
        let link = b.control.interfaces()[0].link.unwrap();
        keeper.tend(&[], &[(link, "10.0.0.77".parse().unwrap())]).unwrap();
        entry("10.0.0.77", "managed");
    });
}

#[test]
fn a_new_mirror_finds_what_changed_meanwhile() {
    with_bench(|mut b| {
        ip("route add 192.0.2.0/24 via 10.0.0.2");
        ip("route add 198.51.100.0/24 via 10.0.0.2");
        b.is("198.51.100.9", "p0:02");
        b.mirror = Mirror::open(1 << 20).unwrap();
        ip("route del 192.0.2.0/24");
        b.mirror = Mirror::open(1 << 20).unwrap();
        b.is("192.0.2.9", "NoRoute");
        b.is("198.51.100.9", "p0:02");
        b.agrees();
    });
}

fn with_bench(test: impl FnOnce(Bench) + Send + 'static) {
    in_namespace(|| test(Bench::new()));
}

/// A namespace, a control thread's state, the mirror, and a reader.
struct Bench {
    control: Control,
    mirror: Mirror,
    reader: Thread,
}

impl Bench {
    fn new() -> Bench {
        let mut bench = Bench::from_nothing();
        for command in [
            "link add p0 type veth peer name p0x",
            "link add p1 type veth peer name p1x",
            "link set lo up",
            "link set p0 address 02:00:00:00:00:10",
            "link set p0 up",
            "link set p1 up",
            "link set p0x up",
            "link set p1x up",
            "address add 10.0.0.1/24 dev p0",
            "address add 10.0.1.1/24 dev p1",
            "address add 2001:db8:1::1/64 dev p1 nodad",
            "neigh add 10.0.0.2 lladdr 04:00:00:00:00:02 dev p0 nud permanent",
            "neigh add 10.0.1.2 lladdr 04:00:00:00:00:03 dev p1 nud permanent",
            "neigh add fe80::5 lladdr 04:00:00:00:00:05 dev p0 nud permanent",
            "neigh add 2001:db8:1::2 lladdr 04:00:00:00:00:06 dev p1 nud permanent",
        ] {
            ip(command);
        }
        bench.is("10.0.1.2", "p1:03");
        bench
    }

    /// Lets the mirror work for a moment.
    fn sync(&mut self) {
        let control = &mut self.control;
        let mut sink = |events: &[Event]| control.handle(events);
        self.mirror.poll(Duration::from_millis(20), &mut sink).unwrap();
        self.control.tick();
        self.reader.quiesce();
    }

    /// Packets to `ip` meet `what`: `p0:02` is by `p0` to the MAC that ends so,
    /// several ways are in alphabetic order.
    fn is(&mut self, ip: &str, what: &str) {
        let start = Instant::now();
        loop {
            self.sync();
            let seen = see(&self.control, &self.reader, ip);
            if seen == what {
                return;
            }
            let counters = (self.mirror.counters(), self.control.counters());
            assert!(start.elapsed() < LIMIT, "{ip}: {seen}, not {what}; {counters:?}");
        }
    }

    /// A mirror that starts from nothing comes to the same routes.
    fn agrees(&mut self) {
        let lists = |control: &Control| {
            let filter = tables::show::RouteFilter { all: true, ..Default::default() };
            let (routes, _) = control.routes(&filter, None, 1_000_000);
            // Link-local networks of several links are equals, in no order of interest.
            let routes = routes.iter().filter(|route| route.metric != 256);
            routes.map(|route| format!("{route:?}")).collect::<BTreeSet<_>>()
        };
        let mut fresh = Bench::from_nothing();
        let start = Instant::now();
        loop {
            // The kernel may still be at it: addresses of IPv6 are checked for a second.
            self.sync();
            fresh.sync();
            let (have, want) = (lists(&self.control), lists(&fresh.control));
            let differ: Vec<_> = have.symmetric_difference(&want).take(9).collect();
            if differ.is_empty() && !want.is_empty() {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{differ:#?}");
        }
    }

    fn from_nothing() -> Bench {
        let domain = Domain::new();
        let mut control = control(&domain);
        for (i, name) in ["p0", "p1"].into_iter().enumerate() {
            let port = PortId(i as u16);
            control.add_iface(Iface { name: name.into(), port, ..Iface::default() }).unwrap();
        }
        let reader = domain.register("reader");
        Bench { control, mirror: Mirror::open(1 << 20).unwrap(), reader }
    }
}

fn control(domain: &Arc<Domain>) -> Control {
    Control::new(domain, Limits::default(), &VrfConfig::default()).unwrap()
}

fn see(control: &Control, reader: &Thread, ip: &str) -> String {
    let forwarding = control.forwarding();
    let vrfs = forwarding.vrfs.load(reader.guard());
    let hop = match ip.parse().unwrap() {
        IpAddr::V4(ip) => vrfs[0].v4.lookup(ip.into()),
        IpAddr::V6(ip) => vrfs[0].v6.lookup(ip.into()),
    };
    let hops = forwarding.hops.load(reader.guard());
    let step = hops.step(hop);
    let all: Vec<Hop> = match step.kind() {
        Kind::Multipath => (0..256).map(|i| hops.member(step.index(), i << 24)).collect(),
        _ => vec![hop],
    };
    let ifaces = forwarding.ifaces.load(reader.guard());
    let one = |hop: &Hop| {
        let step = hops.step(*hop);
        if step.kind() != Kind::Forward {
            return format!("{:?}", step.kind());
        }
        let adjacency = hops.adjacency(AdjacencyId(step.index())).get();
        let name = &ifaces.get(adjacency.iface).unwrap().name;
        format!("{name}:{:02x}", adjacency.header[15])
    };
    let mut seen: Vec<String> = all.iter().map(one).collect();
    seen.sort();
    seen.dedup();
    seen.join(" ")
}

const LIMIT: Duration = Duration::from_secs(10);
