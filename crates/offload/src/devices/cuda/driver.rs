//! Memory, copies and kernels of a device, behind types that keep the driver's rules.
//!
//! - I1: a [`Room`] and a [`Pinned`] are the driver's memory, freed once, by their owner.
//! - I2: memory that the device may read or write is owned by a [`Slot`], or its owner waits, until
//!   the stream is known to be done. Where that is never known, since the device is lost or keeps its
//!   work for ever, the memory is never freed.
//! - I3: a [`Slot`]'s memory on the device has room for its batch.

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{CU_MEMHOSTALLOC_PORTABLE, CUdevice_attribute as Attribute, CUdeviceptr};
use lookup::{Addr, Hop};

use super::calls::{Calls, Code, calls, words};
use super::handles::{
    Context, Event, Kernel, Module, Patience, Stream, attribute_of, name_and_memory,
};
use crate::device::Batch;
use crate::fault::{Fault, Stage};

/// A device, its driver's context, and the kernels in it.
#[derive(Clone)]
pub(super) struct Gpu {
    pub(super) context: Arc<Context>,
    module: Arc<Module>,
    pub(super) name: Arc<str>,
    /// Blocks of threads that keep the device busy.
    blocks: u32,
}

/// The properties of a device, known before it is started.
#[derive(Clone, Debug)]
pub struct Info {
    /// The device's number.
    pub number: usize,
    /// The maker's name for it.
    pub name: String,
    /// Its compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes.
    pub memory: u64,
    /// Domain, bus and device, as the kernel writes them: `0000:01:00.0`.
    pub bus: String,
    /// The driver's CUDA version, major and minor.
    pub cuda: (i32, i32),
}

/// All devices.
pub(super) fn all() -> Result<Vec<Info>, Fault> {
    let (calls, cuda, count) = start()?;
    (0..count).map(|number| info(calls, number, cuda).map(|(info, _)| info)).collect()
}

/// Loads the driver; returns its functions, its version, and the number of devices.
fn start() -> Result<(&'static Calls, (i32, i32), usize), Fault> {
    let calls = calls()?;
    let failed = |code| Fault::Driver { why: words(calls, code) };
    let (mut version, mut count) = (0, 0);
    // SAFETY: it writes one number, and may be called before the driver is started.
    unsafe { calls.driver_version(&mut version) }.map_err(failed)?;
    let cuda = (version / 1000, version % 1000 / 10);
    if cuda < CUDA {
        return Err(Fault::OldDriver { has: cuda, needs: CUDA });
    }
    // SAFETY: there are no flags.
    let started = unsafe { calls.init(0) };
    // SAFETY: it writes one number.
    match started.and_then(|()| unsafe { calls.device_count(&mut count) }) {
        Ok(()) => Ok((calls, cuda, count.max(0) as usize)),
        Err(Code::NO_DEVICE) => Ok((calls, cuda, 0)),
        Err(code) => Err(failed(code)),
    }
}

/// The properties of a device, and the driver's handle for it.
fn info(calls: &Calls, number: usize, cuda: (i32, i32)) -> Result<(Info, i32), Fault> {
    let known = || -> Result<(Info, i32), Code> {
        let mut device = 0;
        // SAFETY: it writes one number.
        unsafe { calls.device(&mut device, number as i32) }?;
        let of = |attribute| attribute_of(calls, device, attribute);
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
        let (name, memory) = name_and_memory(calls, device)?;
        Ok((Info { number, name, capability, memory, bus, cuda }, device))
    };
    known().map_err(|code| Fault::Driver { why: words(calls, code) })
}

impl Gpu {
    /// Starts a device with these kernels.
    pub(super) fn start(
        number: usize,
        ptx: &str,
        patience: Patience,
    ) -> Result<(Self, Info), Fault> {
        let (calls, cuda, there) = start()?;
        if number >= there {
            return Err(Fault::NoDevice { number, there });
        }
        let (info, device) = info(calls, number, cuda)?;
        let name: Arc<str> = info.name.as_str().into();
        let why = |code| words(calls, code);
        let lost =
            |code| Fault::Lost { device: info.name.clone(), stage: Stage::Load, why: why(code) };
        let context = Context::new(calls, device, patience).map_err(lost)?;
        let processors =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(lost)?;
        let ptx = CString::new(ptx).expect("it is text");
        let module = Module::load(&context, &ptx)
            .map_err(|code| Fault::Kernels { device: info.name.clone(), why: why(code) })?;
        let blocks = processors.max(1) as u32 * BLOCKS;
        Ok((Gpu { context, module, name, blocks }, info))
    }

    /// A kernel by its name; `None` where the device has none of that name.
    pub(super) fn kernel(&self, name: &str, stage: Stage) -> Result<Option<Kernel>, Fault> {
        self.module.kernel(name).map_err(self.lost(stage))
    }

    /// The fault of a device that was lost at `stage`, with the driver's error.
    pub(super) fn lost(&self, stage: Stage) -> impl Fn(Code) -> Fault {
        move |code| {
            let why = words(self.context.calls, code);
            Fault::Lost { device: self.name.to_string(), stage, why }
        }
    }

    /// Bytes of free memory.
    pub(super) fn free(&self) -> Result<u64, Fault> {
        self.context.free().map_err(self.lost(Stage::Load))
    }

    /// Allocates memory on the device.
    pub(super) fn room(&self, bytes: usize, stage: Stage) -> Result<Room, Fault> {
        let mut at = 0;
        let made = self.context.bind().and_then(|()| {
            // SAFETY: it writes one place; 0 bytes would be refused.
            unsafe { self.context.calls.alloc(&mut at, bytes.max(1)) }
        });
        match made {
            Ok(()) => Ok(Room { at, bytes, gpu: self.clone() }),
            Err(Code::OUT_OF_MEMORY) => Err(Fault::NoMemory {
                device: self.name.to_string(),
                wanted: bytes as u64,
                free: self.free()?,
            }),
            Err(code) => Err(self.lost(stage)(code)),
        }
    }

    /// Queues a copy of `from` to the beginning of `to`.
    ///
    /// # Safety
    /// `from` must live, unchanged, until the stream is done.
    ///
    /// # Panics
    /// When `to` is shorter.
    pub(super) unsafe fn copy_in<T: Copy>(
        &self,
        to: &Room,
        from: &[T],
        on: &Stream,
    ) -> Result<(), Code> {
        assert!(size_of_val(from) <= to.bytes);
        self.context.bind()?;
        let (at, bytes) = (from.as_ptr().cast(), size_of_val(from));
        // SAFETY: there is room; the rest is the caller's.
        unsafe { self.context.calls.copy_in(to.at, at, bytes, on.handle) }
    }

    /// Queues a copy of the beginning of `from` to `to`.
    ///
    /// # Safety
    /// Nobody may read `to` until the stream is done, and every bit pattern must be a valid `T`.
    ///
    /// # Panics
    /// When `from` is shorter.
    pub(super) unsafe fn copy_out<T: Copy>(
        &self,
        to: &mut [T],
        from: &Room,
        on: &Stream,
    ) -> Result<(), Code> {
        assert!(size_of_val(to) <= from.bytes);
        self.context.bind()?;
        let (at, bytes) = (to.as_mut_ptr().cast(), size_of_val(to));
        // SAFETY: there is as much; the rest is the caller's.
        unsafe { self.context.calls.copy_out(at, from.at, bytes, on.handle) }
    }

    /// Queues a kernel over `count` items: it reads `table` and `from`, and writes `to`.
    ///
    /// # Safety
    /// - `kernel` takes three pointers and a count. It reads and writes at most that many items,
    ///   for which there is room, and reads inside of `table`.
    /// - The three must live until the stream is done.
    pub(super) unsafe fn launch(
        &self,
        kernel: &Kernel,
        (table, from, to): (&Room, &Room, &Room),
        mut count: u64,
        on: &Stream,
    ) -> Result<(), Code> {
        let mut places = [table.at, from.at, to.at];
        let [table, from, to] = places.each_mut().map(|place| std::ptr::from_mut(place).cast());
        let mut arguments = [table, from, to, std::ptr::from_mut(&mut count).cast::<c_void>()];
        let blocks = count.div_ceil(u64::from(THREADS)).clamp(1, u64::from(self.blocks)) as u32;
        // SAFETY: the arguments are copied before the call returns; the rest is the caller's.
        unsafe { kernel.launch((blocks, THREADS), &mut arguments, on) }
    }

    /// A batch in pinned memory, which can be copied while other work runs.
    pub(super) fn batch<A: Addr>(&self, addresses: usize) -> Result<Batch<A>, Fault> {
        let dsts = Pinned::new(self, vec![A::default(); addresses])?;
        Ok(Batch::of(Box::new(dsts), Box::new(Pinned::new(self, vec![Hop::NONE; addresses])?)))
    }

    /// Queues a write of words to `room`, from word `at` of it on.
    ///
    /// # Safety
    /// The words must live, unchanged, until the stream is done.
    ///
    /// # Panics
    /// When they do not lie inside `room`.
    unsafe fn send(&self, room: &Room, at: usize, words: &[u32], on: &Stream) -> Result<(), Code> {
        let (from, bytes) = (at * size_of::<u32>(), size_of_val(words));
        assert!(from + bytes <= room.bytes, "the image has outgrown its room");
        self.context.bind()?;
        let (to, words) = (room.at + from as u64, words.as_ptr().cast());
        // SAFETY: there is room; the rest is the caller's.
        unsafe { self.context.calls.copy_in(to, words, bytes, on.handle) }
    }

    /// Writes pieces, each at its word of `room`, and waits until they have arrived.
    ///
    /// # Panics
    /// When a piece does not lie inside `room`.
    pub(super) fn write<'w>(
        &self,
        room: &Room,
        pieces: impl Iterator<Item = (usize, &'w [u32])>,
        stage: Stage,
    ) -> Result<(), Fault> {
        let parts = |(at, words): (usize, &'w [u32])| {
            let places = (at..).step_by(SENT);
            places.zip(words.chunks(SENT))
        };
        let parts: Vec<_> = pieces.flat_map(parts).collect();
        let all: usize = parts.iter().map(|(_, words)| words.len()).sum();
        let failed = self.lost(stage);
        let stream = Stream::new(&self.context).map_err(&failed)?;
        // The device reads a copy, since the words are only borrowed: one that hangs may read for ever.
        // It is in pinned memory, as of a batch: the call that queues it need not wait for the device.
        let mut copy = ManuallyDrop::new(Pinned::new(self, vec![0_u32; all.min(SENT)])?);
        let mut parts = parts.into_iter().peekable();
        while parts.peek().is_some() {
            let (mut queue, mut filled): (Vec<(usize, Range<usize>)>, _) = (Vec::new(), 0);
            while let Some((at, words)) =
                parts.next_if(|(_, words)| filled + words.len() <= copy.len())
            {
                let range = filled..filled + words.len();
                copy[range.clone()].copy_from_slice(words);
                filled = range.end;
                queue.push((at, range));
            }
            let sent = queue.into_iter().try_for_each(|(at, range)| {
                // SAFETY: the copy stays until the stream is done, or for ever (I2).
                unsafe { self.send(room, at, &copy[range], &stream) }
            });
            let done = stream.wait(); // whatever was sent
            done.and(sent).map_err(&failed)?;
        }
        drop(ManuallyDrop::into_inner(copy));
        Ok(())
    }
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
        if self.gpu.context.bind().is_ok() {
            // SAFETY: `Gpu::room` made it, and this is its one owner. What fails on a lost device is
            // freed with the context.
            let _ = unsafe { self.gpu.context.calls.free(self.at) };
        }
    }
}

/// Pinned memory of this machine.
pub(super) struct Pinned<T> {
    at: *mut T,
    len: usize,
    gpu: Gpu,
    holds: PhantomData<T>,
}

// SAFETY: it owns what it points to, as a `Box` does; the driver frees it from any thread.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Copy> Pinned<T> {
    /// A copy of `from`.
    pub(super) fn new(gpu: &Gpu, from: Vec<T>) -> Result<Self, Fault> {
        let bytes = size_of_val(&*from);
        let (context, mut at) = (&gpu.context, null_mut());
        let made = context.bind().and_then(|()| {
            // SAFETY: it writes one place.
            unsafe { context.calls.alloc_host(&mut at, bytes.max(1), CU_MEMHOSTALLOC_PORTABLE) }
        });
        match made {
            Ok(()) => {}
            Err(Code::OUT_OF_MEMORY) => return Err(Fault::NoPinned { wanted: bytes as u64 }),
            Err(code) => return Err(gpu.lost(Stage::Submit)(code)),
        }
        let at = at.cast::<T>();
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
        if self.gpu.context.bind().is_ok() {
            // SAFETY: `new` made it, this is its one owner, and no copy is under way (I2).
            let _ = unsafe { self.gpu.context.calls.free_host(self.at.cast()) };
        }
    }
}

/// A stream for one batch after another, with memory for them on the device.
pub(super) struct Slot<A: Addr> {
    gpu: Gpu,
    stream: Stream,
    done: Event,
    dsts: Room,
    hops: Room,
    /// The batch in flight, and the table that it reads.
    batch: Option<(Batch<A>, Arc<Room>)>,
}

impl<A: Addr> Slot<A> {
    /// A slot with room for this many addresses.
    pub(super) fn new(gpu: &Gpu, addresses: usize) -> Result<Self, Fault> {
        let failed = gpu.lost(Stage::Submit);
        Ok(Slot {
            stream: Stream::new(&gpu.context).map_err(&failed)?,
            done: Event::new(&gpu.context).map_err(&failed)?,
            dsts: gpu.room(addresses * size_of::<A>(), Stage::Submit)?,
            hops: gpu.room(addresses * size_of::<Hop>(), Stage::Submit)?,
            batch: None,
            gpu: gpu.clone(),
        })
    }

    /// Whether the slot takes this batch.
    pub(super) fn fits(&self, addresses: usize) -> bool {
        self.dsts.bytes >= addresses * size_of::<A>()
            && self.hops.bytes >= addresses * size_of::<Hop>()
    }

    /// Begins to answer a batch, and owns it from now on.
    ///
    /// # Panics
    /// When the slot has a batch, or this one does not fit.
    pub(super) fn begin(
        &mut self,
        batch: Batch<A>,
        kernel: &Kernel,
        image: &Arc<Room>,
    ) -> Result<(), Fault> {
        assert!(self.batch.is_none() && self.fits(batch.dsts().len()));
        let (batch, _) = self.batch.insert((batch, image.clone()));
        let (dsts, hops) = batch.parts();
        let (gpu, on, count) = (&self.gpu, &self.stream, dsts.len() as u64);
        // SAFETY: the slot has the batch until the stream is done (I2).
        unsafe { gpu.copy_in(&self.dsts, dsts, on) }.map_err(gpu.lost(Stage::CopyIn))?;
        let places = (&**image, &self.dsts, &self.hops);
        // SAFETY:
        // - each kernel takes these arguments, reads `count` addresses and writes `count` hops, for
        //   which there is room (I3), and reads the image;
        // - the slot has all three until the stream is done (I2).
        unsafe { gpu.launch(kernel, places, count, on) }.map_err(gpu.lost(Stage::Run))?;
        // SAFETY: as the first copy; a hop is any number.
        unsafe { gpu.copy_out(hops, &self.hops, on) }.map_err(gpu.lost(Stage::CopyOut))?;
        self.done.record(on).map_err(gpu.lost(Stage::Collect))
    }

    /// The batch, once it is answered. Without `wait`, `None` while it is not.
    pub(super) fn finish(&mut self, wait: bool) -> Result<Option<Batch<A>>, Fault> {
        if !self.done.is_reached(wait).map_err(self.gpu.lost(Stage::Collect))? {
            return Ok(None);
        }
        Ok(self.batch.take().map(|(batch, _)| batch))
    }

    /// The batch, without answers.
    pub(super) fn give_up(&mut self) -> Option<Batch<A>> {
        let done = self.stream.wait().is_ok();
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

/// The CUDA version that the PTX and our calls need.
const CUDA: (i32, i32) = (12, 0);

/// Words that are sent to a device together.
const SENT: usize = 1 << 20;

/// Threads in a block, and blocks for each multiprocessor: more than run at once.
const THREADS: u32 = 256;
const BLOCKS: u32 = 16;
