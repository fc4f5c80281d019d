//! Bridges.

use std::ops::RangeInclusive;

use tables::bridge::{DomainId, FloodRates};
use tables::switch::{Mode, WhenFull};

use super::once::Once;
use super::ports::{interface, is_port_name, mac, vlan_tags};
use super::*;
use crate::config::bridge::{Bridge, BridgePort, StaticMac};

/// Reads all bridges; takes the routed interface from ports that are in one.
pub(super) fn bridges(table: Table<'_>, ports: &[Port]) -> Vec<Bridge> {
    let mut taken: Vec<String> = Vec::new();
    let mut left = DomainId::MOST;
    named(table, "bridge", |name, value, table| {
        table.only(&[&names("bridge.NAME")[..], &["port", "vlan", "mac"]].concat());
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
            max_macs: number(table, "max_macs", 16..=MOST_MACS, 1_000_000),
            when_full: when_full(table),
            ageing: number(table, "ageing", 8..=1_000_000, 300) as u32,
            forwards_link_local: table
                .get("link_local")
                .and_then(|value| value.word(&[("drop", false), ("forward", true)]))
                == Some(true),
            macs: Vec::new(),
        };
        let domains = bridge.domains().len();
        if domains > left {
            let most = DomainId::MOST;
            return value.mistake(format_args!(
                "all bridges together have more than {most} VLANs, a bridge without any counted \
                 as one and `trunk = \"all\"` as 4094: name those in use, as in \
                 trunk = [10, \"20-30\"]"
            ));
        }
        left -= domains;
        routed(&mut bridge, table, value, ports)?;
        bridge.macs = macs(&bridge, table);
        Some(bridge)
    })
}

fn when_full(table: Table<'_>) -> WhenFull {
    let words = [("refuse", WhenFull::Refuse), ("replace", WhenFull::Replace)];
    table.get("when_full").and_then(|value| value.word(&words)).unwrap_or_default()
}

fn members(table: Table<'_>, ports: &[Port], taken: &mut Vec<String>) -> Option<Vec<BridgePort>> {
    let list = required(table, "ports")?;
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
        table.only(&names("bridge.NAME.port.PORT"));
        match members.iter_mut().find(|member| member.port == name) {
            Some(found) => member(found, table),
            None => value.mistake("this port is not in the list `ports` of its bridge"),
        }
    });
    drop(settings);
    let plain = members.iter().filter(|member| member.mode == Mode::Plain).count();
    if plain > 0 && plain < members.len() {
        let plain = members.iter().find(|member| member.mode == Mode::Plain)?;
        let text = format_args!(
            "`{}` has neither `access` nor `trunk`: either all ports of a bridge have, or none",
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
    let vlan =
        |key| table.get(key).and_then(|value| value.number(1..=4094)).map(|vlan| vlan as u16);
    let tunnel = table.get("tunnel").and_then(|value| value.flag()) == Some(true);
    let native = vlan("native");
    let trunk = table.get("trunk").map(|value| trunk(&value));
    member.mode = match (vlan("access"), trunk) {
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
    member.isolated = table.get("isolated").and_then(|value| value.flag()) == Some(true);
    member.max_macs = table.get("max_macs").and_then(|value| value.number(1..=MOST_MACS));
    let rate = |key, default: u32| number(table, key, 0..=1 << 31, default.into()) as u32;
    let default = FloodRates::default();
    member.flood = FloodRates {
        unknown: rate("flood_unknown", default.unknown),
        broadcast: rate("flood_broadcast", default.broadcast),
        multicast: rate("flood_multicast", default.multicast),
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
    if table.get("addresses").is_some() {
        if bridge.looks_at_tags() {
            let text = "the ports of this bridge have VLANs: give the addresses to one of them, \
                        as [bridge.NAME.vlan.10]";
            return value.mistake(text);
        }
        bridge.interface = Some(own.clone());
    }
    let known = bridge.domains();
    bridge.vlans = named(table, "vlan", |name, value, table| {
        table.only(&names("bridge.NAME.vlan.VLAN"));
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
        let text = format_args!("its mtu exceeds that of a port of the bridge, {least}");
        table.mistake(text);
    }
}

fn macs(bridge: &Bridge, table: Table<'_>) -> Vec<StaticMac> {
    let Some(value) = table.get("mac") else { return Vec::new() };
    let mut taken = Once::new();
    let one = |value: &Value<'_>| {
        let table = value.table()?;
        table.only(&names("bridge.NAME.mac[]"));
        let mac = required(table, "mac").and_then(|value| mac(&value))?;
        let vlan = number(table, "vlan", 0..=4094, 0) as u16;
        if !bridge.domains().contains(&vlan) {
            table.mistake(format_args!("the bridge has no VLAN {vlan}"));
            return None;
        }
        let port = required(table, "port")?;
        let member = bridge.ports.iter().find(|member| port.text() == Some(&member.port));
        let Some(member) = member else { return port.expected("a port of this bridge") };
        if bridge.looks_at_tags() && !member.mode.vlans().any(|of| of == vlan) {
            return port.expected(format_args!("a port of VLAN {vlan}"));
        }
        if let Some(first) = taken.take((mac.0, vlan), &member.port) {
            table.mistake(format_args!("the station is at `{first}` already"));
        }
        Some(StaticMac { mac, vlan, port: member.port.clone() })
    };
    value.list().unwrap_or_default().iter().filter_map(one).collect()
}

/// As many as the paper's.
const MOST_MACS: u64 = 1 << 30;
