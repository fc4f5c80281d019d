//! A GPU without lookups, and lookups without transfers: the rates by which a GPU's lookups are judged.
//!
//! I1: memory of this machine that the device may read or write is freed only after its stream is
//! done. A lost device may still use its memory: that memory is never freed.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use lookup::hash::{below, h2};
use lookup::{Addr, Hop};

use super::Cuda;
use super::driver::{Gpu, Pinned, Room};
use super::handles::{Kernel, Stream};
use crate::device::{Batch, Device};
use crate::fault::{Fault, Stage};

/// A measured rate, and whether the answers were right.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The rate, per second.
    pub rate: f64,
    /// Answers that were compared.
    pub compared: usize,
    /// Answers that were wrong.
    pub wrong: usize,
}

impl<A: Addr> Cuda<A> {
    /// Random reads of 32-byte lines a second, in `bytes` of the device's memory. No read waits for
    /// another. A sum of the words is compared with the expected one.
    ///
    /// # Errors
    /// When the device is lost, or has too little memory.
    pub fn reads(&mut self, bytes: usize, at_least: Duration) -> Result<Measured, Fault> {
        let lines = (bytes / LINE).clamp(1, u32::MAX as usize / WORDS - 1);
        let memory = self.gpu.room((lines + 1) * LINE, Stage::Load)?;
        let [seeds, to] = [SEEDS, SEEDS].map(|n| self.gpu.room(n * 4, Stage::Load));
        let (seeds, to) = (seeds?, to?);
        let stream = Stream::new(&self.gpu.context).map_err(self.gpu.lost(Stage::Load))?;
        let (fill, read) = (self.named("fill_words")?, self.named("read_lines")?);
        let work = |kernel, from, to, count: usize, times| {
            let work = Work { gpu: &self.gpu, stream: &stream, kernel, table: &memory };
            // SAFETY: `fill_words` writes `count` words, for which there is room, and reads none;
            // `read_lines` reads a seed and writes a sum for each of `SEEDS`, and reads as many lines
            // as word 0 says, which are there.
            unsafe { work.run(from, to, count as u64, times) }
        };
        work(&fill, &memory, &memory, (lines + 1) * WORDS, 1)?;
        work(&fill, &seeds, &seeds, SEEDS, 1)?;
        self.gpu.write(&memory, [(0, &[lines as u32][..])].into_iter(), Stage::Load)?;
        let rate =
            timed(at_least, SEEDS * READS * TIMES, || work(&read, &seeds, &to, SEEDS, TIMES))?;
        let mut sums = ManuallyDrop::new(Pinned::new(&self.gpu, vec![0_u32; SEEDS])?);
        // SAFETY: nobody looks at them before the stream is done, and they stay (I1); a sum is any
        // number.
        let copied = unsafe { self.gpu.copy_out(&mut sums, &to, &stream) };
        let done = stream.wait();
        copied.and(done).map_err(self.gpu.lost(Stage::CopyOut))?;
        let wanted = |seed: usize| sum(h2(seed as u32), lines as u32);
        let sums = ManuallyDrop::into_inner(sums);
        let wrong = (0..COMPARED).filter(|&seed| sums[seed] != wanted(seed)).count();
        Ok(Measured { rate, compared: COMPARED, wrong })
    }

    /// Addresses a second over the bus, each with its hop on the way back: copies in both
    /// directions at once, of batches of `count`, and nothing else. The bytes are compared.
    ///
    /// # Errors
    /// When the device is lost, or has too little memory.
    pub fn bus(&mut self, count: usize, at_least: Duration) -> Result<Measured, Fault> {
        let gpu = self.gpu.clone();
        let dst = |i: usize| A::from_u128(u128::from(h2(i as u32)) * 0x1_0000_0001_0000_0001);
        let words: Vec<u32> = (0..count).map(|i| h2(i as u32)).collect();
        let dsts = ManuallyDrop::new(Pinned::new(&gpu, (0..count).map(dst).collect())?);
        let mut hops = ManuallyDrop::new(Pinned::new(&gpu, vec![Hop::NONE; count])?);
        let mut came = ManuallyDrop::new(Pinned::new(&gpu, vec![A::default(); count])?);
        let to = gpu.room(size_of_val(&**dsts), Stage::Load)?;
        let from = gpu.room(size_of_val(&words[..]), Stage::Load)?;
        gpu.write(&from, [(0, &words[..])].into_iter(), Stage::Load)?;
        let [there, back] = [0, 1].map(|_| Stream::new(&gpu.context));
        let lost = gpu.lost(Stage::CopyIn);
        let (there, back) = (there.map_err(&lost)?, back.map_err(&lost)?);
        let rate = timed(at_least, count * TIMES, || {
            let mut sent = Ok(());
            for _ in 0..TIMES {
                // SAFETY: all of them stay until both streams are done (I1), and nobody looks
                // meanwhile; a hop is any number.
                sent = sent.and_then(|()| unsafe { gpu.copy_in(&to, &dsts, &there) });
                // SAFETY: as above.
                sent = sent.and_then(|()| unsafe { gpu.copy_out(&mut hops, &from, &back) });
            }
            let done = [there.wait(), back.wait()];
            done.into_iter().fold(sent, Result::and).map_err(&lost)
        })?;
        // SAFETY: as above; an address is any number.
        let copied = unsafe { gpu.copy_out(&mut came, &to, &back) };
        copied.and(back.wait()).map_err(&lost)?;
        let [dsts, came] = [dsts, came].map(ManuallyDrop::into_inner);
        let hops = ManuallyDrop::into_inner(hops);
        let right = |i: &usize| came[*i] == dsts[*i] && hops[*i].0 == words[*i];
        Ok(Measured { rate, compared: count, wrong: count - (0..count).filter(right).count() })
    }

    /// Lookups a second of a batch that stays in the device's memory, with the loaded table;
    /// returns the batch with its answers.
    ///
    /// # Errors
    /// When the device is lost, has no table, or has too little memory.
    pub fn resident(
        &mut self,
        batch: Batch<A>,
        at_least: Duration,
    ) -> Result<(f64, Batch<A>), Fault> {
        let mut batch = ManuallyDrop::new(batch);
        let gpu = self.gpu.clone();
        let Some((kernel, table)) = self.table.clone() else {
            let (device, why) = (self.capabilities().name.clone(), "it has no table".into());
            return Err(Fault::Lost { device, stage: Stage::Run, why });
        };
        let (dsts, hops) = batch.parts();
        let from = gpu.room(size_of_val(dsts), Stage::Load)?;
        let to = gpu.room(size_of_val(hops), Stage::Load)?;
        let stream = Stream::new(&gpu.context).map_err(gpu.lost(Stage::Load))?;
        // SAFETY: the batch stays, unchanged, until the stream is done (I1).
        let copied = unsafe { gpu.copy_in(&from, dsts, &stream) };
        copied.and(stream.wait()).map_err(gpu.lost(Stage::CopyIn))?;
        let count = dsts.len() as u64;
        let work = Work { gpu: &gpu, stream: &stream, kernel: &kernel, table: &table };
        let rate = timed(at_least, dsts.len() * TIMES, || {
            // SAFETY: the kernel is an engine's, the table of the same engine, and there is room for
            // as many addresses and hops.
            unsafe { work.run(&from, &to, count, TIMES) }
        })?;
        // SAFETY: as above, and nobody looks at the hops meanwhile; a hop is any number.
        let copied = unsafe { gpu.copy_out(hops, &to, &stream) };
        copied.and(stream.wait()).map_err(gpu.lost(Stage::CopyOut))?;
        Ok((rate, ManuallyDrop::into_inner(batch)))
    }

    fn named(&self, name: &str) -> Result<Kernel, Fault> {
        let (device, why) = (self.gpu.name.to_string(), format!("it has no {name}"));
        self.gpu.kernel(name, Stage::Load)?.ok_or(Fault::Kernels { device, why })
    }
}

/// A kernel, its stream, and the memory that it reads beside its items.
struct Work<'g> {
    gpu: &'g Gpu,
    stream: &'g Stream,
    kernel: &'g Kernel,
    table: &'g Room,
}

impl Work<'_> {
    /// Runs it over `count` items, `times` times, and waits.
    ///
    /// # Safety
    /// As of [`Gpu::launch`].
    unsafe fn run(&self, from: &Room, to: &Room, count: u64, times: usize) -> Result<(), Fault> {
        let mut launched = Ok(());
        for _ in 0..times {
            let places = (self.table, from, to);
            // SAFETY: the caller's; the three stay, since the stream is waited for.
            let launch = || unsafe { self.gpu.launch(self.kernel, places, count, self.stream) };
            launched = launched.and_then(|()| launch());
        }
        let done = self.stream.wait();
        launched.and(done).map_err(self.gpu.lost(Stage::Run))
    }
}

/// The rate of `work`, which does `each` operations: it runs once untimed, then for a while.
fn timed(
    at_least: Duration,
    each: usize,
    mut work: impl FnMut() -> Result<(), Fault>,
) -> Result<f64, Fault> {
    work()?;
    let (begun, mut times) = (Instant::now(), 0);
    loop {
        work()?;
        times += 1;
        let took = begun.elapsed();
        if took >= at_least {
            return Ok((each * times) as f64 / took.as_secs_f64().max(1e-9));
        }
    }
}

/// The sum that `read_lines` computes from a seed.
fn sum(seed: u32, lines: u32) -> u32 {
    let word = |j: u32| {
        let line = below(h2(seed.wrapping_add(j.wrapping_mul(SALT))), u64::from(lines));
        h2((WORDS + line as usize * WORDS) as u32)
    };
    (0..READS as u32).map(word).fold(0, u32::wrapping_add)
}

/// Bytes that a device reads at once, and words in them.
const LINE: usize = 32;
const WORDS: usize = 8;

/// Reads for each seed, and the constant that distinguishes them, as in the kernel.
const READS: usize = 16;
const SALT: u32 = 0x5bd1_e995;

/// Seeds in a run, and seeds whose sums are compared.
const SEEDS: usize = 1 << 20;
const COMPARED: usize = 1 << 14;

/// How often a kernel or a copy runs before the host waits.
const TIMES: usize = 8;
