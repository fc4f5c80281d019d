//! Requests on their way to the solicitor, and in it.

use graph::ring::spsc::{Consumer, Producer, ring};
use nodes::gatekeeper::solicitor::{CAPACITY, LEVELS, Queue};

/// Where a request's level and links are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Links {
    /// In an object of a pool, which goes through a ring, one by one: as it was before the
    /// thesis' last step.
    Pool,
    /// In the packet; the packets of a burst are handed over at once.
    Packet,
}

/// What a packet has of its request: a line, as its descriptor is.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Descriptor {
    level: u8,
    waits: bool,
    next: u32,
    before: u32,
}

impl Descriptor {
    pub(super) const NONE: Descriptor =
        Descriptor { level: 0, waits: false, next: NONE, before: NONE };

    /// Its packet is in use.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

/// Both ways to the same queue: highest level first, first in first out within one, the
/// youngest of the lowest dropped.
pub(super) enum Solicitor {
    Pool(Box<Pool>),
    Packet(Box<InPackets>),
}

impl Solicitor {
    pub(super) fn new(links: Links) -> Solicitor {
        match links {
            Links::Pool => Solicitor::Pool(Box::default()),
            Links::Packet => Solicitor::Packet(Box::default()),
        }
    }

    /// Takes the packets of a burst with their levels, and sends `most` of those that wait.
    #[inline]
    pub(super) fn burst(
        &mut self,
        packets: &mut [Descriptor],
        burst: impl Iterator<Item = (u32, u8)>,
        most: usize,
        sent: impl FnMut(u32),
    ) {
        match self {
            Solicitor::Pool(pool) => pool.burst(packets, burst, most, sent),
            Solicitor::Packet(queue) => queue.burst(packets, burst, most, sent),
        }
    }
}

/// Requests as objects.
pub(super) struct Pool {
    objects: Box<[Object]>,
    free: Vec<u32>,
    to: Producer<u32>,
    from: Consumer<u32>,
    queue: Queue<u32>,
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Object {
    packet: u32,
    level: u8,
}

impl Default for Pool {
    fn default() -> Self {
        let (to, from) = ring(CAPACITY);
        let objects = vec![Object::default(); OBJECTS as usize].into_boxed_slice();
        Pool { objects, free: (0..OBJECTS).collect(), to, from, queue: Queue::new(CAPACITY) }
    }
}

impl Pool {
    fn burst(
        &mut self,
        packets: &mut [Descriptor],
        burst: impl Iterator<Item = (u32, u8)>,
        most: usize,
        mut sent: impl FnMut(u32),
    ) {
        for (packet, level) in burst {
            let Some(object) = self.free.pop() else { continue };
            self.objects[object as usize] = Object { packet, level };
            packets[packet as usize].waits = true;
            if self.to.push(object).is_err() {
                self.give(packets, object);
            }
        }
        while let Some(object) = self.from.pop() {
            let level = self.objects[object as usize].level;
            if let Some(dropped) = self.queue.push(level, object) {
                self.give(packets, dropped.item);
            }
        }
        for _ in 0..most {
            let Some((_, object)) = self.queue.pop() else { break };
            sent(self.objects[object as usize].packet);
            self.give(packets, object);
        }
    }

    fn give(&mut self, packets: &mut [Descriptor], object: u32) {
        packets[self.objects[object as usize].packet as usize].waits = false;
        self.free.push(object);
    }
}

/// A queue whose links are in the packets.
///
/// I1: a level's bit is set exactly when its ends are packets. I2: `waits` of a packet is set
/// exactly when it is in the chain of its level.
pub(super) struct InPackets {
    ends: [Ends; LEVELS],
    levels: u64,
    len: usize,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl Default for InPackets {
    fn default() -> Self {
        InPackets { ends: [Ends { first: NONE, last: NONE }; LEVELS], levels: 0, len: 0 }
    }
}

impl InPackets {
    fn burst(
        &mut self,
        packets: &mut [Descriptor],
        burst: impl Iterator<Item = (u32, u8)>,
        most: usize,
        mut sent: impl FnMut(u32),
    ) {
        for (packet, level) in burst {
            if self.len == CAPACITY {
                let lowest = self.levels.trailing_zeros() as u8; // full, so there is one
                if level <= lowest {
                    continue;
                }
                let last = self.ends[usize::from(lowest)].last;
                self.take(packets, last);
            }
            self.push(packets, packet, level);
        }
        for _ in 0..most {
            let Some(level) = self.levels.checked_ilog2() else { break };
            let first = self.ends[level as usize].first;
            self.take(packets, first);
            sent(first);
        }
    }

    fn push(&mut self, packets: &mut [Descriptor], at: u32, level: u8) {
        let ends = &mut self.ends[usize::from(level) % LEVELS];
        let before = std::mem::replace(&mut ends.last, at);
        packets[at as usize] = Descriptor { level, waits: true, next: NONE, before };
        match before {
            NONE => ends.first = at,
            before => packets[before as usize].next = at,
        }
        self.levels |= 1 << level;
        self.len += 1;
    }

    /// Takes the packet at one of the ends of its level out.
    fn take(&mut self, packets: &mut [Descriptor], at: u32) {
        let Descriptor { level, next, before, .. } = packets[at as usize];
        packets[at as usize].waits = false;
        let ends = &mut self.ends[usize::from(level) % LEVELS];
        match before {
            NONE => ends.first = next,
            before => packets[before as usize].next = next,
        }
        match next {
            NONE => ends.last = before,
            next => packets[next as usize].before = before,
        }
        if ends.first == NONE {
            self.levels &= !(1 << level);
        }
        self.len -= 1;
    }
}

/// Objects of the pool: of all that wait, and of those on their way.
const OBJECTS: u32 = 2 * CAPACITY as u32;

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rng;

    /// What the rows are compared by.
    #[test]
    fn both_ways_send_the_same() {
        let mut rng = Rng::new(1);
        let mut both = [Links::Pool, Links::Packet]
            .map(|links| (Solicitor::new(links), vec![Descriptor::NONE; 4096], Vec::new()));
        for round in 0..500 {
            let levels: Vec<u8> = (0..64).map(|_| 30 + rng.below(20) as u8).collect();
            let most = rng.below(30);
            for (solicitor, packets, sent) in &mut both {
                let free = (0..4096).filter(|&at| !packets[(at + round * 67) % 4096].waits());
                let free = free.map(|at| ((at + round * 67) % 4096) as u32).take(64);
                let burst: Vec<_> = free.zip(levels.iter().copied()).collect();
                solicitor.burst(packets, burst.into_iter(), most, |packet| sent.push(packet));
            }
        }
        let [(_, one, sent), (_, other, also)] = &both;
        assert!(sent.len() > 5000 && sent == also);
        let waiting = |packets: &[Descriptor]| packets.iter().filter(|it| it.waits).count();
        assert_eq!((waiting(one), waiting(other)), (waiting(one), waiting(one)));
    }
}
