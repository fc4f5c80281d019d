//! Sorting: each packet of one port, with a queue a worker, reaches its owner, whichever
//! queue the device chose.
//!
//! ```text
//!  queue 0 ─► Sorted ─┬─ worker 0's ─► its graph ─► transmit ─► queue 0
//!                     └─ worker 1's ─► ring ─┐
//!  queue 1 ─► Sorted ─┬─ worker 0's ─► ring ─┼► (to worker 0)
//!                     └─ worker 1's ─► ◄─────┘ its graph ─► transmit ─► queue 1
//! ```
//!
//! With a device that deals by owner, a worker only checks the owner: cards understand few
//! kinds of tags and tunnels, and put all other packets into one queue. With any other
//! device all packets reach their owners over the rings. A worker sends and frees a packet
//! by its own queue, as it does with those of other ports.
//!
//! | cost | the owner of a packet; for another worker's a push and a pop beside |
//! |------|----------------------------------------------------------------------|
//!
//! A packet that finds a ring full is dropped and counted ([`Lost`]), never kept.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use io::{Burst, Owned, Port, VECTOR};

use super::{FORTH, Lost, MOST_BURSTS, OwnerOf};
use crate::Bell;
use crate::ring::spsc::{Consumer, Producer, ring};

/// A port for each worker in place of its queue: `queues[i]` is worker `i`'s, and so is
/// `bells[i]`. `foreign_hash`: that of the device is not a flow's, which nodes would take
/// it for. With each port goes what it drops.
pub fn sort(
    queues: Vec<Box<dyn Port>>,
    bells: &[Bell],
    foreign_hash: bool,
    owner_of: impl Fn() -> OwnerOf,
) -> Vec<(Box<dyn Port>, Arc<Lost>)> {
    let workers = queues.len();
    let mut from: Vec<_> = (0..workers).map(|_| Vec::with_capacity(workers)).collect();
    let mut sorted = Vec::with_capacity(workers);
    for (worker, port) in queues.into_iter().enumerate() {
        let way = |(to, from): (usize, &mut Vec<Consumer<Owned>>)| {
            (to != worker).then(|| {
                let (ring, theirs) = ring(FORTH);
                from.push(theirs);
                Way { ring, bell: bells.get(to).cloned(), given: false }
            })
        };
        let to = from.iter_mut().enumerate().map(way).collect();
        let (owner_of, lost) = (owner_of(), Arc::default());
        let (from, first) = (Vec::new(), 0);
        sorted.push(Sorted { port, owner_of, to, from, first, foreign_hash, lost });
    }
    let with_rings = |(mut sorted, from): (Sorted, _)| {
        sorted.from = from;
        let lost = sorted.lost.clone();
        (Box::new(sorted) as Box<dyn Port>, lost)
    };
    sorted.into_iter().zip(from).map(with_rings).collect()
}

/// To another worker.
struct Way {
    ring: Producer<Owned>,
    /// `None`: it does not sleep.
    bell: Option<Bell>,
    /// Something was put in that the bell was not rung for.
    given: bool,
}

/// One worker's port.
struct Sorted {
    port: Box<dyn Port>,
    owner_of: OwnerOf,
    /// By worker; `None` to itself.
    to: Vec<Option<Way>>,
    /// Of the others.
    from: Vec<Consumer<Owned>>,
    /// Which of them is first to be emptied: one that is always full takes no other's turn.
    first: usize,
    foreign_hash: bool,
    lost: Arc<Lost>,
}

impl Sorted {
    /// Takes up to `most` packets of other queues.
    fn take(&mut self, burst: &mut Burst, most: usize) {
        let end = VECTOR.min(burst.n() + most);
        let (before, after) = self.from.split_at_mut(self.first);
        for ring in after.iter_mut().chain(before) {
            while burst.n() < end
                && let Some(packet) = ring.pop()
            {
                packet.prefetch();
                burst.push(packet);
            }
        }
        self.first = (self.first + 1).checked_rem(self.from.len()).unwrap_or(0);
    }

    /// Hands the packets from `start` on to their owners; its own stay.
    fn deal(&mut self, burst: &mut Burst, start: usize) {
        burst.retain(start, |mut packet| {
            if self.foreign_hash {
                packet.forget_flow();
            }
            let owner = (self.owner_of)(packet.data());
            let Some(way) = owner.and_then(|owner| self.to.get_mut(owner)?.as_mut()) else {
                return Some(packet);
            };
            match way.ring.push(packet) {
                Ok(()) => way.given = true,
                Err(packet) => {
                    self.lost.received.add(1);
                    self.port.free(&mut [Some(packet)]);
                }
            }
            None
        });
        for way in self.to.iter_mut().flatten() {
            if std::mem::take(&mut way.given) {
                way.bell.iter().for_each(Bell::ring);
            }
        }
    }
}

impl Port for Sorted {
    io::around_port!(self.port: rest, transmit, idle);

    /// Half of what there is room for is the device's, whatever the others give. Goes on
    /// while bursts are full and all of them others': the worker would take an answer of 0
    /// for silence, and sleep.
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let start = burst.n();
        self.take(burst, most / 2);
        for _ in 0..MOST_BURSTS {
            let dealt = burst.n();
            let most = most - (dealt - start);
            let n = self.port.receive(burst, most);
            self.deal(burst, dealt);
            if n < most || burst.n() > start {
                break;
            }
        }
        burst.n() - start
    }

    fn drain(&mut self, burst: &mut Burst, most: usize) -> usize {
        let start = burst.n();
        self.take(burst, most);
        burst.n() - start
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.port.wakes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::mem::{Peer, connect};
    use io::{BURST, Device, Pool, PoolConfig};

    const PACKETS: usize = if cfg!(miri) { 600 } else { 8192 };

    type Ports = Vec<(Box<dyn Port>, Arc<Lost>)>;

    /// Three queues; a frame's first byte is its owner.
    fn sorted() -> (Ports, Vec<Bell>, Peer, Pool) {
        let pool = Pool::new(&PoolConfig { packets: PACKETS, ..PoolConfig::default() }).unwrap();
        let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, 1], &pool);
        let bells: Vec<_> = (0..3).map(|_| Bell::new().unwrap()).collect();
        let owner_of = || -> OwnerOf {
            Box::new(|frame| Some(usize::from(frame[0])).filter(|owner| *owner < 9))
        };
        (sort(device.start(3).unwrap(), &bells, true, owner_of), bells, peer, pool)
    }

    fn push(peer: &Peer, queue: usize, owners: &[u8]) {
        for (i, owner) in owners.iter().enumerate() {
            let mut frame = [0; 60];
            (frame[0], frame[1]) = (*owner, 100 * queue as u8 + i as u8);
            peer.push_to(queue, &frame);
        }
    }

    /// The numbers of what a worker receives, which is freed.
    fn receive(port: &mut dyn Port, most: usize) -> Vec<u8> {
        let mut burst = Burst::new();
        let n = port.receive(&mut burst, most);
        assert!(n <= most);
        let numbers = (0..n).filter_map(|i| burst.packet(i)).map(|p| p.data()[1]).collect();
        port.free(burst.packets());
        numbers
    }

    #[test]
    fn each_packet_meets_its_owner_in_order() {
        let (mut ports, bells, peer, pool) = sorted();
        push(&peer, 0, &[0, 1, 1, 2, 9, 7, 0]);
        push(&peer, 1, &[1, 0, 2, 2]);
        push(&peer, 2, &[0, 0]);
        bells.iter().for_each(Bell::lie_down);
        let mut got = vec![Vec::new(); 3];
        for _ in 0..2 {
            for (got, (port, _)) in got.iter_mut().zip(&mut ports) {
                got.extend(receive(&mut **port, BURST));
            }
        }
        assert_eq!(got[0], [0, 4, 5, 6, 200, 201, 101], "also what is nobody's");
        assert_eq!(got[1], [1, 2, 100]);
        assert_eq!(got[2], [3, 102, 103]);
        assert!(bells.iter().all(|bell| !bell.is_asleep()), "who was given something wakes");
        bells.iter().for_each(Bell::lie_down);
        push(&peer, 0, &[0, 1]);
        assert_eq!(receive(&mut *ports[0].0, BURST), [0]);
        assert_eq!([0, 1, 2].map(|i| bells[i].is_asleep()), [true, false, true]);
        assert_eq!(receive(&mut *ports[1].0, BURST), [1]);
        bells.iter().for_each(Bell::get_up);
        drop(ports);
        assert_eq!(pool.available(), pool.size());
    }

    #[test]
    fn who_sleeps_loses_its_own_packets_only() {
        let (mut ports, _, peer, pool) = sorted();
        let (mut own, rounds) = (0, if cfg!(miri) { 8 } else { 60 });
        for _ in 0..rounds {
            push(&peer, 0, &[1; 60]);
            push(&peer, 0, &[0; 4]);
            own += receive(&mut *ports[0].0, BURST).len();
        }
        assert_eq!(own, rounds * 4);
        assert_eq!(ports[0].1.received.get(), (rounds * 60 - FORTH) as u64);
        // A worker that stops works off what it was given, not what comes.
        push(&peer, 1, &[1; 3]);
        let (mut drained, mut burst) = (0, Burst::new());
        loop {
            let n = ports[1].0.drain(&mut burst, BURST);
            ports[1].0.free(burst.packets());
            burst.clear();
            drained += n;
            if n == 0 {
                break;
            }
        }
        assert_eq!((drained, peer.waiting()), (FORTH, 3));
        drop(ports);
        assert_eq!(pool.available(), pool.size());
    }

    #[test]
    fn draining_says_how_many_it_adds() {
        let (mut ports, _, peer, pool) = sorted();
        push(&peer, 0, &[1; 5]);
        assert_eq!(receive(&mut *ports[0].0, BURST), []);
        let mut burst = Burst::new();
        assert_eq!([2, BURST].map(|most| ports[1].0.drain(&mut burst, most)), [2, 3]);
        ports[1].0.free(burst.packets());
        drop(ports);
        assert_eq!(pool.available(), pool.size());
    }

    #[test]
    fn others_packets_are_no_silence_and_take_no_queues_turn() {
        let (mut ports, _, peer, _pool) = sorted();
        push(&peer, 0, &[1; 100]);
        push(&peer, 0, &[0]);
        assert_eq!(receive(&mut *ports[0].0, BURST), [0]);
        push(&peer, 2, &[1; 50]);
        push(&peer, 1, &[1; 40]);
        assert!(receive(&mut *ports[2].0, BURST).is_empty());
        let got = receive(&mut *ports[1].0, BURST);
        assert_eq!(got.len(), BURST);
        let of = |queue: u8| got.iter().filter(|number| **number / 100 == queue).count();
        assert_eq!(of(1), BURST / 2);
        while !receive(&mut *ports[1].0, BURST).is_empty() {}
    }
}
