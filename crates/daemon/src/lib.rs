//! The daemon: configuration, applications, workers, the API's server.
#![forbid(unsafe_code)]

pub mod config;
pub mod kernel;
pub mod server;
