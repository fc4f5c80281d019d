//! A shield: `[gatekeeper]`, and `[[gatekeeper.protect]]` for what it protects.

use crate::config::section::{Key, Section};

pub(super) const FRONT: Key = Key::like(
    "front",
    "[\"p0\"]",
    "Interfaces towards the world: ports, sub-interfaces, bridges' routed interfaces. Every other\n\
     interface of `main` on one of their ports is also front, unless `back` names it.",
);
pub(super) const BACK: Key = Key::like(
    "back",
    "[\"p0.7.8\"]",
    "Interfaces towards the protected networks and their Grantors.",
);
pub(super) const TABLE: Key = Key::new(
    "table",
    "\"flow-table\"",
    "The engine of the flow table: \"flow-table\", or one of the thesis (their `full` is always\n\
     \"thesis\"). With options: { engine = \"flow-table\", keep = 20 }.",
);
pub(super) const ENTRIES: Key = Key::new(
    "entries",
    "1_048_576",
    "Flows that all workers together remember, at 72 bytes each, and 64 more for each flow that\n\
     `decided_max` allows. The memory is reserved at the start. To recognise patient clients in a\n\
     flood of new sources, the table must hold 1.3 seconds of the flood (`rutter show capacity`).",
)
.number(1, (1 << 28) - 2);
pub(super) const FULL: Key = Key::new(
    "full",
    "\"replace\"",
    "What happens to a new flow if the table is full. \"replace\": it takes the place of the flow\n\
     that would expire first, of 16 places and to within 8 ms, but never of a grant that carried a\n\
     packet in the last 10 seconds; requests that expire soon leave from 7/8 of the table on.\n\
     \"thesis\": it is not remembered, and its packets ask with the lowest priority.\n\
     \"deployed\": its packets are dropped.",
)
.word(&["replace", "thesis", "deployed"]);
pub(super) const DECIDED_MAX: Key = Key::new(
    "decided_max",
    "75",
    "With `full = \"replace\"`: percent of the table for decided flows.",
)
.number(1, 100);
pub(super) const BANDWIDTH: Key =
    Key::new("bandwidth_mbps", "1000", "The bandwidth of the protected network, in Mbit/s.")
        .number(1, 1_000_000);
pub(super) const REQUESTS: Key = Key::new(
    "request_percent",
    "5",
    "Percent of `bandwidth_mbps` (0.0001 to 100) for requests to Grantors, of all workers\n\
     together. Each counts as the frame that is sent, plus 24 bytes (preamble, checksum, gap).",
);
pub(super) const DECISIONS: Key = Key::new(
    "requests",
    "10_000",
    "If [grantor] of this file decides: packets a second that its policy is asked about, of all\n\
     workers together, those of the most patient senders first.",
)
.number(1, 100_000_000);
pub(super) const WAITING: Key = Key::new(
    "waiting",
    "512",
    "Requests that may wait for their turn in each worker. Each holds a packet buffer: those of\n\
     all workers may take at most half of `buffers`, and by default at most a quarter.",
)
.number(1, 65_536);
pub(super) const FROM: Key = Key::new(
    "from",
    "the first address of each family at the back",
    "This machine's addresses for Grantors, one of each family: requests are sent from them, and\n\
     Grantors send their decisions to them.",
)
.example("[\"198.51.100.1\"]");
pub(super) const SOURCE_PORT: Key =
    Key::new("source_port", "41120", "UDP source port of decisions.").number(1, 65_535);
pub(super) const DESTINATION_PORT: Key =
    Key::new("destination_port", "45232", "UDP destination port of decisions.").number(1, 65_535);
pub(super) const DECISIONS_FROM: Key = Key::new(
    "decisions_from",
    "\"its_grantors\"",
    "Whose decisions are accepted at the back. \"its_grantors\": those of the Grantors that the\n\
     destination's protection names. \"grantors\": those of any protection's Grantors.\n\
     \"anybody\": all; whoever can send to this machine's address can then open the shield.",
)
.word(&["its_grantors", "grantors", "anybody"]);
pub(super) const ICMP_RATE: Key = Key::new(
    "icmp_rate",
    "1000",
    "ICMP errors a second about packets to protected prefixes, of all workers together.",
)
.number(0, 1_000_000);
pub(super) const WITHDRAW: Key = Key::new(
    "withdraw",
    "false",
    "true: if none of a prefix's Grantors has been reachable for 3 seconds, its route is removed\n\
     from the kernel until one is reachable again, and routing daemons withdraw the prefix.",
)
.flag();
pub(super) const SHIELD: Section = Section::optional(
    "gatekeeper",
    "[gatekeeper]",
    "A shield (Gatekeeper). A packet from the front to a protected prefix passes if a Grantor has\n\
     granted its flow, and is dropped if one has declined it. All others ask a Grantor.\n\
     Front and back are interfaces of `main`.",
    &[
        FRONT,
        BACK,
        TABLE,
        ENTRIES,
        FULL,
        DECIDED_MAX,
        BANDWIDTH,
        REQUESTS,
        DECISIONS,
        WAITING,
        FROM,
        SOURCE_PORT,
        DESTINATION_PORT,
        DECISIONS_FROM,
        ICMP_RATE,
        WITHDRAW,
    ],
);

pub(super) const PREFIX: Key = Key::like("prefix", "\"203.0.113.0/24\"", "The protected prefix.");
pub(super) const ACTION: Key = Key::new(
    "action",
    "\"protect\"",
    "\"protect\": Grantors decide. \"bypass\": packets are forwarded by their route, to the back.\n\
     \"drop\": packets are dropped. A bypass must not be inside a protected prefix, nor a\n\
     protected prefix inside a bypass.",
)
.word(&["protect", "bypass", "drop"]);
pub(super) const GRANTORS: Key = Key::new(
    "grantors",
    "[]",
    "The Grantors: addresses, or tables of `to`, `weight` (1 to 256: its share of the flows) and\n\
     `shadow` (it is asked in shadow mode only, and forwards nothing). None: [grantor] of this\n\
     file decides.",
)
.example("[\"198.51.100.9\", { to = \"198.51.100.10\", weight = 2 }]");
pub(super) const SHADOW: Key = Key::new(
    "shadow",
    "false",
    "true: verdicts are only counted, and packets are forwarded as with \"bypass\".",
)
.flag();
pub(super) const PROTECT: Section = Section::optional(
    "gatekeeper.protect[]",
    "[[gatekeeper.protect]]",
    "A protected prefix, shown to routing daemons as a blackhole route (protocol 199, metric 8).",
    &[PREFIX, ACTION, GRANTORS, SHADOW],
);

pub(super) const INDEX: Key = Key::like(
    "index",
    "5",
    "The number by which decisions name it, 0 to 255. 0 (granted) and 1 (declined) are built in;\n\
     2 (grantedv2), 3 (web) and 4 (tcp-services) come with Rutter. All can be replaced.",
)
.number(0, 255);
pub(super) const OBJECT: Key = Key::like(
    "object",
    "\"/etc/rutter/dns.bpf\"",
    "An ELF file of eBPF with the functions `init` and `pkt`. Rutter checks it before it runs.",
);
pub(super) const NAME: Key =
    Key::new("name", "the file's name", "The name that `rutter gatekeeper program show` prints.")
        .example("\"dns\"");
pub(super) const PROGRAM: Section = Section::optional(
    "gatekeeper.program[]",
    "[[gatekeeper.program]]",
    "An eBPF program: it decides about each packet of the flows whose decisions name it.",
    &[INDEX, OBJECT, NAME],
);

/// All keys.
pub(super) const SECTIONS: &[Section] = &[SHIELD, PROTECT, PROGRAM];
