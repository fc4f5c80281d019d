//! The context of a node beside its vector: ports, time, counters.

use std::sync::Arc;

use io::{Owned, Port, World};

use crate::kept::Kept;
use crate::stats::Stats;
use crate::watch::Watch;

/// What one graph has once: reachable from every [`View`](crate::View).
pub(crate) struct Context {
    pub worker: usize,
    /// The time of the poll, and what the clock said then: another where a test sets the time.
    pub now: u64,
    pub clock: u64,
    pub ports: Ports,
    pub stats: Arc<Stats>,
    pub watch: Watch,
}

/// A worker's queues, by the number of their port; `None` where another worker
/// has the port.
#[derive(Default)]
pub struct Ports(Vec<Option<Box<dyn Port>>>);

impl Ports {
    /// No port.
    pub fn new() -> Ports {
        Ports::default()
    }

    /// Adds or replaces the queue of port `number`; returns what was there.
    pub fn set(&mut self, number: u16, port: Box<dyn Port>) -> Option<Box<dyn Port>> {
        let number = usize::from(number);
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number].replace(port)
    }

    /// Takes the queue of port `number` out.
    pub fn remove(&mut self, number: u16) -> Option<Box<dyn Port>> {
        self.0.get_mut(usize::from(number))?.take()
    }

    /// The queue of port `number`.
    #[inline]
    pub fn get(&mut self, number: u16) -> Option<&mut (dyn Port + 'static)> {
        self.0.get_mut(usize::from(number))?.as_deref_mut()
    }

    /// Whose packets port `number` takes; `None` where there is none.
    #[inline]
    pub fn world(&self, number: u16) -> Option<World> {
        Some(self.0.get(usize::from(number))?.as_ref()?.world())
    }

    /// One more than the highest number. A port numbered 65,535 is none that is polled.
    pub fn end(&self) -> u16 {
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }

    /// Numbers and queues.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut Box<dyn Port>)> {
        let numbered = (0..).zip(&mut self.0);
        numbered.filter_map(|(number, port)| Some((number, port.as_mut()?)))
    }

    /// Gives packets of port `number`'s world back to their pool.
    ///
    /// # Panics
    /// When there is no such port: packets come from ports, and a worker keeps
    /// the ports that it has packets of.
    #[inline]
    pub fn free(&mut self, number: u16, packets: &mut [Option<Owned>]) {
        self.get(number).expect("the port that the packets came from").free(packets);
    }

    /// Frees a packet that came by port `number`, or for it: where that has gone, by
    /// another of the packet's world, or where there is none it is lost to its pool, until
    /// both are gone.
    pub fn put_back(&mut self, packet: Owned, number: u16) {
        let world = self.world(number).unwrap_or(packet.packet().world());
        self.free_one(packet, number, world);
    }

    /// The same of a kept packet.
    pub(crate) fn give_back(&mut self, kept: Kept) {
        self.free_one(kept.packet, kept.port, kept.world);
    }

    fn free_one(&mut self, packet: Owned, port: u16, world: World) {
        let packets = &mut [Some(packet)];
        if self.world(port) == Some(world) {
            return self.free(port, packets);
        }
        match self.iter_mut().find(|(_, port)| port.world() == world) {
            Some((_, port)) => port.free(packets),
            None => drop(packets[0].take().map(Owned::into_raw)),
        }
    }
}
