//! The daemon: configuration, applications, workers, the API's server.
//!
//! Inside, a module imports only modules of the lines below its own:
//!
//! ```text
//!   run
//!   answer
//!   apps health monitor
//!   app
//!   doctor instance parts
//!   kernel privileges server
//!   error
//!   config notify threads trusted
//!   halt
//! ```
//!
//! - [`run`]: from a configuration to a running instance, and back; [`answer`]: the API's
//!   requests; [`monitor`]: what is looked at now and then
//! - [`health`]: what an instance says about itself to `rutter doctor`
//! - [`apps`]: the registry of applications, and a folder for each; [`app`]: the door by
//!   which they come in
//! - [`parts`]: what every instance is made of, whatever runs in it: devices, workers, the
//!   tables' control, the kernel's side, and the state that all of them share
//! - [`config`]: the file, and what declares a section of it
#![forbid(unsafe_code)]

pub mod answer;
pub mod app;
pub mod apps;
pub mod config;
pub mod doctor;
pub mod error;
pub mod halt;
pub mod health;
pub mod instance;
pub mod kernel;
pub mod monitor;
#[cfg(test)]
#[path = "../../feeds/tests/namespace/mod.rs"]
mod namespace;
pub mod notify;
pub mod parts;
pub mod privileges;
pub mod run;
pub mod server;
pub mod threads;
pub mod trusted;

pub use error::Error;
