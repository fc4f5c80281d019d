//! Filters: sets that answer "certainly not" or "probably", in a few bits an element.
//!
//! An element is given by 64 bits of hash ([`crate::hash`]), so that one hash can
//! serve a filter and the table behind it. A filter has one writer and any number
//! of readers:
//!
//! | filter     | readers     | writer            | deletes | reads a test | bits an element at 1 % |
//! |------------|-------------|-------------------|---------|--------------|------------------------|
//! | Bloom      | [`Bloom`]   | `Bloom::insert`   | no      | 1 to k       | 9.6                    |
//! | counting   | [`Bloom`]   | [`CountingBloom`] | yes     | 1 to k       | 9.6, and 8 a bit aside |
//! | cuckoo     | [`Cuckoo`]  | [`CuckooWriter`]  | yes     | 2            | 9.6 (0.01 %: 16.8)     |

mod bloom;
mod cuckoo;

pub use bloom::{Bloom, CountingBloom};
pub(crate) use cuckoo::Spot;
pub use cuckoo::{Cuckoo, CuckooWriter, Full, Still};
