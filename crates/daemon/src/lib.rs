//! The daemon: configuration, applications, workers, the API's server.
//!
//! Files import downwards, and within a folder as its `mod.rs` says:
//!
//! ```text
//!  run                           from a configuration to a running instance, and back
//!  answer, monitor               the API's requests; what is looked at now and then
//!  apps                          the registry, and a folder for each application
//!  app                           the door: what an application is
//!  parts                         what every instance is made of: devices, workers, tables' control,
//!                                the kernel's side, and the `State` that all of them share
//!  instance, server, doctor      locks, the socket, the machine
//!  kernel                        netlink, taps, settings
//!  config                        the file; what declares a section of it
//!  error
//! ```
#![forbid(unsafe_code)]

pub mod answer;
pub mod app;
pub mod apps;
pub mod config;
pub mod doctor;
pub mod error;
pub mod instance;
pub mod kernel;
pub mod monitor;
pub mod parts;
pub mod run;
pub mod server;

pub use error::Error;
