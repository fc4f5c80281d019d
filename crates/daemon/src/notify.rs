//! Reports to the service manager (`sd_notify(3)`): ready, stopping, alive.
//!
//! ```text
//!  NOTIFY_SOCKET  /run/systemd/notify or @abstract   where to; absent: nobody asks
//!  WATCHDOG_USEC  30000000                           WATCHDOG=1 at least so often, or be killed
//!  WATCHDOG_PID   1234                               whose reports these are
//! ```
//!
//! Own code, because `sd-notify` (0.5) knows no abstract names, and opens a
//! socket for each message: without free descriptors it would fall silent, and
//! be killed for it. Here the socket is opened once and never blocks; what a full
//! queue of the manager does not take is sent again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The way to the service manager, or none.
#[derive(Debug, Default)]
pub struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
    /// To be sent again.
    unsent: Option<String>,
}

#[derive(Debug)]
struct Watchdog {
    /// Half of what is allowed.
    every: Duration,
    next: Instant,
}

/// The variables that a service manager sets in the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `NOTIFY_SOCKET`.
    pub socket: Option<OsString>,
    /// `WATCHDOG_USEC`.
    pub watchdog_usec: Option<String>,
    /// `WATCHDOG_PID`.
    pub watchdog_pid: Option<String>,
}

impl Environment {
    /// This process's.
    pub fn own() -> Environment {
        Environment {
            socket: std::env::var_os("NOTIFY_SOCKET"),
            watchdog_usec: std::env::var("WATCHDOG_USEC").ok(),
            watchdog_pid: std::env::var("WATCHDOG_PID").ok(),
        }
    }

    /// The watchdog's time; `None` where there is none, or it is another process's.
    fn watchdog(&self) -> Option<Duration> {
        let pid = self.watchdog_pid.as_ref();
        if pid.is_some_and(|pid| pid.parse() != Ok(std::process::id())) {
            return None;
        }
        let allowed = Duration::from_micros(self.watchdog_usec.as_ref()?.parse().ok()?);
        (!allowed.is_zero()).then_some(allowed)
    }
}

impl Notifier {
    /// Reports to whom `environment` names. That it cannot be reached is logged, and no
    /// reason not to run.
    pub fn new(environment: &Environment) -> Notifier {
        let Some(name) = environment.socket.as_ref().filter(|name| !name.is_empty()) else {
            return Notifier::default();
        };
        match open(name) {
            Ok(manager) => {
                let watchdog = environment.watchdog().map(|allowed| {
                    let every = allowed / 2;
                    Watchdog { every, next: Instant::now() + every }
                });
                Notifier { manager: Some(manager), watchdog, unsent: None }
            }
            Err(error) => {
                tracing::warn!("NOTIFY_SOCKET {}: {error}", name.to_string_lossy());
                Notifier::default()
            }
        }
    }

    /// The taps are there and the API listens: who waits for them may start.
    pub fn ready(&mut self, status: &str) {
        self.report(format!("READY=1\nSTATUS={}", line(status)));
    }

    /// The run ends; the watchdog asks no more.
    pub fn stopping(&mut self, status: &str) {
        self.watchdog = None;
        self.report(format!("STOPPING=1\nSTATUS={}", line(status)));
    }

    /// To be called often, with those who make no progress. When half of the time
    /// allowed has passed the manager hears that all is well, if it is; if not, at the
    /// first call at which it is again.
    pub fn alive(&mut self, silent: &[String]) {
        if let Some(message) = self.unsent.take() {
            self.report(message);
        }
        let now = Instant::now();
        let due = self.watchdog.as_ref().is_some_and(|watchdog| now >= watchdog.next);
        if due
            && silent.is_empty()
            && self.send("WATCHDOG=1")
            && let Some(watchdog) = &mut self.watchdog
        {
            watchdog.next = now + watchdog.every;
        }
    }

    fn report(&mut self, message: String) {
        if !self.send(&message) {
            self.unsent = Some(message);
        }
    }

    /// False where it has to be sent again: the manager's queue is full, or there is no
    /// memory for it now.
    fn send(&self, message: &str) -> bool {
        let Some((socket, manager)) = &self.manager else { return true };
        let Err(error) = socket.send_to_addr(message.as_bytes(), manager) else { return true };
        tracing::debug!("the service manager cannot be notified: {error}");
        let full = [io::ErrorKind::WouldBlock, io::ErrorKind::OutOfMemory];
        !full.contains(&error.kind()) && error.raw_os_error() != Some(ENOBUFS)
    }
}

fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected /PATH or @NAME")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

const ENOBUFS: i32 = 105;

/// A line of the message ends at a newline.
fn line(text: &str) -> String {
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 512];
        let n = manager.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
    }

    fn at(name: impl Into<OsString>) -> Environment {
        Environment { socket: Some(name.into()), ..Environment::default() }
    }

    #[test]
    fn readiness_is_reported_at_a_path_and_at_an_abstract_name() {
        let name = format!("rutter-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let environments = [at(&path), at(format!("@{name}"))];
        for (manager, environment) in [by_path, by_name].iter().zip(environments) {
            manager.set_nonblocking(true).unwrap();
            let mut notifier = Notifier::new(&environment);
            assert_eq!(heard(manager), None);
            notifier.ready("2 ports");
            assert_eq!(heard(manager).as_deref(), Some("READY=1\nSTATUS=2 ports"));
            notifier.alive(&[]); // no watchdog asks
            notifier.stopping("two\nlines");
            assert_eq!(heard(manager).as_deref(), Some("STOPPING=1\nSTATUS=two lines"));
        }
        std::fs::remove_file(&path).unwrap();
        Notifier::new(&at(&path)).ready("nobody listens");
        Notifier::new(&at("neither")).ready("nobody listens");
        Notifier::new(&Environment::default()).ready("nobody asks");
    }

    #[test]
    fn the_watchdog_hears_of_progress_only() {
        let name = format!("rutter-watchdog-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager.set_nonblocking(true).unwrap();
        let usec = Some("40000".to_string());
        let mut notifier =
            Notifier::new(&Environment { watchdog_usec: usec, ..at(format!("@{name}")) });
        notifier.alive(&[]); // not yet
        assert_eq!(heard(&manager), None);
        std::thread::sleep(Duration::from_millis(25));
        notifier.alive(&["worker-0".into()]);
        assert_eq!(heard(&manager), None);
        notifier.alive(&[]); // as soon as it goes on
        assert_eq!(heard(&manager).as_deref(), Some("WATCHDOG=1"));
        std::thread::sleep(Duration::from_millis(25));
        notifier.stopping("");
        assert!(heard(&manager).is_some_and(|heard| heard.starts_with("STOPPING=1")));
        notifier.alive(&[]);
        assert_eq!(heard(&manager), None, "it is not asked any more");
    }

    #[test]
    fn what_a_full_queue_does_not_take_is_sent_again() {
        let name = format!("rutter-full-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager.set_nonblocking(true).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        while other.send_to_addr(b"other", &address).is_ok() {}
        let usec = Some("2".to_string());
        let mut notifier =
            Notifier::new(&Environment { watchdog_usec: usec, ..at(format!("@{name}")) });
        notifier.ready("2 ports");
        notifier.alive(&[]);
        while heard(&manager).is_some_and(|heard| heard == "other") {}
        assert_eq!(heard(&manager), None);
        notifier.alive(&[]);
        assert_eq!(heard(&manager).as_deref(), Some("READY=1\nSTATUS=2 ports"));
        assert_eq!(heard(&manager).as_deref(), Some("WATCHDOG=1"));
        notifier.alive(&["worker-0".into()]);
        assert_eq!(heard(&manager), None, "once");
    }

    #[test]
    fn another_s_watchdog_is_not_ours() {
        let mut environment =
            Environment { watchdog_usec: Some("30000000".into()), ..Environment::default() };
        assert_eq!(environment.watchdog(), Some(Duration::from_secs(30)));
        environment.watchdog_pid = Some(std::process::id().to_string());
        assert!(environment.watchdog().is_some());
        environment.watchdog_pid = Some("1".into());
        assert_eq!(environment.watchdog(), None);
        let odd =
            |usec: &str| Environment { watchdog_usec: Some(usec.into()), ..Environment::default() };
        assert_eq!([odd("0").watchdog(), odd("soon").watchdog()], [None, None]);
    }
}
