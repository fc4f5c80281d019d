//! Static routes and permanent neighbours in the kernel, those of the
//! configuration and those that the API was given. The kernel forgets them with
//! a link that is set down, or an address that goes; they are written again when
//! it comes back, for as long as the router runs.

use std::io;
use std::net::IpAddr;

use super::kernel_side::KernelSide;
use super::offline::{MAIN, table_of};
use netlink::connection::errno;

use crate::config::{Config, Neighbour, Net, Route};
use crate::kernel::LinkInfo;
use crate::kernel::changes::Lost;

impl KernelSide {
    /// Writes the static routes and neighbours of the configuration to the
    /// kernel, after taking out those of an instance before.
    pub fn static_entries(&mut self, config: &Config, flush: bool) {
        if flush {
            if let Err(error) = self.rtnetlink.flush_routes() {
                self.warn(format!("old static routes: {error}"));
            }
            self.renew_shields();
        }
        self.connected_routes(config);
        for route in &config.routes {
            if let Err(error) = self.write_route(route, table_of(config, &route.vrf)) {
                self.warn(format!("static route {}: {error}", route.prefix));
            }
        }
        for entry in &config.neighbours {
            if let Err(error) = self.write_neighbour(entry) {
                self.warn(format!("neighbour {} on {}: {error}", entry.address, entry.interface));
            }
        }
        self.added_entries();
    }

    /// Ends the search in the VRFs' tables: the kernel goes on to main else, devices
    /// or not. Where rules are in the place of devices, the tables also get what the kernel
    /// would have made for a device.
    fn connected_routes(&mut self, config: &Config) {
        for vrf in config.vrfs.iter().filter(|vrf| vrf.table != MAIN) {
            if let Err(error) = self.rtnetlink.add_end(vrf.table) {
                self.warn(format!("connected routes of vrf {}: {error}", vrf.name));
            }
        }
        self.follow_addresses(config);
    }

    fn follow_addresses(&mut self, config: &Config) {
        if let Err(error) = self.apart.keep(&mut self.rtnetlink, config, &self.vrfs) {
            self.warn(format!("addresses of vrfs: {error}"));
        }
    }

    /// Writes what the API was given once more.
    fn added_entries(&mut self) {
        for at in 0..self.added.routes.len() {
            let (route, table) = self.added.routes[at].clone();
            if let Err(error) = self.write_route(&route, table) {
                self.warn(format!("route {}: {error}", route.prefix));
            }
        }
        for at in 0..self.added.neighbours.len() {
            let entry = self.added.neighbours[at].clone();
            if let Err(error) = self.write_neighbour(&entry) {
                self.warn(format!("neighbour {} on {}: {error}", entry.address, entry.interface));
            }
        }
    }

    /// Writes a static route, also over what it has written before, but never
    /// over another's: a connected network would be cut off.
    fn write_route(&mut self, route: &Route, table: u32) -> io::Result<()> {
        match self.rtnetlink.add_route(route, table, self.written.has(route, table)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(io::Error::new(error.kind(), TAKEN))
            }
            result => {
                result?;
                self.written.add(route, table);
                Ok(())
            }
        }
    }

    fn write_neighbour(&mut self, entry: &Neighbour) -> io::Result<()> {
        let link = self.rtnetlink.link(&entry.interface)?;
        self.rtnetlink.add_neighbour(link.index, entry.address, entry.mac)
    }

    /// Gives the taps back what the kernel has forgotten.
    pub fn give_back(&mut self, config: &Config, lost: &Lost) {
        let links = self.rtnetlink.links().unwrap_or_default();
        if lost.rules || lost.unknown {
            self.warn_of_foreign_rules();
        }
        let mut any = self.raise_vrfs(&links);
        self.keep_off_again(&links, lost);
        self.changed_macvlans(config, &links, lost);
        for (.., interface) in config.interfaces() {
            let Some(link) = links.iter().find(|link| link.name == interface.name) else {
                continue;
            };
            self.limit_mtu(link, interface.mtu);
            let all = lost.unknown || lost.all.contains(&link.index);
            any |= all || lost.routes.contains(&link.index);
            if !all {
                continue;
            }
            // A link that had no room for IPv6 has the settings of a new one.
            self.forward(&interface.name);
            let table = table_of(config, &interface.vrf);
            let connected = table == MAIN || self.vrfs.contains_key(&table);
            let set = self
                .return_to_vrf(link, table)
                .and_then(|()| self.set_addresses(link.index, &interface.addresses, connected));
            if let Err(error) = set {
                self.warn(format!("addresses of {}: {error}", interface.name));
            }
        }
        if any {
            self.static_entries(config, false);
        } else if lost.addresses {
            self.follow_addresses(config);
        }
    }

    /// An interface below a port that had no room for IPv6 has the settings of a new
    /// one: the kernel would take part again.
    fn keep_off_again(&mut self, links: &[LinkInfo], lost: &Lost) {
        for name in self.below.clone() {
            let link = links.iter().find(|link| link.name == name);
            if link.is_some_and(|link| lost.unknown || lost.all.contains(&link.index)) {
                self.keep_off(&name);
                self.settings.renew(&format!("net/ipv6/conf/{name}/"));
            }
        }
    }

    /// A tap's MTU may be lowered while the router runs, not raised: the port
    /// would drop what the kernel then takes for short enough.
    fn limit_mtu(&mut self, link: &LinkInfo, most: u16) {
        if link.mtu <= most.into() {
            return;
        }
        let LinkInfo { name, mtu, .. } = link;
        tracing::warn!(
            "{name}: an MTU of {mtu} exceeds the port's, {most} (`mtu` in the configuration): it \
             is set to {most}"
        );
        if let Err(error) = self.rtnetlink.set_mtu(link.index, most) {
            self.warn(format!("MTU of {name}: {error}"));
        }
    }

    /// Adds a route that lasts as long as the router runs.
    ///
    /// # Errors
    /// When the kernel refuses, or has another's route of this prefix and metric.
    pub fn add_route(&mut self, route: Route, table: u32) -> io::Result<()> {
        self.write_route(&route, table)?;
        self.added.route(route, table);
        Ok(())
    }

    /// Takes a static route out; one that waits for its link is in no table.
    ///
    /// # Errors
    /// When there is none, or the kernel refuses.
    pub fn delete_route(&mut self, net: Net, table: u32, metric: Option<u32>) -> io::Result<()> {
        let known = self.added.forget_route(net, table, metric);
        self.written.forget(net, table, metric);
        unless_gone(self.rtnetlink.delete_route(net, table, metric), known)
    }

    /// Adds a permanent neighbour that lasts as long as the router runs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_neighbour(&mut self, entry: Neighbour) -> io::Result<()> {
        self.write_neighbour(&entry)?;
        self.added.neighbour(entry);
        Ok(())
    }

    /// Takes a neighbour out.
    ///
    /// # Errors
    /// When there is none, or the kernel refuses.
    pub fn delete_neighbour(&mut self, interface: &str, address: IpAddr) -> io::Result<()> {
        let known = self.added.forget_neighbour(interface, address);
        let link = self.rtnetlink.link(interface)?;
        unless_gone(self.rtnetlink.delete_neighbour(link.index, address), known)
    }
}

/// That the kernel has forgotten what was to be deleted is no error.
fn unless_gone(result: io::Result<()>, known: bool) -> io::Result<()> {
    match result {
        Err(error) if known && matches!(errno(&error), Some(ENOENT | ESRCH)) => Ok(()),
        result => result,
    }
}

/// Why a route is refused.
const TAKEN: &str = "the kernel has another route to this prefix with the same metric, which is \
                     not a static route of Rutter's (the network of an address, or another \
                     program's route): give this route a different `metric`";

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
