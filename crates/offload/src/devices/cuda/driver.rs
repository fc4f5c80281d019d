//! NVIDIA's driver, as little of it as is needed, behind types that keep its rules. All unsafe
//! code of the device is here.
//!
//! - I1: the driver is asked for nothing before its library is known to be there: `cudarc` would
//!   panic.
//! - I2: what the device may read or write is owned by a [`Slot`] or waited for, until the stream
//!   that does so is known to be done.
//! - I3: a [`Slot`]'s memory on the device has room for its batch.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::forget;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError, device};
use cudarc::driver::sys::{
    self, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUresult, is_culib_present,
};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaModule, CudaStream};
use cudarc::nvrtc::Ptx;
use lookup::{Addr, Hop};

use crate::device::Batch;
use crate::fault::{Fault, Stage};

/// A device, its driver's context, and the kernels in it.
#[derive(Clone)]
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
    pub(super) name: Arc<str>,
    /// Blocks of threads that keep it busy.
    blocks: u32,
}

/// What is known of a device without using it.
#[derive(Clone, Debug)]
pub struct Info {
    /// Its number.
    pub number: usize,
    /// Its maker's name for it.
    pub name: String,
    /// Its compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes.
    pub memory: u64,
    /// Domain, bus and device, as the kernel writes them: `0000:01:00.0`.
    pub bus: String,
    /// What the driver knows of CUDA, major and minor.
    pub cuda: (i32, i32),
}

/// All devices.
pub(super) fn all() -> Result<Vec<Info>, Fault> {
    let (cuda, count) = start()?;
    (0..count).map(|number| info(number, cuda)).collect()
}

/// Loads the driver: its version, and how many devices there are.
fn start() -> Result<((i32, i32), usize), Fault> {
    // SAFETY: loading a library runs its own initialisation, which the system's linker vouches for.
    if !unsafe { is_culib_present() } {
        return Err(Fault::NoDriver);
    }
    let failed = |error| Fault::Driver { why: words(error) };
    let mut version = 0;
    // SAFETY: it writes one number; before `cuInit` it may be called (I1).
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
    let cuda = (version / 1000, version % 1000 / 10);
    if cuda < CUDA {
        return Err(Fault::OldDriver { has: cuda, needs: CUDA });
    }
    match result::init().and_then(|()| device::get_count()) {
        Ok(count) => Ok((cuda, count.max(0) as usize)),
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => Ok((cuda, 0)),
        Err(error) => Err(failed(error)),
    }
}

/// Of a device that is there.
fn info(number: usize, cuda: (i32, i32)) -> Result<Info, Fault> {
    let known = || -> Result<Info, DriverError> {
        let device = device::get(number as i32)?;
        let of = |attribute| attribute_of(device, attribute);
        let capability = (
            of(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            of(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let bus = format!(
            "{:04x}:{:02x}:{:02x}.0",
            of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            of(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
        );
        // SAFETY: `get` has given the device.
        let memory = unsafe { device::total_mem(device) }? as u64;
        Ok(Info { number, name: device::get_name(device)?, capability, memory, bus, cuda })
    };
    known().map_err(|error| Fault::Driver { why: words(error) })
}

fn attribute_of(device: CUdevice, attribute: Attribute) -> Result<i32, DriverError> {
    // SAFETY: `device::get` has given the device.
    unsafe { device::get_attribute(device, attribute) }
}

impl Gpu {
    /// Starts a device with these kernels.
    pub(super) fn start(number: usize, ptx: &str) -> Result<(Self, Info), Fault> {
        let (cuda, there) = start()?;
        if number >= there {
            return Err(Fault::NoDevice { number, there });
        }
        let info = info(number, cuda)?;
        let name: Arc<str> = info.name.as_str().into();
        let lost = |error| lost(&name, Stage::Load, error);
        let context = CudaContext::new(number).map_err(lost)?;
        // SAFETY: no slice of cudarc's is ever made, so there is nothing that its events would order.
        unsafe { context.disable_event_tracking() };
        let processors =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(lost)?;
        let module = context
            .load_module(Ptx::from_src(ptx))
            .map_err(|error| Fault::Kernels { device: name.to_string(), why: words(error) })?;
        let blocks = processors.max(1) as u32 * BLOCKS;
        Ok((Gpu { context, module, name, blocks }, info))
    }

    /// A kernel by its name, `None` where there is none.
    pub(super) fn kernel(&self, name: &str) -> Option<CudaFunction> {
        self.context.bind_to_thread().ok()?;
        self.module.load_function(name).ok()
    }

    /// Bytes that are free.
    pub(super) fn free(&self) -> Result<u64, Fault> {
        let info = self.context.mem_get_info();
        info.map(|(free, _)| free as u64).map_err(|error| lost(&self.name, Stage::Load, error))
    }

    /// Memory on the device.
    pub(super) fn room(&self, bytes: usize, stage: Stage) -> Result<Room, Fault> {
        let made = self.context.bind_to_thread().and_then(|()| {
            // SAFETY: the context is this thread's, and 0 bytes would be refused.
            unsafe { result::malloc_sync(bytes.max(1)) }
        });
        match made {
            Ok(at) => Ok(Room { at, bytes, gpu: self.clone() }),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(Fault::NoMemory {
                device: self.name.to_string(),
                wanted: bytes as u64,
                free: self.free()?,
            }),
            Err(error) => Err(lost(&self.name, stage, error)),
        }
    }

    /// A batch in memory that the system keeps in its place, so that it is copied while others work.
    pub(super) fn batch<A: Addr>(&self, addresses: usize) -> Result<Batch<A>, Fault> {
        let dsts = Pinned::new(self, vec![A::default(); addresses])?;
        Ok(Batch::of(Box::new(dsts), Box::new(Pinned::new(self, vec![Hop::NONE; addresses])?)))
    }

    /// Writes words to `room` from word `at` of it on, behind what `stream` has to do.
    fn send(&self, room: &Room, at: usize, words: &[u32], on: &CudaStream) -> Result<(), Sent> {
        let from = at * size_of::<u32>();
        if room.bytes < from + size_of_val(words) {
            return Err(Sent::TooMuch);
        }
        self.context.bind_to_thread().map_err(Sent::Failed)?;
        // SAFETY:
        // - the words lie inside `room`, which was just compared;
        // - they stay until they are sent: the one caller waits for the stream (I2).
        unsafe { result::memcpy_htod_async(room.at + from as u64, words, on.cu_stream()) }
            .map_err(Sent::Failed)
    }

    /// Writes pieces, each at its word of `room`, and waits until they are there.
    pub(super) fn write<'w>(
        &self,
        room: &Room,
        pieces: impl Iterator<Item = (usize, &'w [u32])>,
        stage: Stage,
    ) -> Result<(), Fault> {
        let failed = |error| lost(&self.name, stage, error);
        let stream = self.context.new_stream().map_err(failed)?;
        let mut sent = Ok(());
        for (at, words) in pieces {
            sent = sent.and_then(|()| self.send(room, at, words, &stream));
        }
        let done = stream.synchronize(); // whatever was sent: `words` are borrowed until then (I2)
        match sent {
            Err(Sent::TooMuch) => panic!("the image has outgrown its room"),
            Err(Sent::Failed(error)) => Err(failed(error)),
            Ok(()) => done.map_err(failed),
        }
    }
}

/// Why words are not sent.
enum Sent {
    TooMuch,
    Failed(DriverError),
}

/// Memory on a device.
pub(super) struct Room {
    at: CUdeviceptr,
    bytes: usize,
    gpu: Gpu,
}

impl Room {
    /// Its size.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = self.gpu.context.bind_to_thread();
        // SAFETY: `Gpu::room` made it, and this is its one owner. What fails on a lost device is
        // freed with the context.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// Memory of this machine that is locked in its place.
struct Pinned<T> {
    at: *mut T,
    len: usize,
    gpu: Gpu,
    holds: PhantomData<T>,
}

// SAFETY: it owns what it points to, as a `Box` does; the driver frees it from any thread.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Copy> Pinned<T> {
    /// Of what `from` holds.
    fn new(gpu: &Gpu, from: Vec<T>) -> Result<Self, Fault> {
        let bytes = size_of_val(&*from);
        let made = gpu.context.bind_to_thread().and_then(|()| {
            // SAFETY: the context is this thread's.
            unsafe { result::malloc_host(bytes.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) }
        });
        let at = match made {
            Ok(at) => at.cast::<T>(),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                return Err(Fault::NoPinned { wanted: bytes as u64 });
            }
            Err(error) => return Err(lost(&gpu.name, Stage::Submit, error)),
        };
        assert!(at.is_aligned(), "the driver gives whole pages");
        // SAFETY: `at` is new memory of as many bytes, aligned, and `T` is `Copy`.
        unsafe { at.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(Pinned { at, len: from.len(), gpu: gpu.clone(), holds: PhantomData })
    }
}

impl<T> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote `len` of them, and a reference lives no longer than their owner. While
        // the device has them, a slot owns it and makes no reference (I2).
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl<T> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as `deref`, and this one is alone.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        let _ = self.gpu.context.bind_to_thread();
        // SAFETY: `new` made it, this is its one owner, and no copy is under way (I2).
        let _ = unsafe { result::free_host(self.at.cast::<c_void>()) };
    }
}

/// A stream of its own for one batch after another, and their memory on the device.
pub(super) struct Slot<A: Addr> {
    gpu: Gpu,
    stream: Arc<CudaStream>,
    done: CudaEvent,
    dsts: Room,
    hops: Room,
    /// The batch that is under way, and the table that it reads.
    batch: Option<(Batch<A>, Arc<Room>)>,
}

impl<A: Addr> Slot<A> {
    /// With room for so many addresses.
    pub(super) fn new(gpu: &Gpu, addresses: usize) -> Result<Self, Fault> {
        let failed = |error| lost(&gpu.name, Stage::Submit, error);
        Ok(Slot {
            stream: gpu.context.new_stream().map_err(failed)?,
            done: gpu.context.new_event(None).map_err(failed)?,
            dsts: gpu.room(addresses * size_of::<A>(), Stage::Submit)?,
            hops: gpu.room(addresses * size_of::<Hop>(), Stage::Submit)?,
            batch: None,
            gpu: gpu.clone(),
        })
    }

    /// True where it takes such a batch.
    pub(super) fn fits(&self, addresses: usize) -> bool {
        self.dsts.bytes >= addresses * size_of::<A>()
            && self.hops.bytes >= addresses * size_of::<Hop>()
    }

    /// Begins to answer a batch, which it has from now on.
    ///
    /// # Panics
    /// When it has one, or one that does not fit.
    pub(super) fn begin(
        &mut self,
        batch: Batch<A>,
        kernel: &CudaFunction,
        image: &Arc<Room>,
    ) -> Result<(), Fault> {
        assert!(self.batch.is_none() && self.fits(batch.dsts().len()));
        let (batch, _) = self.batch.insert((batch, image.clone()));
        let (dsts, hops) = batch.parts();
        let (gpu, on) = (&self.gpu, self.stream.cu_stream());
        let failed = |stage| move |error| lost(&gpu.name, stage, error);
        gpu.context.bind_to_thread().map_err(failed(Stage::Submit))?;
        // SAFETY: it fits (I3), and the slot has the batch until the stream is done (I2).
        unsafe { result::memcpy_htod_async(self.dsts.at, dsts, on) }
            .map_err(failed(Stage::CopyIn))?;
        let mut count = dsts.len() as u64;
        let mut places = [image.at, self.dsts.at, self.hops.at];
        let [image, to, from] = places.each_mut().map(|place| std::ptr::from_mut(place).cast());
        let mut arguments = [image, to, from, std::ptr::from_mut(&mut count).cast::<c_void>()];
        let blocks = count.div_ceil(u64::from(THREADS)).clamp(1, u64::from(gpu.blocks)) as u32;
        // SAFETY:
        // - each kernel takes these four arguments, which are copied before the call returns;
        // - it reads `count` addresses and writes `count` hops, for which there is room (I3), and
        //   reads the image, which the slot has until the stream is done (I2).
        unsafe {
            result::launch_kernel(
                kernel.cu_function(),
                (blocks, 1, 1),
                (THREADS, 1, 1),
                0,
                on,
                &mut arguments,
            )
        }
        .map_err(failed(Stage::Run))?;
        // SAFETY: as the first copy.
        unsafe { result::memcpy_dtoh_async(hops, self.hops.at, on) }
            .map_err(failed(Stage::CopyOut))?;
        self.done.record(&self.stream).map_err(failed(Stage::Collect))
    }

    /// The batch, once it is answered; `None` without `wait` where it is not.
    pub(super) fn finish(&mut self, wait: bool) -> Result<Option<Batch<A>>, Fault> {
        let failed = |error| lost(&self.gpu.name, Stage::Collect, error);
        self.gpu.context.bind_to_thread().map_err(failed)?;
        if wait {
            self.done.synchronize().map_err(failed)?;
        } else if !self.done.try_is_complete().map_err(failed)? {
            return Ok(None);
        }
        Ok(self.batch.take().map(|(batch, _)| batch))
    }

    /// The batch, unanswered.
    pub(super) fn give_up(&mut self) -> Option<Batch<A>> {
        let done = self.stream.synchronize().is_ok();
        let (batch, image) = self.batch.take()?;
        if done {
            return Some(batch);
        }
        // What a device that does not answer still reads or writes nobody knows: its memory is
        // never used again (I2). It reads the addresses, so that they can be copied.
        let copy = batch.copy();
        forget((batch, image));
        Some(copy)
    }
}

impl<A: Addr> Drop for Slot<A> {
    fn drop(&mut self) {
        drop(self.give_up());
    }
}

/// A fault in the driver's words.
fn lost(device: &str, stage: Stage, error: DriverError) -> Fault {
    Fault::Lost { device: device.into(), stage, why: words(error) }
}

fn words(error: DriverError) -> String {
    let unknown = |_| c"unknown";
    let [said, name] =
        [error.error_string(), error.error_name()].map(|s| s.unwrap_or_else(unknown));
    format!("{} ({})", said.to_string_lossy(), name.to_string_lossy())
}

/// Of CUDA, what the PTX and `cudarc` need.
const CUDA: (i32, i32) = (12, 0);

/// Threads of a block, and blocks of a processor: more than are at work at once.
const THREADS: u32 = 256;
const BLOCKS: u32 = 16;
