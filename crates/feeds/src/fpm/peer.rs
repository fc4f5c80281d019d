//! Whose a connection of this machine is: the kernel is asked (INET_DIAG,
//! `sock_diag(7)`) for the socket at its other end.
//!
//! A socket that its process has closed is nobody's: the kernel then names user 0, and
//! so it does for one that has not been accepted. Only one that is connected and
//! has an inode, which a process holds, says who is there.

use std::fs::read_to_string;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as Kernel};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout,
};

use crate::netlink::message::{ERROR, Messages, request, u16_at, u32_at};

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

/// Asks the kernel about sockets of the network namespace in which this was opened,
/// whichever its thread is in later.
pub(super) struct Peers {
    socket: Socket,
    sequence: u32,
}

impl Peers {
    /// Opens it for the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Peers> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&Kernel::new(0, 0))?;
        Ok(Peers { socket, sequence: 0 })
    }

    /// The user whose process has made and holds the other end of `stream`; `None` where
    /// nobody holds it any more.
    pub(super) fn user_of(&mut self, stream: &TcpStream) -> io::Result<Option<u32>> {
        // Its end is the other's peer.
        let (from, to) = (stream.peer_addr()?, stream.local_addr()?);
        self.sequence = self.sequence.wrapping_add(1);
        let asked = request(BY_FAMILY, 0, self.sequence, &question(from, to));
        self.socket.send(&asked, 0)?;
        // The answer is there when the question has been sent.
        loop {
            let mut answer = Vec::with_capacity(ANSWER);
            self.socket.recv(&mut answer, DONT_WAIT)?;
            let said = Messages::new(&answer).find(|m| m.sequence == self.sequence);
            let Some(said) = said else { continue };
            return match said.kind {
                ERROR => match -(u32_at(said.payload, 0) as i32) {
                    ENOENT => Ok(None),
                    error => Err(io::Error::from_raw_os_error(error)),
                },
                _ => Ok(holder(said.payload, (from.port(), to.port()))),
            };
        }
    }
}

/// `struct inet_diag_req_v2` for the socket that is connected so.
fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let family = if from.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut out = vec![family, TCP, 0, 0];
    out.extend(u32::MAX.to_ne_bytes()); // of any state
    out.extend(from.port().to_be_bytes());
    out.extend(to.port().to_be_bytes());
    for end in [from, to] {
        let mut address = [0; 16];
        match end.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address = ip.octets(),
        }
        out.extend(address);
    }
    out.extend([0; 4]); // over any interface
    out.extend([u8::MAX; 8]); // no cookie
    out
}

/// The user in a `struct inet_diag_msg` about the socket with these ports.
fn holder(said: &[u8], (from, to): (u16, u16)) -> Option<u32> {
    let port = |at| u16::from_be(u16_at(said, at));
    let held = u32_at(said, INODE) != 0 && said.get(1) == Some(&ESTABLISHED);
    (held && (port(4), port(6)) == (from, to)).then(|| u32_at(said, UID))
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

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const UID: usize = 64;
const INODE: usize = 68;
const ANSWER: usize = 4096;
const DONT_WAIT: i32 = 0x40;
const ENOENT: i32 = 2;
const IDLE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_secs(2);
const PROBES: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpListener};

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
        let mut said = vec![0; 72];
        said[1] = ESTABLISHED;
        said[4..8].copy_from_slice(&[0, 1, 0, 2]);
        assert_eq!(holder(&said, (1, 2)), None, "no inode: an orphan of user 0");
        said[INODE] = 9;
        assert_eq!((holder(&said, (1, 2)), holder(&said, (1, 3))), (Some(0), None));
        said[1] = 10; // listens
        assert_eq!((holder(&said, (1, 2)), holder(&[], (0, 0))), (None, None));
    }
}
