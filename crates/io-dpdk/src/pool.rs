//! DPDK's packet pools: one for each NUMA node and size of packet, made when
//! the first device that needs it starts, kept for ever.

use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::sync::Mutex;

use io::{Error, Packet};

use crate::eal::{self, Eal};
use crate::shim;

/// A pool, alive until the process ends.
#[derive(Clone, Copy)]
pub(crate) struct Pool {
    mempool: NonNull<shim::rte_mempool>,
    socket: i32,
    room: u16,
    packets: u32,
}

// SAFETY: DPDK's pools may be used by any thread; registered ones have a cache.
unsafe impl Send for Pool {}
// SAFETY: as above: they are rings for many producers and consumers.
unsafe impl Sync for Pool {}

static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// Packets that are in their pools, and packets in all: equal when nobody
/// holds one, neither a worker nor a device's ring.
pub fn packets() -> (usize, usize) {
    let pools = lock();
    // SAFETY: pools live for ever.
    let free = |pool: &Pool| unsafe { shim::rutter_pool_available(pool.mempool.as_ptr()) };
    let sum = |count: &dyn Fn(&Pool) -> u32| pools.iter().map(|pool| count(pool) as usize).sum();
    (sum(&free), sum(&|pool| pool.packets))
}

impl Pool {
    /// The pool for devices on `socket` (-1: anywhere) whose MTU is `mtu`.
    pub(crate) fn get(eal: &Eal, device: &str, socket: i32, mtu: u16) -> Result<Pool, Error> {
        let room = data_room(mtu.max(eal.config.mtu))
            .ok_or_else(|| Error::refused(device, "set MTU", format!("{mtu} is too much")))?;
        let mut pools = lock();
        let fits = |pool: &&Pool| pool.socket == socket && pool.room >= room;
        if let Some(pool) = pools.iter().find(fits) {
            return Ok(*pool);
        }
        let name = CString::new(format!("rutter_{}", pools.len())).expect("no 0 in it");
        let packets = eal.config.packets;
        // Without hugepages DPDK lets no packet cross a page of 4 KB, so that
        // all start at one offset and meet in one set of the processor's cache:
        // 133 instead of 87 cycles a packet on Zen 3. No device needs that:
        // physical addresses are not to be had then.
        let crosses_pages = c_int::from(!eal.hugepages);
        // SAFETY: the name is a C string, and DPDK was started.
        let mempool = unsafe {
            shim::rutter_pool_create(name.as_ptr(), packets, room, socket, crosses_pages)
        };
        let Some(mempool) = NonNull::new(mempool) else {
            let megabytes = (u64::from(packets) * (u64::from(room) + 256)) >> 20;
            let log = eal::take_log();
            let reason = format!("no memory for {packets} packets ({megabytes} MB): {log}");
            return Err(Error::refused(device, "make a packet pool", reason));
        };
        let pool = Pool { mempool, socket, room, packets };
        pools.push(pool);
        Ok(pool)
    }

    pub(crate) fn as_ptr(self) -> *mut shim::rte_mempool {
        self.mempool.as_ptr()
    }

    /// Whether frames of this MTU, with link header and two tags, fit.
    pub(crate) fn holds(self, mtu: u16) -> bool {
        data_room(mtu).is_some_and(|room| room <= self.room)
    }
}

/// Bytes of a buffer: headroom, link header, tags and MTU, to the kilobyte:
/// some cards know no finer sizes and would scatter frames over two buffers.
fn data_room(mtu: u16) -> Option<u16> {
    let data = (u32::from(mtu) + 128).next_multiple_of(1024);
    u16::try_from(data + u32::from(Packet::HEADROOM)).ok()
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Pool>> {
    POOLS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_whole_kilobytes_and_hold_the_mtu_and_256() {
        assert_eq!(data_room(1500), Some(2048 + 128));
        assert_eq!(data_room(9000), Some(9216 + 128));
        for mtu in (0..64_000).step_by(7) {
            assert!(data_room(mtu).unwrap() >= mtu + 256);
        }
        assert_eq!(data_room(65_535), None);
    }
}
