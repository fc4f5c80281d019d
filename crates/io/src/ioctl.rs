//! Raw system calls on taps and network interfaces.

use std::ffi::c_ulong;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct ifreq`: a name and a union.
#[repr(C)]
pub(crate) struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

/// The union of a [`Request`].
pub(crate) enum Value {
    Flags(i16),
    Int(i32),
    Mac([u8; 6]),
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

impl Request {
    /// A request about interface `name`, whose length was checked.
    pub(crate) fn new(name: &str, value: Value) -> Request {
        let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        match value {
            Value::Flags(flags) => request.value[..2].copy_from_slice(&flags.to_ne_bytes()),
            Value::Int(int) => request.value[..4].copy_from_slice(&int.to_ne_bytes()),
            Value::Mac(mac) => {
                request.value[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
                request.value[2..8].copy_from_slice(&mac);
            }
        }
        request
    }

    pub(crate) fn flags(&self) -> i16 {
        i16::from_ne_bytes([self.value[0], self.value[1]])
    }

    /// The interface's name in an answer.
    pub(crate) fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }

    pub(crate) fn int(&self) -> i32 {
        i32::from_ne_bytes([self.value[0], self.value[1], self.value[2], self.value[3]])
    }

    /// The kind of the interface's hardware address (`ARPHRD_…`).
    pub(crate) fn hardware(&self) -> u16 {
        u16::from_ne_bytes([self.value[0], self.value[1]])
    }

    pub(crate) fn mac(&self) -> [u8; 6] {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.value[2..8]);
        mac
    }
}

/// A type that a request may read and write: plain bytes of the size that it needs.
pub(crate) trait Argument {}
impl Argument for Request {}
impl Argument for libc::c_int {}

/// A request that passes a pointer.
pub(crate) fn call<T: Argument>(
    file: &OwnedFd,
    request: c_ulong,
    argument: &mut T,
) -> io::Result<()> {
    // SAFETY: the requests of this module read and write no more than a
    // `Request` or an int, which `argument` is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    check(result as isize).map(|_| ())
}

/// A request that passes a number.
pub(crate) fn call_with(file: &OwnedFd, request: c_ulong, argument: c_ulong) -> io::Result<()> {
    // SAFETY: the request takes its argument by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request, argument) } as isize).map(|_| ())
}

/// The speed of interface `name` in megabits a second; the length of the name was checked. `None`
/// where the driver reports none.
pub(crate) fn speed(file: &OwnedFd, name: &str) -> Option<u32> {
    // `struct ethtool_cmd`: which command, …, the speed's lower half at 12, the upper at 28.
    let mut command = [0_u8; 44];
    command[..4].copy_from_slice(&ETHTOOL_GSET.to_ne_bytes());
    let place = command.as_mut_ptr().expose_provenance();
    let mut request = Request::new(name, Value::Int(0));
    request.value[..size_of::<usize>()].copy_from_slice(&place.to_ne_bytes());
    let number = libc::SIOCETHTOOL;
    // SAFETY: reads a `Request`; writes the structure of `ETHTOOL_GSET`, which
    // `command` is as long as, and which outlives the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, &raw mut request) };
    check(result as isize).ok()?;
    let half = |at: usize| u32::from(u16::from_ne_bytes([command[at], command[at + 1]]));
    let speed = half(12) | half(28) << 16;
    (speed != u32::MAX && speed != u32::from(u16::MAX)).then_some(speed)
}

/// A new descriptor of `/dev/net/tun`, non-blocking, closed on exec.
pub(crate) fn open_tun() -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let fd = check(unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) } as isize)?;
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A socket for requests about interfaces.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers only.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, 0) } as isize)?;
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

pub(crate) fn read(file: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: writes at most `into.len()` bytes there.
    check(unsafe { libc::read(file.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

pub(crate) fn write(file: &OwnedFd, from: &[u8]) -> io::Result<usize> {
    // SAFETY: reads at most `from.len()` bytes there.
    check(unsafe { libc::write(file.as_raw_fd(), from.as_ptr().cast(), from.len()) })
}

pub(crate) fn set_nonblocking(file: &OwnedFd, nonblocking: bool) -> io::Result<()> {
    // SAFETY: takes and gives numbers only.
    let flags = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) } as isize)? as i32;
    let bit = libc::O_NONBLOCK;
    let flags = if nonblocking { flags | bit } else { flags & !bit };
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) } as isize).map(|_| ())
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Not in the `libc` crate: `_IOW('T', 226, int)`.
pub(crate) const TUNSETCARRIER: c_ulong = 0x4004_54e2;
/// "Get settings": the older one of two commands, which every driver answers.
const ETHTOOL_GSET: u32 = 1;
