//! A process notes the line of its policy where it would otherwise end without a word.
//!
//! ```text
//!  a crash                        ─► the line is noted, and the same signal ends the process
//!  a C function does not return   ─► the watch's signal: the line is noted, the function goes on
//! ```
//!
//! The handlers are set before the process is confined, which takes that system call away. They make
//! no call but `getpid`, `gettid` and `tgkill`, take no lock and no memory.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

use super::LineOf;

/// The function that finds the line, and the thread for which it does.
static LINE_OF: OnceLock<(LineOf, libc::c_long)> = OnceLock::new();
/// The word in which the line is noted, in memory that is mapped until the process ends.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Sets the handlers, with a stack of their own for the calling thread: a policy may have used up
/// the usual one.
///
/// # Errors
/// The system's.
pub(super) fn begin() -> io::Result<()> {
    let stack: &'static mut [u8] = Box::leak(vec![0; STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack stays for ever, and is used for nothing else.
    if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Once: the second one of its kind ends the process.
    let once = libc::SA_RESETHAND | libc::SA_NODEFER;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE] {
        handle(signal, crashed, once)?;
    }
    handle(ASKED, asked, libc::SA_RESTART)
}

fn handle(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) -> io::Result<()> {
    // SAFETY: numbers and an empty set of signals: zeros are values of all fields.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = flags | libc::SA_ONSTACK;
    // SAFETY: the handlers do only what a handler may.
    let done = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on, lines are noted in `word`.
///
/// # Safety
/// `word` stays mapped until the process ends.
pub(super) unsafe fn note_in(word: *mut AtomicU32) {
    WORD.store(word, Ordering::Release);
}

/// From now on, `line_of` finds the line, for the calling thread. The first one stays.
///
/// # Safety
/// As [`super::Handed::line_by`].
pub(super) unsafe fn line_by(line_of: LineOf) {
    let _ = LINE_OF.set((line_of, this_thread()));
}

/// Asks the policy's thread, from another one, to note where it is.
pub(super) fn ask() {
    if let Some((_, thread)) = LINE_OF.get() {
        send(*thread, ASKED);
    }
}

/// What was noted is no longer so.
pub(super) fn forget() {
    put(0);
}

extern "C" fn asked(_: c_int) {
    note();
}

extern "C" fn crashed(signal: c_int) {
    note();
    send(this_thread(), signal);
}

/// Notes the line, in the policy's thread.
fn note() {
    if let Some((line_of, thread)) = LINE_OF.get()
        && *thread == this_thread()
    {
        // SAFETY: in that thread, as `line_by`'s caller promised that it may be.
        put(unsafe { line_of() });
    }
}

fn put(line: u32) {
    let word = WORD.load(Ordering::Acquire);
    if !word.is_null() {
        // SAFETY: mapped, as `note_in`'s caller promised.
        unsafe { &*word }.store(line, Ordering::Relaxed);
    }
}

fn send(thread: libc::c_long, signal: c_int) {
    let process = std::process::id() as libc::c_long;
    // SAFETY: numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::c_long::from(signal)) };
}

fn this_thread() -> libc::c_long {
    // SAFETY: it takes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// The watch's signal.
const ASKED: c_int = libc::SIGUSR1;
/// Bytes of the handlers' stack: the state of the largest processors takes 11 KiB.
const STACK: usize = 64 << 10;
