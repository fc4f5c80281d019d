//! Without a free descriptor no connection can be taken. The limit is the whole
//! process's: this test has one of its own.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use feeds::fpm::{Fpm, Rules, User};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn fpm_waits_for_a_descriptor_and_takes_the_connection_then() {
    let me = User::Number(rustix::process::geteuid().as_raw());
    let rules = Rules { users: vec![me], ..Rules::default() };
    let mut fpm = Fpm::listen((Ipv4Addr::LOCALHOST, 0).into(), rules).unwrap();
    let mut first = TcpStream::connect(fpm.address().unwrap()).unwrap();
    let poll = |fpm: &mut Fpm| fpm.poll(Duration::from_millis(20), &mut |_: &[_]| {});
    while fpm.counters().connections < 1 {
        poll(&mut fpm).unwrap();
    }
    let second = TcpStream::connect(fpm.address().unwrap()).unwrap();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..usual }).unwrap();
    let (begun, mut looks) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(500) {
        poll(&mut fpm).expect("it is no reason to end");
        looks += 1;
    }
    assert!(fpm.refusal().is_some_and(|why| why.raw_os_error() == Some(24)), "{:?}", fpm.refusal());
    assert!((1..=6).contains(&fpm.counters().refused), "{:?}", fpm.counters());
    assert!(looks < 100, "{looks} looks in half a second: it does not wait");
    assert!(fpm.counters().connected, "the connection that is there serves");

    setrlimit(Resource::Nofile, usual).unwrap();
    first.shutdown(std::net::Shutdown::Write).unwrap();
    let begun = Instant::now();
    while fpm.counters().connections < 2 {
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", fpm.counters());
        poll(&mut fpm).unwrap();
    }
    assert!(fpm.refusal().is_none());
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "its end was heard first");
    drop(second);
}
