//! Netlink (RFC 3549, `netlink(7)`): the kernel's messages, read and written, by the kernel's
//! own names.
//!
//! ```text
//!   kernel ──► datagram ──► message ──► attributes        reading allocates nothing
//!   kernel ◄── connection ◄── request (built here) ◄── names
//! ```
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   connection
//!   request
//!   message
//!   names
//! ```

#![forbid(unsafe_code)]

pub mod connection;
pub mod message;
pub mod names;
pub mod request;
