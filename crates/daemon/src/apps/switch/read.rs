//! Bridges.

use std::ops::RangeInclusive;

use lookup::exact::mac_table;
use tables::bridge::{DomainId, FloodRates, LinkLocal};
use tables::switch::{LoopDetection, Mode, WhenFull};

use super::config::{Bridge, BridgePort, Bridges, StaticMac};
use super::keys;
use crate::config::read::{Once, elements, interface, is_port_name, mac, named, vlan_tags};
use crate::config::reader::{Table, Value};
use crate::config::section::{Key, only};
use crate::config::{Config, Declared, InnerInterface, InnerPort, Interface, Port, VlanTags};

/// The switch's settings from the file.
pub(super) const DECLARED: Declared =
    Declared { sections: keys::SECTIONS, carriers: &["bridge"], read };

fn read(table: Table<'_>, config: &mut Config) {
    let bridges = bridges(table, &config.ports);
    config.inner.extend(bridges.iter().map(inner));
    config.settings.put(Bridges(bridges));
}

/// A bridge's routed side, without interfaces where it has none.
fn inner(bridge: &Bridge) -> InnerPort {
    let of = |tags: Option<VlanTags>, interface: &Interface| {
        let carries = |member: &&BridgePort| match tags {
            Some(VlanTags::One(vlan)) => member.mode.vlans().any(|one| one == vlan),
            _ => true,
        };
        let ports = bridge.ports.iter().filter(carries).map(|member| member.port.clone());
        InnerInterface { tags, interface: interface.clone(), ports: ports.collect() }
    };
    let own = bridge.interface.iter().map(|own| of(None, own));
    let vlans = bridge.vlans.iter().map(|(vlan, own)| of(Some(VlanTags::One(*vlan)), own));
    InnerPort {
        name: bridge.name.clone(),
        table: "bridge",
        members: bridge.ports.iter().map(|member| member.port.clone()).collect(),
        interfaces: own.chain(vlans).collect(),
    }
}

/// Reads all bridges; takes the routed interface from ports that are in one.
fn bridges(table: Table<'_>, ports: &[Port]) -> Vec<Bridge> {
    let mut taken: Vec<String> = Vec::new();
    let (mut left, mut room) = (DomainId::MOST, stations());
    named(table, "bridge", |name, value, table| {
        only(table, &[keys::BRIDGE], &["port", "vlan", "mac"]);
        if ports.iter().any(|port| port.name == name) {
            return value.mistake("a port has this name");
        }
        if !is_port_name(name) {
            return value.mistake("the name of a bridge follows the rules for ports' names");
        }
        let members = members(table, ports, &mut taken)?;
        let mut bridge = Bridge {
            name: name.into(),
            ports: members,
            interface: None,
            vlans: Vec::new(),
            max_macs: keys::MAX_MACS.as_number(table),
            when_full: keys::WHEN_FULL.as_word(table, [WhenFull::Refuse, WhenFull::Replace]),
            ageing: keys::AGEING.as_number(table) as u32,
            link_local: link_local(table),
            loops: keys::LOOPS.as_word(table, LOOPS),
            macs: Vec::new(),
        };
        let domains = bridge.domains().len();
        if domains > left {
            let most = DomainId::MOST;
            return value.mistake(format_args!(
                "all bridges together have more than {most} VLANs (a bridge without VLANs counts \
                 as one, `trunk = \"all\"` as 4094): name those in use, as in \
                 trunk = [10, \"20-30\"]"
            ));
        }
        left -= domains;
        // Beside its stations, its routed interfaces' addresses.
        let needed = bridge.max_macs + 2 * domains as u64;
        if needed > room {
            let keys = keys::MAX_MACS.get(table).unwrap_or_else(|| value.clone());
            return keys.mistake(format_args!(
                "all bridges share one table of stations: of the {} of this bridge, there is room \
                 for {}: lower `max_macs` here, or of a bridge above",
                bridge.max_macs,
                room.saturating_sub(2 * domains as u64)
            ));
        }
        room -= needed;
        routed(&mut bridge, table, value, ports)?;
        bridge.macs = macs(&bridge, table);
        Some(bridge)
    })
}

/// What the table of all bridges can hold; two are for no bridge's domain.
fn stations() -> u64 {
    mac_table::ENTRY.card.max_entries.unwrap_or(u64::MAX) - 2
}

/// `"drop"`, `"forward"`, or a list of those that are forwarded.
fn link_local(table: Table<'_>) -> LinkLocal {
    let Some(value) = keys::LINK_LOCAL.get(table) else { return LinkLocal::NONE };
    if !value.is_list() {
        let words = [("drop", LinkLocal::NONE), ("forward", LinkLocal::PROVIDER)];
        return value.word(&words).unwrap_or_default();
    }
    let chosen = value.list().unwrap_or_default();
    let chosen = chosen.iter().filter_map(|value| value.word(LinkLocal::NAMED));
    chosen.fold(LinkLocal::NONE, |all, last| all.with(last).unwrap_or(all))
}

/// In the order of the key's words.
const LOOPS: [LoopDetection; 3] = [LoopDetection::Block, LoopDetection::Report, LoopDetection::Off];

fn members(table: Table<'_>, ports: &[Port], taken: &mut Vec<String>) -> Option<Vec<BridgePort>> {
    let list = keys::PORTS.required(table)?;
    let mut members = Vec::new();
    for value in list.list()? {
        let Some(port) = ports.iter().find(|port| value.text() == Some(&port.name)) else {
            let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
            return value.expected(format_args!("a port of this file: {}", names.join(", ")));
        };
        if taken.contains(&port.name) {
            return value.mistake(format_args!("`{}` is in a bridge already", port.name));
        }
        if !port.interface.addresses.is_empty() || !port.vlans.is_empty() {
            let text = "a port of a bridge has no addresses and no sub-interfaces: give them to \
                        the bridge";
            return value.mistake(text);
        }
        taken.push(port.name.clone());
        members.push(BridgePort::plain(&port.name));
    }
    if members.is_empty() {
        return list.expected("at least one port");
    }
    let settings = named(table, "port", |name, value, table| {
        only(table, &[keys::PORT, keys::TRUNK_PORT], &[]);
        match members.iter_mut().find(|member| member.port == name) {
            Some(found) => member(found, table),
            None => value.mistake("this port is not in the list `ports` of its bridge"),
        }
    });
    drop(settings);
    let plain = members.iter().filter(|member| member.mode == Mode::Plain).count();
    if plain > 0 && plain < members.len() {
        let plain = members.iter().find(|member| member.mode == Mode::Plain)?;
        let text = format!(
            "`{}` has neither `access` nor `trunk`: all ports of a bridge need one, or none has",
            plain.port
        );
        return list.mistake(text);
    }
    Some(members)
}

impl BridgePort {
    fn plain(port: &str) -> BridgePort {
        BridgePort {
            port: port.into(),
            mode: Mode::Plain,
            isolated: false,
            max_macs: None,
            flood: FloodRates::default(),
        }
    }
}

fn member(member: &mut BridgePort, table: Table<'_>) -> Option<()> {
    let vlan = |key: Key| key.given_number(table).map(|vlan| vlan as u16);
    let tunnel = keys::TUNNEL.as_flag(table);
    let native = vlan(keys::NATIVE);
    let trunk = keys::TRUNK.get(table).map(|value| trunk(&value));
    member.mode = match (vlan(keys::ACCESS), trunk) {
        (Some(_), Some(_)) => {
            table.mistake("a port has either `access` or `trunk`");
            return None;
        }
        (Some(vlan), None) if tunnel => Mode::Tunnel(vlan),
        (Some(vlan), None) => Mode::Access(vlan),
        (None, Some(vlans)) => {
            let mut vlans = vlans?;
            vlans.extend(native.map(|vlan| vlan..=vlan));
            Mode::Trunk { vlans, native }
        }
        (None, None) => Mode::Plain,
    };
    if native.is_some() && !matches!(member.mode, Mode::Trunk { .. }) {
        table.mistake("`native` is for ports with `trunk`");
    }
    if tunnel && !matches!(member.mode, Mode::Tunnel(_)) {
        table.mistake("`tunnel` is for ports with `access`");
    }
    member.isolated = keys::ISOLATED.as_flag(table);
    member.max_macs = keys::PORT_MACS.given_number(table);
    let rate = |key: Key| key.as_number(table) as u32;
    member.flood = FloodRates {
        unknown: rate(keys::FLOOD_UNKNOWN),
        broadcast: rate(keys::FLOOD_BROADCAST),
        multicast: rate(keys::FLOOD_MULTICAST),
    };
    Some(())
}

/// `"all"`, or a list of VLANs and ranges: `[10, "20-30"]`.
fn trunk(value: &Value<'_>) -> Option<Vec<RangeInclusive<u16>>> {
    let what = "\"all\", or VLANs from 1 to 4094 and ranges such as \"20-30\"";
    if value.text() == Some("all") {
        return Some(vec![1..=4094]);
    }
    let mut vlans = Vec::new();
    for value in value.list()? {
        let text = value.option().unwrap_or_default();
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last && last <= 4094 => {
                vlans.push(first..=last);
            }
            _ => return value.expected(what),
        }
    }
    if vlans.is_empty() { value.expected(what) } else { Some(vlans) }
}

/// The routed interfaces: the bridge's own, or those of its VLANs.
fn routed(bridge: &mut Bridge, table: Table<'_>, value: &Value<'_>, ports: &[Port]) -> Option<()> {
    let mtus = bridge.ports.iter().filter_map(|member| {
        let port = ports.iter().find(|port| port.name == member.port)?;
        Some(port.interface.mtu)
    });
    let mtu = mtus.min().unwrap_or(1500);
    let own = interface(table, bridge.name.clone(), mtu, "main");
    check_mtu(&own, mtu, table);
    if keys::ADDRESSES.get(table).is_some() {
        if bridge.looks_at_tags() {
            let text = "the ports of this bridge have VLANs: give the addresses to one of them, \
                        as [bridge.NAME.vlan.10]";
            return value.mistake(text);
        }
        bridge.interface = Some(own.clone());
    }
    let known = bridge.domains();
    bridge.vlans = named(table, "vlan", |name, value, table| {
        only(table, &[keys::VLAN], &[]);
        let Some(VlanTags::One(vlan)) = vlan_tags(name).filter(|tags| has(&known, tags)) else {
            return value.mistake("no port of the bridge has this VLAN");
        };
        let of = interface(table, format!("{}.{vlan}", bridge.name), mtu, &own.vrf);
        check_mtu(&of, mtu, table);
        Some((vlan, of))
    });
    Some(())
}

fn has(known: &[u16], tags: &VlanTags) -> bool {
    matches!(tags, VlanTags::One(vlan) if known.contains(vlan))
}

/// What the routed interface sends must fit through every port.
fn check_mtu(interface: &Interface, least: u16, table: Table<'_>) {
    if interface.mtu > least {
        let text = format!("its mtu exceeds that of a port of the bridge, {least}");
        table.mistake(text);
    }
}

fn macs(bridge: &Bridge, table: Table<'_>) -> Vec<StaticMac> {
    let mut taken = Once::new();
    elements(table, keys::STATION, |table| {
        let mac = keys::MAC.required(table).and_then(|value| mac(&value))?;
        let vlan = keys::MAC_VLAN.as_number(table) as u16;
        if !bridge.domains().contains(&vlan) {
            table.mistake(format_args!("the bridge has no VLAN {vlan}"));
            return None;
        }
        let port = keys::MAC_PORT.required(table)?;
        let member = bridge.ports.iter().find(|member| port.text() == Some(&member.port));
        let Some(member) = member else { return port.expected("a port of this bridge") };
        if bridge.looks_at_tags() && !member.mode.vlans().any(|of| of == vlan) {
            return port.expected(format_args!("a port of VLAN {vlan}"));
        }
        if let Some(first) = taken.take((mac.0, vlan), &member.port) {
            table.mistake(format_args!("the station is at `{first}` already"));
        }
        Some(StaticMac { mac, vlan, port: member.port.clone() })
    })
}
