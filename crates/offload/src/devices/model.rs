//! A simulated device: it takes as long as its figures give, this processor computes its answers,
//! and it can be lost at any stage. It is for tests of pipelines, divisions and faults.
//!
//! ```text
//!   bus in      │ batch 1 │ batch 2 │ batch 3 │
//!   processor             │ batch 1 │ batch 2 │ batch 3 │        each does one batch at a time
//!   bus out                         │ batch 1 │ batch 2 │ …
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lookup::lpm::Lpm;
use lookup::{Addr, Hop};

use crate::clock::Clock;
use crate::device::{Batch, Capabilities, Device};
use crate::fault::{Fault, Stage};
use crate::image::Patch;
use crate::table::Table;

/// The properties of a model.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Bytes a second, in each direction.
    pub bandwidth: f64,
    /// The latency of each transfer and of each start of the processor.
    pub latency: Duration,
    /// Lookups a second.
    pub rate: f64,
    /// After so many addresses, another rate.
    pub then: Option<(u64, f64)>,
    /// Bytes for the table.
    pub memory: u64,
    /// The stage at which it is lost, and how often that stage has succeeded before.
    pub lost: Option<(Stage, u64)>,
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            bandwidth: 12e9,
            latency: Duration::from_micros(10),
            rate: 1e9,
            then: None,
            memory: 4 << 30,
            lost: None,
        }
    }
}

/// A modelled device.
pub struct Model<A> {
    capabilities: Capabilities,
    figures: Figures,
    clock: Clock,
    table: Option<Arc<dyn Lpm<A>>>,
    /// The times until which bus in, processor and bus out are busy.
    busy: [Duration; 3],
    under_way: VecDeque<UnderWay<A>>,
    lost: Option<Fault>,
}

struct UnderWay<A> {
    batch: Batch<A>,
    done: Duration,
    fault: Option<Stage>,
}

impl<A: Addr> Model<A> {
    /// A device with these figures, on this clock.
    pub fn new(figures: Figures, clock: &Clock) -> Self {
        let name = format!(
            "model ({:.0} million lookups/s, {:.1} GB/s)",
            figures.rate / 1e6,
            figures.bandwidth / 1e9
        );
        let memory = Some(figures.memory);
        Model {
            capabilities: Capabilities { kind: "model", name, at_once: 1, memory },
            figures,
            clock: clock.clone(),
            table: None,
            busy: [Duration::ZERO; 3],
            under_way: VecDeque::new(),
            lost: None,
        }
    }

    /// Whether the device is lost at `stage` this time.
    fn fails(&mut self, stage: Stage) -> bool {
        match &mut self.figures.lost {
            Some((at, 0)) => *at == stage,
            Some((at, before)) if *at == stage => {
                *before -= 1;
                false
            }
            _ => false,
        }
    }

    fn lose(&mut self, stage: Stage) -> Fault {
        let (device, why) = (self.capabilities.name.clone(), "as its model says".into());
        self.lost.insert(Fault::Lost { device, stage, why }).clone()
    }

    fn alive(&self) -> Result<(), Fault> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// Sends `bytes` of a table.
    fn send(&mut self, table: &Table<A>, bytes: u64, stage: Stage) -> Result<(), Fault> {
        self.alive()?;
        let wanted = table.image()?.bytes();
        if wanted > self.figures.memory {
            let (device, free) = (self.capabilities.name.clone(), self.figures.memory);
            return Err(Fault::NoMemory { device, wanted, free });
        }
        if self.fails(stage) {
            return Err(self.lose(stage));
        }
        self.clock.wait_until(self.clock.now() + self.transfer(bytes));
        self.table = Some(table.lpm().clone());
        Ok(())
    }

    fn transfer(&self, bytes: u64) -> Duration {
        self.figures.latency + Duration::from_secs_f64(bytes as f64 / self.figures.bandwidth)
    }
}

impl<A: Addr> Device<A> for Model<A> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn batch(&mut self, addresses: usize) -> Result<Batch<A>, Fault> {
        self.alive()?;
        Ok(Batch::new(addresses))
    }

    fn load(&mut self, table: &Table<A>) -> Result<(), Fault> {
        self.send(table, table.image()?.bytes(), Stage::Load)
    }

    fn update(&mut self, table: &Table<A>, patch: &Patch) -> Result<(), Fault> {
        self.send(table, patch.bytes(table.image()?.bytes()), Stage::Update)
    }

    fn submit(&mut self, batch: Batch<A>) -> Result<(), Fault> {
        let count = batch.dsts().len() as f64;
        if let Some((left, rate)) = &mut self.figures.then {
            *left = left.saturating_sub(batch.dsts().len() as u64);
            if *left == 0 {
                self.figures.rate = *rate;
            }
        }
        let run = self.figures.latency + Duration::from_secs_f64(count / self.figures.rate);
        let [to, from] = [size_of_val(batch.dsts()), size_of_val(batch.hops())];
        let mut done = self.clock.now();
        let takes = [self.transfer(to as u64), run, self.transfer(from as u64)];
        for (busy, takes) in self.busy.iter_mut().zip(takes) {
            done = done.max(*busy) + takes;
            *busy = done;
        }
        let stages = [Stage::Submit, Stage::CopyIn, Stage::Run, Stage::CopyOut, Stage::Collect];
        let fault = stages.into_iter().find(|&stage| self.fails(stage));
        self.under_way.push_back(UnderWay { batch, done, fault });
        self.alive()?;
        match fault {
            Some(Stage::Submit) => Err(self.lose(Stage::Submit)),
            _ => Ok(()),
        }
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Batch<A>>, Fault> {
        self.alive()?;
        let Some(UnderWay { done, fault, .. }) = self.under_way.front() else { return Ok(None) };
        if wait {
            self.clock.wait_until(*done);
        } else if self.clock.now() < *done {
            return Ok(None);
        }
        let fault = *fault;
        if let Some(UnderWay { batch, .. }) = self.under_way.front_mut() {
            let (dsts, hops) = batch.parts();
            match (fault, &self.table) {
                // The buffer's contents are no answer when a device is lost.
                (Some(_), _) | (None, None) => hops.fill(Hop(0x5bad_c0de)),
                (None, Some(table)) => table.lookup_batch(dsts, hops),
            }
        }
        match fault {
            Some(stage) => Err(self.lose(stage)),
            None if self.table.is_none() => Err(self.lose(Stage::Load)),
            None => Ok(self.under_way.pop_front().map(|first| first.batch)),
        }
    }

    fn abandon(&mut self) -> Vec<Batch<A>> {
        self.under_way.drain(..).map(|each| each.batch).collect()
    }
}

#[cfg(test)]
mod tests {
    use lookup::lpm::{Engines, Options};
    use lookup::{Hop, Prefix, Rib};

    use super::*;

    #[test]
    fn a_device_that_is_lost_stays_lost() {
        let figures = Figures { lost: Some((Stage::Submit, 0)), ..Figures::default() };
        let mut device: Box<dyn Device<u32>> = Box::new(Model::new(figures, &Clock::made()));
        let rib = Rib::from_iter([(Prefix::<u32>::all(), Hop(1))]);
        let entry = u32::engine("miht").expect("it is in the registry");
        let table = Table::build(entry, &Options::default(), &rib).expect("within the limits");
        let (first, second) = (device.batch(8).unwrap(), device.batch(8).unwrap());
        assert!(device.submit(first).is_err());
        assert!(device.batch(8).is_err() && device.submit(second).is_err());
        assert!(device.load(&table).is_err() && device.collect(false).is_err());
        assert_eq!(device.abandon().len(), 2);
    }
}
