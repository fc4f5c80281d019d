//! A connection to the kernel: one request at a time, each acknowledged, or a listing; or
//! what it reports to groups.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr};

use crate::message::{HEADER, Messages, find, u32_at};
use crate::names::{NLM_F_ACK, NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR, NLMSGERR_ATTR_MSG};
use crate::request::Request;

/// A connection to one of the kernel's netlink families.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Connects to `protocol` ([`netlink_sys::protocols`]).
    ///
    /// # Errors
    /// When the kernel does not have it.
    pub fn open(protocol: isize) -> io::Result<Netlink> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Without it an error is a number only; an old kernel does not matter.
        let _ = socket.set_ext_ack(true);
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Connects to `protocol` to hear what it reports to these groups.
    ///
    /// # Errors
    /// When the kernel does not have it.
    pub fn hear(protocol: isize, groups: &[u32]) -> io::Result<Netlink> {
        let netlink = Netlink::open(protocol)?;
        netlink.socket.set_non_blocking(true)?;
        groups.iter().try_for_each(|group| netlink.socket.add_membership(*group))?;
        Ok(netlink)
    }

    /// Kind and contents of every message that has come, without waiting.
    ///
    /// # Errors
    /// The kernel's: some were lost (`ENOBUFS`).
    pub fn heard(&mut self) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let mut all = Vec::new();
        loop {
            match self.receive() {
                Ok(bytes) => {
                    all.extend(Messages::new(&bytes).map(|one| (one.kind, one.payload.to_vec())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends one request and waits for its acknowledgement.
    ///
    /// # Errors
    /// The kernel's, with its explanation where it gives one.
    pub fn request(&mut self, message: Request) -> io::Result<()> {
        self.ask(message, NLM_F_ACK).map(|_| ())
    }

    /// Sends one request and returns what came before the acknowledgement.
    ///
    /// # Errors
    /// The kernel's.
    pub fn get(&mut self, message: Request) -> io::Result<Vec<Vec<u8>>> {
        self.ask(message, NLM_F_ACK)
    }

    /// Asks for a list.
    ///
    /// # Errors
    /// The kernel's.
    pub fn dump(&mut self, message: Request) -> io::Result<Vec<Vec<u8>>> {
        self.ask(message, NLM_F_DUMP)
    }

    /// Sends messages as one and waits for as many acknowledgements as ask for one.
    ///
    /// # Errors
    /// The kernel's first.
    pub fn batch(&mut self, messages: Vec<(Request, bool)>) -> io::Result<()> {
        let (mut bytes, mut open) = (Vec::new(), Vec::new());
        for (message, acknowledged) in messages {
            self.sequence += 1;
            bytes.extend(message.finish(self.sequence, if acknowledged { NLM_F_ACK } else { 0 }));
            if acknowledged {
                open.push(self.sequence);
            }
        }
        self.socket.send(&bytes, 0)?;
        let mut first = Ok(());
        while !open.is_empty() {
            let received = self.receive()?;
            for answer in Messages::new(&received) {
                open.retain(|sequence| *sequence != answer.sequence);
                if answer.kind == NLMSG_ERROR && first.is_ok() {
                    first = status(answer.payload);
                }
            }
        }
        first
    }

    /// A whole datagram, however long.
    fn receive(&self) -> io::Result<Vec<u8>> {
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn ask(&mut self, message: Request, flags: u16) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let bytes = message.finish(self.sequence, flags);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let received = self.receive()?;
            for answer in Messages::new(&received) {
                match answer.kind {
                    _ if answer.sequence != self.sequence => {}
                    NLMSG_ERROR => return status(answer.payload).map(|()| answers),
                    NLMSG_DONE => return Ok(answers),
                    _ => answers.push(answer.payload.to_vec()),
                }
            }
        }
    }
}

impl AsFd for Netlink {
    /// Readable when there is something to hear.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An `NLMSG_ERROR`: 0 is the acknowledgement.
fn status(payload: &[u8]) -> io::Result<()> {
    let code = (u32_at(payload, 0) as i32).wrapping_neg();
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(code);
    // The request follows, cut to its header or whole, then attributes.
    let request = u32_at(payload, 4) as usize;
    let from =
        |skip: usize| payload.get(skip.saturating_add(4).next_multiple_of(4)..).unwrap_or_default();
    let text = [HEADER, request].into_iter().find_map(|skip| find(from(skip), NLMSGERR_ATTR_MSG));
    let text = text.map_or_else(
        || error.to_string(),
        |text| format!("{error}: {}", String::from_utf8_lossy(text).trim_end_matches('\0')),
    );
    Err(io::Error::new(error.kind(), Refused { code, text }))
}

/// What the kernel says to a request.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Refused {
    code: i32,
    text: String,
}

/// The kernel's number of an error that a request was answered with.
pub fn errno(error: &io::Error) -> Option<i32> {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>());
    refused.map(|refused| refused.code).or(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{RTM_DELLINK, RTM_GETLINK};

    #[test]
    fn an_error_of_any_bytes_is_one() {
        assert!(status(&[0; 20]).is_ok());
        let refused = status(&(-1_i32).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(status(&i32::MIN.to_ne_bytes()).is_err());
    }

    #[test]
    fn the_kernel_answers() {
        let mut route = Netlink::open(netlink_sys::protocols::NETLINK_ROUTE).unwrap();
        let links = route.dump(Request::new(RTM_GETLINK, 0).body(&[0; 16])).unwrap();
        assert!(!links.is_empty(), "there is always the loopback");
        let error = route.request(Request::new(RTM_DELLINK, 0).body(&[0; 16])).unwrap_err();
        assert!(errno(&error).is_some());
    }
}
