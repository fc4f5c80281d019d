//! Netlink, as far as the daemon writes to the kernel: messages put together by
//! hand, one request at a time, each acknowledged. (What the kernel tells about
//! links and routes comes by the mirror of `feeds`.)

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr};

/// A message under construction.
#[derive(Clone, Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// A message of `kind`; `flags` beside those of a request.
    pub fn new(kind: u16, flags: u16) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        Message(bytes)
    }

    /// Appends a fixed part.
    #[must_use]
    pub fn body(mut self, bytes: &[u8]) -> Message {
        self.0.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Appends an attribute.
    #[must_use]
    pub fn attr(mut self, kind: u16, value: &[u8]) -> Message {
        self.0.extend_from_slice(&((ATTR + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends an attribute that holds attributes.
    #[must_use]
    pub fn nest(mut self, kind: u16, inner: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; ATTR]);
        self = inner(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        self
    }

    /// Appends text and a zero byte as an attribute.
    #[must_use]
    pub fn text(self, kind: u16, text: &str) -> Message {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// The attributes alone, of a message without a fixed part.
    pub fn into_attributes(mut self) -> Vec<u8> {
        self.0.split_off(HEADER)
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self, sequence: u32, flags: u16) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[0..4].copy_from_slice(&length.to_ne_bytes());
        let all = u16::from_ne_bytes([self.0[6], self.0[7]]) | flags;
        self.0[6..8].copy_from_slice(&all.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

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

    /// Connects to `protocol` to hear what it tells these groups.
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
                    all.extend(split(&bytes).iter().map(|one| (one.kind, one.payload.to_vec())));
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
    pub fn request(&mut self, message: Message) -> io::Result<()> {
        self.ask(message, ACK).map(|_| ())
    }

    /// Sends one request and returns what came before the acknowledgement.
    ///
    /// # Errors
    /// The kernel's.
    pub fn get(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        self.ask(message, ACK)
    }

    /// Asks for a list.
    ///
    /// # Errors
    /// The kernel's.
    pub fn dump(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        self.ask(message, DUMP)
    }

    /// Sends messages as one and waits for as many acknowledgements as ask for one.
    ///
    /// # Errors
    /// The kernel's first.
    pub fn batch(&mut self, messages: Vec<(Message, bool)>) -> io::Result<()> {
        let (mut bytes, mut open) = (Vec::new(), Vec::new());
        for (message, acknowledged) in messages {
            self.sequence += 1;
            bytes.extend(message.finish(self.sequence, if acknowledged { ACK } else { 0 }));
            if acknowledged {
                open.push(self.sequence);
            }
        }
        self.socket.send(&bytes, 0)?;
        let mut first = Ok(());
        while !open.is_empty() {
            let received = self.receive()?;
            for answer in split(&received) {
                open.retain(|sequence| *sequence != answer.sequence);
                if answer.kind == ERROR && first.is_ok() {
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

    fn ask(&mut self, message: Message, flags: u16) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let bytes = message.finish(self.sequence, flags);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let received = self.receive()?;
            for answer in split(&received) {
                match answer.kind {
                    _ if answer.sequence != self.sequence => {}
                    ERROR => return status(answer.payload).map(|()| answers),
                    DONE => return Ok(answers),
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

/// One message of a datagram.
struct Answer<'b> {
    kind: u16,
    sequence: u32,
    payload: &'b [u8],
}

fn split(mut bytes: &[u8]) -> Vec<Answer<'_>> {
    let mut all = Vec::new();
    while let Some(header) = bytes.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(payload) = bytes.get(HEADER..length) else { break };
        all.push(Answer {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
            payload,
        });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// An `NLMSG_ERROR`: 0 is the acknowledgement.
fn status(payload: &[u8]) -> io::Result<()> {
    let code = payload.first_chunk::<4>().map_or(0, |code| i32::from_ne_bytes(*code));
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(-code);
    // The request follows, cut to its header or whole, then attributes.
    let request = payload.get(4..8).map_or(0, |length| {
        u32::from_ne_bytes([length[0], length[1], length[2], length[3]]) as usize
    });
    let from = |skip: usize| payload.get(4 + skip.next_multiple_of(4)..).unwrap_or_default();
    let text = [from(HEADER), from(request)].into_iter().find_map(|rest| {
        let (_, text) = attributes(rest).find(|(kind, _)| *kind == EXPLANATION)?;
        Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_string())
    });
    let text = text.map_or_else(|| error.to_string(), |text| format!("{error}: {text}"));
    Err(io::Error::new(error.kind(), Refused { code: -code, text }))
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

/// The attributes of a message behind its fixed part.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<ATTR>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !NESTED;
        let value = bytes.get(ATTR..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

const HEADER: usize = 16;
const ATTR: usize = 4;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const NESTED: u16 = 0x8000;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const EXPLANATION: u16 = 1;

/// `RTM_DELROUTE`.
pub const DEL_ROUTE: u16 = 25;
/// `RTM_GETROUTE`.
pub const GET_ROUTE: u16 = 26;
/// `NLM_F_CREATE | NLM_F_EXCL`: make, fail where it is there.
pub const CREATE: u16 = 0x600;
/// `NLM_F_CREATE | NLM_F_REPLACE`: make or replace.
pub const REPLACE: u16 = 0x500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_padded_and_nested() {
        let message = Message::new(16, 0)
            .body(&[1, 2, 3])
            .nest(5, |inner| inner.text(1, "ab").attr(2, &[9]))
            .finish(7, ACK);
        assert_eq!(message.len() % 4, 0);
        assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, message.len());
        let all: Vec<_> = attributes(&message[20..]).collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].0, 5);
        let inner: Vec<_> = attributes(all[0].1).collect();
        assert_eq!(inner, [(1, &b"ab\0"[..]), (2, &[9][..])]);
    }

    #[test]
    fn damaged_answers_end_the_list() {
        assert_eq!(split(&[0; 15]).len(), 0);
        assert_eq!(split(&[255; 40]).len(), 0);
        assert_eq!(attributes(&[3, 0, 0, 0]).count(), 0);
        assert_eq!(attributes(&[255, 255, 0, 0]).count(), 0);
        assert!(status(&[0; 20]).is_ok());
        assert_eq!(
            status(&(-1_i32).to_ne_bytes()).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn the_kernel_answers() {
        let mut route = Netlink::open(netlink_sys::protocols::NETLINK_ROUTE).unwrap();
        let links = route.dump(Message::new(18, 0).body(&[0; 16])).unwrap();
        assert!(!links.is_empty(), "there is always the loopback");
        let error = route.request(Message::new(17, 0).body(&[0; 16])).unwrap_err();
        assert!(errno(&error).is_some());
    }
}
