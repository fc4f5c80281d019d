//! `--help` of every command, as a golden.

mod common;

use std::fmt::Write;

use common::rutter;

/// `RUTTER_GOLDEN=write cargo test -p cli --test help` regenerates the golden.
#[test]
fn help_reads_as_reviewed() {
    let mut text = String::new();
    collect(&[], &mut text);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help.txt");
    if std::env::var_os("RUTTER_GOLDEN").is_some() {
        std::fs::write(golden, &text).expect("the repository can be written");
    }
    let want = std::fs::read_to_string(golden).expect("a file of the repository");
    assert!(
        text == want,
        "help changed: RUTTER_GOLDEN=write cargo test -p cli --test help, and review the diff"
    );
}

/// Appends the help of a command and of those below it.
fn collect(command: &[&str], text: &mut String) {
    let done = rutter(&[command, &["--help"]].concat());
    assert_eq!(done.status, 0, "{command:?}: {}", done.err);
    let name = command.iter().map(|word| format!(" {word}")).collect::<String>();
    writeln!(text, "$ rutter{name} --help\n{}", done.out).expect("a string takes all");
    let listed = done.out.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in listed.take_while(|line| !line.is_empty()) {
        let below = line.split_whitespace().next().expect("a name");
        if below != "help" && line.starts_with("  ") && !line.starts_with("   ") {
            collect(&[command, &[below]].concat(), text);
        }
    }
}
