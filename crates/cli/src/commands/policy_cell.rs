//! `rutter policy-cell`: a process in which a Grantor's policy runs. The daemon starts it.

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Used by the daemon itself: decides by a policy, without any rights
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {}

/// Serves until the daemon ends it.
pub fn run(_: Args, _: &mut Context) -> Result<Status, Error> {
    let _ = policy::cell::child::main(policy::cell::lua::make);
    Ok(Status::No)
}
