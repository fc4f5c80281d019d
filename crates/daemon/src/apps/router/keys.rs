//! FRR's connection, static routes and neighbours: `[fpm]`, `[[route]]`, `[[neighbour]]`.

use crate::config::section::{Key, Section};

pub(super) const PREFIX: Key = Key::like("prefix", "\"203.0.113.0/24\"", "The destination.");
pub(super) const VIA: Key = Key::like(
    "via",
    "[\"192.0.2.2\", { to = \"192.0.2.3\", weight = 2 }]",
    "Gateways: addresses, or tables of `to`, `interface`, `weight` (1 to 256).",
);
pub(super) const KIND: Key =
    Key::new("kind", "\"unicast\"", "\"unicast\", \"blackhole\", \"unreachable\", \"prohibit\".")
        .word(&["unicast", "blackhole", "unreachable", "prohibit"]);
pub(super) const METRIC: Key = Key::new(
    "metric",
    "the kernel's",
    "Of the routes to one prefix, the one with the lowest metric is used.",
)
.example("20")
.number(0, u32::MAX as u64);
pub(super) const ROUTE: Section = Section::optional(
    "route[]",
    "[[route]]",
    "A static route, written to the kernel's table (protocol 198).",
    &[PREFIX, VIA, KIND, Key::new("vrf", "\"main\"", "The VRF of the route."), METRIC],
);

pub(super) const INTERFACE: Key =
    Key::like("interface", "\"p0\"", "The interface that leads to it.");
pub(super) const ADDRESS: Key = Key::like("address", "\"192.0.2.2\"", "Its IP address.");
pub(super) const MAC: Key = Key::like("mac", "\"02:00:00:00:00:02\"", "Its hardware address.");
pub(super) const NEIGHBOUR: Section = Section::optional(
    "neighbour[]",
    "[[neighbour]]",
    "A permanent neighbour.",
    &[INTERFACE, ADDRESS, MAC],
);

pub(super) const USERS: Key = Key::new(
    "users",
    "[\"root\", \"frr\"]",
    "Users whose processes may connect as FRR: names in `/etc/passwd`, or numbers.",
);
pub(super) const HOLD: Key = Key::new(
    "hold",
    "120",
    "Seconds (10 to 86400) that FRR's routes stay in use after its connection has ended, and,\n\
     after FRR has connected again, those that it does not send again.",
)
.number(10, 86_400);
pub(super) const FPM: Section = Section::new(
    "fpm",
    "[fpm]",
    "FRR's connection, if a VRF has `routes = \"fpm\"`. Rutter accepts it at 127.0.0.1:2620, from\n\
     one process at a time.",
    &[USERS, HOLD],
);

/// All keys.
pub(super) const SECTIONS: &[Section] = &[FPM, ROUTE, NEIGHBOUR];
