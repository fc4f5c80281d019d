//! Stops a call from another thread.
//!
//! ```text
//!   policy:  calls = 2k+1 ─► runs … ─► calls = 2k+2 ─► asked? ─► lock, hook off
//!   stopper: lock ─► asked = true ─► calls still 2k+1? ─► hook on (else asked = false)
//! ```
//!
//! The hook ends the call at its next instruction, and at each later one, so that a loop
//! around `pcall` ends, too. Compiled code checks for hooks because LuaJIT is built that way
//! (`.cargo/config.toml`). A C function that does not return cannot be stopped; its process is
//! killed.
//!
//! A stop names the call that it means. `asked` and `calls` are ordered (SeqCst): either the
//! stopper sees that the call is over, or the end of the call sees that it was asked, and waits
//! for the lock. So no hook stays on behind a call, and none meets another one.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mlua::ffi;

/// Stops a policy's running call, from any thread.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

/// The policy's end.
pub(super) struct Stoppable(Arc<Shared>);

struct Shared {
    /// `None` once the state is closed.
    state: Mutex<Option<State>>,
    /// Odd while a call runs.
    calls: AtomicU64,
    asked: AtomicBool,
}

#[derive(Clone, Copy)]
struct State(NonNull<ffi::lua_State>);

// SAFETY: it is used for `lua_sethook` alone, which LuaJIT lets others call while the
// state runs, and only under the lock, which the state's end takes first.
unsafe impl Send for State {}

impl Stopper {
    /// The number of the running call.
    pub fn running(&self) -> Option<u64> {
        let call = self.0.calls.load(Ordering::SeqCst);
        (call % 2 == 1).then_some(call)
    }

    /// Stops `call`, if it still runs; returns whether the stop was requested. The call ends within
    /// microseconds, unless it is inside a C function.
    pub fn stop(&self, call: u64) -> bool {
        let state = self.0.lock();
        let Some(State(state)) = *state else { return false };
        self.0.asked.store(true, Ordering::SeqCst);
        let runs = call % 2 == 1 && self.0.calls.load(Ordering::SeqCst) == call;
        if runs {
            // SAFETY: the state is open while the lock is held.
            unsafe { ffi::lua_sethook(state.as_ptr(), Some(end), ffi::LUA_MASKCOUNT, 1) };
        } else {
            self.0.asked.store(false, Ordering::SeqCst);
        }
        runs
    }
}

impl Stoppable {
    /// The stopper of a state that stays open until this is dropped.
    ///
    /// # Safety
    /// `state` is open until then, and is used by the thread that drops it.
    pub unsafe fn new(state: NonNull<ffi::lua_State>) -> Self {
        Stoppable(Arc::new(Shared {
            state: Mutex::new(Some(State(state))),
            calls: AtomicU64::new(0),
            asked: AtomicBool::new(false),
        }))
    }

    /// For another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.0))
    }

    /// A call begins.
    pub fn begin(&self) {
        let call = self.0.calls.load(Ordering::Relaxed);
        self.0.calls.store(call + 1, Ordering::Release);
    }

    /// The running call was stopped.
    pub fn stopped(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst) && WHERE.with_borrow(|at| !at.is_empty())
    }

    /// The call is over; returns file and line where it was stopped.
    pub fn end(&self) -> Option<String> {
        let call = self.0.calls.load(Ordering::Relaxed);
        self.0.calls.store(call + 1, Ordering::SeqCst);
        if !self.0.asked.load(Ordering::SeqCst) {
            return None;
        }
        let state = self.0.lock();
        if self.0.asked.swap(false, Ordering::SeqCst)
            && let Some(State(state)) = *state
        {
            // SAFETY: it is this thread's, and open.
            unsafe { ffi::lua_sethook(state.as_ptr(), None, 0, 0) };
        }
        Some(WHERE.take()).filter(|at| !at.is_empty())
    }

    /// From now on, until [`Stoppable::pass_lines`], the policy's line is noted before it runs. A stop
    /// takes precedence.
    pub fn note_lines(&self) {
        LINE.set(0);
        self.hook(Some(line), ffi::LUA_MASKLINE);
    }

    /// Lines are noted no more, and the last one is forgotten.
    pub fn pass_lines(&self) {
        self.hook(None, 0);
        LINE.set(0);
    }

    /// From now on [`line_now`] is about this state.
    pub fn show_line(&self) {
        let state = self.0.lock().map_or(ptr::null_mut(), |State(state)| state.as_ptr());
        SHOWN.store(state, Ordering::Release);
    }

    fn hook(&self, hook: Option<ffi::lua_Hook>, mask: c_int) {
        let state = self.0.lock();
        if !self.0.asked.load(Ordering::SeqCst)
            && let Some(State(state)) = *state
        {
            // SAFETY: it is this thread's, and open.
            unsafe { ffi::lua_sethook(state.as_ptr(), hook, mask, 0) };
        }
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        if let Some(State(state)) = self.0.lock().take() {
            let (order, none) = (Ordering::AcqRel, ptr::null_mut());
            let _ = SHOWN.compare_exchange(state.as_ptr(), none, order, Ordering::Relaxed);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        // No thread panics while it holds the lock, and the content is consistent at each moment.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

thread_local! {
    /// Where the running call was stopped first. The error's own text may be caught, or lost: the
    /// hook stops an error handler, too.
    static WHERE: RefCell<String> = const { RefCell::new(String::new()) };
    /// The policy's line that runs, where lines are noted, or at which it failed.
    static LINE: Cell<c_int> = const { Cell::new(0) };
}

/// The line that was noted since the last call.
pub(super) fn noted() -> Option<c_int> {
    Some(LINE.take()).filter(|line| *line > 0)
}

/// Notes the line of the innermost function of the policy; called by an error's handler.
pub(super) fn note_line(state: *mut ffi::lua_State) {
    // SAFETY: the state runs the handler, in this thread.
    if let Some(line) = unsafe { innermost(state) } {
        LINE.set(line);
    }
}

/// The state of [`line_now`].
static SHOWN: AtomicPtr<ffi::lua_State> = AtomicPtr::new(ptr::null_mut());

/// The line at which the shown state is ([`Stoppable::show_line`]), as far as LuaJIT has noted it:
/// that of the call, if a C function runs; in compiled code one of the code that called it, or none.
/// 0: none is known. It takes no lock and no memory.
///
/// # Safety
/// In the thread of that state, which may be anywhere: in a signal handler, too.
pub(super) unsafe fn line_now() -> u32 {
    let state = SHOWN.load(Ordering::Acquire);
    if state.is_null() {
        return 0;
    }
    // SAFETY: it is open until its `Stoppable` is dropped, in this thread.
    let line = unsafe { innermost(state) };
    line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

/// The line of the innermost function of the policy.
///
/// # Safety
/// The state is open, and this thread's.
unsafe fn innermost(state: *mut ffi::lua_State) -> Option<c_int> {
    // SAFETY: all of its fields are numbers, pointers and texts; zeros are values of them.
    let mut ar: ffi::lua_Debug = unsafe { std::mem::zeroed() };
    for level in 0..LEVELS {
        // SAFETY: the caller's state.
        if unsafe { ffi::lua_getstack(state, level, &raw mut ar) } == 0 {
            break;
        }
        // SAFETY: of this level, as just found.
        let found = unsafe { ffi::lua_getinfo(state, c"Sl".as_ptr(), &raw mut ar) };
        if found != 0 && is_policy(&ar) {
            return Some(ar.currentline).filter(|line| *line > 0);
        }
    }
    None
}

/// Whether a function is the policy's, whose chunk alone has the name of a file.
fn is_policy(ar: &ffi::lua_Debug) -> bool {
    // SAFETY: `lua_getinfo` has set it to a text.
    !ar.source.is_null() && unsafe { *ar.source } == b'@' as c_char
}

/// Functions of an error's stack that are looked at.
const LEVELS: c_int = 16;

/// The hook that notes lines of the policy. It takes no memory, of which there may be none.
unsafe extern "C-unwind" fn line(state: *mut ffi::lua_State, ar: *mut ffi::lua_Debug) {
    // SAFETY: both are of the running hook, as Lua calls it.
    if unsafe { ffi::lua_getinfo(state, c"S".as_ptr(), ar) } == 0 {
        return;
    }
    // SAFETY: `lua_getinfo` has filled it, and Lua the line.
    let ar = unsafe { &*ar };
    if is_policy(ar) {
        LINE.set(ar.currentline);
    }
}

/// The hook that stops.
unsafe extern "C-unwind" fn end(state: *mut ffi::lua_State, ar: *mut ffi::lua_Debug) {
    note(state, ar);
    let text = c"stopped: it took too long";
    // SAFETY: `state` is the one that runs, as Lua calls it; the text has no directive.
    // The error passes this frame, in which nothing waits to be dropped.
    unsafe { ffi::luaL_error(state, text.as_ptr()) };
}

/// Records where the call is.
fn note(state: *mut ffi::lua_State, ar: *mut ffi::lua_Debug) {
    // SAFETY: both are of the running hook, as Lua calls it.
    let found: c_int = unsafe { ffi::lua_getinfo(state, c"Sl".as_ptr(), ar) };
    if found == 0 {
        return;
    }
    // SAFETY: `lua_getinfo` has filled it.
    let ar = unsafe { &*ar };
    // SAFETY: it ends with a zero inside its array.
    let file = unsafe { CStr::from_ptr(ar.short_src.as_ptr()) }.to_string_lossy();
    let at = format!("{file}:{}", ar.currentline);
    // Never borrowed already: no Lua runs while it is.
    let _ = WHERE.try_with(|place| {
        let mut place = place.borrow_mut();
        if place.is_empty() {
            *place = at;
        }
    });
}
