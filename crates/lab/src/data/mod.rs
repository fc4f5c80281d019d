//! Data sets: tables, and traffic for them.

pub mod made;
mod rng;
mod table;
mod traffic;

pub use rng::Rng;
pub(crate) use table::short_name;
pub use table::{Table, checksum, kind};
pub use traffic::Traffic;
