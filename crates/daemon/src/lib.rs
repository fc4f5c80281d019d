//! The daemon: configuration, applications, workers, the API's server.
#![forbid(unsafe_code)]

pub mod config;
pub mod designs;
pub mod doctor;
pub mod error;
pub mod instance;
pub mod kernel;
pub mod router;
pub mod run;
pub mod server;

pub use error::Error;
