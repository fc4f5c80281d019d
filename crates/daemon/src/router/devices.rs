//! From the configuration's ports to devices.

use std::sync::Arc;

use ::io::{Device, Pool, PoolConfig};
use api::reply;
use graph::spread::Lost;

use crate::config::{self, Config, Mac};
use crate::error::Error;

/// A port whose device is open.
pub struct Port {
    /// Its number in the data plane.
    pub number: u16,
    /// As configured.
    pub config: config::Port,
    /// The device.
    pub device: Box<dyn Device>,
    /// Its hardware address: the configured one, or the device's own.
    pub mac: Mac,
    /// The kernel's interface below it.
    pub netdev: Option<String>,
    /// Receive queues, once it is started.
    pub queues: u16,
    /// The workers that poll it.
    pub workers: Vec<u16>,
    /// What was dropped between the workers that share a queue.
    pub lost: Vec<Arc<Lost>>,
}

/// Opens every device, and sets its MTU.
///
/// # Errors
/// The first that cannot be opened, with its port's name.
pub fn open(config: &Config) -> Result<Vec<Port>, Error> {
    let mtu = config.ports.iter().map(|port| port.interface.mtu).max().unwrap_or(1500);
    let mut opener = Opener { config, mtu, pool: None };
    let ports = config.ports.iter().zip(0..);
    ports.map(|(port, number)| opener.open(port, number)).collect()
}

struct Opener<'c> {
    config: &'c Config,
    /// The largest: all ports of a world share their pool.
    mtu: u16,
    pool: Option<Pool>,
}

impl Opener<'_> {
    fn open(&mut self, port: &config::Port, number: u16) -> Result<Port, Error> {
        let mut device = match &port.device {
            config::Device::Dpdk(argument) => self.dpdk(argument)?,
            _ => ::io::open_with(&port.device_text, self.pool()?)?,
        };
        device.set_mtu(port.interface.mtu)?;
        let mac = port.mac.unwrap_or(Mac(device.mac()));
        let netdev = device.netdev();
        let (config, queues, workers, lost) = (port.clone(), 0, Vec::new(), Vec::new());
        Ok(Port { number, config, device, mac, netdev, queues, workers, lost })
    }

    fn dpdk(&self, argument: &str) -> Result<Box<dyn Device>, Error> {
        let is_pci = |port: &config::Port| match &port.device {
            config::Device::Dpdk(argument) => io_dpdk::is_pci(argument),
            _ => false,
        };
        let dpdk = &self.config.dpdk;
        let packets = self.config.buffers;
        let needed = (u64::from(packets) * (u64::from(self.mtu) + 768)) >> 20;
        let memory = if dpdk.memory_mib > 0 { dpdk.memory_mib } else { needed as u32 + 256 };
        io_dpdk::init(&io_dpdk::Config {
            hugepages: dpdk.hugepages,
            memory_mb: memory,
            packets,
            mtu: self.mtu,
            pci: self.config.ports.iter().any(is_pci),
        })?;
        Ok(io_dpdk::open(argument)?)
    }

    fn pool(&mut self) -> Result<&Pool, Error> {
        if self.pool.is_none() {
            let packets = self.config.buffers as usize;
            self.pool = Some(Pool::new(&PoolConfig { packets, mtu: self.mtu, large_pages: true })?);
        }
        Ok(self.pool.as_ref().expect("made above"))
    }
}

impl Port {
    /// As `show ports` tells it.
    pub fn show(&self) -> reply::Port {
        let (link, counters) = (self.device.link(), self.device.counters());
        let unreceived: u64 = self.lost.iter().map(|lost| lost.received.get()).sum();
        let unsent: u64 = self.lost.iter().map(|lost| lost.transmitted.get()).sum();
        reply::Port {
            name: self.config.name.clone(),
            device: self.config.device_text.clone(),
            mac: self.mac.to_string(),
            netdev: self.netdev.clone(),
            link: link.up,
            speed_mbps: link.speed_mbps,
            mtu: self.config.interface.mtu,
            queues: self.queues,
            workers: self.workers.clone(),
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            rx_missed: counters.rx_missed + unreceived,
            rx_errors: counters.rx_errors + counters.rx_scattered,
            rx_no_buffer: counters.rx_no_buffer,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            tx_errors: counters.tx_errors + unsent,
        }
    }
}
