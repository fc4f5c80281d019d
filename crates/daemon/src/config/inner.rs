//! Ports that are not devices: an application creates them, with other ports behind them.

use super::{Interface, Port, VlanTags};

/// A port that is not a device, such as a bridge's routed side. The ports behind it carry no
/// interfaces of their own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InnerPort {
    /// Its name.
    pub name: String,
    /// The table of the file that defines it.
    pub table: &'static str,
    /// Names of the ports behind it; the first gives it its hardware address.
    pub members: Vec<String>,
    /// The interfaces that it carries.
    pub interfaces: Vec<InnerInterface>,
}

/// An interface of an inner port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InnerInterface {
    /// Tags of its frames.
    pub tags: Option<VlanTags>,
    /// The interface.
    pub interface: Interface,
    /// Names of the ports that its frames use.
    pub ports: Vec<String>,
}

/// The carrier of a layer-3 interface.
#[derive(Clone, Copy, Debug)]
pub enum Carrier<'c> {
    /// A port.
    Port(&'c Port),
    /// A port that an application brings.
    Inner(&'c InnerPort),
}

impl<'c> Carrier<'c> {
    /// The keys to its interface with these tags, from the root of the file.
    pub fn path(&self, tags: Option<VlanTags>) -> Vec<String> {
        let (kind, name) = match self {
            Carrier::Port(port) => ("ports", &port.name),
            Carrier::Inner(inner) => (inner.table, &inner.name),
        };
        let vlan = tags.map(|tags| ["vlan".to_string(), tags.to_string()]);
        [kind.to_string(), name.clone()].into_iter().chain(vlan.into_iter().flatten()).collect()
    }

    /// The ports that frames with these tags use.
    pub fn ports(&self, tags: Option<VlanTags>) -> Vec<&'c str> {
        match self {
            Carrier::Port(port) => vec![&port.name],
            Carrier::Inner(inner) => {
                let of = inner.interfaces.iter().find(|of| of.tags == tags);
                of.into_iter().flat_map(|of| &of.ports).map(String::as_str).collect()
            }
        }
    }

    /// The name of the port whose hardware address the interface has: for an inner port, its first.
    pub fn port(&self) -> &str {
        match self {
            Carrier::Port(port) => &port.name,
            Carrier::Inner(inner) => inner.members.first().map_or("", String::as_str),
        }
    }
}
