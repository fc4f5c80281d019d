//! `rutter lab` starts `rutter-lab`: beside itself first, then from the PATH. One test,
//! since a file that was just written must not be open in a process that another test
//! starts meanwhile.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use common::RUTTER;

/// In place of the lab: says which one it is, its process and its arguments.
fn plant(folder: &Path, name: &str, end: &str) {
    let (file, script) = (
        folder.join("rutter-lab"),
        format!("#!/bin/sh\necho \"{name} $$\"\nfor word; do echo \"$word\"; done\n{end}\n"),
    );
    fs::write(&file, script).expect("room for a small file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

#[test]
fn the_lab_is_beside_or_on_the_path_or_missing() {
    // In the build's own folder: the binary is linked there, not copied.
    let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{}", std::process::id()));
    let (beside, path) = (top.join("beside"), top.join("path"));
    for folder in [&beside, &path] {
        fs::create_dir_all(folder).expect("a folder");
    }
    let rutter = beside.join("rutter");
    fs::hard_link(RUTTER, &rutter).expect("one file system");
    let lab = |words: &[&str]| -> (Output, u32) {
        let mut command = Command::new(&rutter);
        command.args(words).env("PATH", format!("{}:/usr/bin:/bin", path.display()));
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("the binary was built");
        let id = child.id();
        (child.wait_with_output().expect("it ends"), id)
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();

    // Nowhere: how to get it, and status 2; its help is here nevertheless.
    let (output, _) = lab(&["lab", "list"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("rutter-lab") && error.contains("make lab"), "{error}");
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(2), ""));
    assert_eq!(lab(&["lab", "--help"]).0.status.code(), Some(0));
    assert_eq!(lab(&["completion", "bash"]).0.status.code(), Some(0));

    // On the PATH: all arguments arrive as they are, the status comes back.
    plant(&path, "path", "exit 7");
    let (output, id) = lab(&["lab", "run", "dxr/fig3", "--quick", "-h", "--", "a b"]);
    assert_eq!(said(&output), format!("path {id}\nrun\ndxr/fig3\n--quick\n-h\n--\na b\n"));
    assert_eq!(output.status.code(), Some(7));

    // Beside the binary wins; what was said before `lab` goes with it; a signal ends it.
    plant(&beside, "beside", "kill -TERM $$");
    let (output, id) = lab(&["-j", "--socket", "/x", "lab", "list"]);
    assert_eq!(said(&output), format!("beside {id}\n--json\nlist\n"));
    assert_eq!((output.status.code(), output.status.signal()), (None, Some(15)));

    // There, but not to be started: that is reported, and the next is not tried.
    let none = fs::Permissions::from_mode(0o644);
    fs::set_permissions(beside.join("rutter-lab"), none).expect("the file is ours");
    let (output, _) = lab(&["lab", "list"]);
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(2), ""));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ermission denied"));
    fs::remove_dir_all(top).expect("it was made above");
}
