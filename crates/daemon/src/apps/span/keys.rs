//! Mirrors: `[span.NAME]`.

use crate::config::section::{Key, Section};

pub(super) const PORTS: Key = Key::like("ports", "[\"p0\"]", "The ports whose frames are copied.");
pub(super) const DIRECTION: Key = Key::new(
    "direction",
    "\"both\"",
    "Frames that come in (\"in\"), that leave (\"out\"), or \"both\".",
)
.word(&["in", "out", "both"]);
pub(super) const PORT: Key = Key::like(
    "port",
    "\"p1\"",
    "The port that sends the copies; give either this or `file`. Copies are not copied again.",
);
pub(super) const FILE: Key = Key::like(
    "file",
    "\"/var/lib/rutter/mirror.pcapng\"",
    "The file for the copies: pcapng if its name ends with .pcapng, else pcap.",
);
pub(super) const VLANS: Key =
    Key::new("vlans", "[]", "Only frames whose outermost tag has one of these VLANs.");
pub(super) const FILTER: Key = Key::new(
    "filter",
    "\"\"",
    "Only frames that match: host, net, port, proto, vlan, and, or, not, parentheses.",
);
pub(super) const ONE_IN: Key =
    Key::new("one_in", "1", "Copy one in this many frames.").number(1, u32::MAX as u64);

/// All keys, in the order of the example; the second entry is the same table.
pub(super) const SECTIONS: &[Section] = &[
    Section::optional(
        "span.NAME",
        "[span.watch]",
        "A mirror: frames of ports are copied to another port.",
        &[PORTS, DIRECTION, PORT, VLANS, FILTER, ONE_IN],
    ),
    Section::optional(
        "span.NAME",
        "[span.record]",
        "A mirror that writes to a file.",
        &[Key::like("ports", "[\"p1\", \"p2\"]", "As above."), FILE],
    ),
];
