//! Between whom a shield is, and what it protects.

use std::sync::Arc;

use lookup::sync::Domain;
use nodes::gatekeeper::settings::{DecisionsFrom, Ends, Settings};
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{
    Action, Control, Iface, LOCAL, Limits, Named, PortId, Protect, Side, VrfConfig, VrfId,
};

pub(super) const P0: [u8; 6] = [2, 0, 0, 0, 0, 0xa0];
pub(super) const P1: [u8; 6] = [2, 0, 0, 0, 0, 0xa1];
pub(super) const PEER: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];
pub(super) const GRANTOR: [u8; 6] = [4, 0, 0, 0, 0, 9];

pub(super) fn settings(decisions_from: DecisionsFrom) -> Settings {
    let v6 = "2001:db8:2::1".parse().ok();
    let from = Ends { v4: Some([10, 0, 2, 1].into()), v6, hop_limit: 255 };
    Settings { from, decisions_from, ..Settings::default() }
}

pub(super) fn protect(net: &str, options: u32, shadow: bool) -> Protect {
    let ip = if net.contains(':') { "2001:db8:2::9" } else { "10.0.2.9" };
    let ip = ip.parse().expect("an address");
    let grantors = vec![Named { ip, weight: 1, shadow }];
    Protect { net: net.parse().expect("a prefix"), action: Action::Protect, options, grantors }
}

/// A protection whose policy is in the same graph.
pub(super) fn decided_here(net: &str, options: u32) -> Protect {
    let (net, options) = (net.parse().expect("a prefix"), options | LOCAL);
    Protect { net, action: Action::Protect, options, grantors: Vec::new() }
}

pub(super) fn neighbour(ip: &str, state: NeighbourState) -> Event {
    let ip = ip.parse().expect("an address");
    Event::Neighbour(Neighbour { link: LinkId(2), ip, mac: Some(GRANTOR), state })
}

/// Both sides; protections are decided about in the same graph where it `is_here`.
pub(super) fn control(domain: &Arc<Domain>, is_here: bool) -> Control {
    let config = VrfConfig::default();
    let mut control = Control::new(domain, Limits::default(), &config).expect("small tables");
    let mut events = Vec::new();
    for (i, mac) in [P0, P1].into_iter().enumerate() {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        let side = if i == 0 { Side::Front } else { Side::Back };
        let iface = Iface { name: name.clone(), port, mac, mtu: 1_500, side, ..Iface::default() };
        control.add_iface(iface).expect("two interfaces");
        let index = LinkId(i as u32 + 1);
        events.push(Event::Link(Link {
            index,
            name,
            up: true,
            mtu: 1_500,
            mac,
            ..Link::default()
        }));
    }
    control.handle(&events);
    let address = |link, ip: &str, len| {
        let ip = ip.parse().expect("an address");
        Event::Address(Address { link: LinkId(link), ip, len })
    };
    let route = |net: &str, link, via: Option<&str>| {
        let via = via.map(|via| via.parse().expect("an address"));
        let path = Path { link: LinkId(link), via, weight: 1, mtu: 0 };
        let route = Route {
            table: VrfConfig::default().table,
            net: net.parse().expect("a prefix"),
            metric: 0,
            protocol: 4,
            source: Source::Kernel,
            target: Target::Path(path),
        };
        Event::Route(route, How::Create)
    };
    control.handle(&[
        address(1, "10.0.0.1", 24),
        address(1, "2001:db8:1::1", 64),
        address(2, "10.0.2.1", 24),
        address(2, "2001:db8:2::1", 64),
        route("10.0.0.0/24", 1, None),
        route("10.0.2.0/24", 2, None),
        route("2001:db8:2::/64", 2, None),
        route("10.0.0.0/8", 2, Some("10.0.2.9")),
        route("2001:db8:14::/48", 2, Some("2001:db8:2::9")),
        neighbour("10.0.2.9", NeighbourState::Reachable),
        neighbour("2001:db8:2::9", NeighbourState::Reachable),
    ]);
    let simple = |net: &str, action| Protect {
        net: net.parse().expect("a prefix"),
        action,
        options: 0,
        grantors: Vec::new(),
    };
    let protected = |net| if is_here { decided_here(net, 0) } else { protect(net, 0, false) };
    for wanted in [
        protected("10.20.0.0/16"),
        protected("2001:db8:14::/48"),
        simple("10.21.0.0/16", Action::Bypass),
        simple("10.22.0.0/16", Action::Discard),
    ] {
        control.protect(VrfId(0), &wanted).expect("they fit");
    }
    control.commit();
    control
}
