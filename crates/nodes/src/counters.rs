//! Counters per interface: one set a worker, which alone writes it.

use std::sync::Arc;

use graph::Counter;
use tables::IfaceId;
use tables::bridge::DomainId;

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

/// One worker's counters of all interfaces.
#[derive(Debug)]
pub struct IfaceCounters(Box<[IfaceCounter; MOST]>);

impl IfaceCounters {
    /// Counters at zero.
    pub fn new() -> Arc<IfaceCounters> {
        let counters: Vec<_> = (0..MOST).map(|_| IfaceCounter::default()).collect();
        let counters = counters.into_boxed_slice().try_into();
        Arc::new(IfaceCounters(counters.expect("as many as the array has")))
    }

    /// The counters of one interface; ids are below [`MOST`].
    #[inline(always)]
    pub fn of(&self, iface: IfaceId) -> &IfaceCounter {
        &self.0[usize::from(iface.0) % MOST]
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

/// Frames of one forwarding domain.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct DomainCounter {
    pub frames: Counter,
    pub bytes: Counter,
    /// Frames that went to every member.
    pub flooded: Counter,
}

/// One worker's counters of all forwarding domains.
#[derive(Debug)]
pub struct DomainCounters {
    by_domain: Box<[DomainCounter; MOST]>,
    /// Stations that were seen while the ring to the bridge thread was full.
    pub not_learnt: Counter,
}

impl DomainCounters {
    /// Counters at zero.
    pub fn new() -> Arc<DomainCounters> {
        let counters: Vec<_> = (0..MOST).map(|_| DomainCounter::default()).collect();
        let counters = counters.into_boxed_slice().try_into();
        let by_domain = counters.expect("as many as the array has");
        Arc::new(DomainCounters { by_domain, not_learnt: Counter::default() })
    }

    /// The counters of one domain; ids are below [`MOST`].
    #[inline(always)]
    pub fn of(&self, domain: DomainId) -> &DomainCounter {
        &self.by_domain[usize::from(domain.0) % MOST]
    }
}

/// Interfaces of one router: 12 bits (the switch's table has no more for them).
/// A fixed power of two, so that counting has no bounds check.
pub const MOST: usize = 1 << 12;
