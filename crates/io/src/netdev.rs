//! The kernel's network interfaces, as ports ask for them.

use std::io;
use std::os::fd::OwnedFd;

use crate::ioctl::{self, Request, Value};

/// Answers about interfaces of the network namespace in which it was opened. It
/// keeps its socket, so it answers even when the process has no free descriptor left.
#[derive(Debug)]
pub struct Interfaces(OwnedFd);

impl Interfaces {
    /// Opens the socket.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open() -> io::Result<Interfaces> {
        ioctl::control_socket().map(Interfaces)
    }

    /// The name of the interface with this index.
    ///
    /// # Errors
    /// When there is none.
    pub fn name(&self, index: u32) -> io::Result<String> {
        let mut answer = Request::new("", Value::Int(index as i32)); // as the kernel has it
        ioctl::call(&self.0, libc::SIOCGIFNAME, &mut answer)?;
        Ok(answer.name())
    }

    /// The index of the interface `name`.
    ///
    /// # Errors
    /// When there is none, or no interface can be called so (`InvalidInput`).
    pub fn index(&self, name: &str) -> io::Result<u32> {
        self.ask(name, libc::SIOCGIFINDEX).map(|answer| answer.int() as u32)
    }

    /// Its hardware address; `None` where that is not one of Ethernet.
    ///
    /// # Errors
    /// When there is none, or the kernel refuses.
    pub fn mac(&self, name: &str) -> io::Result<Option<[u8; 6]>> {
        let answer = self.ask(name, libc::SIOCGIFHWADDR)?;
        Ok((answer.hardware() == libc::ARPHRD_ETHER).then(|| answer.mac()))
    }

    /// Its speed in megabits a second; 0 where that is not known.
    pub fn speed_mbps(&self, name: &str) -> u32 {
        check_name(name).ok().and_then(|()| ioctl::speed(&self.0, name)).unwrap_or(0)
    }

    /// Whether the interface `name` is up and has a carrier.
    ///
    /// # Errors
    /// When there is none, or the kernel refuses.
    pub fn running(&self, name: &str) -> io::Result<bool> {
        let answer = self.ask(name, libc::SIOCGIFFLAGS)?;
        Ok(answer.flags() & libc::IFF_RUNNING as i16 != 0)
    }

    fn ask(&self, name: &str, request: libc::c_ulong) -> io::Result<Request> {
        check_name(name)?;
        let mut answer = Request::new(name, Value::Int(0));
        ioctl::call(&self.0, request, &mut answer)?;
        Ok(answer)
    }
}

/// What the kernel takes as an interface's name (`dev_valid_name`), and no
/// pattern (`%d`).
pub(crate) fn check_name(name: &str) -> io::Result<()> {
    let bad = |c: char| c == '/' || c == ':' || c == '%' || c.is_ascii_whitespace() || c == '\0';
    if name.is_empty()
        || name.len() >= libc::IFNAMSIZ
        || name == "."
        || name == ".."
        || name.contains(bad)
    {
        let reason = format!("`{name}` is no name for an interface: 1 to 15 bytes without / : %");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    Ok(())
}
