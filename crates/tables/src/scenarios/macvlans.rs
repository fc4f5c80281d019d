//! Macvlans on a tap: VRRP's addresses, which hosts have for their gateway.

use super::{GLEAN, bench};
use crate::event::{Address, Event, Link, LinkId};
use crate::testing::{Bench, Seen, add, address, by, del, link, link_of, neighbour, to};
use crate::{Kind, VrfId};

/// The macvlan's own number, and that of p0, which it is on.
const VRRP: u32 = 7;
const P0: u32 = 1;

fn vrrp(up: bool) -> Event {
    let mac = [0, 0, 0x5e, 0, 1, 7];
    let link = link_of(VRRP, "vrrp.7", up);
    Event::Link(Link { mac, macvlan_of: Some(LinkId(P0)), ..link })
}

fn macs(b: &Bench) -> Vec<[u8; 6]> {
    b.control.forwarding().ifaces.load(b.reader.guard()).list[1].macs.clone()
}

#[test]
fn a_macvlan_is_an_address_of_its_interface() {
    let mut b = bench();
    b.handle(&[vrrp(true), address(VRRP, "10.0.0.254/32")]);
    assert_eq!(macs(&b), [[0, 0, 0x5e, 0, 1, 7]]);
    assert_eq!(b.see("10.0.0.254"), Seen::Other(Kind::ForUs));
    let shown = &b.control.interfaces()[0];
    assert!(shown.addresses.contains(&("10.0.0.254".parse().unwrap(), 32)), "{shown:?}");
    // Who asked for its address is a host of the interface, whose route it is.
    b.handle(&[neighbour(VRRP, "10.0.0.9", 9)]);
    assert_eq!(b.see("10.0.0.9"), by(1, 9));
    b.handle(&[neighbour(P0, "10.0.0.9", 8)]);
    assert_eq!(b.see("10.0.0.9"), by(1, 8));
    b.handle(&[Event::NeighbourGone(LinkId(P0), "10.0.0.9".parse().unwrap())]);
    assert_eq!(b.see("10.0.0.9"), by(1, 9), "the macvlan knows it still");
    b.handle(&[neighbour(VRRP, "10.0.0.9", 0)]);
    assert_eq!(b.see("10.0.0.9"), GLEAN);
    // Down, and gone.
    b.handle(&[vrrp(false)]);
    assert_eq!(macs(&b), [[0; 6]; 0]);
    b.handle(&[vrrp(true), Event::LinkGone(LinkId(VRRP))]);
    assert_eq!((macs(&b), b.see("10.0.0.254")), (vec![], GLEAN));
}

/// A virtual router's backup has the macvlan, and maybe its tap's address on it, but takes
/// nothing that is the master's.
#[test]
fn a_macvlan_without_an_address_of_its_own_takes_nothing() {
    let mut b = bench();
    b.handle(&[vrrp(true)]);
    assert_eq!(macs(&b), [[0; 6]; 0]);
    b.handle(&[address(P0, "fe80::1/64"), address(VRRP, "fe80::1/64")]);
    assert_eq!(macs(&b), [[0; 6]; 0]);
    b.handle(&[address(VRRP, "10.0.0.254/32")]);
    assert_eq!(macs(&b), [[0, 0, 0x5e, 0, 1, 7]]);
    let gone = ("10.0.0.254".parse().unwrap(), 32);
    b.handle(&[Event::AddressGone(Address { link: LinkId(VRRP), ip: gone.0, len: gone.1 })]);
    assert_eq!(macs(&b), [[0; 6]; 0]);
}

#[test]
fn routes_over_a_macvlan_leave_by_its_interface() {
    let mut b = bench();
    let (connected, default) = (to(VRRP, ""), to(VRRP, "10.8.0.2"));
    b.handle(&[
        vrrp(true),
        address(VRRP, "10.8.0.1/24"),
        add("10.8.0.0/24", 0, connected),
        add("0.0.0.0/0", 0, default.clone()),
        neighbour(VRRP, "10.8.0.2", 5),
    ]);
    assert_eq!((b.see("10.8.0.2"), b.see("8.8.8.8")), (by(1, 5), by(1, 5)));
    assert_eq!(b.see("10.8.0.3"), GLEAN);
    let source = || {
        let hops = b.control.forwarding().hops.load(b.reader.guard());
        let step = hops.step(b.hop(0, "8.8.8.8"));
        let header = hops.adjacency(step.forward().unwrap()).get().header;
        header[header.len() - 8..header.len() - 2].to_vec()
    };
    assert_eq!(source(), [0, 0, 0x5e, 0, 1, 7], "as the kernel would send it");
    // The way back, after the tap was without a link.
    b.handle(&[link(P0, "p0", false)]);
    assert_eq!(b.see("8.8.8.8"), Seen::Other(Kind::NoRoute));
    b.handle(&[link(P0, "p0", true)]);
    assert_eq!(b.see("8.8.8.8"), by(1, 5));
    b.handle(&[del("0.0.0.0/0", 0, default)]);
    assert_eq!(b.see("8.8.8.8"), Seen::Other(Kind::NoRoute));
}

#[test]
fn a_macvlan_is_in_the_vrf_of_its_interface() {
    let mut b = bench();
    let config = crate::VrfConfig { name: "blue".into(), table: 10, ..crate::VrfConfig::default() };
    let config = crate::VrfConfig { v4: super::plain(), v6: super::plain(), ..config };
    let blue = b.control.add_vrf(&config).unwrap();
    b.handle(&[vrrp(true), address(VRRP, "10.0.0.254/32")]);
    let device = Link { vrf_table: Some(10), ..link_of(5, "blue", true) };
    let below = Link { master: Some(LinkId(5)), ..link_of(P0, "p0", true) };
    b.handle(&[Event::Link(device), Event::Link(below)]);
    assert_eq!(b.see_all(blue.0, "10.0.0.254"), [Seen::Other(Kind::ForUs)]);
    b.handle(&[link(P0, "p0", true)]);
    assert_eq!(b.see_all(VrfId(0).0, "10.0.0.254"), [Seen::Other(Kind::ForUs)]);
}

#[test]
fn a_macvlan_on_another_link_is_the_kernel_s() {
    let mut b = bench();
    let elsewhere = Link { macvlan_of: Some(LinkId(99)), ..link_of(VRRP, "vrrp.7", true) };
    b.handle(&[Event::Link(elsewhere), add("10.8.0.0/24", 0, to(VRRP, ""))]);
    assert_eq!(b.see("10.8.0.9"), Seen::Other(Kind::ViaKernel));
    assert_eq!(macs(&b), [[0; 6]; 0]);
}
