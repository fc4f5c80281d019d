//! From TOML to [`Config`]: one function a table.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::IpAddr;

use lookup::lpm::{Card, Engines, Options};
use toml::de::DeTable;

use super::keys::{Key, ROOT_TABLES, SECTIONS, names};
use super::mistake::nearest;
use super::reader::{Source, Table, Value};
use super::*;

/// Reads a whole file.
pub fn config(file: &str, text: &str) -> Result<Config, Mistakes> {
    let source = Source { file, text, mistakes: RefCell::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            source.mistake(error.span().unwrap_or(0..0), error.message());
        }
        return Err(Mistakes(source.mistakes.into_inner()));
    }
    let config = root(Table::root(&source, table.get_ref()), &source);
    let mistakes = source.mistakes.into_inner();
    if mistakes.is_empty() { Ok(config) } else { Err(Mistakes(mistakes)) }
}

fn root(table: Table<'_>, source: &Source<'_>) -> Config {
    let mut known = names("");
    known.extend(ROOT_TABLES);
    table.only(&known);
    if let Some(bridge) = table.get("bridge") {
        bridge.mistake::<()>("bridges come with the switch, which this version does not have yet");
    }
    let vrfs = vrfs(table);
    let ports = ports(table);
    let words = [("adaptive", Idle::Adaptive), ("poll", Idle::Poll)];
    let config = Config {
        workers: table.get("workers").and_then(|v| workers(&v)).unwrap_or_else(default_workers),
        idle: table.get("idle").and_then(|v| v.word(&words)).unwrap_or(Idle::Adaptive),
        spread: table.get("spread").and_then(|v| v.flag()).unwrap_or(false),
        buffers: number(table, "buffers", 512..=4 << 20, 16384) as u32,
        dpdk: dpdk(table),
        max_neighbours: max_neighbours(table),
        punt: punt(table),
        routes: elements(table, "route", |route| self::route(route, &vrfs, &ports)),
        neighbours: elements(table, "neighbour", |entry| neighbour(entry, &ports)),
        ports,
        vrfs,
    };
    uses_of_vrfs(table, &config);
    if config.ports.is_empty() && source.mistakes.borrow().is_empty() {
        source.mistake(0..0, "no port: expected at least one table such as [ports.p0]");
    }
    config
}

fn default_workers() -> Vec<u16> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec![u16::from(cores > 1)]
}

fn workers(value: &Value<'_>) -> Option<Vec<u16>> {
    let mut cores = Vec::new();
    for core in value.list()? {
        let number = core.number(0..=1023)? as u16;
        if cores.contains(&number) {
            return core.mistake(format_args!("core {number} is there already"));
        }
        cores.push(number);
    }
    if cores.is_empty() { value.expected("at least one core") } else { Some(cores) }
}

fn number(table: Table<'_>, key: &str, range: std::ops::RangeInclusive<u64>, default: u64) -> u64 {
    table.get(key).and_then(|value| value.number(range)).unwrap_or(default)
}

/// The sub-table `key`, its keys checked, if it is there.
fn section<T>(table: Table<'_>, key: &str, read: impl FnOnce(Option<Table<'_>>) -> T) -> T {
    let value = table.get(key);
    let inner = value.as_ref().and_then(|value| value.table());
    if let Some(inner) = inner {
        inner.only(&names(key));
    }
    read(inner)
}

fn dpdk(table: Table<'_>) -> Dpdk {
    section(table, "dpdk", |table| {
        let get = |key| table.and_then(|table| table.get(key));
        let hugepages = get("hugepages").filter(|value| value.text() != Some("auto"));
        let arguments = get("arguments").and_then(|value| value.list()).unwrap_or_default();
        Dpdk {
            hugepages: hugepages.and_then(|value| value.flag()),
            memory_mib: table.map_or(0, |t| number(t, "memory_mib", 0..=1 << 20, 0)) as u32,
            arguments: arguments.iter().filter_map(|v| v.parse("an argument")).collect(),
        }
    })
}

fn max_neighbours(table: Table<'_>) -> u32 {
    section(table, "neighbours", |table| {
        table.map_or(65536, |table| number(table, "max", 16..=1 << 22, 65536)) as u32
    })
}

fn punt(table: Table<'_>) -> Punt {
    let keys = SECTIONS.iter().find(|section| section.path == "punt").map(|section| section.keys);
    section(table, "punt", |table| {
        let rate = |key: &Key| {
            let default = key.default.and_then(|text| text.parse().ok()).unwrap_or_default();
            let chosen = table.map(|table| number(table, key.name, 0..=100_000_000, default));
            (key.name, chosen.unwrap_or(default) as u32)
        };
        Punt(keys.unwrap_or_default().iter().map(rate).collect())
    })
}

/// The entries of the table `key`, each a table with a name.
fn named<T>(
    table: Table<'_>,
    key: &str,
    mut read: impl FnMut(&str, &Value<'_>, Table<'_>) -> Option<T>,
) -> Vec<T> {
    let Some(value) = table.get(key) else { return Vec::new() };
    let Some(all) = value.table() else { return Vec::new() };
    let entries = all.entries();
    entries.iter().filter_map(|(name, entry)| read(name, entry, entry.table()?)).collect()
}

/// The entries of the list of tables `key`.
fn elements<T>(
    table: Table<'_>,
    key: &str,
    mut read: impl FnMut(Table<'_>) -> Option<T>,
) -> Vec<T> {
    let Some(value) = table.get(key) else { return Vec::new() };
    let list = value.list().unwrap_or_default();
    let entry = |entry: &Value<'_>| {
        let table = entry.table()?;
        table.only(&names(&format!("{key}[]")));
        read(table)
    };
    list.iter().filter_map(entry).collect()
}

fn required<'t>(table: Table<'t>, key: &str) -> Option<Value<'t>> {
    let value = table.get(key);
    if value.is_none() {
        table.mistake(format_args!("`{key}` is missing"));
    }
    value
}

fn ports(table: Table<'_>) -> Vec<Port> {
    named(table, "ports", |name, value, table| {
        let mut known = names("ports.NAME");
        known.push("vlan");
        table.only(&known);
        if !is_port_name(name) {
            let rule = "the name of a port starts with a letter and has up to 10 letters, digits, \
                        `-`, `_` (the kernel's interface and p0.4094 must fit)";
            return value.mistake(rule);
        }
        let interface = interface(table, name.into(), 1500, "main");
        let vlans = vlans(table, &interface);
        let device_value = required(table, "device")?;
        let device = device(&device_value)?;
        Some(Port {
            name: name.into(),
            device,
            device_text: device_value.text().unwrap_or_default().into(),
            queues: number(table, "queues", 0..=64, 0) as u16,
            mac: table.get("mac").and_then(|value| mac(&value)),
            interface,
            vlans,
        })
    })
}

fn is_port_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let reserved = ["all", "default", "lo"].contains(&name);
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 10
        && name.chars().all(inner)
        && !reserved
}

fn mac(value: &Value<'_>) -> Option<Mac> {
    let mac: Mac = value.parse("a hardware address, such as \"02:00:00:00:00:01\"")?;
    let group = mac.0[0] & 1 == 1;
    if group || mac.0 == [0; 6] {
        value.expected("the address of a single station")
    } else {
        Some(mac)
    }
}

fn device(value: &Value<'_>) -> Option<Device> {
    let expected = "a device: a DPDK device argument such as \"net_af_packet0,iface=eth1\", a PCI \
                    address, \"mem\" or \"pcap:IN,OUT\"";
    let text = match value.text() {
        Some(text) if !text.trim().is_empty() => text,
        _ => return value.expected(expected),
    };
    if text == "mem" {
        return Some(Device::Mem);
    }
    if let Some(name) = text.strip_prefix("tap:") {
        let fits = !name.is_empty() && name.len() < 16 && !name.contains(['/', ',', ' ']);
        return if fits { Some(Device::Tap(name.into())) } else { value.expected("tap:NAME") };
    }
    let Some(files) = text.strip_prefix("pcap:") else {
        return Some(Device::Dpdk(text.into()));
    };
    let mut parts = files.split(',');
    let mut file = || parts.next().filter(|name| !name.is_empty()).map(str::to_string);
    let (input, output) = (file(), file());
    let raw = match parts.next() {
        None => false,
        Some("raw") => true,
        Some(_) => return value.expected("pcap:IN,OUT or pcap:IN,OUT,raw"),
    };
    if parts.next().is_some() || (input.is_none() && output.is_none()) {
        return value.expected("pcap:IN,OUT or pcap:IN,OUT,raw");
    }
    Some(Device::Pcap { input, output, raw })
}

fn interface(table: Table<'_>, name: String, mtu: u16, vrf: &str) -> Interface {
    let addresses = table.get("addresses").and_then(|value| value.list()).unwrap_or_default();
    let vrf =
        table.get("vrf").and_then(|value| value.parse("the name of a vrf")).unwrap_or(vrf.into());
    Interface {
        name,
        addresses: addresses.iter().filter_map(interface_address).collect(),
        mtu: number(table, "mtu", 68..=9216, mtu.into()) as u16,
        vrf,
    }
}

fn interface_address(value: &Value<'_>) -> Option<Net> {
    let what = "an address with the length of its network, such as \"192.0.2.1/24\"";
    let net: Net = value.parse(what)?;
    let usable = match net.address {
        IpAddr::V4(a) => {
            !(a.is_multicast() || a.is_broadcast() || a.is_unspecified() || a.is_loopback())
        }
        IpAddr::V6(a) => !(a.is_multicast() || a.is_unspecified() || a.is_loopback()),
    };
    if usable { Some(net) } else { value.expected("an address of a single host") }
}

fn vlans(table: Table<'_>, port: &Interface) -> Vec<(VlanTags, Interface)> {
    named(table, "vlan", |name, value, table| {
        table.only(&names("ports.NAME.vlan.TAGS"));
        let Some(tags) = vlan_tags(name) else {
            return value.mistake("expected a VLAN from 1 to 4094, or outer and inner as \"7.8\"");
        };
        let full = format!("{}.{name}", port.name);
        if full.len() > 15 {
            let text =
                format_args!("`{full}` is longer than the 15 letters of an interface's name");
            return value.mistake(text);
        }
        let vlan = interface(table, full, port.mtu, &port.vrf);
        if vlan.mtu > port.mtu {
            return value.mistake(format_args!("its mtu exceeds the port's, {}", port.mtu));
        }
        Some((tags, vlan))
    })
}

fn vlan_tags(name: &str) -> Option<VlanTags> {
    let vlan = |text: &str| {
        let number: u16 = text.parse().ok()?;
        ((1..=4094).contains(&number) && number.to_string() == text).then_some(number)
    };
    match name.split_once('.') {
        None => vlan(name).map(VlanTags::One),
        Some((outer, inner)) => Some(VlanTags::Two(vlan(outer)?, vlan(inner)?)),
    }
}

fn vrfs(table: Table<'_>) -> Vec<Vrf> {
    let mut all = named(table, "vrf", |name, value, table| {
        table.only(&names("vrf.NAME"));
        let main = (name == "main").then_some(254);
        // 255 is the kernel's local table, 253 and 254 default and main.
        let chosen = table.get("table").and_then(|value| value.number(1..=u64::from(u32::MAX)));
        let number = match (main, chosen.map(|number| number as u32)) {
            (Some(254), None | Some(254)) => 254,
            (Some(_), Some(_)) => return value.mistake("the table of `main` is 254"),
            (None, Some(253..=255)) => {
                return value.mistake("tables 253 to 255 are the kernel's own");
            }
            (None, Some(number)) => number,
            (None, None) => return value.mistake("`table` is missing: the kernel's number of it"),
            (Some(_), None) => 254,
        };
        let feeds = [("netlink", Feed::Netlink), ("fpm", Feed::Fpm)];
        Some(Vrf {
            name: name.into(),
            table: number,
            routes: table.get("routes").and_then(|v| v.word(&feeds)).unwrap_or(Feed::Netlink),
            ipv4: fib::<u32>(table, "ipv4"),
            ipv6: fib::<u128>(table, "ipv6"),
        })
    });
    match all.iter().position(|vrf| vrf.name == "main") {
        Some(main) => all[..=main].rotate_right(1),
        None => all.insert(0, Vrf::main()),
    }
    all
}

impl Vrf {
    /// `main` with its defaults.
    pub fn main() -> Vrf {
        let routes = Feed::Netlink;
        Vrf {
            name: "main".into(),
            table: 254,
            routes,
            ipv4: default_fib::<u32>(),
            ipv6: default_fib::<u128>(),
        }
    }
}

fn default_fib<A: Engines>() -> Fib {
    Fib { engine: A::DEFAULT.into(), max_routes: None, options: Options::default() }
}

fn fib<A: Engines>(table: Table<'_>, key: &str) -> Fib {
    let mut fib = default_fib::<A>();
    let Some(value) = table.get(key) else { return fib };
    let Some(inner) = value.table() else { return fib };
    let mut card = A::engine(A::DEFAULT).map(|entry| entry.card);
    if let Some(engine) = inner.get("engine") {
        match engine.text().and_then(A::engine) {
            Some(entry) => {
                card = Some(entry.card);
                fib.engine = entry.card.name.into();
            }
            None => unknown_engine::<A>(&engine, key),
        }
    }
    let options = card.map_or(&[][..], |card: &Card| card.options);
    let mut known = vec!["engine", "max_routes"];
    known.extend(options.iter().map(|(name, _, _)| *name));
    inner.only(&known);
    fib.max_routes = inner.get("max_routes").and_then(|v| v.number(1..=u64::from(u32::MAX)));
    for (name, value) in inner.entries() {
        if options.iter().any(|(option, _, _)| *option == name)
            && let Some(text) = value.option()
        {
            fib.options.0.insert(name.into(), text);
        }
    }
    fib
}

fn unknown_engine<A: Engines>(value: &Value<'_>, family: &str) {
    let engines: Vec<_> = A::engines().iter().map(|entry| entry.card.name).collect();
    let near = value.text().and_then(|text| nearest(text, engines.iter().copied()));
    let hint = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let list = engines.join(", ");
    value.expected::<()>(format_args!("an engine for {family}{hint}: {list}"));
}

fn vrf_name(table: Table<'_>, vrfs: &[Vrf]) -> Option<String> {
    let Some(value) = table.get("vrf") else { return Some("main".into()) };
    check_vrf(&value, vrfs)
}

fn check_vrf(value: &Value<'_>, vrfs: &[Vrf]) -> Option<String> {
    let found = value.text().filter(|text| vrfs.iter().any(|vrf| vrf.name == *text));
    found.map(str::to_string).or_else(|| {
        let names: Vec<_> = vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
        value.expected(format_args!("a vrf of this file: {}", names.join(", ")))
    })
}

/// Ports are read before it is known which vrfs there are.
fn uses_of_vrfs(table: Table<'_>, config: &Config) {
    let Some(ports) = table.get("ports") else { return };
    let Some(ports) = ports.table() else { return };
    for (_, port) in ports.entries().iter().filter(|(_, port)| port.is_table()) {
        let Some(port) = port.table() else { continue };
        vrf_name(port, &config.vrfs);
        let Some(vlans) = port.get("vlan").filter(Value::is_table) else { continue };
        let Some(vlans) = vlans.table() else { continue };
        for (_, vlan) in vlans.entries().iter().filter(|(_, vlan)| vlan.is_table()) {
            if let Some(vlan) = vlan.table() {
                vrf_name(vlan, &config.vrfs);
            }
        }
    }
    unique_tables(config, table);
}

fn unique_tables(config: &Config, table: Table<'_>) {
    let mut seen = HashSet::new();
    for vrf in config.vrfs.iter().filter(|vrf| !seen.insert(vrf.table)) {
        if let Some(value) = table.get("vrf") {
            let text = format_args!(
                "table {} is used twice, the second time by `{}`",
                vrf.table, vrf.name
            );
            value.mistake::<()>(text);
        }
    }
}

fn check_interface(value: &Value<'_>, ports: &[Port]) -> Option<String> {
    let mut names = Vec::new();
    for port in ports {
        names.push(port.name.as_str());
        names.extend(port.vlans.iter().map(|(_, vlan)| vlan.name.as_str()));
    }
    let found = value.text().filter(|text| names.contains(text));
    found
        .map(str::to_string)
        .or_else(|| value.expected(format_args!("an interface of this file: {}", names.join(", "))))
}

fn route(table: Table<'_>, vrfs: &[Vrf], ports: &[Port]) -> Option<Route> {
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
        (RouteKind::Unicast, Some(value)) => gateways(&value, prefix, ports)?,
        (_, Some(value)) => return value.mistake("only unicast routes have gateways"),
        (_, None) => Vec::new(),
    };
    let metric = table.get("metric").and_then(|v| v.number(0..=u64::from(u32::MAX)));
    Some(Route { prefix, kind, via, vrf, metric: metric.map(|metric| metric as u32) })
}

fn gateways(value: &Value<'_>, prefix: Net, ports: &[Port]) -> Option<Vec<Via>> {
    if value.text().is_some() {
        return Some(vec![gateway(value, prefix, ports)?]);
    }
    let list = value.list()?;
    if list.is_empty() || list.len() > 256 {
        return value.expected("1 to 256 gateways");
    }
    list.iter().map(|value| gateway(value, prefix, ports)).collect()
}

fn gateway(value: &Value<'_>, prefix: Net, ports: &[Port]) -> Option<Via> {
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
        Some(interface) => Some(check_interface(&interface, ports)?),
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

fn neighbour(table: Table<'_>, ports: &[Port]) -> Option<Neighbour> {
    let interface = required(table, "interface").and_then(|value| check_interface(&value, ports));
    let address = required(table, "address").and_then(|value| value.parse("an address"));
    let mac = required(table, "mac").and_then(|value| mac(&value));
    Some(Neighbour { interface: interface?, address: address?, mac: mac? })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
