//! Decisions about packets: programs in a Gatekeeper, policies in a Grantor.
//!
//! ```text
//!   a flow's decision names a program ─► Program: what becomes of each of its packets
//!   a packet asks ─► Asker ─► a policy: what its flow may do
//! ```
//!
//! Nodes know only two traits: [`program::Program`] and [`ask::Asker`]. A policy in Lua reaches
//! all memory of its process by `ffi`, so it runs only in a separate process ([`cell`]).
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   cell
//!   bpf lua trial
//!   ask program
//! ```

pub mod ask;
#[cfg(feature = "bpf")]
pub mod bpf;
#[cfg(feature = "cell")]
pub mod cell;
#[cfg(feature = "lua")]
mod lua;
pub mod program;
pub mod trial;
