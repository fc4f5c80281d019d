//! Namespaces, links and processes of the demo. Dropped, they are taken away.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;

/// The demo's network.
pub struct Net {
    /// Every namespace begins with it.
    prefix: String,
    namespaces: Vec<String>,
    children: Vec<(String, Child)>,
    /// Configurations and logs.
    pub dir: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Net {
    /// An empty network; what a demo that was killed has left is taken away.
    ///
    /// # Errors
    /// When there is no place for its files.
    pub fn new(stop: &Arc<AtomicBool>) -> Result<Net, Error> {
        sweep();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = std::env::temp_dir().join(&prefix);
        own_folder(&dir)?;
        let (namespaces, children) = (Vec::new(), Vec::new());
        Ok(Net { prefix, namespaces, children, dir, stop: stop.clone() })
    }

    /// The full name of a namespace.
    pub fn name(&self, short: &str) -> String {
        format!("{}{short}", self.prefix)
    }

    /// A path in the demo's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// An error once the user has interrupted.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn check(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Makes a namespace with its loopback up. IPv6 addresses work at once.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn namespace(&mut self, short: &str) -> Result<(), Error> {
        let name = self.name(short);
        self.ip(&["netns", "add", &name])?;
        self.namespaces.push(name);
        self.on(short, &["ip", "link", "set", "lo", "up"])?;
        let script = "for f in default all; do echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; done";
        self.on(short, &["sh", "-c", script]).map(|_| ())
    }

    /// A wire between two namespaces. Checksums are computed by software: there
    /// is no hardware that would.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wire(
        &self,
        (one, one_if): (&str, &str),
        (other, other_if): (&str, &str),
    ) -> Result<(), Error> {
        let (a, b) = (self.name(one), self.name(other));
        self.ip(&[
            "link", "add", one_if, "netns", &a, "type", "veth", "peer", "name", other_if, "netns",
            &b,
        ])?;
        for (namespace, name) in [(one, one_if), (other, other_if)] {
            let off = ["tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off"];
            let mut words = vec!["ethtool", "-K", name];
            words.extend(off);
            // Without ethtool pings work, and large TCP segments do not.
            let _ = self.on(namespace, &words);
            self.on(namespace, &["ip", "link", "set", name, "up"])?;
        }
        Ok(())
    }

    /// Runs a command in a namespace and returns its output.
    ///
    /// # Errors
    /// When it cannot be run or fails.
    pub fn on(&self, short: &str, words: &[&str]) -> Result<String, Error> {
        let name = self.name(short);
        let mut all = vec!["netns", "exec", &name];
        all.extend(words);
        self.ip(&all)
    }

    /// Starts a process in a namespace; its output goes to NAME.log.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(&mut self, short: &str, name: &str, words: &[&str]) -> Result<(), Error> {
        let log = File::create(self.file(&format!("{name}.log")))?;
        let child = Command::new("ip")
            .args(["netns", "exec", &self.name(short)])
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the demo, which then ends them in order.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(name, error))?;
        self.children.push((name.into(), child));
        Ok(())
    }

    /// Waits for `done`, up to `patience`; an error when a process ends meanwhile.
    ///
    /// # Errors
    /// When it takes too long, is interrupted, or a process has ended.
    pub fn wait(
        &mut self,
        what: &str,
        patience: Duration,
        mut done: impl FnMut() -> bool,
    ) -> Result<Duration, Error> {
        let start = Instant::now();
        while !done() {
            self.check()?;
            self.alive()?;
            if start.elapsed() > patience {
                return Err(failed(what, "it takes too long"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(start.elapsed())
    }

    /// An error when one of the processes has ended.
    fn alive(&mut self) -> Result<(), Error> {
        for (name, child) in &mut self.children {
            if let Some(status) = child.try_wait()? {
                let log = std::fs::read_to_string(self.dir.join(format!("{name}.log")));
                let log = log.unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                return Err(failed(name, format!("{status}: {}", last.join("\n"))));
            }
        }
        Ok(())
    }

    fn ip(&self, words: &[&str]) -> Result<String, Error> {
        let done = Command::new("ip").args(words).stdin(Stdio::null()).output();
        let done = done.map_err(|error| failed("ip", error))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        Err(failed(&words.join(" "), said.trim()))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // The router first, while its interfaces are there.
        for (_, child) in self.children.iter_mut().rev() {
            let pid = Pid::from_child(child);
            let _ = kill_process(pid, Signal::TERM); // it may have ended
            let start = Instant::now();
            while start.elapsed() < GRACE && child.try_wait().is_ok_and(|status| status.is_none()) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Makes the folder `path`, which is not there: others can write to the folder it is in, and
/// what is there may be theirs.
///
/// # Errors
/// When something is there.
pub fn own_folder(path: &Path) -> Result<(), Error> {
    let made = std::fs::DirBuilder::new().mode(0o755).create(path);
    made.map_err(|error| failed("a folder for its files", format!("{}: {error}", path.display())))
}

/// Takes away namespaces and files of demos whose process is gone.
fn sweep() {
    let stale = |name: &str| {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        pid.is_some_and(|pid: u32| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let listed = Command::new("ip").args(["netns", "list"]).output();
    let listed = listed.map(|list| String::from_utf8_lossy(&list.stdout).into_owned());
    for name in listed.unwrap_or_default().lines().filter_map(|line| line.split(' ').next()) {
        if stale(name) {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
    for entry in std::env::temp_dir().read_dir().into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(stale) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Why the demo cannot go on.
pub fn failed(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Demo { what: what.into(), why: why.to_string() }
}

const PREFIX: &str = "rutter-demo-";
/// How long a process may take to end.
const GRACE: Duration = Duration::from_secs(10);
