//! An NVIDIA GPU.
//!
//! ```text
//!   batch 1   │ copy in │ kernel │ copy out │            each batch has a stream and memory of its
//!   batch 2             │ copy in │ kernel │ copy out │  own: copies both ways and a kernel overlap
//! ```
//!
//! Addresses and hops are in pinned memory of this machine. The table is an image in the device's
//! memory; changes are written into it while no batch is in flight. A device that keeps a batch or a
//! write for too long counts as lost: the driver is asked whether work is done, and never waits. What
//! the device may still use is left to it for ever, and nothing waits for it at the end either. The
//! kernels come as PTX (`kernels/lookup.ptx`), which the driver compiles for the device. All unsafe
//! code is in the modules below this one.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   probe
//!   driver
//!   handles
//!   calls
//! ```

mod calls;
mod driver;
mod handles;
mod probe;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lookup::Addr;

pub use self::driver::Info;
use self::driver::{Gpu, Room, Slot};
use self::handles::{Kernel, Patience};
pub use self::probe::Measured;
use crate::clock::Clock;
use crate::device::{Batch, Capabilities, Device};
use crate::fault::{Fault, Stage};
use crate::image::{Patch, Piece};
use crate::table::Table;

/// A GPU.
pub struct Cuda<A: Addr> {
    capabilities: Capabilities,
    gpu: Gpu,
    table: Option<(Kernel, Arc<Room>)>,
    under_way: VecDeque<Slot<A>>,
    free: Vec<Slot<A>>,
    /// Batches whose submission failed.
    unanswered: Vec<Batch<A>>,
}

/// The devices of this machine.
///
/// # Errors
/// When there is no driver, or it does not work.
pub fn gpus() -> Result<Vec<Info>, Fault> {
    driver::all()
}

/// Whether a device of this process has kept its work for too long. What the driver runs when the
/// process ends would then wait for the device, so such a process should end without it, by `_exit`.
pub fn any_stuck() -> bool {
    handles::any_stuck()
}

impl<A: Addr> Cuda<A> {
    /// Starts device `number`, counted from 0.
    ///
    /// # Errors
    /// When there is no driver or no such device, or the device refuses the kernels.
    pub fn start(number: usize) -> Result<Self, Fault> {
        Cuda::start_with(number, PATIENCE, &Clock::real())
    }

    /// The same; a device that keeps a batch, or a write to its memory, for longer than `patience`
    /// counts as lost. In this process the device of that number is then lost for good: nothing
    /// calls the driver for it.
    ///
    /// # Errors
    /// As [`Cuda::start`].
    pub fn start_with(number: usize, patience: Duration, clock: &Clock) -> Result<Self, Fault> {
        let patience = Patience { longest: patience, clock: clock.clone() };
        let (gpu, info) = Gpu::start(number, PTX, patience)?;
        let capabilities =
            Capabilities { kind: "cuda", name: info.name, at_once: 3, memory: Some(info.memory) };
        let (under_way, free, unanswered) = (VecDeque::new(), Vec::new(), Vec::new());
        Ok(Cuda { capabilities, gpu, table: None, under_way, free, unanswered })
    }

    /// Room for a table of this many bytes; the former table's room is kept if it is large enough.
    fn room(&mut self, bytes: usize) -> Result<Arc<Room>, Fault> {
        if let Some((_, room)) = self.table.take()
            && room.bytes() >= bytes
        {
            return Ok(room);
        }
        let free = self.gpu.free()?;
        if free < bytes as u64 {
            let (device, wanted) = (self.capabilities.name.clone(), bytes as u64);
            return Err(Fault::NoMemory { device, wanted, free });
        }
        self.gpu.room(bytes, Stage::Load).map(Arc::new)
    }

    fn whole(&mut self, table: &Table<A>, stage: Stage) -> Result<(), Fault> {
        let (image, engine) = (table.image()?, table.engine());
        let kernel = self.gpu.kernel(&format!("lookup_{engine}"), stage)?;
        let kernel = kernel.ok_or(Fault::NoKernel { engine })?;
        let room = self.room(size_of_val(image.words()))?;
        self.gpu.write(&room, [(0, image.words())].into_iter(), stage)?;
        self.table = Some((kernel, room));
        Ok(())
    }

    fn slot(&mut self, addresses: usize) -> Result<Slot<A>, Fault> {
        match self.free.pop() {
            Some(slot) if slot.fits(addresses) => Ok(slot),
            small => {
                drop(small); // the larger table may need its memory
                Slot::new(&self.gpu, addresses)
            }
        }
    }
}

impl<A: Addr> Device<A> for Cuda<A> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn batch(&mut self, addresses: usize) -> Result<Batch<A>, Fault> {
        self.gpu.batch(addresses)
    }

    fn load(&mut self, table: &Table<A>) -> Result<(), Fault> {
        self.whole(table, Stage::Load)
    }

    fn update(&mut self, table: &Table<A>, patch: &Patch) -> Result<(), Fault> {
        match (patch, &self.table) {
            (Patch::Pieces(pieces), Some((_, room))) => {
                let pieces = pieces.iter().map(|Piece { at, words }| (*at, &**words));
                self.gpu.write(room, pieces, Stage::Update)
            }
            _ => self.whole(table, Stage::Update),
        }
    }

    fn submit(&mut self, batch: Batch<A>) -> Result<(), Fault> {
        let slot = self.slot(batch.room());
        let (slot, (kernel, image)) = match (slot, &self.table) {
            (Ok(slot), Some(table)) => (slot, table),
            (slot, _) => {
                self.unanswered.push(batch);
                slot?;
                let (device, why) = (self.capabilities.name.clone(), "it has no table".into());
                return Err(Fault::Lost { device, stage: Stage::Submit, why });
            }
        };
        self.under_way.push_back(slot);
        let slot = self.under_way.back_mut().expect("it was just pushed");
        slot.begin(batch, kernel, image)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Batch<A>>, Fault> {
        let Some(slot) = self.under_way.front_mut() else { return Ok(None) };
        let Some(batch) = slot.finish(wait)? else { return Ok(None) };
        self.free.extend(self.under_way.pop_front());
        Ok(Some(batch))
    }

    fn abandon(&mut self) -> Vec<Batch<A>> {
        let mut all: Vec<_> = self.under_way.iter_mut().filter_map(Slot::give_up).collect();
        self.under_way.clear();
        all.append(&mut self.unanswered);
        all
    }
}

/// How long a device may keep a batch. The largest, of gigabytes over a slow bus, takes seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The kernels, made by scripts/ptx.sh.
const PTX: &str = include_str!("../../../kernels/lookup.ptx");
