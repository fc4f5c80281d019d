//! Bridges: `[bridge.NAME]`, their ports, VLANs and stations.

use crate::config::section::{Key, Section};

/// A port of a bridge.
const fn bridged(heading: &'static str, keys: &'static [Key]) -> Section {
    let help = "A port of a bridge has no addresses of its own.";
    Section::optional("ports.NAME", heading, help, keys)
}

pub(super) const PORTS: Key = Key::like("ports", "[\"p1\"]", "Its ports.");
pub(super) const ADDRESSES: Key = Key::new(
    "addresses",
    "none, and no routed interface",
    "Makes the routed interface, in the kernel the tap `lan`; as for ports.",
)
.example("[]");
pub(super) const MAX_MACS: Key =
    Key::new("max_macs", "1_000_000", "The most stations that are learnt.").number(16, MOST_MACS);
pub(super) const WHEN_FULL: Key = Key::new(
    "when_full",
    "\"refuse\"",
    "\"refuse\": further stations are not learnt (their frames are flooded).\n\
     \"replace\": each takes the place of one of this bridge that was silent for long, the\n\
     oldest of about a dozen; never of another bridge's, and not beyond a port's limit.",
)
.word(&["refuse", "replace"]);
pub(super) const AGEING: Key =
    Key::new("ageing", "300", "Seconds after which a silent station is forgotten.")
        .number(8, 1_000_000);
pub(super) const LINK_LOCAL: Key = Key::new(
    "link_local",
    "\"drop\"",
    "Frames to 01:80:c2:00:00:0x, which are for the other end of a cable: \"drop\"; \"forward\":\n\
     those that providers' bridges forward (0, b, c, d, f: spanning tree); or by name, any of\n\
     [\"stp\", \"eapol\", \"elmi\", \"provider_stp\", \"ede\", \"provider_mvrp\", \"lldp\"].\n\
     PAUSE, LACP and other control of the link itself are never forwarded.",
);
pub(super) const LOOPS: Key = Key::new(
    "loop_detection",
    "\"block\"",
    "Each port sends a probe a second in each of its VLANs. Where one comes back there is a loop.\n\
     \"block\": the port that it comes in by is taken out, and tried again after 10 s, later up to\n\
     5 minutes. \"report\": the loop is logged and shown. \"off\": no probes. (With the first two,\n\
     a frame that comes in again by other ports is flooded 16 times a second at most.)",
)
.word(&["block", "report", "off"]);
pub(super) const BRIDGE: Section = Section::optional(
    "bridge.NAME",
    "[bridge.lan]",
    "A switch: frames between its ports are forwarded by their MAC addresses.",
    &[
        PORTS,
        ADDRESSES,
        Key::new("mtu", "the ports' smallest", "Of the routed interface.").example("1500"),
        Key::new("vrf", "\"main\"", "Of the routed interface."),
        MAX_MACS,
        WHEN_FULL,
        AGEING,
        LINK_LOCAL,
        LOOPS,
    ],
);

pub(super) const ACCESS: Key = Key::new(
    "access",
    "none",
    "Its frames are untagged and belong to this VLAN; others are dropped.",
)
.example("10")
.number(1, 4094);
pub(super) const TUNNEL: Key = Key::new(
    "tunnel",
    "false",
    "With `access`: tags in its frames, up to two, are payload, and travel inside the VLAN\n\
     (QinQ). On a trunk a third tag counts to the packet's length: give it 4 bytes more.",
)
.flag();
pub(super) const ISOLATED: Key =
    Key::new("isolated", "false", "Its frames do not go to other isolated ports.").flag();
pub(super) const PORT_MACS: Key =
    Key::new("max_macs", "the bridge's", "The most stations that are learnt at it.")
        .example("1000")
        .number(1, MOST_MACS);
pub(super) const FLOOD_UNKNOWN: Key =
    Key::new("flood_unknown", "100000", "Frames a second to unknown stations that are flooded.")
        .number(0, 1 << 31);
pub(super) const FLOOD_BROADCAST: Key =
    Key::new("flood_broadcast", "10000", "Likewise, to all stations.").number(0, 1 << 31);
pub(super) const FLOOD_MULTICAST: Key =
    Key::new("flood_multicast", "100000", "Likewise, to groups.").number(0, 1 << 31);
pub(super) const PORT: Section = Section::optional(
    "bridge.NAME.port.PORT",
    "[bridge.dc.port.p2]",
    "What is special about a port.",
    &[ACCESS, TUNNEL, ISOLATED, PORT_MACS, FLOOD_UNKNOWN, FLOOD_BROADCAST, FLOOD_MULTICAST],
);

pub(super) const TRUNK: Key = Key::new(
    "trunk",
    "none",
    "Its frames are tagged with one of these VLANs; \"all\": with any. All bridges\n\
     together have 4094 VLANs, so with \"all\" there is no other bridge.",
)
.example("[10, \"20-30\"]");
pub(super) const NATIVE: Key = Key::new(
    "native",
    "none",
    "With `trunk`: the VLAN of its untagged frames, which are dropped without.",
)
.example("10")
.number(1, 4094);
/// The same table as [`PORT`], of another port.
pub(super) const TRUNK_PORT: Section =
    Section::optional("bridge.NAME.port.PORT", "[bridge.dc.port.p3]", "A trunk.", &[TRUNK, NATIVE]);

pub(super) const VLAN: Section = Section::optional(
    "bridge.NAME.vlan.VLAN",
    "[bridge.dc.vlan.10]",
    "The routed interface of a VLAN; in the kernel: dc.10.",
    &[
        Key::like("addresses", "[\"198.51.100.129/25\"]", "As for ports."),
        Key::new("mtu", "the ports' smallest", "As for ports.").example("1500"),
        Key::new("vrf", "\"main\"", "As for ports."),
    ],
);

pub(super) const MAC: Key = Key::like("mac", "\"02:00:00:00:00:09\"", "Its address.");
pub(super) const MAC_VLAN: Key =
    Key::new("vlan", "0: the ports have none", "Its VLAN.").example("10").number(0, 4094);
pub(super) const MAC_PORT: Key = Key::like("port", "\"p2\"", "Where it is.");
pub(super) const STATION: Section = Section::optional(
    "bridge.NAME.mac[]",
    "[[bridge.dc.mac]]",
    "A station that is not learnt, and does not age.",
    &[MAC, MAC_VLAN, MAC_PORT],
);

/// All keys, in the order of the example.
pub(super) const SECTIONS: &[Section] = &[
    bridged("[ports.p1]", &[Key::like("device", "\"packet:veth1\"", "As above.")]),
    bridged("[ports.p2]", &[Key::like("device", "\"packet:veth2\"", "As above.")]),
    bridged("[ports.p3]", &[Key::like("device", "\"packet:veth3\"", "As above.")]),
    BRIDGE,
    Section::optional(
        "bridge.NAME",
        "[bridge.dc]",
        "Where a port has `access` or `trunk`, all of its bridge need one of them, and tags\n\
         tell VLANs apart; in a bridge without, tags are payload.",
        &[Key::like("ports", "[\"p2\", \"p3\"]", "Its ports.")],
    ),
    PORT,
    TRUNK_PORT,
    VLAN,
    STATION,
];

/// As many as in the paper.
const MOST_MACS: u64 = 1 << 30;
