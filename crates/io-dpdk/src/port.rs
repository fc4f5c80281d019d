//! One queue pair of a DPDK device: a burst is one call into the driver.

use std::cell::RefCell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use io::{Allocator, Burst, Owned, Port, VECTOR, World};

use crate::pool::Pool;
use crate::running::Running;
use crate::shim;

pub(crate) struct DpdkPort {
    /// The device runs as long as this is here.
    pub(crate) running: Arc<Running>,
    pub(crate) queue: u16,
    pub(crate) pool: Pool,
    /// Frames that came in several segments (I2), or without a headroom (I4), dropped.
    pub(crate) scattered: Arc<AtomicU64>,
    /// `net_af_xdp`'s socket. No other driver here has a file to sleep on: `net_af_packet`
    /// has no interrupts either, and one socket for all it does.
    pub(crate) wakes: Option<c_int>,
}

impl Port for DpdkPort {
    fn attach(&mut self, _worker: usize) {
        THREAD.with_borrow_mut(|thread| {
            thread.get_or_insert_with(Registration::new);
        });
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let start = burst.n();
        let room = burst.spare();
        let most = most.min(room.len()) as u16;
        // SAFETY: `Option<Owned>` is a pointer; the driver writes up to `most`
        // of them, all to packets that are ours from then on.
        let got = unsafe {
            shim::rutter_receive(self.port(), self.queue, room.as_mut_ptr().cast(), most)
        };
        burst.accept(got.into(), |packet| {
            if !packet.packet().is_whole() {
                self.drop_scattered(packet);
                return None;
            }
            packet.prefetch();
            Some(packet)
        });
        burst.n() - start
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        // Not of another world, and there: whatever the caller says.
        let ours = packets.iter().take(VECTOR).take_while(|packet| is_ours(packet)).count() as u16;
        let first = packets.as_mut_ptr().cast();
        // SAFETY: `ours` pointers to packets of DPDK's that we own and, as far as the
        // driver takes them, give away.
        let taken = unsafe { shim::rutter_transmit(self.port(), self.queue, first, ours) };
        let taken = usize::from(taken);
        packets[..taken].iter_mut().for_each(forget);
        taken
    }

    /// # Panics
    /// When a packet is of Rutter's own world.
    fn free(&mut self, packets: &mut [Option<Owned>]) {
        let foreign = packets.iter().flatten().any(|packet| packet.packet().world() != World::Dpdk);
        assert!(!foreign, "a packet of Rutter's own world was freed into DPDK's pools");
        // SAFETY: pointers to packets of DPDK's that we own and give away, or null
        // (`None`), which DPDK passes over.
        unsafe { shim::rutter_free(packets.as_mut_ptr().cast(), packets.len() as u32) };
        packets.iter_mut().for_each(forget);
    }

    fn allocate(&mut self) -> Option<Owned> {
        allocate(self.pool)
    }

    fn allocator(&self) -> Allocator {
        let pool = self.pool;
        Arc::new(move || allocate(pool))
    }

    fn world(&self) -> World {
        World::Dpdk
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        let file = self.wakes?;
        // SAFETY: the driver closes it with the device, which lives as long as `running`.
        Some(unsafe { BorrowedFd::borrow_raw(file) })
    }
}

/// Whether there is a packet that DPDK can send.
#[inline]
fn is_ours(packet: &Option<Owned>) -> bool {
    packet.as_ref().is_some_and(|packet| packet.packet().world() == World::Dpdk)
}

impl DpdkPort {
    #[inline]
    fn port(&self) -> u16 {
        self.running.port()
    }

    #[cold]
    fn drop_scattered(&self, packet: Owned) {
        self.scattered.fetch_add(1, Ordering::Relaxed);
        let mut raw = packet.into_raw().as_ptr();
        // SAFETY: one packet, all its segments, that we own and give away.
        unsafe { shim::rutter_free(&mut raw, 1) };
    }
}

/// An empty packet, on any thread.
fn allocate(pool: Pool) -> Option<Owned> {
    // SAFETY: pools live for ever.
    let packet = NonNull::new(unsafe { shim::rutter_allocate(pool.as_ptr()) })?;
    // SAFETY: a fresh packet of one segment is nobody else's; I1 holds for
    // the pool's buffers, which are 64 bytes longer than any packet, I4 because
    // a fresh packet has a whole headroom.
    Some(unsafe { Owned::from_raw(packet) })
}

/// What was given away is not dropped.
fn forget(slot: &mut Option<Owned>) {
    std::mem::forget(slot.take());
}

/// This thread's place among DPDK's: it has a cache in every pool.
struct Registration {
    ours: bool,
}

thread_local!(static THREAD: RefCell<Option<Registration>> = const { RefCell::new(None) });

impl Registration {
    /// A thread that DPDK has no place for (128 are there) works without
    /// caches: slower, and right.
    fn new() -> Registration {
        // SAFETY: DPDK was started: there is a port.
        let result: c_int = unsafe { shim::rutter_thread_register() };
        Registration { ours: result == 1 }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: registered by this thread, which is ending.
            unsafe { shim::rutter_thread_unregister() };
        }
    }
}
