//! Buffer pools of Rutter's own world.
//!
//! ```text
//!  memory   │ Packet │ headroom │ data room … │ pad │ Packet │ headroom │ …      2 MB pages
//!           ◄──── stride: an odd number of lines ───►
//!
//!  worker 0's cache ─┐  LIFO: what was freed last is still in the processor's cache
//!  worker 1's cache ─┼──► depot: the rest, a stack without a lock, in bulk
//!  other threads ────┘
//! ```
//!
//! | operation                  | cost                                              |
//! |----------------------------|---------------------------------------------------|
//! | get, put, attached         | one stack move and, on get, line 0 of the packet  |
//! | cache empty or full        | one compare-and-swap and [`MOVE`] links           |
//! | get, put on other threads  | one compare-and-swap a chunk of 64                |
//!
//! The stride is odd because a stride of a power of two puts all packets'
//! first lines into a few sets of the processor's cache.

mod depot;
mod memory;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::owner::{Claim, Owner};
use crate::packet::OWN;
use crate::packet::shadow;
use crate::{Error, Owned, Packet, World};
use depot::Depot;
use memory::Memory;
pub use memory::Pages;

/// What a pool is to be like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PoolConfig {
    /// Packets in all. Each worker's cache holds up to 768 of them.
    pub packets: usize,
    /// The largest MTU of the ports that use it: bytes of layer 3.
    pub mtu: u16,
    /// Ask for pages of 2 MB.
    pub large_pages: bool,
}

impl Default for PoolConfig {
    /// 8,192 packets for an MTU of 1,500 (16 MB).
    fn default() -> Self {
        PoolConfig { packets: 8192, mtu: 1500, large_pages: true }
    }
}

/// A handle to a pool. Clones name the same pool; each worker attaches its own.
/// The memory goes back when the last handle is gone and all packets are home;
/// a packet that is still out then keeps it for ever.
pub struct Pool {
    /// Invariant P1: alive while `Inner::handles` counts this handle.
    inner: NonNull<Inner>,
    local: Option<Claim<Cache>>,
}

// SAFETY: `Inner` is shared with atomics and `Owner`s only, and P1 holds anywhere.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Invariant P2: each packet is in one place: out (as an `Owned`), in one
/// cache, or in the depot; `refcnt` is 1 if it is out, otherwise 0.
struct Inner {
    handles: AtomicUsize,
    memory: Memory,
    stride: usize,
    packets: usize,
    depot: Depot,
    caches: Box<[Arc<Owner<Cache>>]>,
    /// Packets in each cache, for [`Pool::available`].
    cached: Box<[AtomicUsize]>,
}

/// One worker's free packets, the last freed on top.
struct Cache {
    worker: usize,
    stack: Vec<NonNull<Packet>>,
}

// SAFETY: free packets are owned by the cache, wherever it goes (P2).
unsafe impl Send for Cache {}

impl Pool {
    /// Maps the memory and initialises every packet.
    ///
    /// # Errors
    /// When there is not enough memory, or the numbers are out of range.
    pub fn new(config: &PoolConfig) -> Result<Pool, Error> {
        let stride = stride(config.mtu);
        if config.packets == 0 || config.packets > MAX_PACKETS || stride - LINE0 > MAX_ROOM {
            return Err(Error::PoolConfig { packets: config.packets, mtu: config.mtu });
        }
        let bytes = config.packets * stride;
        let memory = Memory::map(bytes, config.large_pages)
            .map_err(|source| Error::Memory { bytes, source })?;
        let caches = (0..WORKERS).map(|worker| Owner::new(Cache { worker, stack: Vec::new() }));
        let inner = Box::new(Inner {
            handles: AtomicUsize::new(1),
            memory,
            stride,
            packets: config.packets,
            depot: Depot::new(config.packets as u32),
            caches: caches.collect(),
            cached: (0..WORKERS).map(|_| AtomicUsize::new(0)).collect(),
        });
        let pool = Pool { inner: NonNull::from(Box::leak(inner)), local: None };
        (0..config.packets as u32).for_each(|index| pool.inner().initialise(index));
        // Packet 0 on top: a pool is handed out from its start.
        let indices: Vec<u32> = (0..config.packets as u32).rev().collect();
        pool.inner().depot.push(&indices);
        Ok(pool)
    }

    /// Makes the calling thread `worker`: it then has a cache of its own,
    /// shared by all its handles. Without, and for a worker beyond 128 or whose
    /// cache another thread has, every call goes to the depot.
    pub fn attach(&mut self, worker: usize) {
        self.detach();
        self.local = self.inner().caches.get(worker).and_then(Owner::claim);
        if let Some(local) = &self.local {
            local.with(|cache| cache.stack.reserve(CACHE - cache.stack.len()));
        }
    }

    /// Takes up to `into.len()` packets, empty, into its first entries (which
    /// must be `None`); returns how many.
    #[inline]
    pub fn get(&self, into: &mut [Option<Owned>]) -> usize {
        let cached = self.local.as_ref().and_then(|local| {
            local.with(|cache| {
                let mut got = 0;
                while got < into.len() && (!cache.stack.is_empty() || self.refill(cache)) {
                    let take = (into.len() - got).min(cache.stack.len());
                    let rest = cache.stack.len() - take;
                    for (packet, slot) in cache.stack.drain(rest..).rev().zip(&mut into[got..]) {
                        *slot = Some(take_out(packet));
                    }
                    got += take;
                }
                self.note(cache);
                got
            })
        });
        cached.unwrap_or_else(|| self.get_from_depot(into))
    }

    /// One empty packet.
    #[inline]
    pub fn allocate(&self) -> Option<Owned> {
        let mut one = [None];
        self.get(&mut one);
        let [packet] = one;
        packet
    }

    /// Takes packets back, each to the pool that it came from; all become `None`.
    ///
    /// # Panics
    /// When a packet is of DPDK's world.
    #[inline]
    pub fn put(&self, packets: &mut [Option<Owned>]) {
        let cached = self.local.as_ref().and_then(|local| {
            local.with(|cache| {
                for packets in packets.chunks_mut(MOVE) {
                    if cache.stack.len() + packets.len() > CACHE {
                        self.spill(cache);
                    }
                    for packet in packets.iter_mut().filter_map(Option::take) {
                        match self.take_in(packet) {
                            Ok(packet) => cache.stack.push(packet),
                            Err(foreign) => put_abroad(foreign),
                        }
                    }
                }
                self.note(cache);
            })
        });
        if cached.is_none() {
            self.put_into_depot(packets);
        }
    }

    /// [`Pool::put`] of one packet, kept out of the loops around it.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_one(&self, packet: Owned) {
        self.put(&mut [Some(packet)]);
    }

    /// Bytes of data that a packet holds ([`Owned::room`]): at least the MTU and 64.
    pub fn room(&self) -> usize {
        self.inner().stride - LINE0 - usize::from(Packet::HEADROOM) - 64
    }

    /// Packets in all.
    pub fn size(&self) -> usize {
        self.inner().packets
    }

    /// Packets that are not out; exact while no thread uses the pool.
    pub fn available(&self) -> usize {
        let cached = self.inner().cached.iter().map(|count| count.load(Ordering::Relaxed));
        self.inner().depot.len() + cached.sum::<usize>()
    }

    /// Whether `packet` came from this pool.
    #[inline]
    pub fn owns(&self, packet: &Owned) -> bool {
        std::ptr::eq(packet.packet().pool, self.inner.as_ptr().cast())
    }

    /// A number below [`Pool::size`] that this packet of this pool alone has.
    ///
    /// # Panics
    /// When the packet is another pool's.
    pub fn number(&self, packet: &Owned) -> usize {
        assert!(self.owns(packet), "a packet of another pool has no number here");
        self.inner().index(packet.as_raw()) as usize
    }

    /// What its memory lies on.
    pub fn pages(&self) -> Pages {
        self.inner().memory.pages()
    }

    #[inline]
    fn inner(&self) -> &Inner {
        // SAFETY: P1.
        unsafe { self.inner.as_ref() }
    }

    /// Gives the cache's packets to everybody, if this thread can, and the claim back.
    fn detach(&mut self) {
        if let Some(local) = self.local.take() {
            local.with(|cache| {
                while !cache.stack.is_empty() {
                    self.spill(cache);
                }
                self.note(cache);
            });
        }
    }

    fn refill(&self, cache: &mut Cache) -> bool {
        let mut indices = [0; MOVE];
        let n = self.inner().depot.pop(&mut indices);
        // The top of the depot is to be the top of the cache.
        cache.stack.extend(indices[..n].iter().rev().map(|&index| self.inner().at(index)));
        n > 0
    }

    /// Moves up to [`MOVE`] packets, the coldest, to the depot.
    fn spill(&self, cache: &mut Cache) {
        let n = cache.stack.len().min(MOVE);
        let mut indices = [0; MOVE];
        for (index, packet) in indices.iter_mut().zip(cache.stack.drain(..n)) {
            *index = self.inner().index(packet);
        }
        self.inner().depot.push(&indices[..n]);
    }

    fn note(&self, cache: &Cache) {
        self.inner().cached[cache.worker].store(cache.stack.len(), Ordering::Relaxed);
    }

    #[cold]
    fn get_from_depot(&self, into: &mut [Option<Owned>]) -> usize {
        let mut got = 0;
        for slots in into.chunks_mut(CHUNK) {
            let mut indices = [0; CHUNK];
            let n = self.inner().depot.pop(&mut indices[..slots.len()]);
            for (slot, &index) in slots.iter_mut().zip(&indices[..n]) {
                *slot = Some(take_out(self.inner().at(index)));
            }
            got += n;
            if n < slots.len() {
                break;
            }
        }
        got
    }

    #[cold]
    fn put_into_depot(&self, packets: &mut [Option<Owned>]) {
        for packets in packets.chunks_mut(CHUNK) {
            let (mut indices, mut n) = ([0; CHUNK], 0);
            for packet in packets.iter_mut().filter_map(Option::take) {
                match self.take_in(packet) {
                    Ok(packet) => {
                        indices[n] = self.inner().index(packet);
                        n += 1;
                    }
                    Err(foreign) => put_abroad(foreign),
                }
            }
            self.inner().depot.push(&indices[..n]);
        }
    }

    /// Marks one of this pool's packets as free; gives others back.
    #[inline(always)]
    fn take_in(&self, mut packet: Owned) -> Result<NonNull<Packet>, Owned> {
        if !self.owns(&packet) {
            return Err(packet);
        }
        mark_free(&mut packet);
        Ok(packet.into_raw())
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        self.inner().handles.fetch_add(1, Ordering::Relaxed);
        Pool { inner: self.inner, local: None }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.detach();
        if self.inner().handles.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Pairs with the releases of the other handles. A fence would do, too, but
        // ThreadSanitizer knows none.
        self.inner().handles.load(Ordering::Acquire);
        if self.available() == self.size() {
            // SAFETY: it came from `Box::leak`, this was the last handle, and
            // no packet is out that could name it.
            drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} of {} packets free)", self.available(), self.size())
    }
}

impl Inner {
    fn at(&self, index: u32) -> NonNull<Packet> {
        debug_assert!((index as usize) < self.packets);
        // SAFETY: the memory holds `packets` packets of `stride` bytes.
        unsafe { self.memory.base().add(index as usize * self.stride) }.cast()
    }

    fn index(&self, packet: NonNull<Packet>) -> u32 {
        let offset = packet.as_ptr() as usize - self.memory.base().as_ptr() as usize;
        (offset / self.stride) as u32
    }

    /// Writes a packet's descriptor. I1 holds for every packet because the
    /// buffer reaches to the end of its stride and [`Owned::room`] keeps 64
    /// bytes of it free; I4 because the data start behind a whole headroom.
    fn initialise(&self, index: u32) {
        let place = self.at(index);
        // SAFETY: a descriptor is 128 bytes, and the stride is longer.
        let buf = unsafe { place.cast::<u8>().add(LINE0) };
        let packet = Packet {
            buf: buf.as_ptr(),
            iova: OWN,
            data_off: Packet::HEADROOM,
            refcnt: 0,
            segs: 1,
            port: u16::MAX,
            flags: 0,
            kind: 0,
            pkt_len: 0,
            data_len: 0,
            vlan: 0,
            flow: 0,
            flow_hi: 0,
            vlan_outer: 0,
            buf_len: (self.stride - LINE0) as u16,
            pool: std::ptr::from_ref(self).cast_mut().cast(),
            next: std::ptr::null_mut(),
            tx_offset: 0,
            shared: std::ptr::null_mut(),
            priv_size: 0,
            timesync: 0,
            dynamic: [0; 9],
        };
        // SAFETY: the place is aligned (memory to a page, stride to a line),
        // mapped, and nobody else's yet.
        unsafe { place.write(packet) };
        // SAFETY: just written.
        shadow::hide(unsafe { place.as_ref() });
    }
}

/// An empty packet out of a free one.
#[inline(always)]
fn take_out(mut packet: NonNull<Packet>) -> Owned {
    // SAFETY: it was free, so nobody else has it (P2).
    let descriptor = unsafe { packet.as_mut() };
    descriptor.data_off = Packet::HEADROOM;
    descriptor.refcnt = 1;
    descriptor.segs = 1;
    descriptor.port = u16::MAX;
    descriptor.flags = 0;
    descriptor.kind = 0;
    descriptor.pkt_len = 0;
    descriptor.data_len = 0;
    shadow::show(descriptor);
    // SAFETY: initialised when the pool was made, and out from now on (P2).
    unsafe { Owned::from_raw(packet) }
}

/// Frees a packet of another of Rutter's pools. No handle keeps that pool
/// alive here, only the packet: the push is the last that touches it.
#[cold]
fn put_abroad(mut packet: Owned) {
    let world = packet.packet().world();
    assert!(world == World::Own, "a packet of another world was freed into Rutter's own pool");
    let home = packet.packet().pool.cast::<Inner>();
    // SAFETY: I5: it is a pool of ours, alive while its packet is out.
    let inner = unsafe { &*home };
    mark_free(&mut packet);
    inner.depot.push(&[inner.index(packet.into_raw())]);
}

/// A packet leaves its holder (P2).
#[inline(always)]
fn mark_free(packet: &mut Owned) {
    let descriptor = packet.packet_mut();
    debug_assert_eq!(descriptor.refcnt, 1, "P2: a packet was freed twice");
    debug_assert!(descriptor.next.is_null() && descriptor.segs == 1, "I2");
    descriptor.refcnt = 0;
    shadow::hide(descriptor);
}

/// Bytes from packet to packet: descriptor, headroom and room for the MTU, in
/// an odd number of lines. `mtu + 256` leaves 64 bytes beside the headroom and
/// the 64 of I1: link header, two tags, and 42 to spare.
fn stride(mtu: u16) -> usize {
    let lines = (LINE0 + usize::from(mtu) + 256).div_ceil(64);
    (lines | 1) * 64
}

/// Bytes of a descriptor, in front of the buffer.
const LINE0: usize = size_of::<Packet>();
/// `buf_len` has 16 bits.
const MAX_ROOM: usize = u16::MAX as usize;
const MAX_PACKETS: usize = 1 << 28;
/// Workers that can have a cache.
const WORKERS: usize = 128;
/// Packets a cache holds at most.
const CACHE: usize = 768;
/// Packets moved between a cache and the depot at a time.
const MOVE: usize = 256;
const CHUNK: usize = 64;

#[cfg(test)]
mod tests;
