//! Ports, their VLANs and addresses.

use super::drivers;
use super::once::Once;
use super::*;

pub(super) fn ports(table: Table<'_>) -> Vec<Port> {
    let mut taken = Once::new();
    named(table, "ports", |name, value, table| {
        only(table, &[keys::PORT], &["vlan"]);
        if RESERVED.contains(&name) {
            return value
                .mistake("the kernel has interfaces or settings of this name: choose another");
        }
        if !is_port_name(name) {
            let rule = "the name of a port starts with a letter and has up to 10 letters, digits, \
                        `-`, `_` (the kernel's interface and p0.4094 must fit)";
            return value.mistake(rule);
        }
        let mtu = keys::MTU.default_number() as u16;
        let interface = interface(table, name.into(), mtu, "main");
        let vlans = vlans(table, &interface, drivers::keeps_service_tags(table));
        let device_value = keys::DEVICE.required(table)?;
        let device = device(&device_value)?;
        if let Some(why) = drivers::objection(&device) {
            device_value.mistake::<()>(why);
        }
        for claim in once::claims(&device) {
            if let Some(first) = taken.take(claim.clone(), name) {
                return device_value.mistake(format_args!("`{first}` has `{claim}` already"));
            }
        }
        Some(Port {
            name: name.into(),
            device,
            device_text: device_value.text().unwrap_or_default().into(),
            queues: keys::QUEUES.as_number(table) as u16,
            mac: keys::MAC.get(table).and_then(|value| mac(&value)),
            interface,
            vlans,
        })
    })
}

/// True for names that a port, or a VRF beside it in the kernel, may have.
pub(crate) fn is_port_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 10
        && name.chars().all(inner)
        && !RESERVED.contains(&name)
}

/// Names under /proc/sys/net/ipv4/conf that are no port's.
pub(super) const RESERVED: [&str; 3] = ["all", "default", "lo"];

/// The address of a single station.
pub(crate) fn mac(value: &Value<'_>) -> Option<Mac> {
    let mac: Mac = value.parse("a hardware address, such as \"02:00:00:00:00:01\"")?;
    if mac.is_station() { Some(mac) } else { value.expected("the address of a single station") }
}

fn device(value: &Value<'_>) -> Option<Device> {
    let expected = "a device: \"packet:eth1\", a PCI address or another DPDK device argument such as \
                    \"net_af_xdp0,iface=eth1\", \"mem\" or \"pcap:IN,OUT\"";
    let text = match value.text() {
        Some(text) if !text.trim().is_empty() => text,
        _ => return value.expected(expected),
    };
    if text == "mem" {
        return Some(Device::Mem);
    }
    let fits = |name: &str| !name.is_empty() && name.len() < 16 && !name.contains(['/', ',', ' ']);
    if let Some(name) = text.strip_prefix("tap:") {
        return if fits(name) {
            Some(Device::Tap(name.into()))
        } else {
            value.expected("tap:NAME")
        };
    }
    if let Some(name) = text.strip_prefix("packet:") {
        let name = name.strip_suffix(",direct").unwrap_or(name);
        let packet = fits(name).then(|| Device::Packet(name.into()));
        return packet.or_else(|| value.expected("packet:IFACE or packet:IFACE,direct"));
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
    if input.is_some() && input == output {
        return value.expected("two files: the output would overwrite the input");
    }
    Some(Device::Pcap { input, output, raw })
}

/// A table's settings of its interface; `mtu` and `vrf` are the defaults.
pub(crate) fn interface(table: Table<'_>, name: String, mtu: u16, vrf: &str) -> Interface {
    let addresses = keys::ADDRESSES.get(table).and_then(|value| value.list()).unwrap_or_default();
    let named = keys::VRF_NAME.get(table).and_then(|value| value.parse("the name of a vrf"));
    let vrf = named.unwrap_or(vrf.into());
    let addresses: Vec<Net> = addresses.iter().filter_map(interface_address).collect();
    let mtu = keys::MTU.given_number(table).map_or(mtu, |mtu| mtu as u16);
    if mtu < LEAST_MTU6 && addresses.iter().any(|net| net.address.is_ipv6()) {
        table.mistake(format_args!("IPv6 needs an mtu of at least {LEAST_MTU6} (RFC 8200)"));
    }
    Interface { name, addresses, mtu, vrf }
}

/// RFC 8200 §5.
const LEAST_MTU6: u16 = 1280;

fn interface_address(value: &Value<'_>) -> Option<Net> {
    let what = "an address with the length of its network, such as \"192.0.2.1/24\"";
    let net: Net = value.parse(what)?;
    if !is_of_host(net.address) {
        return value.expected("an address of a single host");
    }
    if let Some(what) = net.reserved_as() {
        return value.mistake(format_args!("`{net}` is {what} its network, not of a host in it"));
    }
    Some(net)
}

fn vlans(
    table: Table<'_>,
    port: &Interface,
    keeps_service_tags: bool,
) -> Vec<(VlanTags, Interface)> {
    named(table, "vlan", |name, value, table| {
        only(table, &[keys::VLAN], &[]);
        let tags = match vlan_tags(name) {
            None => {
                let what = "expected a VLAN from 1 to 4094, or outer and inner as \"7.8\"";
                return value.mistake(what);
            }
            Some(VlanTags::One(vlan)) => {
                if let Some(outer) = keys::OUTER.get(table) {
                    return outer.mistake("`outer` is for two tags, as in \"7.8\"");
                }
                VlanTags::One(vlan)
            }
            Some(VlanTags::Two(_, outer, inner)) => {
                VlanTags::Two(keys::OUTER.as_word(table, Outer::ALL), outer, inner)
            }
        };
        if matches!(tags, VlanTags::Two(Outer::Dot1ad, ..)) && !keeps_service_tags {
            return value.mistake(
                "DPDK's driver changes the outer tag's 0x88a8 to 0x8100 in frames that it \
                 receives: use a device such as \"packet:eth1\", or outer = \"0x8100\" at both \
                 ends",
            );
        }
        let full = format!("{}.{name}", port.name);
        if full.len() > 15 {
            let text = format!("`{full}` is longer than the 15 letters of an interface's name");
            return value.mistake(text);
        }
        let vlan = interface(table, full, port.mtu, &port.vrf);
        if vlan.mtu > port.mtu {
            return value.mistake(format_args!("its mtu exceeds the port's, {}", port.mtu));
        }
        Some((tags, vlan))
    })
}

/// `100`, or outer and inner as `7.8`; their outer one is a service tag.
pub(crate) fn vlan_tags(name: &str) -> Option<VlanTags> {
    let vlan = |text: &str| {
        let number: u16 = text.parse().ok()?;
        ((1..=4094).contains(&number) && number.to_string() == text).then_some(number)
    };
    match name.split_once('.') {
        None => vlan(name).map(VlanTags::One),
        Some((outer, inner)) => Some(VlanTags::Two(Outer::default(), vlan(outer)?, vlan(inner)?)),
    }
}

/// One of these interfaces.
pub(crate) fn check_interface(value: &Value<'_>, names: &[&str]) -> Option<String> {
    let found = value.text().filter(|text| names.contains(text));
    found
        .map(str::to_string)
        .or_else(|| value.expected(format_args!("an interface of this file: {}", names.join(", "))))
}
