//! The daemon's changes to the kernel: links, addresses, static routes, the protection of
//! interfaces below ports, settings.

pub mod changes;
pub mod guard;
pub mod link;
pub mod neighbours;
pub mod netdev;
pub mod route;
pub mod rules;
pub mod settings;
pub mod shields;
pub mod shown;
pub mod taps;
pub mod vrf_rules;

pub use changes::Changes;
pub use feeds::netlink::OUR_PROTOCOL;
pub use guard::Guard;
pub use link::{LinkInfo, Rtnetlink};
pub use settings::Settings;
pub use taps::Taps;
