//! Standard output, standard error and the exit status, by the rules of `rutter`'s own
//! commands: 0 success, 2 usage or input error, 130 interrupted, 141 nobody reads on.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

/// Where results go, and how.
pub struct Output {
    /// `-j` was given.
    pub json: bool,
    to: BufWriter<Stdout>,
}

impl Output {
    /// Standard output; from here on an interrupt ends the process with status 130.
    pub fn new(json: bool) -> Self {
        // Fails only for signals that cannot be caught; then the default stays.
        let _ = signal_hook::flag::register_conditional_shutdown(
            signal_hook::consts::SIGINT,
            INTERRUPTED,
            Arc::new(AtomicBool::new(true)),
        );
        Output { json, to: BufWriter::new(stdout()) }
    }

    /// Prints a line of text.
    pub fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        Ok(writeln!(self.to, "{text}")?)
    }

    /// Prints `value` as one line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.to, value).map_err(io::Error::from)?;
        self.line("")
    }

    /// Writes out what is still buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.to.flush()?)
    }

    /// The same, at the end.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }
}

/// A line on standard error, without what would command a terminal: messages quote
/// files and input. Where standard error is closed there is nobody to report to.
pub fn warn(message: impl Display) {
    let shown = |c: char| -> String {
        if c.is_control() && c != '\n' { c.escape_default().collect() } else { c.into() }
    };
    let text: String = message.to_string().chars().map(shown).collect();
    let _ = writeln!(stderr(), "rutter-lab: {text}");
}

/// What the exit status says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// 0: done.
    Success = 0,
    /// 2: usage or input error; what could be done was done.
    Fault = 2,
}

/// Why the lab could not do what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An experiment cannot be run, or its record not be kept.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// Output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Prints it and gives the exit status. A reader that went away, as `head` does, is
    /// none to complain to.
    pub fn report(&self) -> u8 {
        match self {
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => BROKEN_PIPE,
            failure => {
                warn(failure);
                Status::Fault as u8
            }
        }
    }
}

/// The status after an interrupt: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// The status after the reader of our output went away: 128 + SIGPIPE.
const BROKEN_PIPE: u8 = 141;
