//! Values that may be in a file only once.

use std::collections::HashMap;
use std::hash::Hash;

use super::*;

/// The first owner of each value.
pub(crate) struct Once<K>(HashMap<K, String>);

impl<K: Eq + Hash> Once<K> {
    pub(crate) fn new() -> Self {
        Once(HashMap::new())
    }

    /// Gives `thing` to `owner`; returns the present owner, if there is one.
    pub(crate) fn take(&mut self, thing: K, owner: &str) -> Option<&str> {
        use std::collections::hash_map::Entry;
        match self.0.entry(thing) {
            Entry::Occupied(first) => Some(first.into_mut()),
            Entry::Vacant(place) => {
                place.insert(owner.into());
                None
            }
        }
    }
}

/// Resources of the machine that a port needs for itself: a device's name, a netdev, a file.
pub(super) fn claims(device: &Device) -> Vec<String> {
    match device {
        Device::Mem => Vec::new(),
        Device::Tap(name) | Device::Packet(name) => vec![name.clone()],
        Device::Pcap { output, .. } => output.iter().cloned().collect(),
        Device::Dpdk(text) => {
            let name = text.split(',').next().map(|name| name.trim().to_string());
            let netdevs = device.netdevs().into_iter().map(str::to_string);
            name.into_iter().chain(netdevs).collect()
        }
    }
}

/// No interface of the router may have the name of one below a port.
pub(super) fn netdev_names(config: &Config, table: Table<'_>) {
    let names: Vec<_> = config.interfaces().map(|(.., of)| of.name.as_str()).collect();
    each_table(table, "ports", &mut |name, inner| {
        let port = config.ports.iter().find(|port| port.name == name);
        let below = port.map(|port| port.device.netdevs()).unwrap_or_default();
        if let Some(both) = below.iter().find(|below| names.contains(below))
            && let Some(value) = inner.get("device")
        {
            value.mistake::<()>(format_args!(
                "the router's own interface in the kernel would also be called `{both}`: give \
                 the port, or the bridge, another name"
            ));
        }
    });
}

/// No two interfaces of a VRF may have the same address, and no interface has one twice. A
/// link-local address may be on every link.
pub(super) fn addresses(table: Table<'_>, carriers: &[&str]) {
    let mut taken = Once::new();
    networks::each_interface(table, carriers, &mut |table, vrf, name| {
        let list = table.get("addresses").filter(Value::is_list).and_then(|value| value.list());
        for value in list.unwrap_or_default() {
            let Some(net) = value.text().and_then(|text| text.parse::<Net>().ok()) else {
                continue; // reported where it was read
            };
            let link = if is_link_local6(net.address) { name } else { "" };
            let address = (vrf.to_string(), net.address, link.to_string());
            if let Some(first) = taken.take(address, name) {
                let text = format!("`{first}` of the same vrf has this address already");
                value.mistake::<()>(text);
            }
        }
    });
}

/// A table of the kernel belongs to one VRF, and no VRF has the name of an interface.
pub(super) fn tables(config: &Config, table: Table<'_>) {
    let mut taken = Once::new();
    let names: Vec<_> = config.interfaces().map(|(.., of)| of.name.as_str()).collect();
    // In the order of the file; `main` may be missing there.
    taken.take(254, "main");
    each_table(table, "vrf", &mut |name, inner| {
        if name != "main" && names.contains(&name) {
            inner.mistake("an interface has this name, which the vrf's device in the kernel needs");
        }
        let known = |vrf: &&Vrf| vrf.name == name && name != "main" && vrf.table != 0;
        let Some(vrf) = config.vrfs.iter().find(known) else { return };
        if let (Some(first), Some(value)) = (taken.take(vrf.table, name), inner.get("table")) {
            value.mistake::<()>(format_args!("`{first}` already uses this table"));
        }
    });
}
