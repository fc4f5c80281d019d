//! Another process as one side of a comparison: it receives commands, and answers,
//! a line at a time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that listens. Killed when it is dropped.
pub(crate) struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `command`; what it says beside its answers goes nowhere.
    pub fn start(mut command: Command) -> Result<Peer, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("it has no pipes".into());
        };
        Ok(Peer { process, input, output: BufReader::new(output) })
    }

    /// Its process's number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a line.
    pub fn say(&mut self, words: &str) -> Result<(), String> {
        writeln!(self.input, "{words}").map_err(|error| error.to_string())?;
        self.input.flush().map_err(|error| error.to_string())
    }

    /// Its next line, without the end.
    pub fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("it has ended".into()),
            Ok(_) => Ok(line.trim_end().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself; then nothing is left to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
