//! Stations that come, move, age and go.

mod loops;

use super::*;
use crate::bridge::{Egress, FloodRates, Ingress};
use crate::macs::Learn;
use crate::{Forwarding, Iface, Ifaces, PortId};
use lookup::sync::{Domain, Thread};
use std::time::Duration;

struct Lan {
    switch: Switch,
    forwarding: Arc<Forwarding>,
    thread: Thread,
    start: Instant,
}

impl Lan {
    fn new(change: impl FnOnce(&mut BridgeConfig)) -> Lan {
        let member = |port| Member {
            port: PortId(port),
            mode: Mode::Plain,
            isolated: false,
            max_macs: None,
            flood: FloodRates::default(),
            mtu: 1500,
        };
        let mut config = BridgeConfig {
            name: "lan".into(),
            members: vec![member(0), member(1)],
            routed: vec![0],
            max_macs: 100,
            ageing: 80,
            ..BridgeConfig::default()
        };
        change(&mut config);
        let domain = Domain::new();
        let forwarding = Forwarding::new(&domain);
        let own = [OWN];
        let switch = Switch::new(&forwarding, &domain, vec![config], (2, &own));
        let mut switch = switch.unwrap();
        switch.set_link(0, true);
        switch.set_link(1, true);
        let start = Instant::now();
        Lan { switch, forwarding, thread: domain.register("test"), start }
    }

    fn see(&mut self, n: u64, port: u16) {
        self.switch.learn(Learn { key: Key::new(n, 1), port }, self.start);
    }

    /// The port of station `n`, as readers see it.
    fn port(&mut self, n: u64) -> Option<u16> {
        let mut found = [0];
        self.forwarding.macs.lookup_batch(self.thread.guard(), &[Key::new(n, 1)], &mut found);
        (found[0] != crate::macs::ABSENT).then(|| entry_port(found[0]))
    }

    /// `seconds` go by, with a sweep every tenth.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..10 * seconds {
            self.start += Duration::from_millis(100);
            self.switch.sweep(self.start);
        }
    }
}

const OWN: [u8; 6] = [2, 0xff, 0, 0, 0, 0];
const OWN_NUMBER: u64 = 0x02ff_0000_0000;

#[test]
fn many_at_once_are_learnt_as_one_by_one() {
    let mut lan = Lan::new(|config| config.max_macs = 1_000_000);
    lan.switch.reserve(900_000).unwrap();
    assert_eq!(lan.switch.capacity().slots, 1 << 20);
    for n in [0, 1, 15, 16, 17, 100] {
        // Every third comes again, by the other port.
        let all = (0..n).map(|i| (i, 0)).chain((0..n).step_by(3).map(|i| (i, 1)));
        let seen = all.map(|(i, port)| Learn { key: Key::new(1000 * n + i, 1), port });
        lan.switch.learn_all(&seen.collect::<Vec<_>>(), lan.start);
        for i in 0..n {
            assert_eq!(lan.port(1000 * n + i), Some(u16::from(i % 3 == 0)), "{n}, {i}");
        }
    }
    assert_eq!(lan.switch.counters(0).learnt, 149);
}

/// A virtual router's address is this machine's as long as it is the master, and another's
/// before and after.
#[test]
fn a_further_address_of_the_routed_side_is_a_station_of_it_while_it_is_there() {
    let mut lan = Lan::new(|_| ());
    let vrrp = 0x0000_5e00_0107;
    let ifaces = |macs: &[[u8; 6]], up| {
        let lan = Iface { name: "lan".into(), port: PortId(2), up, ..Iface::default() };
        Ifaces::new([Iface { macs: macs.to_vec(), ..lan }])
    };
    let master = ifaces(&[[0, 0, 0x5e, 0, 1, 7]], true);
    lan.see(vrrp, 0);
    for _ in 0..2 {
        lan.switch.answer_to(&master);
        lan.see(vrrp, 1);
        assert_eq!(lan.port(vrrp), Some(2), "whatever others claim");
    }
    let used = lan.switch.stations(&Which::default(), usize::MAX).1;
    assert_eq!(used, 2, "the routed side's two");
    assert!(!lan.switch.delete([0, 0, 0x5e, 0, 1, 7], DomainId(1)), "as its own");
    lan.switch.answer_to(&ifaces(&[[0, 0, 0x5e, 0, 1, 7]], false));
    assert_eq!(lan.port(vrrp), None);
    lan.see(vrrp, 0);
    lan.switch.answer_to(&ifaces(&[], true));
    assert_eq!(lan.port(vrrp), Some(0));
    // A macvlan may have the routed side's own address: that stays when the macvlan goes.
    lan.switch.answer_to(&ifaces(&[OWN], true));
    lan.switch.answer_to(&ifaces(&[], true));
    assert_eq!(lan.port(OWN_NUMBER), Some(2));
}

#[test]
fn stations_are_learnt_and_age() {
    let mut lan = Lan::new(|_| ());
    lan.see(1, 0);
    lan.see(2, 1);
    assert_eq!((lan.port(1), lan.port(2), lan.port(3)), (Some(0), Some(1), None));
    lan.wait(60);
    lan.see(2, 1);
    lan.wait(40);
    assert_eq!((lan.port(1), lan.port(2)), (None, Some(1)), "only 2 has spoken since");
    lan.wait(60);
    assert_eq!(lan.port(2), None);
    let counters = lan.switch.counters(0);
    assert_eq!((counters.learnt, counters.aged), (2, 2));
    assert_eq!(lan.switch.shares().next(), Some(("lan", Share { limit: 100, ..Share::default() })));
    assert_eq!(lan.port(OWN_NUMBER), Some(2), "the routed side does not age");
}

#[test]
fn ageing_takes_no_more_than_nine_eighths_of_its_time_over_many_rounds() {
    let mut lan = Lan::new(|_| ());
    for round in 0..40 {
        lan.see(round, 0);
        lan.wait(79);
        assert_eq!(lan.port(round), Some(0), "{round}: before its time");
        lan.wait(21);
        assert_eq!(lan.port(round), None, "{round}: after");
    }
}

/// Whoever sleeps until something is due misses nothing: stations go as soon as with a sweep
/// every tenth of a second.
#[test]
fn what_is_due_is_done_by_who_sleeps_until_then() {
    let mut lan = Lan::new(|_| {});
    let (mut looks, begun) = (0, lan.start);
    let mut pass = |lan: &mut Lan, until: Instant| {
        while lan.start < until {
            let due = lan.switch.due(lan.start);
            assert!(due > lan.start && due <= lan.start + Duration::from_secs(10), "{due:?}");
            lan.start = due;
            lan.switch.sweep(due);
            looks += 1;
        }
        looks
    };
    lan.see(1, 0);
    pass(&mut lan, begun + Duration::from_secs(79));
    assert_eq!(lan.port(1), Some(0));
    let looks = pass(&mut lan, begun + Duration::from_secs(91));
    assert_eq!(lan.port(1), None);
    assert!(looks < 91 * 10, "{looks} looks");
    // A port that goes down is flushed at once.
    lan.see(2, 1);
    lan.switch.set_link(1, false);
    let down = lan.start;
    pass(&mut lan, down + Duration::from_millis(500));
    assert_eq!((lan.port(2), lan.switch.flush(&Which::default())), (None, 0));
}

#[test]
fn limits_refuse_and_lose_nothing() {
    let mut lan = Lan::new(|config| config.members[1].max_macs = Some(3));
    (0..120).for_each(|n| lan.see(n, 0));
    assert!((0..100).all(|n| lan.port(n) == Some(0)));
    assert!((100..120).all(|n| lan.port(n).is_none()));
    assert_eq!(lan.switch.counters(0).refused, 20);
    lan.switch.flush(&Which::default());
    (0..10).for_each(|n| lan.see(n, 1));
    assert_eq!((0..10).filter(|&n| lan.port(n) == Some(1)).count(), 3);
    assert_eq!(lan.switch.counters(0).refused, 27);
}

#[test]
fn a_full_port_does_not_take_stations_of_another() {
    let mut lan = Lan::new(|config| config.members[1].max_macs = Some(3));
    (0..10).for_each(|n| lan.see(n, 0));
    (0..10).for_each(|n| lan.see(n, 1));
    assert_eq!((0..10).filter(|&n| lan.port(n) == Some(1)).count(), 3);
    assert_eq!((0..10).filter(|&n| lan.port(n) == Some(0)).count(), 7);
    let (port, share) = lan.switch.port_shares().next().unwrap();
    assert_eq!((port, share.used, share.refused), (PortId(1), 3, 7));
}

#[test]
fn each_bridge_has_its_own_ageing_time() {
    let mut lan = Lan::new(|_| ());
    let bridge = |name: &str, port, ageing| BridgeConfig {
        name: name.into(),
        members: vec![Member { port: PortId(port), ..lan.switch.bridges[0].members[0].clone() }],
        routed: Vec::new(),
        ageing,
        ..lan.switch.bridges[0].clone()
    };
    let bridges = vec![bridge("quick", 0, 8), bridge("slow", 1, 800)];
    let domain = Domain::new();
    lan.forwarding = Forwarding::new(&domain);
    lan.switch = Switch::new(&lan.forwarding, &domain, bridges, (2, &[])).unwrap();
    for port in [0, 1] {
        lan.switch.learn(Learn { key: Key::new(7, port + 1), port }, lan.start);
    }
    let count = |lan: &Lan| lan.switch.stations(&Which::default(), 0).1;
    lan.wait(7);
    assert_eq!(count(&lan), 2);
    lan.wait(4);
    assert_eq!((count(&lan), lan.switch.counters(0).aged), (1, 1));
    lan.wait(780);
    assert_eq!(count(&lan), 1);
    lan.wait(130);
    assert_eq!((count(&lan), lan.switch.counters(1).aged), (0, 1));
}

#[test]
fn a_full_bridge_may_replace_its_old_stations() {
    let mut lan = Lan::new(|config| config.when_full = WhenFull::Replace);
    (0..5000).for_each(|n| lan.see(n, 0));
    let counters = lan.switch.counters(0);
    let here = (0..5000).filter(|&n| lan.port(n).is_some()).count() as u64;
    assert_eq!((here, counters.replaced + counters.refused), (100, 4900));
    assert!(counters.refused < 50, "{counters:?}: an old one is not always met");
    assert_eq!(lan.switch.shares().next().unwrap().1.used, 100);
    assert_eq!(lan.port(OWN_NUMBER), Some(2), "static entries are not replaced");
    lan.wait(20);
    let young: Vec<u64> = (6000..6050).collect();
    young.iter().for_each(|&n| lan.see(n, 0));
    let kept = young.iter().filter(|&&n| lan.port(n).is_some()).count();
    assert!(kept >= 48, "{kept}: the older ones go first");
}

#[test]
fn a_full_bridge_takes_nothing_from_another() {
    let mut lan = Lan::new(|_| ());
    let bridge = |name: &str, port, max_macs, when_full| BridgeConfig {
        name: name.into(),
        members: vec![Member { port: PortId(port), ..lan.switch.bridges[0].members[0].clone() }],
        routed: Vec::new(),
        max_macs,
        when_full,
        ..lan.switch.bridges[0].clone()
    };
    let bridges =
        vec![bridge("a", 0, 3000, WhenFull::Refuse), bridge("b", 1, 40, WhenFull::Replace)];
    let domain = Domain::new();
    lan.forwarding = Forwarding::new(&domain);
    lan.switch = Switch::new(&lan.forwarding, &domain, bridges, (2, &[])).unwrap();
    let now = lan.start;
    let see = |switch: &mut Switch, n, port: u16| {
        switch.learn(Learn { key: Key::new(n, port + 1), port }, now);
    };
    (0..2900).for_each(|n| see(&mut lan.switch, n, 0));
    (0..5000).for_each(|n| see(&mut lan.switch, n, 1));
    (2900..3100).for_each(|n| see(&mut lan.switch, n, 0));
    let shares: Vec<_> =
        lan.switch.shares().map(|(_, Share { used, refused, .. })| (used, refused)).collect();
    assert_eq!((shares[0], shares[1].0), ((3000, 100), 40));
    assert!(shares[1].1 < 200, "{shares:?}: an old one is not always met");
    let counted = |domain| {
        let which = Which { domains: Some([DomainId(domain)].into()), ..Which::default() };
        let (some, count) = lan.switch.stations(&which, 5);
        assert!(some.len() == 5 && some.iter().all(|station| station.key.domain() == domain));
        count
    };
    assert_eq!((counted(1), counted(2)), (3000, 40));
}

#[test]
fn a_flapping_station_is_held_and_named() {
    let mut lan = Lan::new(|_| ());
    for i in 0..20 {
        lan.see(7, i % 2);
    }
    let counters = lan.switch.counters(0);
    assert_eq!((counters.moved, counters.held), (5, 8));
    let notice = Notice::Flapping { key: Key::new(7, 1), port: 0, home: Some(0) };
    assert_eq!(lan.switch.take_notices(), [notice]);
    assert_eq!(lan.switch.take_notices(), []);
    assert_eq!(lan.switch.held(lan.start), [Key::new(7, 1)]);
}

/// Frames in its name, three of them in turn with its own, take a station nowhere.
#[test]
fn a_flapping_station_goes_back_to_where_it_was() {
    let mut lan = Lan::new(|_| ());
    for port in [0, 1, 0, 1, 0, 1, 0] {
        lan.see(7, port);
    }
    assert_eq!((lan.port(7), lan.switch.held(lan.start)), (Some(0), vec![Key::new(7, 1)]));
    let home = Notice::Flapping { key: Key::new(7, 1), port: 0, home: Some(0) };
    assert_eq!(lan.switch.take_notices(), [home]);
    // Nor is it learnt elsewhere while it is held, once its entry has gone.
    lan.switch.flush(&Which::default());
    lan.see(7, 1);
    assert_eq!(lan.port(7), None);
    lan.see(7, 0);
    assert_eq!(lan.port(7), Some(0));
}

/// Whoever is patient moves a station, waits until the watch is over, and has it flap then.
#[test]
fn a_flapping_station_of_no_fixed_place_is_flooded() {
    let mut lan = Lan::new(|_| ());
    lan.see(7, 0);
    lan.see(7, 1);
    lan.start += Duration::from_secs(11);
    for port in [0, 1, 0, 1, 0, 1] {
        lan.see(7, port);
    }
    assert_eq!((lan.port(7), lan.switch.counters(0).held), (None, 1));
    lan.see(7, 1);
    lan.see(7, 0);
    assert_eq!((lan.port(7), lan.switch.by_port[0].used, lan.switch.by_port[1].used), (None, 0, 0));
    lan.start += Duration::from_secs(60);
    lan.see(7, 0);
    assert_eq!(lan.port(7), Some(0));
}

/// Where others have taken its place meanwhile, it is flooded.
#[test]
fn a_flapping_station_does_not_go_beyond_a_limit() {
    let mut lan = Lan::new(|config| config.members[0].max_macs = Some(1));
    for port in [0, 1, 0, 1] {
        lan.see(7, port);
    }
    lan.see(8, 0);
    for port in [0, 0, 0] {
        lan.see(7, port);
    }
    assert_eq!(lan.switch.counters(0).held, 1);
    let used = |port: usize| lan.switch.by_port[port].used;
    assert_eq!((used(0), used(1), lan.switch.by_bridge[0].used), (1, 0, 1));
    assert_eq!((lan.port(7), lan.port(8)), (None, Some(0)));
}

#[test]
fn static_stations_stay_where_they_are() {
    let mut lan = Lan::new(|_| ());
    let (mac, domain) = ([0, 0, 0, 0, 0, 9], DomainId(1));
    lan.see(9, 0);
    lan.switch.insert_static(mac, domain, 1).unwrap();
    lan.see(9, 0);
    lan.wait(200);
    assert_eq!(lan.port(9), Some(1));
    assert_eq!(lan.switch.counters(0).misplaced, 1);
    assert_eq!(lan.switch.shares().next().unwrap().1.used, 0);
    assert_eq!(lan.switch.flush(&Which::default()), 0);
    assert!(lan.switch.delete(mac, domain) && !lan.switch.delete(mac, domain));
    assert_eq!(lan.port(9), None);
    assert!(!lan.switch.delete(OWN, domain), "the routed side's own");
    assert_eq!(lan.switch.insert_static(OWN, domain, 1), Err(RefusedStatic::Own));
}

#[test]
fn flushing_takes_what_is_asked_for() {
    let mut lan = Lan::new(|_| ());
    (0..10).for_each(|n| lan.see(n, (n % 2) as u16));
    assert_eq!(lan.switch.flush(&Which { port: Some(1), ..Which::default() }), 5);
    let (stations, count) = lan.switch.stations(&Which { port: Some(0), ..Which::default() }, 3);
    assert_eq!((stations.len(), count), (3, 5));
    assert!(stations.iter().all(|station| station.port == 0 && station.age == Some(0)));
    let one = Which { mac: Some([0, 0, 0, 0, 0, 4]), ..Which::default() };
    assert_eq!(lan.switch.flush(&one), 1);
    let (_, all) = lan.switch.stations(&Which::default(), 0);
    assert_eq!(all, 4 + 1, "and the routed side");
}

#[test]
fn a_table_grows_while_it_learns() {
    let mut lan = Lan::new(|config| config.max_macs = 1_000_000);
    (0..600_000).for_each(|n| lan.see(n, 0));
    assert!((0..600_000).step_by(997).all(|n| lan.port(n) == Some(0)));
    assert!(lan.switch.capacity().growths > 0);
}

#[test]
fn domains_have_names() {
    let lan = Lan::new(|config| {
        config.members[0].mode = Mode::Access(10);
        config.members[1].mode = Mode::Trunk { vlans: vec![10..=12], native: Some(20) };
        config.routed = Vec::new();
    });
    let ids = [10, 11, 12, 20].map(|vlan| lan.switch.domain("lan", vlan).map(|id| id.0));
    assert_eq!(ids, [Some(1), Some(2), Some(3), None], "a native VLAN is in the list");
    assert_eq!(lan.switch.name(DomainId(2)), Some(("lan", 11)));
    assert_eq!((lan.switch.domain("lan", 0), lan.switch.domain("x", 10)), (None, None));
}
