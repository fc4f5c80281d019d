//! Data sets: tables, and traffic for them.

mod flat;
mod rng;

pub mod traffic;

pub use flat::Flat;
pub use rng::Rng;

pub use traffic::Traffic;
