//! Packets that circulate: a device for measurements, which costs as much as a network
//! card's driver.
//!
//! ```text
//!       ┌─ receive: from the front, line 0 of each descriptor written ◄────┐
//!       ▼                                                                  │
//!     graph ── transmit, free: to the end ──►  ring of N, shuffled in memory
//! ```
//!
//! | packets | where they are when received (Zen 3)     |
//! |---------|------------------------------------------|
//! |   2,000 | second-level cache                       |
//! |  16,000 | third-level cache                        |
//! | 128,000 | memory                                   |
//!
//! All ports of one worker may share a ring, as the queues of a card share its
//! packets: what goes out anywhere comes in again behind all others.

mod device;

use std::ptr::NonNull;
use std::sync::Arc;

use crate::hint::prefetch;
use crate::owner::Owner;
use crate::packet::{Head, shadow};
use crate::{Burst, Error, Frames, Owned, Packet, Pool, PoolConfig, VECTOR};
pub use device::RingDevice;

/// A ring of prepared packets. Clones name the same ring; one worker at a time
/// uses it: the thread on which a port of it was attached last.
#[derive(Clone)]
pub struct Ring(Arc<Owner<Lap>>);

/// What is called with the frames of each burst before the graph sees them.
pub type Stamp = Box<dyn FnMut(Frames<'_>) + Send>;

/// Invariant R1: `slots[head .. head + count]` (modulo the length, a power of
/// two) own packets of `pool`, which `refcnt` calls out (the pool's P2).
struct Lap {
    slots: Box<[Slot]>,
    head: usize,
    count: usize,
    pool: Pool,
    /// By packet number: the length it was prepared with.
    lengths: Box<[u16]>,
    stamp: Option<Stamp>,
}

/// What a card's receive descriptor says: where a packet is, and how long.
#[derive(Clone, Copy)]
struct Slot {
    packet: NonNull<Packet>,
    len: u16,
}

// SAFETY: packets in the ring are owned by it (R1), wherever it goes.
unsafe impl Send for Lap {}

impl Ring {
    /// Prepares `config.packets` packets: `fill` is given each one's number
    /// and its room, writes the frame and returns its length. The order in
    /// which they come in is a shuffle that depends on `seed` alone.
    ///
    /// # Errors
    /// When there is no memory for them.
    ///
    /// # Panics
    /// When `fill` returns more than the room.
    pub fn new(
        config: &PoolConfig,
        seed: u64,
        mut fill: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<Ring, Error> {
        let pool = Pool::new(config)?;
        let mut lap = Lap {
            slots: vec![
                Slot { packet: NonNull::dangling(), len: 0 };
                config.packets.next_power_of_two()
            ]
            .into(),
            head: 0,
            count: 0,
            lengths: vec![0; config.packets].into(),
            stamp: None,
            pool,
        };
        while let Some(mut packet) = lap.pool.allocate() {
            packet.resize(packet.room());
            let number = lap.pool.number(&packet);
            let len = fill(number, packet.data_mut());
            assert!(packet.resize(len), "packet {number}: {len} bytes do not fit");
            lap.lengths[number] = len as u16;
            lap.append(packet);
        }
        lap.shuffle(seed);
        Ok(Ring(Owner::new(lap)))
    }

    /// Calls `act` with each packet that is in the ring, its number and the
    /// frame, which has the length that it was prepared with: to bring packets
    /// back to what they were, or to something else, between measurements.
    ///
    /// # Errors
    /// When another thread uses the ring.
    pub fn each(&self, mut act: impl FnMut(usize, &mut [u8])) -> Result<(), Error> {
        self.with(|lap| {
            lap.reclaim();
            for _ in 0..lap.count {
                let (mut packet, _) = lap.next();
                let number = lap.pool.number(&packet);
                packet.resize(lap.lengths[number].into());
                act(number, packet.data_mut());
                lap.append(packet);
            }
        })
    }

    /// Has `stamp` called with each burst received from now on, inside what is
    /// measured: a fresh destination, a counter, the time.
    ///
    /// # Errors
    /// When another thread uses the ring.
    pub fn set_stamp(&self, stamp: Option<Stamp>) -> Result<(), Error> {
        self.with(|lap| lap.stamp = stamp)
    }

    /// Packets in it now, those included that were freed elsewhere.
    ///
    /// # Errors
    /// When another thread uses the ring.
    pub fn waiting(&self) -> Result<usize, Error> {
        self.with(|lap| lap.count + lap.pool.available())
    }

    fn with<R>(&self, act: impl FnOnce(&mut Lap) -> R) -> Result<R, Error> {
        let result = self.0.claim().and_then(|claim| claim.with(act));
        result.ok_or_else(|| Error::refused("mem", "use ring", "another thread uses it"))
    }
}

impl Lap {
    /// Takes up to `most` packets off the front, as a driver does.
    fn receive(&mut self, burst: &mut Burst, most: usize, port: u16) -> (usize, u64) {
        let start = burst.n();
        let n = most.min(VECTOR - start).min(self.count);
        let (slots, first) = (&self.slots[..], self.head);
        // As in `Burst::put`: before a packet is in two places.
        debug_assert!(burst.pkt[start..start + n].iter().all(Option::is_none), "not empty");
        // Said, so that an index below the mask needs no compare.
        let Some(mask) = slots.len().checked_sub(1) else { return (0, 0) };
        burst.will_fill();
        let entries = burst.pkt[start..start + n]
            .iter_mut()
            .zip(&mut burst.head[start..start + n])
            .zip(&mut burst.len[start..start + n]);
        let mut bytes = 0;
        for (at, ((entry, head), len)) in entries.enumerate() {
            // What will be written soon is asked for now, as drivers do.
            prefetch(slots[first.wrapping_add(at + AHEAD) & mask].packet.as_ptr());
            let slot = slots[first.wrapping_add(at) & mask];
            // SAFETY: the slot owned the packet (R1), and leaves the ring below.
            let packet = unsafe { Owned::from_raw(slot.packet) };
            // Not read from the descriptor: to wait for its line before the
            // data can be asked for would cost as much again.
            *head = first_byte(slot.packet);
            prefetch(head.as_ptr());
            *len = slot.len;
            *entry = Some(arrived(packet, slot.len, port));
            bytes += u64::from(slot.len);
        }
        self.head = first.wrapping_add(n);
        self.count -= n;
        burst.n += n as u16;
        if let Some(stamp) = &mut self.stamp {
            stamp(burst.frames(start));
        }
        (n, bytes)
    }

    /// Takes packets back: this ring's to its end, others' to their pools.
    fn give_back(&mut self, packets: &mut [Option<Owned>]) -> u64 {
        let Lap { slots, pool, .. } = self;
        let slots = &mut slots[..];
        let mask = slots.len().checked_sub(1).expect("there are packets, so there are slots");
        let mut end = self.head.wrapping_add(self.count);
        let mut bytes = 0;
        for packet in packets.iter_mut().filter_map(Option::take) {
            let len = packet.packet().data_len;
            bytes += u64::from(len);
            if pool.owns(&packet) {
                shadow::hide(packet.packet());
                slots[end & mask] = Slot { packet: packet.into_raw(), len };
                end = end.wrapping_add(1);
            } else {
                pool.put_one(packet);
            }
        }
        // Fits: the pool has no more packets than there are slots.
        self.count = end.wrapping_sub(self.head);
        bytes
    }

    #[inline(always)]
    fn next(&mut self) -> (Owned, u16) {
        debug_assert!(self.count > 0);
        let slot = self.slots[self.head & (self.slots.len() - 1)];
        self.head = self.head.wrapping_add(1);
        self.count -= 1;
        // SAFETY: the slot owned the packet (R1), and has just left the ring.
        let packet = unsafe { Owned::from_raw(slot.packet) };
        shadow::show(packet.packet());
        (packet, slot.len)
    }

    #[inline(always)]
    fn append(&mut self, packet: Owned) {
        let len = packet.packet().data_len;
        let end = self.head.wrapping_add(self.count) & (self.slots.len() - 1);
        shadow::hide(packet.packet());
        self.slots[end] = Slot { packet: packet.into_raw(), len };
        self.count += 1; // fits: the pool has no more packets than there are slots
    }

    /// Takes in what was freed by others than this ring's ports.
    fn reclaim(&mut self) {
        while let Some(mut packet) = self.pool.allocate() {
            packet.resize(self.lengths[self.pool.number(&packet)].into());
            self.append(packet);
        }
    }

    /// Fisher and Yates, with SplitMix64.
    fn shuffle(&mut self, seed: u64) {
        let mut state = seed;
        for i in (1..self.count).rev() {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            self.slots.swap(i, ((z ^ (z >> 31)) % (i as u64 + 1)) as usize);
        }
    }
}

impl Drop for Lap {
    fn drop(&mut self) {
        while self.count > 0 {
            let (packet, _) = self.next();
            self.pool.put(&mut [Some(packet)]);
        }
    }
}

/// Where a fresh packet's data starts: the buffer lies right behind the
/// descriptor in Rutter's own pools.
#[inline(always)]
fn first_byte(packet: NonNull<Packet>) -> Head {
    let offset = size_of::<Packet>() + usize::from(Packet::HEADROOM);
    let place = packet.as_ptr().cast::<u8>().wrapping_add(offset);
    // SAFETY: not null: it lies inside the packet's stride.
    let place = unsafe { NonNull::new_unchecked(place) };
    // SAFETY: I1, I4: a whole headroom before it.
    unsafe { Head::new(place) }
}

/// Writes what a card's driver writes into the first line of a descriptor.
#[inline(always)]
fn arrived(mut packet: Owned, len: u16, port: u16) -> Owned {
    let descriptor = packet.packet_mut();
    descriptor.data_off = Packet::HEADROOM;
    descriptor.refcnt = 1;
    descriptor.segs = 1;
    descriptor.port = port;
    descriptor.flags = 0;
    descriptor.kind = 0;
    descriptor.pkt_len = u32::from(len);
    descriptor.data_len = len;
    descriptor.vlan = 0;
    descriptor.flow = 0;
    shadow::show(descriptor);
    packet
}

/// Packets between the one received and the one whose descriptor is asked for: 8
/// cost 2 cycles a packet more with 16,000 of them (Sapphire Rapids), 32 gain nothing.
///
/// Tried and lost there, cycles a packet with 2,000, 16,000 and 128,000 packets:
/// asking for a quarter of the next burst before each node (+3, +7, +18); both lines
/// 64 packets ahead into the second-level cache as well (+3, +3, -8), or instead of
/// this (+4, +2, -5); both 16 ahead (+1, +2, +13); for writing (+5, +4, +15);
/// past the second-level cache (0, +4, +30).
const AHEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Port};

    const N: usize = if cfg!(miri) { 130 } else { 2000 };

    fn setup() -> (Ring, Pool, Vec<Box<dyn Port>>) {
        let config = PoolConfig { packets: N, ..PoolConfig::default() };
        let ring = Ring::new(&config, 1, |number, frame| {
            frame[..60].fill(0);
            frame[..8].copy_from_slice(&(number as u64).to_le_bytes());
            60
        })
        .unwrap();
        let pool = Pool::new(&PoolConfig { packets: 64, ..PoolConfig::default() }).unwrap();
        let start = |number| {
            let mut device = RingDevice::new(
                "m",
                [2, 0, 0, 0, 0, 1],
                number,
                std::slice::from_ref(&ring),
                &pool,
            );
            device.start(1).unwrap().remove(0)
        };
        let mut ports = vec![start(0), start(1)];
        ports.iter_mut().for_each(|port| port.attach(0));
        (ring, pool, ports)
    }

    fn number(packet: &Owned) -> u64 {
        u64::from_le_bytes(packet.data()[..8].try_into().unwrap())
    }

    #[test]
    fn every_packet_comes_once_a_lap() {
        let (ring, _pool, mut ports) = setup();
        let mut laps = [vec![], vec![]];
        for lap in &mut laps {
            while lap.len() < N {
                let mut burst = Burst::new();
                let from = &mut ports[lap.len() % 2];
                let n = from.receive(&mut burst, 64.min(N - lap.len()));
                assert!(burst.packets().iter().flatten().all(|p| p.data().len() == 60));
                lap.extend(burst.packets().iter().flatten().map(number));
                assert_eq!(ports[1].transmit(burst.packets()), n);
            }
        }
        assert_eq!(laps[0], laps[1]);
        assert!(!laps[0].is_sorted(), "the order is a shuffle");
        laps[0].sort_unstable();
        assert!(laps[0].iter().copied().eq(0..N as u64));
        assert_eq!(ring.waiting().unwrap(), N);
    }

    #[test]
    fn what_was_changed_and_freed_anywhere_is_restored() {
        let (ring, pool, mut ports) = setup();
        let mut burst = Burst::new();
        ports[0].receive(&mut burst, 64);
        let packets = burst.packets();
        for packet in packets[..64].iter_mut().flatten() {
            packet.data_mut().fill(0xff);
            packet.resize(20);
        }
        ports[0].free(&mut packets[..20]);
        pool.put(&mut packets[20..40]);
        ports[1].transmit(&mut packets[40..64]);
        let mut seen = 0;
        ring.each(|number, frame| {
            assert_eq!(frame.len(), 60);
            frame[..8].copy_from_slice(&(number as u64).to_le_bytes());
            seen += 1;
        })
        .unwrap();
        assert_eq!(seen, N);
    }

    #[test]
    fn a_stamp_sees_each_burst_and_strangers_go_home() {
        let (ring, pool, mut ports) = setup();
        let mut count = 0u64;
        let stamp: Stamp = Box::new(move |mut frames| {
            for frame in frames.iter_mut() {
                frame[30..38].copy_from_slice(&count.to_le_bytes());
                count += 1;
            }
        });
        ring.set_stamp(Some(stamp)).unwrap();
        let mut burst = Burst::new();
        burst.push(ports[0].allocate().unwrap());
        assert_eq!(ports[0].receive(&mut burst, 64), 64);
        assert_eq!(burst.packet(64).unwrap().data()[30], 63);
        ports[0].transmit(burst.packets());
        assert_eq!((ring.waiting().unwrap(), pool.available()), (N, 64));
    }

    #[test]
    fn another_thread_is_kept_out() {
        let (ring, _pool, ports) = setup();
        std::thread::scope(|s| {
            s.spawn(|| assert!(ring.each(|_, _| ()).is_err()));
        });
        drop(ports);
        std::thread::scope(|s| {
            s.spawn(|| assert!(ring.each(|_, _| ()).is_ok()));
        });
    }
}
