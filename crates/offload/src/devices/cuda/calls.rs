//! The functions of the driver that Rutter calls.
//!
//! `cudarc` finds the library, and has its constants and types. Its own calls are not used: they
//! return an enumeration of the codes of CUDA 12.0, and a later driver returns other codes, which
//! would be undefined behaviour. Here a result is a number.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::OnceLock;
use std::time::Duration;

use cudarc::driver::sys::{self, CUdevice, CUdeviceptr};

use crate::fault::Fault;

/// A result other than success.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Code {
    /// In the driver's numbers.
    Of(c_int),
    /// The device has kept work for longer than this; the driver is not called again.
    Late(Duration),
}

impl Code {
    /// Out of memory.
    pub(super) const OUT_OF_MEMORY: Code =
        Code::Of(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as c_int);
    /// The driver finds no device.
    pub(super) const NO_DEVICE: Code = Code::Of(sys::CUresult::CUDA_ERROR_NO_DEVICE as c_int);
    /// There is nothing of this name.
    pub(super) const NOT_FOUND: Code = Code::Of(sys::CUresult::CUDA_ERROR_NOT_FOUND as c_int);
    /// The queried work is not done yet.
    pub(super) const NOT_READY: Code = Code::Of(sys::CUresult::CUDA_ERROR_NOT_READY as c_int);
}

/// A handle of the driver's: a pointer to memory that only the driver understands.
pub(super) type Handle = *mut c_void;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal($($arg:ident: $type:ty),*);)*) => {
        /// The functions of the loaded driver.
        pub(super) struct Calls {
            $($name: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Calls {
            /// Finds the functions.
            fn load() -> Result<Calls, Fault> {
                // SAFETY: `is_culib_present` has loaded this library before.
                let library = unsafe { sys::culib() };
                let missing = |name: &str| Fault::Driver { why: format!("it has no {name}") };
                // SAFETY: a function of this name takes these arguments, and returns a number, in
                // CUDA 12.0 and each later version: a change of them gets another name.
                Ok(Calls { $($name: unsafe {
                    *library
                        .get::<unsafe extern "C" fn($($type),*) -> c_int>($symbol.as_bytes())
                        .map_err(|_| missing($symbol))?
                },)* })
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The conditions of NVIDIA's driver manual for the function hold: pointers and
                /// handles are what it requires.
                #[allow(clippy::too_many_arguments)] // as many as the function has
                pub(super) unsafe fn $name(&self, $($arg: $type),*) -> Result<(), Code> {
                    // SAFETY: the caller's.
                    match unsafe { (self.$name)($($arg),*) } {
                        0 => Ok(()),
                        code => Err(Code::Of(code)),
                    }
                }
            )*
        }
    };
}

calls! {
    /// The driver's CUDA version: 12000 is 12.0.
    driver_version = "cuDriverGetVersion"(version: *mut c_int);
    /// Starts the driver.
    init = "cuInit"(flags: c_uint);
    /// A code in words.
    error_string = "cuGetErrorString"(code: c_int, to: *mut *const c_char);
    /// The name of a code.
    error_name = "cuGetErrorName"(code: c_int, to: *mut *const c_char);
    /// The number of devices.
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    /// A device by its number.
    device = "cuDeviceGet"(device: *mut CUdevice, number: c_int);
    /// A device's name.
    device_name = "cuDeviceGetName"(name: *mut c_char, room: c_int, device: CUdevice);
    /// A device's memory.
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: CUdevice);
    /// A property of a device.
    device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: CUdevice);
    /// Retains a device's primary context.
    retain = "cuDevicePrimaryCtxRetain"(context: *mut Handle, device: CUdevice);
    /// Releases it.
    release = "cuDevicePrimaryCtxRelease_v2"(device: CUdevice);
    /// Makes a context the current one of this thread.
    bind = "cuCtxSetCurrent"(context: Handle);
    /// Free and total memory of this thread's context.
    memory = "cuMemGetInfo_v2"(free: *mut usize, all: *mut usize);
    /// Loads kernels.
    load_module = "cuModuleLoadData"(module: *mut Handle, image: *const c_void);
    /// Unloads them.
    unload_module = "cuModuleUnload"(module: Handle);
    /// A kernel by its name.
    function = "cuModuleGetFunction"(function: *mut Handle, module: Handle, name: *const c_char);
    /// Memory on the device.
    alloc = "cuMemAlloc_v2"(at: *mut CUdeviceptr, bytes: usize);
    /// Frees it.
    free = "cuMemFree_v2"(at: CUdeviceptr);
    /// Pinned memory of this machine.
    alloc_host = "cuMemHostAlloc"(at: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Frees it.
    free_host = "cuMemFreeHost"(at: *mut c_void);
    /// A queue of work.
    create_stream = "cuStreamCreate"(stream: *mut Handle, flags: c_uint);
    /// Destroys it.
    destroy_stream = "cuStreamDestroy_v2"(stream: Handle);
    /// Whether all work in it is done.
    query_stream = "cuStreamQuery"(stream: Handle);
    /// A mark in a queue.
    create_event = "cuEventCreate"(event: *mut Handle, flags: c_uint);
    /// Destroys it.
    destroy_event = "cuEventDestroy_v2"(event: Handle);
    /// Records it behind all work in a queue.
    record = "cuEventRecord"(event: Handle, stream: Handle);
    /// Whether all work before it is done.
    query = "cuEventQuery"(event: Handle);
    /// Queues a copy to the device.
    copy_in = "cuMemcpyHtoDAsync_v2"(to: CUdeviceptr, from: *const c_void, bytes: usize, on: Handle);
    /// Queues a copy from the device.
    copy_out = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: CUdeviceptr, bytes: usize, on: Handle);
    /// Queues a kernel: blocks in three dimensions, threads of a block in three dimensions, and
    /// bytes of shared memory.
    launch = "cuLaunchKernel"(
        kernel: Handle, blocks: c_uint, blocks_y: c_uint, blocks_z: c_uint, threads: c_uint,
        threads_y: c_uint, threads_z: c_uint, shared: c_uint, on: Handle,
        arguments: *mut *mut c_void, more: *mut *mut c_void
    );
}

/// The driver of this machine.
///
/// # Errors
/// When there is no driver, or it lacks a function.
pub(super) fn calls() -> Result<&'static Calls, Fault> {
    static CALLS: OnceLock<Result<Calls, Fault>> = OnceLock::new();
    let found = CALLS.get_or_init(|| {
        // SAFETY: loading a library runs its own initialisation, which the system's linker vouches
        // for.
        if unsafe { sys::is_culib_present() } { Calls::load() } else { Err(Fault::NoDriver) }
    });
    found.as_ref().map_err(Fault::clone)
}

/// The driver's text for a code, or the number where the driver has no text.
pub(super) fn words(calls: &Calls, code: Code) -> String {
    let number = match code {
        Code::Of(number) => number,
        Code::Late(patience) => return format!("no answer for {} s", patience.as_secs_f64()),
    };
    let (mut said, mut name) = (null(), null());
    // SAFETY: it writes a pointer to a text that is the library's for ever, or none.
    let known = unsafe { calls.error_string(number, &mut said) };
    // SAFETY: as above.
    let known = known.and_then(|()| unsafe { calls.error_name(number, &mut name) });
    if known.is_err() || said.is_null() || name.is_null() {
        return format!("error {number}");
    }
    // SAFETY: both are texts, as above.
    let [said, name] = [said, name].map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
    format!("{said} ({name})")
}
