//! Two interfaces and what the kernel says about them.

use std::sync::Arc;

use lookup::sync::Domain;
use tables::event::{
    Address, Event, How, Link, LinkId, Neighbour, NeighbourState, Path, Route, Source, Target,
};
use tables::{Control, Iface, Limits, PortId, Side, VrfConfig};

/// The addresses of the two interfaces. Interface `i` is on port `i`; its link is `i + 1`.
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0xa0], [2, 0, 0, 0, 0, 0xa1]];

/// Tables with two interfaces that are up, on these sides of a shield.
pub fn control(domain: &Arc<Domain>, sides: [Side; 2]) -> Control {
    let config = VrfConfig::default();
    let mut control = Control::new(domain, Limits::default(), &config).expect("small tables");
    for (i, (mac, side)) in MACS.into_iter().zip(sides).enumerate() {
        let (name, port) = (format!("p{i}"), PortId(i as u16));
        let iface = Iface { name, port, mac, mtu: 1_500, side, ..Iface::default() };
        control.add_iface(iface).expect("two interfaces");
    }
    control.handle(&[link(1, 1_500), link(2, 1_500)]);
    control
}

pub fn link(index: u32, mtu: u32) -> Event {
    let port = index as usize - 1;
    let (index, name, mac) = (LinkId(index), format!("p{port}"), MACS[port]);
    Event::Link(Link { index, name, up: true, mtu, mac, ..Link::default() })
}

pub fn address(link: u32, ip: &str, len: u8) -> Event {
    let ip = ip.parse().expect("an address");
    Event::Address(Address { link: LinkId(link), ip, len })
}

pub fn neighbour(link: u32, ip: &str, mac: [u8; 6], state: NeighbourState) -> Event {
    let ip = ip.parse().expect("an address");
    Event::Neighbour(Neighbour { link: LinkId(link), ip, mac: Some(mac), state })
}

pub fn route(net: &str, link: u32, via: Option<&str>) -> Event {
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
}
