//! `rutter lookup`: its memory is bounded, whatever the input.

mod common;

use std::fs;
use std::io::{Read, Write, copy, sink};
use std::process::{Command, Stdio};

use common::{RUTTER, Scratch};

/// By the peak of its resident memory, when most answers were taken and the rest is held back: what
/// the command keeps of its input or of its output is in it.
#[test]
fn memory_is_bounded_whatever_the_input() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "10.0.0.0/8 gw-a\n2001:db8::/32 gw-b\n");
    let raw = [10, 1, 2, 3].repeat(100_000);
    let text = b"2001:0db8:0000:0001:0002:0003:0004:0005\n".repeat(10_000);
    let line = "2001:0db8:0000:0001:0002:0003:0004:0005\t2001:db8::/32\tgw-b\n".len();
    let model = ["--device", "model", "--threads", "1"];
    for (way, chunk, answers) in [
        (&["--raw", "ipv4"][..], &raw, 400_000),
        (&[&["--raw", "ipv4"][..], &model].concat(), &raw, 400_000),
        (&[], &text, 10_000 * line),
        (&["--device", "threads"], &text, 10_000 * line),
        (&model, &text, 10_000 * line),
    ] {
        let times = INPUT / chunk.len();
        let mut command = Command::new(RUTTER);
        command.args(["lookup", "--table", &table]).args(way);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the binary was built");
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || (0..times).try_for_each(|_| to.write_all(chunk)));
            let (all, most) = ((answers * times) as u64, (answers * times / 5 * 4) as u64);
            let taken = copy(&mut (&mut from).take(most), &mut sink()).expect("it answers");
            let peak = peak(child.id());
            assert_eq!(taken + copy(&mut from, &mut sink()).expect("it answers on"), all);
            assert!(peak < INPUT / 2, "{way:?}: {peak} bytes");
        });
        assert!(child.wait().expect("it ends").success(), "{way:?}");
    }
}

/// The most memory that a process has had, in bytes.
fn peak(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    let figure = line.trim().strip_suffix(" kB").expect("in kB");
    figure.parse::<usize>().expect("a number") << 10
}

/// Bytes of a long input.
const INPUT: usize = 400_000_000;
