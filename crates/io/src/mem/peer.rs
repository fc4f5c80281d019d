//! A device whose cable ends in the test: [`Peer::push`] puts frames in, [`Peer::take`]
//! takes transmitted frames out. Made for clarity, not for speed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::tally::Tally;
use crate::{Burst, Counters, Device, Error, Link, Owned, Pool, Port, VECTOR};

/// A device and the other end of its cable.
pub fn connect(name: &str, mac: [u8; 6], pool: &Pool) -> (Mem, Peer) {
    let device = device(name, mac, pool, true);
    let peer = Peer(device.cable.clone());
    (device, peer)
}

/// A device without a cable: it receives nothing and counts what it is given.
pub fn sink(name: &str, mac: [u8; 6], pool: &Pool) -> Mem {
    device(name, mac, pool, false)
}

fn device(name: &str, mac: [u8; 6], pool: &Pool, keeps: bool) -> Mem {
    let cable = Cable {
        inboxes: (0..MAX_QUEUES).map(|_| Mutex::default()).collect(),
        sent: Mutex::default(),
        keeps,
        up: AtomicBool::new(true),
        accepts: AtomicUsize::new(usize::MAX),
        tallies: (0..MAX_QUEUES).map(|_| Tally::default()).collect(),
    };
    Mem { name: name.to_owned(), mac, pool: pool.clone(), cable: Arc::new(cable) }
}

/// The device's end. Ports hold the pool that packets come from.
pub struct Mem {
    name: String,
    mac: [u8; 6],
    pool: Pool,
    cable: Arc<Cable>,
}

/// The test's end.
#[derive(Clone)]
pub struct Peer(Arc<Cable>);

struct Cable {
    inboxes: Box<[Mutex<VecDeque<Vec<u8>>>]>,
    sent: Mutex<Vec<Vec<u8>>>,
    /// Whether `sent` is kept for a peer.
    keeps: bool,
    up: AtomicBool,
    accepts: AtomicUsize,
    tallies: Box<[Tally]>,
}

impl Peer {
    /// Gives the device's first queue a frame to receive.
    pub fn push(&self, frame: &[u8]) {
        self.push_to(0, frame);
    }

    /// Gives one of its queues a frame to receive.
    ///
    /// # Panics
    /// When the device never has such a queue.
    pub fn push_to(&self, queue: usize, frame: &[u8]) {
        lock(&self.0.inboxes[queue]).push_back(frame.to_vec());
    }

    /// Frames that wait to be received.
    pub fn waiting(&self) -> usize {
        self.0.inboxes.iter().map(|inbox| lock(inbox).len()).sum()
    }

    /// What was transmitted since the last call, in order.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut lock(&self.0.sent))
    }

    /// Plugs the cable in or pulls it out.
    pub fn set_link(&self, up: bool) {
        self.0.up.store(up, Ordering::Relaxed);
    }

    /// How many more packets the device takes before it is full; no limit at first.
    pub fn accept(&self, packets: usize) {
        self.0.accepts.store(packets, Ordering::Relaxed);
    }
}

impl Device for Mem {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn max_queues(&self) -> u16 {
        MAX_QUEUES as u16
    }

    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error> {
        if queues == 0 || queues > self.max_queues() {
            return Err(Error::queues(&self.name, queues, self.max_queues()));
        }
        let port = |queue| {
            let (pool, cable) = (self.pool.clone(), self.cable.clone());
            Box::new(MemPort { queue: usize::from(queue), pool, cable }) as Box<dyn Port>
        };
        Ok((0..queues).map(port).collect())
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        Error::check_mtu(&self.name, mtu, self.pool.room())
    }

    fn link(&self) -> Link {
        Link { up: self.cable.up.load(Ordering::Relaxed), speed_mbps: 0 }
    }

    fn counters(&self) -> Counters {
        Tally::sum(&self.cable.tallies)
    }

    fn stop(&mut self) {}
}

struct MemPort {
    queue: usize,
    pool: Pool,
    cable: Arc<Cable>,
}

impl Port for MemPort {
    fn attach(&mut self, worker: usize) {
        self.pool.attach(worker);
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let tally = &self.cable.tallies[self.queue];
        let mut inbox = lock(&self.cable.inboxes[self.queue]);
        let (before, mut bytes) = (burst.n(), 0);
        let room = most.min(VECTOR - before);
        let ready = room.min(inbox.len());
        for frame in inbox.drain(..ready) {
            let Some(mut packet) = self.pool.allocate() else {
                tally.rx_no_buffer();
                continue;
            };
            if !packet.fill(&frame) {
                tally.rx_error();
                self.pool.put(&mut [Some(packet)]);
                continue;
            }
            bytes += frame.len() as u64;
            packet.prefetch();
            burst.push(packet);
        }
        let received = burst.n() - before;
        tally.received(received, bytes);
        received
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        let accepts = self.cable.accepts.load(Ordering::Relaxed);
        let n = packets.len().min(accepts);
        if accepts != usize::MAX {
            self.cable.accepts.store(accepts - n, Ordering::Relaxed);
        }
        let frames = || packets[..n].iter().flatten().map(Owned::data);
        let bytes = frames().map(|frame| frame.len() as u64).sum();
        if self.cable.keeps {
            lock(&self.cable.sent).extend(frames().map(<[u8]>::to_vec));
        }
        self.cable.tallies[self.queue].sent(n, bytes);
        self.pool.put(&mut packets[..n]);
        n
    }

    crate::port::packets_of_own_pool!();
}

/// A test that panicked while it held the lock has failed already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const MAX_QUEUES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolConfig;

    fn device() -> (Pool, Vec<Box<dyn Port>>, Mem, Peer) {
        let pool = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).unwrap();
        let (mut device, peer) = connect("p0", [2, 0, 0, 0, 0, 1], &pool);
        let mut ports = device.start(2).unwrap();
        ports.iter_mut().for_each(|port| port.attach(0));
        (pool, ports, device, peer)
    }

    #[test]
    fn frames_go_in_and_out() {
        let (pool, mut ports, device, peer) = device();
        peer.push(b"first");
        peer.push(b"second");
        peer.push_to(1, b"other queue");
        let mut burst = Burst::new();
        assert_eq!(ports[0].receive(&mut burst, 64), 2);
        assert_eq!(ports[1].receive(&mut burst, 64), 1);
        assert_eq!((burst.n(), burst.len(1)), (3, 6));
        assert_eq!(ports[0].transmit(burst.packets()), 3);
        assert_eq!(peer.take(), [&b"first"[..], b"second", b"other queue"]);
        assert!(peer.take().is_empty() && peer.waiting() == 0);
        let counters = device.counters();
        assert_eq!((counters.rx_packets, counters.rx_bytes), (3, 22));
        assert_eq!((counters.tx_packets, counters.tx_bytes), (3, 22));
        drop(ports);
        assert_eq!(pool.available(), 64);
    }

    #[test]
    fn a_full_device_takes_from_the_front() {
        let (pool, mut ports, _, peer) = device();
        (0..5).for_each(|i| peer.push(&[i; 60]));
        let mut burst = Burst::new();
        ports[0].receive(&mut burst, 64);
        peer.accept(2);
        assert_eq!(ports[0].transmit(burst.packets()), 2);
        assert!(burst.packet(1).is_none() && burst.packet(2).is_some());
        assert_eq!(ports[0].transmit(&mut burst.packets()[2..5]), 0);
        ports[0].free(&mut burst.packets()[2..5]);
        assert_eq!(peer.take().len(), 2);
        drop(ports);
        assert_eq!(pool.available(), 64);
    }

    #[test]
    fn too_long_frames_and_an_empty_pool_are_counted() {
        let (pool, mut ports, device, peer) = device();
        peer.push(&vec![0; pool.room() + 1]);
        (0..70).for_each(|_| peer.push(b"x"));
        let mut burst = Burst::new();
        assert_eq!(ports[0].receive(&mut burst, 256), 64);
        assert_eq!((device.counters().rx_errors, device.counters().rx_no_buffer), (1, 6));
        ports[0].free(burst.packets());
    }

    #[test]
    fn what_a_device_cannot_be_is_refused() {
        let (_, _, mut device, peer) = device();
        assert!(device.start(0).is_err() && device.start(17).is_err());
        assert_eq!(device.start(device.max_queues()).unwrap().len(), 16);
        assert!(device.set_mtu(1500).is_ok() && device.set_mtu(9000).is_err());
        peer.set_link(false);
        assert!(!device.link().up);
    }
}
