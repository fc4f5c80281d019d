//! Data sets: tables, and traffic for them.

pub mod made;
mod rng;
mod table;
mod traffic;
mod updates;

pub use rng::Rng;
pub(crate) use table::short_name;
pub use table::{Table, checksum, kind};
pub use traffic::Traffic;
pub use updates::{Updates, flaps};
