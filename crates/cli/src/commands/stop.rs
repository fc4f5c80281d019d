//! `rutter stop`.

use std::time::{Duration, Instant};

use api::Request;

use crate::context::Context;
use crate::error::Error;
use crate::status::Status;

/// Stop the data plane: packets in flight are sent, kernel settings restored
#[derive(clap::Args)]
pub struct Args {
    /// Delete the taps in the kernel too, with their addresses and routes
    #[arg(long)]
    remove: bool,
}

/// Asks for it and waits until it is done.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let status = cx.change(Request::Stop { remove: args.remove })?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if cx.connect().is_err() {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(Error::Usage("the daemon has accepted the stop, but still runs after 30 s"))
}

const PATIENCE: Duration = Duration::from_secs(30);
