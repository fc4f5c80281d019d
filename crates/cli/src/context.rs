//! The context of every command: where to write, and how.

use std::io::{self, BufWriter, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use api::{CallError, Client, Reply, Request, What};
use serde::Serialize;

use crate::error::Error;
use crate::status::{INTERRUPTED, Status};
use crate::warn::warn;

/// The context of every command.
pub struct Context {
    /// `-j` was given.
    pub json: bool,
    /// The daemon's API socket.
    pub socket: PathBuf,
    /// Standard output; flushed at the end.
    pub out: BufWriter<Box<dyn Write>>,
    /// While true, an interrupt ends the process at once with status 130. A
    /// command that must clean up clears it and listens itself.
    pub die_on_interrupt: Arc<AtomicBool>,
}

impl Context {
    /// Writes to standard output; interrupts end the process with status 130.
    pub fn new(json: bool, socket: PathBuf) -> Self {
        let die_on_interrupt = Arc::new(AtomicBool::new(true));
        // Fails only for signals that cannot be caught; then the default holds.
        let _ = signal_hook::flag::register_conditional_shutdown(
            signal_hook::consts::SIGINT,
            INTERRUPTED,
            Arc::clone(&die_on_interrupt),
        );
        Context { json, socket, out: BufWriter::new(Box::new(stdout())), die_on_interrupt }
    }

    /// Prints `value` as one line of JSON.
    pub fn print_json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Prints `value` as JSON, or as text for people.
    pub fn print<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<Status, Error> {
        if self.json {
            self.print_json(&value)?;
        } else {
            write!(self.out, "{}", text(value))?;
        }
        Ok(Status::Success)
    }

    /// Connects to the daemon.
    pub fn connect(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.socket)?)
    }

    /// Sends one request that is answered at once.
    pub fn call(&self, request: &Request) -> Result<Reply, Error> {
        let mut client = self.connect()?;
        client.set_timeout(Some(PATIENCE))?;
        Ok(client.call(request)?)
    }

    /// Asks for what can be shown.
    pub fn ask(&self, what: impl Into<What>) -> Result<Reply, Error> {
        self.call(&Request::Show { what: what.into() })
    }

    /// Asks for a list, which comes in parts.
    pub fn ask_list<T>(
        &self,
        what: impl Into<What>,
        of: impl Fn(Reply) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, Error> {
        let mut client = self.connect()?;
        client.set_timeout(Some(PATIENCE))?;
        let mut all = Vec::new();
        for part in client.stream(&Request::Show { what: what.into() })? {
            all.extend(of(part?).ok_or(CallError::Unexpected)?);
        }
        Ok(all)
    }

    /// Sends a request that changes something; its warnings go to standard error,
    /// or are the answer in JSON.
    pub fn change(&mut self, request: impl Into<Request>) -> Result<Status, Error> {
        let Reply::Changed { warnings } = self.call(&request.into())? else {
            return Err(CallError::Unexpected.into());
        };
        if self.json {
            self.print_json(&serde_json::json!({ "warnings": warnings }))?;
        } else {
            warnings.iter().for_each(warn);
        }
        Ok(Status::Success)
    }

    /// Writes out what is still buffered.
    pub fn finish(mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }
}

/// For an answer that does not wait for packets. A rebuilt table takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);
