//! One instance for a socket: a lock beside it, held for the time of the run.
//! The lock goes with the process, however that ends, so a stale socket or
//! lock file hinders nobody.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
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
}
