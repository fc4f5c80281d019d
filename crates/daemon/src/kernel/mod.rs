//! What the daemon does to the kernel: links, addresses, static routes, the
//! protection of interfaces below ports, settings.

pub mod changes;
pub mod guard;
pub mod link;
pub mod neighbours;
pub mod netdev;
pub mod netlink;
pub mod route;
pub mod rules;
pub mod settings;
pub mod taps;

pub use changes::Changes;
pub use guard::Guard;
pub use link::{LinkInfo, Rtnetlink};
pub use settings::Settings;
pub use taps::Taps;

/// The number by which the kernel knows whose a route, rule or address is.
pub const OUR_PROTOCOL: u8 = 198;
