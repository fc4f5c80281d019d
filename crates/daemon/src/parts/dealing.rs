//! From devices to the ports of each worker: starts queues, and spreads the packets of a queue that
//! belong to several workers.
//!
//! | packets of the port  | the device's queues | way                                                  |
//! |----------------------|---------------------|------------------------------------------------------|
//! | any worker's         | as there are        | none; with `spread` by flow, over rings              |
//! | their pair's owner's | one a worker        | by the device, the rest by rings ([`spread::sort`])  |
//! | their pair's owner's | fewer               | one queue, over rings ([`spread::spread_to`])        |

use std::sync::Arc;

use ::io::{Spread, World};
use graph::Bell;
use graph::spread::{self, OwnerOf, Shares};
use nodes::parse::flow;
use nodes::parse::owner::Owners;
use wire::flow::Hasher;

use super::devices::Port;
use super::plan::{self, Wanted};
use crate::config;
use crate::error::Error;

/// How queues are given to workers.
pub struct Dealing<'d> {
    /// The workers, by number.
    pub bells: &'d [Bell],
    /// Packets in the pools.
    pub buffers: usize,
    /// Flows are spread over workers without a queue; `None`: no spreading.
    pub hasher: Option<Hasher>,
    /// The owner of each pair.
    pub owners: Option<Arc<Owners>>,
    /// The ports whose pairs have owners.
    pub by_pair: &'d dyn Fn(&config::Port) -> bool,
}

/// Started queues, by worker, with the number of their port.
pub struct Queues {
    /// By worker.
    pub by_worker: Vec<Vec<(u16, Box<dyn ::io::Port>)>>,
    /// By port: the world of the packets that it takes.
    pub worlds: Vec<World>,
}

/// By worker: the ports of which it has no queue, with the worker that sends for it.
pub type Away = Vec<Vec<(u16, usize)>>;

impl Dealing<'_> {
    /// Starts the devices, and gives their queues to workers.
    ///
    /// # Errors
    /// When a device does not start.
    pub fn start(&self, ports: &mut [Port]) -> Result<(Queues, Away), Error> {
        let workers = self.bells.len();
        let owners: Vec<_> = ports.iter().map(|port| self.owners_of(port)).collect();
        let wanted = ports.iter().zip(&owners);
        let wanted = wanted.map(|(port, of)| Wanted { most: most(port), owned: of.is_some() });
        let dealt = plan::deal(&wanted.collect::<Vec<_>>(), workers);
        let away = plan::handovers(&dealt, workers);
        let by_worker = (0..workers).map(|_| Vec::new()).collect();
        let mut queues = Queues { by_worker, worlds: Vec::new() };
        for ((port, polled_by), owners) in ports.iter_mut().zip(&dealt).zip(&owners) {
            if let Some(owners) = owners {
                port.device.deal_by_pair(&owners.by_pair());
            }
            let started = start(port, polled_by)?;
            let world = started.first().map_or(World::Own, |queue| queue.world());
            queues.worlds.push(world);
            if let Some(owners) = owners.as_ref().filter(|_| polled_by.len() == workers) {
                self.sort(port, started, owners, &mut queues);
                continue;
            }
            for (queue, holder) in started.into_iter().zip(polled_by) {
                let lacks = |worker: &usize| away[*worker].contains(&(port.number, *holder));
                let others: Vec<usize> = (0..workers).filter(lacks).collect();
                match self.shares(queue, &others, owners.as_ref()) {
                    Ok(shares) => queues.lend(port, *holder, &others, shares),
                    Err(queue) => queues.by_worker[*holder].push((port.number, queue)),
                }
            }
        }
        Ok((queues, away))
    }

    /// The owners of its packets; `None` where they belong to any worker, or there is only one.
    fn owners_of(&self, port: &Port) -> Option<Arc<Owners>> {
        let wanted = self.bells.len() > 1 && (self.by_pair)(&port.config);
        self.owners.clone().filter(|_| wanted)
    }

    /// A port for each worker, where several workers share a queue.
    fn shares(
        &self,
        queue: Box<dyn ::io::Port>,
        others: &[usize],
        owners: Option<&Arc<Owners>>,
    ) -> Result<Shares, Box<dyn ::io::Port>> {
        if others.is_empty() {
            return Err(queue);
        }
        match (owners, self.hasher) {
            (Some(owners), _) => {
                Ok(spread::spread_to(queue, others, self.buffers, owner_of(owners)))
            }
            (None, Some(hasher)) => {
                let flow_of = Box::new(move |frame: &[u8]| flow::of_frame(&hasher, frame));
                Ok(spread::spread(queue, others.len(), self.buffers, flow_of))
            }
            (None, None) => Err(queue),
        }
    }

    /// A queue for each worker; each packet of a queue goes to its owner.
    fn sort(
        &self,
        port: &mut Port,
        started: Vec<Box<dyn ::io::Port>>,
        owners: &Arc<Owners>,
        queues: &mut Queues,
    ) {
        let dealt = port.device.spread();
        let itself = matches!(dealt, Spread::ByPair(_));
        tracing::debug!(port = port.config.name, "deals by pair by itself: {itself}");
        let foreign_hash = dealt != Spread::ByFlow;
        let sorted = spread::sort(started, self.bells, foreign_hash, || owner_of(owners));
        for ((queue, lost), own) in sorted.into_iter().zip(&mut queues.by_worker) {
            own.push((port.number, queue));
            port.lost.push(lost);
        }
    }
}

impl Queues {
    /// Gives workers their shares of one queue.
    fn lend(&mut self, port: &mut Port, holder: usize, others: &[usize], shares: Shares) {
        self.by_worker[holder].push((port.number, shares.holder));
        for (worker, share) in others.iter().zip(shares.borrowers) {
            self.by_worker[*worker].push((port.number, share));
        }
        port.lost.push(shares.lost);
    }
}

/// The number of queues that a device supports and the user wants.
fn most(port: &Port) -> u16 {
    let most = port.device.max_queues();
    if port.config.queues == 0 { most } else { most.min(port.config.queues) }
}

fn start(port: &mut Port, polled_by: &[usize]) -> Result<Vec<Box<dyn ::io::Port>>, Error> {
    port.queues = polled_by.len() as u16;
    port.workers = polled_by.iter().map(|worker| *worker as u16).collect();
    let started = port.device.start(port.queues);
    started.map_err(|error| Error::device(&port.config.path("device"), error))
}

fn owner_of(owners: &Arc<Owners>) -> OwnerOf {
    let owners = owners.clone();
    Box::new(move |frame| owners.of_frame(frame))
}

#[cfg(test)]
mod tests;
