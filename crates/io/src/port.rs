//! What a device is to the control plane, and what one queue of it is to a worker.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{Burst, Error, Owned, World};

/// One queue pair of a device, owned by one worker's thread.
pub trait Port: Send {
    /// Called once on the worker's thread before the first burst (DPDK must
    /// know the thread: without, a third slower).
    fn attach(&mut self, worker: usize);

    /// Appends up to `most` packets to `burst` (never beyond its room) and
    /// prefetches their heads; returns how many.
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize;

    /// As [`Port::receive`], but only what other threads have put into its hands:
    /// a stopping worker works that off. Nothing for the queue of a device.
    fn drain(&mut self, _burst: &mut Burst, _most: usize) -> usize {
        0
    }

    /// Sends `packets` in order, each `Some`; takes every one it accepts (they
    /// become `None`) and returns how many it took, always from the front. The
    /// caller frees the rest with [`Port::free`] and counts them.
    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize;

    /// Takes packets of this port's world back into their pool.
    fn free(&mut self, packets: &mut [Option<Owned>]);

    /// An empty packet of this port's world with room for the port's MTU and
    /// link headers; `None` when the pool is exhausted.
    fn allocate(&mut self) -> Option<Owned>;

    /// [`Port::allocate`] for any other thread; slower there.
    fn allocator(&self) -> Allocator;

    /// Whose packets it takes.
    fn world(&self) -> World;

    /// Called on the worker's thread while it has nothing to do.
    fn idle(&mut self) {}

    /// What becomes readable when there is something to receive, and stays so until it is
    /// received: a worker may sleep on it. `None`: only polling finds packets.
    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The rest of a [`Port`] whose packets come from its field `pool`, one of Rutter's own;
/// `but free`: where they go back another way.
macro_rules! packets_of_own_pool {
    () => {
        fn free(&mut self, packets: &mut [Option<$crate::Owned>]) {
            self.pool.put(packets);
        }

        $crate::port::packets_of_own_pool!(but free);
    };
    (but free) => {
        fn allocate(&mut self) -> Option<$crate::Owned> {
            self.pool.allocate()
        }

        fn allocator(&self) -> $crate::Allocator {
            let pool = self.pool.clone();
            std::sync::Arc::new(move || pool.allocate())
        }

        fn world(&self) -> $crate::World {
            $crate::World::Own
        }
    };
}
pub(crate) use packets_of_own_pool;

/// Methods of a [`Port`] around another one, which does them: the place of the other, then the
/// methods' names. `around_port!(self.port: attach, transmit)`, or `(self.0: rest)`: all that say
/// nothing of packets' ways, `attach`, `free`, `allocate`, `allocator` and `world`.
#[macro_export]
macro_rules! around_port {
    ($self:ident . $port:tt : $($method:ident),+) => {
        $($crate::around_port!(@$method $self $port);)+
    };
    (@rest $self:ident $port:tt) => {
        $crate::around_port!($self.$port: attach, free, allocate, allocator, world);
    };
    (@attach $self:ident $port:tt) => {
        fn attach(&mut $self, worker: usize) {
            $self.$port.attach(worker);
        }
    };
    (@receive $self:ident $port:tt) => {
        fn receive(&mut $self, burst: &mut $crate::Burst, most: usize) -> usize {
            $self.$port.receive(burst, most)
        }
    };
    (@transmit $self:ident $port:tt) => {
        fn transmit(&mut $self, packets: &mut [Option<$crate::Owned>]) -> usize {
            $self.$port.transmit(packets)
        }
    };
    (@free $self:ident $port:tt) => {
        fn free(&mut $self, packets: &mut [Option<$crate::Owned>]) {
            $self.$port.free(packets);
        }
    };
    (@allocate $self:ident $port:tt) => {
        fn allocate(&mut $self) -> Option<$crate::Owned> {
            $self.$port.allocate()
        }
    };
    (@allocator $self:ident $port:tt) => {
        fn allocator(&$self) -> $crate::Allocator {
            $self.$port.allocator()
        }
    };
    (@world $self:ident $port:tt) => {
        fn world(&$self) -> $crate::World {
            $self.$port.world()
        }
    };
    (@idle $self:ident $port:tt) => {
        fn idle(&mut $self) {
            $self.$port.idle();
        }
    };
}

/// Where a thread without the port gets empty packets of its world.
pub type Allocator = Arc<dyn Fn() -> Option<Owned> + Send + Sync>;

/// A device as the control plane sees it.
pub trait Device: Send {
    /// Its name in the configuration.
    fn name(&self) -> &str;
    /// Its hardware address.
    fn mac(&self) -> [u8; 6];
    /// Receive queues it can have; 1 where it has no way to spread flows.
    fn max_queues(&self) -> u16;
    /// Starts it with `queues` queue pairs and hands out one [`Port`] for each.
    ///
    /// # Errors
    /// When the device refuses; the text says what to do.
    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error>;
    /// Asks that packets of one pair, of whatever ports and protocols, come in by one
    /// queue: before the start, which then does what the device can ([`Device::spread`]).
    fn deal_by_pair(&mut self, _by: &ByPair) {}
    /// How packets are spread over its queues since the start.
    fn spread(&self) -> Spread {
        Spread::Unknown
    }
    /// Sets the largest frame: `mtu` bytes of layer 3, tags and link header beside.
    ///
    /// # Errors
    /// When the device refuses.
    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error>;
    /// Link state now.
    fn link(&self) -> Link;
    /// Device counters since start.
    fn counters(&self) -> Counters;
    /// The network interface of the kernel below it, where there is one
    /// (`iface=veth0`, `net_tap`).
    fn netdev(&self) -> Option<String> {
        None
    }
    /// Whether its input has ended and nothing more will be received (`pcap`).
    fn finished(&self) -> bool {
        false
    }
    /// Stops it; its ports must have been dropped.
    fn stop(&mut self);
}

/// How a device spreads packets over its queues.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Spread {
    /// Each packet of a flow comes in by one queue; ports are part of a flow.
    ByFlow,
    /// Each packet of a pair does, by that of its bucket ([`ByPair::queue`]).
    ByPair(ByPair),
    /// Nothing can be said.
    Unknown,
}

/// How packets are spread by their two addresses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ByPair {
    /// The key of the Toeplitz hash over source and destination.
    pub key: [u8; 40],
    /// As many of the hash's lowest bits are the pair's bucket; 31 at most.
    pub bits: u32,
}

impl ByPair {
    /// The bucket of a hash.
    #[inline]
    pub fn bucket(&self, hash: u32) -> u32 {
        hash & ((1 << self.bits.min(31)) - 1)
    }

    /// The queue of a bucket where there are `queues`.
    #[inline]
    pub fn queue(bucket: u32, queues: u16) -> u16 {
        (bucket % u32::from(queues.max(1))) as u16
    }
}

/// Link state.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Link {
    /// Carrier.
    pub up: bool,
    /// Megabits a second; 0 where unknown.
    pub speed_mbps: u32,
}

/// What the device itself counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct Counters {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_missed: u64,
    pub rx_errors: u64,
    pub rx_no_buffer: u64,
    /// Frames that a device spread over several packets, dropped (I2).
    pub rx_scattered: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
}
