//! What a process has once it is shut in, seen from outside, and that none is left over.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use policy::cell::{Event, FIRST_USER, Settings};
use testing::skip;

use crate::Test;
use crate::rig::{Rig, settings};

pub const TESTS: &[Test] = &[
    ("a_process_has_nothing_but_its_rings", nothing_but_its_rings),
    ("without_rights_it_says_what_it_could_not_do", without_rights),
    ("the_rights_that_a_router_keeps_suffice", with_few_rights),
    ("questions_cannot_be_made_writable", not_writable),
    ("rings_are_sealed", sealed),
    ("a_daemon_that_is_killed_takes_its_processes_with_it", no_orphans),
    ("nothing_is_left_at_the_end", nothing_left),
];

fn pid(rig: &Rig) -> u32 {
    let status = rig.status();
    status.processes.iter().find(|one| one.stage == "serving").expect("one serves").pid
}

fn field(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {status}")).trim().to_owned()
}

fn nothing_but_its_rings() {
    let rig = Rig::new(settings(), "plain");
    let pid = pid(&rig);
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(pid, name), "0000000000000000", "{name}");
    }
    assert_eq!((field(pid, "NoNewPrivs"), field(pid, "Seccomp")), ("1".into(), "2".into()));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    for thread in threads {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        assert!(status.contains("Seccomp_filters:\t2"), "each thread: {status}");
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max open files"), "1");
    assert!(limit("Max address space").parse::<u64>().unwrap() < 4 << 30);

    if !rig.status().missing.is_empty() {
        return skip(format_args!("no rights to look into it: {:?}", rig.status().missing));
    }
    assert_eq!(rig.events(), [Event::Serves { policy: "plain".into() }]);
    let users = field(pid, "Uid");
    let users: Vec<u32> = users.split_whitespace().map(|user| user.parse().unwrap()).collect();
    assert!(users.len() == 4 && users.iter().all(|user| *user == users[0]), "{users:?}");
    assert!(users[0] > FIRST_USER && users[0] < FIRST_USER + (1 << 16), "{users:?}");
    assert_eq!(field(pid, "Groups"), "");
    assert_eq!(field(pid, "CapBnd"), "0000000000000000");
    let mut files: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|file| fs::read_link(file.unwrap().path()).unwrap().display().to_string())
        .collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[0] == "anon_inode:[eventfd]" && files[1].starts_with("socket:"), "{files:?}");
    let root = fs::read_link(format!("/proc/{pid}/root")).unwrap();
    assert!(root.display().to_string().ends_with("(deleted)"), "{root:?}");
    assert_eq!(fs::read_dir(format!("/proc/{pid}/root")).unwrap().count(), 0);
    for space in ["net", "mnt", "ipc", "uts"] {
        let of = |of: &str| fs::read_link(format!("/proc/{of}/ns/{space}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{space}");
    }
}

/// As another user than root, without a user namespace.
fn without_rights() {
    let rig = Rig::new(Settings { user: None, ..settings() }, "plain");
    assert_eq!(field(pid(&rig), "Uid"), field(std::process::id(), "Uid"));
    drop(rig);
    let own = std::env::current_exe().unwrap();
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    let output = setpriv.arg(own).arg("daemon").env("LIMITED", "1").output();
    let Ok(output) = output else { return skip("setpriv is not installed") };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return skip(format_args!("no other user: {}", String::from_utf8_lossy(&output.stderr)));
    }
    assert!(said.contains("no user of its own: "), "{said}");
}

/// With those of root's rights alone that a router keeps for it.
fn with_few_rights() {
    let own = std::env::current_exe().unwrap();
    let mut setpriv = Command::new("setpriv");
    setpriv.arg("--bounding-set=-all,+setuid,+setgid,+kill,+sys_chroot,+setpcap");
    let output = setpriv.args(["--inh-caps=-all", "--no-new-privs"]);
    let output = output.arg(own).arg("daemon").env("LIMITED", "1").output();
    let Ok(output) = output else { return skip("setpriv is not installed") };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return skip(format_args!("no such rights: {}", String::from_utf8_lossy(&output.stderr)));
    }
    assert!(!said.contains("no user") && !said.contains("no root"), "{said}");
}

fn not_writable() {
    let rig = Rig::new(Settings { spares: 0, ..settings() }, "plain");
    let answers = rig.handle.exec("writable").unwrap();
    let said: Vec<_> = answers.into_iter().map(|one| one.result.unwrap()).collect();
    assert_eq!(said, ["[false, true]"]);
}

/// The memory of a real process's rings, by the mappings of the daemon's end.
fn sealed() {
    let _rig = Rig::new(settings(), "plain");
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let both = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    for (name, seals) in [("questions", both | libc::F_SEAL_FUTURE_WRITE), ("verdicts", both)] {
        let of: Vec<_> =
            maps.lines().filter(|line| line.contains(&format!("/memfd:{name} "))).collect();
        assert!(!of.is_empty(), "{maps}");
        for line in of {
            let range = line.split(' ').next().unwrap();
            let file = match fs::File::open(format!("/proc/self/map_files/{range}")) {
                Ok(file) => file,
                Err(error) => return skip(format_args!("no right to open mapped files: {error}")),
            };
            // SAFETY: it only asks, about an open file.
            let found = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
            assert_eq!(found, seals, "{line}");
        }
    }
}

/// Another process of this binary: starts processes of policies and says their numbers.
pub fn daemon() -> ExitCode {
    let rig = Rig::new(Settings { processes: 2, ..settings() }, "plain");
    let events: Vec<_> = rig.events().iter().map(ToString::to_string).collect();
    let pids: Vec<_> = rig.status().processes.iter().map(|one| one.pid.to_string()).collect();
    println!("{}\t{}", pids.join(" "), events.join("; "));
    if std::env::var_os("LIMITED").is_none() {
        std::thread::sleep(Duration::from_secs(600));
    }
    ExitCode::SUCCESS
}

fn no_orphans() {
    let own = std::env::current_exe().unwrap();
    let mut daemon = Command::new(own).arg("daemon").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids: Vec<u32> = line
        .split('\t')
        .next()
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(pids.len() >= 2, "{line}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let begun = Instant::now();
    let gone = |pid: &u32| match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.contains(") Z ") || stat.contains(") X "),
        Err(_) => true,
    };
    while !pids.iter().all(gone) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{pids:?} are left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn nothing_left() {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let maps = || fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:").count();
    let before = (count("fd"), count("task"), maps());
    for _ in 0..3 {
        let mut rig = Rig::new(Settings { processes: 2, ..settings() }, "segv");
        (0..10).for_each(|_| _ = rig.ask(0).unwrap());
        let _ = rig.ask(crate::deciders::BAD).unwrap();
        rig.settle(Duration::from_secs(5));
        rig.load("other").unwrap();
        rig.settle(Duration::from_secs(5));
        let pids: Vec<_> = rig.status().processes.iter().map(|one| one.pid).collect();
        drop(rig);
        for pid in pids {
            assert!(!fs::exists(format!("/proc/{pid}")).unwrap(), "{pid} is left");
        }
    }
    assert_eq!((count("fd"), count("task"), maps()), before);
}
