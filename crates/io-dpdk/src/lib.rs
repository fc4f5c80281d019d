//! DPDK's devices as ports: any device argument DPDK takes, with or without
//! hugepages. One environment (EAL) a process, started by the first device.
//!
//! Without the feature `dpdk` everything is still there, and [`open`] says why
//! it cannot.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   device
//!   port
//!   pool running
//!   eal layout
//!   absent missed shim
//! ```

#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod layout;
#[cfg(feature = "dpdk")]
mod missed;
#[cfg(feature = "dpdk")]
mod pool;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod running;
#[cfg(feature = "dpdk")]
mod shim;

#[cfg(feature = "dpdk")]
pub use {
    device::open,
    eal::{init, status},
    pool::packets,
};

#[cfg(not(feature = "dpdk"))]
mod absent;
#[cfg(not(feature = "dpdk"))]
pub use absent::{init, open, packets, status};

/// How DPDK is to be started; what counts is what the first [`init`] or
/// [`open`] of the process says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Use hugepages: yes, no, or (`None`) if there are enough free ones.
    pub hugepages: Option<bool>,
    /// Megabytes without hugepages: reserved address space, used as needed.
    pub memory_mb: u32,
    /// Packets of each pool: one for each NUMA node and size of packet.
    pub packets: u32,
    /// The largest MTU of any port: bytes of layer 3.
    pub mtu: u16,
    /// Look for PCI devices: needed where one will be opened.
    pub pci: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { hugepages: None, memory_mb: 512, packets: 32_767, mtu: 1500, pci: false }
    }
}

/// How DPDK runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// The library's version.
    pub version: String,
    /// Whether packets lie on hugepages; `None` before the start.
    pub hugepages: Option<bool>,
}

/// Whether `description` names a PCI device (`0000:03:00.0`, `03:00.0,…`).
pub fn is_pci(description: &str) -> bool {
    let address = description.split(',').next().unwrap_or("");
    let Some((rest, function)) = address.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    let hex = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts.len(), 2 | 3)
        && parts.iter().all(hex)
        && matches!(function.as_bytes(), [b'0'..=b'7'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_known() {
        for yes in ["0000:03:00.0", "03:00.1", "0000:af:1f.7,arg=1"] {
            assert!(is_pci(yes), "{yes}");
        }
        for no in ["net_tap0", "net_af_packet0,iface=p0.100", "", "03:00", "0000:03:00.9", ":."] {
            assert!(!is_pci(no), "{no}");
        }
    }
}
