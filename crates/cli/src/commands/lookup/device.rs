//! Who looks up many addresses: cores, or a device beside them.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use lookup::lpm::{Choice, Engines, Entry, Exports, Options};
use lookup::{Hop, Rib};
use offload::Buffers;
use offload::calibrate::{choose, measure, sweep};
use offload::clock::Clock;
use offload::crew::{Crew, Share};
use offload::device::Device;
use offload::devices::{Figures, Model, Threads};
use offload::fault::{Fault, Stage};
use offload::table::Table;

use crate::error::Error;
use crate::warn::warn;

/// What `--device` asks for.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// The cores.
    Threads,
    /// A device that is not there.
    Model(Figures),
}

impl Wanted {
    /// Reads `auto`, `threads` or `model:FIGURE=VALUE,…`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let choice: Choice = text.parse().map_err(|bad| format!("{bad}"))?;
        match choice.name.as_str() {
            "auto" | "threads" if choice.options.0.is_empty() => Ok(Wanted::Threads),
            "model" => model(&choice.options).map(Wanted::Model),
            _ => Err("expected auto, threads or model".into()),
        }
    }
}

fn model(options: &Options) -> Result<Figures, String> {
    let mut figures = Figures::default();
    for (name, value) in &options.0 {
        let number = || match value.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            _ => Err(format!("`{value}`: expected a number above 0")),
        };
        match name.as_str() {
            "rate" => figures.rate = number()?,
            "bandwidth" => figures.bandwidth = number()?,
            "latency" => figures.latency = Duration::from_secs_f64(number()?.min(1e6) / 1e6),
            "memory" => figures.memory = number()? as u64,
            "lost" => figures.lost = Some(lost(value)?),
            _ => return Err("a model has rate, bandwidth, latency (µs), memory and lost".into()),
        }
    }
    Ok(figures)
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

/// Builds a table, and sets cores and device to it; a device that fails is named, and the cores
/// go on without it.
pub fn crew<A: Engines + Exports>(
    wanted: Option<&Wanted>,
    threads: Option<u16>,
    entry: &'static Entry<A>,
    options: &Options,
    rib: &Rib<A>,
) -> Result<Crew<A>, Error> {
    let all = available_parallelism().map_or(1, NonZero::get);
    let device = match wanted {
        Some(Wanted::Model(figures)) => Some(figures),
        _ => None,
    };
    // Where the work is not divided, nobody has to feed a device.
    let mine = if wanted.is_some() { all - usize::from(device.is_some() && all > 1) } else { 1 };
    let threads = threads.map_or(mine, usize::from);
    let (table, clock) = (Table::build(entry, options, rib)?, Clock::real());
    let cores = Threads::start(threads).map_err(Error::Threads)?;
    let room = MEMORY.max(4 * threads * CORES * (size_of::<A>() + size_of::<Hop>()));
    let Some(figures) = device else {
        return Crew::new(table, Box::new(cores), CORES, room, &clock).map_err(Error::Device);
    };
    let device = Box::new(Model::new(figures.clone(), &clock));
    beside(device, table, cores, room, &clock).map_err(Error::Device)
}

/// A device beside the cores, its batches calibrated, and both profiled.
fn beside<A: Engines + Exports>(
    mut device: Box<dyn Device<A>>,
    table: Table<A>,
    mut cores: Threads<A>,
    room: usize,
    clock: &Clock,
) -> Result<Crew<A>, Fault> {
    let largest = room / 8 / (size_of::<A>() + size_of::<Hop>());
    let points = device.load(&table).and_then(|()| sweep(&mut *device, DEPTH, largest, clock));
    cores.load(&table)?;
    let depth = 2 * cores.capabilities().at_once;
    let buffers = Buffers { size: CORES, depth };
    let alone = measure(&mut cores, buffers, Duration::from_millis(20), clock)?;
    let mut crew = Crew::new(table, Box::new(cores), CORES, room, clock)?;
    let joined = points.and_then(|points| {
        let Some(point) = choose(&points, None) else { return Ok(()) };
        crew.join(device, Buffers { size: point.size, depth: DEPTH }, Share::Measured)?;
        crew.profiled(point.rate, alone.rate);
        Ok(())
    });
    if let Err(fault) = joined {
        told(&fault);
    }
    Ok(crew)
}

/// Names what devices have failed at.
pub fn tell<A: Engines + Exports>(crew: &mut Crew<A>) {
    crew.take_faults().iter().for_each(told);
}

fn told(fault: &Fault) {
    warn(format_args!("{fault}; the cores go on alone"));
}

/// Addresses of a core's batch: they and their hops stay in its cache.
const CORES: usize = 16 << 10;

/// Batches of a device that are under way.
const DEPTH: usize = 3;

/// Bytes of batches.
const MEMORY: usize = 64 << 20;
