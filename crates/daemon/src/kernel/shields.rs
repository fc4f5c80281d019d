//! What a shield needs of the kernel: that it forwards nothing that came in at the front,
//! and that routing daemons see what is protected.
//!
//! ```text
//!     0  (1103)              lookup local      this router's addresses: its sessions live
//!  1105  from all iif FRONT  prohibit          everything else that was put into the tap
//! 32766  from all            lookup main
//! ```
//!
//! A setting for each interface is not enough: before Linux 6.17 IPv6 has none that stops
//! forwarding *from* one interface alone. In a VRF of its own, a tap is not kept from it so:
//! its packets meet the table of the VRF before (`vrf_rules`). Rules are given back with the others
//! ([`Rtnetlink::flush_rules`]).
//!
//! A protection is a blackhole route of a protocol number and a metric of its own: BIRD learns
//! it and FRR redistributes it, which it does not with routes of Rutter's number
//! ([`SHIELD_PROTOCOL`]). It wins over what they have learnt for the same prefix, so that the
//! kernel itself sends nothing there. No static route has this metric (`Config::objection`): the
//! kernel has one route of a prefix and a metric. The mirror leaves it out (`feeds::netlink`):
//! the plain view has the route that it hides.

use std::collections::BTreeSet;
use std::io;

use feeds::netlink::{SHIELD_METRIC, SHIELD_PROTOCOL};

use netlink::names::*;
use netlink::request::{CREATE, Request};

use super::OUR_PROTOCOL;
use super::link::Rtnetlink;
use super::route::{metric, route_of};
pub use super::shown::Shield;
use super::shown::shield;
use crate::config::Net;

impl Rtnetlink {
    /// Keeps the kernel from forwarding what comes in by the link `name`, of both families.
    /// The link may come later. True where a rule was missing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn prohibit_from(&mut self, name: &str) -> io::Result<bool> {
        let mut made = false;
        for family in [AF_INET, AF_INET6] {
            match self.0.request(prohibit(true, family, name)) {
                Ok(()) => made = true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// Undoes that.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn allow_from(&mut self, name: &str) -> io::Result<()> {
        let done = [2, 10].map(|family| self.0.request(prohibit(false, family, name)));
        done.into_iter().collect()
    }

    /// Shows a protected prefix to routing daemons. One that is there will do.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_shield(&mut self, (table, net): Shield) -> io::Result<()> {
        self.unless_there(blackhole(true, net, table))
    }

    /// Withdraws it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete_shield(&mut self, (table, net): Shield) -> io::Result<()> {
        self.0.request(blackhole(false, net, table))
    }

    /// The protected prefixes that the kernel has.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn shields(&mut self) -> io::Result<BTreeSet<Shield>> {
        let mut all = BTreeSet::new();
        for family in [AF_INET, AF_INET6] {
            let mut body = [0; 12];
            (body[0], body[5]) = (family, SHIELD_PROTOCOL);
            let answers = self.0.dump(Request::new(RTM_GETROUTE, 0).body(&body))?;
            all.extend(answers.iter().filter_map(|answer| shield(answer)));
        }
        Ok(all)
    }

    /// Lets the kernel have these and no others: also after an instance that was killed,
    /// without withdrawing one that stays.
    ///
    /// # Errors
    /// The kernel's first.
    pub fn set_shields(&mut self, wanted: &BTreeSet<Shield>) -> io::Result<()> {
        let there = self.shields()?;
        let mut result = Ok(());
        for gone in there.difference(wanted) {
            result = result.and(self.delete_shield(*gone));
        }
        for new in wanted.difference(&there) {
            result = result.and(self.add_shield(*new));
        }
        result
    }
}

/// The rule, made or deleted, that prohibits what comes in by the link `name` and is not
/// for this machine.
fn prohibit(make: bool, family: u8, name: &str) -> Request {
    let (kind, how) = if make { (RTM_NEWRULE, CREATE) } else { (RTM_DELRULE, 0) };
    let body = [family, 0, 0, 0, 0, 0, 0, FR_ACT_PROHIBIT, 0, 0, 0, 0];
    Request::new(kind, how)
        .body(&body)
        .attr(FRA_PRIORITY, &AFTER_LOCAL.to_ne_bytes())
        .attr(FRA_PROTOCOL, &[OUR_PROTOCOL])
        .text(FRA_IIFNAME, name)
}

/// The blackhole route, made or deleted, of a prefix.
fn blackhole(make: bool, net: Net, table: u32) -> Request {
    let (kind, how) = if make { (RTM_NEWROUTE, CREATE) } else { (RTM_DELROUTE, 0) };
    let what = (RT_SCOPE_UNIVERSE, RTN_BLACKHOLE);
    let message = route_of(SHIELD_PROTOCOL, kind, how, net, table, what);
    metric(message, Some(SHIELD_METRIC))
}

/// Behind the rule of this router's addresses, wherever that is (`vrf_rules`).
const AFTER_LOCAL: u32 = 1105;

#[cfg(test)]
mod tests;
