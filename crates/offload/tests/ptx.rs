//! The PTX that is committed is that of the source. `make deep` compiles it anew and compares.

use std::process::Command;

#[test]
fn source_and_ptx_have_the_sums_that_are_committed() {
    let mut sums = Command::new("sha256sum");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels");
    sums.args(["--check", "--strict", "SHA256"]).current_dir(folder);
    let sums = sums.output().expect("coreutils are there");
    let said = String::from_utf8_lossy(&sums.stdout);
    assert!(sums.status.success(), "scripts/ptx.sh makes the PTX anew\n{said}");
    assert_eq!(said, "lookup.cu: OK\nlookup.ptx: OK\n");
}
