//! SAIL, a splitting approach to IP lookup: which length, then which hop; up to
//! /24, then beyond.
//!
//! Source of all: Fu, *High-Performance Software Packet Processing*, thesis,
//! Boston University 2020, chapter 3; Yang et al., *Guarantee IP Lookup
//! Performance with FIB Explosion*, SIGCOMM 2014.
//!
//! | module   | engine         | structure                                           |
//! |----------|----------------|-----------------------------------------------------|
//! | [`b`]    | `sail-b`       | `split`: bitmaps of /1 to /24, their words found by `nest` |
//! | [`u`]    | `sail-u`       | `split`: bitmaps of /6, /12, /18, /24             |
//! | [`l`]    | `sail-l`       | `levels`: pushed to /16, /24, /32                 |
//! | [`m`]    | `sail-m`       | many FIBs overlaid: as `sail-l`, a hop for each     |
//! | [`six`]  | `sail6`        | `levels`: pushed to /16, /24, /32 … /128          |
//! | [`hybrid`] | `sail6-hybrid` | bitmaps to /24, pivots and Bloom filters beyond |

mod accesses;
pub mod b;
pub mod hybrid;
pub mod l;
mod levels;
pub mod m;
mod nest;
mod owned;
mod push;
pub mod six;
mod split;
pub mod u;
