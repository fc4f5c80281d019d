//! Every key of the configuration: what it means, its default, an example.
//! `rutter config example`, the manual page and the reader's idea of what
//! exists come from here.

use std::fmt::Write;

use lookup::lpm::Engines;

/// A table of the file.
pub struct Section {
    /// As written in messages; `NAME`, `TAGS` stand for the user's choice.
    pub path: &'static str,
    /// Its heading in the example.
    pub heading: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Written as comments in the example: not there unless the user wants it.
    pub optional: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

/// One key.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// TOML; `None` where it has to be given, or there is none.
    pub default: Option<&'static str>,
    /// TOML.
    pub example: &'static str,
    /// What it does.
    pub help: &'static str,
}

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, default: Some(default), example: default, help }
}

const fn like(name: &'static str, example: &'static str, help: &'static str) -> Key {
    Key { name, default: None, example, help }
}

/// A port of a bridge.
const fn bridged(heading: &'static str, keys: &'static [Key]) -> Section {
    let help = "A port of a bridge has no addresses of its own.";
    Section { path: "ports.NAME", heading, help, optional: true, keys }
}

/// All of them, in the order of the example.
pub const SECTIONS: &[Section] = &[
    Section {
        path: "",
        heading: "",
        help: "",
        optional: false,
        keys: &[
            Key {
                name: "workers",
                default: Some("[1], or [0] where there is one core"),
                example: "[1]",
                help: "Cores that forward; the rest of the machine is control.",
            },
            key(
                "idle",
                "\"adaptive\"",
                "\"adaptive\": a worker without packets for 1 ms sleeps 50 us at a time.\n\
                 \"poll\": it never sleeps (lowest latency, a core always at 100 %).",
            ),
            key(
                "spread",
                "false",
                "Hand packets of a port with fewer queues than workers to the other workers.",
            ),
            key(
                "buffers",
                "16384",
                "Packet buffers for each pool of ports (512 to 4194304); more for many queues.",
            ),
        ],
    },
    Section {
        path: "dpdk",
        heading: "[dpdk]",
        help: "DPDK's environment; used only when a port needs it.",
        optional: false,
        keys: &[
            key(
                "hugepages",
                "\"auto\"",
                "true, false, or \"auto\": where the machine has free ones.",
            ),
            key("memory_mib", "0", "Memory to reserve, in MiB; 0: as much as the buffers need."),
            key("arguments", "[]", "Further arguments of the EAL, as DPDK documents them."),
        ],
    },
    Section {
        path: "neighbours",
        heading: "[neighbours]",
        help: "Hosts on connected networks (ARP, neighbour discovery).",
        optional: false,
        keys: &[key("max", "65536", "Neighbours of each family that the kernel may hold.")],
    },
    Section {
        path: "punt",
        heading: "[punt]",
        help: "Packets a second that are handed to the kernel, by class; more are dropped and counted.",
        optional: false,
        keys: &[
            key("arp_nd", "2000", "ARP and neighbour discovery."),
            key("control", "100000", "Routing protocols: BGP, OSPF, BFD, VRRP."),
            key("for_us", "10000", "Other packets to this router's own addresses."),
            key("multicast", "10000", "Multicast and broadcast."),
            key(
                "ttl_exceeded",
                "1000",
                "TTL or hop limit used up: the kernel sends the ICMP error.",
            ),
            key(
                "too_big",
                "1000",
                "Longer than the MTU: the kernel fragments, or sends the ICMP error.",
            ),
            key(
                "no_neighbour",
                "1000",
                "Destinations on a link whose hardware address is unknown (one a second for each).",
            ),
            key("via_kernel", "10000", "Routes through interfaces that are not Rutter's."),
            key("unreachable", "1000", "No route, or an unreachable or prohibit route."),
            key("options", "500", "IPv4 packets with options."),
            key("unknown", "500", "Protocols that Rutter does not know."),
        ],
    },
    Section {
        path: "ports.NAME",
        heading: "[ports.p0]",
        help: "A port and its routed interface; the name (up to 10 letters and digits) is that\n\
               of the interface (tap) in the kernel, too.",
        optional: false,
        keys: &[
            like(
                "device",
                "\"net_af_packet0,iface=veth0\"",
                "Any DPDK device argument (net_af_packet0,iface=eth1; net_af_xdp0,iface=eth1;\n\
                 net_null0 ...), a PCI address (0000:01:00.0), \"mem\", \"pcap:IN,OUT\" or\n\
                 \"pcap:IN,OUT,raw\" (either may be empty).",
            ),
            Key {
                name: "addresses",
                default: Some("[]"),
                example: "[\"192.0.2.1/24\", \"2001:db8:1::1/64\"]",
                help: "Addresses with their network's length, set on the tap; `ip address` works too.",
            },
            key("mtu", "1500", "Largest packet, in bytes of layer 3 (68 to 9216)."),
            key("vrf", "\"main\"", "Routing tables that its packets use."),
            key("queues", "0", "Receive queues; 0: one for each worker, as far as the device can."),
            Key {
                name: "mac",
                default: Some("the device's own"),
                example: "\"02:00:00:00:00:01\"",
                help: "Hardware address.",
            },
        ],
    },
    Section {
        path: "ports.NAME.vlan.TAGS",
        heading: "[ports.p0.vlan.100]",
        help: "A sub-interface for frames with this VLAN tag: `100`, or `\"7.8\"` for QinQ\n\
               (outer 7, inner 8). In the kernel: p0.100.",
        optional: true,
        keys: &[
            Key {
                name: "addresses",
                default: Some("[]"),
                example: "[\"198.51.100.1/25\"]",
                help: "As for ports.",
            },
            Key {
                name: "mtu",
                default: Some("the port's"),
                example: "1500",
                help: "As for ports, at most the port's.",
            },
            Key {
                name: "vrf",
                default: Some("the port's"),
                example: "\"main\"",
                help: "As for ports.",
            },
        ],
    },
    Section {
        path: "vrf.NAME",
        heading: "[vrf.main]",
        help: "Routing tables. `main` is always there.",
        optional: false,
        keys: &[
            Key {
                name: "table",
                default: Some("254 for main; others have to say"),
                example: "254",
                help: "The kernel's table.",
            },
            key(
                "routes",
                "\"netlink\"",
                "Where routes come from: \"netlink\" (the kernel's table, whoever writes it) or\n\
                 \"fpm\" (FRR connects to 127.0.0.1:2620).",
            ),
            Key {
                name: "ipv4",
                default: Some("the default engine"),
                example: "{ max_routes = 4_000_000 }",
                help: "Forwarding table: `engine`, `max_routes`, and the engine's own options\n\
                       (`rutter engines`). More routes than `max_routes` are refused and counted.",
            },
            Key {
                name: "ipv6",
                default: Some("the default engine"),
                example: "{ max_routes = 4_000_000 }",
                help: "As ipv4.",
            },
        ],
    },
    bridged("[ports.p1]", &[like("device", "\"net_af_packet1,iface=veth1\"", "As above.")]),
    bridged("[ports.p2]", &[like("device", "\"net_af_packet2,iface=veth2\"", "As above.")]),
    bridged("[ports.p3]", &[like("device", "\"net_af_packet3,iface=veth3\"", "As above.")]),
    Section {
        path: "bridge.NAME",
        heading: "[bridge.lan]",
        help: "A switch: frames between its ports are forwarded by their MAC addresses.",
        optional: true,
        keys: &[
            like("ports", "[\"p1\"]", "Its ports."),
            Key {
                name: "addresses",
                default: Some("none, and no routed interface"),
                example: "[]",
                help: "Makes the routed interface, in the kernel the tap `lan`; as for ports.",
            },
            Key {
                name: "mtu",
                default: Some("the ports' smallest"),
                example: "1500",
                help: "Of the routed interface.",
            },
            key("vrf", "\"main\"", "Of the routed interface."),
            key("max_macs", "1_000_000", "The most stations that are learnt."),
            key(
                "when_full",
                "\"refuse\"",
                "\"refuse\": further stations are not learnt (their frames are flooded).\n\
                 \"replace\": each takes the place of one of this bridge that was silent for long, the\n\
                 oldest of about a dozen; never of another bridge's, and not beyond a port's limit.",
            ),
            key("ageing", "300", "Seconds after which a silent station is forgotten."),
            key(
                "link_local",
                "\"drop\"",
                "Frames to 01:80:c2:00:00:0x (spanning tree, LACP, LLDP): \"drop\" or \"forward\".",
            ),
        ],
    },
    Section {
        path: "bridge.NAME",
        heading: "[bridge.dc]",
        help: "Where a port has `access` or `trunk`, all of its bridge need one of them, and tags\n\
               tell VLANs apart; in a bridge without, tags are payload.",
        optional: true,
        keys: &[like("ports", "[\"p2\", \"p3\"]", "Its ports.")],
    },
    Section {
        path: "bridge.NAME.port.PORT",
        heading: "[bridge.dc.port.p2]",
        help: "What is special about a port.",
        optional: true,
        keys: &[
            Key {
                name: "access",
                default: Some("none"),
                example: "10",
                help: "Its frames are untagged and belong to this VLAN; others are dropped.",
            },
            key(
                "tunnel",
                "false",
                "With `access`: tags in its frames, up to two, are payload, and travel inside the VLAN\n\
                 (QinQ). On a trunk a third tag counts to the packet's length: give it 4 bytes more.",
            ),
            key("isolated", "false", "Its frames do not go to other isolated ports."),
            Key {
                name: "max_macs",
                default: Some("the bridge's"),
                example: "1000",
                help: "The most stations that are learnt at it.",
            },
            key("flood_unknown", "100000", "Frames a second to unknown stations that are flooded."),
            key("flood_broadcast", "10000", "Likewise, to all stations."),
            key("flood_multicast", "100000", "Likewise, to groups."),
        ],
    },
    Section {
        path: "bridge.NAME.port.PORT",
        heading: "[bridge.dc.port.p3]",
        help: "A trunk.",
        optional: true,
        keys: &[
            Key {
                name: "trunk",
                default: Some("none"),
                example: "[10, \"20-30\"]",
                help: "Its frames are tagged with one of these VLANs; \"all\": with any. All bridges\n\
                       together have 4094 VLANs, so with \"all\" there is no other bridge.",
            },
            Key {
                name: "native",
                default: Some("none"),
                example: "10",
                help: "With `trunk`: the VLAN of its untagged frames, which are dropped without.",
            },
        ],
    },
    Section {
        path: "bridge.NAME.vlan.VLAN",
        heading: "[bridge.dc.vlan.10]",
        help: "The routed interface of a VLAN; in the kernel: dc.10.",
        optional: true,
        keys: &[
            like("addresses", "[\"198.51.100.129/25\"]", "As for ports."),
            Key {
                name: "mtu",
                default: Some("the ports' smallest"),
                example: "1500",
                help: "As for ports.",
            },
            key("vrf", "\"main\"", "As for ports."),
        ],
    },
    Section {
        path: "bridge.NAME.mac[]",
        heading: "[[bridge.dc.mac]]",
        help: "A station that is not learnt, and does not age.",
        optional: true,
        keys: &[
            like("mac", "\"02:00:00:00:00:09\"", "Its address."),
            Key {
                name: "vlan",
                default: Some("0: the ports have none"),
                example: "10",
                help: "Its VLAN.",
            },
            like("port", "\"p2\"", "Where it is."),
        ],
    },
    Section {
        path: "route[]",
        heading: "[[route]]",
        help: "A static route, written to the kernel's table (protocol 198).",
        optional: true,
        keys: &[
            like("prefix", "\"203.0.113.0/24\"", "Where to."),
            like(
                "via",
                "[\"192.0.2.2\", { to = \"192.0.2.3\", weight = 2 }]",
                "Gateways: addresses, or tables of `to`, `interface`, `weight` (1 to 256).",
            ),
            key(
                "kind",
                "\"unicast\"",
                "\"unicast\", \"blackhole\", \"unreachable\", \"prohibit\".",
            ),
            key("vrf", "\"main\"", "Routing tables."),
            Key {
                name: "metric",
                default: Some("the kernel's"),
                example: "20",
                help: "Of equal prefixes the lowest wins.",
            },
        ],
    },
    Section {
        path: "neighbour[]",
        heading: "[[neighbour]]",
        help: "A permanent neighbour.",
        optional: true,
        keys: &[
            like("interface", "\"p0\"", "Where."),
            like("address", "\"192.0.2.2\"", "Its address."),
            like("mac", "\"02:00:00:00:00:02\"", "Its hardware address."),
        ],
    },
];

/// Names of tables that are known beside the keys of their parent.
pub const ROOT_TABLES: &[&str] =
    &["dpdk", "neighbours", "punt", "ports", "vrf", "route", "neighbour", "bridge"];

/// Names of the keys of the sections at `path`.
///
/// # Panics
/// When there is no such section: callers name constants.
pub fn names(path: &str) -> Vec<&'static str> {
    let sections = SECTIONS.iter().filter(|section| section.path == path);
    let names: Vec<_> = sections.flat_map(|section| section.keys).map(|key| key.name).collect();
    assert!(!names.is_empty(), "no section is called {path}");
    names
}

/// A whole configuration with every key, its meaning and default. With `all`
/// also the optional tables are live, else they are comments.
pub fn example(all: bool) -> String {
    let mut out = String::from(
        "# Rutter's configuration. Every key is here with its default; most may be left out.\n",
    );
    for section in SECTIONS {
        let off = if section.optional && !all { "# " } else { "" };
        out.push('\n');
        comment(&mut out, section.help);
        if !section.heading.is_empty() {
            let _ = writeln!(out, "{off}{}", section.heading); // cannot fail: a String
        }
        for key in section.keys {
            comment(&mut out, key.help);
            if let Some(default) = key.default.filter(|default| *default != key.example) {
                let _ = writeln!(out, "# (default: {default})");
            }
            let off = if all || live(section, key) { off } else { "# " };
            let _ = writeln!(out, "{off}{} = {}", key.name, key.example);
        }
        if section.path == "vrf.NAME" {
            out.push_str(&engines());
        }
    }
    out
}

/// The example for this machine: where there is one core, that one forwards.
pub fn example_here() -> String {
    let text = example(false);
    match super::last_core() {
        Some(0) => text.replacen("workers = [1]", "workers = [0]", 1),
        _ => text,
    }
}

/// False for keys whose example is no default: a copy of the file must not set
/// somebody else's address.
fn live(section: &Section, key: &Key) -> bool {
    section.optional || !matches!(key.name, "mac" | "table" | "addresses")
}

/// The engines with their options, as comments.
fn engines() -> String {
    let mut out = String::from("# Engines and their options:\n");
    let v4 = u32::engines().iter().map(|entry| ("ipv4", u32::DEFAULT, entry.card));
    let v6 = u128::engines().iter().map(|entry| ("ipv6", u128::DEFAULT, entry.card));
    for (family, default, card) in v4.chain(v6) {
        let mark = if card.name == default { " (default)" } else { "" };
        let _ = writeln!(out, "#   {family} {}{mark}: {}", card.name, card.help);
        for (name, default, help) in card.options {
            let _ = writeln!(out, "#     {name} = {default}: {help}");
        }
    }
    out
}

fn comment(out: &mut String, text: &str) {
    for line in text.lines() {
        let _ = writeln!(out, "# {line}");
    }
}
