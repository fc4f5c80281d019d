//! Confines a process; no step needs what an earlier step has taken away.
//!
//! ```text
//!  descriptors     all closed but the control socket
//!  user            its own, without groups
//!  namespaces      no network, no names of others (where they can be had)
//!  root            an empty folder that is deleted already
//!  capabilities    none, and none to be had
//!  limits          memory, no files, no processes
//!  parent's end    is its end
//!  system calls    a short list (last, for all its threads)
//! ```
//!
//! The last step must succeed. Any other step that the system refuses is reported: a daemon
//! without root has no other users, a daemon in a service no namespaces.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, chroot, fchdir, getppid, getrlimit,
    set_dumpable_behavior, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};
use rustix::thread::{Gid, Uid};

use super::{filter, signals};

/// How far it is shut in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The user, where there can be another.
    pub user: Option<u32>,
    /// Bytes of memory beyond what it has.
    pub memory: u64,
    /// The daemon, as the process sees it.
    pub parent: u32,
}

/// Before the first message: of the daemon's, the process reaches nothing but the control
/// socket.
///
/// # Errors
/// The system's: then it does not begin.
pub(super) fn begin() -> io::Result<()> {
    // The first to go when memory is short, where the system lets it say so.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Rust's own handlers would need calls that are not allowed later.
    signals::begin()?;
    // One heap for all threads: each other would take 64 MiB of what it may have.
    // SAFETY: a number.
    unsafe { libc::mallopt(M_ARENA_MAX, 1) };
    Ok(())
}

/// Whether no other thread sees what happens to this process.
///
/// # Errors
/// The system's.
pub(super) fn is_alone() -> io::Result<bool> {
    Ok(std::fs::read_dir("/proc/self/task")?.count() == 1)
}

/// Closes all descriptors from `first` on.
///
/// # Errors
/// The system's.
pub(super) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: nothing of this process's has one of them yet.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// All but the system calls; says what was not possible.
///
/// # Errors
/// When its parent is gone already.
pub(super) fn shut(bounds: Bounds) -> io::Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut step = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            missing.push(format!("{what}: {error}"));
        }
    };
    let size = address_space();
    // Made with what it still may.
    let folder = empty_folder();
    let spaces = namespaces(UnshareFlags::empty());
    step("no user of its own", bounds.user.map_or(Ok(()), own_user));
    // A namespace of users comes behind the user: there are no others in it.
    let spaces = spaces.or_else(|_| namespaces(UnshareFlags::NEWUSER));
    step("no namespaces of its own", spaces);
    step("no root of its own", folder.and_then(|folder| empty_root(&folder)));
    for one in CapabilitySet::all().iter() {
        // Who may not take it from the set cannot get it from there either.
        let _ = remove_capability_from_bounding_set(one);
    }
    step("capabilities", no_capabilities());
    for (resource, most) in [
        (Resource::As, size + bounds.memory),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
    ] {
        // Not more than there was: the limit could not be set.
        let most = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        step("limits", setrlimit(resource, limit).map_err(Into::into));
    }
    // Another user's process forgets both.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if bounds.parent != 0 && parent != bounds.parent as i32 {
        return Err(io::Error::other("its parent is gone"));
    }
    Ok(missing)
}

/// No more descriptors and threads than there are.
///
/// # Errors
/// The system's.
pub(super) fn no_more() -> io::Result<()> {
    // `poll` takes as many descriptors as there may be.
    for (resource, most) in [(Resource::Nofile, 1), (Resource::Nproc, 0)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// The system calls, of all threads that there are. There can be no more of either.
///
/// # Errors
/// When the kernel has no filters: then nothing may run.
pub(super) fn close(files: &[BorrowedFd<'_>]) -> Result<(), String> {
    let [kill, closed] = filter::programs(files)?;
    // The stricter last: it allows no other.
    for program in [closed, kill] {
        seccompiler::apply_filter_all_threads(&program)
            .map_err(|error| format!("no filter of system calls: {error}"))?;
    }
    Ok(())
}

/// Of its own: network, mounts, names, and `more`.
fn namespaces(more: UnshareFlags) -> io::Result<()> {
    let own =
        UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWNS | UnshareFlags::NEWUTS;
    // SAFETY: no thread of this process shares anything with others: there is one, and
    // descriptors are not parted.
    Ok(unsafe { unshare_unsafe(own | more) }?)
}

/// What it sees of the file system from then on.
fn empty_root(folder: &OwnedFd) -> io::Result<()> {
    fchdir(folder)?;
    Ok(chroot(".")?)
}

/// A folder that nobody has a name for any more: nothing can be made in it.
fn empty_folder() -> io::Result<OwnedFd> {
    let name = format!("rutter-{}-{:016x}", std::process::id(), random()?);
    let candidates = [PathBuf::from("/run/rutter"), std::env::temp_dir(), PathBuf::from("/")];
    let mut error = io::ErrorKind::NotFound.into();
    for folder in candidates {
        let folder = folder.join(&name);
        // Whoever this process is by then has to enter it; root alone may do so without.
        match rustix::fs::mkdir(&folder, Mode::XUSR | Mode::XGRP | Mode::XOTH) {
            Ok(()) => {}
            Err(found) => {
                error = found.into();
                continue;
            }
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(&folder, flags, Mode::empty());
        rustix::fs::rmdir(&folder)?;
        return Ok(opened?);
    }
    Err(error)
}

/// Another user, for good, with the capabilities that there are: a root of its own takes one.
/// Only where the daemon can end it then: a signal to another user's process needs a capability.
fn own_user(user: u32) -> io::Result<()> {
    let had = capabilities(None)?;
    let have = had.effective;
    if !have.contains(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL) {
        let why = "it takes CAP_SETUID, CAP_SETGID and CAP_KILL";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_keep_capabilities(true)?;
    set_thread_res_uid(uid, uid, uid)?;
    // The effective ones went with root; all go in the end.
    Ok(set_capabilities(None, had)?)
}

fn no_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let _ = clear_ambient_capability_set(); // kernels before 4.3 have none
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}

/// Bytes of address space that it has, or 1 GiB where nobody says.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    pages.map_or(1 << 30, |pages| pages * rustix::param::page_size() as u64)
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Of glibc's malloc.
const M_ARENA_MAX: i32 = -8;
