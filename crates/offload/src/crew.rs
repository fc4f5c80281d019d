//! The cores and, where there is one, a device work on one input.
//!
//! ```text
//!              ┌──► batch ──► device ───┐
//!   input ─────┤                        ├──► in the order of the input ──► output
//!              └──► batch ──► cores ────┘
//! ```
//!
//! | what            | how                                                                     |
//! |-----------------|-------------------------------------------------------------------------|
//! | division        | a batch goes where it is expected to be done first, by rates that are    |
//! |                 | profiled before and measured all the while; or in fixed shares          |
//! | the input's end | batches shrink, so that both end together, where the input knows how much is left |
//! | memory          | batches are made once, as many as fit the limit; the input waits        |
//! | in memory       | cores that need no batches take pieces from the back, where they lie     |
//! | feeding         | where all cores alone are faster than both together, they are left alone |
//! | a slow device   | one that is slower than the core that feeds it is left out, and tried now and then |
//! | a lost device   | what it has not answered goes to the cores, in front of what comes; it is reported at once |
//! | a change        | what was read before it is answered before it; all later, after it      |
//!
//! Source: Lucchesi et al., 2018, section 4.4. We differ: the division follows the rates measured
//! during the run, and a side that would only delay the other (less than a fiftieth of its rate)
//! gets nothing but a small batch now and then, to see whether that is still so.

mod division;
mod ends;
mod modes;
mod trials;

use std::collections::{BTreeMap, VecDeque};

use lookup::lpm::{Engines, Exports};
use lookup::rib::Change;
use lookup::{Addr, Hop, Rib};

use crate::clock::Clock;
use crate::device::{Batch, Device};
use crate::error::Error;
use crate::fault::Fault;
use crate::lane::{Buffers, Lane, Meter};
use crate::pieces::{Front, Pieces};
use crate::table::Table;
use division::{SHORT, Who};
use ends::Nothing;
pub use ends::{Input, Output};
use modes::Modes;
use trials::Trials;

/// How the work is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// By measured rates.
    Measured,
    /// A fixed share of the addresses goes to the device, from 0 to 1.
    Fixed(f64),
}

/// A table, and the processors that answer from it.
pub struct Crew<A: Addr> {
    table: Table<A>,
    device: Option<Lane<A>>,
    cores: Lane<A>,
    share: Share,
    /// Whether the cores answer where addresses lie: then no batch is for them.
    apart: bool,
    /// The rate at which addresses are copied into the device's batches, and their hops out of them.
    copied: Meter,
    /// Whether the device is worth its feeding, where cores answer where addresses lie.
    modes: Modes,
    /// When a side that gets nothing is tried.
    trials: Trials,
    /// Whether no core is kept apart to feed the device, which is then worth a share only where it
    /// does more than one of them.
    all_work: bool,
    clock: Clock,
    faults: Vec<Fault>,
    /// Who hears of a fault at once.
    listener: Listener,
    /// The number of the next batch to be read, and of the next one to be handed out.
    read: u64,
    out: u64,
    /// Addresses given to the device and to the cores in this run.
    dealt: [u64; 2],
    answered: BTreeMap<u64, Held<A>>,
    again: VecDeque<Batch<A>>,
}

/// A function that hears of faults.
pub type Listener = Box<dyn FnMut(&Fault) + Send>;

/// An answered batch, and whether it belongs to the device.
struct Held<A> {
    batch: Batch<A>,
    of_device: bool,
}

impl<A: Engines + Exports> Crew<A> {
    /// A crew of the cores alone; batches take up to `room` bytes.
    ///
    /// # Errors
    /// When the cores fail to take the table.
    pub fn new(
        table: Table<A>,
        mut cores: Box<dyn Device<A>>,
        size: usize,
        room: usize,
        clock: &Clock,
    ) -> Result<Self, Fault> {
        cores.load(&table)?;
        let depth = 2 * cores.capabilities().at_once;
        let most = room / (size.max(1) * (size_of::<A>() + size_of::<Hop>()));
        Ok(Crew {
            table,
            device: None,
            cores: Lane::new(cores, Buffers { size, depth }, most),
            share: Share::Measured,
            apart: false,
            copied: Meter::default(),
            modes: Modes::default(),
            trials: Trials::default(),
            all_work: false,
            clock: clock.clone(),
            faults: Vec::new(),
            listener: Box::new(|_| {}),
            read: 0,
            out: 0,
            dealt: [0; 2],
            answered: BTreeMap::new(),
            again: VecDeque::new(),
        })
    }

    /// Adds a device, with twice the batches that it works on at once, and sets how the work is divided.
    ///
    /// # Errors
    /// When the device fails to take the table; the cores work on without it.
    pub fn join(
        &mut self,
        mut device: Box<dyn Device<A>>,
        buffers: Buffers,
        share: Share,
    ) -> Result<(), Fault> {
        device.load(&self.table)?;
        self.device = Some(Lane::new(device, buffers, 2 * buffers.depth));
        (self.share, self.modes) = (share, Modes::default());
        Ok(())
    }

    /// Sets the initial rates by which work is divided, in addresses a second.
    pub fn profiled(&mut self, device: f64, cores: f64) {
        self.cores.meter = Meter::profiled(cores);
        if let Some(lane) = &mut self.device {
            lane.meter = Meter::profiled(device);
        }
    }

    /// Leaves the device out, by measured rates, until a trial shows that it does more than one
    /// core: the cores are all that there are, the one that feeds it among them.
    pub fn leave_out(&mut self) {
        self.all_work = true;
    }

    /// Answers all addresses of `input`, in its order.
    ///
    /// # Errors
    /// When input or output fails, a change is refused, or the cores fail. Unanswered batches are
    /// then abandoned.
    pub fn run(
        &mut self,
        input: &mut dyn Input<A>,
        output: &mut dyn Output<A>,
    ) -> Result<(), Error> {
        self.dealt = [0; 2];
        let done = self.work(input, output);
        if done.is_err() {
            self.give_up();
        }
        done
    }

    /// The same as [`Crew::run`], for slices in memory. Cores that need no batches answer where
    /// the addresses lie, from the back; batches of the device take them from the front. With a
    /// division by measured rates, the cores answer alone, the feeding core among them, where that
    /// has been faster: long calls try both now and then.
    ///
    /// # Errors
    /// As [`Crew::run`].
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn answer(&mut self, dsts: &[A], hops: &mut [Hop]) -> Result<(), Error> {
        let all = dsts.len();
        let in_place = self.cores.device.in_place();
        let (mut mode, [front, back]) = match (&in_place, &self.device) {
            (None, _) => (None, [all, 0]),
            (_, None) => (None, [0, all]),
            _ => self.mode(all),
        };
        // Who feeds no device answers.
        let fed = self.device.is_some() && self.share == Share::Measured && !self.all_work;
        let more = usize::from(front == 0 && fed);
        let piece = if front > 0 { SHORT } else { self.cores.buffers.size };
        let pieces = Pieces::new(dsts, hops, piece.min(self.cores.buffers.size), [front, back]);
        let (clock, begun) = (self.clock.clone(), self.clock.now());
        let alone = || match &in_place {
            Some(cores) => (cores.answer(&pieces, more), clock.now()),
            None => (Ok(()), begun),
        };
        let (batches, (here, ended)) = match (front, back) {
            (0, _) => (Ok(()), alone()),
            (_, 0) => (self.front(&pieces), (Ok(()), begun)),
            _ => std::thread::scope(|scope| {
                let cores = std::thread::Builder::new().name("pieces".into());
                let cores = cores.spawn_scoped(scope, alone);
                self.apart = true;
                let batches = self.front(&pieces);
                self.apart = false;
                if batches.is_err() {
                    pieces.close();
                }
                // Where the system starts no thread, this one does the rest. A lookup that panics
                // is caught, so the thread does not.
                let here = cores.ok().and_then(|cores| cores.join().ok()).unwrap_or_else(alone);
                (batches, here)
            }),
        };
        self.trials.passed(pieces.taken() as u64);
        if pieces.taken() > 0 && more == 0 {
            self.cores.done(pieces.taken() as u64, begun, ended);
        } else {
            self.cores.answered += pieces.taken() as u64;
        }
        let done = batches.and(here.map_err(Error::Cores));
        if self.device.is_none() || done.is_err() {
            mode = None; // lost on the way
        }
        if let Some(mode) = mode {
            self.modes.done(mode, all, self.clock.now().saturating_sub(begun));
        }
        done
    }

    /// Answers what comes from the front, in batches.
    fn front(&mut self, pieces: &Pieces<'_, A>) -> Result<(), Error> {
        let front = &Front::new(pieces);
        self.run(&mut { front }, &mut { front })
    }

    /// Calls `listener` with each fault of a device when it happens, in the middle of a run: an
    /// endless one has no end at which to ask for them.
    pub fn on_fault(&mut self, listener: Listener) {
        self.listener = listener;
    }

    /// The faults of devices since the last call.
    pub fn take_faults(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.faults)
    }

    /// Addresses that the device and the cores have answered.
    pub fn answered(&self) -> [u64; 2] {
        [self.device.as_ref().map_or(0, |lane| lane.answered), self.cores.answered]
    }

    /// Addresses a second of the device and of the cores; `None` while unknown.
    pub fn rates(&self) -> [Option<f64>; 2] {
        [self.device.as_ref().and_then(|lane| lane.meter.rate()), self.cores.meter.rate()]
    }

    fn work(&mut self, input: &mut dyn Input<A>, output: &mut dyn Output<A>) -> Result<(), Error> {
        let mut ended = false;
        loop {
            let mut moved = self.gather(false)?;
            moved |= self.hand_out(output)?;
            if !ended && let Some((rib, changes)) = input.changes() {
                self.drain(output)?;
                self.change(rib, &changes)?;
            }
            // Whoever asks may wait for the answers to what was read before.
            let later = !ended && self.again.is_empty() && !self.is_idle() && input.waits();
            match if later { Dealt::None } else { self.deal(input, ended)? } {
                Dealt::One => moved = true,
                Dealt::None => {}
                Dealt::End => ended = true,
            }
            if ended && self.is_idle() {
                return Ok(());
            }
            if !moved && !self.gather(true)? {
                self.clock.pause();
            }
        }
    }

    /// Whether no batch is being answered and none waits.
    fn is_idle(&self) -> bool {
        let of_device = self.device.as_ref().map_or(0, |lane| lane.under_way);
        of_device + self.cores.under_way == 0 && self.again.is_empty() && self.answered.is_empty()
    }

    /// Collects finished batches. With `wait`, or where only one side is at work, it waits for one.
    fn gather(&mut self, wait: bool) -> Result<bool, Error> {
        let mut any = false;
        let clock = self.clock.clone();
        let now = || clock.now();
        let idle = self.cores.under_way == 0;
        if let Some(lane) = &mut self.device {
            let mut wait = wait && idle;
            loop {
                match lane.collect(wait, now) {
                    Ok(Some(batch)) => {
                        self.answered.insert(batch.number, Held { batch, of_device: true });
                        (any, wait) = (true, false);
                    }
                    Ok(None) => break,
                    Err(fault) => {
                        self.lose(fault)?;
                        any = true;
                        break;
                    }
                }
            }
        }
        let alone = self.device.as_ref().is_none_or(|lane| lane.under_way == 0);
        let mut wait = wait && alone && !any;
        while let Some(batch) = self.cores.collect(wait, now).map_err(Error::Cores)? {
            self.answered.insert(batch.number, Held { batch, of_device: false });
            (any, wait) = (true, false);
        }
        Ok(any)
    }

    /// Hands out batches that are next in the input's order.
    fn hand_out(&mut self, output: &mut dyn Output<A>) -> Result<bool, Error> {
        let mut any = false;
        while let Some(Held { batch, of_device }) = self.answered.remove(&self.out) {
            self.copied.begin(self.clock.now());
            output.take(batch.dsts(), batch.hops())?;
            if of_device {
                self.copied.done(batch.dsts().len() as u64, self.clock.now());
            }
            self.out += 1;
            any = true;
            match &mut self.device {
                Some(lane) if of_device => lane.release(batch),
                _ if of_device || batch.room() != self.cores.buffers.size => {}
                _ => self.cores.release(batch),
            }
        }
        Ok(any)
    }

    /// Gives one batch to the device or the cores.
    fn deal(&mut self, input: &mut dyn Input<A>, ended: bool) -> Result<Dealt, Error> {
        if !self.again.is_empty() && self.cores.has_room() {
            if let Some(batch) = self.again.pop_front() {
                self.cores.submit(batch, self.clock.now()).map_err(Error::Cores)?;
            }
            return Ok(Dealt::One);
        }
        if ended || !self.again.is_empty() {
            return Ok(Dealt::None);
        }
        let left = input.left();
        let Some(who) = self.choose(left) else { return Ok(Dealt::None) };
        let is_trial = self.share == Share::Measured && self.idle_side() == Some(who);
        let most = self.piece(who, left);
        let (Some(lane), at) = (match who {
            Who::Device => (self.device.as_mut(), 0),
            Who::Cores => (Some(&mut self.cores), 1),
        }) else {
            return Ok(Dealt::None);
        };
        let mut batch = match lane.batch() {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(Dealt::None),
            Err(fault) if who == Who::Device => {
                self.lose(fault)?;
                return Ok(Dealt::One);
            }
            Err(fault) => return Err(Error::Cores(fault)),
        };
        self.copied.begin(self.clock.now());
        let count = match batch.fill(most, |dsts| input.fill(dsts)) {
            Ok(count) => count,
            Err(error) => {
                lane.release(batch);
                return Err(error.into());
            }
        };
        if count == 0 {
            lane.release(batch);
            return Ok(Dealt::End);
        }
        if who == Who::Device {
            self.copied.done(0, self.clock.now());
        }
        batch.number = self.read;
        self.read += 1;
        self.dealt[at] += count as u64;
        self.trials.passed(count as u64);
        if is_trial {
            self.trials.begin(lane.buffers.size);
            lane.meter.fade();
        }
        match lane.submit(batch, self.clock.now()) {
            Ok(()) => {}
            Err(fault) if who == Who::Device => self.lose(fault)?,
            Err(fault) => return Err(Error::Cores(fault)),
        }
        Ok(Dealt::One)
    }

    /// Answers and hands out all addresses that were read.
    fn drain(&mut self, output: &mut dyn Output<A>) -> Result<(), Error> {
        while !self.is_idle() {
            let mut moved = self.gather(false)?;
            moved |= self.hand_out(output)?;
            if !self.again.is_empty() {
                moved |= self.deal(&mut Nothing, true)? == Dealt::One;
            }
            if !moved && !self.gather(true)? {
                self.clock.pause();
            }
        }
        Ok(())
    }

    /// Changes the table of both sides, while no batch is in work.
    fn change(&mut self, rib: &Rib<A>, changes: &[Change<A>]) -> Result<(), Error> {
        let patch = self.table.apply(rib, changes)?;
        self.cores.device.update(&self.table, &patch).map_err(Error::Cores)?;
        let updated = self.device.as_mut().map(|lane| lane.device.update(&self.table, &patch));
        match updated {
            Some(Err(fault)) => self.lose(fault),
            _ => Ok(()),
        }
    }

    /// Continues without the device.
    fn lose(&mut self, fault: Fault) -> Result<(), Error> {
        (self.listener)(&fault);
        self.faults.push(fault);
        let Some(mut lane) = self.device.take() else { return Ok(()) };
        let mut back = lane.device.abandon();
        let device = lane.device.capabilities().name.clone();
        if back.len() != lane.under_way {
            let batches = lane.under_way.abs_diff(back.len());
            return Err(Error::Kept { device, batches });
        }
        back.sort_by_key(|batch| batch.number);
        self.again.extend(back);
        Ok(())
    }

    /// Cleans up after an error: no batch is in work, and the next run starts from the beginning.
    fn give_up(&mut self) {
        for lane in self.device.iter_mut().chain([&mut self.cores]) {
            for batch in lane.device.abandon() {
                lane.release(batch);
            }
            (lane.under_way, lane.pending) = (0, 0);
        }
        self.again.clear();
        for Held { batch, of_device } in std::mem::take(&mut self.answered).into_values() {
            match &mut self.device {
                Some(lane) if of_device => lane.release(batch),
                _ if of_device => {}
                _ => self.cores.release(batch),
            }
        }
        self.out = self.read;
    }
}

/// The result of an attempt to give out a batch.
#[derive(Eq, PartialEq)]
enum Dealt {
    One,
    /// Neither side takes a batch.
    None,
    /// The input has no more addresses.
    End,
}

#[cfg(test)]
mod tests;
