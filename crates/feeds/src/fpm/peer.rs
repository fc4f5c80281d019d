//! Whose a connection of this machine is: the kernel is asked (INET_DIAG,
//! `sock_diag(7)`) for the socket at its other end.
//!
//! A socket that its process has closed is nobody's: the kernel then names user 0, and
//! so it does for one that has not been accepted. Only one that is connected and
//! has an inode, which a process holds, says who is there.

use std::fs::read_to_string;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout,
};

use crate::diag::{Diag, Said};

/// A user, as the configuration names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum User {
    /// By the name in `/etc/passwd`; one that is not there is nobody.
    Name(String),
    /// By number.
    Number(u32),
}

impl User {
    /// Digits are a number.
    pub fn parse(text: &str) -> User {
        text.parse().map_or_else(|_| User::Name(text.into()), User::Number)
    }

    /// Whether this is the user of number `uid`, where `passwd` lists the users.
    ///
    /// The file is read and no name service asked: its answer might have to come over
    /// the very network that waits here for its routes.
    fn is(&self, uid: u32, passwd: &str) -> bool {
        match self {
            User::Number(number) => *number == uid,
            User::Name(name) => passwd.lines().any(|line| {
                let mut fields = line.split(':');
                let named = fields.next() == Some(name);
                named && fields.nth(1).is_some_and(|number| number.parse() == Ok(uid))
            }),
        }
    }
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            User::Name(name) => name.fmt(f),
            User::Number(number) => number.fmt(f),
        }
    }
}

/// Whether `uid` is one of `users`.
pub(super) fn is_one_of(uid: u32, users: &[User]) -> io::Result<bool> {
    let passwd = match read_to_string("/etc/passwd") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        passwd => passwd?,
    };
    Ok(users.iter().any(|user| user.is(uid, &passwd)))
}

/// Asks whose connections are.
pub(super) struct Peers(Diag);

impl Peers {
    /// For those of the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Peers> {
        Diag::open().map(Peers)
    }

    /// The user whose process has made and holds the other end of `stream`; `None` where
    /// nobody holds it any more.
    pub(super) fn user_of(&mut self, stream: &TcpStream) -> io::Result<Option<u32>> {
        // Its end is the other's peer.
        let (from, to) = (stream.peer_addr()?, stream.local_addr()?);
        let ports = (from.port(), to.port());
        self.0.one((from, to), |said| holder(said, ports)).map(Option::flatten)
    }
}

/// The user of the socket with these ports.
fn holder(said: Said<'_>, ports: (u16, u16)) -> Option<u32> {
    let held = said.is_held() && said.is_established();
    (held && said.ports() == ports).then(|| said.user())
}

/// Makes the kernel ask a silent peer whether it is there, and give it up soon: its
/// place is wanted.
pub(super) fn notice_death(stream: &TcpStream) -> io::Result<()> {
    let stream = stream.as_fd();
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, IDLE)?;
    set_tcp_keepintvl(stream, BETWEEN)?;
    set_tcp_keepcnt(stream, PROBES)?;
    set_tcp_user_timeout(stream, (IDLE + BETWEEN * PROBES).as_millis() as u32)?;
    Ok(())
}

const IDLE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_secs(2);
const PROBES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv6Addr, TcpListener};

    #[test]
    fn users_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nfrr:x:104:112::/:\nbroken\n";
        assert!(User::parse("frr").is(104, passwd));
        assert!(!User::parse("frr").is(0, passwd));
        assert!(User::parse("104").is(104, passwd) && !User::parse("104").is(0, passwd));
        assert!(!User::parse("nobody").is(0, passwd) && !User::parse("broken").is(0, passwd));
        assert!(!User::parse("").is(0, ""));
    }

    #[test]
    fn both_families_and_nobody() {
        let mut peers = Peers::open().unwrap();
        let me = rustix::process::geteuid().as_raw();
        for loopback in [IpAddr::from([127, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let Ok(listener) = TcpListener::bind((loopback, 0)) else { continue }; // no IPv6
            let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ours, _) = listener.accept().unwrap();
            assert_eq!(peers.user_of(&ours).unwrap(), Some(me));
            assert_eq!(peers.user_of(&other).unwrap(), Some(me));
            drop(other);
            assert_eq!(peers.user_of(&ours).unwrap(), None, "a closed socket is nobody's");
        }
    }

    #[test]
    fn a_listener_or_an_orphan_is_no_holder() {
        let mut bytes = [0; 72];
        let said = |bytes: &[u8], ports| holder(Said(bytes), ports);
        bytes[1] = 1; // established
        bytes[4..8].copy_from_slice(&[0, 1, 0, 2]);
        assert_eq!(said(&bytes, (1, 2)), None, "no inode: an orphan of user 0");
        bytes[68] = 9;
        assert_eq!((said(&bytes, (1, 2)), said(&bytes, (1, 3))), (Some(0), None));
        bytes[1] = 10; // listens
        assert_eq!((said(&bytes, (1, 2)), said(&[], (0, 0))), (None, None));
    }
}
