//! One instance for a socket: a lock beside it, held for the time of the run;
//! and one for a network namespace, whose taps, rules and static routes it calls
//! its own: an abstract socket's name. Both go with the process, however that
//! ends, so a stale socket or lock file hinders nobody.

use std::fs::{File, Metadata, read_dir, read_link, read_to_string};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netlink::connection::Netlink;
use netlink::message::find;
use netlink::names::{SOCK_DIAG_BY_FAMILY, UDIAG_SHOW_UID, UNIX_DIAG_UID};
use netlink::request::Request;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use rustix::fs::{FlockOperation, flock};

use crate::error::{Doing, Error};
use crate::server::check_path;
use crate::trusted;

/// The right to run at a socket.
#[derive(Debug)]
pub struct Instance {
    lock: File,
    socket: PathBuf,
}

impl Instance {
    /// Claims `socket`; `config` is what others are shown. Waits up to 5 s for an instance
    /// that is about to end.
    ///
    /// # Errors
    /// When another instance has it, no socket can be there, or others could put something
    /// beside it ([`trusted`]).
    pub fn claim(socket: &Path, config: &str) -> Result<Instance, Error> {
        check_path(socket).doing(|| format!("listen at {}", socket.display()))?;
        let dir = socket.parent().filter(|dir| !dir.as_os_str().is_empty());
        let safe = trusted::folder(dir.unwrap_or(Path::new(".")));
        safe.doing(|| format!("listen at {} (--socket)", socket.display()))?;
        let path = beside(socket, "lock");
        let mut patience = Patience::default();
        let mut lock = loop {
            let opened = trusted::create(&path);
            let mut lock = opened.doing(|| format!("open {}", path.display()))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                let mut who = String::new();
                let _ = lock.read_to_string(&mut who); // it may be about to be written
                if patience.waits_for(&who) {
                    continue;
                }
                let who = if who.is_empty() { "just starting".into() } else { who };
                return Err(Error::Running { socket: socket.into(), who });
            }
            if is_at(&lock, &path) {
                break lock;
            }
        };
        let who = format!("process {}, {config}", std::process::id());
        let written = lock.set_len(0).and_then(|()| lock.rewind());
        written
            .and_then(|()| lock.write_all(who.as_bytes()))
            .doing(|| format!("write {}", path.display()))?;
        Ok(Instance { lock, socket: socket.into() })
    }

    /// Reports to the next instance that this one is about to end.
    pub fn stopping(&self) {
        let mut lock = &self.lock;
        // An instance that cannot read it does not wait.
        let _ = lock.seek(SeekFrom::End(0)).and_then(|_| lock.write_all(STOPPING.as_bytes()));
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

/// The lock file goes while the lock is held: whoever has opened it before finds,
/// once it has the lock, that the file is no longer there, and opens the new one.
impl Drop for Instance {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.beside("lock")); // a file that stays hinders nobody
    }
}

/// Whether the open `file` is the one at `path` still.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |at: Metadata| (at.dev(), at.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(there)) => place(open) == place(there),
        _ => false,
    }
}

/// The right to change the calling thread's network namespace.
#[derive(Debug)]
pub struct Namespace {
    /// The name itself, which only one socket of a namespace can have; none where
    /// somebody who is no router's user keeps it from us.
    _lock: Option<UnixListener>,
    /// A second name, in which others can read the owner.
    _who: Option<UnixListener>,
}

impl Namespace {
    /// Claims the namespace for the instance at `socket`.
    ///
    /// # Errors
    /// When another instance has it: any process of root's or our own user's that
    /// has its name. Whoever else has it cannot change a network, and must not be
    /// able to keep a router from it: a warning, and no claim.
    pub fn claim(socket: &Path) -> Result<Namespace, Error> {
        let mut patience = Patience::default();
        let claimed = loop {
            match listen(NAME) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    let sockets = read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
                    if !holder(&sockets).is_some_and(|who| patience.waits_for(who)) {
                        break Err(error);
                    }
                }
                result => break result,
            }
        };
        let lock = match claimed {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let sockets = read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
                let inode = inode(&sockets, NAME);
                let process = inode.and_then(process).map(|pid| format!("process {pid}"));
                let own = [0, rustix::process::geteuid().as_raw()];
                let user = inode.and_then(user).filter(|user| !own.contains(user));
                let Some(user) = user else {
                    let who = holder(&sockets).map(str::to_string).or(process);
                    return Err(Error::NamespaceTaken { who: who.unwrap_or("unknown".into()) });
                };
                let process = process.unwrap_or("a process".into());
                tracing::warn!(
                    "{process} of user {user} has the socket @{NAME} and is not a router: another \
                     instance in this network namespace would not be noticed"
                );
                None
            }
            result => Some(result.doing(|| "claim the network namespace".into())?),
        };
        let who = format!("{NAME}: process {}, {}", std::process::id(), socket.display());
        // A longer name cannot be; whom others meet is then unknown to them.
        Ok(Namespace { _lock: lock, _who: listen(&who).ok() })
    }
}

/// How long a start waits for an instance that is about to end.
#[derive(Default)]
struct Patience(Option<Instant>);

impl Patience {
    /// Waits a moment for `who` ("process N, …"); false where that instance is not ending, or
    /// takes too long.
    fn waits_for(&mut self, who: &str) -> bool {
        let process = who.strip_prefix("process ").and_then(|who| who.split(',').next());
        let ends = process.is_some_and(|number| number.parse().is_ok_and(is_ending));
        if !ends && !who.ends_with(STOPPING) {
            return false;
        }
        let since = *self.0.get_or_insert_with(|| {
            tracing::info!("waiting for {who}, which is about to end");
            Instant::now()
        });
        std::thread::sleep(LOOK);
        since.elapsed() < PATIENCE
    }
}

/// Whether a process has begun to end: a killed one gives back its memory before its locks.
fn is_ending(process: u32) -> bool {
    let Ok(stat) = read_to_string(format!("/proc/{process}/stat")) else { return false };
    // proc(5): behind the name the state, and six fields later the flags.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u32>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// What an instance that stops has written behind its name.
const STOPPING: &str = ", stopping";
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// `PF_EXITING`, in the kernel since its beginning.
const EXITING: u32 = 4;

fn listen(name: &str) -> std::io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// The owner of the namespace, by these sockets (`/proc/net/unix`).
fn holder(sockets: &str) -> Option<&str> {
    let prefix = format!("@{NAME}: ");
    sockets.lines().find_map(|line| line.split_once(&*prefix)).map(|(_, who)| who)
}

/// The inode of the socket with this abstract name (`/proc/net/unix`).
fn inode(sockets: &str, name: &str) -> Option<u64> {
    sockets.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let inode = words.nth(6)?.parse().ok();
        let found = words.next()?.strip_prefix('@')? == name && words.next().is_none();
        inode.filter(|_| found)
    })
}

/// The user who made the Unix socket of this inode (`unix_diag`): also one whose processes
/// we may not look into is reported.
fn user(inode: u64) -> Option<u32> {
    // struct unix_diag_req: the family, states, the inode, what to show, no cookie.
    let mut asked = vec![AF_UNIX, 0, 0, 0];
    asked.extend(u32::MAX.to_ne_bytes());
    asked.extend(u32::try_from(inode).ok()?.to_ne_bytes());
    asked.extend(UDIAG_SHOW_UID.to_ne_bytes());
    asked.extend([u8::MAX; 8]);
    let mut kernel = Netlink::open(NETLINK_SOCK_DIAG).ok()?;
    let said = kernel.get(Request::new(SOCK_DIAG_BY_FAMILY, 0).body(&asked)).ok()?;
    let user = find(said.first()?.get(16..)?, UNIX_DIAG_UID)?;
    user.first_chunk().map(|user| u32::from_ne_bytes(*user))
}

/// A process that has the socket of this inode, as far as we may see it.
fn process(inode: u64) -> Option<u32> {
    let socket = format!("socket:[{inode}]");
    let processes = read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.find(|pid: &u32| {
        let files = read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| read_link(file.path()).ok());
        links.any(|to| to.as_os_str() == &*socket)
    })
}

const AF_UNIX: u8 = 1;
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
        let said = Instance::claim(&socket, "second.toml").unwrap_err().to_string();
        assert!(said.contains("first.toml"), "{said}");
        assert!(said.contains(&std::process::id().to_string()), "{said}");
        drop(first);
        Instance::claim(&socket, "second.toml").unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_start_waits_for_one_that_stops() {
        let dir = crate::trusted::tests::own_folder("stopping");
        let socket = dir.join("api.sock");
        let first = Instance::claim(&socket, "first.toml").unwrap();
        first.stopping();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(LOOK * 5);
            drop(first);
        });
        let second = Instance::claim(&socket, "second.toml").unwrap();
        ends.join().unwrap();
        let said = Instance::claim(&socket, "third.toml").unwrap_err().to_string();
        assert!(said.contains("second.toml"), "{said}");
        drop(second);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_process_that_has_ended_is_waited_for() {
        assert!(!is_ending(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let began = Instant::now();
        while !is_ending(child.id()) {
            assert!(began.elapsed() < PATIENCE, "a process without a parent's wait is a zombie");
        }
        child.wait().unwrap();
    }

    #[test]
    fn what_others_planted_is_not_followed() {
        let dir = crate::trusted::tests::own_folder("planted");
        let (socket, victim) = (dir.join("api.sock"), dir.join("victim"));
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, beside(&socket, "lock")).unwrap();
        let said = Instance::claim(&socket, "t").unwrap_err().to_string();
        assert!(said.contains("api.sock.lock is not safe: it is a link"), "{said}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        let said = Instance::claim(Path::new("/tmp/rutter-api.sock"), "t").unwrap_err();
        assert!(said.to_string().contains("/tmp is not safe: others can write"), "{said}");
        assert!(!Path::new("/tmp/rutter-api.sock.lock").exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_holder_of_a_namespace_is_found() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 1 @rutter\n\
            0000: 00000002 00000000 00010000 0001 01 2 @rutter: process 7, /run/a b.sock\n";
        assert_eq!(holder(sockets), Some("process 7, /run/a b.sock"));
        assert_eq!(holder("0000: 1 @rutter\n"), None);
        assert_eq!(inode(sockets, "rutter"), Some(1));
        assert_eq!(inode(sockets, "other"), None);
    }

    #[test]
    fn the_owner_of_a_name_is_found() {
        let name = format!("rutter-test-{}", std::process::id());
        let _socket = listen(&name).unwrap();
        let sockets = read_to_string("/proc/thread-self/net/unix").unwrap();
        let inode = inode(&sockets, &name);
        assert_eq!(inode.and_then(process), Some(std::process::id()));
        assert_eq!(inode.and_then(user), Some(rustix::process::geteuid().as_raw()));
    }
}
