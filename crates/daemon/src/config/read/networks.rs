//! Networks of interfaces, and gateways on them.

use std::net::IpAddr;

use super::vrfs::each_table;
use super::{Config, Net, Route, Table, Value, is_link_local6};
use crate::config::reader::Place;

/// A network with its place in the file.
struct Placed {
    vrf: String,
    net: Net,
    interface: String,
    order: usize,
    place: Place,
}

/// The networks of a VRF's interfaces must not overlap: packets to an address in two of them would
/// reach the hosts of only one. A single address is not a network, and a link-local network is on
/// every link.
pub(super) fn apart(table: Table<'_>, carriers: &[&str]) {
    let mut all: Vec<Placed> = Vec::new();
    each_interface(table, carriers, &mut |inner, vrf, name| {
        let list = inner.get("addresses").filter(Value::is_list).and_then(|value| value.list());
        for value in list.unwrap_or_default() {
            let net = value.text().and_then(|text| text.parse::<Net>().ok()); // otherwise reported
            let net = net.filter(|net| !net.is_one_address() && !is_link_local6(net.address));
            let Some(net) = net else { continue };
            let (vrf, interface) = (vrf.to_string(), name.to_string());
            all.push(Placed { vrf, net, interface, order: all.len(), place: value.place() });
        }
    });
    let key = |placed: &Placed| {
        let network = placed.net.network();
        (placed.vrf.clone(), network.address, network.length, placed.order)
    };
    all.sort_by_cached_key(key);
    let mut around: Vec<&Placed> = Vec::new(); // networks around the present one, the largest first
    for placed in &all {
        let (vrf, network) = (&placed.vrf, placed.net.network());
        while around.last().is_some_and(|o| o.vrf != *vrf || !o.net.contains(network.address)) {
            around.pop();
        }
        let other = around.iter().find(|outer| outer.interface != placed.interface);
        if let Some(outer) = other.filter(|outer| outer.net.address != placed.net.address) {
            let (first, second) =
                if outer.order < placed.order { (*outer, placed) } else { (placed, *outer) };
            let text = format!(
                "`{}` overlaps with `{}` of `{}` in the same vrf, and packets to both would leave \
                 by one of them: choose networks that do not overlap, or put them into two vrfs",
                second.net, first.net, first.interface
            );
            table.mistake_at(&second.place, text);
        }
        around.push(placed);
    }
}

/// Calls `each` with the table of every interface, the name of its vrf, and its own.
pub(super) fn each_interface(
    table: Table<'_>,
    carriers: &[&str],
    each: &mut dyn FnMut(Table<'_>, &str, &str),
) {
    let vrf = |table: Table<'_>, outer: &str| {
        table.get("vrf").and_then(|value| value.text().map(str::to_string)).unwrap_or(outer.into())
    };
    for kind in carriers {
        each_table(table, kind, &mut |name, carrier| {
            let outer = vrf(carrier, "main");
            each(carrier, &outer, name);
            each_table(carrier, "vlan", &mut |vlan, inner| {
                each(inner, &vrf(inner, &outer), &format!("{name}.{vlan}"));
            });
        });
    }
}

impl Config {
    /// Why the kernel refuses a route with this gateway: no interface that the route may use is on
    /// the gateway's network, as far as the file gives addresses, and no route of the file leads
    /// there over a link.
    pub(crate) fn out_of_reach(&self, route: &Route, all: &[&Route]) -> Option<String> {
        route.via.iter().find_map(|via| {
            let to = via.to.filter(|to| !is_link_local6(*to))?;
            let named = |name: &str| via.interface.as_deref().is_none_or(|wanted| wanted == name);
            let inside = self.interfaces().map(|(.., of)| of);
            let mut inside = inside.filter(|of| of.vrf == route.vrf && named(&of.name));
            let reaches = inside.any(|of| {
                // Without any address of the family, the addresses come from elsewhere.
                let mut nets = of.addresses.iter().filter(|net| is_same_family(net.address, to));
                nets.clone().next().is_none() || nets.any(|net| net.contains(to))
            });
            let by_link = |other: &&&Route| {
                let over = |via: &crate::config::Via| {
                    via.to.is_none() && via.interface.as_deref().is_some_and(named)
                };
                other.vrf == route.vrf && other.prefix.contains(to) && other.via.iter().any(over)
            };
            if reaches || all.iter().any(|other| by_link(&other)) {
                return None;
            }
            let of = match &via.interface {
                Some(name) => format!("`{name}`"),
                None => format!("an interface of vrf {}", route.vrf),
            };
            Some(format!(
                "the gateway {to} is on no network of {of}: choose one that is, or add a \
                 [[route]] to it with via = [{{ interface = \"NAME\" }}]"
            ))
        })
    }
}

fn is_same_family(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4()
}
