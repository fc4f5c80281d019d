//! What befalls the taps: set down and up, given and denied addresses. The
//! kernel then forgets what hung on them, in silence.
//!
//! These are the kernel's own messages, one for each change: a tap that is down
//! for a moment only is not missed. (The mirror of `feeds` reports states.)

use std::collections::HashMap;
use std::io;

use netlink::connection::Netlink;
use netlink::names::*;
use netlink_sys::protocols::NETLINK_ROUTE;

use super::link::link_info;

/// Hears about links and addresses.
pub struct Changes {
    netlink: Netlink,
    /// What the kernel last reported of links, by number.
    links: HashMap<u32, Carries>,
}

/// What a link does, as far as the kernel forgets things with it.
#[derive(Clone, Copy)]
struct Carries {
    /// Administratively up.
    any: bool,
    /// Its MTU is enough for IPv6, which the kernel takes from it otherwise.
    ipv6: bool,
}

/// Links that have lost something.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Lost {
    /// Came up after they were down, or have room for IPv6 again: IPv6 addresses,
    /// routes, neighbours.
    pub all: Vec<u32>,
    /// Were given an address: routes over it, if it is an old one.
    pub routes: Vec<u32>,
    /// Changed in some way: the MTU, perhaps.
    pub changed: Vec<u32>,
    /// There are other addresses than before.
    pub addresses: bool,
    /// There are other policy rules than before.
    pub rules: bool,
    /// The kernel has reported more than there was room for: any link may have.
    pub unknown: bool,
}

impl Changes {
    /// Hears from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open() -> io::Result<Changes> {
        let netlink = Netlink::hear(NETLINK_ROUTE, &GROUPS)?;
        Ok(Changes { netlink, links: HashMap::new() })
    }

    /// What happened since the last time.
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
                // Links that are not known carry all: taps do when this begins.
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
