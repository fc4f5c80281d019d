//! The keys of what every application shares: workers, devices, ports and their
//! interfaces, VRFs, punting; and the example of a whole configuration.

use std::fmt::Write;

use lookup::lpm::Engines;
use nodes::Class;

use super::section::{Key, Section};

pub(super) const WORKERS: Key = Key::new(
    "workers",
    "[1], or [0] where there is one core",
    "Cores that forward packets; a worker is bound to each.",
)
.example("[1]");
pub(super) const IDLE: Key = Key::new(
    "idle",
    "\"adaptive\"",
    "\"adaptive\": a worker that has had no packets for 1 ms sleeps until one comes. With devices\n\
     that cannot wake it (DPDK's, except net_af_xdp), it sleeps 50 us at a time.\n\
     \"poll\": a worker never sleeps (lowest latency, its core always at 100 %).",
)
.word(&["adaptive", "poll"]);
pub(super) const SPREAD: Key = Key::new(
    "spread",
    "false",
    "Hand packets of a port with fewer queues than workers to the other workers.",
)
.flag();
pub(super) const BUFFERS: Key = Key::new(
    "buffers",
    "16384",
    "Packet buffers in each pool that ports share (512 to 4194304). Many queues need more.",
)
.number(512, 4 << 20);

pub(super) const ROLE: Key = Key::new(
    "role",
    "[]",
    "The roles of this machine, one word or a list: \"gatekeeper\", \"grantor\". It may be left\n\
     out; if it is given, it must name exactly those of [gatekeeper] and [grantor] that the file\n\
     has. With both, the policy of [grantor] decides for protections without Grantors, and no\n\
     other machine is needed.",
)
.example("[\"gatekeeper\", \"grantor\"]");
pub(super) const HUGEPAGES: Key =
    Key::new("hugepages", "\"auto\"", "Use hugepages: true, false, or \"auto\": if any are free.");
pub(super) const MEMORY_MIB: Key =
    Key::new("memory_mib", "0", "Memory to reserve, in MiB; 0: as much as the buffers need.")
        .number(0, 1 << 20);
pub(super) const ARGUMENTS: Key =
    Key::new("arguments", "[]", "Further EAL arguments, as DPDK documents them.");
pub(super) const DPDK: Section = Section::new(
    "dpdk",
    "[dpdk]",
    "DPDK's environment; used only when a port needs it.",
    &[HUGEPAGES, MEMORY_MIB, ARGUMENTS],
);

pub(super) const MAX: Key =
    Key::new("max", "65536", "The most neighbours of each family that the kernel may hold.")
        .number(16, 1 << 22);
pub(super) const NEIGHBOURS: Section = Section::new(
    "neighbours",
    "[neighbours]",
    "Hosts on connected networks (ARP, neighbour discovery).",
    &[MAX],
);

/// A key for each class of packets, with its meaning and its rate.
pub(super) const PUNT_KEYS: [Key; Class::ALL.len()] = {
    let mut keys = [Key::new("", "", ""); Class::ALL.len()];
    let mut i = 0;
    while i < keys.len() {
        let card = Class::ALL[i].card();
        keys[i] = Key::new(card.name, card.rate_text, card.help).number(0, 100_000_000);
        i += 1;
    }
    keys
};
pub(super) const PEERS: Key = Key::new(
    "peers",
    "[]",
    "Addresses whose routing protocols count as those of known neighbours (`control`) from the\n\
     first packet. Rutter finds established sessions, the hosts at their other ends, and resolved\n\
     neighbours on the ports' networks without this key.",
)
.example("[\"192.0.2.2\", \"2001:db8::2\"]");
const PUNT_AND_PEERS: [Key; Class::ALL.len() + 1] = {
    let mut keys = [PEERS; Class::ALL.len() + 1];
    let mut i = 0;
    while i < PUNT_KEYS.len() {
        keys[i] = PUNT_KEYS[i];
        i += 1;
    }
    keys
};
pub(super) const PUNT: Section = Section::new(
    "punt",
    "[punt]",
    "Limits on packets to the kernel: packets a second of each class, for each interface (for\n\
     each port of a bridge). Packets beyond a limit are dropped and counted.",
    &PUNT_AND_PEERS,
);

pub(super) const DEVICE: Key = Key::like(
    "device",
    "\"packet:veth0\"",
    "\"packet:eth1\" for any network interface (\"packet:eth1,direct\" sends past its\n\
     queueing discipline: tc and tcpdump there do not see it), a PCI address\n\
     (0000:01:00.0), any other DPDK device argument (net_af_xdp0,iface=eth1; net_null0\n\
     ...), \"mem\", \"pcap:IN,OUT\" or \"pcap:IN,OUT,raw\" (either may be empty).",
);
pub(super) const ADDRESSES: Key = Key::new(
    "addresses",
    "[]",
    "Addresses with prefix lengths, set on the tap; `ip address` works, too.",
)
.example("[\"192.0.2.1/24\", \"2001:db8:1::1/64\"]");
pub(super) const MTU: Key =
    Key::new("mtu", "1500", "Largest packet, in bytes of layer 3 (68 to 9216).").number(68, 9216);
pub(super) const VRF_NAME: Key =
    Key::new("vrf", "\"main\"", "The VRF whose routing tables its packets use.");
pub(super) const QUEUES: Key = Key::new(
    "queues",
    "0",
    "Receive queues; 0: one for each worker, or as many as the device has.",
)
.number(0, 64);
pub(super) const MAC: Key =
    Key::new("mac", "the device's own", "Hardware address.").example("\"02:00:00:00:00:01\"");
pub(super) const PORT: Section = Section::new(
    "ports.NAME",
    "[ports.p0]",
    "A port and its routed interface. Its name (up to 10 letters and digits) is also the name of\n\
     the interface (a tap) in the kernel.",
    &[DEVICE, ADDRESSES, MTU, VRF_NAME, QUEUES, MAC],
);
pub(super) const OUTER: Key = Key::new(
    "outer",
    "\"0x88a8\"",
    "EtherType of the outer of two tags, in frames sent and received: \"0x88a8\" (802.1ad) or\n\
     \"0x8100\". The inner of two tags, and a single tag, always have 0x8100.",
)
.word(&["0x88a8", "0x8100"]);
/// The keys are those of the port.
pub(super) const VLAN: Section = Section::optional(
    "ports.NAME.vlan.TAGS",
    "[ports.p0.vlan.\"7.8\"]",
    "A sub-interface for frames with these VLAN tags: `100`, or `\"7.8\"` for QinQ\n\
     (outer 7, inner 8). In the kernel: p0.100, p0.7.8.",
    &[
        Key::new("addresses", "[]", "As for ports.").example("[\"198.51.100.1/25\"]"),
        Key::new("mtu", "the port's", "As for ports, at most the port's.").example("1500"),
        Key::new("vrf", "the port's", "As for ports.").example("\"main\""),
        OUTER,
    ],
);

pub(super) const TABLE: Key =
    Key::new("table", "254 for main; required for others", "Number of the kernel's routing table.")
        .example("254")
        .number(1, u32::MAX as u64);
pub(super) const ROUTES: Key = Key::new(
    "routes",
    "\"netlink\"",
    "Where routes come from: \"netlink\" (the kernel's table, whoever writes it) or\n\
     \"fpm\" (FRR connects to 127.0.0.1:2620; in one VRF only).",
)
.word(&["netlink", "fpm"]);
pub(super) const VIA_KERNEL: Key = Key::new(
    "via_kernel",
    "false",
    "Packets whose route leads through an interface that is not Rutter's: true gives them to the\n\
     kernel, which forwards them (up to the rate `via_kernel` of [punt]); false drops them.",
)
.flag();
pub(super) const OWN_SOURCES: Key = Key::new(
    "own_sources",
    "true",
    "Received packets with a source address of this machine: true forwards them like others;\n\
     false drops them, at the price of a second lookup for each packet.",
)
.flag();
pub(super) const IPV4: Key = Key::new(
    "ipv4",
    "the default engine",
    "Forwarding table: `engine`, `max_routes`, and the engine's own options\n\
     (`rutter engines`). Routes beyond `max_routes` are refused and counted.",
)
.example("{ max_routes = 4_000_000 }");
pub(super) const IPV6: Key =
    Key::new("ipv6", "the default engine", "As ipv4.").example("{ max_routes = 4_000_000 }");
pub(super) const VRF: Section = Section {
    more: Some(engines),
    ..Section::new(
        "vrf.NAME",
        "[vrf.main]",
        "A VRF: routing tables of its own. `main` always exists.",
        &[TABLE, ROUTES, VIA_KERNEL, OWN_SOURCES, IPV4, IPV6],
    )
};

/// All keys, in the order of the example.
pub const SECTIONS: &[Section] = &[
    Section::new("", "", "", &[WORKERS, IDLE, SPREAD, BUFFERS, ROLE]),
    DPDK,
    NEIGHBOURS,
    PUNT,
    PORT,
    VLAN,
    VRF,
];

/// A whole configuration with every key of `sections`, its meaning and default. With
/// `all` also the optional tables are live, else they are comments. `change` is the command
/// that changes a section at run time.
pub fn example<'s>(
    sections: impl IntoIterator<Item = &'s Section>,
    all: bool,
    change: impl Fn(&Section) -> Option<&'static str>,
) -> String {
    let mut out = String::from(
        "# Rutter's configuration. Every key is here with its default; most may be left out.\n",
    );
    let mut before = "";
    for section in sections {
        let off = if section.optional && !all { "# " } else { "" };
        out.push('\n');
        comment(&mut out, section.help);
        // A section may be shown twice, one example after the other.
        if let Some(command) = change(section).filter(|_| section.path != before) {
            let _ = writeln!(out, "# At run time: {command}");
        }
        before = section.path;
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
        if let Some(more) = section.more {
            out.push_str(&more());
        }
    }
    out
}

/// The example for this machine: where there is one core, that one forwards.
pub fn for_this_machine(text: String) -> String {
    match super::last_core() {
        Some(0) => text.replacen("workers = [1]", "workers = [0]", 1),
        _ => text,
    }
}

/// False for keys whose example is no default: a copy of the file must not set
/// somebody else's address.
fn live(section: &Section, key: &Key) -> bool {
    section.optional || !matches!(key.name, "mac" | "table" | "addresses" | "peers" | "role")
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
