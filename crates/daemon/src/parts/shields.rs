//! What a shield needs of the kernel, as this instance keeps it: rules that forward nothing
//! from the taps at the front, and the routes that show what is protected. Both end with the
//! instance: who learns the routes is not to send packets here any more.

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
        let mut result = Ok(());
        for new in wanted.difference(&self.shields.fronts) {
            result = result.and(self.rtnetlink.prohibit_from(new));
        }
        for gone in self.shields.fronts.difference(&wanted) {
            result = result.and(self.rtnetlink.allow_from(gone));
        }
        self.shields.fronts = wanted;
        result
    }

    /// Shows routing daemons these prefixes, and no others.
    ///
    /// # Errors
    /// The kernel's first.
    pub fn set_shields(&mut self, wanted: BTreeSet<Shield>) -> io::Result<()> {
        let result = self.rtnetlink.set_shields(&wanted);
        self.shields.protected = wanted;
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
        self.shields.protected.remove(&shield);
        self.rtnetlink.delete_shield(shield)
    }

    /// Takes out what an instance before has shown, and this one does not.
    pub(super) fn renew_shields(&mut self) {
        if let Err(error) = self.rtnetlink.set_shields(&self.shields.protected) {
            self.warn(format!("routes of protections: {error}"));
        }
    }
}
