//! The objects that are committed are those of the sources.

use std::fs;
use std::path::Path;
use std::process::Command;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs"))
}

#[test]
fn sources_and_objects_have_the_sums_that_are_committed() {
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256"]).current_dir(folder());
    let sums = sums.output().expect("coreutils are there");
    let said = String::from_utf8_lossy(&sums.stdout);
    assert!(sums.status.success(), "scripts/programs.sh makes the objects anew\n{said}");
    let listed = fs::read_to_string(folder().join("SHA256")).unwrap();
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let line = format!("  {name}\n");
        assert!(name == "SHA256" || listed.contains(&line), "{name} has no sum");
    }
}

#[test]
fn clang_makes_the_same_objects_of_the_sources() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    fs::create_dir_all(&out).unwrap();
    let script = folder().join("../../../scripts/programs.sh");
    let made = Command::new(script).arg(&out).output().expect("the script is there");
    if made.status.code() == Some(3) {
        return testing::skip(String::from_utf8_lossy(&made.stderr).trim());
    }
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        let committed = folder().join(path.file_name().unwrap());
        assert!(
            fs::read(&path).unwrap() == fs::read(&committed).unwrap(),
            "{}: scripts/programs.sh makes another one of the sources",
            committed.display()
        );
    }
}
