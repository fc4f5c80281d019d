//! Where routes come from: the kernel ([`netlink`]), FRR ([`fpm`]).
//!
//! A feed turns what it hears into [`tables::event::Event`]s, in the order in
//! which it heard them; the tables decide what they mean.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   fpm
//!   diag
//!   accept netlink
//! ```
#![forbid(unsafe_code)]

pub mod accept;
pub mod diag;
pub mod fpm;
pub mod netlink;
