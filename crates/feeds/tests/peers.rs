//! Who may be FRR: by the user at the other end, also across network namespaces. As
//! another user than root nothing can be tried; the tests then say so and pass.

mod namespace;

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use feeds::fpm::{Fpm, Rules, User};
use namespace::{in_namespace, ip};
use tables::Event;

#[test]
fn a_stranger_harms_nobody() {
    let Some(mut b) = Bench::new() else { return };
    // Alone it does not get in, which the end of its connection shows.
    let mut stranger = b.client(NOBODY, "cat <&3 >&2; exec sleep 60");
    b.until("it is refused", |b| b.fpm.counters().strangers == 1);
    assert_eq!((b.fpm.counters().connections, b.events), (0, 0));
    // It was connected, had something to say, and has gone before anybody looks: the
    // kernel calls such a socket root's.
    b.client(NOBODY, "printf 12345 >&3").0.wait().unwrap();
    b.until("it is refused", |b| b.fpm.counters().strangers == 2);
    // Zebra comes, and keeps its place in a crowd.
    let zebra = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
    b.until("zebra is in", |b| b.fpm.counters().connected);
    let crowd: Vec<_> = (0..8).map(|_| b.client(NOBODY, "exec sleep 60")).collect();
    b.until("they are refused", |b| b.fpm.counters().strangers == 10);
    assert_eq!(b.fpm.counters().connections, 1);
    zebra.set_nonblocking(true).unwrap();
    let still = (&zebra).read(&mut [0]).unwrap_err();
    assert_eq!(still.kind(), std::io::ErrorKind::WouldBlock);
    let said = b.fpm.notices();
    assert_eq!(said.len(), 1, "one line for all of them: {said:?}");
    assert!(said[0].to_string().contains("65534"), "{}", said[0]);
    assert!(stranger.0.try_wait().unwrap().is_none());
    drop(crowd);
}

#[test]
fn users_are_configured_by_number_and_name() {
    let Some(mut b) = Bench::new() else { return };
    b.fpm = listen(vec![User::parse("65534")]);
    let _client = b.client(NOBODY, "exec sleep 60");
    b.until("it is in", |b| b.fpm.counters().connected);
    let _root = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
    b.until("root is none of them", |b| b.fpm.counters().strangers == 1);
    b.fpm = listen(vec![User::parse("root")]);
    let _root = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
    b.until("root by name", |b| b.fpm.counters().connected);
}

#[test]
fn the_kernel_is_asked_about_the_namespace_where_it_listens() {
    let (give, take) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let inside = std::thread::spawn(move || {
        in_namespace(move || {
            ip("link set lo up");
            let fpm = listen(Rules::default().users);
            let zebra = TcpStream::connect(fpm.address().unwrap()).unwrap();
            give.send((fpm, zebra)).unwrap();
            let _ = wait.recv();
        });
    });
    // Where there is no namespace, nothing comes, and the skip is counted.
    if let Ok((fpm, _zebra)) = take.recv() {
        // A thread of another namespace looks.
        let mut b = Bench { fpm, events: 0 };
        b.until("zebra is in", |b| b.fpm.counters().connected);
    }
    drop(done);
    inside.join().unwrap();
}

#[test]
fn a_zebra_that_went_without_a_word_is_noticed() {
    in_namespace(|| {
        ip("link set lo up");
        let mut b = Bench { fpm: listen(Rules::default().users), events: 0 };
        let zebra = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
        b.until("zebra is in", |b| b.fpm.counters().connected);
        ip("link set lo down"); // its end is not heard
        drop(zebra);
        b.until("it is given up", |b| !b.fpm.counters().connected);
        ip("link set lo up");
        let _zebra = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
        b.until("the next is in", |b| b.fpm.counters().connections == 2);
    });
}

struct Bench {
    fpm: Fpm,
    events: usize,
}

/// A process; ends with its value.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }
}

impl Bench {
    fn new() -> Option<Bench> {
        if !rustix::process::geteuid().is_root() {
            testing::skip("being another user needs root");
            return None;
        }
        if testing::in_user_namespace() {
            testing::skip("a user namespace has no other user");
            return None;
        }
        Some(Bench { fpm: listen(Rules::default().users), events: 0 })
    }

    /// Another user's shell, connected as descriptor 3, then doing `what`.
    fn client(&self, user: u32, what: &str) -> Client {
        let port = self.fpm.address().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; {what}");
        let mut command = Command::new("bash");
        command.args(["-c", &script]).uid(user).gid(user);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Client(command.spawn().unwrap())
    }

    fn until(&mut self, what: &str, is: impl Fn(&Bench) -> bool) {
        let start = Instant::now();
        while !is(self) {
            let events = &mut self.events;
            let mut sink = |new: &[Event]| *events += new.len();
            self.fpm.poll(Duration::from_millis(10), &mut sink).unwrap();
            let counters = self.fpm.counters();
            assert!(start.elapsed() < Duration::from_secs(40), "{what}: {counters:?}");
        }
    }
}

fn listen(users: Vec<User>) -> Fpm {
    let rules = Rules { users, ..Rules::default() };
    Fpm::listen((Ipv4Addr::LOCALHOST, 0).into(), rules).unwrap()
}

const NOBODY: u32 = 65534;
