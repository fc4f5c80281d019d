//! VRFs in the kernel: devices, or rules and marks in a kernel without VRF devices.

use std::io;

use super::kernel_side::KernelSide;
use super::offline::MAIN;
use crate::config::Config;
use crate::error::{Doing, Error};
use crate::kernel::LinkInfo;
use crate::kernel::guard::Marker;

impl KernelSide {
    /// Creates the VRFs' devices. A kernel without VRF devices gets rules by interface and by mark instead.
    pub(super) fn vrfs(&mut self, config: &Config) -> Result<(), Error> {
        let (mut any, mut by_rules) = (false, false);
        for vrf in config.vrfs.iter().filter(|vrf| vrf.table != MAIN) {
            any = true;
            if let Err(error) = self.vrf_device(&vrf.name, vrf.table) {
                tracing::info!("vrf {}: rules instead of a device ({error})", vrf.name);
                by_rules = true;
                let rules = self.rtnetlink.add_mark_rules(vrf.table);
                let rules = rules.and_then(|()| self.rtnetlink.add_detour());
                rules.doing(|| format!("rules for vrf `{}`", vrf.name))?;
                for key in ["net/ipv4/fwmark_reflect", "net/ipv6/fwmark_reflect"] {
                    self.set(key, "1");
                }
                self.set("net/ipv4/tcp_fwmark_accept", "1");
            }
        }
        match any.then(|| self.rtnetlink.search_vrfs_first()) {
            Some(Ok(false)) if by_rules => self.warn(ORDERED.into()),
            Some(Err(error)) => {
                self.warn(format!(
                    "addresses that are also in main lead to main in every vrf: {error}"
                ));
            }
            Some(Ok(_)) | None => {}
        }
        Ok(())
    }

    /// Creates a VRF's device, or finds it. A packet that is punted to a tap below the device comes
    /// in by the device, whose settings then decide whether it is forwarded.
    fn vrf_device(&mut self, name: &str, table: u32) -> io::Result<u32> {
        let (index, made) = self.rtnetlink.add_vrf(name, table)?;
        if made {
            self.made(name, index);
        }
        self.forward(name);
        self.vrfs.insert(table, (name.to_string(), index));
        Ok(index)
    }

    /// Puts a tap into the tables of its VRF; true if the kernel then creates connected routes
    /// there itself.
    pub(super) fn enter_vrf(&mut self, name: &str, index: u32, table: u32) -> io::Result<bool> {
        if table == MAIN {
            return self.leave_vrf(name).map(|()| true);
        }
        if let Some((_, device)) = self.vrfs.get(&table) {
            return self.rtnetlink.set_master(index, *device).map(|()| true);
        }
        self.enter_by_rules(name, index, table).map(|()| false)
    }

    /// Lets a link use the tables of a VRF that has no device.
    pub(super) fn enter_by_rules(&mut self, name: &str, index: u32, table: u32) -> io::Result<()> {
        if table == MAIN || self.vrfs.contains_key(&table) {
            return Ok(());
        }
        self.rtnetlink.add_rules(name, table)?;
        if self.markers.get(name).is_some_and(|(of, _)| *of == index) {
            return Ok(());
        }
        self.markers.remove(name); // of a link that is gone: the kernel's table has its name
        // The kernel must compare sources with the VRF's own addresses, not with all of its own.
        self.set(&format!("net/ipv4/conf/{name}/src_valid_mark"), "1");
        match Marker::new(name, table) {
            Ok(marker) => drop(self.markers.insert(name.to_string(), (index, marker))),
            Err(error) => self.warn(format!(
                "{name}: the kernel's own answers use the routes of main (nftables: {error})"
            )),
        }
        Ok(())
    }

    /// A tap that was kept may still be below the device of its former VRF. If a user put it below
    /// another device, it stays there.
    fn leave_vrf(&mut self, name: &str) -> io::Result<()> {
        let tap = self.rtnetlink.link(name)?;
        if tap.master == 0 {
            return Ok(());
        }
        let links = self.rtnetlink.links()?;
        if links.iter().any(|link| link.index == tap.master && link.ours) {
            return self.rtnetlink.set_master(tap.index, 0);
        }
        Ok(())
    }

    /// Sets VRF devices up again that somebody has set down: the kernel forwards nothing by their
    /// tables then. Returns whether there was one.
    pub(super) fn raise_vrfs(&mut self, links: &[LinkInfo]) -> bool {
        let down = |link: &&LinkInfo| {
            !link.up && self.vrfs.values().any(|(_, device)| *device == link.index)
        };
        let down: Vec<_> = links.iter().filter(down).collect();
        for device in &down {
            tracing::warn!("vrf {}: its device is down: set up again", device.name);
            if let Err(error) = self.rtnetlink.set_up(device.index, true) {
                self.warn(format!("vrf {}: {error}", device.name));
            }
        }
        !down.is_empty()
    }

    /// Puts a tap below its VRF's device again: if somebody deletes the device, the kernel silently
    /// releases the tap, and the device is created again.
    pub(super) fn return_to_vrf(&mut self, tap: &LinkInfo, table: u32) -> io::Result<()> {
        let Some((name, _)) = self.vrfs.get(&table).cloned() else { return Ok(()) };
        if tap.master != 0 {
            return Ok(()); // it is there, or a user wants it elsewhere
        }
        let device = self.vrf_device(&name, table)?;
        tracing::warn!("{}: put into vrf {name} again", tap.name);
        self.rtnetlink.set_master(tap.index, device)
    }
}

const ORDERED: &str = "the kernel's first policy rule is not that of the table local: somebody has \
                       changed the order, and hosts in one vrf may reach this machine's addresses \
                       in another; run ip rule add pref 0 lookup local and ip -6 rule add pref 0 \
                       lookup local, and restart Rutter";
