//! `rutter-lab gpu-suite`: without a GPU, and on the driver of `offload`'s tests, which is one as far
//! as the lab can see.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder of its own, which goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("suite-{}-{}", std::process::id(), testing::name());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    fn files(&self) -> usize {
        fs::read_dir(self.0.join("out")).map_or(0, |files| files.count())
    }

    fn record(&self, name: &str) -> serde_json::Value {
        let text = fs::read_to_string(self.0.join("out").join(name)).expect("a record");
        serde_json::from_str(&text).expect("it is JSON")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The driver of the tests, where the system's linker finds it.
fn driver(folder: &Path) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../offload/tests/driver/libcuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", source, "-o"]);
    assert!(cc.arg(folder.join("libcuda.so.1")).status().expect("a C compiler").success());
}

fn suite(folder: &Folder, seconds: &str, settings: &[(&str, &str)]) -> (Output, Duration) {
    let out = folder.0.join("out");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_rutter-lab"));
    lab.args(["gpu-suite", "--quick", "--seconds", seconds, "-o"]).arg(out);
    lab.env("LD_LIBRARY_PATH", &folder.0).envs(settings.iter().copied());
    let begun = Instant::now();
    (lab.output().expect("it was built"), begun.elapsed())
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat()
}

const MEMORY: (&str, &str) = ("CUDA_MEMORY", "4000000000");

#[test]
fn on_the_driver_of_the_tests_all_is_judged() {
    let folder = Folder::new();
    driver(&folder.0);
    let (done, _) = suite(&folder, "300", &[MEMORY]);
    let said = said(&done);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("GPU 0: Test GPU 0"), "{said}");
    assert!(!said.contains("not measured on a GPU"), "{said}");
    assert!(folder.files() <= 8, "{said}");
    for name in ["bloomfwd-fig9.json", "bloomfwd-fig10.json", "offload-peers.json"] {
        let record = folder.record(name);
        let rows = record["rows"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["labels"]["device"] == "cuda"), "{record}");
        let verdicts = record["verdicts"].as_array().expect("verdicts");
        let open = verdicts.iter().filter(|verdict| verdict["ruling"] == "open");
        // What a quick run is too short for, and what takes two cores.
        let may = ["not measured", "there is one core"];
        let others = open.filter(|verdict| !may.iter().any(|why| verdict["measured"] == *why));
        assert_eq!(others.count(), 0, "{name}: {verdicts:?}");
    }
    let peers = folder.record("offload-peers.json");
    let cuda = |row: &&serde_json::Value| row["labels"]["device"] == "cuda";
    for row in peers["rows"].as_array().expect("rows").iter().filter(cuda) {
        for figure in ["rate_mlps", "resident_mlps", "end_mlps", "bus_mlps", "of_bus"] {
            assert!(row["figures"][figure]["median"].as_f64() > Some(0.0), "{figure}: {row}");
        }
        let engine = row["labels"]["engine"].as_str().expect("a name");
        assert_eq!(row["figures"]["lines"].is_object(), ["rutter4", "bloomfwd"].contains(&engine));
    }
}

/// No table fits the device's memory.
#[test]
fn where_nothing_is_measured_the_status_is_2() {
    let folder = Folder::new();
    driver(&folder.0);
    let (done, _) = suite(&folder, "300", &[("CUDA_MEMORY", "100000")]);
    let said = said(&done);
    assert_eq!((done.status.code(), folder.files()), (Some(2), 0), "{said}");
    assert!(said.starts_with("GPU 0: Test GPU 0"), "{said}");
    let left_out = ": left out: it needs a device that works: Test GPU 0: ";
    assert_eq!(said.matches(left_out).count(), 3, "{said}");
    assert!(said.ends_with("\nrutter-lab: nothing was measured\n"), "{said}");
}

/// A call of the driver that never returns, and an end of the driver that would wait for it: the time
/// limit is what ends the suite.
#[test]
fn a_call_that_never_returns_is_ended_by_the_limit() {
    let folder = Folder::new();
    driver(&folder.0);
    let hang = [MEMORY, ("CUDA_HANG", "cuModuleLoadData@0"), ("CUDA_END", "waits")];
    let out = folder.0.join("out");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_rutter-lab"));
    lab.args(["gpu-suite", "--quick", "--seconds", "10", "--grace", "0", "-o"]).arg(out);
    let done = lab.env("LD_LIBRARY_PATH", &folder.0).envs(hang).output().expect("it was built");
    let said = said(&done);
    assert_eq!(done.status.code(), Some(2), "{said}");
    let last = "\nrutter-lab: the time is up; what is not recorded by now is left out\n";
    assert!(said.ends_with(last), "{said}");
}

/// The driver hangs as soon as there is a record: its result is printed nevertheless, while nothing of
/// the later ones is there.
#[test]
fn a_result_is_printed_when_its_record_is_there() {
    let folder = Folder::new();
    driver(&folder.0);
    let out = folder.0.join("out");
    let [first, second] = ["bloomfwd-fig9.json", "bloomfwd-fig10.json"].map(|name| out.join(name));
    let mut lab = Command::new(env!("CARGO_BIN_EXE_rutter-lab"));
    lab.args(["gpu-suite", "--quick", "--seconds", "300", "-o"]).arg(&out);
    lab.env("LD_LIBRARY_PATH", &folder.0).envs([MEMORY, ("CUDA_HANG", "cuModuleLoadData@0")]);
    let lab = lab.env("CUDA_FROM", &first).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut lab = lab.spawn().expect("it was built");
    let lines = BufReader::new(lab.stdout.take().expect("it is piped")).lines();
    let names = lines.map(|line| line.expect("it is text"));
    let mut names = names.filter(|line| line.starts_with("bloomfwd/"));
    let line = names.next().expect("a result, before the driver hangs");
    let there = (first.exists(), second.exists(), lab.try_wait().expect("it is ours"));
    lab.kill().expect("it is ours");
    lab.wait().expect("it ends");
    assert!(line.starts_with("bloomfwd/fig9: ") && line.ends_with("fig9.json"), "{line}");
    assert_eq!(there, (true, false, None), "the record, no other, and it goes on");
}

#[test]
fn what_there_is_no_time_for_is_left_out_and_named() {
    let folder = Folder::new();
    driver(&folder.0);
    let (done, took) = suite(&folder, "3", &[MEMORY]);
    let said = said(&done);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("left out") && folder.files() <= 8, "{said}");
    assert!(took < Duration::from_secs(40), "{took:?}");
}

#[test]
fn a_lost_device_is_named_and_a_machine_without_one_says_so_first() {
    let folder = Folder::new();
    driver(&folder.0);
    let lost = [MEMORY, ("CUDA_FAULT", "cuLaunchKernel@3")];
    let (done, _) = suite(&folder, "2", &lost);
    assert!(said(&done).contains("unspecified launch failure"), "{}", said(&done));
    let (done, _) = suite(&folder, "2", &[("CUDA_DEVICES", "0")]);
    let first = String::from_utf8_lossy(&done.stdout).lines().next().map(str::to_owned);
    let first = first.expect("a line");
    assert_eq!(first, "not measured on a GPU: the CUDA driver finds none");
}
