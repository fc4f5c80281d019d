//! From `[gatekeeper]` to values that need no further check.

use std::net::IpAddr;

use lookup::exact::flow::{self, Full, Wanted};
use lookup::lpm::Options;
use lookup::sync::Domain;
use nodes::gatekeeper::settings::DecisionsFrom;
use nodes::gatekeeper::solicitor::{SHARE, channel_bytes};
use tables::event::{Address, Event, Link, LinkId};
use tables::{Action, Control, FibConfig, Iface, Limits, Named, PortId, Protect, VrfConfig};
use wire::ggu::Ports;

use super::keys;
use super::programs::Wanted as Program;
use super::protect::{self, Asked};
use crate::config::net::{is_link_local6, is_of_host};
use crate::config::read::{check_interface, elements, share_of_buffers};
use crate::config::reader::{Place, Table, Value};
use crate::config::section::only;
use crate::config::{Config, Declared, Net};

/// A shield's settings from the file.
pub(super) const DECLARED: Declared = Declared { sections: keys::SECTIONS, carriers: &[], read };

/// `[gatekeeper]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shield {
    /// Names of interfaces; of these, and those at the back, none is in both.
    pub front: Vec<String>,
    pub back: Vec<String>,
    pub table: FlowTable,
    /// The bandwidth of the protected network, in bits a second.
    pub bandwidth: u64,
    /// Bytes of requests a second.
    pub requests: u64,
    /// Decisions a second that are made here; `None`: none is.
    pub here: Option<u64>,
    /// Requests that may wait, of each worker; of those that are decided here as many.
    pub waiting: usize,
    /// By family, where they are not the back interface's.
    pub from: [Option<IpAddr>; 2],
    pub ports: Ports,
    pub decisions_from: DecisionsFrom,
    /// ICMP errors a second, of all workers together.
    pub icmp_rate: u32,
    pub withdraw: bool,
    pub protected: Vec<Protect>,
    pub programs: Vec<Program>,
}

/// The flow table's settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FlowTable {
    /// It is there, and takes the rule and the options.
    pub engine: &'static str,
    pub options: Options,
    pub full: Full,
    /// Entries of all workers together.
    pub entries: usize,
}

impl Shield {
    /// That of a configuration, if it has one.
    pub fn of(config: &Config) -> Option<&Shield> {
        config.settings.get()
    }
}

fn read(root: Table<'_>, config: &mut Config) {
    let Some(value) = root.get(keys::SHIELD.path) else { return };
    let Some(table) = value.table() else { return };
    only(table, &[keys::SHIELD], &["protect", "program"]);
    let front = interfaces(table, &keys::FRONT, config, &[]);
    let back = interfaces(table, &keys::BACK, config, &front);
    let from = from(table);
    let flows = flow_table(table);
    let millionths = keys::REQUESTS.get(table).and_then(|value| millionths(&value));
    let here = root.get("grantor").map(|_| keys::DECISIONS.as_number(table));
    let bandwidth = 1_000_000 * keys::BANDWIDTH.as_number(table);
    let protected = elements(table, keys::PROTECT, |table| {
        Some((protection(table, here.is_some())?, table.place()))
    });
    refuse_unfit(table, config, &protected);
    let programs = programs(table);
    let Some(flows) = flows else { return };
    config.settings.put(Shield {
        front,
        back,
        table: flows,
        bandwidth,
        // A channel that never grows would let nobody ask.
        requests: channel_bytes(bandwidth, millionths.unwrap_or(SHARE)).max(1),
        here,
        waiting: share_of_buffers(table, &keys::WAITING, "requests", config),
        from,
        ports: Ports {
            src: keys::SOURCE_PORT.as_number(table) as u16,
            dst: keys::DESTINATION_PORT.as_number(table) as u16,
        },
        decisions_from: keys::DECISIONS_FROM.as_word(
            table,
            [DecisionsFrom::ItsGrantors, DecisionsFrom::Grantors, DecisionsFrom::Anybody],
        ),
        icmp_rate: keys::ICMP_RATE.as_number(table) as u32,
        withdraw: keys::WITHDRAW.as_flag(table),
        protected: protected.into_iter().map(|(one, _)| one).collect(),
        programs,
    });
}

/// The interfaces that `key` names, none of `others`.
fn interfaces(
    table: Table<'_>,
    key: &crate::config::section::Key,
    config: &Config,
    others: &[String],
) -> Vec<String> {
    let names: Vec<_> = config.interfaces().map(|(.., of)| of.name.as_str()).collect();
    let Some(value) = key.required(table) else { return Vec::new() };
    let Some(list) = value.list() else { return Vec::new() };
    if list.is_empty() {
        value.expected::<()>("at least one interface");
    }
    let mut found: Vec<String> = Vec::new();
    for value in &list {
        let Some(name) = check_interface(value, &names) else { continue };
        let vrf = config.interfaces().find(|(.., of)| of.name == name);
        let vrf = vrf.map_or("main", |(.., of)| of.vrf.as_str());
        if others.contains(&name) || found.contains(&name) {
            value
                .mistake::<()>(format_args!("`{name}` is named twice: it is either front or back"));
        } else if vrf != "main" {
            value.mistake::<()>(format_args!(
                "`{name}` is in the vrf `{vrf}`: front and back must be in main, since the kernel \
                 looks up a vrf's table before the rule that keeps it from forwarding"
            ));
        } else {
            found.push(name);
        }
    }
    found
}

fn flow_table(table: Table<'_>) -> Option<FlowTable> {
    let (engine, mut options) = engine(table)?;
    let all = [Full::Replace, Full::Thesis, Full::Deployed];
    let full = match keys::FULL.get(table) {
        None => engine.rules[0],
        Some(value) => {
            let full = keys::FULL.given_word(table, all)?;
            if !engine.rules.contains(&full) {
                let rules: Vec<_> = engine.rules.iter().map(|rule| rule.name()).collect();
                let name = engine.card.name;
                return value.expected(format_args!("a rule of {name}: {}", rules.join(", ")));
            }
            full
        }
    };
    options.0.insert("full".into(), full.name().into());
    if let Some(percent) = keys::DECIDED_MAX.given_number(table) {
        if full != Full::Replace
            && let Some(value) = keys::DECIDED_MAX.get(table)
        {
            return value.mistake("only `full = \"replace\"` has this limit");
        }
        options.0.insert("decided_max".into(), percent.to_string());
    }
    // Other refusals (memory) depend on the machine.
    if let Err(refusal) = (engine.build)(Wanted { entries: 64, second: 1_000_000 }, &options) {
        table.mistake(refusal);
        return None;
    }
    let entries = keys::ENTRIES.as_number(table) as usize;
    Some(FlowTable { engine: engine.card.name, options, full, entries })
}

/// The engine, and options that are its own alone.
fn engine(table: Table<'_>) -> Option<(&'static flow::Entry, Options)> {
    let mut options = Options::default();
    let usual = keys::TABLE.default.unwrap_or_default().trim_matches('"');
    let Some(value) = keys::TABLE.get(table) else { return Some((flow::engine(usual)?, options)) };
    let named = |value: &Value<'_>| {
        let known: Vec<_> = flow::engines().iter().map(|entry| entry.card.name).collect();
        let found = value.text().and_then(flow::engine);
        found.or_else(|| value.expected(format_args!("a table of flows: {}", known.join(", "))))
    };
    if !value.is_table() {
        return Some((named(&value)?, options));
    }
    let inner = value.table()?;
    let found = match inner.get("engine") {
        Some(value) => named(&value)?,
        None => flow::engine(usual)?,
    };
    let own = found.card.options.iter().map(|(name, ..)| *name);
    let own: Vec<_> = own.filter(|name| !["full", "decided_max"].contains(name)).collect();
    inner.only(&[&["engine"], &own[..]].concat());
    for (name, value) in inner.entries() {
        if own.contains(&name) {
            options.0.insert(name.into(), value.option()?);
        }
    }
    Some((found, options))
}

/// Percent, with four digits behind the point at most, as millionths.
fn millionths(value: &Value<'_>) -> Option<u32> {
    let text = value.option()?;
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |text: &str| text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = format!("{whole}{part:0<4}");
    let number = number.parse().ok().filter(|_| digits(whole) && digits(part));
    let found = number.filter(|number| (1..=1_000_000).contains(number));
    let what = "percent from 0.0001 to 100";
    found.or_else(|| match value.text() {
        Some(_) => value.expected(what),
        None => value.mistake(format_args!("expected {what}, found {text}")),
    })
}

fn from(table: Table<'_>) -> [Option<IpAddr>; 2] {
    let mut from = [None; 2];
    let value = keys::FROM.get(table);
    for value in value.and_then(|value| value.list()).unwrap_or_default() {
        let Some(address) = value.parse::<IpAddr>("an address") else { continue };
        let place = &mut from[usize::from(address.is_ipv6())];
        if !is_of_host(address) {
            value.expected::<()>("an address of a single host");
        } else if is_link_local6(address) {
            value.expected::<()>("an address that is not link-local");
        } else if place.is_some() {
            value.expected::<()>("one address of each family");
        } else {
            *place = Some(address);
        }
    }
    from
}

/// Programs, one for a number. Their objects are read at the start.
fn programs(table: Table<'_>) -> Vec<Program> {
    let mut all: Vec<Program> = Vec::new();
    for (one, place) in
        elements(table, keys::PROGRAM, |table| Some((program(table)?, table.place())))
    {
        if all.iter().any(|other| other.index == one.index) {
            table.mistake_at(&place, format_args!("another program has the index {}", one.index));
        }
        all.push(one);
    }
    all
}

fn program(table: Table<'_>) -> Option<Program> {
    let index = keys::INDEX.required(table).and_then(|value| value.number(0..=255));
    let object = keys::OBJECT.required(table)?.text()?.to_string();
    let name = keys::NAME
        .get(table)
        .map_or(Some(file_name(&object)), |value| value.text().map(str::to_string))?;
    Some(Program { index: index? as u8, object, name })
}

/// The file's name, without what is behind its last dot.
pub(super) fn file_name(path: &str) -> String {
    let stem = std::path::Path::new(path).file_stem();
    stem.map_or_else(|| path.into(), |stem| stem.to_string_lossy().into_owned())
}

fn protection(table: Table<'_>, here: bool) -> Option<Protect> {
    let action = keys::ACTION.given_word(table, [Action::Protect, Action::Bypass, Action::Discard]);
    let value = keys::PREFIX.required(table)?;
    let net: Net = value.parse("a prefix, such as \"203.0.113.0/24\"")?;
    if !net.is_prefix() {
        return value.expected("a prefix without bits to the right of its length");
    }
    let grantors = keys::GRANTORS.get(table).map_or(Some(Vec::new()), |value| value.list())?;
    let grantors: Option<Vec<_>> = grantors.iter().map(grantor).collect();
    let asked = Asked {
        net: tables::Net::covering(net.address, net.length)?,
        action: action?,
        shadow: keys::SHADOW.as_flag(table),
        grantors: grantors?,
    };
    match protect::wanted(asked, here) {
        Ok(wanted) => Some(wanted),
        Err(objection) => {
            table.mistake(objection);
            None
        }
    }
}

fn grantor(value: &Value<'_>) -> Option<Named> {
    if !value.is_table() {
        let what = "the address of a Grantor, or a table of `to`, `weight`, `shadow`";
        return Some(Named { ip: value.parse(what)?, weight: 1, shadow: false });
    }
    let table = value.table()?;
    table.only(&["to", "weight", "shadow"]);
    let Some(to) = table.get("to") else { return value.mistake("`to` is missing: an address") };
    let weight = table.get("weight").map_or(Some(1), |value| value.number(1..=256))?;
    let shadow = table.get("shadow").map_or(Some(false), |value| value.flag())?;
    Some(Named { ip: to.parse("the address of a Grantor")?, weight: weight as u16, shadow })
}

/// Reports what the tables would refuse: they are asked, with the interfaces of this file.
fn refuse_unfit(table: Table<'_>, config: &Config, all: &[(Protect, Place)]) {
    if all.is_empty() {
        return;
    }
    let mut control = match scratch(config) {
        Ok(control) => control,
        Err(error) => return table.mistake(error),
    };
    for (wanted, place) in all {
        if let Err(error) = control.protect(tables::VrfId::default(), wanted) {
            table.mistake_at(place, error);
        }
    }
}

/// Tables of their own, with the interfaces of `main` and their addresses.
fn scratch(config: &Config) -> Result<Control, tables::Error> {
    let small = || FibConfig { engine: Some("bsd-radix".into()), ..FibConfig::default() };
    let main = VrfConfig { v4: small(), v6: small(), ..VrfConfig::default() };
    let mut control = Control::new(&Domain::new(), Limits::default(), &main)?;
    let in_main = config.interfaces().filter(|(.., of)| of.vrf == "main");
    for ((.., interface), number) in in_main.zip(1..) {
        let (name, port, index) = (interface.name.clone(), PortId(number), LinkId(number.into()));
        control.add_iface(Iface { name: name.clone(), port, ..Iface::default() })?;
        let link = Link { index, name, up: true, ..Link::default() };
        let address = |net: &Net| Address { link: index, ip: net.address, len: net.length };
        let addresses = interface.addresses.iter().map(|net| Event::Address(address(net)));
        let events: Vec<_> = std::iter::once(Event::Link(link)).chain(addresses).collect();
        control.handle(&events);
    }
    Ok(control)
}
