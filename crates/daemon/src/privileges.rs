//! What the process may do, beside being root: capabilities (`capabilities(7)`).
//!
//! They are given up before the first thread starts, since each thread has its own, and for
//! good: neither the process nor what it could be made to run gets them back. The kernel's
//! networks need two. An application says what else it needs: a Grantor's policy runs in
//! processes with users and a root of their own. Its thread is started early, and has that
//! alone; all others give it up before the first packet comes ([`Reduced::give_up`]). A device of
//! DPDK's that reaches for hardware needs more, by its name; they stay, for it needs them to
//! stop, too.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::config::{Config, Device};
use crate::error::{Doing, Error};

/// Keeps what a router of this configuration and its applications need, of what there is. Without a kernel's
/// network nothing from outside comes in, and nothing is given up.
///
/// # Errors
/// When the system does not let go of the rest.
pub fn reduce(config: &Config, apps: CapabilitySet) -> Result<Reduced, Error> {
    if config.is_offline() {
        return Ok(Reduced(CapabilitySet::all()));
    }
    let own = needed(config);
    let all = own | apps;
    reduce_to(all).doing(|| "give up privileges".into())?;
    let names: Vec<_> = all.iter_names().map(|(name, _)| name).collect();
    tracing::debug!("capabilities: at most {}", names.join(" "));
    Ok(Reduced(own))
}

/// What a router needs without its applications.
#[derive(Clone, Copy, Debug)]
pub struct Reduced(CapabilitySet);

impl Reduced {
    /// Of a test's run, whose thread has more to do.
    #[cfg(test)]
    pub fn nothing() -> Reduced {
        Reduced(CapabilitySet::all())
    }

    /// Leaves this thread, and those that it starts from then on, without what applications
    /// have beside it.
    pub fn give_up(self) {
        keep_only(self.0);
    }
}

/// Leaves this thread, and those that it starts from then on, no more than these.
pub fn keep_only(rights: CapabilitySet) {
    let Ok(had) = capabilities(None) else { return };
    let (effective, permitted) = (had.effective & rights, had.permitted & rights);
    let inheritable = had.inheritable & rights;
    let less = set_capabilities(None, CapabilitySets { effective, permitted, inheritable });
    // Less than there is may always be had.
    less.unwrap_or_else(|error| tracing::warn!("capabilities are not given up: {error}"));
}

fn reduce_to(keep: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    for one in CapabilitySet::all().iter() {
        // The kernel may not know it.
        if keep.contains(one) || !capability_is_in_bounding_set(one).unwrap_or(false) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            // Who may not take it from the set cannot get it from there either.
            Err(error) if error != Errno::PERM => return Err(error.into()),
            _ => {}
        }
    }
    let _ = clear_ambient_capability_set(); // kernels before 4.3 have none
    let permitted = capabilities(None)?.permitted & keep;
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?;
    Ok(())
}

/// What the devices need, and the kernel's side.
fn needed(config: &Config) -> CapabilitySet {
    let devices = config.ports.iter().map(|port| match &port.device {
        Device::Dpdk(argument) => of_dpdk(argument),
        _ => CapabilitySet::empty(),
    });
    devices.fold(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW, |all, one| all | one)
}

/// Beside those of every router.
fn of_dpdk(argument: &str) -> CapabilitySet {
    let is = |names: &[&str]| names.iter().any(|name| argument.starts_with(name));
    if is(&PLAIN) {
        CapabilitySet::empty()
    } else if is(&AF_PACKET) {
        // Its rings are locked in memory, and may be larger than RLIMIT_MEMLOCK allows.
        CapabilitySet::IPC_LOCK
    } else if is(&["net_af_xdp"]) {
        // Its program in the kernel, and frames that are locked in memory. SYS_ADMIN: what
        // libxdp does with maps and links before the kernel's own split of it.
        CapabilitySet::BPF
            | CapabilitySet::PERFMON
            | CapabilitySet::IPC_LOCK
            | CapabilitySet::SYS_ADMIN
    } else {
        // Of the bus: locked memory, its physical addresses, registers by VFIO or UIO.
        CapabilitySet::IPC_LOCK | CapabilitySet::SYS_RAWIO | CapabilitySet::SYS_ADMIN
    }
}

/// Devices that are made of sockets, files or memory.
const PLAIN: [&str; 6] =
    ["net_tap", "net_pcap", "net_null", "net_ring", "net_memif", "net_virtio_user"];
const AF_PACKET: [&str; 2] = ["net_af_packet", "eth_af_packet"];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(devices: &[&str]) -> CapabilitySet {
        let port = |(i, device)| format!("[ports.p{i}]\ndevice = \"{device}\"\n");
        let text: String = devices.iter().enumerate().map(port).collect();
        needed(&Config::parse("t", &text).unwrap())
    }

    #[test]
    fn devices_keep_what_they_need_by_name() {
        let plain = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        assert_eq!(of(&["net_tap0", "tap:b"]), plain);
        let rings = plain | CapabilitySet::IPC_LOCK;
        assert_eq!(of(&["net_af_packet0,iface=a", "tap:b"]), rings);
        assert!(of(&["net_af_xdp0,iface=a"]).contains(CapabilitySet::BPF));
        assert!(!of(&["net_af_xdp0,iface=a"]).contains(CapabilitySet::SYS_RAWIO));
        assert!(of(&["tap:b", "0000:01:00.0"]).contains(CapabilitySet::SYS_RAWIO));
    }

    #[test]
    fn what_is_given_up_is_gone_for_threads_that_start_later() {
        // A thread of the test's own: the others keep theirs.
        let test = || {
            let had = capabilities(None).unwrap().permitted;
            let keep = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
            reduce_to(keep).unwrap();
            reduce_to(keep).unwrap(); // as under a service manager that has done it
            let left = std::thread::spawn(|| capabilities(None).unwrap()).join().unwrap();
            assert_eq!(left.permitted, had & keep);
            assert_eq!((left.effective, left.inheritable), (had & keep, CapabilitySet::empty()));
            let bound = |one| capability_is_in_bounding_set(one).unwrap();
            assert!(!had.contains(CapabilitySet::SETPCAP) || !bound(CapabilitySet::SYS_ADMIN));
            assert!(rustix::thread::no_new_privs().unwrap());
            keep_only(CapabilitySet::NET_RAW);
            let left = std::thread::spawn(|| capabilities(None).unwrap()).join().unwrap();
            assert_eq!(left.permitted, had & CapabilitySet::NET_RAW);
            assert_eq!(capabilities(None).unwrap(), left);
        };
        std::thread::spawn(test).join().unwrap();
    }
}
