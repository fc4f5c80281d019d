//! Events of the taps: set down and up, addresses added and removed. The kernel then silently
//! forgets state that depended on them.
//!
//! They come from the kernel's own messages, one for each change, so that a tap that is down for
//! only a moment is not missed. (The mirror of `feeds` reports states.)

use std::collections::HashMap;
use std::io;

use netlink::connection::Netlink;
use netlink::names::*;
use netlink_sys::protocols::NETLINK_ROUTE;

use super::link::link_info;

/// Receives events of links and addresses.
pub struct Changes {
    netlink: Netlink,
    /// The last report of each link, by number.
    links: HashMap<u32, Carries>,
}

/// The state of a link, as far as the kernel forgets things when it changes.
#[derive(Clone, Copy)]
struct Carries {
    /// Administratively up.
    any: bool,
    /// Its MTU is enough for IPv6; otherwise the kernel takes IPv6 from it.
    ipv6: bool,
}

/// Links that have lost state in the kernel.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Lost {
    /// Links that came up after they were down, or have an MTU for IPv6 again: they lost IPv6
    /// addresses, routes and neighbours.
    pub all: Vec<u32>,
    /// Links that got an address: if it is an old one, they lost routes over it.
    pub routes: Vec<u32>,
    /// Links that changed in another way, perhaps in the MTU.
    pub changed: Vec<u32>,
    /// Addresses have changed.
    pub addresses: bool,
    /// Policy rules have changed.
    pub rules: bool,
    /// The kernel had more reports than fitted: any link may have lost state.
    pub unknown: bool,
}

impl Changes {
    /// Receives events from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open() -> io::Result<Changes> {
        let netlink = Netlink::hear(NETLINK_ROUTE, &GROUPS)?;
        Ok(Changes { netlink, links: HashMap::new() })
    }

    /// The events since the last call.
    pub fn take(&mut self) -> Lost {
        let mut lost = Lost::default();
        match self.netlink.heard() {
            Ok(messages) => {
                messages.iter().for_each(|(kind, message)| self.one(*kind, message, &mut lost));
            }
            Err(_) => lost.unknown = true,
        }
        lost
    }

    fn one(&mut self, kind: u16, message: &[u8], lost: &mut Lost) {
        match kind {
            RTM_NEWLINK => {
                let Some(link) = link_info(message) else { return };
                let now = Carries { any: link.up, ipv6: link.mtu >= LEAST_MTU6 };
                // Unknown links are assumed to be up with all addresses, as taps are at the start.
                let all = Carries { any: true, ipv6: true };
                let before = self.links.insert(link.index, now).unwrap_or(all);
                lost.changed.push(link.index);
                if now.any && !before.any || now.ipv6 && !before.ipv6 {
                    lost.all.push(link.index);
                }
            }
            RTM_DELADDR => lost.addresses = true,
            RTM_NEWADDR => {
                lost.addresses = true;
                let index = message.get(4..).and_then(|rest| rest.first_chunk());
                lost.routes.extend(index.map(|index| u32::from_ne_bytes(*index)));
            }
            RTM_NEWRULE | RTM_DELRULE => lost.rules = true,
            _ => {}
        }
    }
}

/// RFC 8200 §5.
const LEAST_MTU6: u32 = 1280;
/// `RTNLGRP_LINK`, `RTNLGRP_IPV4_IFADDR`, `RTNLGRP_IPV4_RULE`, `RTNLGRP_IPV6_IFADDR`,
/// `RTNLGRP_IPV6_RULE`.
const GROUPS: [u32; 5] = [1, 5, 8, 9, 19];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_and_up_in_one_look_is_seen() {
        let mut changes = Changes::open().unwrap();
        let mut lost = Lost::default();
        let mut link = |index: u32, up: u32, mtu: u32| {
            let mut message = vec![0; 16];
            message[4..8].copy_from_slice(&index.to_ne_bytes());
            message[8..12].copy_from_slice(&up.to_ne_bytes());
            message.extend([8_u16.to_ne_bytes(), 4_u16.to_ne_bytes()].concat()); // IFLA_MTU
            message.extend(mtu.to_ne_bytes());
            changes.one(RTM_NEWLINK, &message, &mut lost);
        };
        link(7, 1, 1500);
        link(7, 0, 1500);
        link(7, 1, 1500);
        link(7, 1, 1500);
        link(8, 0, 1500);
        link(9, 1, 1000);
        link(9, 1, 1279);
        link(9, 1, 1280);
        changes.one(RTM_NEWADDR, &[2, 24, 0, 0, 9, 0, 0, 0], &mut lost);
        changes.one(RTM_NEWADDR, &[2, 24], &mut lost);
        assert!(!lost.rules && lost.addresses);
        lost.addresses = false;
        changes.one(RTM_DELADDR, &[2, 24, 0, 0, 9, 0, 0, 0], &mut lost);
        changes.one(RTM_DELRULE, &[0; 12], &mut lost);
        let changed = vec![7, 7, 7, 7, 8, 9, 9, 9];
        let (all, routes) = (vec![7, 9], vec![9]);
        let unknown = false;
        assert_eq!(lost, Lost { all, routes, changed, addresses: true, rules: true, unknown });
    }
}
