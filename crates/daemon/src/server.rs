//! The API's server: a Unix socket, mode 0600, one thread a client.
//!
//! Nothing that a client does harms another or the data plane: frames have a
//! limit, half of one is waited for only so long, a client that does not read
//! is dropped, and there are only so many clients. The thread that lets them in is
//! started again when it fails, at a socket made anew.

use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::frame::{MAX_REPLY, MAX_REQUEST, encode};
use api::{Answer, Decoder, ErrorKind, Failure, Reply, Request};
use feeds::accept::is_for_good;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::threads::Threads;

/// Carries requests out.
pub trait Handler: Send + Sync + 'static {
    /// Carries `request` out; what it answers goes to `out`.
    ///
    /// # Errors
    /// What the client is told.
    fn handle(&self, request: Request, out: &mut Client) -> Result<(), Failure>;
}

/// The client whose request is being carried out.
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    gone: bool,
    stopping: Arc<AtomicBool>,
    /// Clients there are, this one included.
    places: Arc<AtomicUsize>,
}

impl Client {
    /// Sends a part of the answer. A client that does not take it is gone.
    pub fn part(&mut self, reply: Reply) {
        self.send(&Answer::Part(reply));
    }

    /// False when nobody waits for more parts: the client closed, or the daemon stops.
    pub fn waits(&mut self) -> bool {
        if !self.gone && !self.stopping.load(Ordering::Relaxed) {
            self.look();
        }
        !self.gone && !self.stopping.load(Ordering::Relaxed)
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

    fn send(&mut self, answer: &Answer) {
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
            if Instant::now() >= end || self.stopping.load(Ordering::Relaxed) {
                return false;
            }
        }
    }

    /// The next request; `None` when the client is gone, silent in the middle of
    /// a message, or not understood (which it is told).
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

    fn serve(&mut self, handler: &dyn Handler) {
        while let Some(request) = self.receive() {
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

fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// A listening socket. Dropped, it goes, and its file with it.
pub struct Server {
    path: PathBuf,
    /// Answers that have no end of their own end now.
    stopping: Arc<AtomicBool>,
    /// Nobody is let in any more.
    closed: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Listens at `path`, where nobody else may listen: the caller holds the
    /// lock of [`crate::instance`].
    ///
    /// # Errors
    /// When the system refuses, or something else than a socket is there.
    pub fn start(path: &Path, handler: Arc<dyn Handler>, threads: &Threads) -> io::Result<Server> {
        Server::on(listen(path)?, path, handler, threads)
    }

    /// Begins with `listener`, which is at `path`.
    fn on(
        listener: UnixListener,
        path: &Path,
        handler: Arc<dyn Handler>,
        threads: &Threads,
    ) -> io::Result<Server> {
        let mut first = Some(listener);
        let (again, path) = (path.to_path_buf(), path.to_path_buf());
        let stopping = Arc::new(AtomicBool::new(false));
        let closed = Arc::new(AtomicBool::new(false));
        let mut door = Door {
            handler,
            stopping: stopping.clone(),
            closed: closed.clone(),
            clients: Arc::default(),
            threads: threads.clone(),
        };
        let life = move || {
            let listener = first.take().map_or_else(|| listen(&again), Ok)?;
            door.accept(&listener)
        };
        let thread = Some(threads.restarting("api", closed.clone(), life)?);
        Ok(Server { path, stopping, closed, thread })
    }

    /// Ends answers that have no end of their own: traces and captures.
    pub fn end_streams(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_streams();
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts. Without descriptors nothing does: it looks at
        // the flag now and then, too.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has been reported already
        }
        let _ = std::fs::remove_file(&self.path); // it may be gone
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    check_path(path)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Whether a socket can be at `path`: what else is there is somebody's, and
/// stays.
///
/// # Errors
/// When the path is too long for a socket, or something else is there.
pub fn check_path(path: &Path) -> io::Result<()> {
    SocketAddr::from_pathname(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let reason = "something is there that is no socket; name another path (--socket)";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
        _ => Ok(()), // a socket, or nothing
    }
}

/// Lets clients in.
struct Door {
    handler: Arc<dyn Handler>,
    stopping: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
    clients: Arc<AtomicUsize>,
    threads: Threads,
}

impl Door {
    /// Until the server is dropped; an error when the socket fails for good.
    fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        while !self.closed.load(Ordering::SeqCst) {
            let mut wanted = [PollFd::new(listener, PollFlags::IN)];
            let _ = poll(&mut wanted, Some(&LOOK)); // `accept` says what is wrong,
            // but for a socket that somebody has shut: nothing there, it says, for ever.
            let shut = wanted[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            match listener.accept() {
                Ok((stream, _)) => self.let_in(stream),
                Err(error) if is_wait(&error) && !shut => {}
                Err(error) if shut || is_for_good(&error) => return Err(error),
                Err(_) => std::thread::sleep(TICK / 2), // out of descriptors
            }
        }
        Ok(())
    }

    fn let_in(&mut self, stream: UnixStream) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let limits = stream.set_read_timeout(Some(TICK));
        if limits.and(stream.set_write_timeout(Some(TICK))).is_err() {
            return;
        }
        let decoder = Decoder::new(MAX_REQUEST);
        let (stopping, places) = (self.stopping.clone(), self.clients.clone());
        let mut client = Client { stream, decoder, gone: false, stopping, places };
        if self.clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
            let text = format!("there are {MOST_CLIENTS} clients already");
            client.send(&Answer::Error(Failure { kind: ErrorKind::Busy, text }));
            self.clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (handler, count) = (self.handler.clone(), Counted(self.clients.clone()));
        let serve = move || {
            let _count = count;
            client.serve(&*handler);
        };
        // Refused a thread: the closure is dropped, and with it the client.
        let _ = self.threads.contained("api-client", serve);
    }
}

/// Counts a client off, also when its thread panics.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const MOST_CLIENTS: usize = 64;
/// How long half a message is waited for, and a part of an answer offered.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
const TICK: Duration = Duration::from_millis(200);
/// How often the thread that lets clients in looks whether it is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::tests::{AT_ONCE, death_of};
    use api::What;

    struct Echo;

    impl Handler for Echo {
        fn handle(&self, request: Request, out: &mut Client) -> Result<(), Failure> {
            match request {
                Request::Config => {
                    out.part(Reply::Config("running".into()));
                    Ok(())
                }
                Request::Stop { .. } => {
                    while out.waits() {
                        out.part(Reply::Changed { warnings: vec![] });
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Ok(())
                }
                _ => Err(Failure { kind: ErrorKind::NotFound, text: "no".into() }),
            }
        }
    }

    #[test]
    fn a_socket_that_fails_is_made_anew() {
        let path = std::env::temp_dir().join(format!("rutter-anew-{}", std::process::id()));
        let listener = listen(&path).unwrap();
        let same = listener.try_clone().unwrap();
        let threads = Threads::new(AT_ONCE);
        let server = Server::on(listener, &path, Arc::new(Echo), &threads).unwrap();
        let mut client = api::Client::connect(&path).unwrap();
        assert!(client.call(&Request::Config).is_ok());
        rustix::net::shutdown(&same, rustix::net::Shutdown::Both).unwrap();
        let begun = Instant::now();
        while !api::Client::connect(&path).is_ok_and(|mut new| new.call(&Request::Config).is_ok()) {
            assert!(begun.elapsed() < Duration::from_secs(1), "nobody listens any more");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(client.call(&Request::Config).is_ok(), "who was in stays in");
        assert_eq!(threads.death(), None);
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_cannot_be_made_any_more_is_a_death() {
        let path = std::env::temp_dir().join(format!("rutter-never-{}", std::process::id()));
        let listener = listen(&path).unwrap();
        let same = listener.try_clone().unwrap();
        let threads = Threads::new(AT_ONCE);
        let _server = Server::on(listener, &path, Arc::new(Echo), &threads).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "somebody's").unwrap();
        rustix::net::shutdown(&same, rustix::net::Shutdown::Both).unwrap();
        assert_eq!(death_of(&threads).thread, "api");
    }

    fn server(name: &str) -> (Server, PathBuf) {
        let path = std::env::temp_dir().join(format!("rutter-{name}-{}", std::process::id()));
        (Server::start(&path, Arc::new(Echo), &Threads::default()).unwrap(), path)
    }

    #[test]
    fn answers_refusals_and_streams() {
        let (server, path) = server("answers");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = api::Client::connect(&path).unwrap();
        let config = || Reply::Config("running".into());
        assert_eq!(client.call(&Request::Config).unwrap(), config());
        assert!(client.call(&Request::Show { what: What::Ports }).is_err());
        assert_eq!(client.call(&Request::Config).unwrap(), config());
        let mut other = api::Client::connect(&path).unwrap();
        assert_eq!(other.stream(&Request::Stop { remove: false }).unwrap().take(3).count(), 3);
        drop(other); // in the middle of a stream
        assert_eq!(client.call(&Request::Config).unwrap(), config());
        drop(server);
        assert!(!path.exists());
        assert!(api::Client::connect(&path).is_err());
    }

    #[test]
    fn what_is_no_socket_stays() {
        let dir = std::env::temp_dir().join(format!("rutter-no-socket-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("notes");
        std::fs::write(&file, "mine").unwrap();
        for path in [&file, &dir] {
            let refused =
                Server::start(path, Arc::new(Echo), &Threads::default()).err().expect("refused");
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        assert!(check_path(&dir.join("x".repeat(108))).is_err());
        assert!(check_path(&dir.join("none")).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_client_that_does_not_read_holds_up_no_end() {
        let (stream, _other) = UnixStream::pair().unwrap();
        stream.set_write_timeout(Some(TICK)).unwrap();
        let stopping = Arc::new(AtomicBool::new(true));
        let decoder = Decoder::new(MAX_REQUEST);
        let places = Arc::default();
        let mut client = Client { stream, decoder, gone: false, stopping, places };
        assert!(client.write(&[0; 100]), "what the socket holds is sent");
        let start = Instant::now();
        assert!(!client.write(&vec![0; 16 << 20]));
        assert!(
            start.elapsed() < PATIENCE,
            "one offer, and not for as long as it may take otherwise"
        );
    }

    #[test]
    fn bad_clients_harm_nobody() {
        let (_server, path) = server("bad");
        let bad: [&[u8]; 4] =
            [&[0, 0], &[255; 100], &[0, 0, 0, 2, b'{', b'}'], &[0, 0, 0, 9, b'{']];
        let kept: Vec<_> = bad
            .iter()
            .map(|bytes| {
                let mut stream = UnixStream::connect(&path).unwrap();
                stream.write_all(bytes).unwrap();
                stream
            })
            .collect();
        let mut client = api::Client::connect(&path).unwrap();
        assert!(client.call(&Request::Config).is_ok());
        drop(kept);
        assert!(client.call(&Request::Config).is_ok());
    }

    /// Whether a client among `places` is given up within that time, that says one
    /// of `bytes` now and then.
    fn gives_up(bytes: &[u8], places: usize, within: Duration) -> bool {
        let (stream, mut other) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(TICK)).unwrap();
        let (decoder, places) = (Decoder::new(MAX_REQUEST), Arc::new(AtomicUsize::new(places)));
        let stopping = Arc::default();
        let mut client = Client { stream, decoder, gone: false, stopping, places };
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

    #[test]
    fn too_many_clients_are_told() {
        let (_server, path) = server("many");
        let many: Vec<_> =
            (0..MOST_CLIENTS).map(|_| api::Client::connect(&path).unwrap()).collect();
        let mut late = api::Client::connect(&path).unwrap();
        let told = late.call(&Request::Config);
        assert!(matches!(told, Err(api::CallError::Failed(f)) if f.kind == ErrorKind::Busy));
        drop(many);
    }
}
