//! Which system calls a process may make once its policy has begun (`seccomp(2)`).
//!
//! A short list: memory, waiting, time, and the process's two descriptors. Calls by which a library
//! inspects a descriptor fail as if it were closed. All other calls end the process.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Two filters; the stricter answer holds.
///
/// # Errors
/// Why there is no filter for this machine.
pub(super) fn programs(files: &[BorrowedFd<'_>]) -> Result<[BpfProgram; 2], String> {
    let machine: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|error| format!("{error:?}"))?;
    let make = |calls, otherwise, then| {
        let filter = SeccompFilter::new(calls, otherwise, then, machine);
        filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
    };
    let kill = SeccompAction::KillProcess;
    let closed = SeccompAction::Errno(libc::EBADF as u32);
    Ok([
        make(allowed().map_err(|error| error.to_string())?, kill, SeccompAction::Allow)?,
        make(others(files).map_err(|error| error.to_string())?, SeccompAction::Allow, closed)?,
    ])
}

type Calls = BTreeMap<i64, Vec<SeccompRule>>;
type Refused = seccompiler::BackendError;

/// The calls that are allowed, or fail as [`others`] defines.
fn allowed() -> Result<Calls, Refused> {
    let free = PLAIN.iter().chain(DESCRIPTORS).chain(LOOKS);
    let mut calls: Calls = free.map(|call| (*call, Vec::new())).collect();
    // Any use of its own memory is allowed: a compiler writes code there.
    let anonymous = u64::from(libc::MAP_ANONYMOUS as u32);
    calls.insert(libc::SYS_mmap, vec![rule(3, SeccompCmpOp::MaskedEq(anonymous), anonymous)?]);
    // `abort` sends a signal to the process itself.
    let own = u64::from(std::process::id());
    calls.insert(libc::SYS_tgkill, vec![rule(0, SeccompCmpOp::Eq, own)?]);
    Ok(calls)
}

/// Descriptors other than those that it has are closed.
fn others(files: &[BorrowedFd<'_>]) -> Result<Calls, Refused> {
    let mut calls: Calls = LOOKS.iter().map(|call| (*call, Vec::new())).collect();
    for call in DESCRIPTORS {
        let differs = |file: &BorrowedFd<'_>| {
            let number = file.as_raw_fd() as u64;
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, number)
        };
        let all = files.iter().map(differs).collect::<Result<Vec<_>, _>>()?;
        calls.insert(*call, vec![SeccompRule::new(all)?]);
    }
    Ok(calls)
}

fn rule(argument: u8, by: SeccompCmpOp, value: u64) -> Result<SeccompRule, Refused> {
    let one = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, by, value)?;
    SeccompRule::new(vec![one])
}

/// Only on the process's own descriptors.
const DESCRIPTORS: &[i64] = &[libc::SYS_read, libc::SYS_write];
/// Calls that inspect a descriptor, and `close`: they fail.
const LOOKS: &[i64] = &[
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_readv,
    libc::SYS_writev,
];
const PLAIN: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];
