//! From TOML to [`Config`]: one function a table.

mod bridges;
mod once;
mod ports;
mod routes;
mod vrfs;

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::IpAddr;

use lookup::lpm::{Card, Engines, Options};
use toml::de::DeTable;

use super::keys::{Key, ROOT_TABLES, SECTIONS, names};
use super::mistake::nearest;
use super::net::{is_link_local6, is_of_host};
use super::reader::{Source, Table, Value};
use super::*;
use ports::{RESERVED, check_interface, mac, ports};
use routes::{neighbour, route};
use vrfs::{each_table, uses_of_vrfs, vrf_name, vrfs};

/// Reads a whole file.
pub fn config(file: &str, text: &str) -> Result<Config, Mistakes> {
    let source = Source { file, text, mistakes: RefCell::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            match (error.message(), text.get(span.clone())) {
                ("duplicate key", Some(key)) => {
                    source.mistake(span, format_args!("`{key}` is there already"));
                }
                (message, _) => source.mistake(span, message),
            }
        }
        return Err(Mistakes(source.mistakes.into_inner()));
    }
    let config = root(Table::root(&source, table.get_ref()), &source);
    let mut mistakes = source.mistakes.into_inner();
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    if mistakes.is_empty() { Ok(config) } else { Err(Mistakes(mistakes)) }
}

fn root(table: Table<'_>, source: &Source<'_>) -> Config {
    let mut known = names("");
    known.extend(ROOT_TABLES);
    table.only(&known);
    let vrfs = vrfs(table);
    let ports = ports(table);
    let bridges = bridges::bridges(table, &ports);
    let words = [("adaptive", Idle::Adaptive), ("poll", Idle::Poll)];
    let mut config = Config {
        workers: table.get("workers").and_then(|v| workers(&v)).unwrap_or_else(default_workers),
        idle: table.get("idle").and_then(|v| v.word(&words)).unwrap_or(Idle::Adaptive),
        spread: table.get("spread").and_then(|v| v.flag()).unwrap_or(false),
        buffers: number(table, "buffers", 512..=4 << 20, 16384) as u32,
        dpdk: dpdk(table),
        max_neighbours: max_neighbours(table),
        punt: punt(table),
        ports,
        bridges,
        vrfs,
        routes: Vec::new(),
        neighbours: Vec::new(),
    };
    let names: Vec<_> = config.interfaces().map(|(.., of)| of.name.as_str()).collect();
    let mut taken = HashSet::new();
    let routes = elements(table, "route", |table| {
        let route = route(table, &config.vrfs, &names)?;
        if let Some(objection) = config.objection(&route) {
            table.mistake(objection);
        }
        if !taken.insert((route.vrf.clone(), route.prefix, route.metric)) {
            table.mistake("a route to this prefix, of this metric, is there already");
        }
        Some(route)
    });
    let mut taken = HashSet::new();
    let neighbours = elements(table, "neighbour", |entry| {
        let neighbour = neighbour(entry, &names)?;
        if !taken.insert((neighbour.interface.clone(), neighbour.address)) {
            entry.mistake("this address of this interface has a neighbour already");
        }
        Some(neighbour)
    });
    (config.routes, config.neighbours) = (routes, neighbours);
    uses_of_vrfs(table, &config);
    once::tables(&config, table);
    once::addresses(table);
    once::netdev_names(&config, table);
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
            hugepages: hugepages.and_then(|value| value.flag_or("\"auto\"")),
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

#[cfg(test)]
#[path = "../tests.rs"]
mod tests;
