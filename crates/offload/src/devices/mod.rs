//! The devices, one file each.

mod cuda;
mod model;
mod threads;

pub use cuda::{Cuda, Info, Measured, PATIENCE, any_stuck, gpus};
pub use model::{Figures, Model};
pub use threads::Threads;
