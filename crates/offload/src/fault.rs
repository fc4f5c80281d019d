//! Why a device does not do what it is asked to.

/// Why a device does not do what it is asked to. The cores go on without it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// There is no driver for GPUs.
    #[error("there is no CUDA driver (libcuda.so.1) on this machine")]
    NoDriver,
    /// It knows no kernels of ours.
    #[error("the CUDA driver is for CUDA {}.{}; {}.{} or later is needed", has.0, has.1, needs.0, needs.1)]
    OldDriver {
        /// Its CUDA, major and minor.
        has: (i32, i32),
        /// The oldest that does.
        needs: (i32, i32),
    },
    /// The driver does not work.
    #[error("the CUDA driver does not start: {why}")]
    Driver {
        /// In its own words.
        why: String,
    },
    /// There is no such GPU.
    #[error("there is no GPU {number}: the CUDA driver has found {there}")]
    NoDevice {
        /// Which, counted from 0.
        number: usize,
        /// How many there are.
        there: usize,
    },
    /// A device of another kind, most likely: one before compute capability 7.5.
    #[error("{device} does not take the kernels: {why}")]
    Kernels {
        /// Which.
        device: String,
        /// In the driver's words.
        why: String,
    },
    /// The engine has no code for devices.
    #[error("{engine} runs on no device")]
    NoKernel {
        /// Its name.
        engine: &'static str,
    },
    /// 32 bits do not number the table's words.
    #[error("the table of {engine} is larger than 16 GiB")]
    TooLarge {
        /// The engine.
        engine: &'static str,
    },
    /// The device's memory does not hold what it is to hold.
    #[error("{device}: {} MiB wanted, {} MiB free", wanted.div_ceil(1 << 20), free >> 20)]
    NoMemory {
        /// Which.
        device: String,
        /// Bytes.
        wanted: u64,
        /// Bytes.
        free: u64,
    },
    /// The system locks no more memory in its place.
    #[error("the system gives no {} MiB of locked memory", wanted.div_ceil(1 << 20))]
    NoPinned {
        /// Bytes.
        wanted: u64,
    },
    /// The device does not answer any more.
    #[error("{device} was lost at {stage}: {why}")]
    Lost {
        /// Which.
        device: String,
        /// At what.
        stage: Stage,
        /// In the driver's words.
        why: String,
    },
}

/// What a device is asked to do, in a batch's order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// It takes a whole table.
    Load,
    /// It takes what has changed.
    Update,
    /// It takes a batch.
    Submit,
    /// It gets the addresses.
    CopyIn,
    /// It looks up.
    Run,
    /// It gives the hops.
    CopyOut,
    /// It says that it is done.
    Collect,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 7] = [
        Stage::Load,
        Stage::Update,
        Stage::Submit,
        Stage::CopyIn,
        Stage::Run,
        Stage::CopyOut,
        Stage::Collect,
    ];

    /// Its name.
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
