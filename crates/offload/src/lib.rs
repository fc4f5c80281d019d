//! Bulk lookup on devices.
//!
//! A [`Table`](table::Table) is an engine of `lookup` and, for devices with memory of their own,
//! its [`Image`](image::Image): the arrays that a lookup reads, as words. A kernel in CUDA C
//! (`kernels/lookup.cu`) reads them as the engine does; the tests run it on the processor at
//! hand and compare every answer.
//!
//! A [`Device`](device::Device) takes a table and batches of addresses. There are three
//! ([`devices`]): the threads of this machine, an NVIDIA GPU, and a model for tests. A
//! [`Crew`](crew::Crew) divides an input between the cores and a device, keeps the order,
//! changes the table between batches, and goes on where the device is lost or hangs.
//! [`calibrate`] finds the best size of a batch.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   calibrate crew
//!   devices lane
//!   device
//!   error lines table
//!   clock fault image pieces
//! ```

pub mod calibrate;
pub mod clock;
#[cfg(test)]
mod conformance;
pub mod crew;
pub mod device;
pub mod devices;
pub mod error;
pub mod fault;
pub mod image;
mod lane;
pub mod lines;
pub mod pieces;
pub mod table;

pub use lane::Buffers;
