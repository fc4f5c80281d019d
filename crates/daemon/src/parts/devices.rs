//! From the configuration's ports to devices.

use std::sync::Arc;

use ::io::{Device, Pool, PoolConfig};
use api::reply;
use graph::spread::Lost;

use crate::config::mistake::nearest;
use crate::config::{self, Config, Mac, Mistake, Mistakes, Text};
use crate::error::Error;
use crate::kernel::{LinkInfo, Rtnetlink};

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
    /// Packets that were dropped between the workers that share a queue.
    pub lost: Vec<Arc<Lost>>,
}

/// Looks for what devices are made from, before anything is opened or changed.
///
/// # Errors
/// Everything that is not there or in the way, at its place in the configuration.
pub fn look(config: &Config, text: &Text) -> Result<(), Mistakes> {
    let mut mistakes = absent(config, text);
    mistakes.extend(in_the_way(config, text));
    if mistakes.is_empty() { Ok(()) } else { Err(Mistakes(mistakes)) }
}

/// What devices are made from and is not there yet.
pub fn absent(config: &Config, text: &Text) -> Vec<Mistake> {
    let mut links = None;
    let absent = |port: &config::Port| match &port.device {
        config::Device::Pcap { input: Some(input), .. } => {
            let error = std::fs::metadata(input).err()?;
            Some(format!("expected a capture to read: {input}: {error}"))
        }
        device if device.needs_netdev() => {
            let links = links.get_or_insert_with(Rtnetlink::open).as_mut().ok()?;
            let name = device.netdevs().into_iter().find(|name| links.link(name).is_err())?;
            Some(no_interface(name, &links.links().unwrap_or_default()))
        }
        _ => None, // only opening it can show
    };
    let found: Vec<_> = config.ports.iter().map(absent).collect();
    let found = config.ports.iter().zip(found);
    let mistake = |(port, what): (&config::Port, Option<String>)| {
        Some(text.mistake(&port.path("device"), what?))
    };
    found.filter_map(mistake).collect()
}

/// Shortages of this machine that make every start fail: its memory, its interfaces.
pub fn in_the_way(config: &Config, text: &Text) -> Vec<Mistake> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let excess = excess(config, &meminfo).map(|(path, what)| text.mistake(path, what));
    let mut mistakes: Vec<_> = excess.into_iter().collect();
    if config.is_offline() {
        return mistakes;
    }
    let Ok(mut kernel) = Rtnetlink::open() else { return mistakes };
    let links = kernel.links().unwrap_or_default();
    let at = |path: Vec<String>, what: String| {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        text.mistake(&path, what)
    };
    for (carrier, tags, interface) in config.interfaces() {
        mistakes.extend(taken(&interface.name, &links).map(|what| at(carrier.path(tags), what)));
    }
    for port in &config.ports {
        let below = links.iter().filter(|link| port.device.netdevs().contains(&&*link.name));
        let used = below.filter_map(|link| kernel.refuse_addresses(link.index, &link.name).err());
        mistakes.extend(used.map(|what| text.mistake(&port.path("device"), what)));
    }
    mistakes
}

/// Why the tap of an interface cannot be called so.
fn taken(name: &str, links: &[LinkInfo]) -> Option<String> {
    let other = links.iter().find(|link| link.name == name && !link.ours && !link.tap)?;
    let index = other.index;
    Some(format!(
        "the kernel has an interface `{name}` already (number {index}), and the router needs the \
         name: give the port, or the bridge, another name, or rename the interface \
         (ip link set {name} name OTHER)"
    ))
}

/// More memory than the machine has (`/proc/meminfo`): DPDK would take all of it, and
/// the system end the process. Its key says where it goes to.
fn excess(config: &Config, meminfo: &str) -> Option<(&'static [&'static str], String)> {
    let mib = |name: &str| {
        let text = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(text.trim().strip_suffix(" kB")?.parse::<u64>().ok()? >> 10)
    };
    let (total, wanted) = (mib("MemTotal")?, u64::from(config.dpdk.memory_mib));
    if wanted > total {
        let what = format!("expected at most the machine's memory, {total} MiB, found {wanted}");
        return Some((&["dpdk", "memory_mib"], what));
    }
    let free = mib("MemAvailable")? + mib("Hugetlb").unwrap_or(0);
    let needed = pool_mib(config.buffers, largest_mtu(config));
    (needed > free).then(|| {
        let what = format!("they take {needed} MiB, but only {free} MiB of memory are free");
        (&["buffers"][..], what)
    })
}

fn largest_mtu(config: &Config) -> u16 {
    config.ports.iter().map(|port| port.interface.mtu).max().unwrap_or(1500)
}

/// Memory of so many buffers, each with its descriptor and headroom.
fn pool_mib(packets: u32, mtu: u16) -> u64 {
    (u64::from(packets) * (u64::from(mtu) + 768)) >> 20
}

/// The name to write instead of `name`.
fn no_interface(name: &str, links: &[LinkInfo]) -> String {
    let free = links.iter().filter(|link| link.name != "lo" && !link.ours);
    let names: Vec<&str> = free.map(|link| link.name.as_str()).collect();
    let rest = match names.get(MOST_NAMES..) {
        Some(rest) if !rest.is_empty() => format!(" and {} more", rest.len()),
        _ => String::new(),
    };
    let there = names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
    match (nearest(name, names.iter().copied()), names.is_empty()) {
        (Some(near), _) => format!("no interface is called `{name}`: did you mean `{near}`?"),
        (None, false) => {
            format!("no interface is called `{name}`; expected one of: {there}{rest}")
        }
        (None, true) => format!(
            "no interface is called `{name}`, and there is no other (`ip link add {name} type veth \
             peer name PEER` makes a pair to try with)"
        ),
    }
}

/// Interfaces that a message lists.
const MOST_NAMES: usize = 12;

/// Opens every device, and sets its MTU.
///
/// # Errors
/// The first that cannot be opened, with its port's name.
pub fn open(config: &Config) -> Result<Vec<Port>, Error> {
    let mut opener = Opener { config, mtu: largest_mtu(config), pool: None };
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
            config::Device::Dpdk(argument) => {
                self.dpdk()?;
                io_dpdk::open(argument)
            }
            _ => ::io::open_with(&port.device_text, self.pool()?),
        }
        .map_err(|error| Error::device(&port.path("device"), error))?;
        let set = device.set_mtu(port.interface.mtu);
        set.map_err(|error| Error::device(&port.path("mtu"), error))?;
        let mac = port.mac.unwrap_or(Mac(device.mac()));
        let netdev = device.netdev();
        let (config, queues, workers, lost) = (port.clone(), 0, Vec::new(), Vec::new());
        Ok(Port { number, config, device, mac, netdev, queues, workers, lost })
    }

    /// Starts DPDK, if it is not started.
    fn dpdk(&self) -> Result<(), Error> {
        let is_pci = |port: &config::Port| match &port.device {
            config::Device::Dpdk(argument) => io_dpdk::is_pci(argument),
            _ => false,
        };
        let dpdk = &self.config.dpdk;
        let packets = self.config.buffers;
        let needed = pool_mib(packets, self.mtu);
        let memory = if dpdk.memory_mib > 0 { dpdk.memory_mib } else { needed as u32 + 256 };
        io_dpdk::init(&io_dpdk::Config {
            hugepages: dpdk.hugepages,
            memory_mb: memory,
            packets,
            mtu: self.mtu,
            pci: self.config.ports.iter().any(is_pci),
        })?;
        Ok(())
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
    /// The text of `show ports`.
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
            out: None, // applications say that
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_needs_is_looked_for_at_its_place() {
        let text = "[ports.p0]\n  device = \"net_af_packet0,iface=rutter-none\"\n\
                    [ports]\np1 = { device = \"pcap:no such file,\" }\n\
                    p2.device = \"mem\"\np3.device = \"net_tap0,iface=rutter-none3\"\n";
        let config = Config::parse("t", text).unwrap();
        let source = Text { file: "t".into(), text: text.into() };
        let said = look(&config, &source).unwrap_err().to_string();
        let said: Vec<_> = said.lines().collect();
        assert_eq!(said.len(), 2, "{said:?}");
        let interface = "t:2:12: ports.p0.device: no interface is called `rutter-none`";
        assert!(said[0].starts_with(interface), "{said:?}");
        let file = "t:4:17: ports.p1.device: expected a capture to read: no such file: ";
        assert!(said[1].starts_with(file), "{said:?}");
    }

    #[test]
    fn an_interface_of_the_kernel_keeps_its_name() {
        let link = |name: &str| LinkInfo { name: name.into(), index: 7, ..LinkInfo::default() };
        let (ours, tap) =
            (LinkInfo { ours: true, ..link("p0") }, LinkInfo { tap: true, ..link("p1") });
        let links = [ours, tap, link("p2"), link("p3.100")];
        assert_eq!(
            (taken("p0", &links), taken("p1", &links), taken("p9", &links)),
            (None, None, None)
        );
        assert!(taken("p2", &links).unwrap().contains("ip link set p2 name OTHER"));
        assert!(taken("p3.100", &links).unwrap().contains("number 7"));
    }

    #[test]
    fn more_memory_than_there_is_is_told_by_its_key() {
        let said = |keys: &str| {
            let text = format!("{keys}[ports.p0]\ndevice = \"mem\"\nmtu = 9216\n");
            let config = Config::parse("t", &text).unwrap();
            let machine = "MemTotal:  8388608 kB\nMemAvailable: 1048576 kB\nHugetlb: 0 kB\n";
            assert_eq!(excess(&config, ""), None);
            excess(&config, machine).map(|(path, what)| format!("{}: {what}", path.join(".")))
        };
        assert_eq!(said(""), None);
        assert_eq!(said("dpdk.memory_mib = 8192\n"), None);
        let most = "dpdk.memory_mib: expected at most the machine's memory, 8192 MiB, found 8193";
        assert_eq!(said("dpdk.memory_mib = 8193\n").as_deref(), Some(most));
        let buffers = "buffers: they take 1248 MiB, but only 1024 MiB of memory are free";
        assert_eq!(said("buffers = 131072\n").as_deref(), Some(buffers));
    }

    #[test]
    fn an_interface_that_is_not_there_is_told_with_those_that_are() {
        let link = |name: &str| LinkInfo { name: name.into(), ..LinkInfo::default() };
        let ours = LinkInfo { ours: true, ..link("p0") };
        let said = |names: &[&str]| {
            let mut links: Vec<_> = names.iter().map(|name| link(name)).collect();
            links.push(ours.clone());
            no_interface("veth0", &links)
        };
        assert!(said(&["lo"]).contains("there is no other (`ip link add"));
        assert!(said(&["lo", "veth1"]).ends_with("did you mean `veth1`?"));
        assert!(said(&["lo", "eno1", "wan"]).ends_with("expected one of: eno1, wan"));
        let many: Vec<_> = (0..14).map(|i| format!("enp{i}s0f1")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(said(&many).ends_with("enp11s0f1 and 2 more"), "{}", said(&many));
    }
}
