//! Rules (`ip rule`) that Rutter makes for VRFs. Where these are no devices, a packet meets
//!
//! ```text
//!  1099  to fe80::/10, ff00::/8           lookup local   which is by link
//!  1100  by a tap of RED, or RED's mark   lookup RED     whose addresses it has, too; ends the search
//!  1102  to an address of RED's, not main's  goto 1104
//!  1103                                   lookup local   the kernel's rule 0
//!  1104                                   nop
//! ```

use std::io;
use std::net::IpAddr;

use netlink::message::{find, u32_at};
use netlink::names::*;
use netlink::request::{CREATE, Request};

use super::OUR_PROTOCOL;
use super::link::{Rtnetlink, family, octets};
use crate::config::Net;

impl Rtnetlink {
    /// Lets packets that come in by, or leave from, the link `name` use `table`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_rules(&mut self, name: &str, table: u32) -> io::Result<()> {
        for (family, attribute) in rules() {
            let message = ours(RTM_NEWRULE, family, RULE_PRIORITY, Does::LookUp(table));
            self.unless_there(message.text(attribute, name))?;
        }
        Ok(())
    }

    /// Lets packets with the mark `table` use `table`: the kernel's answers to
    /// what came in by a link of these tables.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_mark_rules(&mut self, table: u32) -> io::Result<()> {
        for family in [AF_INET, AF_INET6] {
            let message = ours(RTM_NEWRULE, family, RULE_PRIORITY, Does::LookUp(table));
            self.unless_there(message.attr(FRA_FWMARK, &table.to_ne_bytes()))?;
        }
        Ok(())
    }

    /// Lets the tables of VRFs be searched before that of the addresses of main, as the
    /// kernel's documentation of VRFs has it: an address that both have is else taken for
    /// main's, and what answers it in IPv6 leaves there. False where the first rule is not
    /// the kernel's: a user has ordered them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn search_vrfs_first(&mut self) -> io::Result<bool> {
        let mut moved = true;
        for family in [AF_INET, AF_INET6] {
            let rules = self.rules(family)?;
            if rules.iter().any(|rule| is_local(rule) && priority(rule) == 0) {
                self.unless_there(ours(RTM_NEWRULE, family, AFTER_VRFS, TO_LOCAL))?;
                self.0.request(rule(RTM_DELRULE, family, 0, TO_LOCAL))?;
            } else {
                moved = false;
            }
        }
        Ok(moved)
    }

    /// Makes the rules that [`Rtnetlink::hide`] needs, and those by which what is known
    /// by its link is found in a VRF without a device.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_detour(&mut self) -> io::Result<()> {
        for family in [AF_INET, AF_INET6] {
            self.unless_there(ours(RTM_NEWRULE, family, BEHIND, Does::Nothing))?;
        }
        for (to, length) in [(LINK_LOCAL, 10), (MULTICAST, 8)] {
            let to = Net { address: IpAddr::from(to), length };
            self.unless_there(ours_to(RTM_NEWRULE, to, BY_LINK, TO_LOCAL))?;
        }
        Ok(())
    }

    /// Lets nobody outside of its VRF take `address` for this machine's.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn hide(&mut self, address: IpAddr) -> io::Result<()> {
        self.unless_there(ours_to(RTM_NEWRULE, Net::host(address), DETOUR, Does::GoTo(BEHIND)))
    }

    /// Ends that.
    ///
    /// # Errors
    /// When it was not so.
    pub fn unhide(&mut self, address: IpAddr) -> io::Result<()> {
        self.0.request(ours_to(RTM_DELRULE, Net::host(address), DETOUR, Does::GoTo(BEHIND)))
    }

    pub(super) fn rules(&mut self, family: u8) -> io::Result<Vec<Vec<u8>>> {
        let mut body = [0; 12];
        body[0] = family;
        self.0.dump(Request::new(RTM_GETRULE, 0).body(&body))
    }

    /// Takes every rule with Rutter's protocol number out, and puts the kernel's
    /// first one back where it was moved.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn flush_rules(&mut self) -> io::Result<()> {
        for family in [AF_INET, AF_INET6] {
            for answer in self.rules(family)? {
                if rule_attribute(&answer, FRA_PROTOCOL) != Some(&[OUR_PROTOCOL]) {
                    continue;
                }
                if is_local(&answer) {
                    let first = rule(RTM_NEWRULE, family, 0, TO_LOCAL);
                    self.unless_there(first.attr(FRA_PROTOCOL, &[RTPROT_KERNEL]))?;
                }
                self.0.request(Request::new(RTM_DELRULE, 0).body(&answer))?;
            }
        }
        Ok(())
    }
}

fn rules() -> [(u8, u16); 4] {
    [
        (AF_INET, FRA_IIFNAME),
        (AF_INET, FRA_OIFNAME),
        (AF_INET6, FRA_IIFNAME),
        (AF_INET6, FRA_OIFNAME),
    ]
}

/// The action of a rule.
#[derive(Clone, Copy)]
enum Does {
    LookUp(u32),
    GoTo(u32),
    Nothing,
}

/// A rule of Rutter's.
fn ours(kind: u16, family: u8, priority: u32, does: Does) -> Request {
    rule(kind, family, priority, does).attr(FRA_PROTOCOL, &[OUR_PROTOCOL])
}

/// One for what goes to `net`.
fn ours_to(kind: u16, net: Net, priority: u32, does: Does) -> Request {
    let message = to(kind, family(net.address), net.length, priority, does);
    message.attr(FRA_DST, &octets(net.address)).attr(FRA_PROTOCOL, &[OUR_PROTOCOL])
}

fn rule(kind: u16, family: u8, priority: u32, does: Does) -> Request {
    to(kind, family, 0, priority, does)
}

fn to(kind: u16, family: u8, length: u8, priority: u32, does: Does) -> Request {
    let (action, table) = match does {
        Does::LookUp(table) => (FR_ACT_TO_TBL, table),
        Does::GoTo(_) => (FR_ACT_GOTO, 0),
        Does::Nothing => (FR_ACT_NOP, 0),
    };
    let small = u8::try_from(table).unwrap_or(0);
    let body = [family, length, 0, 0, small, 0, 0, action, 0, 0, 0, 0];
    let flags = if kind == RTM_NEWRULE { CREATE } else { 0 };
    let message = Request::new(kind, flags).body(&body).attr(FRA_PRIORITY, &priority.to_ne_bytes());
    match does {
        Does::LookUp(table) => message.attr(FRA_TABLE, &table.to_ne_bytes()),
        Does::GoTo(priority) => message.attr(FRA_GOTO, &priority.to_ne_bytes()),
        Does::Nothing => message,
    }
}

fn rule_attribute(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    find(answer.get(12..)?, wanted)
}

/// Does it send everything to the table of this machine's addresses?
fn is_local(answer: &[u8]) -> bool {
    let all = answer.get(1..3) == Some(&[0, 0]);
    let others = [FRA_IIFNAME, FRA_OIFNAME, FRA_FWMARK];
    let all = all && others.iter().all(|other| rule_attribute(answer, *other).is_none());
    all && rule_attribute(answer, FRA_TABLE) == Some(&RT_TABLE_LOCAL.to_ne_bytes())
}

/// The kernel does not report a priority of 0.
fn priority(answer: &[u8]) -> u32 {
    rule_attribute(answer, FRA_PRIORITY).map_or(0, |value| u32_at(value, 0))
}

/// Where the table `local` is to be looked up, whatever the VRF.
const BY_LINK: u32 = 1099;
/// Before the kernel's own rules (32766, 32767), after those of VRF devices (1000).
const RULE_PRIORITY: u32 = 1100;
const DETOUR: u32 = 1102;
/// Just after those of VRFs.
const AFTER_VRFS: u32 = 1103;
const BEHIND: u32 = 1104;
const LINK_LOCAL: [u16; 8] = [0xfe80, 0, 0, 0, 0, 0, 0, 0];
const MULTICAST: [u16; 8] = [0xff00, 0, 0, 0, 0, 0, 0, 0];
const TO_LOCAL: Does = Does::LookUp(RT_TABLE_LOCAL);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_first_rule_is_known_by_what_it_does_not_say() {
        // As the kernel reports them: `struct fib_rule_hdr`, then FRA_TABLE first.
        let header = [2, 0, 0, 0, 255, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
        let table = [8, 0, FRA_TABLE as u8, 0, 255, 0, 0, 0];
        let at = |value: u32| {
            let mut bytes = vec![8, 0, FRA_PRIORITY as u8, 0];
            bytes.extend(value.to_ne_bytes());
            bytes
        };
        let first = [header.as_slice(), &table].concat();
        let moved = [first.as_slice(), &at(AFTER_VRFS)].concat();
        assert!(is_local(&first) && priority(&first) == 0);
        assert!(is_local(&moved) && priority(&moved) == AFTER_VRFS);
        assert!(!is_local(&header) && !is_local(&[]));
        // Those for some packets only, as Rutter makes them, are others.
        let to = [[10, 8].as_slice(), &first[2..]].concat();
        let by_tap = [first.as_slice(), &[8, 0, FRA_IIFNAME as u8, 0, b'p', b'0', 0, 0]].concat();
        assert!(!is_local(&to) && !is_local(&by_tap));
    }
}
