//! A shield's state in the kernel, as this instance keeps it: rules that forward nothing from the
//! taps at the front, and the routes that show the protections. Both end with the instance, so that
//! neighbours stop sending packets here.

use std::collections::BTreeSet;
use std::io;

use super::kernel_side::KernelSide;
use netlink::connection::errno;

use crate::kernel::shields::Shield;
use crate::kernel::{LinkInfo, Rtnetlink};

impl KernelSide {
    /// Sets the interfaces at the front, before their taps have their first packet.
    ///
    /// # Errors
    /// The kernel's first error.
    pub fn set_fronts(&mut self, wanted: BTreeSet<String>) -> io::Result<()> {
        let result = prohibit(&mut self.rtnetlink, &mut self.shields.fronts, &wanted);
        // Those of an instance that was killed are there already.
        let links = self.rtnetlink.links()?;
        result.and(self.macvlans_at_front(&links))
    }

    /// Sets the macvlans on taps at the front: a packet to the hardware address of one comes in by
    /// the macvlan, to which the rule of its tap does not apply.
    ///
    /// # Errors
    /// The kernel's first error.
    pub(super) fn macvlans_at_front(&mut self, links: &[LinkInfo]) -> io::Result<()> {
        // There is always the loopback: the list could not be had, and rules stay.
        if links.is_empty() {
            return Ok(());
        }
        let fronts = &self.shields.fronts;
        let is_front = |index| {
            let mut taps = links.iter().filter(|link| fronts.contains(&link.name));
            taps.any(|tap| tap.index == index)
        };
        let at_front = links.iter().filter(|link| link.macvlan_of.is_some_and(is_front));
        let wanted = at_front.map(|link| link.name.clone()).collect();
        prohibit(&mut self.rtnetlink, &mut self.shields.macvlans, &wanted)
    }

    /// Shows these prefixes, and no others, to routing daemons.
    ///
    /// # Errors
    /// The kernel's first error.
    pub fn set_shields(&mut self, wanted: BTreeSet<Shield>) -> io::Result<()> {
        let result = self.rtnetlink.set_shields(&wanted);
        if result.is_ok() {
            self.shields.protected.clear(); // otherwise some may still be there
        }
        self.shields.protected.extend(wanted);
        result
    }

    /// Shows one more prefix.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_shield(&mut self, shield: Shield) -> io::Result<()> {
        self.shields.protected.insert(shield);
        self.rtnetlink.add_shield(shield)
    }

    /// Withdraws a prefix. It is no error if somebody else has deleted it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete_shield(&mut self, shield: Shield) -> io::Result<()> {
        let done = self.rtnetlink.delete_shield(shield);
        done.or_else(|error| match errno(&error) {
            Some(ESRCH) => Ok(()),
            _ => Err(error),
        })?;
        self.shields.protected.remove(&shield);
        Ok(())
    }

    /// Restores the rules of the front that somebody else has deleted; returns their interfaces.
    ///
    /// # Errors
    /// The kernel's first error.
    pub fn renew_fronts(&mut self) -> io::Result<Vec<String>> {
        let mut again = Vec::new();
        for front in self.shields.fronts.iter().chain(&self.shields.macvlans) {
            if self.rtnetlink.prohibit_from(front)? {
                again.push(front.clone());
            }
        }
        Ok(again)
    }

    /// Shows the prefixes again that somebody else has deleted, or the kernel had refused; returns
    /// their number.
    ///
    /// # Errors
    /// The kernel's first error.
    pub fn show_again(&mut self) -> io::Result<usize> {
        if self.shields.protected.is_empty() {
            return Ok(0);
        }
        let there = self.rtnetlink.shields()?;
        let gone: Vec<_> = self.shields.protected.difference(&there).copied().collect();
        gone.iter().try_for_each(|shield| self.rtnetlink.add_shield(*shield))?;
        Ok(gone.len())
    }

    /// Removes prefixes that an earlier instance has shown, and this one does not.
    pub(super) fn renew_shields(&mut self) {
        if let Err(error) = self.rtnetlink.set_shields(&self.shields.protected) {
            self.warn(format!("routes of protections: {error}"));
        }
    }
}

/// Makes the kernel forward nothing from the links `wanted`, and from no other of those `known`.
fn prohibit(
    rtnetlink: &mut Rtnetlink,
    known: &mut BTreeSet<String>,
    wanted: &BTreeSet<String>,
) -> io::Result<()> {
    let mut result = Ok(());
    for new in wanted.difference(&known.clone()) {
        let done = rtnetlink.prohibit_from(new).map(drop);
        if done.is_ok() {
            known.insert(new.clone());
        }
        result = result.and(done);
    }
    for gone in known.clone().difference(wanted) {
        // Gone, or to be gone with all rules: it is not restored.
        known.remove(gone);
        result = result.and(rtnetlink.allow_from(gone));
    }
    result
}

/// The kernel's error for a route that does not exist.
const ESRCH: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Net, Route};
    use crate::namespace::{in_namespace, ip_batch};
    use ::io::tap::Tap;
    use api::apps::router::RouteKind;

    #[test]
    fn what_somebody_else_deletes_is_put_back() {
        in_namespace(|| {
            let record = std::env::temp_dir().join(format!("rutter-again-{}", std::process::id()));
            let mut side = KernelSide::new(&record).unwrap();
            side.set_fronts(BTreeSet::from(["p0".into(), "p1".into()])).unwrap();
            let shields = ["198.51.100.0/24", "2001:db8:20::/48"];
            let shields = shields.map(|prefix| (254, prefix.parse::<Net>().unwrap()));
            shields.iter().for_each(|shield| side.add_shield(*shield).unwrap());
            assert_eq!(side.renew_fronts().unwrap(), Vec::<String>::new());
            assert_eq!(side.show_again().unwrap(), 0);
            side.rtnetlink.allow_from("p1").unwrap();
            side.rtnetlink.delete_shield(shields[1]).unwrap();
            assert_eq!(side.renew_fronts().unwrap(), ["p1"]);
            assert_eq!(side.show_again().unwrap(), 1);
            assert_eq!(side.renew_fronts().unwrap(), Vec::<String>::new());
            assert_eq!(side.rtnetlink.shields().unwrap(), BTreeSet::from(shields));
            // A prefix that is gone already counts as withdrawn.
            side.rtnetlink.delete_shield(shields[0]).unwrap();
            side.delete_shield(shields[0]).unwrap();
            assert_eq!(side.show_again().unwrap(), 0);
            let _ = std::fs::remove_file(record);
        });
    }

    #[test]
    fn macvlans_at_the_front_have_the_rule_of_their_tap() {
        in_namespace(|| {
            let record = std::env::temp_dir().join(format!("rutter-vmac-{}", std::process::id()));
            let mut side = KernelSide::new(&record).unwrap();
            let macvlan = |name: &str, tap: &str| {
                ip_batch(&format!("link add {name} link {tap} type macvlan mode bridge\n"));
            };
            let of = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
            let follow = |side: &mut KernelSide| {
                let links = side.rtnetlink.links().unwrap();
                side.macvlans_at_front(&links).unwrap();
                side.shields.macvlans.clone()
            };
            let _taps = ["p0", "p1"].map(|name| Tap::open(name).unwrap());
            macvlan("before", "p0");
            macvlan("back", "p1");
            side.set_fronts(of(&["p0"])).unwrap();
            assert_eq!(side.shields.macvlans, of(&["before"]));
            macvlan("later", "p0");
            assert_eq!(follow(&mut side), of(&["before", "later"]));
            side.rtnetlink.allow_from("later").unwrap();
            assert_eq!(side.renew_fronts().unwrap(), ["later"]);
            // One that is at the back now, and has its name still.
            ip_batch("link del before\n");
            macvlan("before", "p1");
            assert_eq!(follow(&mut side), of(&["later"]));
            assert!(side.rtnetlink.allow_from("before").is_err(), "its rule is gone");
            let _ = std::fs::remove_file(record);
        });
    }

    #[test]
    fn no_static_route_that_goes_takes_a_protection_with_it() {
        in_namespace(|| {
            let record = std::env::temp_dir().join(format!("rutter-shield-{}", std::process::id()));
            let mut side = KernelSide::new(&record).unwrap();
            for prefix in ["198.51.100.0/24", "2001:db8:20::/48"] {
                let prefix: Net = prefix.parse().unwrap();
                let shield = (254, prefix);
                side.add_shield(shield).unwrap();
                let add = |side: &mut KernelSide, metric| {
                    let (via, vrf) = (Vec::new(), "main".into());
                    let route = Route { prefix, kind: RouteKind::Prohibit, via, vrf, metric };
                    side.add_route(route, 254).unwrap();
                };
                assert!(side.delete_route(prefix, 254, None).is_err());
                assert!(side.delete_route(prefix, 254, Some(8)).is_err());
                for metric in [None, Some(20)] {
                    add(&mut side, metric);
                    side.delete_route(prefix, 254, None).unwrap();
                    assert!(side.delete_route(prefix, 254, None).is_err());
                }
                assert!(side.rtnetlink.shields().unwrap().contains(&shield));
            }
            let _ = std::fs::remove_file(record);
        });
    }
}
