//! What a skip does, and that scripts and tests read one list alike.

use std::path::{Path, PathBuf};
use std::process::Command;

use testing::{Entry, LIST, entries};

#[test]
#[ignore = "run by the test below"]
fn child() {
    testing::skip(std::env::var("REASON").unwrap());
}

#[test]
fn a_skip_is_counted_and_with_strict_a_failure() {
    let file = std::env::temp_dir().join(format!("skips-{}", std::process::id()));
    let passes = |strict: &str, reason: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child", "--ignored"]).env("REASON", reason);
        child.env("RUTTER_STRICT", strict).env("RUTTER_SKIPS", &file);
        child.output().unwrap().status.success()
    };
    let of_all = entries(LIST).find(|entry| entry.name == "*").expect("there is one").says;
    assert!(passes("0", "a\nreason") && !passes("1", "another"));
    assert!(passes("1", of_all), "the list has it");
    let lines = std::fs::read_to_string(&file).unwrap();
    let line = |reason: &str| format!("testing::child\t{reason}\n");
    assert_eq!(lines, line("a reason") + &line("another") + &line(of_all));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn scripts_read_the_list_as_tests_do() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = |name: &str, reason: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-euc", ". scripts/skip.sh; skipped \"$1\" \"$2\"", "bash", name, reason]);
        bash.current_dir(&root).env("RUTTER_STRICT", "1").env_remove("RUTTER_SKIPS");
        bash.status().unwrap().success()
    };
    let mut seen = [0; 2];
    for Entry { name, says, .. } in entries(LIST) {
        let name = name.replace('*', "some");
        let within = format!("there is {says} here");
        let (before, behind) = (format!("not-{name}"), format!("{name}-not"));
        for (name, reason) in [
            (&name, says),
            (&name, &within),
            (&name, "something else"),
            (&before, says),
            (&behind, says),
        ] {
            let listed = entries(LIST).any(|entry| entry.covers(name, reason));
            assert_eq!(script(name, reason), listed, "{name}: {reason}");
            seen[usize::from(listed)] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}
