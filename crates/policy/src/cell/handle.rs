//! Calls to the supervisor from other threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use super::control;
use super::source::Source;
use super::status::{Error, Executed, Status};

/// Asks the supervisor; cheap to clone. Calls wait for its answer.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) requests: Sender<Request>,
    /// Wakes the supervisor.
    pub(super) wake: Arc<OwnedFd>,
}

#[derive(Debug)]
pub(super) enum Request {
    Load(Source, Sender<Result<(), Error>>),
    Rollback(Sender<Result<(), Error>>),
    Exec(String, Sender<Vec<Executed>>),
    Status(Sender<Status>),
    Stop,
}

impl Handle {
    /// Loads a policy. It decides once all its processes are ready; the processes of the policy
    /// before it answer the questions that they have.
    ///
    /// # Errors
    /// When the policy does not start: the present policy continues.
    pub fn load(&self, source: Source) -> Result<(), Error> {
        self.ask(|reply| Request::Load(source, reply))?
    }

    /// Loads the policy before this one.
    ///
    /// # Errors
    /// When there is none, or it does not start.
    pub fn rollback(&self) -> Result<(), Error> {
        self.ask(Request::Rollback)?
    }

    /// Runs a chunk in the state of each process that serves or is ready to.
    ///
    /// # Errors
    /// When the chunk is too long.
    pub fn exec(&self, chunk: &str) -> Result<Vec<Executed>, Error> {
        if chunk.len() > control::MOST - 64 {
            return Err(Error::TooLong(chunk.len()));
        }
        self.ask(|reply| Request::Exec(chunk.to_owned(), reply))
    }

    /// The state of policies and processes.
    ///
    /// # Errors
    /// When the supervisor has ended.
    pub fn status(&self) -> Result<Status, Error> {
        self.ask(Request::Status)
    }

    /// Ends the supervisor, and all processes.
    pub fn stop(&self) {
        let _ = self.requests.send(Request::Stop);
        self.ring();
    }

    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> Result<T, Error> {
        let (reply, answer) = mpsc::channel();
        self.requests.send(request(reply)).map_err(|_| Error::Ended)?;
        self.ring();
        answer.recv().map_err(|_| Error::Ended)
    }

    fn ring(&self) {
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}
