//! Running the binary, and files to run it on.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub const RUTTER: &str = env!("CARGO_BIN_EXE_rutter");

/// What a run gave.
pub struct Done {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Runs `rutter` with nothing on its standard input.
pub fn rutter(args: &[&str]) -> Done {
    rutter_with(args, "")
}

/// Runs `rutter` with `input` on its standard input.
pub fn rutter_with(args: &[&str], input: &str) -> Done {
    let mut child = Command::new(RUTTER)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    let done = std::thread::scope(|scope| {
        // While its answers are read: pipes hold 64 KB. It may end without reading.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().expect("it ends")
    });
    Done {
        status: done.status.code().expect("no signal ended it"),
        out: String::from_utf8(done.stdout).expect("text"),
        err: String::from_utf8(done.stderr).expect("text"),
    }
}

/// A folder that goes with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rutter-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        Scratch(folder)
    }

    /// Writes a file; returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("room for a small file");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub fn folder(&self) -> String {
        self.0.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
