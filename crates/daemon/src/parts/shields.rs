//! What a shield needs of the kernel, as this instance keeps it: rules that forward nothing
//! from the taps at the front, and the routes that show what is protected. Both end with the
//! instance: so that neighbours stop sending packets here.

use std::collections::BTreeSet;
use std::io;

use super::kernel_side::KernelSide;
use crate::kernel::shields::Shield;

impl KernelSide {
    /// Names the interfaces at the front: before their taps have their first packet.
    ///
    /// # Errors
    /// The kernel's first.
    pub fn set_fronts(&mut self, wanted: BTreeSet<String>) -> io::Result<()> {
        let fronts = &mut self.shields.fronts;
        let mut result = Ok(());
        for new in wanted.difference(&fronts.clone()) {
            let done = self.rtnetlink.prohibit_from(new);
            if done.is_ok() {
                fronts.insert(new.clone());
            }
            result = result.and(done);
        }
        for gone in fronts.clone().difference(&wanted) {
            let done = self.rtnetlink.allow_from(gone);
            if done.is_ok() {
                fronts.remove(gone);
            }
            result = result.and(done);
        }
        result
    }

    /// Shows routing daemons these prefixes, and no others.
    ///
    /// # Errors
    /// The kernel's first.
    pub fn set_shields(&mut self, wanted: BTreeSet<Shield>) -> io::Result<()> {
        let result = self.rtnetlink.set_shields(&wanted);
        if result.is_ok() {
            self.shields.protected.clear(); // else some may still be there
        }
        self.shields.protected.extend(wanted);
        result
    }

    /// Shows one more.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_shield(&mut self, shield: Shield) -> io::Result<()> {
        self.shields.protected.insert(shield);
        self.rtnetlink.add_shield(shield)
    }

    /// Withdraws one.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete_shield(&mut self, shield: Shield) -> io::Result<()> {
        self.rtnetlink.delete_shield(shield)?;
        self.shields.protected.remove(&shield);
        Ok(())
    }

    /// Takes out what an instance before has shown, and this one does not.
    pub(super) fn renew_shields(&mut self) {
        if let Err(error) = self.rtnetlink.set_shields(&self.shields.protected) {
            self.warn(format!("routes of protections: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Net, Route};
    use crate::namespace::in_namespace;
    use api::apps::router::RouteKind;

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
