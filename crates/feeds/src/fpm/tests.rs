use super::framing::{HEADER, NETLINK};
use super::*;
use std::io::Write;
use std::net::Ipv4Addr;
use tables::event::{FPM_OBJECTS, Target};

/// A netlink route to `third`.0/24 (or its deletion) in FPM's framing.
fn framed(kind: u16, third: u8, object: u32) -> Vec<u8> {
    let mut body = vec![2, 24, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    body.extend([8, 0, 1, 0, 203, 0, third, 0]);
    if object > 0 {
        body.extend([8, 0, 30, 0]);
        body.extend(object.to_ne_bytes());
    }
    let mut all = vec![1, NETLINK];
    all.extend(((HEADER + 16 + body.len()) as u16).to_be_bytes());
    all.extend(((16 + body.len()) as u32).to_ne_bytes());
    all.extend(kind.to_ne_bytes());
    all.extend([0; 10]);
    all.extend(body);
    all
}

/// Whoever runs the test may be FRR.
fn rules() -> Rules {
    Rules { users: vec![User::Number(rustix::process::geteuid().as_raw())], hold: HOLD }
}

struct Bench {
    fpm: Fpm,
    zebra: TcpStream,
    batches: Vec<Vec<Event>>,
}

impl Bench {
    fn new() -> Bench {
        let mut fpm = Fpm::listen((Ipv4Addr::LOCALHOST, 0).into(), rules()).unwrap();
        let zebra = TcpStream::connect(fpm.address().unwrap()).unwrap();
        let mut batches = Vec::new();
        let mut sink = |events: &[Event]| batches.push(events.to_vec());
        while fpm.counters().connections == 0 {
            fpm.poll(Duration::from_millis(10), &mut sink).unwrap();
        }
        assert_eq!(batches.remove(0).len(), 3, "three listings begin");
        Bench { fpm, zebra, batches }
    }

    /// Zebra says `bytes`, all of which are there when this returns: also on the
    /// loopback they may take their time.
    fn says(&mut self, bytes: &[u8]) {
        let client = self.fpm.client.as_ref().unwrap();
        let there = || rustix::io::ioctl_fionread(client).unwrap() as usize;
        let (before, begun) = (there(), Instant::now());
        self.zebra.write_all(bytes).unwrap();
        while there() < before + bytes.len() {
            assert!(begun.elapsed() < LIMIT, "{} of {}", there(), bytes.len());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn poll(&mut self) {
        let mut sink = |events: &[Event]| self.batches.push(events.to_vec());
        self.fpm.poll(Duration::from_millis(20), &mut sink).unwrap();
    }

    fn hangs_up(&mut self) {
        self.zebra.shutdown(std::net::Shutdown::Both).unwrap();
        self.until(|b| !b.fpm.counters().connected);
        self.batches.clear();
    }

    /// Another zebra connects; its listing begins.
    fn comes_back(&mut self) {
        let before = self.fpm.counters().connections;
        self.zebra = TcpStream::connect(self.fpm.address().unwrap()).unwrap();
        self.until(|b| b.fpm.counters().connections > before);
        self.batches.clear();
    }

    fn until(&mut self, is: impl Fn(&Bench) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < LIMIT, "{:?}", self.fpm.counters());
            self.poll();
        }
    }

    fn at(&mut self, later: Duration) {
        let mut sink = |events: &[Event]| self.batches.push(events.to_vec());
        self.fpm.look_at_the_clock(Instant::now() + later, &mut sink);
    }
}

#[test]
fn routes_in_pieces() {
    let mut b = Bench::new();
    for piece in [framed(24, 1, 0), framed(24, 2, 7)].concat().chunks(13) {
        b.says(piece);
        b.poll();
    }
    b.until(|b| b.batches.concat().len() == 2);
    assert!(matches!(
        &b.batches.concat()[1],
        Event::Route(r, _) if r.target == Target::Object { id: 7 | FPM_OBJECTS, mtu: 0 }
    ));
    assert_eq!(b.fpm.counters().messages, 2);
}

#[test]
fn a_change_is_one_batch() {
    let mut b = Bench::new();
    b.says(&[framed(24, 1, 0), framed(25, 2, 0)].concat());
    b.poll();
    assert!(b.batches.is_empty(), "a deletion waits for what follows");
    b.says(&framed(24, 2, 7));
    b.until(|b| !b.batches.is_empty());
    assert!(matches!(b.batches[0][..], [Event::Route(..), Event::RouteGone(_), Event::Route(..)]));
}

#[test]
fn a_lost_zebra_is_remembered_for_a_while() {
    let mut b = Bench::new();
    b.says(&framed(24, 1, 0));
    b.until(|b| !b.batches.is_empty());
    b.batches.clear();
    b.at(Duration::from_secs(1));
    assert!(b.batches.is_empty());
    b.at(QUIET); // nothing was there before: nothing can be missing
    assert_eq!(b.batches, [SCOPES.map(Event::SweepEnd).to_vec()]);
    b.batches.clear();
    b.hangs_up();
    b.at(HOLD / 2);
    assert!(b.batches.is_empty(), "what is there serves meanwhile");
    b.at(HOLD);
    assert_eq!(b.batches.concat().len(), 6);
    b.at(HOLD * 2);
    assert_eq!(b.batches.len(), 2, "once");
    assert_eq!(b.fpm.counters().expired, 1);
    let lines = b.fpm.notices().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        lines.len() == 2 && lines[0].contains("gone") && lines[1].contains("swept"),
        "{lines:?}"
    );
}

#[test]
fn silence_is_no_complete_listing() {
    let mut b = Bench::new();
    b.says(&framed(24, 1, 0));
    b.until(|b| !b.batches.is_empty());
    b.at(QUIET);
    b.hangs_up();
    b.comes_back();
    for silent in [QUIET, LONGEST, HOLD - Duration::from_secs(1)] {
        b.at(silent);
        assert_eq!(b.batches, [] as [Vec<Event>; 0], "after {silent:?}");
    }
    b.at(HOLD + Duration::from_secs(1));
    assert_eq!(b.batches, [SCOPES.map(Event::SweepEnd).to_vec()]);
    assert_eq!((b.fpm.counters().expired, b.fpm.counters().listings), (0, 2));
}

#[test]
fn coming_and_going_does_not_keep_routes_for_ever() {
    let mut b = Bench::new();
    b.at(QUIET);
    b.hangs_up();
    let lost = b.fpm.stale.unwrap();
    for _ in 0..3 {
        b.comes_back();
        b.hangs_up();
    }
    assert_eq!(b.fpm.stale, Some(lost));
    b.comes_back();
    b.at(HOLD + QUIET);
    b.hangs_up();
    assert!(b.fpm.stale.unwrap() > lost, "a whole listing has come since");
}

#[test]
fn a_second_is_refused_while_the_first_is_there() {
    let mut b = Bench::new();
    let mut second = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
    b.until(|b| b.fpm.counters().seconds == 1);
    assert_eq!(second.read(&mut [0]).unwrap(), 0, "it is said");
    assert_eq!((b.fpm.counters().connections, b.fpm.counters().connected), (1, true));
    b.says(&framed(24, 1, 0));
    b.until(|b| b.batches.concat().len() == 1);
    // One that comes while the first one's last words are unread takes its place.
    b.says(&framed(24, 2, 0).repeat(9));
    b.zebra.shutdown(std::net::Shutdown::Write).unwrap();
    let _third = TcpStream::connect(b.fpm.address().unwrap()).unwrap();
    b.until(|b| b.fpm.counters().connections == 2);
    assert_eq!((b.fpm.counters().seconds, b.fpm.counters().messages), (1, 10));
}

#[test]
fn damage_ends_the_connection() {
    let mut b = Bench::new();
    b.says(&[9, 9, 9, 9, 9]);
    b.poll();
    assert_eq!((b.fpm.counters().damaged, b.fpm.counters().connected), (1, false));
    b.comes_back();
    assert!(b.fpm.counters().connected);
}

#[test]
fn it_listens_where_it_knows_who_is_there() {
    let refused = Fpm::listen((Ipv4Addr::UNSPECIFIED, 0).into(), rules()).err().unwrap();
    assert!(refused.to_string().contains("loopback"), "{refused}");
}

#[test]
fn a_socket_that_listens_no_more_is_an_error_and_its_routes_are_held_for_a_while() {
    let mut b = Bench::new();
    let address = b.fpm.address().unwrap();
    rustix::net::shutdown(&b.fpm, rustix::net::Shutdown::Both).unwrap();
    let failed = b.fpm.poll(Duration::from_millis(20), &mut |_: &[Event]| {});
    assert!(is_for_good(&failed.unwrap_err()));
    let Bench { fpm, zebra, .. } = b;
    drop((fpm, zebra));
    b = Bench { fpm: Fpm::listen_again(address, rules()).unwrap(), ..Bench::new() };
    b.batches.clear();
    b.at(HOLD / 2);
    assert!(b.batches.is_empty(), "what is there serves meanwhile");
    b.at(HOLD);
    assert_eq!(b.batches.concat().len(), 6, "all listings, with nothing in them");
}

const LIMIT: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(90);
