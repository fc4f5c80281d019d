//! FRR's connection, static routes and permanent neighbours.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use api::apps::router::RouteKind;
use feeds::fpm::{Rules, User};

use super::keys;
use crate::config::net::is_of_host;
use crate::config::read::{check_interface, elements, mac, section, vrf_name};
use crate::config::reader::{Table, Value};
use crate::config::{Config, Declared, Neighbour, Net, Route, Via, Vrf};

/// The router's settings from the file.
pub(super) const DECLARED: Declared = Declared { sections: keys::SECTIONS, carriers: &[], read };

fn read(table: Table<'_>, config: &mut Config) {
    let names: Vec<_> = config.interfaces().map(|(.., of)| of.name.as_str()).collect();
    let mut taken = HashSet::new();
    let routes = elements(table, keys::ROUTE, |table| {
        let route = route(table, &config.vrfs, &names)?;
        let objection = config.objection(&route);
        if let Some(objection) = &objection {
            table.mistake(objection);
        }
        if !taken.insert((route.vrf.clone(), route.prefix, route.metric)) {
            table.mistake("another route has this prefix and metric");
        }
        Some((route, table.place(), objection.is_none()))
    });
    let links: Vec<_> = routes.iter().map(|(route, ..)| route).collect();
    let links: Vec<_> = links.into_iter().filter(|route| is_over_links(route)).collect();
    for (route, place, _) in routes.iter().filter(|(.., taken)| *taken) {
        if let Some(objection) = config.out_of_reach(route, &links) {
            table.mistake_at(place, objection);
        }
    }
    let routes = routes.into_iter().map(|(route, ..)| route).collect();
    let mut taken = HashSet::new();
    let neighbours = elements(table, keys::NEIGHBOUR, |entry| {
        let neighbour = neighbour(entry, &names)?;
        if !taken.insert((neighbour.interface.clone(), neighbour.address)) {
            entry.mistake("another neighbour has this address on this interface");
        }
        Some(neighbour)
    });
    (config.routes, config.neighbours) = (routes, neighbours);
    config.settings.put(fpm(table));
}

fn is_over_links(route: &Route) -> bool {
    !route.via.is_empty() && route.via.iter().all(|via| via.to.is_none())
}

fn fpm(table: Table<'_>) -> Rules {
    section(table, keys::FPM, |table| {
        let mut rules = Rules::default();
        let Some(table) = table else { return rules };
        if let Some(users) = keys::USERS.get(table) {
            let list = users.list().unwrap_or_default();
            if list.is_empty() && users.is_list() {
                users.expected::<()>("at least one user");
            }
            rules.users = list.iter().filter_map(user).collect();
        }
        rules.hold = Duration::from_secs(keys::HOLD.as_number(table));
        rules
    })
}

fn user(value: &Value<'_>) -> Option<User> {
    let number = value.text().is_none();
    match value.option().filter(|text| !text.is_empty() && !text.contains([':', '\n'])) {
        Some(text) => match User::parse(&text) {
            User::Name(_) if number => value.expected("the name or the number of a user"),
            user => Some(user),
        },
        None => value.expected("the name or the number of a user"),
    }
}

fn route(table: Table<'_>, vrfs: &[Vrf], names: &[&str]) -> Option<Route> {
    let kinds =
        [RouteKind::Unicast, RouteKind::Blackhole, RouteKind::Unreachable, RouteKind::Prohibit];
    let kind = keys::KIND.given_word(table, kinds);
    let value = keys::PREFIX.required(table)?;
    let prefix: Net = value.parse("a prefix, such as \"203.0.113.0/24\"")?;
    if !prefix.is_prefix() {
        return value.expected("a prefix without bits to the right of its length");
    }
    let (kind, vrf) = (kind?, vrf_name(table, vrfs)?);
    let via = match (kind, keys::VIA.get(table)) {
        (RouteKind::Unicast, None) => {
            table.mistake("`via` is missing: the route's gateways");
            return None;
        }
        (RouteKind::Unicast, Some(value)) => gateways(&value, prefix, names)?,
        (_, Some(value)) => return value.mistake("only unicast routes have gateways"),
        (_, None) => Vec::new(),
    };
    let metric = keys::METRIC.given_number(table);
    Some(Route { prefix, kind, via, vrf, metric: metric.map(|metric| metric as u32) })
}

fn gateways(value: &Value<'_>, prefix: Net, names: &[&str]) -> Option<Vec<Via>> {
    if value.text().is_some() {
        return Some(vec![gateway(value, prefix, names)?]);
    }
    let list = value.list()?;
    if list.is_empty() || list.len() > 256 {
        return value.expected("1 to 256 gateways");
    }
    list.iter().map(|value| gateway(value, prefix, names)).collect()
}

fn gateway(value: &Value<'_>, prefix: Net, names: &[&str]) -> Option<Via> {
    let what = "the address of a gateway, or a table of `to`, `interface`, `weight`";
    if !value.is_table() {
        let to = address_of(value, prefix, what)?;
        return Some(Via { to: Some(to), interface: None, weight: 1 });
    }
    let table = value.table()?;
    table.only(&["to", "interface", "weight"]);
    let to = match table.get("to") {
        Some(to) => Some(address_of(&to, prefix, "an address")?),
        None => None,
    };
    let interface = match table.get("interface") {
        Some(interface) => Some(check_interface(&interface, names)?),
        None => None,
    };
    if to.is_none() && interface.is_none() {
        return value.expected("at least one of `to` and `interface`");
    }
    Some(Via { to, interface, weight: weight(table) })
}

fn weight(table: Table<'_>) -> u16 {
    table.get("weight").and_then(|value| value.number(1..=256)).unwrap_or(1) as u16
}

/// IPv4 routes may have IPv6 gateways (RFC 8950), not the other way round.
fn address_of(value: &Value<'_>, prefix: Net, what: &str) -> Option<IpAddr> {
    let address: IpAddr = value.parse(what)?;
    if prefix.address.is_ipv6() && address.is_ipv4() {
        return value.expected("an IPv6 gateway for an IPv6 prefix");
    }
    Some(address)
}

fn neighbour(table: Table<'_>, names: &[&str]) -> Option<Neighbour> {
    let interface =
        keys::INTERFACE.required(table).and_then(|value| check_interface(&value, names));
    let address = keys::ADDRESS.required(table).and_then(|value| {
        let address = value.parse("an address")?;
        if is_of_host(address) {
            Some(address)
        } else {
            value.expected("an address of a single host")
        }
    });
    let mac = keys::MAC.required(table).and_then(|value| mac(&value));
    Some(Neighbour { interface: interface?, address: address?, mac: mac? })
}
