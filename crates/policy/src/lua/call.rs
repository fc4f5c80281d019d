//! Calls functions of a Lua state without `mlua`'s work around a call, which costs as much as some
//! decisions.

use std::ffi::c_int;
use std::ptr::NonNull;

use mlua::{Function, Lua, ffi};

use super::stop::{self, Stoppable, Stopper};

/// A Lua state with functions to be called.
///
/// - C1: `state` is the main state of `lua`, and open as long as `lua` lives.
/// - C2: `handler`, and each [`Callee`], is a reference in its registry.
pub(super) struct Caller {
    // Fields drop in order: a state is never stopped after it is closed.
    stoppable: Stoppable,
    state: NonNull<ffi::lua_State>,
    handler: Callee,
    pub lua: Lua,
}

/// A function of a [`Caller`]'s state.
#[derive(Clone, Copy)]
pub(super) struct Callee(c_int);

/// Why a call has no result.
#[derive(Debug)]
pub(super) struct Failed {
    /// There was not enough memory.
    pub memory: bool,
    /// The message, and where the call came from.
    pub message: String,
    /// The policy's line, where the message has none.
    pub line: Option<c_int>,
}

impl Caller {
    /// Calls functions of `lua`; `handler` turns an error into a text.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(lua: Lua, handler: &Function) -> mlua::Result<Self> {
        let mut state = None;
        // SAFETY: nothing is done with the state but to keep its address.
        unsafe { lua.exec_raw::<()>((), |at| state = NonNull::new(at)) }?;
        let state = state.expect("a state has an address");
        // SAFETY: `lua` closes it after `stoppable` is dropped.
        let stoppable = unsafe { Stoppable::new(state) };
        let handler = handling(&lua, handler)?;
        Ok(Caller { stoppable, state, handler, lua })
    }

    /// Keeps a function of this state.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn callee(&self, function: &Function) -> mlua::Result<Callee> {
        keep(&self.lua, function)
    }

    /// Stops a call, from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stoppable.stopper()
    }

    /// From now on [`stop::line_now`] is about this state.
    pub fn show_line(&self) {
        self.stoppable.show_line();
    }

    /// The calls between this and [`Caller::end`] count as one call for the stopper.
    pub fn begin(&self) {
        self.stoppable.begin();
    }

    /// The stopper has stopped the running call.
    pub fn stopped(&self) -> bool {
        self.stoppable.stopped()
    }

    /// The calls are over; returns file and line where they were stopped.
    pub fn end(&self) -> Option<String> {
        self.stoppable.end()
    }

    /// From now on the policy's lines are noted, for errors that have no handler.
    pub fn note_lines(&self) {
        self.stoppable.note_lines();
    }

    /// Lines are noted no more.
    pub fn pass_lines(&self) {
        self.stoppable.pass_lines();
    }

    /// Calls `callee` with numbers; true when its first result is.
    ///
    /// # Errors
    /// When it throws, or is stopped.
    pub fn call(&mut self, callee: Callee, args: &[usize]) -> Result<bool, Failed> {
        let state = self.state.as_ptr();
        // SAFETY: C1, and this thread's alone: `Lua` is not `Send`.
        let top = unsafe { ffi::lua_gettop(state) };
        // SAFETY: as above.
        if unsafe { ffi::lua_checkstack(state, args.len() as c_int + 4) } == 0 {
            let message = "no stack is left".into();
            return Err(Failed { memory: true, message, line: None });
        }
        self.push(self.handler);
        self.push(callee);
        for &arg in args {
            // SAFETY: C1, and there is room; a number takes no memory.
            unsafe { ffi::lua_pushinteger(state, arg as ffi::lua_Integer) };
        }
        // SAFETY: C1; function and arguments lie on the stack, above the handler.
        let status = unsafe { ffi::lua_pcall(state, args.len() as c_int, 1, top + 1) };
        let result = if status == 0 {
            // SAFETY: C1; the result is on top.
            Ok(unsafe { ffi::lua_toboolean(state, -1) } != 0)
        } else {
            let (memory, message) = (status == ffi::LUA_ERRMEM, self.message());
            Err(Failed { memory, message, line: stop::noted() })
        };
        // SAFETY: C1; `top` is where the stack was.
        unsafe { ffi::lua_settop(state, top) };
        result
    }

    fn push(&self, function: Callee) {
        // SAFETY: C1, C2, and there is room; no metamethod is called, nothing allocated.
        unsafe { ffi::lua_rawgeti_(self.state.as_ptr(), ffi::LUA_REGISTRYINDEX, function.0) };
    }

    /// The text on top of the stack, up to the length that is kept.
    fn message(&self) -> String {
        let state = self.state.as_ptr();
        // SAFETY: C1; something is on top.
        if unsafe { ffi::lua_type(state, -1) } != ffi::LUA_TSTRING {
            return "an error without words".into();
        }
        let mut len = 0;
        // SAFETY: it is a string, so nothing is converted or allocated.
        let text = unsafe { ffi::lua_tolstring(state, -1, &raw mut len) };
        // SAFETY: `len` bytes lie there as long as the string is on the stack.
        let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len.min(MESSAGE)) };
        String::from_utf8_lossy(text).into_owned()
    }
}

/// A reference to a function that notes the policy's line and then calls `words`, for which the stack
/// may have no room.
fn handling(lua: &Lua, words: &Function) -> mlua::Result<Callee> {
    let mut at = 0;
    let keep = |state| {
        // SAFETY: `words` is on top of the stack; the closure takes it, and the registry that.
        unsafe { ffi::lua_pushcclosure(state, handle, 1) };
        // SAFETY: as above. An error passes this frame with nothing to drop.
        at = unsafe { ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX) };
    };
    // SAFETY: the closure takes its argument off the stack, and leaves nothing.
    unsafe { lua.exec_raw::<()>(words, keep) }?;
    Ok(Callee(at))
}

unsafe extern "C-unwind" fn handle(state: *mut ffi::lua_State) -> c_int {
    stop::note_line(state);
    // SAFETY: the error's object is on top; Lua leaves room for what a handler pushes, or throws.
    unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1)) };
    // SAFETY: as above.
    unsafe { ffi::lua_insert(state, -2) };
    // SAFETY: function and object are on top. An error passes this frame with nothing to drop.
    unsafe { ffi::lua_call(state, 1, 1) };
    1
}

/// A reference to `function` in the state's registry.
fn keep(lua: &Lua, function: &Function) -> mlua::Result<Callee> {
    let mut at = 0;
    let keep = |state| {
        // SAFETY: the function is on top of the stack; the registry takes it. An error
        // passes this frame with nothing to drop.
        at = unsafe { ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX) };
    };
    // SAFETY: the closure takes its argument off the stack, and leaves nothing.
    unsafe { lua.exec_raw::<()>(function, keep) }?;
    Ok(Callee(at))
}

/// Bytes of an error that are kept.
const MESSAGE: usize = 4096;
