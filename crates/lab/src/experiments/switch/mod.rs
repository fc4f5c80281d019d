//! The switch: forwarding.

pub(super) mod forward;
mod parts;
