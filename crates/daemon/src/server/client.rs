//! A client: its requests are read, and their answers written, with limits on time and size.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::frame::{MAX_REPLY, MAX_REQUEST, encode};
use api::{Answer, Decoder, ErrorKind, Failure, Reply, Request};

use super::Handler;

/// The client whose request is being carried out.
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    gone: bool,
    stopping: Arc<AtomicBool>,
    /// Clients there are, this one included.
    places: Arc<AtomicUsize>,
    /// Requests that are being answered, of all clients.
    answering: Arc<AtomicUsize>,
}

impl Client {
    /// A client that has sent nothing yet; `places` counts it already.
    ///
    /// # Errors
    /// When the system refuses to limit its waits.
    pub(super) fn new(
        stream: UnixStream,
        stopping: Arc<AtomicBool>,
        places: Arc<AtomicUsize>,
        answering: Arc<AtomicUsize>,
    ) -> io::Result<Client> {
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(TICK))?;
        let decoder = Decoder::new(MAX_REQUEST);
        Ok(Client { stream, decoder, gone: false, stopping, places, answering })
    }

    /// Sends a part of the answer. A client that does not take it is gone.
    pub fn part(&mut self, reply: Reply) {
        self.send(&Answer::Part(reply));
    }

    /// Sends a list in as many parts as it takes to stay below what a client accepts; an
    /// empty one is a part, too.
    pub fn list<T, R: Into<Reply>>(&mut self, all: Vec<T>, reply: impl Fn(Vec<T>) -> R) {
        let mut all = all.into_iter().peekable();
        loop {
            self.part(reply(all.by_ref().take(IN_A_PART).collect()).into());
            if all.peek().is_none() || !self.waits() {
                return;
            }
        }
    }

    /// False when nobody waits for more parts: the client closed, or the daemon stops.
    pub fn waits(&mut self) -> bool {
        if !self.gone && !self.stops() {
            self.look();
        }
        !self.gone && !self.stops()
    }

    /// True once the daemon stops: nothing is changed any more.
    pub fn stops(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Takes what has arrived, without waiting: notices that the client closed.
    fn look(&mut self) {
        let mut bytes = [0; 4096];
        let _ = self.stream.set_nonblocking(true); // a failure shows in the read
        match self.stream.read(&mut bytes) {
            Ok(0) => self.gone = true,
            // Requests sent ahead are kept; a flood of them is not.
            Ok(n) if self.decoder.held() <= MAX_REQUEST => self.decoder.feed(&bytes[..n]),
            Ok(_) => self.gone = true,
            Err(error) => self.gone = !is_wait(&error),
        }
        let _ = self.stream.set_nonblocking(false);
    }

    pub(super) fn send(&mut self, answer: &Answer) {
        if self.gone {
            return;
        }
        let bytes = encode(answer, MAX_REPLY).or_else(|error| {
            let text = error.to_string();
            encode(&Answer::Error(Failure { kind: ErrorKind::Internal, text }), MAX_REPLY)
        });
        self.gone = !bytes.is_ok_and(|bytes| self.write(&bytes));
    }

    /// True when the client took all of it in time. Its first part is offered also
    /// when the daemon stops.
    fn write(&mut self, mut bytes: &[u8]) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.stream.write(bytes) {
                Ok(0) => return false,
                Ok(n) => bytes = &bytes[n..],
                Err(error) if is_wait(&error) => {}
                Err(_) => return false,
            }
            if bytes.is_empty() {
                return true;
            }
            if Instant::now() >= end || self.stops() {
                return false;
            }
        }
    }

    /// The next request; `None` when the client is gone, silent in the middle of
    /// a message, or not understood (which it is answered).
    fn receive(&mut self) -> Option<Request> {
        let (mut bytes, mut heard) = ([0; 4096], Instant::now());
        loop {
            match self.decoder.take() {
                Ok(Some(request)) => return Some(request),
                Ok(None) => {}
                Err(error) => {
                    let text = error.to_string();
                    self.send(&Answer::Error(Failure { kind: ErrorKind::Invalid, text }));
                    return None;
                }
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(n) => {
                    if !self.decoder.waiting() {
                        heard = Instant::now(); // from the first byte of a message on
                    }
                    self.decoder.feed(&bytes[..n]);
                }
                Err(error) if is_wait(&error) => {}
                Err(_) => return None,
            }
            // Half a request is waited for only so long, however it dribbles in; a
            // client that asks nothing may stay until others want its place.
            let full = self.places.load(Ordering::Relaxed) >= MOST_CLIENTS;
            if self.gone || (self.decoder.waiting() || full) && heard.elapsed() > PATIENCE {
                return None;
            }
        }
    }

    pub(super) fn serve(&mut self, handler: &dyn Handler) {
        while let Some(request) = self.receive() {
            // Counted before it is looked whether the daemon stops: the server waits for
            // those that have not seen it.
            let _answering = Counted::new(&self.answering);
            let answer = match handler.handle(request, self) {
                Ok(()) => Answer::Done,
                Err(failure) => Answer::Error(failure),
            };
            self.send(&answer);
            if self.gone {
                return;
            }
        }
    }
}

pub(super) fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// One more client, until it is dropped: also where its thread panics.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Entries of a list in one part: of the longest, interfaces, far below [`MAX_REPLY`].
const IN_A_PART: usize = 4096;
pub(super) const MOST_CLIENTS: usize = 64;
/// How long half a message is waited for, and a part of an answer offered.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
pub(super) const TICK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use api::reply::Interface;

    #[test]
    fn a_long_list_comes_in_parts_that_a_client_takes() {
        for (count, parts) in [(0, 1), (IN_A_PART, 1), (3 * IN_A_PART, 3)] {
            let (stream, mut other) = UnixStream::pair().unwrap();
            let client = Client::new(stream, Arc::default(), Arc::default(), Arc::default());
            let longest = Interface { addresses: vec!["x".repeat(100); 32], ..<_>::default() };
            let list = vec![longest; count];
            let (sent, mut client) = (list.clone(), client.unwrap());
            let sender = std::thread::spawn(move || client.list(sent, Reply::Interfaces));
            let mut bytes = Vec::new();
            other.read_to_end(&mut bytes).unwrap();
            sender.join().unwrap();
            let mut decoder = Decoder::new(MAX_REPLY);
            decoder.feed(&bytes);
            let mut taken = Vec::new();
            for _ in 0..parts {
                match decoder.take().unwrap() {
                    Some(Answer::Part(Reply::Interfaces(part))) => taken.extend(part),
                    other => panic!("{other:?}"),
                }
            }
            assert!(taken == list && !decoder.waiting(), "{count}");
        }
    }

    #[test]
    fn a_client_that_does_not_read_holds_up_no_end() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let stopping = Arc::new(AtomicBool::new(true));
        let mut client = Client::new(stream, stopping, Arc::default(), Arc::default()).unwrap();
        assert!(client.write(&[0; 100]), "what the socket holds is sent");
        let start = Instant::now();
        assert!(!client.write(&vec![0; 16 << 20]));
        assert!(
            start.elapsed() < PATIENCE,
            "one offer, and not for as long as it may take otherwise"
        );
    }

    /// Whether a client among `places` is given up within that time, that says one
    /// of `bytes` now and then.
    fn gives_up(bytes: &[u8], places: usize, within: Duration) -> bool {
        let (stream, mut other) = UnixStream::pair().unwrap();
        let places = Arc::new(AtomicUsize::new(places));
        let mut client = Client::new(stream, Arc::default(), places, Arc::default()).unwrap();
        let (start, mut bytes) = (Instant::now(), bytes.iter());
        let thread = std::thread::spawn(move || assert!(client.receive().is_none()));
        while !thread.is_finished() && start.elapsed() < within {
            let _ = bytes.next().map(|byte| other.write_all(&[*byte])); // it may be gone
            std::thread::sleep(TICK / 2);
        }
        let given_up = thread.is_finished();
        drop(other); // what still waits ends here
        thread.join().unwrap();
        given_up
    }

    #[test]
    fn neither_dribbling_nor_silence_keeps_a_place_that_others_want() {
        let half = [[0, 0, 1, 0].as_slice(), &[b' '; 200]].concat();
        assert!(gives_up(&half, 1, PATIENCE * 9), "a byte now and then");
        assert!(gives_up(&[], MOST_CLIENTS, PATIENCE * 9), "silent, and all places are taken");
        assert!(!gives_up(&[], 1, PATIENCE * 2), "silent, and there is room");
    }
}
