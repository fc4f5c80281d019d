//! The work of both insets on a frame that a mirror copies.

use std::sync::Arc;

use graph::ring::frames::{self, Meta};
use graph::ring::spsc::Producer;
use graph::{Account, Node, View, labels};
use io::Owned;
use lookup::sync::Published;

use super::spans::{Counters, MOST, Side, Span, Spans, Target};
use crate::out::detour::{self, Detour};

labels! {
    /// Why copies are dropped.
    pub enum Why {
        /// The pool has no packet for a copy, or none long enough.
        NoBuffer = "no_buffer",
        /// More copies than a poll takes.
        RingFull = "ring_full",
    }
}

/// Copies frames for the mirrors that look at them.
pub struct Copier {
    spans: Arc<Published<Spans>>,
    counters: Arc<Counters>,
    to_port: Producer<Detour>,
    to_file: frames::Producer,
    /// Frames since the last copy, by mirror.
    skipped: [u32; MOST],
}

impl Copier {
    pub(super) fn new(
        spans: Arc<Published<Spans>>,
        counters: Arc<Counters>,
        to_port: Producer<Detour>,
        to_file: frames::Producer,
    ) -> Self {
        Copier { spans, counters, to_port, to_file, skipped: [0; MOST] }
    }

    /// Copies the packets of a vector that mirrors select; `port` gives the port of each.
    pub(super) fn look<N: Node<Drop = Why>>(
        &mut self,
        v: &mut View<'_, N>,
        side: Side,
        port: impl Fn(&View<'_, N>, usize) -> u16,
    ) {
        let guard = v.guard();
        for i in 0..v.n() {
            let mut looks = self.spans.load(guard).looks(port(v, i), side);
            while looks != 0 {
                let number = looks.trailing_zeros() as usize;
                looks &= looks - 1;
                let Some(span) = self.spans.load(guard).get(number) else { continue };
                if !span.takes(v.packet(i).data()) || !self.is_turn(span) {
                    continue;
                }
                let (from, bytes) = (port(v, i), v.packet(i).data().len() as u64);
                let done = match span.to {
                    Target::Port(out) => copy(v, i, out, &mut self.to_port),
                    Target::File => record(v, i, (number, from, side), &mut self.to_file),
                };
                let counter = self.counters.of(number);
                match done {
                    Ok(()) => {
                        counter.copied.add(1);
                        counter.bytes.add(bytes);
                    }
                    Err(Why::NoBuffer) => counter.no_buffer.add(1),
                    Err(Why::RingFull) => counter.ring_full.add(1),
                }
            }
        }
    }

    /// Selects one frame in N.
    #[inline]
    fn is_turn(&mut self, span: &Span) -> bool {
        let skipped = &mut self.skipped[span.number % MOST];
        *skipped += 1;
        if *skipped < span.one_in {
            return false;
        }
        *skipped = 0;
        true
    }
}

/// Sends a copy of packet `i` on its way to a port.
fn copy<N: Node<Drop = Why>>(
    v: &mut View<'_, N>,
    i: usize,
    out: u16,
    ring: &mut Producer<Detour>,
) -> Result<(), Why> {
    let pool = v.port();
    v.account(Account::Copies, 1);
    let Some(mut packet) = v.ports().get(pool).and_then(|port| port.allocate()) else {
        v.count_dropped(Why::NoBuffer, 1);
        return Err(Why::NoBuffer);
    };
    let (packet, why) = match packet.copy_from(v.packet(i)) {
        false => (packet, Why::NoBuffer),
        true => match detour::send(v, ring, Detour { packet, pool, out }) {
            Ok(()) => return Ok(()),
            Err(packet) => (packet, Why::RingFull),
        },
    };
    v.count_dropped(why, 1);
    let packets: &mut [Option<Owned>] = &mut [Some(packet)];
    v.ports().free(pool, packets);
    Err(why)
}

/// Puts the bytes of packet `i` into the ring to the file's thread. No packet is made, so
/// the accounting law has nothing to say.
fn record<N: Node>(
    v: &View<'_, N>,
    i: usize,
    (number, port, side): (usize, u16, Side),
    ring: &mut frames::Producer,
) -> Result<(), Why> {
    let meta = Meta { iface: port, kind: side as u16, info: number as u64, time: v.now() };
    if ring.push(meta, &[v.packet(i).data()]) { Ok(()) } else { Err(Why::RingFull) }
}
