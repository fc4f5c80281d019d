//! A netlink socket that reads: notifications, or answers to requests for listings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink::names::*;
use netlink::request::{Request, listing};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket as Raw, SocketAddr};

/// A socket and a sequence number.
pub struct Socket {
    raw: Raw,
    sequence: u32,
}

/// What one attempt to read brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// A datagram.
    Datagram,
    /// Nothing is there.
    Nothing,
    /// The kernel had no room and dropped messages.
    Overrun,
}

impl Socket {
    /// A socket without groups, for requests.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open() -> io::Result<Socket> {
        let mut raw = Raw::new(NETLINK_ROUTE)?;
        raw.bind_auto()?;
        raw.connect(&SocketAddr::new(0, 0))?;
        Ok(Socket { raw, sequence: 0 })
    }

    /// A socket that hears of links, addresses, neighbours, routes and next-hop
    /// objects, with room for `buffer` bytes (less where the system allows less).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listening(buffer: usize) -> io::Result<Socket> {
        let mut raw = Raw::new(NETLINK_ROUTE)?;
        // The forced form passes net.core.rmem_max and needs CAP_NET_ADMIN.
        let set = rustix::net::sockopt::set_socket_recv_buffer_size_force;
        if set(&raw, buffer).is_err() {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&raw, buffer);
        }
        raw.bind_auto()?;
        for group in GROUPS {
            raw.add_membership(group)?;
        }
        // Kernels before 5.3 have no next-hop objects: nothing to hear then.
        let _ = raw.add_membership(RTNLGRP_NEXTHOP);
        Ok(Socket { raw, sequence: 0 })
    }

    /// Asks for a listing; its answers carry the number returned.
    ///
    /// # Errors
    /// When the kernel takes no request.
    pub fn request(&mut self, kind: u16, family: u8) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        self.raw.send(&listing(kind, family, self.sequence), 0)?;
        Ok(self.sequence)
    }

    /// Sends a request that changes something; errors wait to be drained.
    ///
    /// # Errors
    /// When the kernel takes no request.
    pub fn send(&mut self, request: Request) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.raw.send(&request.finish(self.sequence, 0), 0)?;
        Ok(())
    }

    /// Throws away what the kernel answered.
    ///
    /// # Errors
    /// The system's.
    pub fn drain(&self) -> io::Result<()> {
        let mut answers = Vec::new();
        while self.receive(&mut answers, false)? != Received::Nothing {
            answers.clear();
        }
        Ok(())
    }

    /// Appends a datagram to `buffer` (padded to 4 bytes); waits for one if `wait`. What
    /// is not the kernel's is thrown away: a process that may change the network may also
    /// send to other processes' sockets.
    ///
    /// # Errors
    /// The system's, an overrun aside.
    pub fn receive(&self, buffer: &mut Vec<u8>, wait: bool) -> io::Result<Received> {
        const DONT_WAIT: i32 = 0x40;
        buffer.resize(buffer.len().next_multiple_of(4), 0);
        buffer.reserve(DATAGRAM);
        let flags = if wait { 0 } else { DONT_WAIT };
        let had = buffer.len();
        match self.raw.recv_from(buffer, flags) {
            Ok((_, from)) if from.port_number() == KERNEL => Ok(Received::Datagram),
            Ok(_) => {
                buffer.truncate(had);
                Ok(Received::Datagram) // an empty one
            }
            Err(error) if error.raw_os_error() == Some(NO_BUFFER) => Ok(Received::Overrun),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

const GROUPS: [u32; 6] = [
    RTNLGRP_LINK,
    RTNLGRP_NEIGH,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV4_ROUTE,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV6_ROUTE,
];
/// The port of the kernel.
const KERNEL: u32 = 0;
/// `ENOBUFS`.
const NO_BUFFER: i32 = 105;
/// The kernel fills up to 32 KiB of a listing at once into a buffer this large.
const DATAGRAM: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_are_not_the_kernel() {
        let socket = Socket::listening(1 << 16).unwrap();
        let mut to = SocketAddr::new(0, 0);
        socket.raw.get_address(&mut to).unwrap();
        let stranger = Raw::new(NETLINK_ROUTE).unwrap();
        let Ok(_) = stranger.send_to(&listing(RTM_GETROUTE, AF_UNSPEC, 1), &to, 0) else {
            return testing::skip("no right to change the network");
        };
        let mut bytes = vec![0; 4];
        assert_eq!(socket.receive(&mut bytes, true).unwrap(), Received::Datagram);
        assert_eq!(bytes.len(), 4, "nothing of it is left");
    }
}
