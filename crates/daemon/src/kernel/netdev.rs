//! Settings of a network interface that are not in `/proc/sys`: its MTU, and offloads under the
//! names of `ethtool -k`. [`Settings`](super::Settings) changes and restores them by names of its
//! own: `link/eth1/mtu`, `link/eth1/rx-gro`.

use std::io;

use netlink::connection::Netlink;
use netlink::message::attributes;
use netlink::names::*;
use netlink::request::Request;
use netlink_sys::protocols::NETLINK_GENERIC;

use super::link::Rtnetlink;

/// Offloads that change frames before a packet socket receives them: several frames joined into one
/// are longer than any MTU.
pub const GLUING: [&str; 5] =
    ["rx-gro", "rx-gro-list", "rx-udp-gro-forwarding", "rx-lro", "rx-gro-hw"];

/// The value of `INTERFACE/SETTING`: a number, or `on` and `off`.
///
/// # Errors
/// When there is no such interface, or the kernel has no such command.
pub fn get(setting: &str) -> io::Result<String> {
    let (name, key) = split(setting)?;
    if key == "mtu" {
        return Ok(Rtnetlink::open()?.link(name)?.mtu.to_string());
    }
    let on = active(name)?.iter().any(|feature| feature == key);
    Ok(if on { "on" } else { "off" }.into())
}

/// Changes the value.
///
/// # Errors
/// As [`get`], when the value is invalid, and when the kernel refuses.
pub fn set(setting: &str, value: &str) -> io::Result<()> {
    let (name, key) = split(setting)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{value}` for {setting}"));
    if key == "mtu" {
        let mut kernel = Rtnetlink::open()?;
        let index = kernel.link(name)?.index;
        return kernel.set_mtu(index, value.parse().map_err(|_| wrong())?);
    }
    match value {
        "on" => set_feature(name, key, true),
        "off" => set_feature(name, key, false),
        _ => Err(wrong()),
    }
}

fn split(setting: &str) -> io::Result<(&str, &str)> {
    let parts = setting.split_once('/');
    parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, setting.to_string()))
}

/// Names of the features that are on. (`ethtool`'s netlink is there since Linux 5.6.)
fn active(name: &str) -> io::Result<Vec<String>> {
    let mut generic = Netlink::open(NETLINK_GENERIC)?;
    let message =
        Request::new(ethtool(&mut generic)?, 0).body(&[ETHTOOL_MSG_FEATURES_GET, 1, 0, 0]);
    let device = |header: Request| header.text(ETHTOOL_A_HEADER_DEV_NAME, name);
    let answers = generic.get(message.nest(ETHTOOL_A_FEATURES_HEADER, device))?;
    let rest = answers.first().and_then(|answer| answer.get(4..)).unwrap_or_default();
    let inner = |bytes: &[u8], wanted: u16| {
        let found = attributes(bytes).find(|(kind, _)| *kind == wanted);
        found.map(|(_, value)| value.to_vec()).unwrap_or_default()
    };
    let bits = inner(&inner(rest, ETHTOOL_A_FEATURES_ACTIVE), ETHTOOL_A_BITSET_BITS);
    let name = |(_, bit): (u16, &[u8])| {
        let text = inner(bit, ETHTOOL_A_BITSET_BIT_NAME);
        String::from_utf8_lossy(&text).trim_end_matches('\0').to_string()
    };
    Ok(attributes(&bits).map(name).collect())
}

fn set_feature(name: &str, feature: &str, on: bool) -> io::Result<()> {
    let mut generic = Netlink::open(NETLINK_GENERIC)?;
    let message =
        Request::new(ethtool(&mut generic)?, 0).body(&[ETHTOOL_MSG_FEATURES_SET, 1, 0, 0]);
    let bit = |bit: Request| {
        let bit = bit.text(ETHTOOL_A_BITSET_BIT_NAME, feature);
        if on { bit.attr(ETHTOOL_A_BITSET_BIT_VALUE, &[]) } else { bit }
    };
    let message = message
        .nest(ETHTOOL_A_FEATURES_HEADER, |header| header.text(ETHTOOL_A_HEADER_DEV_NAME, name))
        .nest(ETHTOOL_A_FEATURES_WANTED, |set| {
            set.nest(ETHTOOL_A_BITSET_BITS, |bits| bits.nest(ETHTOOL_A_BITSET_BITS_BIT, bit))
        });
    generic.request(message)
}

/// The number that the kernel gave to ethtool's family.
fn ethtool(generic: &mut Netlink) -> io::Result<u16> {
    let message = Request::new(GENL_ID_CTRL, 0).body(&[CTRL_CMD_GETFAMILY, 1, 0, 0]);
    let answers = generic.get(message.text(CTRL_ATTR_FAMILY_NAME, "ethtool"))?;
    let rest = answers.first().and_then(|answer| answer.get(4..)).unwrap_or_default();
    let id = attributes(rest).find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID);
    let id = id.and_then(|(_, value)| Some(u16::from_ne_bytes(value.try_into().ok()?)));
    id.ok_or_else(|| io::Error::other("the kernel names no ethtool family"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loopback_has_is_read_and_nothing_else_is_there() {
        assert!(get("lo/mtu").unwrap().parse::<u32>().unwrap() >= 1280);
        if let Ok(segments) = get("lo/tx-tcp-segmentation") {
            assert!(["on", "off"].contains(&segments.as_str()));
            assert_eq!(get("lo/no-such-feature").unwrap(), "off");
        }
        assert!(get("no-such-link/mtu").is_err() && get("lo").is_err());
        assert!(set("lo/mtu", "many").is_err() && set("lo/rx-gro", "perhaps").is_err());
        assert!(set("no-such-link/rx-gro", "off").is_err());
    }
}
