//! Asks the kernel about TCP sockets (INET_DIAG, `sock_diag(7)`): about one, or for those of
//! the routing daemons.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use netlink::connection::{Netlink, errno};
use netlink::message::{u16_at, u32_at};
use netlink::names::*;
use netlink::request::Request;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use tables::peers::Session;

/// Asks about sockets of the network namespace in which this was opened, whichever its
/// thread is in later.
pub struct Diag(Netlink);

impl Diag {
    /// Opens it for the namespace of the calling thread.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open() -> io::Result<Diag> {
        Netlink::open(NETLINK_SOCK_DIAG).map(Diag)
    }

    /// What the kernel says of the socket that is connected so; `None` where there is none.
    pub(crate) fn one<R>(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        read: impl FnOnce(Said<'_>) -> R,
    ) -> io::Result<Option<R>> {
        let said = found(self.0.get(question(from, to, u32::MAX)))?;
        Ok(said.first().map(|said| read(Said(said))))
    }

    /// The sessions with one end at one of `ports`: established, or asked for from here.
    /// Those that only the other side has asked for are not among them, nor those that no
    /// process holds: anybody can make these.
    ///
    /// # Errors
    /// The system's.
    pub fn sessions(&mut self, ports: &[u16]) -> io::Result<Vec<Session>> {
        let mut all = Vec::new();
        if ports.is_empty() {
            return Ok(all); // the kernel takes no empty program
        }
        for any in [IpAddr::from([0; 4]), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let any = SocketAddr::from((any, 0));
            let asked = question(any, any, STATES).attr(INET_DIAG_REQ_BYTECODE, &one_end_at(ports));
            let listed = found(self.0.dump(asked))?;
            all.extend(listed.iter().map(|said| Said(said)).filter_map(|said| {
                let session = said.session();
                let ours = [session.remote.1, session.local.1].iter().any(|p| ports.contains(p));
                (ours && said.is_held()).then_some(session)
            }));
        }
        Ok(all)
    }
}

/// What the kernel has found: nothing where it has no such socket, or none of that family
/// (without IPv6).
fn found(answers: io::Result<Vec<Vec<u8>>>) -> io::Result<Vec<Vec<u8>>> {
    match answers {
        Err(error) if errno(&error) == Some(ENOENT) => Ok(Vec::new()),
        answers => answers,
    }
}

/// A `struct inet_diag_msg`.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a>(pub(crate) &'a [u8]);

impl Said<'_> {
    /// Is it connected?
    pub(crate) fn is_established(self) -> bool {
        self.0.get(1) == Some(&TCP_ESTABLISHED)
    }

    /// Has a process taken it, and not closed it? Else the kernel names user 0.
    pub(crate) fn is_held(self) -> bool {
        u32_at(self.0, INODE) != 0
    }

    /// The user that made it.
    pub(crate) fn user(self) -> u32 {
        u32_at(self.0, UID)
    }

    /// The ports of this end and of the other.
    pub(crate) fn ports(self) -> (u16, u16) {
        let port = |at| u16::from_be(u16_at(self.0, at));
        (port(4), port(6))
    }

    /// Both ends.
    fn session(self) -> Session {
        let (local, remote) = self.ports();
        Session { remote: (self.address(24), remote), local: (self.address(8), local) }
    }

    /// The address at `at`. That of an IPv4 session over a socket of IPv6 is IPv4.
    fn address(self, at: usize) -> IpAddr {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk::<16>());
        let bytes = bytes.copied().unwrap_or_default();
        match self.0.first() {
            Some(&AF_INET6) => Ipv6Addr::from(bytes).to_canonical(),
            _ => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        }
    }
}

/// `struct inet_diag_req_v2` for the socket that is connected so and in one of `states`.
fn question(from: SocketAddr, to: SocketAddr, states: u32) -> Request {
    let family = if from.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut out = vec![family, TCP, 0, 0];
    out.extend(states.to_ne_bytes());
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
    Request::new(SOCK_DIAG_BY_FAMILY, 0).body(&out)
}

/// What makes the kernel list only sockets with one end at one of `ports`: a
/// program (`linux/inet_diag.h`). An operation is 4 bytes, as is the number that it compares
/// with; it says how far to go on if so, and if not. Who gets to the end exactly is listed,
/// who goes beyond is not.
fn one_end_at(ports: &[u16]) -> Vec<u8> {
    let ends =
        ports.iter().flat_map(|port| [(INET_DIAG_BC_S_EQ, *port), (INET_DIAG_BC_D_EQ, *port)]);
    let ends: Vec<_> = ends.collect();
    let length = (12 * ends.len()).saturating_sub(4); // the last needs no jump
    let mut program = Vec::new();
    for (i, (code, port)) in ends.iter().enumerate() {
        let mut operation = |code: u8, yes: u8, no: usize| {
            program.extend([code, yes]);
            program.extend((no as u16).to_ne_bytes());
        };
        operation(*code, 8, 12);
        operation(0, 0, usize::from(*port));
        if i + 1 < ends.len() {
            operation(INET_DIAG_BC_JMP, 4, length - (12 * i + 8));
        }
    }
    program
}

const TCP: u8 = 6;
const STATES: u32 = 1 << TCP_ESTABLISHED | 1 << TCP_SYN_SENT | 1 << TCP_CLOSE_WAIT;
const UID: usize = 64;
const INODE: usize = 68;
const ENOENT: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn sessions_are_listed_by_the_port_of_either_end() {
        let mut diag = Diag::open().unwrap();
        for loopback in [IpAddr::from([127, 0, 0, 1]), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let Ok(listener) = TcpListener::bind((loopback, 0)) else { continue }; // no IPv6
            let (to, other) = (listener.local_addr().unwrap(), TcpListener::bind((loopback, 0)));
            let _unasked = TcpStream::connect(other.unwrap().local_addr().unwrap()).unwrap();
            let client = TcpStream::connect(to).unwrap();
            let from = client.local_addr().unwrap();
            let end = |address: SocketAddr| (address.ip(), address.port());
            let ours = Session { local: end(from), remote: end(to) };
            let theirs = Session { local: end(to), remote: end(from) };
            let listed = diag.sessions(&[9, to.port()]).unwrap();
            assert_eq!(listed, [ours], "one that nobody has accepted is nobody's");
            let accepted = listener.accept().unwrap();
            let mut listed = diag.sessions(&[to.port(), 9]).unwrap();
            listed.sort_unstable();
            let mut both = [ours, theirs];
            both.sort_unstable();
            assert_eq!(listed, both);
            drop((client, accepted));
            assert_eq!(diag.sessions(&[to.port()]).unwrap(), []);
        }
        assert_eq!(diag.sessions(&[]).unwrap(), []);
    }

    #[test]
    fn ipv4_over_a_socket_of_ipv6_is_ipv4() {
        let mut diag = Diag::open().unwrap();
        let Ok(listener) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) else {
            return testing::skip("no IPv6");
        };
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _accepted = listener.accept().unwrap();
        let listed = diag.sessions(&[port]).unwrap();
        let ip = IpAddr::from([127, 0, 0, 1]);
        let from = (ip, client.local_addr().unwrap().port());
        assert!(listed.contains(&Session { remote: from, local: (ip, port) }), "{listed:?}");
    }
}
