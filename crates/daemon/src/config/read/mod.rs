//! From TOML to [`Config`]: one function a table.

mod buffers;
mod drivers;
mod networks;
mod once;
mod ports;
mod vrfs;

use std::cell::RefCell;

use lookup::lpm::{Card, Choice, Engines, Entry, Options, Refusal};
use toml::de::DeTable;

use super::mistake::nearest;
use super::net::{is_link_local6, is_of_host};
use super::reader::{Source, Table, Value};
use super::section::{Section, only};
use super::{keys, *};
pub(crate) use buffers::share_of_buffers;
pub(crate) use once::Once;
use ports::{RESERVED, ports};
pub(crate) use ports::{check_interface, interface, is_port_name, mac, vlan_tags};
use vrfs::{each_table, uses_of_vrfs, vrfs};
pub(crate) use vrfs::{engine, vrf_name};

/// Reads a whole file.
pub fn config(file: &str, text: &str, declared: &[Declared]) -> Result<Config, Mistakes> {
    let source = Source { file, text, mistakes: RefCell::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            match (error.message(), text.get(span.clone())) {
                ("duplicate key", Some(key)) => {
                    source.mistake(span, format_args!("`{key}` is given twice"));
                }
                (message, _) => source.mistake(span, message),
            }
        }
        return Err(Mistakes(source.mistakes.into_inner()));
    }
    let config = root(Table::root(&source, table.get_ref()), &source, declared);
    let mut mistakes = source.mistakes.into_inner();
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    if mistakes.is_empty() { Ok(config) } else { Err(Mistakes(mistakes)) }
}

fn root(table: Table<'_>, source: &Source<'_>, declared: &[Declared]) -> Config {
    let sections = declared.iter().flat_map(|declared| declared.sections);
    let tables = keys::SECTIONS.iter().chain(sections).map(Section::root);
    let tables: Vec<_> = tables.filter(|root| !root.is_empty()).collect();
    only(table, &keys::SECTIONS[..1], &tables);
    let mut config = Config {
        workers: keys::WORKERS.get(table).and_then(|v| workers(&v)).unwrap_or_else(default_workers),
        idle: keys::IDLE.as_word(table, [Idle::Adaptive, Idle::Poll]),
        spread: keys::SPREAD.as_flag(table),
        buffers: keys::BUFFERS.as_number(table) as u32,
        dpdk: dpdk(table),
        max_neighbours: max_neighbours(table),
        punt: punt(table),
        peers: peers(table),
        vrfs: vrfs(table),
        ports: ports(table),
        inner: Vec::new(),
        settings: Settings::default(),
        routes: Vec::new(),
        neighbours: Vec::new(),
    };
    for declared in declared {
        (declared.read)(table, &mut config);
    }
    roles(table);
    let carriers = declared.iter().flat_map(|declared| declared.carriers).copied();
    let carriers: Vec<_> = std::iter::once("ports").chain(carriers).collect();
    uses_of_vrfs(table, &config, &carriers);
    once::tables(&config, table);
    once::addresses(table, &carriers);
    networks::apart(table, &carriers);
    once::netdev_names(&config, table);
    if config.ports.is_empty() && source.mistakes.borrow().is_empty() {
        source.mistake(0..0, "no port: expected at least one table such as [ports.p0]");
    }
    config
}

/// Reports a role without its table, and a table whose role is not named.
fn roles(table: Table<'_>) {
    let Some(value) = keys::ROLE.get(table) else { return };
    let words = match value.text() {
        Some(_) => vec![keys::ROLE.get(table)].into_iter().flatten().collect(),
        None => value.list().unwrap_or_default(),
    };
    let mut named = Vec::new();
    for word in &words {
        let Some(role) = word.text().filter(|text| ROLES.contains(text)) else {
            word.expected::<()>(format_args!("one of {}", ROLES.join(", ")));
            continue;
        };
        if named.contains(&role) {
            word.mistake::<()>(format_args!("`{role}` is given twice"));
        } else if table.get(role).is_none() {
            word.mistake::<()>(format_args!("the file has no table [{role}]"));
        }
        named.push(role);
    }
    for role in ROLES.iter().filter(|role| !named.contains(role) && table.get(role).is_some()) {
        value.mistake::<()>(format_args!("`{role}` is missing: the file has a table [{role}]"));
    }
}

/// The tables that make this machine something for others.
const ROLES: [&str; 2] = ["gatekeeper", "grantor"];

fn default_workers() -> Vec<u16> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec![u16::from(cores > 1)]
}

fn workers(value: &Value<'_>) -> Option<Vec<u16>> {
    let mut cores = Vec::new();
    for core in value.list()? {
        let number = core.number(0..=1023)? as u16;
        if cores.contains(&number) {
            return core.mistake(format_args!("core {number} is given twice"));
        }
        cores.push(number);
    }
    if cores.is_empty() { value.expected("at least one core") } else { Some(cores) }
}

/// The sub-table of `section`, its keys checked, if it is there.
pub(crate) fn section<T>(
    table: Table<'_>,
    section: Section,
    read: impl FnOnce(Option<Table<'_>>) -> T,
) -> T {
    let value = table.get(section.path);
    let inner = value.as_ref().and_then(|value| value.table());
    if let Some(inner) = inner {
        only(inner, &[section], &[]);
    }
    read(inner)
}

fn dpdk(table: Table<'_>) -> Dpdk {
    section(table, keys::DPDK, |table| {
        let hugepages = table.and_then(|table| keys::HUGEPAGES.get(table));
        let hugepages = hugepages.filter(|value| value.text() != Some("auto"));
        let arguments = table.and_then(|table| keys::ARGUMENTS.get(table));
        let arguments = arguments.and_then(|value| value.list()).unwrap_or_default();
        Dpdk {
            hugepages: hugepages.and_then(|value| value.flag_or("\"auto\"")),
            memory_mib: table.map_or(0, |table| keys::MEMORY_MIB.as_number(table)) as u32,
            arguments: arguments.iter().filter_map(|v| v.parse("an argument")).collect(),
        }
    })
}

fn max_neighbours(table: Table<'_>) -> u32 {
    section(table, keys::NEIGHBOURS, |table| {
        table.map_or_else(|| keys::MAX.default_number(), |table| keys::MAX.as_number(table)) as u32
    })
}

fn punt(table: Table<'_>) -> Rates {
    section(table, keys::PUNT, |table| {
        let mut rates = Rates::default();
        let Some(table) = table else { return rates };
        for (class, key) in nodes::Class::ALL.into_iter().zip(keys::PUNT_KEYS) {
            rates.set(class, key.as_number(table) as u32);
        }
        rates
    })
}

fn peers(table: Table<'_>) -> Vec<IpAddr> {
    let value = table.get(keys::PUNT.path);
    let value = value.as_ref().and_then(|value| value.table());
    let peers = value.and_then(|table| keys::PEERS.get(table));
    let peers = peers.as_ref().and_then(|value| value.list()).unwrap_or_default();
    peers.iter().filter_map(|peer| peer.parse("an address")).collect()
}

/// The entries of the table `key`, each a table with a name.
pub(crate) fn named<T>(
    table: Table<'_>,
    key: &str,
    mut read: impl FnMut(&str, &Value<'_>, Table<'_>) -> Option<T>,
) -> Vec<T> {
    let Some(value) = table.get(key) else { return Vec::new() };
    let Some(all) = value.table() else { return Vec::new() };
    let entries = all.entries();
    entries.iter().filter_map(|(name, entry)| read(name, entry, entry.table()?)).collect()
}

/// The entries of the list of tables of `section` (`NAME[]`), their keys checked.
pub(crate) fn elements<T>(
    table: Table<'_>,
    section: Section,
    mut read: impl FnMut(Table<'_>) -> Option<T>,
) -> Vec<T> {
    let key = section.path.trim_end_matches("[]");
    let key = key.rsplit('.').next().unwrap_or(key);
    let Some(value) = table.get(key) else { return Vec::new() };
    let list = value.list().unwrap_or_default();
    let entry = |entry: &Value<'_>| {
        let table = entry.table()?;
        only(table, &[section], &[]);
        read(table)
    };
    list.iter().filter_map(entry).collect()
}
