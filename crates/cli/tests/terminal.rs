//! What `rutter` draws where its standard error is a terminal.

mod common;

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{RUTTER, Scratch};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{self, OpenptFlags};

/// A pseudo-terminal: what sees it all, and what a process has for one.
fn terminal() -> (File, File) {
    let outer = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there is /dev/ptmx");
    pty::grantpt(&outer).expect("it is ours");
    pty::unlockpt(&outer).expect("it is ours");
    let name = pty::ptsname(&outer, Vec::new()).expect("it has a name");
    let inner = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    (outer.into(), inner.expect("it is unlocked").into())
}

#[test]
fn a_long_lookup_shows_progress_and_wipes_it() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "10.0.0.0/8 gw-a\n");
    // Blocks of addresses, of which the pipe holds a part of one's answers.
    let addresses = scratch.file("addresses", "10.1.2.3\n".repeat(1_000_000));
    let (mut outer, inner) = terminal();
    let mut child = Command::new(RUTTER)
        .args(["lookup", "--no-prefix", "--table", &table])
        .stdin(File::open(addresses).expect("it was written"))
        .stdout(Stdio::piped())
        .stderr(inner)
        .spawn()
        .expect("the binary was built");
    let mut answers = child.stdout.take().expect("it is piped");
    let reader = thread::spawn(move || {
        // Nobody takes the answers at first: that takes as long on every machine.
        thread::sleep(Duration::from_secs(1));
        let mut all = String::new();
        answers.read_to_string(&mut all).map(|_| all)
    });
    let (mut drawn, mut bytes) = (Vec::new(), [0; 4096]);
    // Linux reports an error where no process has the terminal any more.
    while let Ok(read @ 1..) = outer.read(&mut bytes) {
        drawn.extend(&bytes[..read]);
    }
    let drawn = String::from_utf8(drawn).expect("text");
    let answers = reader.join().expect("it does not panic").expect("text");
    assert!(child.wait().expect("it ends").success(), "{drawn:?}");
    assert_eq!(answers.lines().filter(|line| *line == "10.1.2.3\tgw-a").count(), 1_000_000);
    let line = |text: &str| text.contains(" million a second, ") && text.ends_with(" s left");
    let lines: Vec<&str> = drawn.split("\r\x1b[K").collect();
    assert!(lines.iter().any(|text| line(text)), "{drawn:?}");
    assert!(drawn.ends_with("\r\x1b[K"), "{drawn:?}");
    // Each is drawn over the last, and no answer among them.
    assert!(lines.iter().all(|text| text.is_empty() || line(text)), "{drawn:?}");
}
