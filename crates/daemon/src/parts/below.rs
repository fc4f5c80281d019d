//! Interfaces of the kernel below ports: the kernel must not forward their frames, too.

use super::devices::Port;
use super::kernel_side::KernelSide;
use crate::config::{Device, VlanTags};
use crate::error::Error;
use crate::kernel::guard::Guard;
use crate::kernel::netdev::GLUING;

impl KernelSide {
    /// Keeps the kernel from using the interfaces below ports itself.
    ///
    /// # Errors
    /// When one has an address: the address belongs on the port.
    pub fn protect(&mut self, ports: &[Port]) -> Result<(), Error> {
        for port in ports {
            let Some(name) = below(port) else { continue };
            let of = |reason: String| Error::asked(&port.config.path("device"), reason);
            let link = self.rtnetlink.link(&name).map_err(|e| of(format!("{name}: {e}")))?;
            self.rtnetlink.refuse_addresses(link.index, &name).map_err(of)?;
            self.keep_off(&name);
            self.below.push(name.clone());
            for offload in GLUING {
                if let Err(error) = self.settings.set(&format!("link/{name}/{offload}"), "off") {
                    tracing::debug!("{name}: {offload}: {error}");
                }
            }
            let (is_packet, mtu) = (is_packet(port), port.config.interface.mtu);
            if is_packet && link.mtu < mtu.into() {
                let set = self.settings.set(&format!("link/{name}/mtu"), &mtu.to_string());
                set.map_err(|error| {
                    let path = port.config.path("mtu");
                    Error::asked(&path, format!("{name} does not accept an MTU of {mtu}: {error}"))
                })?;
            }
            match Guard::new(&name) {
                Ok(guard) => self.guards.push(guard),
                Err(error) => self.warn(format!(
                    "{name}: the kernel also processes its frames, and this could not be \
                     prevented (nftables: {error})"
                )),
            }
            let up = self.rtnetlink.set_up(link.index, true);
            up.map_err(|error| of(format!("{name}: set up: {error}")))?;
            if !link.up {
                self.raised.push(link.index);
            }
        }
        Ok(())
    }

    /// Keeps the kernel from using an interface as its own.
    pub(super) fn keep_off(&mut self, name: &str) {
        self.set(&format!("net/ipv6/conf/{name}/disable_ipv6"), "1");
        self.set(&format!("net/ipv4/conf/{name}/forwarding"), "0");
    }

    /// Interfaces of the kernel have room for one 802.1Q tag in addition to their MTU, and for no
    /// other tag. Call this once the devices have started, because starting sets their MTU.
    pub fn room_for_tags(&mut self, ports: &[Port]) {
        let two = |port: &&Port| {
            port.config.vlans.iter().any(|(tags, _)| matches!(tags, VlanTags::Two(..)))
        };
        for port in ports.iter().filter(two) {
            let Some(name) = below(port) else { continue };
            let mtu = port.config.interface.mtu + 8;
            let link = self.rtnetlink.link(&name);
            let set = link.and_then(|link| match link.mtu < mtu.into() {
                true => self.settings.set(&format!("link/{name}/mtu"), &mtu.to_string()),
                false => Ok(()),
            });
            if let Err(error) = set {
                self.warn(format!("{name}: MTU {mtu}, for two tags: {error}"));
            }
        }
    }
}

/// The interface of the kernel whose frames a port takes. A tap's interface is not below the port:
/// it is the far end of its wire.
fn below(port: &Port) -> Option<String> {
    match &port.config.device {
        Device::Dpdk(argument) if argument.starts_with("net_tap") => None,
        Device::Dpdk(_) | Device::Packet(_) => port.netdev.clone(),
        Device::Mem | Device::Pcap { .. } | Device::Tap(_) => None,
    }
}

/// DPDK's drivers set the MTU of the interface below themselves.
fn is_packet(port: &Port) -> bool {
    matches!(port.config.device, Device::Packet(_))
}
