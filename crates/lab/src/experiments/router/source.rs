//! Where the packets of a bench come from and go back to: two ports.
//!
//! ```text
//!  mem    N packets in a ring, each received once a lap: hot or cold by N
//!  null   DPDK's net_null: whatever its pool gives, which is what was freed last:
//!         two bursts of packets go round, always hot
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use io::mem::{Ring, RingDevice, Stamp};
use io::{Burst, Device, Owned, Pool, PoolConfig, Port};

use super::frames::{Frames, LEN, MOST_LAPS, ROUTER};

/// Two ports and the packets that go round in them.
pub(in crate::experiments) struct Source {
    /// The ports, until a graph takes them.
    pub ports: Vec<Box<dyn Port>>,
    kind: Kind,
    /// Dropped after the ports.
    _devices: Vec<Box<dyn Device>>,
}

enum Kind {
    Mem { ring: Ring, packets: usize },
    Null,
}

impl Source {
    /// `packets` packets to `dsts` in a ring.
    pub fn mem<A: Frames>(packets: usize, dsts: &[A]) -> Result<Source, String> {
        Source::ring(packets, |number, frame| A::write(dsts[number % dsts.len()], frame))
    }

    /// `packets` packets in a ring, each as `fill` writes it: it gets the packet's
    /// number and room, and returns the length.
    pub fn ring(
        packets: usize,
        fill: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<Source, String> {
        let said = |error: io::Error| error.to_string();
        let config = PoolConfig { packets, ..PoolConfig::default() };
        let ring = Ring::new(&config, 1, fill).map_err(said)?;
        let spare = PoolConfig { packets: 64, ..PoolConfig::default() };
        let pool = Pool::new(&spare).map_err(said)?;
        let (mut ports, mut devices) = (Vec::new(), Vec::<Box<dyn Device>>::new());
        for number in 0..2 {
            let rings = std::slice::from_ref(&ring);
            let mut device = RingDevice::new(&format!("m{number}"), ROUTER, number, rings, &pool);
            ports.extend(device.start(1).map_err(said)?);
            devices.push(Box::new(device));
        }
        ports.iter_mut().for_each(|port| port.attach(0));
        Ok(Source { ports, kind: Kind::Mem { ring, packets }, _devices: devices })
    }

    /// DPDK's `net_null`, all packets of its pool written beforehand.
    pub fn null<A: Frames>(dsts: &[A]) -> Result<Source, String> {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let said = |error: io::Error| error.to_string();
        let (mut ports, mut devices) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let number = OPENED.fetch_add(1, Ordering::Relaxed);
            let mut device =
                io_dpdk::open(&format!("net_null{number},size={LEN}")).map_err(said)?;
            ports.extend(device.start(1).map_err(said)?);
            devices.push(device);
        }
        ports.iter_mut().for_each(|port| port.attach(0));
        let mut next = dsts.iter().cycle();
        hold(&mut *ports[0], usize::MAX, |frame| {
            A::write(*next.next().expect("a cycle has no end"), frame);
        });
        Ok(Source { ports, kind: Kind::Null, _devices: devices })
    }

    /// From now on every packet gets the next of these destinations as it comes in.
    pub fn stamp<A: Frames>(self, dsts: &[A]) -> Self {
        let part = dsts.len() / 2;
        self.stamped(|i| A::stamp(&dsts[i * part..(i + 1) * part]))
    }

    /// From now on what `make` returns for a port is called with its packets as
    /// they come in.
    pub fn stamped(mut self, mut make: impl FnMut(usize) -> Stamp) -> Self {
        let ports = std::mem::take(&mut self.ports).into_iter();
        let stamped = ports.enumerate().map(|(i, port)| {
            let stamp = make(i);
            Box::new(Stamped { port, stamp }) as Box<dyn Port>
        });
        self.ports = stamped.collect();
        self
    }

    /// From now on packets that leave come in again with `len` bytes.
    pub fn lengthened(mut self, len: usize) -> Self {
        let ports = std::mem::take(&mut self.ports).into_iter();
        let lengthened = ports.map(|port| Box::new(Lengthened { port, len }) as Box<dyn Port>);
        self.ports = lengthened.collect();
        self
    }

    /// Calls `act` with every packet that goes round, by `port`, one of its ports;
    /// how many there were, and how many there should have been.
    pub fn each(
        &self,
        port: &mut dyn Port,
        mut act: impl FnMut(&mut [u8]),
    ) -> Result<(usize, usize), String> {
        match &self.kind {
            Kind::Mem { ring, packets } => {
                let mut seen = 0;
                let each = ring.each(|_, frame| {
                    seen += 1;
                    act(frame);
                });
                each.map(|()| (seen, *packets)).map_err(|error| error.to_string())
            }
            Kind::Null => {
                let seen = hold(port, HELD, act);
                Ok((seen, HELD))
            }
        }
    }

    /// How many packets may be forwarded before hop limits run out.
    pub fn patience(&self) -> u64 {
        let lap = match self.kind {
            // A packet that always leaves first overtakes those that leave with it: it comes again
            // after the others. Yet a poll receives it once.
            Kind::Mem { packets, .. } => packets.saturating_sub(AWAY).max(packets.min(AWAY)),
            // Each burst gets the packets that the one before freed.
            Kind::Null => io::VECTOR,
        };
        MOST_LAPS * lap as u64
    }
}

/// Takes up to `most` packets out of the port's pool, calls `act` with each as a
/// frame of [`LEN`] bytes, and puts them back; how many there were.
fn hold(port: &mut dyn Port, most: usize, mut act: impl FnMut(&mut [u8])) -> usize {
    let mut held: Vec<Option<Owned>> = Vec::new();
    while held.len() < most
        && let Some(mut packet) = port.allocate()
    {
        assert!(packet.resize(LEN), "a pool's packets have room for the smallest frame");
        act(packet.data_mut());
        held.push(Some(packet));
    }
    // Last out, first back: the next ones out are those that were used last.
    held.reverse();
    held.chunks_mut(io::BURST).for_each(|packets| port.free(packets));
    held.len()
}

/// A port whose packets get something written into them as they come in.
struct Stamped {
    port: Box<dyn Port>,
    stamp: Stamp,
}

impl Port for Stamped {
    io::around_port!(self.port: rest, transmit);

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let before = burst.n();
        let n = self.port.receive(burst, most);
        (self.stamp)(burst.frames(before));
        n
    }
}

/// A port whose packets leave with a length of their own.
struct Lengthened {
    port: Box<dyn Port>,
    len: usize,
}

impl Port for Lengthened {
    io::around_port!(self.port: rest, receive);

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        for packet in packets.iter_mut().flatten() {
            packet.resize(self.len);
        }
        self.port.transmit(packets)
    }
}

/// Packets that a poll receives from both ports at most.
const AWAY: usize = 2 * io::VECTOR;
/// Packets of a null port that are looked at and refreshed: more than go round.
const HELD: usize = 1024;
