//! SAIL, a splitting approach to IP lookup: which length, then which hop; up to
//! /24, then beyond.
//!
//! Source of all: Fu, *High-Performance Software Packet Processing*, thesis,
//! Boston University 2020, chapter 3; Yang et al., *Guarantee IP Lookup
//! Performance with FIB Explosion*, SIGCOMM 2014.
//!
//! | module   | engine         | structure                                           |
//! |----------|----------------|-----------------------------------------------------|
//! | [`l`]    | `sail-l`       | [`levels`]: pushed to /16, /24, /32                 |
//! | [`six`]  | `sail6`        | [`levels`]: pushed to /16, /24, /32 … /128          |

mod accesses;
pub mod l;
mod levels;
mod push;
pub mod six;
