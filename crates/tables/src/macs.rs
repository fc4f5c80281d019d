//! The MAC table as the data path sees it, and what it reports to the thread that
//! writes it.
//!
//! ```text
//!  entry   15    12   11          0
//!          [ tick ]   [   port    ]        tick 15: static, never ages
//! ```
//!
//! The age travels in the entry, so it moves with its slot: a tick is an eighth
//! of the bridge's ageing time, and a station's entry has that of when it was last seen.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use lookup::exact::mac_table::MacTable;
use lookup::exact::{Exact, Key};
use lookup::sync::Guard;

pub use lookup::exact::ABSENT;

/// The tick of entries that never age.
pub const STATIC: u16 = 15;
/// Ticks go round: 0 to 14.
pub const TICKS: u16 = 15;
/// Ports of an entry are below this.
pub const MOST_PORTS: u16 = 0xfff;

/// An entry's 16 bits.
#[inline]
pub fn entry(port: u16, tick: u16) -> u16 {
    tick << 12 | port & 0xfff
}

/// The port of an entry.
#[inline(always)]
pub fn entry_port(entry: u16) -> u16 {
    entry & 0xfff
}

/// The tick of an entry.
#[inline(always)]
pub fn entry_tick(entry: u16) -> u16 {
    entry >> 12
}

/// What the nodes of all workers share. Empty until a bridge is there.
pub struct Macs {
    table: OnceLock<Arc<MacTable>>,
    /// By domain: each bridge has its own ageing time.
    ticks: Box<[AtomicU16; DOMAINS]>,
    flushes: AtomicU16,
}

/// Values of a key's 12 bits for its domain.
const DOMAINS: usize = 1 << 12;

impl Default for Macs {
    fn default() -> Macs {
        let ticks = Box::new([const { AtomicU16::new(0) }; DOMAINS]);
        Macs { table: OnceLock::new(), ticks, flushes: AtomicU16::new(0) }
    }
}

impl Macs {
    /// The entries of `keys`, [`ABSENT`] for each that has none.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[inline]
    pub fn lookup_batch(&self, guard: Guard<'_>, keys: &[Key], entries: &mut [u16]) {
        match self.table.get() {
            Some(table) => table.lookup_batch(guard, keys, entries),
            None => entries.fill(ABSENT),
        }
    }

    /// The tick that a station of the key's domain gets when it is seen now.
    #[inline]
    pub fn tick(&self, key: Key) -> u16 {
        // Relaxed: a tick late by a little makes a station a little older.
        self.ticks[usize::from(key.domain()) % DOMAINS].load(Ordering::Relaxed)
    }

    /// Changes whenever stations are forgotten before they age.
    #[inline]
    pub fn flushes(&self) -> u16 {
        self.flushes.load(Ordering::Relaxed)
    }

    pub(crate) fn count_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_tick(&self, domain: u16, tick: u16) {
        self.ticks[usize::from(domain) % DOMAINS].store(tick, Ordering::Relaxed);
    }

    /// Lets readers find `table`; the first one stays.
    pub(crate) fn serve(&self, table: Arc<MacTable>) {
        let _ = self.table.set(table);
    }
}

/// A worker's message: this station was seen at this port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Learn {
    /// Its address, and the forwarding domain.
    pub key: Key,
    /// The port.
    pub port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_hold_port_and_tick() {
        for (port, tick) in [(0, 0), (4094, 14), (4094, STATIC), (7, 3)] {
            let entry = entry(port, tick);
            assert_ne!(entry, ABSENT);
            assert_eq!((entry_port(entry), entry_tick(entry)), (port, tick));
        }
    }
}
