//! The rights of the process, beside being root: capabilities (`capabilities(7)`).
//!
//! The process gives them up before the first thread starts, because each thread has its own. It
//! does so for good: no code in the process can get them back. The kernel's networks need two. An
//! application declares its further needs: a Grantor's policy runs in processes with users and a
//! root of their own. The thread that starts these is started early and keeps only those rights;
//! all others give them up before the first packet comes ([`Reduced::give_up`]). A DPDK device that
//! accesses hardware needs more rights, by its name; they stay, because it needs them to stop, too.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::config::{Config, Device};
use crate::error::{Doing, Error};

/// Keeps the present rights that a router of this configuration and its applications need. Without
/// a kernel's network nothing comes in from outside, and nothing is given up.
///
/// # Errors
/// When the system refuses to drop the others.
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

/// The needs of a router without its applications.
#[derive(Clone, Copy, Debug)]
pub struct Reduced(CapabilitySet);

impl Reduced {
    /// For a test's run, whose thread has further work.
    #[cfg(test)]
    pub fn nothing() -> Reduced {
        Reduced(CapabilitySet::all())
    }

    /// Takes the applications' additional rights from this thread, and from those that it starts
    /// from then on.
    pub fn give_up(self) {
        keep_only(self.0);
    }
}

/// Limits this thread, and those that it starts from then on, to these rights.
pub fn keep_only(rights: CapabilitySet) {
    let Ok(had) = capabilities(None) else { return };
    let (effective, permitted) = (had.effective & rights, had.permitted & rights);
    let inheritable = had.inheritable & rights;
    let less = set_capabilities(None, CapabilitySets { effective, permitted, inheritable });
    // A process may always reduce its own rights.
    less.unwrap_or_else(|error| tracing::warn!("capabilities are not given up: {error}"));
}

fn reduce_to(keep: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    for one in CapabilitySet::all().iter() {
        // An old kernel may not know it.
        if keep.contains(one) || !capability_is_in_bounding_set(one).unwrap_or(false) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            // A process that may not remove it from the set cannot gain it from there either.
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

/// The needs of the devices, and of the kernel's side.
fn needed(config: &Config) -> CapabilitySet {
    let devices = config.ports.iter().map(|port| match &port.device {
        Device::Dpdk(argument) => of_dpdk(argument),
        _ => CapabilitySet::empty(),
    });
    devices.fold(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW, |all, one| all | one)
}

/// In addition to those of every router.
fn of_dpdk(argument: &str) -> CapabilitySet {
    let is = |names: &[&str]| names.iter().any(|name| argument.starts_with(name));
    if is(&PLAIN) {
        CapabilitySet::empty()
    } else if is(&AF_PACKET) {
        // Its rings are locked in memory, and may exceed RLIMIT_MEMLOCK.
        CapabilitySet::IPC_LOCK
    } else if is(&["net_af_xdp"]) {
        // Its program in the kernel, and frames that are locked in memory. SYS_ADMIN: libxdp's use
        // of maps and links on kernels before that right was split.
        CapabilitySet::BPF
            | CapabilitySet::PERFMON
            | CapabilitySet::IPC_LOCK
            | CapabilitySet::SYS_ADMIN
    } else {
        // For a device on a bus: locked memory, its physical addresses, registers by VFIO or UIO.
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
        // A thread of the test's own: the other threads keep their rights.
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
