//! Keeps VRFs without devices from each other's addresses of this machine. The kernel has
//! them all in one table, `local`, and asks it first:
//!
//! ```text
//!  address of a tap of RED ─┬─► its destinations in the table of RED, which RED's packets meet first
//!                           └─► a rule that leads all others past `local`, unless main has it too
//! ```
//!
//! A VRF may so have any address that another has: as its own, and as a host's. (IPv6's link-local
//! addresses are known by their link; they stay in `local`.)

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use super::offline::{MAIN, table_of};
use netlink::connection::errno;

use crate::config::net::is_link_local6;
use crate::config::{Config, Net};
use crate::kernel::link::AddressInfo;
use crate::kernel::route::{Own, OwnKind};
use crate::kernel::{LinkInfo, Rtnetlink};

/// What the kernel is to have, or has by this instance, for the addresses of taps.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Apart {
    /// By table.
    own: BTreeSet<(u32, Own)>,
    /// Networks, by table: the link, and the address to send from.
    connected: BTreeMap<(u32, Net), (u32, Net)>,
    /// The same in main, by the kernel: links and addresses.
    misplaced: BTreeSet<(u32, Net)>,
    /// Destinations that only their VRFs may take for this machine's.
    hidden: BTreeSet<IpAddr>,
}

impl Apart {
    /// Gives the tables of VRFs without devices what belongs to the addresses of their
    /// links, and takes out what belonged to those that are gone. VRFs in the tables of
    /// `devices` have one.
    ///
    /// # Errors
    /// The kernel's last; what can be done is.
    pub fn keep<D>(
        &mut self,
        rtnetlink: &mut Rtnetlink,
        config: &Config,
        devices: &HashMap<u32, D>,
    ) -> io::Result<()> {
        let by_rules = |table: &u32| *table != MAIN && !devices.contains_key(table);
        let tables: BTreeSet<u32> =
            config.vrfs.iter().map(|vrf| vrf.table).filter(by_rules).collect();
        if tables.is_empty() {
            return Ok(());
        }
        let homes = homes(config, &rtnetlink.links()?);
        let wanted = wanted(&rtnetlink.all_addresses()?, &homes, &tables);
        let mut result = Ok(());
        for (link, net) in &wanted.misplaced {
            let gone = rtnetlink.delete_connected(*link, *net, MAIN);
            result = unless_none(gone).and(result);
        }
        for (table, own) in &wanted.own {
            result = unless_down(rtnetlink.add_own(own, *table)).and(result);
        }
        for (key @ (table, net), (link, _)) in &self.connected {
            if wanted.connected.get(key).is_none_or(|(now, _)| now != link) {
                let gone = rtnetlink.delete_route(*net, *table, None);
                result = unless_none(gone).and(result);
            }
        }
        for ((table, _), (link, net)) in &wanted.connected {
            let added = rtnetlink.add_connected(*link, *net, *table);
            result = unless_down(added).and(result);
        }
        for address in &wanted.hidden {
            result = rtnetlink.hide(*address).and(result);
        }
        let before = std::mem::replace(self, wanted);
        // An entry that could not be removed is tried again with the next change.
        for one @ (table, own) in &before.own {
            if !self.own.contains(one) {
                let gone = unless_none(rtnetlink.delete_own(own, *table));
                self.own.extend(gone.is_err().then_some(*one));
                result = gone.and(result);
            }
        }
        for address in &before.hidden {
            if !self.hidden.contains(address) {
                let gone = unless_none(rtnetlink.unhide(*address));
                self.hidden.extend(gone.is_err().then_some(*address));
                result = gone.and(result);
            }
        }
        result
    }

    /// Takes the copies of addresses out again (the rules go with all others).
    pub fn forget(&mut self, rtnetlink: &mut Rtnetlink) {
        for (table, own) in std::mem::take(self).own {
            let _ = rtnetlink.delete_own(&own, table); // its link may be gone, and it too
        }
    }
}

/// The table of each link that is not main's: of taps, and of macvlans on them. 0 for what is
/// below a VRF device, whose addresses are not in `local`.
fn homes(config: &Config, links: &[LinkInfo]) -> HashMap<u32, u32> {
    let devices: Vec<u32> =
        links.iter().filter(|link| link.vrf_table.is_some()).map(|link| link.index).collect();
    let table = |name: &str| {
        let mut interfaces = config.interfaces().map(|(.., interface)| interface);
        let interface = interfaces.find(|interface| interface.name == name)?;
        Some(table_of(config, &interface.vrf))
    };
    let home = |link: &LinkInfo| {
        if devices.contains(&link.master) || link.vrf_table.is_some() {
            return Some(0);
        }
        let below = link.macvlan_of.and_then(|tap| links.iter().find(|one| one.index == tap));
        table(&below.unwrap_or(link).name)
    };
    links.iter().filter_map(|link| Some((link.index, home(link)?))).collect()
}

fn wanted(addresses: &[AddressInfo], homes: &HashMap<u32, u32>, tables: &BTreeSet<u32>) -> Apart {
    let mut apart = Apart::default();
    let mut mains = BTreeSet::new();
    for one in addresses.iter().filter(|one| !is_link_local6(one.net.address)) {
        let table = homes.get(&one.link).copied().unwrap_or(MAIN);
        let own = destinations(one.net).into_iter().filter(|_| one.settled);
        let own = own.map(|(to, kind)| Own { link: one.link, to, kind });
        if table == MAIN {
            mains.extend(own.map(|own| own.to));
        } else if tables.contains(&table) {
            apart.own.extend(own.map(|own| (table, own)));
            if !one.net.is_one_address() {
                // The first of a network is the one to send from.
                let network = (table, one.net.network());
                apart.connected.entry(network).or_insert((one.link, one.net));
                apart.misplaced.extend(one.connected.then_some((one.link, one.net)));
            }
        }
    }
    let hidden = apart.own.iter().map(|(_, own)| own.to);
    apart.hidden = hidden.filter(|address| !mains.contains(address)).collect();
    apart
}

/// The entries of the kernel's table `local` for an address.
fn destinations(net: Net) -> Vec<(IpAddr, OwnKind)> {
    let address = (net.address, OwnKind::Address);
    let whole = match net.network().address {
        IpAddr::V4(network) if net.length < 31 => {
            let last = Ipv4Addr::from_bits(network.to_bits() | u32::MAX >> net.length);
            (last.into(), OwnKind::Broadcast)
        }
        IpAddr::V6(network) if net.length < 127 => (network.into(), OwnKind::Anycast),
        _ => return vec![address],
    };
    vec![address, whole]
}

/// An entry that the kernel has removed itself is gone, too.
fn unless_none(result: io::Result<()>) -> io::Result<()> {
    unless(&[ENOENT, ESRCH, ENODEV], result)
}

/// What belongs to a link that is down is written when it is up.
fn unless_down(result: io::Result<()>) -> io::Result<()> {
    unless(&[ENETDOWN, ENODEV], result)
}

fn unless(known: &[i32], result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if errno(&error).is_some_and(|code| known.contains(&code)) => Ok(()),
        result => result,
    }
}

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const ENODEV: i32 = 19;
const ENETDOWN: i32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const RED: u32 = 100;
    const BLUE: u32 = 200;

    /// Links 1 and 2 are main's, 3 RED's, 4 BLUE's, 5 below a VRF device.
    fn of(addresses: &[(u32, &str)]) -> Apart {
        let info = |(link, net): &(u32, &str)| AddressInfo {
            link: *link,
            net: net.parse().unwrap(),
            ours: true,
            settled: true,
            connected: false,
        };
        let all: Vec<_> = addresses.iter().map(info).collect();
        wanted(&all, &homes(), &BTreeSet::from([RED, BLUE]))
    }

    fn homes() -> HashMap<u32, u32> {
        HashMap::from([(2, MAIN), (3, RED), (4, BLUE), (5, 0)])
    }

    fn all(addresses: &[&str]) -> BTreeSet<IpAddr> {
        addresses.iter().map(|one| one.parse().unwrap()).collect()
    }

    #[test]
    fn what_main_has_too_is_not_hidden() {
        let apart = of(&[
            (1, "127.0.0.1/8"),
            (2, "10.0.1.1/24"),
            (3, "10.0.1.1/24"),
            (3, "10.0.2.1/24"),
            (4, "10.0.2.1/24"),
            (4, "2001:db8::1/64"),
            (4, "fe80::1/64"),
            (5, "10.0.5.1/24"),
        ]);
        let hidden = all(&["10.0.2.1", "10.0.2.255", "2001:db8::1", "2001:db8::"]);
        assert_eq!(apart.hidden, hidden);
        let of_red = |own: &&(u32, Own)| own.0 == RED && own.1.link == 3;
        assert_eq!(apart.own.iter().filter(of_red).count(), 4);
        assert_eq!(apart.own.len(), 8, "{apart:?}");
        assert_eq!(apart.connected.len(), 4);
    }

    #[test]
    fn the_first_address_of_a_network_is_sent_from() {
        let apart = of(&[(3, "10.0.2.9/24"), (3, "10.0.2.1/24"), (3, "10.0.3.1/32")]);
        let network = (RED, "10.0.2.0/24".parse().unwrap());
        assert_eq!(apart.connected[&network], (3, "10.0.2.9/24".parse().unwrap()));
        assert_eq!(apart.connected.len(), 1);
        assert_eq!(apart.hidden, all(&["10.0.2.9", "10.0.2.1", "10.0.2.255", "10.0.3.1"]));
    }

    #[test]
    fn an_address_that_is_not_settled_is_nobodys() {
        let net: Net = "2001:db8::1/64".parse().unwrap();
        let one = AddressInfo { link: 3, net, ours: false, settled: false, connected: true };
        let apart = wanted(&[one], &homes(), &BTreeSet::from([RED]));
        assert!(apart.own.is_empty() && apart.hidden.is_empty());
        assert_eq!(apart.connected.len(), 1);
        assert_eq!(apart.misplaced, BTreeSet::from([(3, net)]));
    }

    #[test]
    fn networks_of_two_have_neither_broadcast_nor_anycast() {
        for net in ["10.0.0.0/31", "10.0.0.1/32", "2001:db8::1/127", "2001:db8::1/128"] {
            assert_eq!(destinations(net.parse().unwrap()).len(), 1, "{net}");
        }
        let last = destinations("10.0.1.1/8".parse().unwrap())[1];
        assert_eq!(last, ("10.255.255.255".parse().unwrap(), OwnKind::Broadcast));
    }
}
