//! Counters per interface: one set a worker, which alone writes it.

use std::sync::Arc;

use graph::Counter;
use tables::IfaceId;

/// Packets and bytes (of whole frames) of one interface.
#[derive(Debug, Default)]
#[repr(align(64))]
#[allow(missing_docs)]
pub struct IfaceCounter {
    pub rx_packets: Counter,
    pub rx_bytes: Counter,
    pub tx_packets: Counter,
    pub tx_bytes: Counter,
}

/// One worker's counters of all interfaces. Interfaces beyond its size share
/// the last entry.
#[derive(Debug)]
pub struct IfaceCounters(Box<[IfaceCounter]>);

impl IfaceCounters {
    /// Room for interfaces up to id `most`.
    pub fn new(most: u16) -> Arc<IfaceCounters> {
        Arc::new(IfaceCounters(
            (0..=usize::from(most) + 1).map(|_| IfaceCounter::default()).collect(),
        ))
    }

    /// The counters of one interface.
    #[inline(always)]
    pub fn of(&self, iface: IfaceId) -> &IfaceCounter {
        let last = self.0.len() - 1;
        &self.0[usize::from(iface.0).min(last)]
    }

    /// Counts received frames.
    #[inline(always)]
    pub fn received(&self, iface: IfaceId, packets: u64, bytes: u64) {
        let counter = self.of(iface);
        counter.rx_packets.add(packets);
        counter.rx_bytes.add(bytes);
    }

    /// Counts frames to be transmitted.
    #[inline(always)]
    pub fn sent(&self, iface: IfaceId, packets: u64, bytes: u64) {
        let counter = self.of(iface);
        counter.tx_packets.add(packets);
        counter.tx_bytes.add(bytes);
    }
}
