//! Why a device fails to do its work.

use lookup::lpm::Exports;

/// Why a device fails to do its work. The cores continue without it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// There is no driver for GPUs.
    #[error("there is no CUDA driver (libcuda.so.1) on this machine: NVIDIA's driver brings it")]
    NoDriver,
    /// The driver is too old for our kernels.
    #[error("the CUDA driver is for CUDA {}.{}; {}.{} or later is needed", has.0, has.1, needs.0, needs.1)]
    OldDriver {
        /// The driver's CUDA version, major and minor.
        has: (i32, i32),
        /// The oldest version that works.
        needs: (i32, i32),
    },
    /// The driver does not work.
    #[error("the CUDA driver does not start: {why}")]
    Driver {
        /// The driver's own words.
        why: String,
    },
    /// There is no such GPU.
    #[error("there is no GPU {number}: the CUDA driver has found {there}")]
    NoDevice {
        /// The device's number, counted from 0.
        number: usize,
        /// The number of devices.
        there: usize,
    },
    /// Most likely a device of another kind: compute capability below 7.5.
    #[error(
        "{device} does not take the kernels, which need compute capability 7.5 or later: {why}"
    )]
    Kernels {
        /// The device.
        device: String,
        /// The driver's own words.
        why: String,
    },
    /// The engine has no kernel.
    #[error("{engine} runs on no device: {} do", with_kernels())]
    NoKernel {
        /// The engine.
        engine: &'static str,
    },
    /// 32 bits cannot index the table's words.
    #[error("the table of {engine} is larger than 16 GiB, which no device takes")]
    TooLarge {
        /// The engine.
        engine: &'static str,
    },
    /// The device's memory is too small.
    #[error(
        "{device}: {} MiB wanted, {} MiB free; smaller buffers or another engine need less",
        wanted.div_ceil(1 << 20), free >> 20
    )]
    NoMemory {
        /// The device.
        device: String,
        /// Bytes that it would need.
        wanted: u64,
        /// Bytes that it has free.
        free: u64,
    },
    /// The system locks no more memory.
    #[error(
        "the system cannot lock {} MiB of memory; smaller buffers need less",
        wanted.div_ceil(1 << 20)
    )]
    NoPinned {
        /// Bytes.
        wanted: u64,
    },
    /// The device does not answer any more.
    #[error("{device} was lost at {stage}: {why}")]
    Lost {
        /// The device.
        device: String,
        /// The stage at which it was lost.
        stage: Stage,
        /// The driver's own words.
        why: String,
    },
}

/// The stages of a device's work on a batch, in order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// The device takes a whole table.
    Load,
    /// The device takes changes of the table.
    Update,
    /// The device takes a batch.
    Submit,
    /// The addresses are copied in.
    CopyIn,
    /// The lookups run.
    Run,
    /// The hops are copied out.
    CopyOut,
    /// The device reports that the batch is done.
    Collect,
}

/// The engines that have a kernel, of both families.
fn with_kernels() -> String {
    let names = <u32 as Exports>::exported().iter().map(|(name, _)| *name);
    let names: Vec<_> =
        names.chain(<u128 as Exports>::exported().iter().map(|(name, _)| *name)).collect();
    match names.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 7] = [
        Stage::Load,
        Stage::Update,
        Stage::Submit,
        Stage::CopyIn,
        Stage::Run,
        Stage::CopyOut,
        Stage::Collect,
    ];

    /// The stage's name.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Load => "load",
            Stage::Update => "update",
            Stage::Submit => "submit",
            Stage::CopyIn => "copy-in",
            Stage::Run => "run",
            Stage::CopyOut => "copy-out",
            Stage::Collect => "collect",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
