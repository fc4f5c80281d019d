//! The device and the ports of rings.

use std::sync::Arc;

use super::{Lap, Ring};
use crate::owner::Claim;
use crate::tally::Tally;
use crate::{Burst, Counters, Device, Error, Link, Owned, Pool, Port};

/// A device whose queues are rings: queue `i` receives from, and gives back
/// to, `rings[i]`.
pub struct RingDevice {
    name: String,
    mac: [u8; 6],
    number: u16,
    rings: Vec<Ring>,
    pool: Pool,
    tallies: Arc<[Tally]>,
}

impl RingDevice {
    /// A device over `rings`, which other devices may share. Its ports allocate
    /// from `pool`; `number` is what received packets carry as their port.
    pub fn new(name: &str, mac: [u8; 6], number: u16, rings: &[Ring], pool: &Pool) -> Self {
        RingDevice {
            name: name.to_owned(),
            mac,
            number,
            rings: rings.to_vec(),
            pool: pool.clone(),
            tallies: rings.iter().map(|_| Tally::default()).collect(),
        }
    }
}

impl Device for RingDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn max_queues(&self) -> u16 {
        self.rings.len() as u16
    }

    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error> {
        if queues == 0 || queues > self.max_queues() {
            return Err(Error::queues(&self.name, queues, self.max_queues()));
        }
        let port = |(queue, ring): (usize, &Ring)| {
            Box::new(RingPort {
                queue,
                number: self.number,
                ring: ring.clone(),
                claim: None,
                pool: self.pool.clone(),
                tallies: self.tallies.clone(),
            }) as Box<dyn Port>
        };
        Ok(self.rings.iter().take(usize::from(queues)).enumerate().map(port).collect())
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        Error::check_mtu(&self.name, mtu, self.pool.room())
    }

    fn link(&self) -> Link {
        Link { up: true, speed_mbps: 0 }
    }

    fn counters(&self) -> Counters {
        Tally::sum(&*self.tallies)
    }

    fn stop(&mut self) {}
}

struct RingPort {
    queue: usize,
    number: u16,
    ring: Ring,
    claim: Option<Claim<Lap>>,
    pool: Pool,
    tallies: Arc<[Tally]>,
}

impl RingPort {
    #[inline(always)]
    fn with<R>(&self, act: impl FnOnce(&mut Lap) -> R) -> R {
        let result = self.claim.as_ref().and_then(|claim| claim.with(act));
        result.expect("a ring's port is used on the thread where it was attached")
    }
}

impl Port for RingPort {
    /// # Panics
    /// When a port of the same ring is attached on another thread.
    fn attach(&mut self, worker: usize) {
        self.pool.attach(worker);
        self.claim = self.ring.0.claim();
        assert!(self.claim.is_some(), "a ring belongs to one worker");
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let (n, bytes) = self.with(|lap| lap.receive(burst, most, self.number));
        self.tallies[self.queue].received(n, bytes);
        n
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        let n = packets.len();
        let bytes = self.with(|lap| lap.give_back(packets));
        self.tallies[self.queue].sent(n, bytes);
        n
    }

    fn free(&mut self, packets: &mut [Option<Owned>]) {
        self.with(|lap| lap.give_back(packets));
    }

    crate::port::packets_of_own_pool!(but free);
}
