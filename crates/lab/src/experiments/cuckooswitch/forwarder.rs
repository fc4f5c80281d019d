//! The paper's switch, which is no more than this: receive a burst, look its
//! destinations up, send each frame out of the port found.
//!
//! ```text
//!  m0, m1 ─ a ring of packets; each gets a fresh destination as it comes in
//!     │
//!     ├─ raw       back out of the port it came from
//!     ├─ burst     all destinations of the burst are one lookup ("dynamic batching")
//!     └─ single    lookup and transmit of one frame after the other
//! ```

use std::time::Duration;

use io::{BURST, Burst, Owned, Port};
use lookup::exact::{ABSENT, Key};
use wire::build::Frame;
use wire::ethernet::Mac;

use super::super::router::{Source, stamp};
use crate::data::Rng;
use crate::matching::{self, Entry, Finder};
use crate::slices::{Sample, Work};
use crate::watch::Watch;

/// How frames are looked up.
pub(super) enum How {
    /// They are not.
    Raw,
    /// A burst at once.
    Burst(Finder),
    /// One after the other.
    Single(Finder),
}

/// Two ports, and what is between.
pub(super) struct Forwarder {
    ports: Vec<Box<dyn Port>>,
    how: How,
    burst: Box<Burst>,
    keys: Vec<Key>,
    values: Vec<u16>,
    out: [Vec<Option<Owned>>; 2],
    /// Frames whose destination was not found.
    lost: u64,
    _source: Source,
}

impl Forwarder {
    /// Frames of `bytes` to the first `stations`, drawn at random, or without any all to
    /// one.
    pub fn new(how: How, stations: usize, bytes: usize) -> Result<Forwarder, String> {
        let (key, _) = station(0);
        let fill = |_: usize, room: &mut [u8]| {
            let frame = Frame::other(0x88b5).macs(Mac([2; 6]), Mac(key.octets()));
            let frame = frame.payload(&[0; 46]).pad_to(bytes);
            frame.emit(room).expect("room for a frame")
        };
        let mut source = Source::ring(PACKETS, fill)?;
        if stations > 0 {
            let mut rng = Rng::new(3);
            let mut fresh = || station(rng.below(stations)).0.octets();
            // Each port goes through a list of its own.
            source = source.stamped(|_| stamp((0..FRESH).map(|_| fresh()).collect(), 0));
        }
        Ok(Forwarder {
            ports: std::mem::take(&mut source.ports),
            how,
            burst: Burst::new(),
            keys: Vec::with_capacity(BURST),
            values: vec![ABSENT; BURST],
            out: [0, 1].map(|_| Vec::with_capacity(BURST)),
            lost: 0,
            _source: source,
        })
    }

    /// One burst of one port; how many frames were sent.
    fn forward(&mut self, port: usize) -> u64 {
        let n = self.ports[port].receive(&mut self.burst, BURST);
        let sent = self.send_on(port, n);
        self.burst.clear();
        sent
    }

    /// The `n` frames of the burst in hand.
    fn send_on(&mut self, port: usize, n: usize) -> u64 {
        let packets = self.burst.packets();
        match &mut self.how {
            How::Raw => {
                let sent = self.ports[port].transmit(packets);
                self.ports[port].free(&mut packets[sent..]);
                sent as u64
            }
            How::Burst(find) => {
                self.keys.clear();
                self.keys.extend(packets.iter().flatten().map(destination));
                find(&self.keys, &mut self.values[..n]);
                for (packet, value) in packets.iter_mut().zip(&self.values) {
                    self.lost += u64::from(*value == ABSENT);
                    self.out[usize::from(value & 1)].push(packet.take());
                }
                self.send()
            }
            How::Single(find) => {
                let mut sent = 0;
                for packet in packets.iter_mut() {
                    let Some(key) = packet.as_ref().map(destination) else { continue };
                    let mut value = [ABSENT];
                    find(&[key], &mut value);
                    self.lost += u64::from(value[0] == ABSENT);
                    let out = &mut self.ports[usize::from(value[0] & 1)];
                    let one = std::slice::from_mut(packet);
                    sent += out.transmit(one) as u64;
                    out.free(one);
                }
                sent
            }
        }
    }

    /// Sends what was sorted by port.
    fn send(&mut self) -> u64 {
        let mut all = 0;
        for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
            let sent = port.transmit(out);
            port.free(&mut out[sent..]);
            out.clear();
            all += sent as u64;
        }
        all
    }
}

impl Work for Forwarder {
    fn slice(&mut self, target: Duration) -> Sample {
        let mut watch = Watch::new(target);
        while watch.lap((0..POLLS).map(|_| self.forward(0) + self.forward(1)).sum()) {}
        // Every frame has a known destination: one that is not found is a fault.
        Sample { checksum: (self.lost == 0).then_some(0), ..watch.sample() }
    }
}

fn destination(packet: &Owned) -> Key {
    let frame = packet.data();
    let mut mac = [0; 6];
    mac.copy_from_slice(&frame[..6]);
    Key::of(mac, DOMAIN)
}

/// The entry numbered `i` as a switch has it: one domain; the lowest bit of its value is its port.
pub(super) fn station(i: usize) -> Entry {
    let (key, value) = matching::entry(i);
    (Key::new(key.mac(), DOMAIN), value)
}

const DOMAIN: u16 = 1;
const PACKETS: usize = 16_000;
/// Destinations that a port goes through.
const FRESH: usize = 1 << 20;
/// Pairs of bursts between two looks at the clock.
const POLLS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_by_the_port_found() {
        let entries: Vec<Entry> = (0..5000).map(station).collect();
        let contestant = crate::contestants::exact().into_iter().next().unwrap();
        let mut table = contestant.build(entries.len()).unwrap();
        assert_eq!(table.insert(&entries), 0);
        for how in [How::Raw, How::Burst(table.finder()), How::Single(table.finder())] {
            let mut forwarder = Forwarder::new(how, entries.len(), 64).unwrap();
            let sample = forwarder.slice(Duration::from_millis(2));
            assert!(sample.ops > 0 && sample.checksum.is_some(), "{sample:?}");
        }
    }

    #[test]
    fn a_station_that_is_not_there_is_noticed() {
        let entries: Vec<Entry> = (0..100).map(station).collect();
        let contestant = crate::contestants::exact().into_iter().next().unwrap();
        let mut table = contestant.build(entries.len()).unwrap();
        table.insert(&entries[..50]);
        let mut forwarder = Forwarder::new(How::Burst(table.finder()), entries.len(), 64).unwrap();
        assert_eq!(forwarder.slice(Duration::from_millis(1)).checksum, None);
    }
}
