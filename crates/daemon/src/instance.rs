//! One instance for a socket: a lock beside it, held for the time of the run;
//! and one for a network namespace, whose taps, rules and static routes it calls
//! its own: an abstract socket's name. Both go with the process, however that
//! ends, so a stale socket or lock file hinders nobody.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Doing, Error};
use crate::server::check_path;

/// The right to run at a socket.
#[derive(Debug)]
pub struct Instance {
    _lock: File,
    socket: PathBuf,
}

impl Instance {
    /// Claims `socket`; `config` is what others are told.
    ///
    /// # Errors
    /// When another instance has it, no socket can be there, or its directory
    /// cannot be written.
    pub fn claim(socket: &Path, config: &str) -> Result<Instance, Error> {
        check_path(socket).doing(|| format!("listen at {}", socket.display()))?;
        if let Some(dir) = socket.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir).doing(|| format!("make {}", dir.display()))?;
        }
        let path = beside(socket, "lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = options.open(&path);
        let mut lock = opened.doing(|| format!("open {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut who = String::new();
            let _ = lock.read_to_string(&mut who); // it may be about to be written
            let who = if who.is_empty() { "just starting".into() } else { who };
            return Err(Error::Running { socket: socket.into(), who });
        }
        let who = format!("process {}, {config}", std::process::id());
        let written = lock.set_len(0).and_then(|()| lock.rewind());
        written
            .and_then(|()| lock.write_all(who.as_bytes()))
            .doing(|| format!("write {}", path.display()))?;
        Ok(Instance { _lock: lock, socket: socket.into() })
    }

    /// The socket that was claimed.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A file that goes with the socket.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.socket, suffix)
    }
}

/// The right to change the calling thread's network namespace.
#[derive(Debug)]
pub struct Namespace {
    /// The name itself, which only one socket of a namespace can have.
    _lock: UnixListener,
    /// A second name, for others to read who it is.
    _who: Option<UnixListener>,
}

impl Namespace {
    /// Claims the namespace for the instance at `socket`.
    ///
    /// # Errors
    /// When another instance has it.
    pub fn claim(socket: &Path) -> Result<Namespace, Error> {
        let lock = match listen(NAME) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let sockets = std::fs::read_to_string("/proc/thread-self/net/unix");
                let who = holder(&sockets.unwrap_or_default()).unwrap_or("unknown").to_string();
                return Err(Error::NamespaceTaken { who });
            }
            result => result.doing(|| "claim the network namespace".into())?,
        };
        let who = format!("{NAME}: process {}, {}", std::process::id(), socket.display());
        // A longer name cannot be; whom others meet is then unknown to them.
        Ok(Namespace { _lock: lock, _who: listen(&who).ok() })
    }
}

fn listen(name: &str) -> std::io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Who has the namespace with these sockets (`/proc/net/unix`).
fn holder(sockets: &str) -> Option<&str> {
    let prefix = format!("@{NAME}: ");
    sockets.lines().find_map(|line| line.split_once(&*prefix)).map(|(_, who)| who)
}

/// The abstract name (`@rutter` in `ss -xl`).
const NAME: &str = "rutter";

fn beside(socket: &Path, suffix: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_is_refused_by_name() {
        let dir = std::env::temp_dir().join(format!("rutter-instance-{}", std::process::id()));
        let socket = dir.join("api.sock");
        let first = Instance::claim(&socket, "first.toml").unwrap();
        let told = Instance::claim(&socket, "second.toml").unwrap_err().to_string();
        assert!(told.contains("first.toml"), "{told}");
        assert!(told.contains(&std::process::id().to_string()), "{told}");
        drop(first);
        Instance::claim(&socket, "second.toml").unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_holder_of_a_namespace_is_found() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 1 @rutter\n\
            0000: 00000002 00000000 00010000 0001 01 2 @rutter: process 7, /run/a b.sock\n";
        assert_eq!(holder(sockets), Some("process 7, /run/a b.sock"));
        assert_eq!(holder("0000: 1 @rutter\n"), None);
    }
}
