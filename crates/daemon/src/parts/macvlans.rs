//! Macvlans that others put on taps (keepalived, FRR): hardware addresses of the tap's
//! interface. What is punted to one comes in by it, so that it forwards, and looks up in the
//! tables of its VRF, as its tap does.

use std::io;

use super::kernel_side::KernelSide;
use super::offline::table_of;
use crate::config::Config;
use crate::kernel::LinkInfo;
use crate::kernel::changes::Lost;

impl KernelSide {
    /// Sets up all that are there: an instance before may have been killed.
    pub(super) fn all_macvlans(&mut self, config: &Config) {
        let links = self.rtnetlink.links().unwrap_or_default();
        self.macvlans(config, &links, |_| true);
    }

    /// Sets up those that are new, or may have lost their settings.
    pub(super) fn changed_macvlans(&mut self, config: &Config, links: &[LinkInfo], lost: &Lost) {
        self.macvlans(config, links, |link| lost.unknown || lost.changed.contains(&link.index));
    }

    fn macvlans(
        &mut self,
        config: &Config,
        links: &[LinkInfo],
        wanted: impl Fn(&LinkInfo) -> bool,
    ) {
        for link in links.iter().filter(|link| wanted(link)) {
            let tap = link.macvlan_of.and_then(|tap| links.iter().find(|one| one.index == tap));
            let interface = tap.and_then(|tap| {
                config.interfaces().map(|(.., one)| one).find(|one| one.name == tap.name)
            });
            let Some(interface) = interface else { continue };
            let done = self.macvlan(link, table_of(config, &interface.vrf));
            // It may be gone by now; else it is looked at again with its next change.
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
