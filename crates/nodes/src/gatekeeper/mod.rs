//! Gatekeeper: lets through what the protected network granted, drops what it declined,
//! and asks about the rest through a channel ordered by patience.
//!
//! ```text
//!  packet ─► flow's entry ─► machine ─► granted, direct, dropped
//!                               └─────► request ─► solicitor: 64 levels, one budget ─► Grantor
//! ```
//!
//! The nodes that join these parts are still to come: no packet meets them yet.
//!
//! Inside, a module imports only those of the lines below its own:
//!
//! ```text
//!   machine
//!   programs state
//!   granted request solicitor
//!   rule
//!   times
//! ```

pub mod granted;
pub mod machine;
pub mod programs;
pub mod request;
pub mod rule;
pub mod solicitor;
pub mod state;
#[cfg(test)]
mod tests;
pub mod times;
