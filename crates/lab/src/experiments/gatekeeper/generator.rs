//! Frames from clients: 64 bytes each, to addresses that are protected; and what the back
//! side brings.
//!
//! ```text
//!  a ring of packets ─► front: each gets a source ─► graph ─► back: 64 bytes again ─► the ring
//!                                                               ▲ messages of decisions, by the clock
//! ```
//!
//! What it costs to write the source into a frame is measured beside (`path::cells`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use graph::clock;
use io::mem::Stamp;
use io::{Burst, Owned, Port};
use wire::build::Frame;
use wire::bytes::put16;
use wire::ethernet::Mac;
use wire::ggu::{Decision, Flow, Ports, Verdict, Writer};

use super::super::router::Source;
use super::site::{BACK, GRANTOR, MAC, PROTECTED, Site};

/// Whose packets come.
#[derive(Clone)]
pub(super) struct Clients {
    /// Flows that come in turn, over and over.
    pub flows: Arc<[u32]>,
    /// Of [`PERIOD`] packets so many are of those; each other one is a flow of its own.
    pub known: usize,
}

/// See [`Clients::known`].
pub(super) const PERIOD: usize = 10;

impl Clients {
    /// Nobody comes twice.
    pub fn strangers() -> Clients {
        Clients { flows: Arc::new([]), known: 0 }
    }

    /// These alone.
    pub fn only(flows: Arc<[u32]>) -> Clients {
        Clients { flows, known: PERIOD }
    }

    /// Writes source, destination and checksum into frames as they come in, the TTL, of which a
    /// router has taken one, and the link header, which an outer one has overwritten.
    fn stamp(self) -> Stamp {
        let mut frame = [0; LEN];
        write(0, &mut frame);
        let base = sum(&frame);
        let link: [u8; IP] = wire::bytes::array(&frame, 0);
        let (mut fresh, mut next, mut turn) = (0_u32, 0, 0);
        Box::new(move |mut frames| {
            for frame in frames.iter_mut() {
                let source = if turn < self.known {
                    let source = self.flows[next];
                    next = if next + 1 == self.flows.len() { 0 } else { next + 1 };
                    source
                } else {
                    fresh = fresh.wrapping_add(1);
                    stranger(fresh)
                };
                turn = if turn + 1 == PERIOD { 0 } else { turn + 1 };
                put(source, base, &link, frame);
            }
        })
    }
}

/// A flow by number, of those that are known beforehand; below 2^29 each is another one.
pub(super) fn known(n: u32) -> u32 {
    0x4000_0000 | mixed(n)
}

/// Another flow.
fn stranger(n: u32) -> u32 {
    0x8000_0000 | mixed(n)
}

/// Odd factors keep numbers different. One eighth of all addresses, none of them martian.
fn mixed(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b1) & 0x1fff_ffff
}

/// Whom a source speaks to.
pub(super) fn destination(source: u32) -> u32 {
    PROTECTED | source & 0xffff
}

/// The worker that has a source's flow.
pub(super) fn owner(site: &Site, source: u32) -> usize {
    site.owners.ipv4(source.into(), destination(source).into())
}

/// Two ports and `packets` packets that go round: front and back.
pub(super) fn source(packets: usize, clients: Option<&Clients>) -> Result<Source, String> {
    let source = Source::ring(packets, |n, frame| write(known(n as u32), frame))?;
    Ok(match clients {
        Some(clients) => source.stamped(|_| clients.clone().stamp()),
        None => source,
    })
}

/// A frame that others are made of.
pub(super) struct Pattern {
    frame: [u8; LEN],
    base: u32,
    link: [u8; IP],
}

impl Pattern {
    /// From the front, to a machine of this hardware address.
    pub fn new(to: [u8; 6]) -> Pattern {
        let mut frame = [0; LEN];
        write(0, &mut frame);
        frame[..6].copy_from_slice(&to);
        Pattern { frame, base: sum(&frame), link: wire::bytes::array(&frame, 0) }
    }

    /// The frame of a source.
    #[inline]
    pub fn of(&mut self, source: u32) -> &[u8; LEN] {
        put(source, self.base, &self.link, &mut self.frame);
        &self.frame
    }
}

/// Writes a frame, and gives its length.
fn write(source: u32, frame: &mut [u8]) -> usize {
    let from = std::net::SocketAddrV4::new(source.into(), 4000);
    let to = std::net::SocketAddrV4::new(destination(source).into(), 4001);
    let built = Frame::udp4(from, to).macs(Mac(OTHER), Mac(MAC)).ttl(64).payload(&[0; 22]);
    built.emit(frame).expect("64 bytes of room")
}

/// The sum of a header's words but addresses and checksum.
fn sum(frame: &[u8]) -> u32 {
    let word = |at: usize| u32::from(wire::bytes::be16(frame, IP + at));
    (0..10).step_by(2).map(word).sum()
}

#[inline]
fn put(source: u32, base: u32, link: &[u8; IP], frame: &mut [u8]) {
    let to = destination(source);
    let words = [source >> 16, source & 0xffff, to >> 16, to & 0xffff];
    let sum = base + words.iter().sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[..IP].copy_from_slice(link);
    put16(frame, IP + 8, TTL_UDP);
    put16(frame, IP + 10, !(sum as u16));
    frame[IP + 12..IP + 16].copy_from_slice(&source.to_be_bytes());
    frame[IP + 16..IP + 20].copy_from_slice(&to.to_be_bytes());
}

/// The back: frames that leave are as long as those that come in, and messages come by the
/// clock, [`Pace`] says how many.
pub(super) struct Back {
    port: Box<dyn Port>,
    messages: Vec<Message>,
    next: usize,
    pace: Arc<Pace>,
    /// Up to when decisions have come.
    came: u64,
    sent: Arc<Sent>,
}

/// What the Grantor sends.
pub(super) struct Message {
    pub frame: Vec<u8>,
    /// Of its decisions so many are for flows of the worker that hears them.
    pub own: u64,
}

/// What has come in at a back.
#[derive(Default)]
pub(super) struct Sent {
    pub messages: AtomicU64,
    /// Decisions for flows of the worker itself.
    pub own: AtomicU64,
}

/// Decisions, at the back of each worker.
#[derive(Default)]
pub(super) struct Pace {
    /// How many are to come a second.
    pub per_s: AtomicU64,
    /// How many have reached a table.
    pub done: AtomicU64,
    /// How many of those another worker had heard: less than none where more of a worker's own
    /// wait than before.
    pub handed: AtomicI64,
}

impl Back {
    /// Around `port`; `messages` have [`IN_ONE`] decisions each.
    pub fn new(port: Box<dyn Port>, messages: Vec<Message>, pace: &Arc<Pace>) -> Back {
        let (pace, sent) = (pace.clone(), Arc::default());
        Back { port, messages, next: 0, pace, came: clock::now(), sent }
    }

    /// What came in.
    pub fn sent(&self) -> Arc<Sent> {
        self.sent.clone()
    }
}

impl Port for Back {
    io::around_port!(self.port: rest);

    fn receive(&mut self, burst: &mut Burst, _: usize) -> usize {
        let per_s = self.pace.per_s.load(Ordering::Relaxed);
        let now = clock::now();
        if per_s == 0 || self.messages.is_empty() {
            self.came = now;
            return 0;
        }
        let (second, mut n, mut own) = (clock::hz(), 0, 0);
        let one = second * IN_ONE as u64 / per_s;
        // What was missed is lost: a worker that had no core gets no more for it than it would
        // in the processor time that is counted.
        self.came = self.came.max(now.saturating_sub(2 * one));
        while self.came + one <= now && n < MOST {
            let Some(mut packet) = self.port.allocate() else { break };
            self.next = (self.next + 1) % self.messages.len();
            let message = &self.messages[self.next];
            packet.fill(&message.frame);
            burst.push(packet);
            (self.came, n, own) = (self.came + one, n + 1, own + message.own);
        }
        // Nobody else writes them.
        let add = |to: &AtomicU64, n| to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.sent.messages, n as u64);
        add(&self.sent.own, own);
        n
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        for packet in packets.iter_mut().flatten() {
            packet.resize(LEN);
        }
        self.port.transmit(packets)
    }
}

/// Messages of the Grantor that decide `verdict` for `flows`, as frames at the back of the worker
/// whose flows `is_own` names.
pub(super) fn messages(
    flows: &[u32],
    verdict: Verdict,
    is_own: impl Fn(u32) -> bool,
) -> Result<Vec<Message>, String> {
    let message = |flows: &[u32]| {
        let own = flows.iter().filter(|&&source| is_own(source)).count() as u64;
        let said = |error: wire::Error| error.to_string();
        let mut buffer = [0; 1500];
        let (from, to) = (GRANTOR.into(), BACK.into());
        let mut writer = Writer::new(&mut buffer, from, to, Ports::default()).map_err(said)?;
        for &source in flows {
            let flow = Flow::V4 { src: source.into(), dst: destination(source).into() };
            writer.push(&Decision { flow, verdict }).map_err(said)?;
        }
        Ok(Message { frame: [&MAC[..], &OTHER, &[8, 0], writer.finish()].concat(), own })
    };
    flows.chunks_exact(IN_ONE).map(message).collect()
}

/// Decisions of a message: as many grants of IPv4 as 1,500 bytes hold.
pub(super) const IN_ONE: usize = 52;
/// Messages that come in at once.
const MOST: usize = 8;
/// Whoever sends.
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Bytes of a frame, and of its link header.
pub(super) const LEN: usize = 64;
const IP: usize = 14;
/// A TTL of 64, and UDP.
const TTL_UDP: u16 = 64 << 8 | 17;

#[cfg(test)]
mod tests {
    use wire::checksum;

    use super::*;

    #[test]
    fn a_stamped_frame_is_a_whole_one() {
        let (mut frame, mut built) = ([0; LEN], [0; LEN]);
        assert_eq!(write(0, &mut frame), LEN);
        let (base, link) = (sum(&frame), wire::bytes::array(&frame, 0));
        for source in (0..2_000).flat_map(|n| [known(n), stranger(n)]) {
            frame[..IP].fill(0xee);
            frame[IP + 8] = 63;
            put(source, base, &link, &mut frame);
            assert_eq!(checksum::checksum(&frame[IP..IP + 20]), 0);
            write(source, &mut built);
            assert_eq!(frame[..40], built[..40], "all but the checksum of UDP");
        }
    }

    #[test]
    fn nobody_comes_twice() {
        let of = |n: u32| [known(n), stranger(n)];
        let all: std::collections::BTreeSet<u32> = (0..100_000).flat_map(of).collect();
        assert_eq!(all.len(), 200_000);
        assert_eq!(stranger(5), stranger(5 + (1 << 29)), "as far as the header says");
    }
}
