//! The reports of `rutter run` to a service manager: a `NOTIFY_SOCKET` of the test's own.

mod common;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Scratch;

const CONFIG: &str = "workers = [0]\nbuffers = 4096\n[ports.p0]\ndevice = \"mem\"\n";

/// A router that is ended however its test ends.
struct Router(Child);

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

impl Router {
    fn start(scratch: &Scratch, notify: &str) -> Router {
        let config = scratch.file("rutter.toml", CONFIG);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rutter"));
        command.args(["--socket", &format!("{config}.sock"), "run", "--config", &config]);
        command.env("NOTIFY_SOCKET", notify).env("WATCHDOG_USEC", "400000");
        command.env_remove("WATCHDOG_PID").stdin(Stdio::null()).stderr(Stdio::null());
        Router(command.spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

fn hear(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let n = manager.recv(&mut bytes).expect("a message within ten seconds");
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

/// From start to end, at a socket where `notify` says.
fn life(scratch: &Scratch, manager: &UnixDatagram, notify: &str) {
    manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut router = Router::start(scratch, notify);
    let ready = hear(manager);
    assert_eq!(ready, "READY=1\nSTATUS=ports: 1, workers on cores [0]");
    let socket = scratch.file("rutter.toml", CONFIG) + ".sock";
    api::Client::connect(socket.as_ref()).expect("who is ready listens");
    // Signals that mean nothing would kill it, and leave the kernel as it is then.
    ["-USR1", "-USR2", "-ALRM"].iter().for_each(|signal| router.signal(signal));
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(hear(manager), "WATCHDOG=1");
    }
    let took = begun.elapsed();
    assert!((Duration::from_millis(300)..Duration::from_secs(3)).contains(&took), "{took:?}");
    router.signal("-TERM");
    let last = std::iter::from_fn(|| Some(hear(manager))).find(|heard| heard != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1\nSTATUS=stopping"));
    assert!(router.0.wait().unwrap().success());
}

#[test]
fn readiness_life_and_end_are_reported_at_a_path() {
    let scratch = Scratch::new();
    let path = scratch.file("notify", "");
    std::fs::remove_file(&path).unwrap();
    life(&scratch, &UnixDatagram::bind(&path).unwrap(), &path);
}

#[test]
fn and_at_an_abstract_name() {
    let name = format!("rutter-cli-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    life(&Scratch::new(), &UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

#[test]
fn a_start_that_fails_is_not_ready() {
    let scratch = Scratch::new();
    let path = scratch.file("notify", "");
    std::fs::remove_file(&path).unwrap();
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    let taken = Router::start(&scratch, "");
    let socket = scratch.file("rutter.toml", CONFIG) + ".sock";
    let begun = Instant::now();
    while api::Client::connect(socket.as_ref()).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut second = Router::start(&scratch, &path);
    assert_eq!(second.0.wait().unwrap().code(), Some(2));
    assert!(manager.recv(&mut [0; 64]).is_err(), "nothing was reported");
    taken.signal("-TERM");
}
