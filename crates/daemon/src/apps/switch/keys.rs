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
    "Creates the routed interface (in the kernel, the tap `lan`), with these addresses.",
)
.example("[]");
pub(super) const MAX_MACS: Key =
    Key::new("max_macs", "1_000_000", "The most stations that the bridge learns.")
        .number(16, MOST_MACS);
pub(super) const WHEN_FULL: Key = Key::new(
    "when_full",
    "\"refuse\"",
    "\"refuse\": further stations are not learnt (frames to them are flooded).\n\
     \"replace\": each takes the place of a long-silent station of this bridge, the oldest of\n\
     about a dozen. Stations of other bridges stay, and the limits of ports still apply.",
)
.word(&["refuse", "replace"]);
pub(super) const AGEING: Key =
    Key::new("ageing", "300", "Seconds after which a silent station is forgotten.")
        .number(8, 1_000_000);
pub(super) const LINK_LOCAL: Key = Key::new(
    "link_local",
    "\"drop\"",
    "Frames to 01:80:c2:00:00:0x, which are for the other end of a cable. \"drop\": drop all.\n\
     \"forward\": forward those that provider bridges forward (0, b, c, d, f: spanning tree).\n\
     A list: forward those that it names, any of\n\
     [\"stp\", \"eapol\", \"elmi\", \"provider_stp\", \"ede\", \"provider_mvrp\", \"lldp\"].\n\
     PAUSE, LACP and other frames that control the link itself are never forwarded.",
);
pub(super) const LOOPS: Key = Key::new(
    "loop_detection",
    "\"block\"",
    "Each port sends a probe a second in each of its VLANs. A probe that comes back shows a loop.\n\
     \"block\": the port that receives the probe is taken out of use. It is tested again after\n\
     10 s, later after up to 5 minutes. \"report\": the loop is only logged and shown. \"off\":\n\
     no probes. (With \"block\" and \"report\", a frame that comes in again by other ports is\n\
     flooded at most 16 times a second.)",
)
.word(&["block", "report", "off"]);
pub(super) const BRIDGE: Section = Section::optional(
    "bridge.NAME",
    "[bridge.lan]",
    "A switch: frames between its ports are forwarded by their MAC addresses.",
    &[
        PORTS,
        ADDRESSES,
        Key::new("mtu", "the ports' smallest", "MTU of the routed interface.").example("1500"),
        Key::new("vrf", "\"main\"", "VRF of the routed interface."),
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
     (QinQ). On a trunk, a third tag counts towards the MTU: raise the trunk's `mtu` by 4 bytes.",
)
.flag();
pub(super) const ISOLATED: Key =
    Key::new("isolated", "false", "Its frames are not forwarded to other isolated ports.").flag();
pub(super) const PORT_MACS: Key =
    Key::new("max_macs", "the bridge's", "The most stations that are learnt at this port.")
        .example("1000")
        .number(1, MOST_MACS);
pub(super) const FLOOD_UNKNOWN: Key = Key::new(
    "flood_unknown",
    "100000",
    "The most frames to unknown stations that are flooded in a second.",
)
.number(0, 1 << 31);
pub(super) const FLOOD_BROADCAST: Key =
    Key::new("flood_broadcast", "10000", "The same for broadcast frames.").number(0, 1 << 31);
pub(super) const FLOOD_MULTICAST: Key =
    Key::new("flood_multicast", "100000", "The same for multicast frames.").number(0, 1 << 31);
pub(super) const PORT: Section = Section::optional(
    "bridge.NAME.port.PORT",
    "[bridge.dc.port.p2]",
    "Settings of one port of a bridge.",
    &[ACCESS, TUNNEL, ISOLATED, PORT_MACS, FLOOD_UNKNOWN, FLOOD_BROADCAST, FLOOD_MULTICAST],
);

pub(super) const TRUNK: Key = Key::new(
    "trunk",
    "none",
    "Its frames are tagged with one of these VLANs; \"all\": with any VLAN. All bridges\n\
     together may have 4094 VLANs, so with \"all\" there can be no other bridge.",
)
.example("[10, \"20-30\"]");
pub(super) const NATIVE: Key = Key::new(
    "native",
    "none",
    "With `trunk`: the VLAN of its untagged frames. Without it, they are dropped.",
)
.example("10")
.number(1, 4094);
/// The same table as [`PORT`], of another port.
pub(super) const TRUNK_PORT: Section = Section::optional(
    "bridge.NAME.port.PORT",
    "[bridge.dc.port.p3]",
    "A trunk port.",
    &[TRUNK, NATIVE],
);

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

pub(super) const MAC: Key = Key::like("mac", "\"02:00:00:00:00:09\"", "Its MAC address.");
pub(super) const MAC_VLAN: Key =
    Key::new("vlan", "0: the ports have no VLANs", "Its VLAN.").example("10").number(0, 4094);
pub(super) const MAC_PORT: Key = Key::like("port", "\"p2\"", "The port where it is.");
pub(super) const STATION: Section = Section::optional(
    "bridge.NAME.mac[]",
    "[[bridge.dc.mac]]",
    "A static station: it is not learnt, and does not age.",
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
        "A bridge with VLANs. If one port of a bridge has `access` or `trunk`, each of its ports\n\
         needs one of the two, and tags select the VLAN. In other bridges, tags are payload.",
        &[Key::like("ports", "[\"p2\", \"p3\"]", "Its ports.")],
    ),
    PORT,
    TRUNK_PORT,
    VLAN,
    STATION,
];

/// As many as in the paper.
const MOST_MACS: u64 = 1 << 30;
