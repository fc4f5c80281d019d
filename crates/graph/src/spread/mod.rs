//! Spreading: the packets of one queue over several workers, by flow; or each to the
//! worker that owns it.
//!
//! ```text
//!  device ─► Holder ─┬─ its own flows ─► the holding worker's graph ─► transmit ─► device
//!                    └─ others' ─► ring ─► Borrower ─► another worker's graph
//!  device ◄─ Holder ◄───────────── ring ◄─ Borrower: transmit, free
//! ```
//!
//! One worker, the holder, polls a port with fewer queues than workers. Another worker sees
//! the port as one of its own: a [`Port`] that receives packets from the holder and gives
//! them back to the holder, which transmits and frees them. So no node knows of spreading, a
//! packet is freed where its queue is, and a flow, which always has the same worker, keeps
//! its order.
//!
//! | cost | the hash of the flow a packet; for another worker's two pushes and two pops beside |
//! |------|-------------------------------------------------------------------------------------|
//!
//! A packet that finds a ring full is dropped and counted ([`Lost`]), never kept.
//!
//! A port with a queue for each worker whose packets have owners is [`sort`]ed.

mod sort;

use std::sync::Arc;

use io::{Allocator, BURST, Burst, Owned, Port, VECTOR, World};

use crate::ring::spsc::{Consumer, Producer, ring};
use crate::stats::Counter;
pub use sort::sort;

/// The hash of a frame's flow, where its device computed none.
pub type FlowOf = Box<dyn FnMut(&[u8]) -> u32 + Send>;

/// The worker that a frame belongs to; `None` for any worker's.
pub type OwnerOf = Box<dyn FnMut(&[u8]) -> Option<usize> + Send>;

/// Packets that were dropped between workers.
#[derive(Debug, Default)]
pub struct Lost {
    /// Received, and the ring to their worker was full.
    pub received: Counter,
    /// Given back to be sent, and the device took no more.
    pub transmitted: Counter,
}

/// A port for each worker, in place of one.
pub struct Shares {
    /// For the worker that holds the queue.
    pub holder: Box<dyn Port>,
    /// For the others.
    pub borrowers: Vec<Box<dyn Port>>,
    /// What is dropped between them.
    pub lost: Arc<Lost>,
}

/// Spreads `port` by flow over the worker that holds it and `others` more. `buffers` is
/// the number of packets there are: no more can be in a borrower's hands.
pub fn spread(port: Box<dyn Port>, others: usize, buffers: usize, mut flow_of: FlowOf) -> Shares {
    let workers = others as u64 + 1;
    let lane = move |packet: &Owned| {
        let device = packet.packet().flow();
        let flow = device.unwrap_or_else(|| flow_of(packet.data()));
        // Multiply-shift: 0 is the holder, and what has no flow is 0.
        let worker = (u64::from(flow) * workers) >> 32;
        (worker as usize).checked_sub(1)
    };
    share(port, others, buffers, lane)
}

/// As [`spread`], over the worker that holds `port` and those of these numbers: each
/// packet goes to its owner. What nobody owns, or another worker than these, is the
/// holder's.
pub fn spread_to(
    port: Box<dyn Port>,
    others: &[usize],
    buffers: usize,
    mut owner_of: OwnerOf,
) -> Shares {
    let mut lanes = vec![None; others.iter().max().map_or(0, |most| most + 1)];
    others.iter().enumerate().for_each(|(lane, worker)| lanes[*worker] = Some(lane));
    let lane = move |packet: &Owned| *lanes.get(owner_of(packet.data())?)?;
    share(port, others.len(), buffers, lane)
}

/// `lane`: the place of a packet's worker among the others; `None` for the holder's own.
fn share<L>(port: Box<dyn Port>, others: usize, buffers: usize, lane: L) -> Shares
where
    L: FnMut(&Owned) -> Option<usize> + Send + 'static,
{
    let (world, lost) = (port.world(), Arc::new(Lost::default()));
    let (mut lanes, mut borrowers) = (Vec::new(), Vec::<Box<dyn Port>>::new());
    for _ in 0..others {
        let (to_worker, from_holder) = ring(FORTH);
        let (to_holder, from_worker) = ring(BACK);
        lanes.push(Lane { to_worker, from_worker });
        let held = Vec::with_capacity(buffers);
        let allocator = port.allocator();
        borrowers.push(Box::new(Borrower { from_holder, to_holder, held, allocator, world }));
    }
    let holder = Box::new(Holder { port, lane, lanes, lost: lost.clone() });
    Shares { holder, borrowers, lost }
}

/// A packet that comes back.
struct Back {
    packet: Owned,
    /// Transmit it; else it is only freed.
    send: bool,
}

/// The rings between the holder and one borrower.
struct Lane {
    to_worker: Producer<Owned>,
    from_worker: Consumer<Back>,
}

/// The port of the worker that has the queue.
struct Holder<L> {
    port: Box<dyn Port>,
    /// Which lane a packet takes; `None` for the holder's own.
    lane: L,
    lanes: Vec<Lane>,
    lost: Arc<Lost>,
}

impl<L: FnMut(&Owned) -> Option<usize>> Holder<L> {
    /// Hands the packets from `start` on to their workers; its own stay.
    fn deal(&mut self, burst: &mut Burst, start: usize) {
        burst.retain(start, |packet| {
            let Some(lane) = (self.lane)(&packet) else { return Some(packet) };
            if let Err(packet) = self.lanes[lane].to_worker.push(packet) {
                self.lost.received.add(1);
                self.port.free(&mut [Some(packet)]);
            }
            None
        });
    }

    /// Transmits and frees what comes back.
    fn serve(&mut self) {
        for lane in &mut self.lanes {
            let mut packets = [const { None }; BURST];
            let mut n = 0;
            while let Some(Back { packet, send }) = lane.from_worker.pop() {
                if !send {
                    self.port.free(&mut [Some(packet)]);
                    continue;
                }
                packets[n] = Some(packet);
                n += 1;
                if n == BURST {
                    send_all(&mut *self.port, &mut packets, &self.lost);
                    n = 0;
                }
            }
            if n > 0 {
                send_all(&mut *self.port, &mut packets[..n], &self.lost);
            }
        }
    }
}

fn send_all(port: &mut dyn Port, packets: &mut [Option<Owned>], lost: &Lost) {
    let sent = port.transmit(packets);
    if sent < packets.len() {
        lost.transmitted.add((packets.len() - sent) as u64);
        port.free(&mut packets[sent..]);
    }
}

impl<L: FnMut(&Owned) -> Option<usize> + Send> Port for Holder<L> {
    io::around_port!(self.port: rest, transmit, idle);

    /// Goes on while bursts are full and all of them others': the worker would
    /// take an answer of 0 for silence, and sleep.
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        self.serve();
        let start = burst.n();
        for _ in 0..MOST_BURSTS {
            let n = self.port.receive(burst, most);
            self.deal(burst, start);
            let kept = burst.n() - start;
            if n < most || kept > 0 {
                return kept;
            }
        }
        0
    }

    fn drain(&mut self, _: &mut Burst, _: usize) -> usize {
        self.serve();
        0
    }
}

/// The port as another worker sees it.
struct Borrower {
    from_holder: Consumer<Owned>,
    to_holder: Producer<Back>,
    /// To be freed by the holder, whose ring was full.
    held: Vec<Owned>,
    /// Of the holder's pool: for copies, and for what the kernel sends.
    allocator: Allocator,
    world: World,
}

impl Borrower {
    /// Has `packet` freed by the holder.
    fn give_back(&mut self, packet: Owned) {
        if let Err(back) = self.to_holder.push(Back { packet, send: false }) {
            self.held.push(back.packet); // has room for every packet there is
        }
    }
}

impl Port for Borrower {
    fn attach(&mut self, _: usize) {}

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        while !self.to_holder.is_full()
            && let Some(packet) = self.held.pop()
        {
            self.give_back(packet);
        }
        let start = burst.n();
        let most = most.min(VECTOR - start);
        for _ in 0..most {
            let Some(packet) = self.from_holder.pop() else { break };
            packet.prefetch();
            burst.push(packet);
        }
        burst.n() - start
    }

    fn drain(&mut self, burst: &mut Burst, most: usize) -> usize {
        self.receive(burst, most)
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        for (i, slot) in packets.iter_mut().enumerate() {
            // The last places are for packets to be freed.
            if !self.to_holder.has_room(1 + RESERVED) {
                return i;
            }
            let Some(packet) = slot.take() else { continue };
            if let Err(back) = self.to_holder.push(Back { packet, send: true }) {
                *slot = Some(back.packet);
                return i;
            }
        }
        packets.len()
    }

    fn free(&mut self, packets: &mut [Option<Owned>]) {
        packets.iter_mut().filter_map(Option::take).for_each(|packet| self.give_back(packet));
    }

    fn allocate(&mut self) -> Option<Owned> {
        (self.allocator)()
    }

    fn allocator(&self) -> Allocator {
        self.allocator.clone()
    }

    fn world(&self) -> World {
        self.world
    }
}

/// Packets of the ring to a borrower.
const FORTH: usize = if cfg!(miri) { 256 } else { 2048 };
/// Packets of the ring back: those of the other ring, and what the borrower got
/// from other ports.
const BACK: usize = 4 * FORTH;
/// Places of the ring back that packets to be sent leave free.
const RESERVED: usize = FORTH;
/// Bursts that the holder hands on at most before other ports have their turn.
const MOST_BURSTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use io::mem::{Peer, connect};
    use io::{Device, Pool, PoolConfig};

    fn lent() -> (Shares, Peer, Pool) {
        let packets = if cfg!(miri) { 500 } else { 8192 };
        let pool = Pool::new(&PoolConfig { packets, ..PoolConfig::default() }).unwrap();
        let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, 1], &pool);
        let port = device.start(1).unwrap().remove(0);
        // The frame's first byte says whose it is: 0, 1 or 2.
        let flow_of = |frame: &[u8]| u32::from(frame[0]) * 0x6000_0000;
        (spread(port, 2, packets, Box::new(flow_of)), peer, pool)
    }

    fn push(peer: &Peer, workers: &[u8]) {
        for (i, worker) in workers.iter().enumerate() {
            let mut frame = [0; 60];
            (frame[0], frame[1]) = (*worker, i as u8);
            peer.push(&frame);
        }
    }

    fn take(port: &mut dyn Port) -> (Box<Burst>, Vec<u8>) {
        let mut burst = Burst::new();
        let n = port.receive(&mut burst, BURST);
        let numbers = (0..n).filter_map(|i| burst.packet(i)).map(|p| p.data()[1]).collect();
        (burst, numbers)
    }

    #[test]
    fn flows_go_to_their_workers_and_come_back_in_order() {
        let (Shares { mut holder, mut borrowers, lost }, peer, pool) = lent();
        push(&peer, &[0, 1, 2, 1, 0, 2, 1, 1]);
        let (mut own, numbers) = take(&mut *holder);
        assert_eq!(numbers, [0, 4]);
        let (mut first, numbers) = take(&mut *borrowers[0]);
        assert_eq!(numbers, [1, 3, 6, 7]);
        let (mut second, numbers) = take(&mut *borrowers[1]);
        assert_eq!(numbers, [2, 5]);
        assert_eq!(holder.transmit(own.packets()), 2);
        assert_eq!(borrowers[0].transmit(&mut first.packets()[..3]), 3);
        borrowers[0].free(&mut first.packets()[3..4]);
        borrowers[1].free(second.packets());
        assert_eq!(take(&mut *holder).1, []);
        let sent: Vec<u8> = peer.take().iter().map(|frame| frame[1]).collect();
        assert_eq!(sent, [0, 4, 1, 3, 6]);
        assert_eq!((lost.received.get(), lost.transmitted.get()), (0, 0));
        drop((holder, borrowers));
        assert_eq!(pool.available(), pool.size());
    }

    /// Whichever worker holds the queue, and what nobody owns is its.
    #[test]
    fn owners_get_what_is_theirs() {
        let packets = 500;
        let pool = Pool::new(&PoolConfig { packets, ..PoolConfig::default() }).unwrap();
        let (mut device, peer) = connect("p", [2, 0, 0, 0, 0, 1], &pool);
        let port = device.start(1).unwrap().remove(0);
        // Worker 1 holds the queue of 0, 1 and 3; 9 is nobody's, and 2 has no share.
        let owner_of = |frame: &[u8]| Some(usize::from(frame[0])).filter(|owner| *owner < 9);
        let Shares { mut holder, mut borrowers, lost } =
            spread_to(port, &[0, 3], packets, Box::new(owner_of));
        push(&peer, &[0, 1, 2, 3, 9, 0, 3, 1]);
        let mut all = vec![take(&mut *holder)];
        all.extend(borrowers.iter_mut().map(|port| take(&mut **port)));
        let numbers: Vec<_> = all.iter().map(|(_, numbers)| &numbers[..]).collect();
        assert_eq!(numbers, [&[1, 2, 4, 7][..], &[0, 5], &[3, 6]]);
        holder.free(all[0].0.packets());
        for (port, (burst, _)) in borrowers.iter_mut().zip(&mut all[1..]) {
            port.free(burst.packets());
        }
        holder.drain(&mut Burst::new(), BURST);
        assert_eq!(lost.received.get(), 0);
        drop((holder, borrowers));
        assert_eq!(pool.available(), pool.size());
    }

    #[test]
    fn a_worker_that_sleeps_costs_its_own_packets_only() {
        let (Shares { mut holder, mut borrowers, lost }, peer, pool) = lent();
        let (mut own, rounds) = (0, if cfg!(miri) { 8 } else { 40 });
        for _ in 0..rounds {
            push(&peer, &[1; 60]);
            push(&peer, &[0; 4]);
            let (mut burst, numbers) = take(&mut *holder);
            own += numbers.len();
            holder.free(burst.packets());
        }
        assert_eq!(own, rounds * 4);
        assert_eq!(lost.received.get(), (rounds * 60 - FORTH) as u64);
        loop {
            let (mut burst, numbers) = take(&mut *borrowers[0]);
            if numbers.is_empty() {
                break;
            }
            borrowers[0].free(burst.packets());
        }
        holder.drain(&mut Burst::new(), BURST);
        drop((holder, borrowers));
        assert_eq!(pool.available(), pool.size());
    }

    #[test]
    fn a_borrower_fills_a_burst_no_further_than_it_has_room() {
        let (Shares { mut holder, mut borrowers, .. }, peer, _pool) = lent();
        let mut burst = Burst::new();
        for _ in 0..VECTOR.div_ceil(BURST) + 1 {
            push(&peer, &[1; BURST]);
            assert_eq!(take(&mut *holder).1, []);
        }
        while burst.n() + 3 < VECTOR {
            borrowers[0].receive(&mut burst, 1);
        }
        let before = burst.n();
        assert_eq!(borrowers[0].receive(&mut burst, BURST), VECTOR - before);
        borrowers[0].free(burst.packets());
        loop {
            let (mut burst, numbers) = take(&mut *borrowers[0]);
            if numbers.is_empty() {
                break;
            }
            borrowers[0].free(burst.packets());
        }
        holder.drain(&mut Burst::new(), BURST);
    }

    #[test]
    fn copies_of_a_borrower_leave_by_the_holder() {
        let (Shares { mut holder, mut borrowers, .. }, peer, pool) = lent();
        let mut copies = [borrowers[0].allocate(), borrowers[0].allocate()];
        copies.iter_mut().flatten().for_each(|copy| assert!(copy.fill(&[7; 60])));
        assert_eq!(borrowers[0].transmit(&mut copies[..1]), 1);
        borrowers[0].free(&mut copies[1..]);
        holder.drain(&mut Burst::new(), BURST);
        assert_eq!(peer.take(), [[7; 60]]);
        drop((holder, borrowers));
        assert_eq!(pool.available(), pool.size());
    }

    #[test]
    fn bursts_of_others_are_no_silence() {
        let (Shares { mut holder, mut borrowers, .. }, peer, _pool) = lent();
        push(&peer, &[1; 200]);
        push(&peer, &[0]);
        let (mut burst, numbers) = take(&mut *holder);
        assert_eq!(numbers, [0]);
        holder.free(burst.packets());
        let mut given = 0;
        loop {
            let (mut burst, numbers) = take(&mut *borrowers[0]);
            given += numbers.len();
            if numbers.is_empty() {
                break;
            }
            borrowers[0].free(burst.packets());
        }
        assert_eq!(given, 200);
        holder.drain(&mut Burst::new(), BURST);
    }
}
