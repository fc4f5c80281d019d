//! Messages between the supervisor and a process, over a socket of their own: a kind and its
//! contents, one datagram each, some with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Both ends: the first never blocks, and neither is inherited.
///
/// # Errors
/// The system's.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let of = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, of, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// To a process: its configuration. A kind, and 8-byte numbers in the order of [`super::process::Begin`].
pub(crate) const BEGIN: u8 = 1;
/// A pair of rings: questions, verdicts.
pub(crate) const RINGS: u8 = 2;
/// A file: its length (8 bytes), its name.
pub(crate) const FILE: u8 = 3;
/// The end of the configuration.
pub(crate) const GO: u8 = 4;
/// A chunk to be run: its number (4 bytes), its text.
pub(crate) const EXEC: u8 = 5;

/// To the supervisor, before the policy begins (a policy may not send it): the process is confined;
/// the failed steps, in lines.
pub(crate) const SHUT: u8 = 64;
/// It is ready.
pub(crate) const READY: u8 = 65;
/// The policy does not start; the cause.
pub(crate) const REFUSED: u8 = 66;
/// The policy failed, and whether it was stopped after a long time (1 byte); the cause.
pub(crate) const FAILED: u8 = 67;
/// The result of a chunk: its number (4 bytes), whether it failed (1 byte), text.
pub(crate) const DONE: u8 = 68;
/// From a process: it lacks a resource and works without it.
pub(crate) const REMARK: u8 = 69;

/// The most bytes of a message.
pub(crate) const MOST: usize = 1 << 16;
/// The most descriptors of a message.
const DESCRIPTORS: usize = 4;

/// A kind, the contents, and descriptors.
pub(crate) type Received<'b> = (u8, &'b [u8], Vec<OwnedFd>);

/// Sends a message.
///
/// # Errors
/// The system's.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    kind: u8,
    parts: &[&[u8]],
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let kind = [kind];
    let all: Vec<IoSlice<'_>> =
        std::iter::once(&kind[..]).chain(parts.iter().copied()).map(IoSlice::new).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !with.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &all, &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sends a message by one write, as a confined process may; never blocks.
///
/// # Errors
/// The system's.
pub(crate) fn say(socket: &OwnedFd, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let message = [&[kind], &parts.concat()[..]].concat();
    rustix::io::write(socket, &message)?;
    Ok(())
}

/// Sends a text to the other end of any descriptor.
///
/// # Errors
/// The system's.
pub(crate) fn tell(socket: BorrowedFd<'_>, kind: u8, text: &str) -> io::Result<()> {
    rustix::io::write(socket, &[&[kind], text.as_bytes()].concat())?;
    Ok(())
}

/// Receives a message by one read, as a confined process may: its kind and its contents. `None`:
/// the other end is gone.
///
/// # Errors
/// The system's.
pub(crate) fn hear<'b>(
    socket: &OwnedFd,
    buffer: &'b mut [u8],
) -> io::Result<Option<(u8, &'b [u8])>> {
    let n = rustix::io::read(socket, &mut *buffer)?;
    Ok(buffer[..n].split_first().map(|(kind, rest)| (*kind, rest)))
}

/// Receives a message into `buffer`: its kind, its contents, and its descriptors. `None`: the other
/// end is gone.
///
/// # Errors
/// The system's.
pub(crate) fn receive<'b>(
    socket: BorrowedFd<'_>,
    buffer: &'b mut [u8],
) -> io::Result<Option<Received<'b>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut with, flags)?;
    let mut files = Vec::new();
    for message in with.drain() {
        if let RecvAncillaryMessage::ScmRights(found) = message {
            files.extend(found);
        }
    }
    let bytes = &buffer[..got.bytes];
    Ok(bytes.split_first().map(|(kind, rest)| (*kind, rest, files)))
}

/// As much text as fits a message, without sequences that a terminal would obey.
pub(crate) fn text(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// Its first line, for the log, whatever a packet made the policy write.
pub(crate) fn line(bytes: &[u8], most: usize) -> String {
    text(bytes, most).lines().next().unwrap_or_default().replace('\t', " ")
}

/// Control characters other than line ends and tabs, and Unicode characters that end a line or
/// change its direction.
fn is_obeyed(c: char) -> bool {
    let by_unicode =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    by_unicode || c.is_control() && !matches!(c, '\n' | '\t')
}

/// Waits until there is something to read, the other end is gone, or `most` has passed.
///
/// # Errors
/// The system's.
pub(crate) fn wait(
    files: &[BorrowedFd<'_>],
    most: Option<std::time::Duration>,
) -> io::Result<Vec<bool>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let files = files.iter().copied();
    let mut wanted: Vec<_> =
        files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
    let most = most.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    match poll(&mut wanted, most.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(wanted.iter().map(|one| !one.revents().is_empty()).collect())
}

/// Descriptors of many objects.
pub(crate) fn borrowed(files: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    files.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_stays_one() {
        assert_eq!(line(b"a.lua:7: no\nERROR all is lost", 64), "a.lua:7: no");
        assert_eq!(line(b"a\tb\r\x1b[2Jc\0d\x7f", 64), "a b\u{fffd}\u{fffd}[2Jc\u{fffd}d\u{fffd}");
        for bad in ['\u{2028}', '\u{2029}', '\u{85}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}']
        {
            assert_eq!(line(format!("a{bad}b").as_bytes(), 64), "a\u{fffd}b", "{bad:?}");
        }
        assert_eq!(line(b"\nsecond", 64), "");
        assert_eq!(line("aé".as_bytes(), 2), "a\u{fffd}");
        assert_eq!(text(b"two\nlines\tand\x07", 64), "two\nlines\tand\u{fffd}");
    }
}
