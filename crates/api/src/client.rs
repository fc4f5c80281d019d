//! A blocking client.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::frame::{MAX_REPLY, MAX_REQUEST, encode};
use crate::{Answer, Decoder, Failure, FrameError, Reply, Request};

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nobody listens.
    #[error("no daemon at {path}: {reason} (is `rutter run` running? another socket: --socket)")]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the daemon broke: {0}")]
    Broken(#[from] io::Error),
    /// A message is not understood.
    #[error("the daemon's message: {0}")]
    Frame(#[from] FrameError),
    /// The daemon says no.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// An answer of another kind than the request asks for.
    #[error("the daemon sent an answer of another kind")]
    Unexpected,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens at `path`, or the caller may not connect.
    pub fn connect(path: &Path) -> Result<Client, CallError> {
        let stream = UnixStream::connect(path)
            .map_err(|reason| CallError::Unreachable { path: path.into(), reason })?;
        Ok(Client { stream, decoder: Decoder::new(MAX_REPLY) })
    }

    /// Sends a request and returns its only part.
    ///
    /// # Errors
    /// When the connection breaks, the daemon refuses, or there is not exactly one part.
    pub fn call(&mut self, request: &Request) -> Result<Reply, CallError> {
        let mut answers = self.stream(request)?;
        let reply = answers.next().ok_or(CallError::Unexpected)??;
        answers.next().map_or(Ok(()), |more| more.and(Err(CallError::Unexpected)))?;
        Ok(reply)
    }

    /// Sends a request and returns its parts as they come.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn stream(&mut self, request: &Request) -> Result<Parts<'_>, CallError> {
        match self.stream.write_all(&encode(request, MAX_REQUEST)?) {
            // A daemon that hangs up says why before, and that is still to be read.
            Err(error) if hung_up(&error) => {}
            sent => sent?,
        }
        Ok(Parts { client: self, done: false })
    }

    /// Gives up on an answer that takes longer; `None` waits for ever.
    ///
    /// # Errors
    /// When the system refuses, or the time is zero.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    fn receive(&mut self) -> Result<Answer, CallError> {
        let mut bytes = [0; 64 << 10];
        loop {
            if let Some(answer) = self.decoder.take()? {
                return Ok(answer);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => self.decoder.feed(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The parts of one answer. Dropped before its end, the connection is of no
/// further use.
#[derive(Debug)]
pub struct Parts<'c> {
    client: &'c mut Client,
    done: bool,
}

impl Iterator for Parts<'_> {
    type Item = Result<Reply, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.client.receive() {
            Ok(Answer::Part(reply)) => return Some(Ok(reply)),
            Ok(Answer::Done) => self.done = true,
            Ok(Answer::Error(failure)) => {
                self.done = true;
                return Some(Err(failure.into()));
            }
            Err(error) => {
                self.done = true;
                return Some(Err(error));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::apps::router;

    fn pair() -> (Client, UnixStream) {
        let (stream, other) = UnixStream::pair().unwrap();
        (Client { stream, decoder: Decoder::new(MAX_REPLY) }, other)
    }

    fn answer(stream: &mut UnixStream, answer: Answer) {
        stream.write_all(&encode(&answer, MAX_REPLY).unwrap()).unwrap();
    }

    #[test]
    fn parts_come_until_done() {
        let (mut client, mut daemon) = pair();
        answer(&mut daemon, Answer::Part(Reply::Config("a".into())));
        answer(&mut daemon, Answer::Part(Reply::Config("b".into())));
        answer(&mut daemon, Answer::Done);
        let parts: Result<Vec<_>, _> = client.stream(&Request::Config).unwrap().collect();
        assert_eq!(parts.unwrap().len(), 2);
    }

    #[test]
    fn a_refusal_is_an_error_and_the_connection_goes_on() {
        let (mut client, mut daemon) = pair();
        let failure = Failure { kind: ErrorKind::NotFound, text: "no vrf `red`".into() };
        answer(&mut daemon, Answer::Error(failure.clone()));
        let show = Request::Show { what: router::What::Fib.into() };
        let error = client.call(&show).unwrap_err();
        assert!(matches!(error, CallError::Failed(f) if f == failure));
        answer(&mut daemon, Answer::Part(router::Reply::Fib(vec![]).into()));
        answer(&mut daemon, Answer::Done);
        assert_eq!(client.call(&show).unwrap(), Reply::from(router::Reply::Fib(vec![])));
    }

    #[test]
    fn a_refusal_before_the_request_is_heard() {
        let (mut client, mut daemon) = pair();
        let failure = Failure { kind: ErrorKind::Busy, text: "64 clients".into() };
        answer(&mut daemon, Answer::Error(failure.clone()));
        drop(daemon);
        let error = client.call(&Request::Config).unwrap_err();
        assert!(matches!(error, CallError::Failed(f) if f == failure));
    }

    #[test]
    fn a_daemon_that_dies_in_the_middle_is_an_error() {
        let (mut client, mut daemon) = pair();
        daemon.write_all(&[0, 0, 1]).unwrap();
        drop(daemon);
        // The request may or may not be written any more; both are an error.
        assert!(client.call(&Request::Config).is_err());
    }
}
