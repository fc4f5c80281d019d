//! The processors that look up many addresses: cores, or a device beside them.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use lookup::lpm::{Choice, Engines, Exports, Options};
use lookup::{Addr, Hop};
use offload::Buffers;
use offload::calibrate::{choose, measure, sweep};
use offload::clock::Clock;
use offload::crew::{Crew, Share};
use offload::device::Device;
use offload::devices::{Cuda, Figures, Model, PATIENCE, Threads, gpus};
use offload::fault::{Fault, Stage};
use offload::table::Table;

use super::pipe::Progress;
use crate::error::Error;
use crate::warn::warn;

/// The device that looks up, and the size of its pieces.
#[derive(clap::Args)]
pub struct DeviceArgs {
    /// Look up addresses from standard input in large pieces
    ///
    /// `threads`: by the cores. `cuda`: by an NVIDIA GPU and the cores; `cuda:gpu=1` is the second
    /// GPU. `cuda:wait=5` gives up the GPU if a piece takes longer than 5 s (default 30).
    /// `cuda:depth=1` keeps one piece in flight (default 3).
    /// `auto`: by a GPU if there is one, else by the cores. `model:rate=1e9,lost=run@3`: by a
    /// simulated device, for tests.
    #[arg(long, value_name = "DEVICE", value_parser = Wanted::parse)]
    pub device: Option<Wanted>,

    /// Milliseconds in which a device must answer a piece [default: no limit, the best rate counts]
    #[arg(long, value_name = "MS", requires = "device", conflicts_with = "buffer",
        value_parser = clap::value_parser!(u32).range(1..))]
    latency: Option<u32>,

    /// Addresses in a piece for a device [default: measured at the start]
    #[arg(long, value_name = "ADDRESSES", requires = "device",
        value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    buffer: Option<u32>,

    #[arg(skip)]
    said: Said,
}

impl DeviceArgs {
    /// Names the options that mean nothing to the cores alone.
    pub fn warn_of_unused(&self) {
        if !matches!(self.device, Some(Wanted::Threads)) {
            return;
        }
        let given = [self.latency.map(|_| "--latency"), self.buffer.map(|_| "--buffer")];
        for option in given.iter().flatten() {
            warn(format_args!("{option} has no effect with --device threads"));
        }
    }
}

/// Warnings that were given, each once: the families have a crew each, of the same device.
#[derive(Clone, Debug, Default)]
struct Said(Arc<Mutex<BTreeSet<String>>>);

impl Said {
    fn fault(&self, fault: &Fault) {
        let about = match fault {
            // Each crew loses it, at a stage of its own.
            Fault::Lost { device, .. } => device.clone(),
            fault => fault.to_string(),
        };
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(about);
        if is_new {
            Progress::wipe();
            warn(format_args!("{fault}; the cores go on alone"));
        }
    }
}

/// The argument of `--device`.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// A GPU if there is one, else the cores.
    Auto,
    /// The cores.
    Threads,
    /// A GPU.
    Cuda(Gpu),
    /// A device that is not there, and the pieces that are under way at once.
    Model(Figures, usize),
}

/// A GPU, and how it is used.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// Its number, from 0.
    number: usize,
    /// How long it may keep a piece.
    patience: Duration,
    /// Pieces that are under way at once.
    depth: usize,
}

impl Default for Gpu {
    fn default() -> Self {
        Gpu { number: 0, patience: PATIENCE, depth: DEPTH }
    }
}

impl Wanted {
    /// Reads `auto`, `threads`, `cuda:gpu=N,wait=S,depth=D` or `model:FIGURE=VALUE,…`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let choice: Choice = text.parse().map_err(|bad| format!("{bad}"))?;
        let options: Vec<_> = choice.options.0.iter().collect();
        match (choice.name.as_str(), &options[..]) {
            ("auto", []) => Ok(Wanted::Auto),
            ("threads", []) => Ok(Wanted::Threads),
            ("cuda", _) => cuda(&choice.options),
            ("model", _) => model(&choice.options),
            _ => Err("expected auto, threads, cuda, cuda:gpu=N,wait=S,depth=D or model".into()),
        }
    }

    /// The device, where one is wanted beside the cores.
    fn start<A: Addr>(&self, clock: &Clock) -> Result<Option<Box<dyn Device<A>>>, Fault> {
        let gpu = match self {
            Wanted::Threads => return Ok(None),
            Wanted::Model(figures, _) => {
                return Ok(Some(Box::new(Model::new(figures.clone(), clock))));
            }
            Wanted::Cuda(gpu) => *gpu,
            Wanted::Auto => match gpus() {
                Ok(all) if !all.is_empty() => Gpu::default(),
                Ok(_) | Err(Fault::NoDriver) => return Ok(None),
                Err(fault) => return Err(fault),
            },
        };
        Ok(Some(Box::new(Cuda::start_with(gpu.number, gpu.patience, clock)?)))
    }

    /// Pieces that are under way at once.
    fn depth(&self) -> usize {
        match self {
            Wanted::Auto | Wanted::Threads => DEPTH,
            Wanted::Cuda(Gpu { depth, .. }) | Wanted::Model(_, depth) => *depth,
        }
    }
}

fn cuda(options: &Options) -> Result<Wanted, String> {
    let mut gpu = Gpu::default();
    for (name, value) in &options.0 {
        match (name.as_str(), value.parse::<u16>()) {
            ("gpu", Ok(number)) => gpu.number = number.into(),
            ("gpu", Err(_)) => {
                return Err(format!("`{value}`: expected the number of a GPU, from 0"));
            }
            ("wait", Ok(seconds @ 1..)) => gpu.patience = Duration::from_secs(seconds.into()),
            ("wait", _) => return Err(format!("`{value}`: expected seconds, from 1 to 65535")),
            ("depth", _) => gpu.depth = depth(value)?,
            _ => return Err("cuda has the options gpu (number), wait (seconds) and depth".into()),
        }
    }
    Ok(Wanted::Cuda(gpu))
}

fn model(options: &Options) -> Result<Wanted, String> {
    let (mut figures, mut at_once) = (Figures::default(), DEPTH);
    for (name, value) in &options.0 {
        let number = || match value.parse::<f64>() {
            Ok(number) if (1e-3..=1e18).contains(&number) => Ok(number),
            _ => Err(format!("`{value}`: expected a number from 0.001 to 1e18")),
        };
        match name.as_str() {
            "rate" => figures.rate = number()?,
            "bandwidth" => figures.bandwidth = number()?,
            "latency" => figures.latency = Duration::from_secs_f64(number()?.min(1e6) / 1e6),
            "memory" => figures.memory = number()? as u64,
            "lost" => figures.lost = Some(lost(value)?),
            "depth" => at_once = depth(value)?,
            _ => {
                let all = "rate, bandwidth, latency (µs), memory, lost and depth";
                return Err(format!("model has the options {all}"));
            }
        }
    }
    Ok(Wanted::Model(figures, at_once))
}

/// Pieces that are under way at once: 1 is synchronous.
fn depth(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(depth @ 1..=16) => Ok(depth),
        _ => Err(format!("`{text}`: expected a number of pieces, from 1 to 16")),
    }
}

/// `STAGE@TIMES`.
fn lost(text: &str) -> Result<(Stage, u64), String> {
    let (stage, times) = text.split_once('@').unwrap_or((text, "0"));
    let stage = Stage::ALL.into_iter().find(|each| each.name() == stage);
    match (stage, times.parse()) {
        (Some(stage), Ok(times)) => Ok((stage, times)),
        _ => Err(format!("`{text}`: expected a stage, as {}@3", Stage::Run)),
    }
}

/// Sets cores and device to a table; a device that fails, now or later, is named at once, and the
/// cores go on without it.
pub fn crew<A: Engines + Exports>(
    args: &DeviceArgs,
    threads: Option<u16>,
    table: Table<A>,
) -> Result<Crew<A>, Error> {
    let (mut crew, said) = (made(args, threads, table)?, args.said.clone());
    crew.on_fault(Box::new(move |fault| said.fault(fault)));
    Ok(crew)
}

fn made<A: Engines + Exports>(
    args: &DeviceArgs,
    threads: Option<u16>,
    table: Table<A>,
) -> Result<Crew<A>, Error> {
    let (all, clock) = (available_parallelism().map_or(1, NonZero::get), Clock::real());
    let started = args.device.as_ref().map(|wanted| wanted.start::<A>(&clock));
    let device = started.transpose().unwrap_or_else(|fault| {
        args.said.fault(&fault);
        None
    });
    // One core feeds the device. Where there is none, nobody has to.
    let Some(device) = device.flatten() else {
        let mine = if args.device.is_some() { all } else { 1 };
        return alone(table, team(threads.map_or(mine, usize::from))?, &clock);
    };
    let cores = team(threads.map_or((all - 1).max(1), usize::from))?;
    // Who sets the number of threads has decided what the feeding core does.
    let every = (threads.is_none() && all > 1).then_some(all);
    beside(args, device, table, cores, every, &clock)
}

/// So many cores.
fn team<A: Addr>(threads: usize) -> Result<Threads<A>, Error> {
    Threads::start(threads).map_err(Error::Threads)
}

/// Cores without a device.
fn alone<A: Engines + Exports>(
    table: Table<A>,
    cores: Threads<A>,
    clock: &Clock,
) -> Result<Crew<A>, Error> {
    let room = room(&cores);
    Crew::new(table, Box::new(cores), CORES, room, clock).map_err(Error::Device)
}

/// Bytes of batches: enough to keep all these cores busy.
fn room<A: Addr>(cores: &Threads<A>) -> usize {
    MEMORY.max(4 * cores.capabilities().at_once * CORES * (size_of::<A>() + size_of::<Hop>()))
}

/// A device beside the cores, its batches calibrated, and both profiled. `every`: so many cores go
/// on alone where the device does less than the core that feeds it, until it does more.
fn beside<A: Engines + Exports>(
    args: &DeviceArgs,
    mut device: Box<dyn Device<A>>,
    table: Table<A>,
    mut cores: Threads<A>,
    every: Option<usize>,
    clock: &Clock,
) -> Result<Crew<A>, Error> {
    let largest = room(&cores) / 8 / (size_of::<A>() + size_of::<Hop>());
    let latency = args.latency.map(|ms| Duration::from_millis(ms.into()));
    let depth = args.device.as_ref().map_or(DEPTH, Wanted::depth);
    let point = device.load(&table).and_then(|()| match args.buffer {
        Some(size) => {
            let buffers = Buffers { size: size as usize, depth };
            measure(&mut *device, buffers, TRIED, clock).map(Some)
        }
        None => Ok(choose(&sweep(&mut *device, depth, largest, clock)?, latency)),
    });
    let point = match point {
        Ok(Some(point)) => point,
        lost => {
            lost.err().iter().for_each(|fault| args.said.fault(fault));
            let cores = every.map_or(Ok(cores), team)?;
            return alone(table, cores, clock);
        }
    };
    let mut of_cores = rate(&mut cores, &table, clock)?;
    let of_one = of_cores / cores.capabilities().at_once as f64;
    let left_out = every.filter(|_| point.rate < of_one);
    if let Some(every) = left_out {
        let (name, lookups) = (&device.capabilities().name, point.rate / 1e6);
        let engine = table.engine();
        warn(format_args!(
            "{name}: {lookups:.1} million lookups/s with {engine}, fewer than the core that feeds \
             it does; all cores go on without it until it does more"
        ));
        (cores, of_cores) = (team(every)?, of_one * every as f64);
    }
    let mut crew = alone(table, cores, clock)?;
    match crew.join(device, Buffers { size: point.size, depth }, Share::Measured) {
        Ok(()) => crew.profiled(point.rate, of_cores),
        Err(fault) => args.said.fault(&fault),
    }
    if left_out.is_some() {
        crew.leave_out();
    }
    Ok(crew)
}

/// Addresses a second of cores that nobody else asks.
fn rate<A: Engines + Exports>(
    cores: &mut Threads<A>,
    table: &Table<A>,
    clock: &Clock,
) -> Result<f64, Error> {
    let buffers = Buffers { size: CORES, depth: 2 * cores.capabilities().at_once };
    let point = cores.load(table).and_then(|()| measure(cores, buffers, TRIED, clock));
    Ok(point.map_err(Error::Device)?.rate)
}

/// Addresses of a core's batch: they and their hops stay in its cache.
const CORES: usize = 16 << 10;

/// Batches of a device that are under way, where nobody says it.
const DEPTH: usize = 3;

/// How long the cores are tried, and a size that is given.
const TRIED: Duration = Duration::from_millis(20);

/// The fewest bytes of batches.
const MEMORY: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_is_read_for_each_device_with_batches() {
        let depth = |text| Wanted::parse(text).expect("it is well-formed").depth();
        assert_eq!(["cuda", "cuda:depth=1", "cuda:gpu=1,depth=16"].map(depth), [3, 1, 16]);
        assert_eq!(["auto", "model", "model:depth=1,rate=1e6"].map(depth), [3, 3, 1]);
        for wrong in ["cuda:depth=0", "model:depth=17", "cuda:depth=x", "threads:depth=1"] {
            assert!(Wanted::parse(wrong).is_err(), "{wrong}");
        }
    }
}
