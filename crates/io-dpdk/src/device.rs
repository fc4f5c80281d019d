//! A DPDK device: plugged in by its argument, started, counted, unplugged.

use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use io::{ByPair, Counters, Device, Error, Interfaces, Link, Port, Spread};

use crate::eal::{self, Eal, explain};
use crate::missed::Missed;
use crate::pool::Pool;
use crate::port::DpdkPort;
use crate::running::{Plugged, Running, control};
use crate::{Config, is_pci, shim};

/// Opens any device that DPDK knows by its argument: `net_af_packet0,iface=p0`,
/// `net_af_xdp0,iface=p0`, `net_tap0`, `net_null0`, `0000:03:00.0` …; starts
/// DPDK for the first one.
///
/// # Errors
/// When DPDK or the device refuses; the reason includes what DPDK logged.
pub fn open(description: &str) -> Result<Box<dyn Device>, Error> {
    let config = Config { pci: is_pci(description), ..Config::default() };
    let eal = eal::started(&config)?;
    Ok(Box::new(DpdkDevice::open(description, eal)?))
}

struct DpdkDevice {
    name: String,
    plugged: Arc<Plugged>,
    running: Option<Arc<Running>>,
    info: shim::rutter_info,
    interfaces: Interfaces,
    eal: Eal,
    mtu: u16,
    pool: Option<Pool>,
    scattered: Arc<AtomicU64>,
    missed: Option<Missed>,
    /// As it was asked for.
    by_pair: Option<ByPair>,
    /// As it was had.
    spread: Spread,
}

impl DpdkDevice {
    fn open(description: &str, eal: Eal) -> Result<DpdkDevice, Error> {
        let wrong = |reason: &str| Error::Description {
            device: description.to_owned(),
            reason: reason.to_owned(),
        };
        let name = match description.split(',').next() {
            Some("") | None => return Err(wrong("expected a DPDK device argument")),
            // DPDK's own spelling of an address has its domain.
            Some(name) if is_pci(name) && name.matches(':').count() == 1 => format!("0000:{name}"),
            Some(name) => name.to_owned(),
        };
        let interfaces = Interfaces::open();
        let interfaces =
            interfaces.map_err(|error| Error::refused(&name, "open", error.to_string()))?;
        let zero = |_| wrong("a device argument holds no 0 byte");
        let arguments = CString::new(description).map_err(zero)?;
        let c_name = CString::new(name.as_str()).map_err(zero)?;
        let _control = control();
        eal::take_log(); // what is left of others is no reason of ours
        // SAFETY: two C strings; DPDK was started.
        let port = unsafe { shim::rutter_probe(arguments.as_ptr(), c_name.as_ptr()) };
        let Ok(port) = u16::try_from(port) else {
            return Err(Error::refused(&name, "open", hint(&name, port)));
        };
        let mut info = shim::rutter_info::default();
        // SAFETY: fills in the struct.
        check(&name, "ask", unsafe { shim::rutter_info(port, &mut info) })?;
        let plugged = Arc::new(Plugged { port });
        let mtu = eal.config.mtu;
        let (scattered, missed) = (Arc::default(), Missed::of(&name, info.netdev));
        Ok(DpdkDevice {
            name,
            plugged,
            running: None,
            info,
            interfaces,
            eal,
            mtu,
            pool: None,
            scattered,
            missed,
            by_pair: None,
            spread: Spread::Unknown,
        })
    }

    fn check(&self, action: &'static str, result: c_int) -> Result<(), Error> {
        check(&self.name, action, result)
    }
}

impl Device for DpdkDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> [u8; 6] {
        self.info.mac
    }

    fn max_queues(&self) -> u16 {
        self.info.rx_queues.min(self.info.tx_queues).max(1)
    }

    fn deal_by_pair(&mut self, by: &ByPair) {
        self.by_pair = Some(by.clone());
    }

    fn spread(&self) -> Spread {
        self.spread.clone()
    }

    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error> {
        if queues == 0 || queues > self.max_queues() {
            return Err(Error::queues(&self.name, queues, self.max_queues()));
        }
        let pool = Pool::get(&self.eal, &self.name, self.info.socket, self.mtu)?;
        let _control = control();
        eal::take_log();
        let mtu = self.mtu.min(self.info.max_mtu);
        let by =
            self.by_pair.as_ref().map(|by| shim::rutter_by_pair { key: by.key, bits: by.bits });
        let setup = shim::rutter_setup {
            pool: pool.as_ptr(),
            by_pair: by.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            port: self.plugged.port,
            queues,
            mtu,
        };
        let mut files = vec![-1; usize::from(queues)];
        // SAFETY: the pool lives for ever; `by` outlives the call, and its key is copied; a number
        // is written for each of the queues.
        let result = unsafe { shim::rutter_start(&setup, files.as_mut_ptr()) };
        self.check("start", result)?;
        self.spread = match (result as u32, &self.by_pair) {
            (shim::RUTTER_BY_PAIR, Some(by)) => Spread::ByPair(by.clone()),
            (shim::RUTTER_BY_FLOW, _) => Spread::ByFlow,
            _ => Spread::Unknown,
        };
        self.missed.iter().for_each(Missed::restart);
        self.pool = Some(pool);
        let running = Arc::new(Running(self.plugged.clone()));
        self.running = Some(running.clone());
        let port = |(queue, file): (u16, c_int)| {
            let (running, scattered) = (running.clone(), self.scattered.clone());
            let wakes = (file >= 0).then_some(file);
            Box::new(DpdkPort { running, queue, pool, scattered, wakes }) as Box<dyn Port>
        };
        Ok((0..queues).zip(files).map(port).collect())
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        if mtu > self.info.max_mtu {
            let reason = format!("{mtu} was asked for; it can {}", self.info.max_mtu);
            return Err(Error::refused(&self.name, "set MTU", reason));
        }
        let Some(pool) = self.pool else {
            self.mtu = mtu; // comes into force with the start
            return Ok(());
        };
        if !pool.holds(mtu) {
            let reason = format!("its packets are too small for {mtu}; set it before the start");
            return Err(Error::refused(&self.name, "set MTU", reason));
        }
        let _control = control();
        // SAFETY: takes numbers only.
        match unsafe { shim::rutter_set_mtu(self.plugged.port, mtu) } {
            // No such limit in it: it passes whatever fits a packet.
            error if error == -libc::ENOTSUP => {}
            result => self.check("set MTU", result)?,
        }
        self.mtu = mtu;
        Ok(())
    }

    fn link(&self) -> Link {
        let _control = control();
        let mut speed_mbps = 0;
        // SAFETY: writes the one number.
        let up = unsafe { shim::rutter_link(self.plugged.port, &mut speed_mbps) } == 1;
        // Drivers over an interface of the kernel often say up whatever it is,
        // also when it is gone.
        let running = |name: String| self.interfaces.running(&name).unwrap_or(false);
        let below = self.info.netdev == 0 || self.netdev().is_some_and(running);
        Link { up: up && below, speed_mbps }
    }

    fn counters(&self) -> Counters {
        let _control = control();
        let mut stats = shim::rutter_stats::default();
        // SAFETY: fills in the struct. Where it fails, the zeros stay.
        unsafe { shim::rutter_stats(self.plugged.port, &mut stats) };
        Counters {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_missed: stats.rx_missed + self.missed.as_ref().map_or(0, Missed::count),
            rx_errors: stats.rx_errors,
            rx_no_buffer: stats.rx_no_buffer,
            rx_scattered: self.scattered.load(Ordering::Relaxed),
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_errors: stats.tx_errors,
        }
    }

    fn netdev(&self) -> Option<String> {
        let index = (self.info.netdev != 0).then_some(self.info.netdev)?;
        self.interfaces.name(index).ok()
    }

    /// Where ports are still there, the last of them stops it.
    fn stop(&mut self) {
        self.pool = None;
        self.running = None;
    }
}

fn check(device: &str, action: &'static str, result: c_int) -> Result<(), Error> {
    if result < 0 { Err(Error::refused(device, action, explain(result))) } else { Ok(()) }
}

/// Why a device could not be plugged in, with the remedy for what is common.
fn hint(name: &str, error: c_int) -> String {
    let words = explain(error);
    match -error {
        libc::EEXIST => format!("another device is called `{name}`: number them, as in net_null1"),
        libc::EPERM | libc::EACCES if !is_root() => {
            format!("{words} (needs root, or CAP_NET_RAW and CAP_NET_ADMIN)")
        }
        // What DPDK says when no bus can make anything of a name: "Bad address".
        libc::EFAULT => "no driver of DPDK's takes a device of this name: a card has its PCI \
                         address (lspci -D), others begin with a driver's name, as in net_tap0"
            .into(),
        libc::ENOENT | libc::ENODEV if is_pci(name) => {
            format!("{words} (is it there, and bound to vfio-pci?)")
        }
        _ => words,
    }
}

fn is_root() -> bool {
    // SAFETY: takes nothing, gives a number.
    unsafe { libc::geteuid() == 0 }
}
