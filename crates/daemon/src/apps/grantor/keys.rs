//! A Grantor: `[grantor]`.

use crate::config::section::{Key, Section};

pub(super) const GATEKEEPERS: Key = Key::like(
    "gatekeepers",
    "[\"198.51.100.0/28\"]",
    "Prefixes of the Gatekeepers that may ask: their addresses at the back. Packets from other\n\
     addresses are not unwrapped. With [gatekeeper] in the same file, which may always ask, this\n\
     key may be left out.",
);
pub(super) const SERVES: Key = Key::like(
    "serves",
    "[\"203.0.113.0/24\"]",
    "The protected prefixes behind this Grantor. Packets to other destinations are not\n\
     unwrapped. With [gatekeeper] in the same file, this key may be left out.",
);
pub(super) const POLICY: Key = Key::like(
    "policy",
    "\"/etc/rutter/web.lua\"",
    "The policy: a file in Lua (\"FILE.lua\"), which runs in separate processes without\n\
     privileges, or one verdict for all: \"grant KIB SECONDS\" (KiB a second, for so many\n\
     seconds), \"decline SECONDS\", \"forward\" or \"drop\" (the packet only, without a decision).",
);
pub(super) const TABLES: Key = Key::new(
    "policy_files",
    "[]",
    "Files for a policy in Lua, as \"NAME=PATH\": tables of prefixes (`lpmlib.lpm_from_file`) or\n\
     text (`io.open`). The policy opens them by name or path; they are read when it is loaded.",
);
pub(super) const ENGINE4: Key = Key::new(
    "engine4",
    "\"rutter4\"",
    "Engine of a Lua policy's IPv4 tables, as NAME or NAME:OPTION=VALUE,OPTION=VALUE.",
);
pub(super) const ENGINE6: Key = Key::new("engine6", "\"rutter6\"", "The same for its IPv6 tables.");
pub(super) const PROCESSES: Key =
    Key::new("processes", "1", "Processes that run a Lua policy; one more is kept as a spare.")
        .number(1, 32);
pub(super) const MEMORY: Key = Key::new(
    "memory_mib",
    "256",
    "MiB of memory that each process may use, beyond what it has at its start.",
)
.number(16, 1 << 20);
pub(super) const BATCH: Key = Key::new(
    "batch_ms",
    "10",
    "Milliseconds that the policy may take for a batch of up to 64 packets. After that it is\n\
     stopped, and packets without a verdict get that of `on_limit`.",
)
.number(1, 10_000);
pub(super) const LOAD: Key =
    Key::new("load_ms", "10000", "Milliseconds that the policy may take to load.")
        .number(10, 600_000);
pub(super) const FAILURES: Key = Key::new(
    "failures",
    "5",
    "After this many failures of the policy within a minute, the previous policy is used again.",
)
.number(1, 1_000);
pub(super) const WAITING: Key = Key::new(
    "waiting",
    "4096",
    "Packets that may wait for a verdict in each worker. Each holds a packet buffer: those of all\n\
     workers may take at most half of `buffers`, and by default at most a quarter.",
)
.number(1, 65_536);
pub(super) const ASKED: Key = Key::new(
    "asked",
    "1024",
    "How many of these packets the policy is asked about at a time, at most half of `waiting`.\n\
     The others wait in the order of their priorities. If there is no room for another, a packet\n\
     of the lowest priority gets the verdict of `on_full`.",
)
.number(1, 65_536);
pub(super) const QUESTION: Key =
    Key::new("question_bytes", "256", "The most bytes of a frame that the policy gets.")
        .number(64, 65_535);
pub(super) const LIMIT: Key =
    Key::new("limit_ms", "100", "The most milliseconds that a packet waits.").number(1, 60_000);
pub(super) const ON_LIMIT: Key = Key::new(
    "on_limit",
    "\"drop\"",
    "The verdict on a packet that has waited that long, or whose policy failed: one of the\n\
     verdicts of `policy`.",
);
pub(super) const ON_FULL: Key = Key::new(
    "on_full",
    "\"drop\"",
    "The verdict on a packet for which there is no room to wait, as for `on_limit`.",
);
pub(super) const FRAGMENTS: Key = Key::new(
    "fragments",
    "0",
    "Fragments that may wait in each worker for the rest of their packet, in addition to\n\
     `waiting`. The policy is asked about the whole packet, which is forwarded in its fragments.\n\
     If the packet stays incomplete (too late, too many fragments, no room), the policy is asked\n\
     how to punish its flow. 0: the policy is asked about each fragment alone.",
)
.number(0, 65_536);
pub(super) const FRAGMENT_MS: Key =
    Key::new("fragment_ms", "1000", "The most milliseconds that a fragment waits.")
        .number(1, 60_000);
pub(super) const REASSEMBLE: Key = Key::new(
    "reassemble",
    "false",
    "true: a packet whose fragments have waited (`fragments`) is forwarded as one packet if it\n\
     fits the MTU of its path and a packet buffer, else in its fragments.",
)
.flag();
pub(super) const ECN: Key = Key::new(
    "ecn",
    "\"deployed\"",
    "What happens if the outer header reports congestion (ECN). \"deployed\": the inner header\n\
     reports it, too, even if its packet does not support ECN. \"rfc6040\": packets that do not\n\
     support ECN are dropped, and an outer ECT(1) is kept.",
)
.word(&["deployed", "rfc6040"]);
pub(super) const SHADOW: Key = Key::new(
    "shadow",
    "false",
    "true: requests are copies from a shield in shadow mode. The policy decides about them, but\n\
     none is forwarded.",
)
.flag();
pub(super) const SOURCE_PORT: Key =
    Key::new("source_port", "41120", "UDP source port of decisions.").number(1, 65_535);
pub(super) const DESTINATION_PORT: Key =
    Key::new("destination_port", "45232", "UDP destination port of decisions.").number(1, 65_535);

/// Keys that only a policy in a file has.
pub(super) const OF_FILES: [Key; 8] =
    [TABLES, ENGINE4, ENGINE6, PROCESSES, MEMORY, BATCH, LOAD, FAILURES];

/// All keys.
pub(super) const SECTIONS: &[Section] = &[Section::optional(
    "grantor",
    "[grantor]",
    "A Grantor: it unwraps packets that Gatekeepers send to this machine, asks a policy about\n\
     requests, forwards granted packets by its routes, and sends the decisions back.",
    &[
        GATEKEEPERS,
        SERVES,
        POLICY,
        TABLES,
        ENGINE4,
        ENGINE6,
        PROCESSES,
        MEMORY,
        BATCH,
        LOAD,
        FAILURES,
        WAITING,
        ASKED,
        QUESTION,
        LIMIT,
        ON_LIMIT,
        ON_FULL,
        FRAGMENTS,
        FRAGMENT_MS,
        REASSEMBLE,
        ECN,
        SHADOW,
        SOURCE_PORT,
        DESTINATION_PORT,
    ],
)];
