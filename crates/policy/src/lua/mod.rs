//! A policy in Lua, as one writes it for a deployed Grantor: `lookup_policy(pkt_info, policy)`
//! and `lookup_frag_punish_policy(policy)`, with `gatekeeper/policylib` and `lpmlib`.
//!
//! ```text
//!   questions ─► slots: headers, packets ─► driver.lua ─► lookup_policy ─┐
//!   verdicts  ◄─ checked, field by field ◄─ slots: policies, forward ◄───┘
//! ```
//!
//! Pointers into the slots are made once, and a call passes only an index: pointers made and
//! cast for each packet cost 40 times as much as the decision. A policy may also define
//! `lookup_policy_batch(n)` and decide about many packets at once (`docs/guide/write-a-policy.md`).
//!
//! **A policy has the rights of its process**: its `ffi` reads and writes any memory. So only
//! `cell` uses this module: its processes hold nothing else. Decisions are copied out and checked.
//!
//! Imports, each of those to its right or below:
//!
//! ```text
//!   prepared ─► policy ─► call ─► stop
//!      │           └────► slots ─► layout
//!      └────► native ─► table
//!   error
//! ```

mod call;
mod error;
mod layout;
mod native;
mod policy;
mod prepared;
mod slots;
mod stop;
mod table;
#[cfg(test)]
mod tests;

pub use native::Bytes;
pub use policy::Policy;
pub use prepared::{Options, Prepared};
pub use slots::Mark;
pub use stop::Stopper;
