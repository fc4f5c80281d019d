//! Packet sockets: their system calls, and most of this module's `unsafe`.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use super::offload::HEADER;
use crate::BURST;

/// A raw packet socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// A socket that receives nothing yet.
    pub(super) fn open() -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes numbers only.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) } as isize)?;
        // SAFETY: just opened, and nobody else's.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Binds it to an interface; it receives all of its packets if `receives`, otherwise none.
    pub(super) fn bind(&self, index: u32, receives: bool) -> io::Result<()> {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: if receives { all } else { 0 },
            sll_ifindex: index as c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: reads `len` bytes of the address.
        let result = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) };
        check(result as isize).map(|_| ())
    }

    /// Sets an option of packet sockets.
    pub(super) fn set<T: Plain>(&self, option: c_int, value: T) -> io::Result<()> {
        self.set_at(libc::SOL_PACKET, option, value)
    }

    /// Requests buffers of `bytes`, beyond the limit of ordinary users where that is allowed; a
    /// smaller buffer will do.
    pub(super) fn set_room(&self, bytes: c_int) {
        for (force, plain) in
            [(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF), (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)]
        {
            let forced = self.set_at(libc::SOL_SOCKET, force, bytes);
            let _ = forced.or_else(|_| self.set_at(libc::SOL_SOCKET, plain, bytes));
        }
    }

    fn set_at<T: Plain>(&self, level: c_int, option: c_int, value: T) -> io::Result<()> {
        let (place, len) = ((&raw const value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: reads `len` bytes, which `value` has.
        let result = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, place, len) };
        check(result as isize).map(|_| ())
    }

    /// Sets the program of its fan-out, which chooses a socket for each packet.
    pub(super) fn set_program(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
        self.set(libc::PACKET_FANOUT_DATA, program)
    }

    fn get<const N: usize>(&self, level: c_int, option: c_int) -> io::Result<[u32; N]> {
        let mut value = [0_u32; N];
        let mut len = size_of_val(&value) as libc::socklen_t;
        let place = value.as_mut_ptr().cast();
        // SAFETY: writes at most `len` bytes, which `value` has.
        let result =
            unsafe { libc::getsockopt(self.0.as_raw_fd(), level, option, place, &raw mut len) };
        check(result as isize).map(|_| value)
    }

    /// The number of its fan-out.
    pub(super) fn fanout(&self) -> io::Result<u16> {
        self.get::<1>(libc::SOL_PACKET, libc::PACKET_FANOUT).map(|[value]| value as u16)
    }

    /// Frames that found the ring full since the last call.
    pub(super) fn take_missed(&self) -> u64 {
        // `struct tpacket_stats`: all, and those that were dropped.
        let stats = self.get::<2>(libc::SOL_PACKET, libc::PACKET_STATISTICS);
        stats.map_or(0, |[_, drops]| drops.into())
    }

    /// Clears a pending error: the interface went down. Until then every poll of the socket returns
    /// at once.
    pub(super) fn take_error(&self) {
        let _ = self.get::<1>(libc::SOL_SOCKET, libc::SO_ERROR);
    }

    /// Sends the frames in its ring for sending, as far as the kernel takes them.
    pub(super) fn send_ring(&self) -> io::Result<()> {
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no bytes, and to nobody in particular.
        let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
        check(sent).map(|_| ())
    }

    /// Sends one frame in several parts, at most [`BURST`] and two; with more it fails.
    pub(super) fn send_parts<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> io::Result<()> {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (mut all, mut n) = ([nothing; BURST + 2], 0);
        for part in parts {
            let place = all.get_mut(n).ok_or(io::ErrorKind::InvalidInput)?;
            *place = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            n += 1;
        }
        // SAFETY: all zero is a message of nothing to nobody.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (all.as_mut_ptr(), n);
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `n` parts, which are borrowed for longer than this call; only read.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags) };
        check(sent).map(|_| ())
    }

    /// Reads a frame that was too long for the ring: its pending work, and its bytes. `None` where
    /// it is too long for `into`, too.
    pub(super) fn receive(&self, into: &mut [u8]) -> io::Result<Option<([u8; HEADER], usize)>> {
        let mut header = [0; HEADER];
        let mut parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER },
            libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() },
        ];
        // SAFETY: all zero is a message of nothing from nobody.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
        // SAFETY: writes at most as many bytes to each part as it has.
        let got =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let got = check(got)?;
        let cut_off = message.msg_flags & libc::MSG_TRUNC != 0;
        Ok(got.checked_sub(HEADER).filter(|_| !cut_off).map(|len| (header, len)))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Values for options.
///
/// # Safety
/// The kernel writes to no memory that the value names.
pub(super) unsafe trait Plain: Copy {}
// SAFETY: a number.
unsafe impl Plain for c_int {}
// SAFETY: numbers.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: numbers.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: the kernel reads what it points to, and checks that.
unsafe impl Plain for libc::sock_fprog {}

/// Maps the ring of a socket.
pub(super) fn map(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, fd) = (libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd());
    // SAFETY: a fresh mapping, wherever the kernel likes.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

/// Ends a mapping.
///
/// # Safety
/// It came from [`map`] with the same length, and nobody refers to it any more.
pub(super) unsafe fn unmap(map: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller says.
    unsafe { libc::munmap(map.as_ptr().cast(), bytes) };
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
