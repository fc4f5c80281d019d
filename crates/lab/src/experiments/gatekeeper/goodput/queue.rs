//! The front port's receive queue: frames of clients and of a flood share its places in the
//! order in which they arrive.
//!
//! ```text
//!  clients' frames ─┐ by the time since the last look
//!  flood, by clock ─┴─► 1,024 places ─► worker        no place: lost, whoever it is
//! ```
//!
//! The flood's frames are made when the worker takes them: it pays for that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use graph::clock;
use io::{Burst, Owned, Port};

use super::super::generator::{Pattern, known};

/// Orders for the flood, and its counters.
#[derive(Default)]
pub(in super::super) struct Flood {
    /// Frames a second; [`FULL`]: the queue is never empty.
    pub per_s: AtomicU64,
    /// Of flows that are declined, else each of a new one.
    pub declined: AtomicBool,
    /// Frames that the worker took.
    pub given: AtomicU64,
    /// Frames that found no place.
    pub lost: AtomicU64,
    /// Frames of clients that found none, and that the worker took.
    pub lost_clients: AtomicU64,
    pub clients: AtomicU64,
    /// Ticks that it took to make them, and to put all into their order.
    pub making: AtomicU64,
}

/// As many frames as the worker takes.
pub(in super::super) const FULL: u64 = u64::MAX;
/// Flows of a declined flood.
pub(in super::super) const DECLINED: u32 = 1 << 16;

/// The port.
pub(super) struct Queue {
    port: Box<dyn Port>,
    inner: Option<Box<Burst>>,
    flood: Arc<Flood>,
    pattern: Pattern,
    next: u32,
    /// Frames of clients, each behind so many of the flood; and how many are behind the last.
    waiting: VecDeque<(u64, Owned)>,
    behind: u64,
    /// Places taken.
    len: u64,
    /// Up to when the flood has arrived.
    last: u64,
    /// Ticks times rate that are less than a frame.
    rest: u128,
}

impl Queue {
    /// In front of `port`, of this hardware address.
    pub fn new(port: Box<dyn Port>, mac: [u8; 6], flood: &Arc<Flood>) -> Queue {
        Queue {
            port,
            inner: None,
            flood: flood.clone(),
            pattern: Pattern::new(mac),
            next: 0,
            waiting: VecDeque::new(),
            behind: 0,
            len: 0,
            last: clock::now(),
            rest: 0,
        }
    }

    /// Frames of the flood that have arrived since the last look.
    fn arrivals(&mut self) -> u64 {
        let (now, per_s) = (clock::now(), self.flood.per_s.load(Relaxed));
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        if per_s == FULL {
            return PLACES.saturating_sub(self.len);
        }
        let all = u128::from(passed) * u128::from(per_s) + self.rest;
        let second = u128::from(clock::hz());
        self.rest = if per_s == 0 { 0 } else { all % second };
        (all / second) as u64
    }

    /// So many of the flood arrive.
    fn flood_arrives(&mut self, n: u64) {
        let stay = n.min(PLACES - self.len);
        (self.behind, self.len) = (self.behind + stay, self.len + stay);
        self.flood.lost.fetch_add(n - stay, Relaxed);
    }

    fn client_arrives(&mut self, packet: Owned) {
        if self.len == PLACES {
            self.flood.lost_clients.fetch_add(1, Relaxed);
            return self.port.free(&mut [Some(packet)]);
        }
        self.waiting.push_back((std::mem::take(&mut self.behind), packet));
        self.len += 1;
    }

    /// What has arrived since the last look takes its places.
    fn arrive(&mut self) {
        let mut inner = self.inner.take().unwrap_or_else(Burst::new);
        let clients = self.port.receive(&mut inner, io::BURST) as u64;
        let floods = self.arrivals();
        let mut came = 0;
        for client in 0..clients {
            // When between is not known: evenly.
            let until = floods * (client + 1) / (clients + 1);
            self.flood_arrives(until - came);
            came = until;
            if let Some(packet) = inner.take(client as usize) {
                self.client_arrives(packet);
            }
        }
        self.flood_arrives(floods - came);
        inner.clear();
        self.inner = Some(inner);
    }

    /// The next frame of the flood.
    fn make(&mut self) -> Option<Owned> {
        let mut packet = self.port.allocate()?;
        self.next = self.next.wrapping_add(1);
        let source = match self.flood.declined.load(Relaxed) {
            true => known(self.next % DECLINED),
            // Odd factors leave out no number, and repeat none: all of 2^32.
            false => self.next.wrapping_mul(0x9e37_79b1),
        };
        if packet.fill(self.pattern.of(source)) {
            return Some(packet);
        }
        self.port.free(&mut [Some(packet)]);
        None
    }

    /// The frame whose turn it is.
    fn next(&mut self) -> Option<Owned> {
        let of_flood = match self.waiting.front_mut() {
            Some((0, _)) => false,
            Some((floods, _)) => {
                *floods -= 1;
                true
            }
            None => {
                self.behind -= 1; // there is something
                true
            }
        };
        self.len -= 1;
        if of_flood {
            self.flood.given.fetch_add(1, Relaxed);
            return self.make();
        }
        self.flood.clients.fetch_add(1, Relaxed);
        self.waiting.pop_front().map(|(_, packet)| packet)
    }
}

impl Port for Queue {
    io::around_port!(self.port: rest, transmit);

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        self.arrive();
        let begun = clock::now();
        let mut n = 0;
        while n < most && self.len > 0 {
            if let Some(packet) = self.next() {
                burst.push(packet);
                n += 1;
            }
        }
        self.flood.making.fetch_add(clock::now().saturating_sub(begun), Relaxed);
        n
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let port = &mut self.port;
        self.waiting.drain(..).for_each(|(_, packet)| port.free(&mut [Some(packet)]));
    }
}

const PLACES: u64 = 1_024;

#[cfg(test)]
mod tests {
    use io::mem::connect;
    use io::{Device, Pool, PoolConfig};

    use super::*;

    #[test]
    fn clients_and_flood_share_the_places() {
        let pool = Pool::new(&PoolConfig { packets: 2_048, ..PoolConfig::default() }).unwrap();
        let (mut device, peer) = connect("front", [2; 6], &pool);
        let port = device.start(1).unwrap().remove(0);
        let flood = Arc::new(Flood::default());
        let mut queue = Queue::new(port, [2; 6], &flood);
        queue.attach(0);
        let mut burst = Burst::new();
        let mut take = |queue: &mut Queue| {
            let n = queue.receive(&mut burst, 64);
            let clients = (0..n).filter(|&i| burst.len(i) == 100).count();
            queue.free(burst.packets());
            burst.clear();
            (n, clients)
        };
        peer.push(&[1; 100]);
        assert_eq!(take(&mut queue), (1, 1), "without a flood clients have it alone");
        // A flood for which a moment is long: what comes late is lost.
        flood.per_s.store(1_000_000_000_000, Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(1));
        peer.push(&[1; 100]);
        assert_eq!(take(&mut queue), (64, 0), "the client came in the middle, to no place");
        assert_eq!(flood.lost_clients.load(Relaxed), 1);
        assert!(flood.lost.load(Relaxed) > 100_000);
        flood.per_s.store(0, Relaxed);
        let mut left = 0;
        while queue.len > 0 {
            left += take(&mut queue).0;
        }
        assert_eq!(left, PLACES as usize - 64);
        flood.per_s.store(FULL, Relaxed);
        peer.push(&[1; 100]);
        let clients: usize = (0..40).map(|_| take(&mut queue).1).sum();
        assert_eq!(clients, 1, "there is a place for it");
        drop(queue);
        assert_eq!(pool.available(), pool.size());
    }
}
