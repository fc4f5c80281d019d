//! The API's server: a Unix socket, mode 0600, one thread a client.
//!
//! Nothing that a client does harms another or the data plane: frames have a
//! limit, half of one is waited for only so long, a client that does not read
//! is dropped, and there are only so many clients. The thread that lets them in is
//! started again when it fails, at a socket made anew.

mod client;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::{Answer, ErrorKind, Failure, Request};
use feeds::accept::is_for_good;
use rustix::event::PollFlags;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::halt::Halt;
use crate::threads::Threads;
pub use client::Client;
use client::{Counted, MOST_CLIENTS, TICK, is_wait};

/// Carries requests out.
pub trait Handler: Send + Sync + 'static {
    /// Carries `request` out; what it answers goes to `out`.
    ///
    /// # Errors
    /// The answer to the client.
    fn handle(&self, request: Request, out: &mut Client) -> Result<(), Failure>;
}

/// A listening socket. Dropped, it goes, and its file with it.
pub struct Server {
    path: PathBuf,
    /// Answers that have no end of their own end now.
    stopping: Arc<AtomicBool>,
    /// Nobody is let in any more.
    closed: Halt,
    answering: Arc<AtomicUsize>,
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
        let closed = Halt::new()?;
        let answering = Arc::<AtomicUsize>::default();
        let mut door = Door {
            handler,
            stopping: stopping.clone(),
            closed: closed.clone(),
            clients: Arc::default(),
            answering: answering.clone(),
            threads: threads.clone(),
        };
        let life = move || {
            let listener = first.take().map_or_else(|| listen(&again), Ok)?;
            door.accept(&listener)
        };
        let thread = Some(threads.restarting("api", closed.clone(), life)?);
        Ok(Server { path, stopping, closed, answering, thread })
    }

    /// Ends answers that have no end of their own: traces and captures.
    pub fn end_streams(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_streams();
        self.closed.call();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has been reported already
        }
        let _ = std::fs::remove_file(&self.path); // it may be gone
        // What has begun is answered, above all the order to stop; and what it changes is
        // there before the caller restores what was.
        let end = Instant::now() + ANSWERS;
        while self.answering.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            std::thread::sleep(ANSWERS / 200);
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    check_path(path)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Its mode is the file's from the first moment on, whatever the mask of the process.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
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
            let reason = "the path exists and is not a socket; name another path (--socket)";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
        _ => Ok(()), // a socket, or nothing
    }
}

/// Lets clients in.
struct Door {
    handler: Arc<dyn Handler>,
    stopping: Arc<AtomicBool>,
    closed: Halt,
    clients: Arc<AtomicUsize>,
    answering: Arc<AtomicUsize>,
    threads: Threads,
}

impl Door {
    /// Until the server is dropped; an error when the socket fails for good.
    fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        while !self.closed.is_called() {
            let state = self.closed.wait_beside(listener.as_fd(), None)?;
            // `accept` says what is wrong, but for a socket that somebody has shut: nothing
            // there, it says, for ever.
            let shut = state.intersects(PollFlags::HUP | PollFlags::ERR);
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
        if self.closed.is_called() {
            return;
        }
        let count = Counted::new(&self.clients);
        let (stopping, places) = (self.stopping.clone(), self.clients.clone());
        let client = Client::new(stream, stopping, places, self.answering.clone());
        let Ok(mut client) = client else { return };
        if self.clients.load(Ordering::Relaxed) > MOST_CLIENTS {
            let text = format!("there are {MOST_CLIENTS} clients already");
            return client.send(&Answer::Error(Failure { kind: ErrorKind::Busy, text }));
        }
        let handler = self.handler.clone();
        let serve = move || {
            let _count = count;
            client.serve(&*handler);
        };
        // Refused a thread: the closure is dropped, and with it the client.
        let _ = self.threads.contained("api-client", serve);
    }
}

/// How long a stop waits for answers that have begun.
const ANSWERS: Duration = Duration::from_secs(1);
/// Connections that wait to be let in.
const BACKLOG: i32 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::tests::{AT_ONCE, death_of};
    use api::{Reply, What};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

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
            assert!(begun.elapsed() < Duration::from_secs(10), "nobody listens any more");
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

    /// Takes its time, and then says whether the daemon was stopping.
    struct Slow(Arc<AtomicBool>);

    impl Handler for Slow {
        fn handle(&self, _: Request, out: &mut Client) -> Result<(), Failure> {
            out.part(Reply::Config("begun".into()));
            while !out.stops() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(100));
            self.0.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    #[test]
    fn what_has_begun_is_answered_before_the_server_is_gone() {
        let path = std::env::temp_dir().join(format!("rutter-begun-{}", std::process::id()));
        let done = Arc::new(AtomicBool::new(false));
        let handler = Arc::new(Slow(done.clone()));
        let server = Server::start(&path, handler, &Threads::default()).unwrap();
        let mut client = api::Client::connect(&path).unwrap();
        let mut parts = client.stream(&Request::Config).unwrap();
        assert!(parts.next().is_some_and(|part| part.is_ok()));
        drop(server);
        assert!(done.load(Ordering::SeqCst), "the request was left behind");
        assert!(parts.next().is_none(), "in order");
    }

    #[test]
    fn too_many_clients_are_refused() {
        let (_server, path) = server("many");
        let many: Vec<_> =
            (0..MOST_CLIENTS).map(|_| api::Client::connect(&path).unwrap()).collect();
        let mut late = api::Client::connect(&path).unwrap();
        let refused = late.call(&Request::Config);
        assert!(matches!(refused, Err(api::CallError::Failed(f)) if f.kind == ErrorKind::Busy));
        drop(many);
    }
}
