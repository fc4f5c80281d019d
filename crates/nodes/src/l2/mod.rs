//! Layer 2: from port and tag to a forwarding domain, learning, forwarding,
//! flooding, and the ways to and from a bridge's routed interface.

pub mod bridge_copies;
pub mod bridge_flood;
pub mod bridge_forward;
pub mod bridge_input;
pub mod bridge_learn;
pub mod bridge_local;
pub mod bridge_send;
mod decide;
#[cfg(test)]
mod real;
mod tag;
#[cfg(test)]
mod testbed;
#[cfg(test)]
mod tests;
