//! The driver's handles, each with an owner: a device's context, kernels, streams, events.
//!
//! I1: a handle is the driver's own, and is destroyed once, by its owner, while the context exists.
//!
//! I2: once a device has kept work for too long, the driver is not called for it any more. The calls
//! that free or destroy something wait for the device, so nothing of it is freed or destroyed.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};

use super::calls::{Calls, Code, Handle};
use crate::clock::Clock;

/// A device's primary context, which the whole process shares.
pub(super) struct Context {
    pub(super) calls: &'static Calls,
    handle: Handle,
    device: CUdevice,
    patience: Patience,
}

/// How long a device may keep work, and by which clock.
#[derive(Clone)]
pub(super) struct Patience {
    pub(super) longest: Duration,
    pub(super) clock: Clock,
}

// SAFETY: the driver takes calls with a context, and with what is in it, from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The context of a device.
    pub(super) fn new(
        calls: &'static Calls,
        device: CUdevice,
        patience: Patience,
    ) -> Result<Arc<Self>, Code> {
        if is_stuck(device) {
            return Err(Code::Late(patience.longest));
        }
        let mut handle = null_mut();
        // SAFETY: it writes one handle.
        unsafe { calls.retain(&mut handle, device) }?;
        let context = Context { calls, handle, device, patience };
        context.bind()?;
        Ok(Arc::new(context))
    }

    /// Makes it the current context of this thread, to which most calls refer.
    pub(super) fn bind(&self) -> Result<(), Code> {
        if is_stuck(self.device) {
            return Err(Code::Late(self.patience.longest)); // I2
        }
        // SAFETY: I1.
        unsafe { self.calls.bind(self.handle) }
    }

    /// Whether work that was begun at `since` is done, which `ask` asks the driver. A device that has
    /// kept it for too long is stuck from then on (I2).
    fn is_done(
        &self,
        since: Duration,
        ask: impl FnOnce() -> Result<(), Code>,
    ) -> Result<bool, Code> {
        self.bind()?;
        let Patience { longest, clock } = &self.patience;
        // The time is read before the question: a process that was stopped in between, or for a
        // long time before, is answered first.
        let kept = clock.now().saturating_sub(since);
        match ask() {
            Ok(()) => Ok(true),
            Err(Code::NOT_READY) if kept <= *longest => Ok(false),
            Err(Code::NOT_READY) => {
                STUCK.fetch_or(bit(self.device), Ordering::Relaxed);
                Err(Code::Late(*longest))
            }
            Err(code) => Err(code),
        }
    }

    /// Asks until it is done. The driver's own calls that wait may do so for ever.
    fn wait(&self, since: Duration, ask: impl Fn() -> Result<(), Code>) -> Result<(), Code> {
        let mut asked = 0;
        while !self.is_done(since, &ask)? {
            asked += 1;
            if asked < AT_ONCE { std::thread::yield_now() } else { self.patience.clock.pause() }
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.patience.clock.now()
    }

    /// Bytes of memory that are free.
    pub(super) fn free(&self) -> Result<u64, Code> {
        self.bind()?;
        let (mut free, mut all) = (0, 0);
        // SAFETY: it writes two numbers.
        unsafe { self.calls.memory(&mut free, &mut all) }?;
        Ok(free as u64)
    }

    /// A property of its device.
    pub(super) fn attribute(&self, attribute: Attribute) -> Result<c_int, Code> {
        attribute_of(self.calls, self.device, attribute)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !is_stuck(self.device) {
            // SAFETY: `new` has retained it once. Others of this process keep it.
            let _ = unsafe { self.calls.release(self.device) };
        }
    }
}

/// Kernels of a device.
pub(super) struct Module {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: as of a context.
unsafe impl Send for Module {}
// SAFETY: as of a context.
unsafe impl Sync for Module {}

impl Module {
    /// Loads PTX, which the driver compiles.
    pub(super) fn load(context: &Arc<Context>, ptx: &CStr) -> Result<Arc<Self>, Code> {
        context.bind()?;
        let mut handle = null_mut();
        // SAFETY: it reads a text that ends, and writes one handle.
        unsafe { context.calls.load_module(&mut handle, ptx.as_ptr().cast()) }?;
        Ok(Arc::new(Module { context: context.clone(), handle }))
    }

    /// A kernel by its name; `None` where there is none of that name.
    pub(super) fn kernel(self: &Arc<Self>, name: &str) -> Result<Option<Kernel>, Code> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        self.context.bind()?;
        let mut handle = null_mut();
        // SAFETY: the module is there (I1), the name ends, and one handle is written.
        match unsafe { self.context.calls.function(&mut handle, self.handle, name.as_ptr()) } {
            Ok(()) => Ok(Some(Kernel { module: self.clone(), handle })),
            Err(Code::NOT_FOUND) => Ok(None),
            Err(code) => Err(code),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: I1.
            let _ = unsafe { self.context.calls.unload_module(self.handle) };
        }
    }
}

/// A kernel.
#[derive(Clone)]
pub(super) struct Kernel {
    module: Arc<Module>,
    handle: Handle,
}

// SAFETY: as of a context.
unsafe impl Send for Kernel {}

impl Kernel {
    /// Queues the kernel, with this many blocks of this many threads.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and the memory that they point to lives until the
    /// stream is done.
    pub(super) unsafe fn launch(
        &self,
        (blocks, threads): (u32, u32),
        arguments: &mut [*mut c_void],
        on: &Stream,
    ) -> Result<(), Code> {
        let context = &self.module.context;
        context.bind()?;
        let arguments = arguments.as_mut_ptr();
        // SAFETY: kernel and stream are there (I1); the rest is the caller's.
        unsafe {
            context.calls.launch(
                self.handle,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                on.handle,
                arguments,
                null_mut(),
            )
        }
    }
}

/// A queue of work, done in order.
pub(super) struct Stream {
    pub(super) context: Arc<Context>,
    pub(super) handle: Handle,
}

// SAFETY: as of a context.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream that waits for no other stream.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Code> {
        context.bind()?;
        let mut handle = null_mut();
        // SAFETY: it writes one handle.
        unsafe { context.calls.create_stream(&mut handle, NON_BLOCKING) }?;
        Ok(Stream { context: context.clone(), handle })
    }

    /// Waits until all its work is done; a device that takes too long is stuck (I2).
    pub(super) fn wait(&self) -> Result<(), Code> {
        let context = &self.context;
        // SAFETY: I1.
        context.wait(context.now(), || unsafe { context.calls.query_stream(self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: I1.
            let _ = unsafe { self.context.calls.destroy_stream(self.handle) };
        }
    }
}

/// A mark in a stream.
pub(super) struct Event {
    context: Arc<Context>,
    handle: Handle,
    /// When it was recorded.
    since: Duration,
}

// SAFETY: as of a context.
unsafe impl Send for Event {}

impl Event {
    /// An event without timing.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Code> {
        context.bind()?;
        let mut handle = null_mut();
        // SAFETY: it writes one handle.
        unsafe { context.calls.create_event(&mut handle, WITHOUT_TIME) }?;
        Ok(Event { context: context.clone(), handle, since: context.now() })
    }

    /// Records it behind all work in `stream`.
    pub(super) fn record(&mut self, stream: &Stream) -> Result<(), Code> {
        self.context.bind()?;
        // SAFETY: both are there (I1), in one context.
        let recorded = unsafe { self.context.calls.record(self.handle, stream.handle) };
        self.since = self.context.now();
        recorded
    }

    /// Whether all work before it is done; with `wait`, waits for that. A device that takes too long
    /// is stuck (I2).
    pub(super) fn is_reached(&self, wait: bool) -> Result<bool, Code> {
        let context = &self.context;
        // SAFETY: I1.
        let ask = || unsafe { context.calls.query(self.handle) };
        if wait {
            return context.wait(self.since, ask).map(|()| true);
        }
        context.is_done(self.since, ask)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: I1.
            let _ = unsafe { self.context.calls.destroy_event(self.handle) };
        }
    }
}

/// Whether a device of this process has kept work for too long.
pub(super) fn any_stuck() -> bool {
    STUCK.load(Ordering::Relaxed) != 0
}

fn is_stuck(device: CUdevice) -> bool {
    STUCK.load(Ordering::Relaxed) & bit(device) != 0
}

/// Devices have small numbers. Two that share a bit are both given up: that is safe.
fn bit(device: CUdevice) -> u64 {
    1 << (device as u32 % u64::BITS)
}

/// The devices that have kept work for too long, a bit each: all users of a device in this process
/// have one context, in which a call of one waits for the work of all. Nothing else is read by what
/// it says.
static STUCK: AtomicU64 = AtomicU64::new(0);

/// A property of a device.
pub(super) fn attribute_of(
    calls: &Calls,
    device: CUdevice,
    attribute: Attribute,
) -> Result<c_int, Code> {
    let mut value = 0;
    // SAFETY: it writes one number; a device that is not there is an error.
    unsafe { calls.device_attribute(&mut value, attribute as c_int, device) }?;
    Ok(value)
}

/// A device's name and memory.
pub(super) fn name_and_memory(calls: &Calls, device: CUdevice) -> Result<(String, u64), Code> {
    let (mut name, mut bytes): ([c_char; 256], usize) = ([0; 256], 0);
    // SAFETY: the driver writes at most as many bytes as the length that it is given, a NUL
    // among them.
    unsafe { calls.device_name(name.as_mut_ptr(), name.len() as c_int, device) }?;
    // SAFETY: it writes one number.
    unsafe { calls.device_memory(&mut bytes, device) }?;
    let letters = name.iter().take_while(|&&letter| letter != 0).map(|&letter| letter as u8);
    Ok((String::from_utf8_lossy(&letters.collect::<Vec<_>>()).into_owned(), bytes as u64))
}

/// Questions without a pause: a few milliseconds, longer than most batches take.
const AT_ONCE: u32 = 10_000;

/// Flag of a stream: it waits for no other stream.
const NON_BLOCKING: c_uint = 1;

/// Flag of an event: no timing, which costs less.
const WITHOUT_TIME: c_uint = 2;
