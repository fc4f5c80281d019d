//! The devices, a file each.

mod model;
mod threads;

pub use model::{Figures, Model};
pub use threads::Threads;
