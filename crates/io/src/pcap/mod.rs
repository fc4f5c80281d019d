//! The device over captures: receives a file's frames, writes what is
//! transmitted into another. One queue.

mod create;
mod read;
mod write;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub use create::{create, vet};
pub use read::{Damage, ETHERNET, Frame, Reader};
pub use write::{Style, Writer};

use crate::tally::Tally;
use crate::{Burst, Counters, Device, Error, Link, Owned, Pool, Port, VECTOR};

/// Captures as a device: `IN` is read once, from start to end.
pub struct Pcap {
    name: String,
    mac: [u8; 6],
    pool: Pool,
    input: Option<Input>,
    output: Option<Output>,
    shared: Arc<Shared>,
}

type Input = Reader<BufReader<File>>;
type Output = Writer<BufWriter<File>>;

#[derive(Default)]
struct Shared {
    finished: AtomicBool,
    tally: Tally,
}

impl Pcap {
    /// Opens `input` and creates `output`; either may be empty: nothing comes
    /// in, or what goes out is only counted. `raw` takes frames of any link
    /// type as they are.
    ///
    /// # Errors
    /// When a file cannot be opened, is no capture, or is not of Ethernet.
    pub fn open(
        name: &str,
        mac: [u8; 6],
        (input, output): (&str, &str),
        raw: bool,
        pool: &Pool,
    ) -> Result<Pcap, Error> {
        let refused =
            |action, path, error| Error::refused(name, action, format!("{path}: {error}"));
        let open = |path: &str| Reader::new(BufReader::new(File::open(path)?));
        let create = |path: &str| {
            Writer::new(BufWriter::new(create::create(path)?), Style::of(path), ETHERNET)
        };
        let mut source = None;
        if !input.is_empty() {
            let reader = open(input).map_err(|error| refused("open", input, error))?;
            if !raw {
                only_ethernet(name, input, open)?;
            }
            source = Some(reader);
        }
        let sink = (!output.is_empty()).then(|| create(output)).transpose();
        Ok(Pcap {
            name: name.to_owned(),
            mac,
            pool: pool.clone(),
            input: source,
            output: sink.map_err(|error| refused("create", output, error))?,
            shared: Arc::default(),
        })
    }
}

/// Refuses a capture whose first frame is of another link type.
fn only_ethernet(
    name: &str,
    path: &str,
    open: impl Fn(&str) -> std::io::Result<Input>,
) -> Result<(), Error> {
    let refused = |reason| Error::refused(name, "open", format!("{path}: {reason}"));
    let mut reader = open(path).map_err(|error| refused(error.to_string()))?;
    let first = reader.next_frame().map_err(|error| refused(error.to_string()))?;
    let first = first.map(|frame| frame.link_type);
    match first.or(reader.link_type()) {
        None | Some(ETHERNET) => Ok(()),
        Some(other) => Err(refused(format!(
            "its link type is {other}{}, not Ethernet; `raw` takes frames as they are",
            link_name(other)
        ))),
    }
}

impl Device for Pcap {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn max_queues(&self) -> u16 {
        1
    }

    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error> {
        if queues != 1 {
            return Err(Error::queues(&self.name, queues, 1));
        }
        self.shared.finished.store(self.input.is_none(), Ordering::Relaxed);
        Ok(vec![Box::new(PcapPort {
            pool: self.pool.clone(),
            input: self.input.take(),
            output: self.output.take(),
            damaged: 0,
            dirty: false,
            shared: self.shared.clone(),
        })])
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        Error::check_mtu(&self.name, mtu, self.pool.room())
    }

    fn link(&self) -> Link {
        Link { up: true, speed_mbps: 0 }
    }

    fn counters(&self) -> Counters {
        Tally::sum([&self.shared.tally])
    }

    fn finished(&self) -> bool {
        self.shared.finished.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {}
}

struct PcapPort {
    pool: Pool,
    input: Option<Input>,
    output: Option<Output>,
    /// The reader's damaged records, as far as they are counted.
    damaged: u64,
    /// Something was written since the last flush.
    dirty: bool,
    shared: Arc<Shared>,
}

impl PcapPort {
    /// One frame into a packet; `None` when the input has ended or the pool is empty.
    fn next(&mut self) -> Option<Owned> {
        let tally = &self.shared.tally;
        let reader = self.input.as_mut()?;
        let packet = loop {
            let Some(mut packet) = self.pool.allocate() else {
                // Nothing is lost: the frame stays in the file.
                return None;
            };
            match reader.next_frame() {
                Ok(Some(frame)) if packet.fill(frame.data) => break Some(packet),
                Ok(Some(_)) => tally.rx_error(),
                Ok(None) => {
                    self.pool.put(&mut [Some(packet)]);
                    break None;
                }
                Err(_) => {
                    tally.rx_error();
                    self.pool.put(&mut [Some(packet)]);
                    break None;
                }
            }
            self.pool.put(&mut [Some(packet)]);
        };
        (self.damaged..reader.damaged()).for_each(|_| tally.rx_error());
        self.damaged = reader.damaged();
        if packet.is_none() {
            self.input = None;
            self.shared.finished.store(true, Ordering::Relaxed);
        }
        packet
    }
}

impl Port for PcapPort {
    fn attach(&mut self, worker: usize) {
        self.pool.attach(worker);
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let (mut n, mut bytes) = (0, 0);
        while n < most && burst.n() < VECTOR {
            let Some(packet) = self.next() else { break };
            bytes += packet.data().len() as u64;
            packet.prefetch();
            burst.push(packet);
            n += 1;
        }
        self.shared.tally.received(n, bytes);
        n
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut n, mut bytes) = (0, 0);
        for packet in packets.iter().flatten() {
            let sink = self.output.as_mut();
            match sink.map_or(Ok(()), |sink| sink.write(packet.data(), now.as_nanos() as u64)) {
                Ok(()) => (n, bytes) = (n + 1, bytes + packet.data().len() as u64),
                Err(_) => self.shared.tally.tx_error(),
            }
        }
        self.dirty = true;
        self.shared.tally.sent(n, bytes);
        self.pool.put(packets);
        packets.len()
    }

    crate::port::packets_of_own_pool!();

    /// The file is whole whenever the worker has nothing to do.
    fn idle(&mut self) {
        if std::mem::take(&mut self.dirty)
            && let Some(Err(_)) = self.output.as_mut().map(Writer::flush)
        {
            self.shared.tally.tx_error();
        }
    }
}

impl Drop for PcapPort {
    fn drop(&mut self) {
        self.idle();
    }
}

/// The commoner link types by name, for the refusal.
fn link_name(link_type: u16) -> &'static str {
    match link_type {
        0 => " (BSD loopback)",
        9 => " (PPP)",
        101 => " (raw IP)",
        105 => " (IEEE 802.11)",
        113 => " (Linux cooked)",
        127 => " (IEEE 802.11 radiotap)",
        228 => " (raw IPv4)",
        229 => " (raw IPv6)",
        276 => " (Linux cooked v2)",
        _ => "",
    }
}

#[cfg(all(test, not(miri)))] // system calls
mod tests;
