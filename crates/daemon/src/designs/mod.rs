//! The applications: which ports, nodes and edges each is made of. Nothing here
//! touches a packet.

pub mod router;
pub mod switch;

use crate::config::Config;

/// The application's name in `show system`: what the ports are for.
pub fn name(config: &Config) -> &'static str {
    let routed = config.interfaces().next().is_some();
    match (config.bridges.is_empty(), routed) {
        (true, _) => router::NAME,
        (false, false) => switch::NAME,
        (false, true) => "router and switch",
    }
}
