//! A Grantor: `[grantor]`.

use crate::config::section::{Key, Section};

pub(super) const GATEKEEPERS: Key = Key::like(
    "gatekeepers",
    "[\"198.51.100.0/28\"]",
    "Who asks: prefixes of Gatekeepers' addresses at their back. What comes from others is not\n\
     unwrapped.",
);
pub(super) const SERVES: Key = Key::like(
    "serves",
    "[\"203.0.113.0/24\"]",
    "For whom: prefixes that are reached through here. What goes elsewhere is not unwrapped.",
);
pub(super) const POLICY: Key = Key::like(
    "policy",
    "\"grant 1024 300\"",
    "What decides, the same for all: \"grant KIB SECONDS\" (so many KiB a second, so long),\n\
     \"decline SECONDS\", \"forward\" or \"drop\" (the packet alone).",
);
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
    "Of these, how many a policy is asked about at a time. The others wait in the order of their\n\
     priorities: where more ask than can wait, the lowest go first.",
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
    "What becomes of a packet that has waited so long: as `policy`.",
);
pub(super) const ON_FULL: Key = Key::new(
    "on_full",
    "\"drop\"",
    "What becomes of a packet for which there is no room to wait: as `policy`.",
);
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

/// All of them.
pub(super) const SECTIONS: &[Section] = &[Section::optional(
    "grantor",
    "[grantor]",
    "A Grantor: it unwraps what Gatekeepers send to this machine, asks a policy about packets\n\
     that ask, forwards what is granted by its routes, and sends the decisions back.",
    &[
        GATEKEEPERS,
        SERVES,
        POLICY,
        WAITING,
        ASKED,
        QUESTION,
        LIMIT,
        ON_LIMIT,
        ON_FULL,
        ECN,
        SHADOW,
        SOURCE_PORT,
        DESTINATION_PORT,
    ],
)];
