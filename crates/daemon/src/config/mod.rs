//! The configuration: `rutter.toml` as values that need no further check.
//!
//! Reading collects every mistake, each with its line, column and what was
//! expected; nothing starts while there is one.

mod inner;
pub mod keys;
pub mod mistake;
pub mod net;
pub(crate) mod read;
pub mod reader;
pub mod section;
mod settings;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;

use api::apps::router::RouteKind;
use feeds::netlink::SHIELD_METRIC;
use lookup::lpm::Options;
use nodes::Rates;
use tables::Outer;

pub use inner::{Carrier, InnerInterface, InnerPort};
pub use mistake::{Mistake, Mistakes};
pub use net::{Mac, Net};
use net::{is_link_local6, is_of_host};
pub use section::Declared;
pub use settings::Settings;
pub use text::Text;

/// Where the configuration is by default.
pub const DEFAULT_FILE: &str = "/etc/rutter/rutter.toml";

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Cores that forward, each once.
    pub workers: Vec<u16>,
    /// The action of a worker without packets.
    pub idle: Idle,
    /// Hand packets of ports with few queues to other workers.
    pub spread: bool,
    /// Packet buffers of each pool.
    pub buffers: u32,
    /// DPDK's environment.
    pub dpdk: Dpdk,
    /// Neighbours of each family that the kernel may hold.
    pub max_neighbours: u32,
    /// Rates of punting.
    pub punt: Rates,
    /// Whose routing protocols are a neighbour's, wherever they come from.
    pub peers: Vec<IpAddr>,
    /// In the order of the file.
    pub ports: Vec<Port>,
    /// Ports that applications bring, behind the others.
    pub inner: Vec<InnerPort>,
    /// What applications have read.
    pub settings: Settings,
    /// `main` first.
    pub vrfs: Vec<Vrf>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// Permanent neighbours.
    pub neighbours: Vec<Neighbour>,
}

/// The action of a worker without packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Idle {
    /// Sleeps for short times.
    Adaptive,
    /// Polls on.
    Poll,
}

/// DPDK's environment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dpdk {
    /// Use hugepages; `None`: where there are free ones.
    pub hugepages: Option<bool>,
    /// Memory to reserve; 0: as much as the buffers need.
    pub memory_mib: u32,
    /// Further arguments.
    pub arguments: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name, and that of its tap.
    pub name: String,
    /// What it is.
    pub device: Device,
    /// As written.
    pub device_text: String,
    /// Receive queues; 0: one for each worker.
    pub queues: u16,
    /// Hardware address, where not the device's own.
    pub mac: Option<Mac>,
    /// Its untagged interface; its name is the port's.
    pub interface: Interface,
    /// Its sub-interfaces.
    pub vlans: Vec<(VlanTags, Interface)>,
}

/// The kind of a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Device {
    /// Receives nothing, counts what is sent.
    Mem,
    /// Files.
    Pcap {
        /// Read from.
        input: Option<String>,
        /// Written to.
        output: Option<String>,
        /// Any bytes are frames; other link types are not refused.
        raw: bool,
    },
    /// The kernel's tap of this name.
    Tap(String),
    /// The kernel's network interface of this name, by packet sockets.
    Packet(String),
    /// A device argument of DPDK.
    Dpdk(String),
}

/// Tags of a sub-interface.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum VlanTags {
    /// One tag.
    One(u16),
    /// The outer tag's type, outer and inner tag.
    Two(Outer, u16, u16),
}

/// A layer-3 interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<Net>,
    /// Bytes of layer 3 that fit.
    pub mtu: u16,
    /// Name of its routing tables.
    pub vrf: String,
}

/// A set of routing tables.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Vrf {
    /// Its name.
    pub name: String,
    /// The kernel's table.
    pub table: u32,
    /// Where its routes come from.
    pub routes: Feed,
    /// Packets may leave by interfaces that are not Rutter's.
    pub via_kernel: bool,
    /// Packets may come from this machine's own addresses.
    pub own_sources: bool,
    /// IPv4's forwarding table.
    pub ipv4: Fib,
    /// IPv6's forwarding table.
    pub ipv6: Fib,
}

/// Where routes come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Feed {
    /// The kernel's table.
    Netlink,
    /// FRR's FPM.
    Fpm,
}

/// A forwarding table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fib {
    /// The engine's name; it exists.
    pub engine: String,
    /// More routes are refused.
    pub max_routes: Option<u64>,
    /// The engine's options; it knows them all.
    pub options: Options,
}

/// A static route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// Where to; a prefix without host bits.
    pub prefix: Net,
    /// What happens to packets.
    pub kind: RouteKind,
    /// Next hops; not empty for unicast, empty for the others.
    pub via: Vec<Via>,
    /// Name of its routing tables.
    pub vrf: String,
    /// The kernel's priority.
    pub metric: Option<u32>,
}

/// A next hop.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Via {
    /// Gateway or interface, or both.
    pub to: Option<IpAddr>,
    /// It exists.
    pub interface: Option<String>,
    /// Share among the next hops.
    pub weight: u16,
}

/// A permanent neighbour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Neighbour {
    /// It exists.
    pub interface: String,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
}

impl Port {
    /// The keys to one of its values, from the root of the file.
    pub fn path<'p>(&'p self, key: &'p str) -> [&'p str; 3] {
        ["ports", &self.name, key]
    }
}

impl Device {
    /// The kernel's interfaces that it names.
    pub fn netdevs(&self) -> Vec<&str> {
        match self {
            Device::Tap(name) | Device::Packet(name) => vec![name],
            Device::Dpdk(text) => {
                let parts = text.split(',').map(str::trim);
                parts.filter_map(|part| part.strip_prefix("iface=")).collect()
            }
            Device::Mem | Device::Pcap { .. } => Vec::new(),
        }
    }

    /// True where the interface that it names has to be there: others make one of
    /// that name.
    pub fn needs_netdev(&self) -> bool {
        let takes = ["net_af_packet", "eth_af_packet", "net_af_xdp", "net_pcap"];
        match self {
            Device::Packet(_) => true,
            Device::Dpdk(text) => takes.iter().any(|name| text.starts_with(name)),
            Device::Mem | Device::Pcap { .. } | Device::Tap(_) => false,
        }
    }
}

impl Config {
    /// Reads a file, for this machine; with it comes what it was read from.
    ///
    /// # Errors
    /// Every mistake in it, or that it cannot be read.
    pub fn load_with(path: &Path, declared: &[Declared]) -> Result<(Config, Text), Mistakes> {
        let file = path.display().to_string();
        let bytes = read_whole(path).map_err(|error| {
            let text = format!("cannot be read: {error}");
            Mistakes(vec![Mistake { file: file.clone(), line: 0, column: 0, text }])
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes());
            let what = "expected text in UTF-8".to_string();
            Mistakes(vec![Mistake::at(&file, &text, at..at, what)])
        })?;
        let config = Config::parse_with(&file, &text, declared)?;
        let source = Text { file, text };
        match config.lacks_a_core(&source, last_core()) {
            Some(mistake) => Err(Mistakes(vec![mistake])),
            None => Ok((config, source)),
        }
    }

    /// Reads a text; `file` is its name in mistakes, `declared` what applications have
    /// in it.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse_with(file: &str, text: &str, declared: &[Declared]) -> Result<Config, Mistakes> {
        read::config(file, text, declared)
    }

    /// A worker's core beyond `last`. What the machine gives is no matter of the
    /// text, so reading it does not ask.
    pub(crate) fn lacks_a_core(&self, source: &Text, last: Option<u16>) -> Option<Mistake> {
        let last = last?;
        let at = self.workers.iter().position(|core| *core > last)?;
        let core = self.workers[at];
        let what = format!("there is no core {core}; the last core is {last}");
        Some(source.mistake(&["workers", &at.to_string()], what))
    }

    /// Why no router with these interfaces takes the route.
    pub fn objection(&self, route: &Route) -> Option<String> {
        let inside = self.interfaces().filter(|(.., interface)| interface.vrf == route.vrf);
        let own: Vec<_> = inside
            .flat_map(|(.., of)| of.addresses.iter().map(|net| (net.address, of.name.as_str())))
            .collect();
        let wrong = |via: &Via| {
            let to = via.to?;
            // Every link may have the same link-local address.
            let is_here = |name| !is_link_local6(to) || via.interface.as_deref() == Some(name);
            if route.prefix.address.is_ipv6() && to.is_ipv4() {
                Some(format!("an IPv6 prefix has IPv6 gateways, not {to}"))
            } else if !is_of_host(to) {
                Some(format!("the gateway {to} is not a single host's address"))
            } else if is_link_local6(to) && via.interface.is_none() {
                Some(format!("the link-local gateway {to} needs its interface"))
            } else if own.iter().any(|(address, name)| *address == to && is_here(*name)) {
                Some(format!("the gateway {to} is this router's own address"))
            } else {
                None
            }
        };
        if route.metric == Some(SHIELD_METRIC) {
            return Some(format!("metric {SHIELD_METRIC} is reserved for protections"));
        }
        route.via.iter().find_map(wrong)
    }

    /// Every layer-3 interface with what carries it, in a fixed order: ports that
    /// carry none but their own and their sub-interfaces, then inner ports'.
    pub fn interfaces(&self) -> impl Iterator<Item = (Carrier<'_>, Option<VlanTags>, &Interface)> {
        let routed = self.ports.iter().filter(|port| self.inner_of(&port.name).is_none());
        let ports = routed.flat_map(|port| {
            let vlans = port.vlans.iter().map(|(tags, vlan)| (Some(*tags), vlan));
            let all = std::iter::once((None, &port.interface)).chain(vlans);
            all.map(move |(tags, interface)| (Carrier::Port(port), tags, interface))
        });
        let inner = self.inner.iter().flat_map(|inner| {
            let all = inner.interfaces.iter();
            all.map(move |of| (Carrier::Inner(inner), of.tags, &of.interface))
        });
        ports.chain(inner)
    }

    /// The inner port that a port is behind of.
    pub fn inner_of(&self, port: &str) -> Option<&InnerPort> {
        self.inner.iter().find(|inner| inner.members.iter().any(|member| member == port))
    }

    /// The number of what carries an interface in the data plane: ports in the
    /// order of the file, inner ones behind them.
    pub fn number(&self, carrier: Carrier<'_>) -> u16 {
        let at = match carrier {
            Carrier::Port(port) => self.ports.iter().position(|one| one.name == port.name),
            Carrier::Inner(inner) => {
                let at = self.inner.iter().position(|one| one.name == inner.name);
                at.map(|at| self.ports.len() + at)
            }
        };
        at.unwrap_or(0) as u16
    }

    /// True when no port is a real device: nothing needs the kernel or privileges.
    pub fn is_offline(&self) -> bool {
        self.ports.iter().all(|port| match &port.device {
            Device::Mem | Device::Pcap { .. } => true,
            Device::Tap(_) | Device::Packet(_) => false,
            Device::Dpdk(argument) => {
                ["net_null", "net_ring"].iter().any(|name| argument.starts_with(name))
            }
        })
    }
}

impl std::fmt::Display for VlanTags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VlanTags::One(vlan) => write!(f, "{vlan}"),
            VlanTags::Two(_, outer, inner) => write!(f, "{outer}.{inner}"),
        }
    }
}

/// A file that has an end, and soon.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20)));
    }
    Ok(bytes)
}

/// Bytes of a configuration: a million static routes.
const LONGEST: u64 = 64 << 20;

/// The highest number of a core that the machine may have; none where it does not say.
fn last_core() -> Option<u16> {
    let cores = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    cores.trim().rsplit([',', '-']).next()?.parse().ok()
}
