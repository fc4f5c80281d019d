//! Static routes and permanent neighbours.

use super::*;

pub(super) fn route(table: Table<'_>, vrfs: &[Vrf], names: &[&str]) -> Option<Route> {
    let kinds = [
        ("unicast", RouteKind::Unicast),
        ("blackhole", RouteKind::Blackhole),
        ("unreachable", RouteKind::Unreachable),
        ("prohibit", RouteKind::Prohibit),
    ];
    let kind = table.get("kind").map_or(Some(RouteKind::Unicast), |value| value.word(&kinds));
    let value = required(table, "prefix")?;
    let prefix: Net = value.parse("a prefix, such as \"203.0.113.0/24\"")?;
    if !prefix.is_prefix() {
        return value.expected("a prefix without bits right of its length");
    }
    let (kind, vrf) = (kind?, vrf_name(table, vrfs)?);
    let via = match (kind, table.get("via")) {
        (RouteKind::Unicast, None) => {
            table.mistake("`via` is missing: the route's gateways");
            return None;
        }
        (RouteKind::Unicast, Some(value)) => gateways(&value, prefix, names)?,
        (_, Some(value)) => return value.mistake("only unicast routes have gateways"),
        (_, None) => Vec::new(),
    };
    let metric = table.get("metric").and_then(|v| v.number(0..=u64::from(u32::MAX)));
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
    Some(Via { to, interface, weight: number(table, "weight", 1..=256, 1) as u16 })
}

/// IPv4 routes may have IPv6 gateways (RFC 8950), not the other way round.
fn address_of(value: &Value<'_>, prefix: Net, what: &str) -> Option<IpAddr> {
    let address: IpAddr = value.parse(what)?;
    if prefix.address.is_ipv6() && address.is_ipv4() {
        return value.expected("an IPv6 gateway for an IPv6 prefix");
    }
    Some(address)
}

pub(super) fn neighbour(table: Table<'_>, names: &[&str]) -> Option<Neighbour> {
    let interface = required(table, "interface").and_then(|value| check_interface(&value, names));
    let address = required(table, "address").and_then(|value| {
        let address = value.parse("an address")?;
        if is_of_host(address) {
            Some(address)
        } else {
            value.expected("an address of a single host")
        }
    });
    let mac = required(table, "mac").and_then(|value| mac(&value));
    Some(Neighbour { interface: interface?, address: address?, mac: mac? })
}
