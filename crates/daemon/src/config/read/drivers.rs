//! Checks a port's device, as far as its description shows it: the driver must exist, and an
//! interface of the kernel must be usable as a port.

use super::{Device, Table, keys};
use crate::config::mistake::nearest;

/// Why no machine has such a device, and what to write instead.
pub(super) fn objection(device: &Device) -> Option<String> {
    if device.netdevs().contains(&"lo") {
        let why = "`lo` carries no Ethernet, and the kernel needs it: name another interface \
                   (`ip link add v0 type veth peer name v1` makes a pair to try with)";
        return Some(why.into());
    }
    let Device::Dpdk(text) = device else { return None };
    let mut words = text.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    // Others, such as 0000:03:00.0, name a place on a bus.
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let mut drivers = DRIVERS.iter().filter(|(driver, _)| name.starts_with(driver));
    let Some((_, needs)) = drivers.next() else {
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let near = nearest(kind, DRIVERS.iter().map(|(driver, _)| *driver));
        let near = near.map(|near| format!(" (did you mean `{near}0`?)")).unwrap_or_default();
        return Some(format!(
            "no driver takes a device called `{name}`{near}: write an interface of the kernel as \
             \"packet:{name}\", a network card as its PCI address, and any other device with the \
             name of its DPDK driver first, as in \"net_tap0\""
        ));
    };
    let given = |key: &&str| {
        let value = |word: &str| Some(word.strip_prefix(*key)?.strip_prefix('=')?.is_empty());
        text.split(',').any(|word| value(word.trim()) == Some(false))
    };
    if needs.is_empty() || needs.iter().any(given) {
        return None;
    }
    let (key, example) = (needs[0], if needs[0] == "iface" { "eth1" } else { "..." });
    Some(format!("`{name}` needs `{key}=`: \"{name},{key}={example}\""))
}

/// Whether frames come from the device of a port's table with 0x88a8 where they had it.
pub(super) fn keeps_service_tags(port: Table<'_>) -> bool {
    let device = keys::DEVICE.get(port);
    let text = device.as_ref().and_then(|value| value.text()).unwrap_or_default();
    !["net_af_packet", "eth_af_packet"].iter().any(|driver| text.starts_with(driver))
}

/// DPDK's drivers for devices without a bus, with their mandatory keys, one of which must be given.
/// (`strings librte_net_*.so`, 22.11; a device's name begins with its driver's.)
const DRIVERS: &[(&str, &[&str])] = &[
    ("eth_af_packet", &["iface"]),
    ("eth_bond", &["mode"]),
    ("eth_kni", &[]),
    ("eth_mvpp2", &["iface"]),
    ("eth_null", &[]),
    ("eth_octeontx", &[]),
    ("eth_pcap", PCAP),
    ("eth_ring", &[]),
    ("eth_tap", &[]),
    ("eth_vdev_netvsc", &[]),
    ("eth_vhost", &["iface"]),
    ("net_af_packet", &["iface"]),
    ("net_af_xdp", &["iface"]),
    ("net_bonding", &["mode"]),
    ("net_enetfec", &[]),
    ("net_failsafe", &[]),
    ("net_kni", &[]),
    ("net_memif", &[]),
    ("net_mvneta", &["iface"]),
    ("net_mvpp2", &["iface"]),
    ("net_null", &[]),
    ("net_octeontx", &[]),
    ("net_pcap", PCAP),
    ("net_pfe", &[]),
    ("net_ring", &[]),
    ("net_softnic", &[]),
    ("net_tap", &[]),
    ("net_tun", &[]),
    ("net_vdev_netvsc", &[]),
    ("net_vhost", &["iface"]),
    ("net_virtio_user", &["path"]),
    ("virtio_user", &["path"]),
];
const PCAP: &[&str] = &["iface", "rx_pcap", "rx_iface", "rx_iface_in", "tx_pcap", "tx_iface"];
