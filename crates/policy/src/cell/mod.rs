//! The processes in which policies run, and the rings to them.
//!
//! ```text
//!  worker ─ Desk ─ Line ══ questions (the process can only read them) ══► Decider   one process
//!                       ◄═ verdicts (checked, never believed) ═══════════           of several
//!  supervisor ── control socket: rings, files, chunks; failures; its end ──►
//! ```
//!
//! A process is confined before its policy begins: `child`. A thread of the process stops a
//! batch that takes too long; the supervisor kills a process that stays silent. Its questions
//! get the configured verdict, another process takes its place, and a policy that fails too
//! often is replaced by the previous one: `supervisor`.

mod about;
mod begin;
pub mod child;
#[cfg(feature = "lua")]
mod command;
mod control;
mod desk;
mod gauge;
mod handle;
mod history;
#[doc(hidden)]
pub mod hostile;
mod layout;
mod line;
#[cfg(feature = "lua")]
pub mod lua;
mod process;
mod settings;
mod shared;
mod source;
mod status;
mod supervisor;
#[cfg(feature = "lua")]
pub mod trial;
mod word;

#[cfg(feature = "lua")]
pub use command::called;
pub use desk::Desk;
pub use handle::Handle;
pub use settings::{FIRST_USER, Settings};
pub use source::{MOST as MOST_FILES, Source, file_name};
pub use status::{Counts, Error, Event, Executed, ProcessStatus, Status};
pub use supervisor::Supervisor;

/// Features that the kernel lacks, each with its use. Without one of them no policy in a file runs.
pub fn lacks() -> Vec<String> {
    let mut all = Vec::new();
    let sealed = shared::memory("try", 4096).and_then(|file| shared::seal_from_writers(&file));
    if let Err(error) = sealed {
        all.push(format!("memory sealed against writers (Linux 5.1): {error}"));
    }
    // The call asks only for a list at address 0. A kernel that has such lists returns EFAULT.
    // SAFETY: the third is no memory, and is not touched but by the kernel.
    let asked = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, 0) };
    let error = std::io::Error::last_os_error();
    if asked != 0 && error.raw_os_error() != Some(libc::EFAULT) {
        all.push(format!("lists of system calls (seccomp filters): {error}"));
    }
    all
}
