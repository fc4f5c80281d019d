//! A shield: `[gatekeeper]`, and `[[gatekeeper.protect]]` for what it protects.

use crate::config::section::{Key, Section};

pub(super) const FRONT: Key = Key::like(
    "front",
    "[\"p0\"]",
    "Interfaces (ports, sub-interfaces, bridges' routed ones) by which the world comes in. What\n\
     else of `main` has the port of one is of the front, too, unless `back` names it.",
);
pub(super) const BACK: Key = Key::like(
    "back",
    "[\"p0.7.8\"]",
    "Interfaces towards what is protected, and towards its Grantors.",
);
pub(super) const TABLE: Key = Key::new(
    "table",
    "\"flow-table\"",
    "What remembers flows: \"flow-table\", or a table of the thesis, whose rule is \"thesis\"; or a\n\
     table of `engine` and its own options: { engine = \"flow-table\", keep = 20 }.",
);
pub(super) const ENTRIES: Key = Key::new(
    "entries",
    "1_048_576",
    "Flows that all workers together remember: 72 bytes each, and 64 more for each of\n\
     `decided_max`. The memory is taken at the start. Clients stand out from a flood of new\n\
     sources as long as the table holds 1.3 seconds of it (`rutter show capacity`).",
)
.number(1, (1 << 28) - 2);
pub(super) const FULL: Key = Key::new(
    "full",
    "\"replace\"",
    "A new flow in a full table. \"replace\": the one that would go first makes room for it, never\n\
     a grant that carried a packet in the last 10 seconds. \"thesis\": its packets ask all the\n\
     same, with the lowest priority. \"deployed\": they are dropped.",
)
.word(&["replace", "thesis", "deployed"]);
pub(super) const DECIDED_MAX: Key =
    Key::new("decided_max", "75", "Percent of a table that replaces which decisions may take up.")
        .number(1, 100);
pub(super) const BANDWIDTH: Key =
    Key::new("bandwidth_mbps", "1000", "What the protected network can receive, in Mbit/s.")
        .number(1, 1_000_000);
pub(super) const REQUESTS: Key = Key::new(
    "request_percent",
    "5",
    "Percent of it (0.0001 to 100) for packets that ask for a decision, all workers together.\n\
     A frame counts as it leaves, and 24 bytes.",
);
pub(super) const DECISIONS: Key = Key::new(
    "requests",
    "10_000",
    "What [grantor] of this file decides: packets a second that ask its policy, all workers\n\
     together, the most patient first.",
)
.number(1, 100_000_000);
pub(super) const WAITING: Key = Key::new(
    "waiting",
    "512",
    "Requests that may wait for their turn, of each worker. All of them have a packet buffer:\n\
         at most half of `buffers`; if this is not given, a quarter.",
)
.number(1, 65_536);
pub(super) const FROM: Key = Key::new(
    "from",
    "the first address of each family at the back",
    "This machine's addresses, one of a family: Grantors are asked from them, and send their\n\
     decisions to them.",
)
.example("[\"198.51.100.1\"]");
pub(super) const SOURCE_PORT: Key =
    Key::new("source_port", "41120", "UDP port that decisions come from.").number(1, 65_535);
pub(super) const DESTINATION_PORT: Key =
    Key::new("destination_port", "45232", "UDP port that they go to.").number(1, 65_535);
pub(super) const DECISIONS_FROM: Key = Key::new(
    "decisions_from",
    "\"its_grantors\"",
    "Whose decisions count, of those heard at the back. \"its_grantors\": of the Grantors that the\n\
     protection of the destination names. \"grantors\": of any protection's, for all that is\n\
     protected. \"anybody\": whoever can send to this machine's address opens the shield.",
)
.word(&["its_grantors", "grantors", "anybody"]);
pub(super) const ICMP_RATE: Key = Key::new(
    "icmp_rate",
    "1000",
    "ICMP errors that are sent a second for packets to protected prefixes, by all workers.",
)
.number(0, 1_000_000);
pub(super) const WITHDRAW: Key = Key::new(
    "withdraw",
    "false",
    "A protected prefix whose last Grantor cannot be reached for 3 seconds: true takes it out of\n\
     the kernel's routes until one can, so that routing daemons announce it no more.",
)
.flag();
pub(super) const SHIELD: Section = Section::optional(
    "gatekeeper",
    "[gatekeeper]",
    "A shield (Gatekeeper): what comes in at the front for a protected prefix passes where a\n\
     Grantor has granted it, is dropped where one has declined it, and else asks.\n\
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

pub(super) const PREFIX: Key = Key::like("prefix", "\"203.0.113.0/24\"", "What it covers.");
pub(super) const ACTION: Key = Key::new(
    "action",
    "\"protect\"",
    "\"protect\": Grantors decide. \"bypass\": packets go on by their route, to the back.\n\
     \"drop\": none passes. A bypass must not lie in a shield, nor a shield in a bypass.",
)
.word(&["protect", "bypass", "drop"]);
pub(super) const GRANTORS: Key = Key::new(
    "grantors",
    "[]",
    "Who decides: addresses, or tables of `to`, `weight` (1 to 256: a share of the flows) and\n\
     `shadow` (it is asked in shadow, and forwards nothing). Nobody: [grantor] of this file.",
)
.example("[\"198.51.100.9\", { to = \"198.51.100.10\", weight = 2 }]");
pub(super) const SHADOW: Key = Key::new(
    "shadow",
    "false",
    "true: verdicts are counted, and packets go on as with \"bypass\".",
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
    "The number by which decisions name it: 0 to 255. 0 (granted) and 1 (declined) are built in, 2\n\
     (grantedv2), 3 (web) and 4 (tcp-services) come with Rutter; each may be replaced.",
)
.number(0, 255);
pub(super) const OBJECT: Key = Key::like(
    "object",
    "\"/etc/rutter/dns.bpf\"",
    "An ELF file of eBPF with the functions `init` and `pkt`. It is checked before it runs.",
);
pub(super) const NAME: Key =
    Key::new("name", "the file's name", "What `rutter gatekeeper program` shows.")
        .example("\"dns\"");
pub(super) const PROGRAM: Section = Section::optional(
    "gatekeeper.program[]",
    "[[gatekeeper.program]]",
    "A program that says, packet by packet, what a flow may do whose decision names it.",
    &[INDEX, OBJECT, NAME],
);

/// All keys.
pub(super) const SECTIONS: &[Section] = &[SHIELD, PROTECT, PROGRAM];
