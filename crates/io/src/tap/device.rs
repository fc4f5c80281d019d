//! A tap as a router's port. One queue; a system call a frame: for tests and
//! slow links.

use std::io::ErrorKind;
use std::sync::Arc;

use super::Tap;
use crate::tally::Tally;
use crate::{Burst, Counters, Device, Error, Link, Owned, Pool, Port, VECTOR};

/// The device `tap:NAME`.
pub struct TapDevice {
    tap: Arc<Tap>,
    mac: [u8; 6],
    pool: Pool,
    tally: Arc<Tally>,
}

impl TapDevice {
    /// Opens (makes, where it does not exist) the tap `name`, with `mac` as
    /// this end's address.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(name: &str, mac: [u8; 6], pool: &Pool) -> Result<TapDevice, Error> {
        let tap = Tap::open(name).map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::PermissionDenied => " (taps need root, or a network namespace's)",
                ErrorKind::NotFound => " (the kernel's `tun` module is missing)",
                _ => "",
            };
            Error::refused(name, "open tap", format!("{error}{hint}"))
        })?;
        Ok(TapDevice { tap: Arc::new(tap), mac, pool: pool.clone(), tally: Arc::default() })
    }
}

impl Device for TapDevice {
    fn name(&self) -> &str {
        self.tap.name()
    }

    /// This end's; the kernel's interface has its own.
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn max_queues(&self) -> u16 {
        1
    }

    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error> {
        if queues != 1 {
            return Err(Error::queues(self.name(), queues, 1));
        }
        let up = self.tap.set_up(true);
        up.map_err(|error| Error::refused(self.name(), "set up", error))?;
        Ok(vec![Box::new(TapPort {
            tap: self.tap.clone(),
            pool: self.pool.clone(),
            tally: self.tally.clone(),
        })])
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        Error::check_mtu(self.name(), mtu, self.pool.room())?;
        let set = self.tap.set_mtu(mtu);
        set.map_err(|error| Error::refused(self.name(), "set MTU", error))
    }

    fn link(&self) -> Link {
        Link { up: self.tap.is_up().unwrap_or(false), speed_mbps: 0 }
    }

    fn counters(&self) -> Counters {
        Tally::sum([&*self.tally])
    }

    fn netdev(&self) -> Option<String> {
        Some(self.tap.name().to_owned())
    }

    fn stop(&mut self) {
        // Gone already, or gone with this process: nothing is left to do.
        let _ = self.tap.set_up(false);
    }
}

struct TapPort {
    tap: Arc<Tap>,
    pool: Pool,
    tally: Arc<Tally>,
}

impl Port for TapPort {
    fn attach(&mut self, worker: usize) {
        self.pool.attach(worker);
    }

    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let (mut n, mut bytes) = (0, 0);
        while n < most && burst.n() < VECTOR {
            // An empty pool leaves the frames in the kernel's queue.
            let Some(mut packet) = self.pool.allocate() else { break };
            let room = packet.room();
            packet.resize(room);
            match self.tap.read(packet.data_mut()) {
                Ok(len) if len < room => {
                    packet.resize(len); // shorter than the room
                    bytes += len as u64;
                    packet.prefetch();
                    burst.push(packet);
                    n += 1;
                }
                // Filled to the last byte: cut off, most likely.
                Ok(_) => {
                    self.tally.rx_error();
                    self.pool.put(&mut [Some(packet)]);
                }
                Err(error) => {
                    self.pool.put(&mut [Some(packet)]);
                    if error.kind() != ErrorKind::WouldBlock {
                        self.tally.rx_error();
                    }
                    break;
                }
            }
        }
        self.tally.received(n, bytes);
        n
    }

    fn transmit(&mut self, packets: &mut [Option<Owned>]) -> usize {
        let (mut taken, mut sent, mut bytes) = (0, 0, 0);
        for packet in packets.iter().flatten() {
            match self.tap.write(packet.data()) {
                Ok(()) => (sent, bytes) = (sent + 1, bytes + packet.data().len() as u64),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.tally.tx_error(),
            }
            taken += 1;
        }
        self.tally.sent(sent, bytes);
        self.pool.put(&mut packets[..taken]);
        taken
    }

    crate::port::packets_of_own_pool!();
}
