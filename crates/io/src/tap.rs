//! The kernel's tap devices: a network interface of the kernel whose other end
//! is a file descriptor here.

mod device;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::ioctl::{self, Request, Value};
use crate::netdev::check_name;
pub use device::TapDevice;

/// One end of a tap: the kernel receives on the interface the frames that are written here, and
/// frames that the kernel sends there are read here. One frame a call, from the Ethernet header on.
#[derive(Debug)]
pub struct Tap {
    file: OwnedFd,
    /// A socket of any kind, for requests about interfaces.
    control: OwnedFd,
    name: String,
}

impl Tap {
    /// Creates the interface `name`, or attaches to it if it exists as a persistent tap that nobody
    /// else holds. A new one is not persistent at first; reads and writes do not block.
    ///
    /// # Errors
    /// When the name is invalid (`InvalidInput`), another process holds the tap (`ResourceBusy`),
    /// or the right is missing (`PermissionDenied`).
    pub fn open(name: &str) -> io::Result<Tap> {
        check_name(name)?;
        let file = ioctl::open_tun()?;
        let control = ioctl::control_socket()?;
        let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
        ioctl::call(&file, libc::TUNSETIFF, &mut Request::new(name, Value::Flags(flags)))?;
        Ok(Tap { file, control, name: name.to_owned() })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets whether the interface stays when this end is closed.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_persistent(&self, persistent: bool) -> io::Result<()> {
        ioctl::call_with(&self.file, libc::TUNSETPERSIST, libc::c_ulong::from(persistent))
    }

    /// Removes the interface.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete(self) -> io::Result<()> {
        self.set_persistent(false)
    }

    /// Reads one frame; `WouldBlock` where none waits. A frame longer than
    /// `into` is cut off.
    ///
    /// # Errors
    /// When none waits, or the interface is gone or down.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        ioctl::read(&self.file, into)
    }

    /// Writes one frame to the kernel.
    ///
    /// # Errors
    /// When the interface is down (`EIO`) or the kernel has no room.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        ioctl::write(&self.file, frame).map(|_| ())
    }

    /// Sets whether reads and writes block; they do not at first.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        ioctl::set_nonblocking(&self.file, nonblocking)
    }

    /// The interface's index.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn index(&self) -> io::Result<u32> {
        self.ask(libc::SIOCGIFINDEX).map(|request| request.int() as u32)
    }

    /// The interface's hardware address.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        self.ask(libc::SIOCGIFHWADDR).map(|request| request.mac())
    }

    /// Sets the interface's hardware address.
    ///
    /// # Errors
    /// When the kernel refuses the address: all zero, or a group's.
    pub fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        self.tell(libc::SIOCSIFHWADDR, Value::Mac(mac))
    }

    /// The interface's MTU.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn mtu(&self) -> io::Result<u16> {
        self.ask(libc::SIOCGIFMTU).map(|request| request.int() as u16)
    }

    /// Sets the interface's MTU.
    ///
    /// # Errors
    /// When the kernel refuses it: below 68.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.tell(libc::SIOCSIFMTU, Value::Int(i32::from(mtu)))
    }

    /// Sets the interface up or down (as `ip link set` does).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        let flags = self.ask(libc::SIOCGIFFLAGS)?.flags();
        let bit = libc::IFF_UP as i16;
        let flags = if up { flags | bit } else { flags & !bit };
        self.tell(libc::SIOCSIFFLAGS, Value::Flags(flags))
    }

    /// Whether the interface is up.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.ask(libc::SIOCGIFFLAGS)?.flags() & libc::IFF_UP as i16 != 0)
    }

    /// Sets the interface's carrier on or off.
    ///
    /// # Errors
    /// When the kernel refuses, or is older than 4.20.
    pub fn set_carrier(&self, carrier: bool) -> io::Result<()> {
        let mut value = libc::c_int::from(carrier);
        ioctl::call(&self.file, ioctl::TUNSETCARRIER, &mut value)
    }

    fn ask(&self, request: libc::c_ulong) -> io::Result<Request> {
        let mut answer = Request::new(&self.name, Value::Int(0));
        ioctl::call(&self.control, request, &mut answer)?;
        Ok(answer)
    }

    fn tell(&self, request: libc::c_ulong, value: Value) -> io::Result<()> {
        ioctl::call(&self.control, request, &mut Request::new(&self.name, value))
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(all(test, not(miri)))] // system calls
mod tests;
