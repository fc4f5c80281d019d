//! A Grantor: `[grantor]`.

use crate::config::section::{Key, Section};

pub(super) const GATEKEEPERS: Key = Key::like(
    "gatekeepers",
    "[\"198.51.100.0/28\"]",
    "Who asks: prefixes of Gatekeepers' addresses at their back. What comes from others is not\n\
     unwrapped. With [gatekeeper] in the same file it may be left out: that one asks, too.",
);
pub(super) const SERVES: Key = Key::like(
    "serves",
    "[\"203.0.113.0/24\"]",
    "For whom: prefixes that are reached through here. What goes elsewhere is not unwrapped.\n\
     It may be left out as `gatekeepers` may.",
);
pub(super) const POLICY: Key = Key::like(
    "policy",
    "\"/etc/rutter/web.lua\"",
    "What decides: a policy in Lua (\"FILE.lua\"), which runs in processes of its own, without\n\
     rights. Or the same for all: \"grant KIB SECONDS\" (so many KiB a second, so long),\n\
     \"decline SECONDS\", \"forward\" or \"drop\" (the packet alone).",
);
pub(super) const TABLES: Key = Key::new(
    "policy_files",
    "[]",
    "Tables of prefixes for a policy in a file, as \"NAME=PATH\": it asks for them by their names\n\
     (`lpmlib.lpm_from_file`). They are read when the policy is loaded.",
);
pub(super) const ENGINE4: Key = Key::new(
    "engine4",
    "\"rutter4\"",
    "Engine of such a policy's IPv4 tables, as NAME or NAME:OPTION=VALUE,OPTION=VALUE.",
);
pub(super) const ENGINE6: Key = Key::new("engine6", "\"rutter6\"", "The same of its IPv6 tables.");
pub(super) const PROCESSES: Key =
    Key::new("processes", "1", "Processes in which a policy in a file runs; one more is ready.")
        .number(1, 32);
pub(super) const MEMORY: Key = Key::new(
    "memory_mib",
    "256",
    "MiB of memory that each of these processes may take, beside those that it begins with.",
)
.number(16, 1 << 20);
pub(super) const BATCH: Key = Key::new(
    "batch_ms",
    "10",
    "Milliseconds that the policy may take for 64 packets at most; then it is stopped, and what\n\
     it was asked about gets the verdict of `on_limit`.",
)
.number(1, 10_000);
pub(super) const LOAD: Key =
    Key::new("load_ms", "10000", "Milliseconds that it may take to load.").number(10, 600_000);
pub(super) const FAILURES: Key = Key::new(
    "failures",
    "5",
    "So many failures of the policy within a minute, and the one before it decides again.",
)
.number(1, 1_000);
pub(super) const WAITING: Key = Key::new(
    "waiting",
    "4096",
    "Packets that may wait for a verdict, of each worker. All of them have a packet buffer: at\n\
     most half of `buffers`; if this is not given, a quarter.",
)
.number(1, 65_536);
pub(super) const ASKED: Key = Key::new(
    "asked",
    "1024",
    "Of these, how many a policy is asked about at a time: half of `waiting` at most. The others\n\
     wait in the order of their priorities: where more ask than can wait, the lowest go first.",
)
.number(1, 65_536);
pub(super) const QUESTION: Key =
    Key::new("question_bytes", "256", "Bytes of each frame that a policy gets at most.")
        .number(64, 65_535);
pub(super) const LIMIT: Key =
    Key::new("limit_ms", "100", "Milliseconds that a packet waits at most.").number(1, 60_000);
pub(super) const ON_LIMIT: Key = Key::new(
    "on_limit",
    "\"drop\"",
    "What becomes of a packet that has waited so long, or whose policy failed: words as of\n\
     `policy`.",
);
pub(super) const ON_FULL: Key = Key::new(
    "on_full",
    "\"drop\"",
    "What becomes of a packet for which there is no room to wait: as `on_limit`.",
);
pub(super) const FRAGMENTS: Key = Key::new(
    "fragments",
    "0",
    "Fragments of what asks that wait for the others of their packet, of each worker, beside\n\
     `waiting`: a policy is asked about the whole, and it goes on in its fragments. 0: a policy\n\
     is asked about each fragment. Where they come to nothing (too late, too many, no room) it\n\
     is asked what their flow deserves.",
)
.number(0, 65_536);
pub(super) const FRAGMENT_MS: Key =
    Key::new("fragment_ms", "1000", "Milliseconds that a fragment waits at most.")
        .number(1, 60_000);
pub(super) const REASSEMBLE: Key = Key::new(
    "reassemble",
    "false",
    "true: what has waited as `fragments` and is granted goes on as one packet, where that is not\n\
     longer than the MTU of its way or a packet buffer; else in its fragments.",
)
.flag();
pub(super) const ECN: Key = Key::new(
    "ecn",
    "\"deployed\"",
    "Congestion that an outer header reports. \"deployed\": the inner one reports it, too.\n\
     \"rfc6040\": packets that cannot say so are dropped, and ECT(1) comes through.",
)
.word(&["deployed", "rfc6040"]);
pub(super) const SHADOW: Key = Key::new(
    "shadow",
    "false",
    "true: what asks are copies, of a shadow. They are decided, and none is forwarded.",
)
.flag();
pub(super) const SOURCE_PORT: Key =
    Key::new("source_port", "41120", "UDP port that decisions come from.").number(1, 65_535);
pub(super) const DESTINATION_PORT: Key =
    Key::new("destination_port", "45232", "UDP port that they go to.").number(1, 65_535);

/// Keys that only a policy in a file has.
pub(super) const OF_FILES: [Key; 8] =
    [TABLES, ENGINE4, ENGINE6, PROCESSES, MEMORY, BATCH, LOAD, FAILURES];

/// All keys.
pub(super) const SECTIONS: &[Section] = &[Section::optional(
    "grantor",
    "[grantor]",
    "A Grantor: it unwraps what Gatekeepers send to this machine, asks a policy about packets\n\
     that ask, forwards what is granted by its routes, and sends the decisions back.",
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
