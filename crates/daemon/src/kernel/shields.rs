//! A shield's needs of the kernel: it must not forward a packet from the front, and routing daemons
//! must see the protections.
//!
//! ```text
//!     0  (1103)              lookup local      this router's addresses: its sessions live
//!  1105  from all iif FRONT  prohibit          everything else that was put into the tap
//! 32766  from all            lookup main
//! ```
//!
//! A setting for each interface is not enough: before Linux 6.17, IPv6 has none that stops
//! forwarding *from* one interface alone. A VRF of its own does not stop a tap from forwarding,
//! either: its packets meet the table of the VRF before (`vrf_rules`). The rules are removed with
//! the other ones ([`Rtnetlink::flush_rules`]).
//!
//! A protection is a blackhole route with a protocol number and a metric of its own. BIRD learns it
//! and FRR redistributes it, which they do not with routes of Rutter's number
//! ([`SHIELD_PROTOCOL`]). It wins over a route that they have learnt for the same prefix, so that
//! the kernel itself sends nothing there. No static route has this metric (`Config::objection`):
//! the kernel has one route for a prefix and a metric. The mirror ignores the blackhole route
//! (`feeds::netlink`): the plain view has the route that it hides.

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
    /// Stops the kernel from forwarding packets of both families that come in by the link `name`.
    /// The link may appear later. Returns whether a rule was missing.
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

    /// Removes these rules.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn allow_from(&mut self, name: &str) -> io::Result<()> {
        let done = [2, 10].map(|family| self.0.request(prohibit(false, family, name)));
        done.into_iter().collect()
    }

    /// Shows a protected prefix to routing daemons. An existing route is no error.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_shield(&mut self, (table, net): Shield) -> io::Result<()> {
        self.unless_there(blackhole(true, net, table))
    }

    /// Withdraws it.
    ///
    /// # Errors
    /// When the route does not exist.
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

    /// Makes the kernel show these prefixes and no others, also after an instance that was killed.
    /// A prefix that stays is never withdrawn.
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

/// Creates or deletes the rule that prohibits packets that come in by the link `name` and are not
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

/// Creates or deletes the blackhole route of a prefix.
fn blackhole(make: bool, net: Net, table: u32) -> Request {
    let (kind, how) = if make { (RTM_NEWROUTE, CREATE) } else { (RTM_DELROUTE, 0) };
    let what = (RT_SCOPE_UNIVERSE, RTN_BLACKHOLE);
    let message = route_of(SHIELD_PROTOCOL, kind, how, net, table, what);
    metric(message, Some(SHIELD_METRIC))
}

/// Behind the rule for this router's addresses, whatever its number (`vrf_rules`).
const AFTER_LOCAL: u32 = 1105;

#[cfg(test)]
mod tests;
