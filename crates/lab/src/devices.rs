//! Devices of crate `offload` for experiments: the GPU where there is one. Else a model, in a made
//! time: it shows that pipelines and divisions work, and judges no claim.

use std::time::Duration;

use lookup::lpm::{Exports, Options};
use lookup::{Addr, Hop, Rib};
use offload::calibrate::keep_busy;
use offload::clock::Clock;
use offload::crew::Crew;
use offload::device::{Batch, Device};
use offload::devices::{Cuda, Figures, Info, Measured, Model, Threads, gpus};
use offload::fault::Fault;
use offload::lines;
use offload::table::Table;

use crate::{Error, Row, Verdict, clock};

/// A device, and the cores beside it.
pub struct Bench {
    experiment: &'static str,
    /// [`GPU`] or `model`.
    pub kind: &'static str,
    /// Its time.
    pub clock: Clock,
}

impl Bench {
    /// What this machine has.
    pub fn new(experiment: &'static str) -> Self {
        if gpus().is_ok_and(|all| !all.is_empty()) {
            return Bench { experiment, kind: GPU, clock: Clock::real() };
        }
        Bench { experiment, kind: "model", clock: Clock::made() }
    }

    /// How often a cell is measured: in a made time every turn is as the first.
    pub fn turns(&self) -> usize {
        if self.kind == GPU { 5 } else { 1 }
    }

    /// What was measured on, for a record's notes.
    pub fn what(&self) -> String {
        let model = "a model in a made time, which judges nothing: not measured on a GPU";
        if self.kind == GPU { gpus_here().unwrap_or_default() } else { model.into() }
    }

    /// The device.
    pub fn device<A: Addr>(&self) -> Result<Box<dyn Device<A>>, Error> {
        if self.kind == GPU {
            return Ok(Box::new(Cuda::start(0).map_err(|fault| self.missing(&fault))?));
        }
        let figures = Figures { rate: DEVICE, ..Figures::default() };
        Ok(Box::new(Model::new(figures, &self.clock)))
    }

    /// The cores, but the one that feeds the device. Beside a model they are one, too: of a
    /// quarter of its rate, as the paper's.
    pub fn cores<A: Addr>(&self) -> Result<Box<dyn Device<A>>, Error> {
        if self.kind == GPU {
            return Ok(Box::new(self.threads(clock::cores().len().max(2) - 1)?));
        }
        let figures = Figures { rate: DEVICE / 4.0, bandwidth: 1e12, ..Figures::default() };
        Ok(Box::new(Model::new(figures, &self.clock)))
    }

    /// So many of this machine's cores.
    pub fn threads<A: Addr>(&self, count: usize) -> Result<Threads<A>, Error> {
        let what = |error| format!("{count} threads: {error}");
        // They would keep to the core that measures.
        clock::unpin();
        Threads::start(count).map_err(|error| self.needs(what(error)))
    }

    /// One core, which feeds itself where the caller keeps to it, too ([`Bench::keep_to_one_core`]).
    pub fn one_core<A: Addr>(&self) -> Result<Threads<A>, Error> {
        self.keep_to_one_core();
        let started = Threads::start(1); // it keeps to the core of who starts it
        clock::unpin();
        started.map_err(|error| self.needs(format!("a thread: {error}")))
    }

    /// Binds the calling thread to the core of [`Bench::one_core`], until [`clock::unpin`].
    pub fn keep_to_one_core(&self) {
        clock::cores().last().map(|&core| clock::pin(core));
    }

    /// A table of `engine`.
    pub fn table<A: Exports>(&self, engine: &str, rib: &Rib<A>) -> Result<Table<A>, Error> {
        let entry = A::engine(engine).ok_or_else(|| self.needs(format!("the engine {engine}")))?;
        let built = Table::build(entry, &Options::default(), rib);
        built.map_err(|refusal| self.needs(refusal.to_string()))
    }

    /// Cores and device at one table.
    pub fn crew<A: Exports>(
        &self,
        table: Table<A>,
        cores: Box<dyn Device<A>>,
    ) -> Result<Crew<A>, Error> {
        Crew::new(table, cores, PIECE, MEMORY, &self.clock).map_err(|fault| self.missing(&fault))
    }

    /// Answers `dsts`, compares with the table, and returns million lookups a second.
    pub fn rate<A: Exports>(
        &self,
        crew: &mut Crew<A>,
        clock: &Clock,
        dsts: &[A],
        wanted: &[Hop],
    ) -> Result<f64, Error> {
        let mut hops = vec![Hop::NONE; dsts.len()];
        let begun = clock.now();
        crew.answer(dsts, &mut hops).map_err(|error| self.needs(error.to_string()))?;
        let took = clock.now() - begun;
        if let Some(fault) = crew.take_faults().first() {
            return Err(self.missing(fault));
        }
        self.same(wanted, &hops)?;
        Ok(dsts.len() as f64 / took.as_secs_f64().max(1e-9) / 1e6)
    }

    /// Looks at the answers of `device` alone.
    pub fn agrees<A: Addr>(
        &self,
        device: &mut dyn Device<A>,
        dsts: &[A],
        wanted: &[Hop],
    ) -> Result<(), Error> {
        for (dsts, wanted) in dsts.chunks(PIECE).zip(wanted.chunks(PIECE)) {
            let mut batch = Batch::new(dsts.len());
            let filled = batch.fill(dsts.len(), |room| {
                room.copy_from_slice(dsts);
                Ok::<_, Fault>(dsts.len())
            });
            let answered = filled.and_then(|_| device.submit(batch));
            let answered = answered.and_then(|()| device.collect(true));
            let batch = answered.map_err(|fault| self.missing(&fault))?;
            let none = || self.needs("a device that answers".into());
            self.same(wanted, batch.ok_or_else(none)?.hops())?;
        }
        Ok(())
    }

    fn same(&self, wanted: &[Hop], got: &[Hop]) -> Result<(), Error> {
        let wrong = wanted.iter().zip(got).filter(|(wanted, got)| wanted != got).count();
        if wrong == 0 && wanted.len() == got.len() {
            return Ok(());
        }
        let what = format!("{wrong} of {} answers of the {}", wanted.len(), self.kind);
        Err(Error::Wrong { experiment: self.experiment, what })
    }

    fn needs(&self, what: String) -> Error {
        Error::Missing { experiment: self.experiment, what }
    }

    /// A device that does not do what it should.
    pub fn missing(&self, fault: &Fault) -> Error {
        self.needs(format!("a device that works: {fault}"))
    }
}

/// What a GPU makes of a table, beside what its memory and its bus would allow.
pub struct Limits {
    /// Million lookups a second of addresses that stay in the device's memory.
    pub resident: f64,
    /// The same from locked memory and back into it.
    pub end_to_end: f64,
    /// What the bus alone takes, both ways at once.
    pub bus: f64,
    /// Lines of 32 bytes that a lookup reads, and million random reads of such lines a second, of
    /// memory as large as the table; where the reads of the engine are counted.
    pub reads: Option<(f64, f64)>,
}

impl Bench {
    /// What the GPU makes of `table` with batches of `size` addresses; `None` of another device.
    /// Every answer is compared.
    pub fn limits<A: Exports>(
        &self,
        table: &Table<A>,
        dsts: &[A],
        wanted: &[Hop],
        size: usize,
        moment: Duration,
    ) -> Result<Option<Limits>, Error> {
        if self.kind != GPU {
            return Ok(None);
        }
        let failed = |fault| self.missing(&fault);
        let mut gpu = Cuda::<A>::start(0).map_err(failed)?;
        gpu.load(table).map_err(failed)?;
        let image = table.image().map_err(failed)?;
        let fresh = |gpu: &mut Cuda<A>, dsts: &[A]| {
            let mut batch = gpu.batch(dsts.len())?;
            batch.fill(dsts.len(), |room| {
                room.copy_from_slice(dsts);
                Ok::<_, Fault>(dsts.len())
            })?;
            Ok(batch)
        };
        let batch = fresh(&mut gpu, dsts).map_err(failed)?;
        let (resident, batch) = gpu.resident(batch, moment).map_err(failed)?;
        self.same(wanted, batch.hops())?;
        let pieces = dsts.chunks(size.min(dsts.len()).max(1)).take(3);
        let batches = pieces.map(|dsts| fresh(&mut gpu, dsts)).collect::<Result<Vec<_>, Fault>>();
        let batches = batches.map_err(failed)?;
        let end_to_end = keep_busy(&mut gpu, batches, moment, &self.clock).map_err(failed)?.rate;
        let bus = self.right("bytes over the bus", gpu.bus(size, moment).map_err(failed)?)?;
        let walk = |dst: &A| lines::of(table.engine(), image, dst.to_u128() as u32);
        let walked: Option<Vec<_>> = dsts.iter().take(WALKED).map(walk).collect();
        let reads = match walked {
            Some(walked) if !walked.is_empty() => {
                let hops: Vec<Hop> = walked.iter().map(|(hop, _)| *hop).collect();
                self.same(&wanted[..hops.len()], &hops)?;
                let all: usize = walked.iter().map(|(_, lines)| lines).sum();
                let reads = gpu.reads(image.bytes() as usize, moment).map_err(failed)?;
                let rate = self.right("words of the device's memory", reads)?;
                Some((all as f64 / walked.len() as f64, rate / 1e6))
            }
            _ => None,
        };
        let [resident, end_to_end, bus] = [resident, end_to_end, bus].map(|rate| rate / 1e6);
        Ok(Some(Limits { resident, end_to_end, bus, reads }))
    }

    /// A rate whose answers were right.
    fn right(&self, what: &str, measured: Measured) -> Result<f64, Error> {
        let Measured { rate, compared, wrong } = measured;
        if wrong == 0 {
            return Ok(rate);
        }
        let what = format!("{wrong} of {compared} {what}");
        Err(Error::Wrong { experiment: self.experiment, what })
    }
}

/// A verdict on rows of a GPU, or none.
pub fn judge(rows: &[Row], claim: &str, verdict: impl FnOnce(&str) -> Option<Verdict>) -> Verdict {
    if !rows.iter().any(|row| row.label("device") == GPU) {
        return Verdict::open(claim, "not measured on a GPU");
    }
    verdict(claim).unwrap_or_else(|| Verdict::open(claim, "not measured"))
}

/// The GPUs of this machine, in a line.
///
/// # Errors
/// Why there are none.
pub fn gpus_here() -> Result<String, String> {
    let all = gpus().map_err(|fault| fault.to_string())?;
    let each = |gpu: &Info| {
        let Info { number, name, memory, bus, capability: (major, minor), .. } = gpu;
        format!("GPU {number}: {name}, {} GiB, {bus}, {major}.{minor}", memory >> 30)
    };
    let all: Vec<String> = all.iter().map(each).collect();
    if all.is_empty() { Err("the CUDA driver finds none".into()) } else { Ok(all.join("; ")) }
}

/// What the table says of each.
pub fn wanted<A: Addr>(table: &Table<A>, dsts: &[A]) -> Vec<Hop> {
    let mut hops = vec![Hop::NONE; dsts.len()];
    table.lpm().lookup_batch(dsts, &mut hops);
    hops
}

/// What rows call a GPU.
pub const GPU: &str = "cuda";

/// Lookups a second of a model.
const DEVICE: f64 = 400e6;

/// Addresses whose reads are counted.
const WALKED: usize = 1 << 16;

/// Addresses of a core's batch, and bytes of all batches.
const PIECE: usize = 16 << 10;
const MEMORY: usize = 64 << 20;
