//! A network namespace of a test's own.

use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `ip` with the words of `command`.
pub fn ip(command: &str) {
    let output = Command::new("ip").args(command.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {command}: {error}");
}

/// Runs `ip` with a command a line.
#[allow(dead_code)] // not every test has that many
pub fn ip_batch(commands: &str) {
    let name = format!("feeds-{}-{:?}.batch", std::process::id(), std::thread::current().id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, commands).unwrap();
    ip(&format!("-batch {}", file.display()));
    std::fs::remove_file(file).unwrap();
}

/// Runs `test` on a thread in a fresh network namespace.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        return testing::skip("making a network namespace needs root");
    }
    let body = move || {
        // The namespace lives as long as something is in it: the helper, then this thread.
        let mut helper = Command::new("unshare").args(["-n", "sleep", "60"]).spawn().unwrap();
        let mine = std::fs::read_link("/proc/self/ns/net").unwrap();
        let path = format!("/proc/{}/ns/net", helper.id());
        let start = Instant::now();
        while std::fs::read_link(&path).is_ok_and(|its| its == mine) {
            if helper.try_wait().unwrap().is_some() || start.elapsed() > LIMIT {
                return testing::skip("no network namespace can be made here");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let namespace = std::fs::File::open(path).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        helper.kill().unwrap();
        helper.wait().unwrap();
        test();
    };
    let thread = std::thread::Builder::new().name(testing::name()).spawn(body).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

const LIMIT: Duration = Duration::from_secs(10);
