//! What the kernel or FRR may send: whatever it is, it is decoded or not, and the
//! tables take every event.

use feeds::fpm;
use feeds::netlink::decode::decode;
use lookup::sync::Domain;
use netlink::message::Messages;
use tables::event::{Event, Scope, Source, Why};
use tables::show::RouteFilter;
use tables::{Control, Family, FibConfig, Iface, Limits, VrfConfig};

/// Bytes as netlink messages, into tables small enough to be full.
pub fn messages(bytes: &[u8]) {
    let decoded = Messages::new(bytes).filter_map(|message| decode(&message, Source::Kernel));
    into_tables(decoded.collect(), Source::Kernel);
}

/// Bytes as FPM messages, likewise; cut anywhere, they say the same.
pub fn fpm(bytes: &[u8]) {
    let mut events = Vec::new();
    let mut read = |bytes: &[u8]| fpm::understand(bytes, |event| events.extend(event));
    let used = read(bytes).unwrap_or(0);
    assert!(used <= bytes.len());
    into_tables(std::mem::take(&mut events), Source::Fpm);
    let again = |bytes: &[u8]| fpm::understand(bytes, |_| ());
    let half = again(&bytes[..used / 2]).expect("the beginning of sound messages");
    assert_eq!(again(&bytes[half..used]), Some(used - half));
}

fn into_tables(events: Vec<Event>, source: Source) {
    let fib =
        || FibConfig { engine: Some("bsd-radix".into()), max_routes: 8, ..FibConfig::default() };
    let config = VrfConfig { v4: fib(), v6: fib(), ..VrfConfig::default() };
    let limits = Limits { hops: 16, groups: 2, members: 8, neighbours: 4, ..Limits::default() };
    let domain = Domain::new();
    let mut control = Control::new(&domain, limits, &config).expect("an engine for both families");
    let iface = Iface { name: "p0".into(), ..Iface::default() };
    control.add_iface(iface).expect("the first interface");
    for (i, event) in events.iter().enumerate() {
        control.apply(event);
        if i % 3 == 2 {
            control.commit();
        }
    }
    control.tick();
    // A listing of nothing takes every route out, and nothing of them stays.
    for family in [Family::V4, Family::V6] {
        let scope = Scope::Routes(family, source);
        control.handle(&[Event::SweepBegin(scope, Why::Audit), Event::SweepEnd(scope)]);
    }
    assert!(
        control.routes(&RouteFilter { all: true, ..Default::default() }, None, 100).0.is_empty()
    );
    for _ in 0..4 {
        control.tick();
    }
    assert_eq!(control.targets(), 0);
}

/// A message of each kind.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let link = message(
        16,
        &[0, 0, 1, 0, 3, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0],
        &[(3, b"p0\0"), (4, &1500_u32.to_ne_bytes()), (1, &[2, 0, 0, 0, 0, 1])],
    );
    let address = message(20, &[2, 24, 0, 0, 3, 0, 0, 0], &[(2, &[10, 0, 0, 1])]);
    let neighbour = message(
        28,
        &[2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 1],
        &[(1, &[10, 0, 0, 2]), (2, &[4, 0, 0, 0, 0, 2])],
    );
    let object = message(
        104,
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[(1, &1_u32.to_ne_bytes()), (5, &3_u32.to_ne_bytes()), (6, &[10, 0, 0, 2])],
    );
    let group = message(
        104,
        &[0; 8],
        &[(1, &2_u32.to_ne_bytes()), (2, &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0])],
    );
    let route = |kind, third, attributes: &[(u16, &[u8])]| {
        let (destination, link) = ([203, 0, third, 0], 3_u32.to_ne_bytes());
        let all = [&[(1, &destination[..]), (4, &link[..])], attributes].concat();
        message(kind, &[2, 24, 0, 0, 254, 12, 0, 1, 0, 0, 0, 0], &all)
    };
    let ways = [16, 0, 0, 0, 3, 0, 0, 0, 8, 0, 5, 0, 10, 0, 0, 2];
    let both = [ways, [16, 0, 0, 2, 3, 0, 0, 0, 8, 0, 5, 0, 10, 0, 0, 3]].concat();
    let v6 = [&[10, 0][..], &[0x20, 1, 0xd, 0xb8], &[0; 11], &[1]].concat();
    let routes = [
        route(24, 1, &[(5, &[10, 0, 0, 2]), (6, &9_u32.to_ne_bytes())]),
        route(24, 2, &[(9, &both)]),
        route(24, 3, &[(30, &2_u32.to_ne_bytes())]),
        route(24, 4, &[(18, &v6)]),
        route(25, 1, &[(5, &[10, 0, 0, 2]), (6, &9_u32.to_ne_bytes())]),
        message(24, &[10, 0, 0, 0, 254, 12, 0, 6, 0, 0, 0, 0], &[]),
    ];
    let before = [link.clone(), address.clone(), neighbour.clone(), object, group].concat();
    let gone = |mut bytes: Vec<u8>| {
        bytes[4] += 1;
        bytes
    };
    let end = [gone(neighbour), gone(address), gone(link)].concat();
    let seed = |name: &str, bytes| ("feeds_netlink", name.to_owned(), bytes);
    vec![
        seed("links", before.clone()),
        seed("routes", [before.clone(), routes.concat()].concat()),
        seed("gone", [before, routes.concat(), end].concat()),
        ("feeds_fpm", "routes".to_owned(), fpm_message(1, &routes.concat())),
        ("feeds_fpm", "each".to_owned(), routes.iter().flat_map(|r| fpm_message(1, r)).collect()),
        ("feeds_fpm", "other".to_owned(), [fpm_message(2, &[1; 9]), vec![2, 1, 0, 4]].concat()),
    ]
}

fn fpm_message(kind: u8, message: &[u8]) -> Vec<u8> {
    let [high, low] = (4 + message.len() as u16).to_be_bytes();
    [&[1, kind, high, low], message].concat()
}

fn message(kind: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(fixed);
    for (kind, value) in attributes {
        bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}
