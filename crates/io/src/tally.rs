//! Counters of a port, written by its worker, read by the control plane.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Counters;

/// One queue's counters: one thread writes (load and store, no lock prefix), any thread reads. Each
/// queue's counters are in cache lines of their own, so that queues do not disturb each other.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    rx_errors: AtomicU64,
    rx_no_buffer: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
}

impl Tally {
    pub(crate) fn received(&self, packets: usize, bytes: u64) {
        add(&self.rx_packets, packets as u64);
        add(&self.rx_bytes, bytes);
    }

    pub(crate) fn sent(&self, packets: usize, bytes: u64) {
        add(&self.tx_packets, packets as u64);
        add(&self.tx_bytes, bytes);
    }

    /// Frames that were damaged, or too long for the pool's buffers.
    pub(crate) fn rx_error(&self) {
        add(&self.rx_errors, 1);
    }

    /// A frame for which the pool had no packet.
    pub(crate) fn rx_no_buffer(&self) {
        add(&self.rx_no_buffer, 1);
    }

    /// A frame that was accepted and then could not be written.
    pub(crate) fn tx_error(&self) {
        add(&self.tx_errors, 1);
    }

    /// The sum over a device's queues.
    pub(crate) fn sum<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> Counters {
        let mut sum = Counters::default();
        for tally in tallies {
            sum.rx_packets += tally.rx_packets.load(Ordering::Relaxed);
            sum.rx_bytes += tally.rx_bytes.load(Ordering::Relaxed);
            sum.rx_errors += tally.rx_errors.load(Ordering::Relaxed);
            sum.rx_no_buffer += tally.rx_no_buffer.load(Ordering::Relaxed);
            sum.tx_packets += tally.tx_packets.load(Ordering::Relaxed);
            sum.tx_bytes += tally.tx_bytes.load(Ordering::Relaxed);
            sum.tx_errors += tally.tx_errors.load(Ordering::Relaxed);
        }
        sum
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
