//! `rutter lookup -o`: a file is whole or as it was, however the command ends, and no other is left.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{RUTTER, Scratch, rutter_with};

const TABLE: &str = "10.0.0.0/8 gw-a\n10.1.0.0/16 gw-b\n2001:db8::/32 gw-d\n";

/// How addresses come, and who looks them up.
const WAYS: [&[&str]; 5] = [
    &["--raw", "ipv4"],
    &["--raw", "ipv4", "--device", "model", "--threads", "1"],
    &[],
    &["--device", "threads"],
    &["--device", "model", "--threads", "1"],
];

/// A table, a file that was there before, and the folder of both.
struct Place {
    scratch: Scratch,
    table: String,
    out: String,
    /// Where the linker finds what takes the file system's files without names away.
    named: Option<String>,
}

impl Place {
    /// With a file system whose files can have no name, or, `named`, one whose files must.
    fn new(named: bool) -> Self {
        let scratch = Scratch::new();
        let (table, out) = (scratch.file("table", TABLE), scratch.file("out", "before"));
        let named = named.then(|| without_nameless(&scratch));
        Place { scratch, table, out, named }
    }

    fn command(&self, way: &[&str]) -> Command {
        self.within("", way)
    }

    /// The command, after `before` in its shell.
    fn within(&self, before: &str, way: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before} exec \"$@\""), "sh", RUTTER]);
        command.args(["lookup", "--table", &self.table, "-o", &self.out]).args(way);
        command.envs(self.named.iter().map(|library| ("LD_PRELOAD", library)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn files(&self) -> Vec<String> {
        let all = fs::read_dir(self.scratch.folder()).expect("it is there");
        let name = |file: std::io::Result<fs::DirEntry>| file.unwrap().file_name();
        let mut all: Vec<_> = all.map(|file| name(file).to_string_lossy().into_owned()).collect();
        all.sort();
        all
    }

    fn content(&self) -> Vec<u8> {
        fs::read(&self.out).expect("it is there")
    }
}

/// A library that opens no file without a name, as old kernels and some file systems do.
fn without_nameless(scratch: &Scratch) -> String {
    let source = "
        #define _GNU_SOURCE
        #include <errno.h>
        #include <fcntl.h>
        #include <stdarg.h>
        int open64(const char *path, int flags, ...) {
            va_list more;
            va_start(more, flags);
            int mode = va_arg(more, int);
            va_end(more);
            if ((flags & O_TMPFILE) == O_TMPFILE)
                return errno = EOPNOTSUPP, -1;
            return openat(AT_FDCWD, path, flags, mode);
        }
        int open(const char *, int, ...) __attribute__((alias(\"open64\")));
    ";
    let (source, library) = (scratch.file("named.c", source), scratch.folder() + "/named.so");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-shared", "-fPIC", &source, "-o", &library]);
    assert!(cc.status().expect("a C compiler").success());
    library
}

/// Addresses as a way takes them, 60,000.
fn addresses(way: &[&str]) -> Vec<u8> {
    if way.contains(&"--raw") { vec![10; 240_000] } else { b"10.10.10.10\n".repeat(60_000) }
}

/// Writes to a child that may end before it has read all.
fn finish(mut child: Child, input: &[u8]) -> (Option<i32>, String) {
    let mut stdin = child.stdin.take().expect("it is piped");
    let done = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("it ends")
    });
    (done.status.code(), String::from_utf8(done.stderr).expect("text"))
}

#[test]
fn answers_are_in_the_file_at_the_end() {
    for named in [false, true] {
        let place = Place::new(named);
        let there = place.files();
        for way in WAYS {
            let done = finish(place.command(way).spawn().expect("a shell"), &addresses(way));
            assert_eq!(done, (Some(0), String::new()), "{way:?}");
            let line = "10.10.10.10\t10.0.0.0/8\tgw-a\n".as_bytes();
            let answer = if way.contains(&"--raw") { &[0, 0, 0, 1] } else { line };
            assert!(place.content() == answer.repeat(60_000), "{way:?}");
            assert_eq!(place.files(), there);
        }
    }
}

/// By a signal, or without a chance to tidy up.
#[test]
fn an_interrupted_run_leaves_the_file_as_it_was() {
    for (named, signal, number) in [
        (false, "INT", 2),
        (false, "TERM", 15),
        (false, "KILL", 9),
        (true, "INT", 2),
        (true, "TERM", 15),
    ] {
        let place = Place::new(named);
        let there = place.files();
        for way in WAYS {
            let mut child = place.command(way).spawn().expect("a shell");
            let stdin = child.stdin.as_mut().expect("it is piped");
            // More than a pipe holds: it has begun when all is written.
            stdin.write_all(&addresses(way).repeat(8)).expect("it reads");
            assert_eq!(place.files().len(), there.len() + usize::from(named), "{way:?}");
            let kill = format!("kill -{signal} {}", child.id());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            let status = child.wait().expect("it ends");
            let ended = [status.code().map(|code| code - 128), status.signal()];
            assert!(ended.contains(&Some(number)), "{way:?} {signal}: {status}");
            assert_eq!(
                (place.content().as_slice(), place.files()),
                (&b"before"[..], there.clone())
            );
        }
    }
}

/// As a full disk, the limit of a file's size fails in the middle of a write; and a device that is
/// always full.
#[test]
fn a_full_disk_leaves_the_file_as_it_was() {
    for named in [false, true] {
        let place = Place::new(named);
        let there = place.files();
        for way in WAYS {
            let child = place.within("trap '' XFSZ; ulimit -f 8;", way).spawn().expect("a shell");
            let (status, err) = finish(child, &addresses(way));
            let says = format!("rutter: {}: File too large", place.out);
            assert!(status == Some(2) && err.starts_with(&says), "{way:?} {status:?}: {err}");
            assert_eq!(
                (place.content().as_slice(), place.files()),
                (&b"before"[..], there.clone())
            );
        }
    }
    let place = Place::new(false);
    for way in WAYS {
        let args = [&["lookup", "--table", &place.table, "-o", "/dev/full"][..], way].concat();
        let mut command = Command::new(RUTTER);
        command.args(args).stdin(Stdio::piped()).stderr(Stdio::piped());
        let (status, err) = finish(command.spawn().expect("it was built"), &addresses(way));
        assert!(status == Some(2) && err.contains("/dev/full"), "{way:?} {status:?}: {err}");
    }
}

#[test]
fn a_malformed_end_leaves_what_could_be_answered() {
    let place = Place::new(false);
    let child = place.command(WAYS[0]).spawn().expect("a shell");
    assert_eq!(finish(child, &[10, 1, 0, 0, 9]).0, Some(2));
    assert_eq!(place.content(), [0, 0, 0, 2]);
    let args = ["lookup", "--table", &place.table, "-o", &place.out];
    let done = rutter_with(&args, "10.0.0.1 2001:db8::1");
    assert_eq!((done.status, done.out.as_str()), (0, ""));
    let text = "10.0.0.1\t10.0.0.0/8\tgw-a\n2001:db8::1\t2001:db8::/32\tgw-d\n";
    assert_eq!(place.content(), text.as_bytes());
    let nowhere = ["lookup", "--table", &place.table, "-o", "/nowhere/out"];
    assert_eq!(rutter_with(&nowhere, "").status, 2);
    assert!(!Path::new("/nowhere").exists());
}
