//! Links and their addresses.

use std::io;
use std::net::IpAddr;

use netlink::connection::Netlink;
use netlink::message::{attributes, find};
use netlink::names::*;
use netlink::request::{CREATE, REPLACE, Request};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::OUR_PROTOCOL;
use crate::config::{Mac, Net};

/// A link as the kernel shows it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LinkInfo {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// With carrier.
    pub running: bool,
    /// Bytes of layer 3.
    pub mtu: u32,
    /// Hardware address.
    pub mac: Mac,
    /// An instance of Rutter's has made it, this one or another.
    pub ours: bool,
    /// The VRF device or bridge above it, 0 where there is none.
    pub master: u32,
    /// Its table, where it is a VRF device.
    pub vrf_table: Option<u32>,
    /// A tap, whoever created it: an instance can take it over.
    pub tap: bool,
    /// The number of the link below, where it is a macvlan of this namespace.
    pub macvlan_of: Option<u32>,
}

/// An address as the kernel shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressInfo {
    /// The number of its link.
    pub link: u32,
    /// The address, and how much of it is its network's.
    pub net: Net,
    /// Rutter has set it.
    pub ours: bool,
    /// The kernel answers for it: nobody is asked any more whether they have it, or has said so.
    pub settled: bool,
    /// The kernel has made a route to its network.
    pub connected: bool,
}

/// Changes links, addresses, routes, rules and neighbours.
pub struct Rtnetlink(pub(super) Netlink);

impl Rtnetlink {
    /// Connects.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open() -> io::Result<Rtnetlink> {
        Netlink::open(NETLINK_ROUTE).map(Rtnetlink)
    }

    /// The link called `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn link(&mut self, name: &str) -> io::Result<LinkInfo> {
        let message = Request::new(RTM_GETLINK, 0).body(&ifinfo(0, 0, 0)).text(IFLA_IFNAME, name);
        let answers = self.0.get(message)?;
        let info = answers.first().and_then(|answer| link_info(answer));
        info.ok_or_else(|| io::Error::other("the kernel's answer is not understood"))
    }

    /// All links.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn links(&mut self) -> io::Result<Vec<LinkInfo>> {
        let answers = self.0.dump(Request::new(RTM_GETLINK, 0).body(&ifinfo(0, 0, 0)))?;
        Ok(answers.iter().filter_map(|answer| link_info(answer)).collect())
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_up(&mut self, index: u32, up: bool) -> io::Result<()> {
        let flags = if up { IFF_UP } else { 0 };
        self.0.request(Request::new(RTM_NEWLINK, 0).body(&ifinfo(index, flags, IFF_UP)))
    }

    /// Sets the MTU.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> io::Result<()> {
        let message = Request::new(RTM_NEWLINK, 0).body(&ifinfo(index, 0, 0));
        self.0.request(message.attr(IFLA_MTU, &u32::from(mtu).to_ne_bytes()))
    }

    /// Sets the hardware address.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> io::Result<()> {
        let message = Request::new(RTM_NEWLINK, 0).body(&ifinfo(index, 0, 0));
        self.0.request(message.attr(IFLA_ADDRESS, &mac.0))
    }

    /// Marks a link as made by Rutter; it shows as its alias.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn mark(&mut self, index: u32) -> io::Result<()> {
        let message = Request::new(RTM_NEWLINK, 0).body(&ifinfo(index, 0, 0));
        self.0.request(message.attr(IFLA_IFALIAS, MARK))
    }

    /// Sets the carrier of a tap.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_carrier(&mut self, index: u32, on: bool) -> io::Result<()> {
        let message = Request::new(RTM_NEWLINK, 0).body(&ifinfo(index, 0, 0));
        self.0.request(message.attr(IFLA_CARRIER, &[u8::from(on)]))
    }

    /// Deletes a link.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete_link(&mut self, index: u32) -> io::Result<()> {
        self.0.request(Request::new(RTM_DELLINK, 0).body(&ifinfo(index, 0, 0)))
    }

    /// The addresses of a link, and whether Rutter set each.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<(Net, bool)>> {
        let all = self.all_addresses()?.into_iter().filter(|one| one.link == index);
        Ok(all.map(|one| (one.net, one.ours)).collect())
    }

    /// The addresses of all links; of a network of IPv4 the first is the kernel's primary.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn all_addresses(&mut self) -> io::Result<Vec<AddressInfo>> {
        let answers = self.0.dump(Request::new(RTM_GETADDR, 0).body(&[0; 8]))?;
        Ok(answers.iter().filter_map(|answer| address_info(answer)).collect())
    }

    /// Refuses a link as a port's that has addresses: the kernel would answer for them,
    /// beside the port.
    ///
    /// # Errors
    /// What to do with one of them.
    pub fn refuse_addresses(&mut self, index: u32, name: &str) -> Result<(), String> {
        let addresses = self.addresses(index).map_err(|error| error.to_string())?;
        let link_local = |address: IpAddr| match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(a) => a.is_unicast_link_local(),
        };
        match addresses.iter().find(|(net, _)| !link_local(net.address)) {
            Some((net, _)) => Err(format!(
                "{name} has the address {net} in the kernel; take it away \
                 (ip address del {net} dev {name}) and give it to the port (`addresses`)"
            )),
            None => Ok(()),
        }
    }

    /// Adds an address, marked as Rutter's. Without `connected` the kernel makes
    /// no route to its network.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_address(&mut self, index: u32, net: Net, connected: bool) -> io::Result<()> {
        let mut message = address_message(RTM_NEWADDR, REPLACE, index, net);
        if !connected {
            message = message.attr(IFA_FLAGS, &IFA_F_NOPREFIXROUTE.to_ne_bytes());
        }
        let marked = message.clone().attr(IFA_PROTO, &[OUR_PROTOCOL]);
        // Kernels before 5.18 do not know whose an address is.
        self.0.request(marked).or_else(|_| self.0.request(message))
    }

    /// Takes an address out.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete_address(&mut self, index: u32, net: Net) -> io::Result<()> {
        self.0.request(address_message(RTM_DELADDR, 0, index, net))
    }

    /// Makes a VRF device for a kernel table, or finds it; true where it was made.
    /// One that Rutter made for another table is made anew.
    ///
    /// # Errors
    /// When the kernel has none (`CONFIG_NET_VRF`), or refuses; when somebody's
    /// link of another kind, or for another table, has the name.
    pub fn add_vrf(&mut self, name: &str, table: u32) -> io::Result<(u32, bool)> {
        let there = self.link(name).ok();
        let found = there.as_ref().filter(|link| link.vrf_table == Some(table));
        let index = match (found, &there) {
            (Some(link), _) => link.index,
            (None, Some(link)) if !link.ours => {
                return Err(io::Error::other(format!("{name} is not the VRF of table {table}")));
            }
            (None, old) => {
                old.iter().try_for_each(|old| self.delete_link(old.index))?;
                let message = Request::new(RTM_NEWLINK, CREATE).body(&ifinfo(0, 0, 0));
                self.0.request(message.text(IFLA_IFNAME, name).nest(IFLA_LINKINFO, |info| {
                    let info = info.text(IFLA_INFO_KIND, "vrf");
                    info.nest(IFLA_INFO_DATA, |data| {
                        data.attr(IFLA_VRF_TABLE, &table.to_ne_bytes())
                    })
                }))?;
                self.link(name)?.index
            }
        };
        self.set_up(index, true)?;
        Ok((index, found.is_none()))
    }

    /// Puts a link below a VRF device, or below none (0). Does nothing where it is
    /// there; else the link goes down for a moment, and loses what it then loses.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_master(&mut self, index: u32, master: u32) -> io::Result<()> {
        let message = Request::new(RTM_NEWLINK, 0).body(&ifinfo(index, 0, 0));
        self.0.request(message.attr(IFLA_MASTER, &master.to_ne_bytes()))
    }
}

/// `struct ifinfomsg`.
fn ifinfo(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The contents of a kernel message about a link.
pub(super) fn link_info(answer: &[u8]) -> Option<LinkInfo> {
    let flags = word(answer, 8)?;
    let (up, running) = (flags & IFF_UP != 0, flags & IFF_RUNNING != 0);
    let mut info = LinkInfo { index: word(answer, 4)?, up, running, ..LinkInfo::default() };
    let (mut below, mut macvlan, mut elsewhere) = (None, false, false);
    for (kind, value) in attributes(answer.get(16..)?) {
        match kind {
            IFLA_IFNAME => info.name = String::from_utf8_lossy(value).trim_end_matches('\0').into(),
            IFLA_MTU => info.mtu = word(value, 0)?,
            IFLA_IFALIAS => info.ours = value.strip_suffix(&[0]).unwrap_or(value) == MARK,
            IFLA_ADDRESS => info.mac = value.try_into().map(Mac).unwrap_or_default(),
            IFLA_MASTER => info.master = word(value, 0)?,
            IFLA_LINKINFO => {
                info.vrf_table = vrf_table(value);
                let is = |kind| kind_of(value).is_some_and(|of| of.starts_with(kind));
                info.tap = is(b"tun\0");
                macvlan = is(b"macvlan\0");
            }
            IFLA_LINK => below = word(value, 0),
            IFLA_LINK_NETNSID => elsewhere = true,
            _ => {}
        }
    }
    info.macvlan_of = below.filter(|_| macvlan && !elsewhere);
    Some(info)
}

/// The table, where `IFLA_LINKINFO` is that of a VRF device.
fn vrf_table(info: &[u8]) -> Option<u32> {
    kind_of(info).filter(|kind| kind.starts_with(b"vrf\0"))?;
    word(find(find(info, IFLA_INFO_DATA)?, IFLA_VRF_TABLE)?, 0)
}

/// The kind of a link in `IFLA_LINKINFO`.
fn kind_of(info: &[u8]) -> Option<&[u8]> {
    find(info, IFLA_INFO_KIND)
}

/// `struct ifaddrmsg` and what follows.
fn address_info(answer: &[u8]) -> Option<AddressInfo> {
    let (length, mut found, mut ours) = (*answer.get(1)?, None, false);
    let (link, mut flags) = (word(answer, 4)?, 0);
    for (kind, value) in attributes(answer.get(8..)?) {
        match kind {
            // IFA_LOCAL is the address itself, IFA_ADDRESS the peer's where there is one.
            IFA_LOCAL => found = ip(value),
            IFA_ADDRESS if found.is_none() => found = ip(value),
            IFA_PROTO => ours = value == [OUR_PROTOCOL],
            IFA_FLAGS => flags = word(value, 0)?,
            _ => {}
        }
    }
    Some(AddressInfo {
        link,
        net: Net { address: found?, length },
        ours,
        settled: flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == 0,
        connected: flags & IFA_F_NOPREFIXROUTE == 0,
    })
}

/// An address from its bytes.
pub(super) fn ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(IpAddr::from(bytes));
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

/// The bytes of an address.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// `AF_INET` or `AF_INET6`.
pub(super) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn address_message(kind: u16, flags: u16, index: u32, net: Net) -> Request {
    let mut body = [family(net.address), net.length, 0, 0, 0, 0, 0, 0];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let bytes = octets(net.address);
    let message = Request::new(kind, flags).body(&body);
    message.attr(IFA_LOCAL, &bytes).attr(IFA_ADDRESS, &bytes)
}

const MARK: &[u8] = b"made by rutter";

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_vrf_device_and_a_tap_below_it() {
        let link = |index, attributes: &[Vec<u8>]| {
            link_info(&[ifinfo(index, IFF_UP, 0).to_vec(), attributes.concat()].concat()).unwrap()
        };
        let kind = |name: &[u8]| attribute(IFLA_INFO_KIND, name);
        let table = attribute(IFLA_INFO_DATA, &attribute(IFLA_VRF_TABLE, &10_u32.to_ne_bytes()));
        let info = attribute(IFLA_LINKINFO, &[kind(b"vrf\0"), table.clone()].concat());
        let red = link(7, &[attribute(IFLA_IFNAME, b"red\0"), info, attribute(IFLA_IFALIAS, MARK)]);
        assert_eq!((red.name.as_str(), red.vrf_table, red.master), ("red", Some(10), 0));
        assert!(red.up && red.ours);
        let tap = link(8, &[attribute(IFLA_MASTER, &7_u32.to_ne_bytes())]);
        assert_eq!((tap.vrf_table, tap.master, tap.ours), (None, 7, false));
        let macvlan = attribute(IFLA_LINKINFO, &kind(b"macvlan\0"));
        let below = attribute(IFLA_LINK, &8_u32.to_ne_bytes());
        let vrrp = link(10, &[below.clone(), macvlan.clone()]);
        assert_eq!(vrrp.macvlan_of, Some(8));
        let elsewhere = attribute(IFLA_LINK_NETNSID, &1_u32.to_ne_bytes());
        assert_eq!(link(10, &[below.clone(), macvlan, elsewhere]).macvlan_of, None);
        let veth = attribute(IFLA_LINKINFO, &kind(b"veth\0"));
        assert_eq!(link(11, &[below, veth]).macvlan_of, None);
        // The same attribute of another kind is no table.
        for kind in [kind(b"vrfx\0"), kind(b"veth\0"), Vec::new()] {
            let other = link(9, &[attribute(IFLA_LINKINFO, &[kind, table.clone()].concat())]);
            assert_eq!(other.vrf_table, None);
        }
    }
}
