//! The switch: ports of a bridge feed the same graph as routed ones, and part
//! from them at the first node. Frames between its ports never reach the kernel;
//! the routed interface, where a bridge has one, is a port like the others.
//!
//! ```text
//!  p2 ─┐                                                                   ┌─ p2
//!  p3 ─┼─► ethernet_input ─► bridge_input ─► bridge_learn ─► bridge_forward ┼─ p3
//!  pN ─┘                                        │ ring         │ unknown    └─ pN
//!                          bridge thread ◄──────┘              ├► bridge_flood ─► copies
//!                          (writes the MAC table)              └► bridge_local ─► router
//! ```

/// The application's name in `show system`.
pub const NAME: &str = "switch";
