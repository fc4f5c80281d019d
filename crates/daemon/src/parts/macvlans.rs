//! Macvlans that other programs put on taps (keepalived, FRR): further hardware addresses of the
//! tap's interface. A packet that is punted to such an address comes in by the macvlan, so the
//! macvlan must forward, and must use the tables of its VRF, as its tap does. At the front of a
//! shield it must forward nothing, as its tap (`shields`).

use std::io;

use super::kernel_side::KernelSide;
use super::offline::table_of;
use crate::config::Config;
use crate::kernel::LinkInfo;
use crate::kernel::changes::Lost;

impl KernelSide {
    /// Sets up all existing macvlans: an earlier instance may have been killed.
    pub(super) fn all_macvlans(&mut self, config: &Config) {
        let links = self.rtnetlink.links().unwrap_or_default();
        self.macvlans(config, &links, |_| true);
    }

    /// Sets up macvlans that are new or may have lost their settings.
    pub(super) fn changed_macvlans(&mut self, config: &Config, links: &[LinkInfo], lost: &Lost) {
        self.macvlans(config, links, |link| lost.unknown || lost.changed.contains(&link.index));
    }

    fn macvlans(
        &mut self,
        config: &Config,
        links: &[LinkInfo],
        wanted: impl Fn(&LinkInfo) -> bool,
    ) {
        if let Err(error) = self.macvlans_at_front(links) {
            self.warn(format!("macvlans at the front: {error}"));
        }
        for link in links.iter().filter(|link| wanted(link)) {
            let tap = link.macvlan_of.and_then(|tap| links.iter().find(|one| one.index == tap));
            let interface = tap.and_then(|tap| {
                config.interfaces().map(|(.., one)| one).find(|one| one.name == tap.name)
            });
            let Some(interface) = interface else { continue };
            let done = self.macvlan(link, table_of(config, &interface.vrf));
            // The macvlan may be gone by now; otherwise its next change brings it here again.
            if let Err(error) = done {
                tracing::debug!("{}, on {}: {error}", link.name, interface.name);
            }
        }
    }

    fn macvlan(&mut self, link: &LinkInfo, table: u32) -> io::Result<()> {
        let name = &link.name;
        self.settings.get(&format!("net/ipv4/conf/{name}/forwarding"))?;
        self.forward(name);
        self.enter_by_rules(name, link.index, table)
    }
}
