//! What a router changes in the kernel, and how it is undone: taps and their
//! addresses, rules of VRFs, settings. (Interfaces below ports: `below`; static routes and
//! neighbours: `entries`.)

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use ::io::tap::Tap;

use super::apart::Apart;
use super::devices::Port;
use super::offline::{MAIN, table_of};
use super::written::{Added, Shields, Written};
use crate::config::{Config, Interface, Mac, Net};
use crate::error::{Doing, Error};
use crate::kernel::guard::{Guard, Marker};
use crate::kernel::neighbours::Refused;
use crate::kernel::{LinkInfo, Rtnetlink, Settings};

/// The kernel's side of a running router.
pub struct KernelSide {
    pub(super) rtnetlink: Rtnetlink,
    pub(super) settings: Settings,
    /// Each drops what the interface below a port would hand to the stack.
    pub(super) guards: Vec<Guard>,
    /// Names of the interfaces below ports.
    pub(super) below: Vec<String>,
    /// Numbers of those that were down before.
    pub(super) raised: Vec<u32>,
    /// Names of all taps.
    taps: Vec<String>,
    /// VRF devices, by their table, where the kernel has such devices.
    pub(super) vrfs: HashMap<u32, (String, u32)>,
    /// Where it has none: each marks what is punted to a link, by name and number, with its
    /// table.
    pub(super) markers: HashMap<String, (u32, Marker)>,
    /// Names of the taps and VRF devices that were not there before.
    new: Vec<String>,
    /// Routes and neighbours that the API was given.
    pub(super) added: Added,
    /// Static routes that are in the kernel by this instance.
    pub(super) written: Written,
    /// What keeps VRFs without devices from each other's addresses.
    pub(super) apart: Apart,
    /// A shield's state in the kernel.
    pub(super) shields: Shields,
    /// The refusals of the kernel's neighbour tables.
    pub(super) neighbours: Refused,
    /// Present faults.
    pub warnings: Vec<String>,
}

/// The parts to remove at the end, besides a run's temporary changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Remove {
    /// Nothing: the next run takes the taps over.
    Nothing,
    /// The parts that did not exist before: the start has failed.
    New,
    /// All taps and VRF devices, also those of other configurations.
    All,
}

impl KernelSide {
    /// Connects to the kernel; `record` is where changed settings are noted.
    ///
    /// # Errors
    /// When there is no netlink.
    pub fn new(record: &Path) -> Result<KernelSide, Error> {
        Ok(KernelSide {
            rtnetlink: Rtnetlink::open().doing(|| "open netlink".into())?,
            settings: Settings::new(record).doing(|| "read the changed settings".into())?,
            guards: Vec::new(),
            below: Vec::new(),
            raised: Vec::new(),
            taps: Vec::new(),
            vrfs: HashMap::new(),
            markers: HashMap::new(),
            new: Vec::new(),
            added: Added::default(),
            written: Written::default(),
            apart: Apart::default(),
            shields: Shields::default(),
            neighbours: Refused::default(),
            warnings: Vec::new(),
        })
    }

    /// Makes the taps, or takes over those that are there; sets them up with
    /// their addresses. In the order of [`Config::interfaces`].
    ///
    /// # Errors
    /// When one cannot be had.
    pub fn taps(&mut self, config: &Config, ports: &[Port]) -> Result<Vec<Tap>, Error> {
        let mut taps = Vec::new();
        self.limit_neighbours(config.max_neighbours);
        // Leftovers of an instance that was killed.
        self.rtnetlink.flush_rules().doing(|| "flush rules".into())?;
        self.delete_unknown(config).doing(|| "delete old taps".into())?;
        self.vrfs(config)?;
        for (carrier, tags, interface) in config.interfaces() {
            let mac = ports.iter().find(|open| open.config.name == carrier.port());
            let mac = mac.map(|open| open.mac);
            let name = &interface.name;
            let table = table_of(config, &interface.vrf);
            let tap = self.tap(interface, mac.unwrap_or_default(), table);
            taps.push(tap.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => Error::asked(&carrier.path(tags), error),
                io::ErrorKind::AddrNotAvailable => {
                    let mac = mac.unwrap_or_default();
                    let what = format!(
                        "the hardware address {mac} of its device is not a station's: give the \
                         port another (mac = \"02:00:00:00:00:01\")"
                    );
                    Error::asked(&carrier.path(tags), what)
                }
                _ => Error::System { action: format!("tap `{name}`"), source: error },
            })?);
            self.taps.push(name.clone());
        }
        self.all_macvlans(config);
        self.warn_of_foreign_rules();
        Ok(taps)
    }

    /// Deletes what an instance with another configuration has made: its addresses
    /// would draw traffic to where nobody takes it.
    fn delete_unknown(&mut self, config: &Config) -> io::Result<()> {
        for link in self.rtnetlink.links()?.iter().filter(|link| link.ours) {
            let tap = config.interfaces().any(|(.., interface)| interface.name == link.name);
            let vrf = config.vrfs.iter().any(|vrf| vrf.table != MAIN && vrf.name == link.name);
            if !tap && !vrf {
                self.rtnetlink.delete_link(link.index)?;
                tracing::info!("{} is no longer in the configuration: deleted", link.name);
            }
        }
        Ok(())
    }

    /// Notes what was made. Without the mark a later run would not know it.
    pub(super) fn made(&mut self, name: &str, index: u32) {
        self.new.push(name.to_string());
        if let Err(error) = self.rtnetlink.mark(index) {
            tracing::debug!("{name}: alias: {error}");
        }
    }

    /// Reports which policy rules packets that the data plane forwards do not follow.
    pub(super) fn warn_of_foreign_rules(&mut self) {
        let rules = self.rtnetlink.foreign_rules().unwrap_or_default();
        let rules: Vec<_> = rules.iter().map(|rule| format!("{NOT_HEEDED}{rule}")).collect();
        self.warnings.retain(|known| !known.starts_with(NOT_HEEDED) || rules.contains(known));
        rules.into_iter().for_each(|rule| self.warn(rule));
    }

    fn tap(&mut self, interface: &Interface, mac: Mac, table: u32) -> io::Result<Tap> {
        let name = &interface.name;
        let known = self.rtnetlink.link(name).is_ok();
        let tap = Tap::open(name).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                io::Error::new(error.kind(), format!("{error}: run as root"))
            }
            io::ErrorKind::InvalidInput if known => io::Error::new(
                error.kind(),
                "the kernel has an interface of this name that is not a tap: rename the port",
            ),
            _ => error,
        })?;
        tap.set_persistent(true)?;
        let index = tap.index()?;
        if !known {
            self.made(name, index);
        }
        if tap.mac()? != mac.0 {
            tap.set_mac(mac.0)?;
        }
        tap.set_mtu(interface.mtu)?;
        self.forward(name);
        let connected = self.enter_vrf(name, index, table)?;
        tap.set_up(true)?;
        self.set_addresses(index, &interface.addresses, connected)?;
        Ok(tap)
    }

    /// Adds what the configuration says, takes away what an earlier one said.
    /// Addresses that others set stay.
    pub(super) fn set_addresses(
        &mut self,
        index: u32,
        wanted: &[Net],
        connected: bool,
    ) -> io::Result<()> {
        let present = self.rtnetlink.addresses(index)?;
        for (net, ours) in &present {
            if *ours && !wanted.contains(net) {
                self.rtnetlink.delete_address(index, *net)?;
            }
        }
        for net in wanted.iter().filter(|net| !present.iter().any(|(there, _)| there == *net)) {
            self.rtnetlink.add_address(index, *net, connected)?;
        }
        Ok(())
    }

    /// Lets the kernel forward what is punted to a tap.
    pub(super) fn forward(&mut self, name: &str) {
        self.set(&format!("net/ipv4/conf/{name}/forwarding"), "1");
        self.set(&format!("net/ipv6/conf/{name}/forwarding"), "1");
        self.no_redirects(name);
        let one_interface = format!("net/ipv6/conf/{name}/force_forwarding");
        if self.settings.get(&one_interface).is_ok() {
            self.set(&one_interface, "1");
        } else {
            self.forward_ipv6_everywhere();
        }
    }

    /// What is punted comes back out of its tap where the data plane's next hop is on the
    /// same link: no reason to send hosts other ways. And nobody redirects this router
    /// any, since the tables would follow; nor is a router advertisement believed, which
    /// `accept_ra = 2` of all new interfaces (machines with containers have it) would do.
    fn no_redirects(&mut self, name: &str) {
        // The kernel sends them where either says so.
        self.set("net/ipv4/conf/all/send_redirects", "0");
        for key in ["send_redirects", "accept_redirects", "secure_redirects"] {
            self.set(&format!("net/ipv4/conf/{name}/{key}"), "0");
        }
        self.set(&format!("net/ipv6/conf/{name}/accept_redirects"), "0");
        self.set(&format!("net/ipv6/conf/{name}/accept_ra"), "0");
    }

    /// Kernels before 6.17 forward IPv6 on all interfaces or none.
    fn forward_ipv6_everywhere(&mut self) {
        if self.settings.get("net/ipv6/conf/all/forwarding").is_ok_and(|now| now == "1") {
            return;
        }
        let names = self.rtnetlink.links().unwrap_or_default().into_iter().map(|link| link.name);
        let names: Vec<String> = names.filter(|name| !self.taps.contains(name)).collect();
        let key = |name: &String| format!("net/ipv6/conf/{name}/forwarding");
        let hosts =
            names.iter().map(key).filter(|key| self.settings.get(key).is_ok_and(|v| v == "0"));
        let hosts: Vec<String> = hosts.collect();
        self.set("net/ipv6/conf/all/forwarding", "1");
        // It has set each interface's own, too: the others keep listening to
        // router advertisements.
        hosts.iter().for_each(|key| self.set(key, "0"));
    }

    pub(super) fn set(&mut self, key: &str, value: &str) {
        if let Err(error) = self.settings.set(key, value) {
            self.warn(format!("{}: {error}", key.replace('/', ".")));
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            tracing::warn!("{warning}");
            self.warnings.push(warning);
        }
    }

    /// Settings changed so far.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the carrier of an interface's tap.
    pub fn set_carrier(&mut self, name: &str, on: bool) {
        let link = self.rtnetlink.link(name);
        if let Err(error) = link.and_then(|link| self.rtnetlink.set_carrier(link.index, on)) {
            tracing::warn!("{name}: carrier: {error}");
        }
    }

    /// Undoes it, but for the taps that are to stay, with their addresses.
    pub fn restore(&mut self, taps: Vec<Tap>, remove: Remove) {
        self.guards.clear();
        self.markers.clear();
        self.apart.forget(&mut self.rtnetlink);
        if let Err(error) = self.rtnetlink.flush_rules() {
            tracing::warn!("rules are not deleted: {error}");
        }
        if !self.shields.protected.is_empty()
            && let Err(error) = self.rtnetlink.set_shields(&BTreeSet::new())
        {
            tracing::warn!("routes of protections are not deleted: {error}");
        }
        for (name, error) in self.settings.restore() {
            tracing::warn!("{name} is not restored: {error}");
        }
        drop(taps); // the kernel keeps them
        if remove == Remove::New {
            for index in self.raised.drain(..) {
                let _ = self.rtnetlink.set_up(index, false); // it may be gone
            }
        }
        if remove == Remove::All {
            let _ = self.rtnetlink.flush_routes(); // most go with the taps
        }
        let goes = |link: &LinkInfo| match remove {
            Remove::Nothing => false,
            Remove::New => self.new.contains(&link.name),
            Remove::All => link.ours || self.taps.contains(&link.name),
        };
        for link in self.rtnetlink.links().unwrap_or_default() {
            if goes(&link)
                && let Err(error) = self.rtnetlink.delete_link(link.index)
            {
                tracing::warn!("{} is not deleted: {error}", link.name);
            }
        }
    }
}

/// Takes away what an instance that was killed has left: taps, rules, static
/// routes, settings.
///
/// # Errors
/// When the kernel refuses.
pub fn cleanup(config: &Config, record: &Path) -> Result<(), Error> {
    let mut rtnetlink = Rtnetlink::open().doing(|| "open netlink".into())?;
    rtnetlink.flush_rules().doing(|| "flush rules".into())?;
    rtnetlink.flush_routes().doing(|| "flush static routes".into())?;
    rtnetlink.set_shields(&BTreeSet::new()).doing(|| "flush routes of protections".into())?;
    let mut settings = Settings::new(record).doing(|| "read the changed settings".into())?;
    for (name, error) in settings.restore() {
        tracing::warn!("{name} is not restored: {error}");
    }
    for link in rtnetlink.links().doing(|| "list links".into())?.iter().filter(|link| link.ours) {
        let deleted = rtnetlink.delete_link(link.index);
        deleted.doing(|| format!("delete `{}`", link.name))?;
        tracing::info!("{} deleted", link.name);
    }
    // The parts that existed before, and were taken over.
    for (.., interface) in config.interfaces() {
        let name = &interface.name;
        if rtnetlink.link(name).is_ok() {
            let tap = Tap::open(name).and_then(Tap::delete);
            tap.doing(|| format!("delete tap `{name}`"))?;
            tracing::info!("tap {name} deleted");
        }
    }
    Ok(())
}

const NOT_HEEDED: &str = "the data plane does not follow the policy rule ";
