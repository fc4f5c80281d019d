//! The layering, as a test: who may import whom, and what the data path never sees.
//! A new edge between crates is a line in [`MAY_IMPORT`], to be argued for. `inside.rs` has
//! the inside of each crate.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use source::sources;

/// A crate, and the crates of ours that it may import. The list is the law, not
/// what is used today.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("testing", &[]),
    ("wire", &[]),
    ("netlink", &[]),
    ("lookup", &[]),
    ("io", &[]),
    ("api", &[]),
    ("io-dpdk", &["io"]),
    ("graph", &["io", "lookup"]),
    ("nodes", &["graph", "io", "lookup", "policy", "tables", "wire"]),
    ("tables", &["lookup"]),
    ("formats", &["lookup"]),
    ("feeds", &["formats", "lookup", "netlink", "tables"]),
    ("policy", &["formats", "lookup", "wire"]),
    ("offload", &["formats", "lookup"]),
    (
        "daemon",
        &[
            "api", "feeds", "formats", "graph", "io", "io-dpdk", "lookup", "netlink", "nodes",
            "policy", "tables", "wire",
        ],
    ),
    // `io` for its reader of captures.
    ("cli", &["api", "daemon", "feeds", "formats", "io", "lookup", "offload", "policy"]),
    (
        "lab",
        &[
            "api", "daemon", "feeds", "formats", "graph", "io", "io-dpdk", "lookup", "netlink",
            "nodes", "offload", "policy", "tables", "wire",
        ],
    ),
    ("ffi", &["formats", "lookup"]),
];

/// Crates that could be published alone: their tests use nothing of ours either, but `testing`.
const ALONE: &[&str] = &["api", "io", "lookup", "netlink", "wire"];

/// Crates that run for every packet.
const DATA_PATH: &[&str] = &["graph", "io", "lookup", "nodes", "wire"];

/// What those never use: serialisation, async runtimes, loggers.
const NOT_IN_DATA_PATH: &[&str] = &[
    "async-std",
    "env_logger",
    "futures",
    "log",
    "serde",
    "serde_json",
    "slog",
    "smol",
    "tokio",
    "toml",
    "tracing",
    "tracing-subscriber",
];

/// Modules of the standard library that the data path never uses either.
const STD_NOT_IN_DATA_PATH: &[&str] = &["fs", "net", "process"];

/// Folders and files of `io` that hold its own ports, which read files and devices.
const PORTS_OF_IO: &[&str] = &["af_packet", "mem", "pcap", "tap"];

/// Crates that may contain unsafe code; `lab` denies it outside its rivals.
const UNSAFE: &[&str] = &["ffi", "graph", "io", "io-dpdk", "lab", "lookup", "offload", "policy"];

/// Crates that may see C, and DPDK's names.
const C: &[&str] = &["ffi", "io-dpdk", "lab", "offload", "policy"];

/// Where a crate of the product starts threads: nowhere else, so that none dies
/// unnoticed. A worker's are started by the daemon, a failed build is one for its caller,
/// without the clock's the first estimate of the rate serves on, DPDK's start is waited
/// for, a table that is not touched is backed at its first use, and what an oracle starts
/// ends with its call.
const STARTS_THREADS: &[(&str, &str)] = &[
    ("cli", "commands/demo/shield/serve.rs"), // a page that is not served is counted where it is asked for
    ("cli", "commands/lookup/pipe.rs"),       // ends with its scope
    ("cli", "whole.rs"), // waits for a signal, removes a file and ends the process
    ("daemon", "threads.rs"),
    ("graph", "clock.rs"),
    ("graph", "worker.rs"),
    ("io-dpdk", "eal.rs"),
    ("lookup", "exact/oracle.rs"),
    ("lookup", "lpm/oracle/readers.rs"),
    ("lookup", "pages/touch.rs"),
    ("offload", "crew.rs"), // cores in place, beside a device: lookups are caught, and it is joined
    ("offload", "devices/threads.rs"), // a batch that it panics over goes back without answers
    ("policy", "cell/child/watch.rs"), // of a policy's process, which is killed where it fails
    ("tables", "build.rs"),
];

/// A crate that only these of ours may use directly.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("axum", &["cli"]), // the daemon speaks no HTTP
    ("hyper", &["cli"]),
    ("tokio", &["cli"]), // the mirror is a blocking thread
    ("mlua", &["policy"]),
    ("bindgen", C),
    ("cc", C),
];

struct Package {
    folder: PathBuf,
    /// Names, and whether each is for tests only.
    dependencies: Vec<(String, bool)>,
}

fn workspace() -> BTreeMap<String, Package> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it can be run");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("cargo prints JSON");
    let text = |value: &Value| value.as_str().expect("a string in cargo's metadata").to_owned();
    let package = |package: &Value| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let list = package["dependencies"].as_array().expect("dependencies are a list");
        let dependency = |of: &Value| (text(&of["name"]), of["kind"].as_str() == Some("dev"));
        let folder = manifest.parent().expect("a manifest lies in a folder").to_owned();
        (
            text(&package["name"]),
            Package { folder, dependencies: list.iter().map(dependency).collect() },
        )
    };
    metadata["packages"].as_array().expect("packages are a list").iter().map(package).collect()
}

/// The roots of a crate's library and binaries: their names below `src`, and text.
fn roots(src: &Path) -> Vec<(String, String)> {
    let binaries = fs::read_dir(src.join("bin")).into_iter().flatten();
    let binaries = binaries.map(|entry| {
        let path = entry.expect("a folder of the sources can be read").path();
        if path.is_dir() { path.join("main.rs") } else { path }
    });
    let all = ["lib.rs", "main.rs"].into_iter().map(|name| src.join(name)).chain(binaries);
    let text = |path: PathBuf| {
        let name = path.strip_prefix(src).expect("it lies below src").display().to_string();
        Some((name, fs::read_to_string(path).ok()?))
    };
    all.filter_map(text).collect()
}

/// Modules that are files of their own and are compiled for tests only, as the paths of
/// their files and folders, without `.rs`.
struct TestModules(BTreeSet<PathBuf>);

impl TestModules {
    fn of(sources: &[PathBuf]) -> TestModules {
        let read = |file| fs::read_to_string(file).expect("a source can be read");
        let declared = sources.iter().flat_map(|file| {
            source::test_modules(&source::code(&read(file)))
                .into_iter()
                .map(|name| below(file).join(name))
        });
        TestModules(declared.collect())
    }

    /// `file` is one of them, or lies inside one.
    fn have(&self, file: &Path) -> bool {
        let file = file.with_extension("");
        self.0.iter().any(|module| file.starts_with(module))
    }
}

/// Where the modules lie that `file` declares.
fn below(file: &Path) -> PathBuf {
    let holds = |name: &str| file.file_name().is_some_and(|own| own == name);
    if ["lib.rs", "main.rs", "mod.rs"].into_iter().any(holds) {
        file.parent().expect("a file lies in a folder").to_owned()
    } else {
        file.with_extension("")
    }
}

/// Code without comments, strings and tests.
fn code(source: &str) -> String {
    source::without_tests(&source::code(source))
}

/// True when `code` names `std::MODULE` or lists it in `use std::{…}`.
fn uses_std(code: &str, module: &str) -> bool {
    let word = |text: &str| {
        let rest = text.strip_prefix(module);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    code.match_indices("std::").any(|(at, path)| {
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = &list[..list.find(';').unwrap_or(list.len())];
                list.split([',', '{', '}']).any(|item| word(item.trim_start()))
            }
            None => word(rest),
        }
    })
}

fn is_port_of_io(file: &Path, src: &Path) -> bool {
    let inside = file.strip_prefix(src).expect("the file was found below src");
    let first = inside.components().next().expect("a file has a name");
    let stem = Path::new(first.as_os_str()).file_stem().and_then(|stem| stem.to_str());
    stem.is_some_and(|stem| PORTS_OF_IO.contains(&stem))
}

/// `faults`, or nothing.
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn threads_are_started_where_somebody_hears_of_their_end() {
    let mut faults = Vec::new();
    for (name, package) in workspace().iter().filter(|(name, _)| *name != "lab") {
        let src = package.folder.join("src");
        let sources = sources(&src);
        let tests = TestModules::of(&sources);
        for file in &sources {
            let inside = file.strip_prefix(&src).expect("the file was found below src");
            let allowed = |(of, at): &(&str, &str)| of == name && Path::new(at) == inside;
            if tests.have(file) || STARTS_THREADS.iter().any(allowed) {
                continue;
            }
            let code = code(&fs::read_to_string(file).expect("a source can be read"));
            for start in ["thread::spawn", "thread::Builder", "thread::scope"] {
                if code.contains(start) {
                    faults.push(format!("{}: {start}", file.display()));
                }
            }
        }
    }
    none(faults);
}

#[test]
fn crates_import_what_they_may() {
    let packages = workspace();
    let ours: BTreeSet<&str> = packages.keys().map(String::as_str).collect();
    let mut faults = Vec::new();
    for (name, package) in &packages {
        let Some((_, may)) = MAY_IMPORT.iter().find(|(importer, _)| importer == name) else {
            faults.push(format!("{name} is not in the table"));
            continue;
        };
        for (import, tests_only) in &package.dependencies {
            // Cargo itself refuses circles, except through tests.
            let alone = ALONE.contains(&name.as_str()) && import != "testing";
            let free = *tests_only && !alone;
            if ours.contains(import.as_str()) && !may.contains(&import.as_str()) && !free {
                faults.push(format!("{name} must not import {import}"));
            }
        }
    }
    none(faults);
}

#[test]
fn outside_crates_are_used_where_they_belong() {
    let mut faults = Vec::new();
    for (name, package) in workspace() {
        for (import, tests_only) in package.dependencies {
            let allowed = |(what, wherein): &(&str, &[&str])| {
                *what != import || wherein.contains(&name.as_str())
            };
            let in_data_path = DATA_PATH.contains(&name.as_str()) && !tests_only;
            if !ONLY_IN.iter().all(allowed)
                || in_data_path && NOT_IN_DATA_PATH.contains(&import.as_str())
            {
                faults.push(format!("{name} must not use {import}"));
            }
        }
    }
    none(faults);
}

#[test]
fn the_data_path_sees_no_files_sockets_or_processes() {
    let mut faults = Vec::new();
    for (name, package) in workspace() {
        if !DATA_PATH.contains(&name.as_str()) {
            continue;
        }
        let src = package.folder.join("src");
        let files = sources(&src);
        let tests = TestModules::of(&files);
        for file in files {
            if tests.have(&file) || name == "io" && is_port_of_io(&file, &src) {
                continue;
            }
            let code = code(&fs::read_to_string(&file).expect("a source can be read"));
            for module in STD_NOT_IN_DATA_PATH {
                if uses_std(&code, module) {
                    faults.push(format!("{} uses std::{module}", file.display()));
                }
            }
        }
    }
    none(faults);
}

#[test]
fn unsafe_code_is_forbidden_where_it_is_not_needed() {
    let mut faults = Vec::new();
    for (name, package) in workspace() {
        for (root, source) in roots(&package.folder.join("src")) {
            if !UNSAFE.contains(&name.as_str()) && !source.contains("#![forbid(unsafe_code)]") {
                faults.push(format!("{name}/src/{root} lacks #![forbid(unsafe_code)]"));
            }
            // The lab's rivals are C; its binary holds none of them.
            let word = if root == "lib.rs" { "deny" } else { "forbid" };
            if name == "lab" && !source.contains(&format!("#![{word}(unsafe_code)]")) {
                faults.push(format!("{name}/src/{root} lacks #![{word}(unsafe_code)]"));
            }
        }
        let manifest =
            fs::read_to_string(package.folder.join("Cargo.toml")).expect("it was listed");
        if !manifest.contains("[lints]\nworkspace = true") {
            faults.push(format!("{name}/Cargo.toml does not inherit the workspace's lints"));
        }
    }
    none(faults);
}

#[test]
fn names_of_dpdk_stay_where_c_is() {
    let mut faults = Vec::new();
    for (name, package) in workspace() {
        if C.contains(&name.as_str()) {
            continue;
        }
        for file in sources(&package.folder.join("src")) {
            let code = code(&fs::read_to_string(&file).expect("a source can be read"));
            let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(found) = names.into_iter().find(|name| name.starts_with("rte_")) {
                faults.push(format!("{} names {found}", file.display()));
            }
        }
    }
    none(faults);
}

#[test]
fn a_module_for_tests_is_known_by_its_place_not_by_its_name() {
    assert_eq!(below(Path::new("src/lib.rs")), Path::new("src"));
    assert_eq!(below(Path::new("src/a/mod.rs")), Path::new("src/a"));
    assert_eq!(below(Path::new("src/a.rs")), Path::new("src/a"));
    let tests = TestModules([PathBuf::from("src/a/tests")].into());
    for inside in ["src/a/tests.rs", "src/a/tests/mod.rs", "src/a/tests/b/c.rs"] {
        assert!(tests.have(Path::new(inside)), "{inside}");
    }
    for outside in ["src/tests.rs", "src/b/tests.rs", "src/a/tests2.rs", "src/a.rs"] {
        assert!(!tests.have(Path::new(outside)), "{outside}");
    }
}

#[test]
fn the_scanner_sees_code_only() {
    let source = "use std::{fmt, net::Ipv4Addr};\nlet a = \"std::fs\"; // std::process\n\
                  #[cfg(test)]\nmod testbed;\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    let code = code(source);
    assert!(uses_std(&code, "net"));
    assert!(!uses_std(&code, "fs") && !uses_std(&code, "process"));
    assert!(uses_std("std::fs::read(x)", "fs") && !uses_std("std::fsx", "fs"));
    assert!(!uses_std("core::net::IpAddr", "net"));
    // Not all that is for tests is at the end, and not all quotes are strings.
    let source = "#[cfg(test)]\nimpl A { fn a() { std::fs::read(1); } }\nlet q = '\"'; std::net::f();\n\
                  fn b<'a>(x: &'a str) { r#\"std::fs \"q\" \"#; b'\\''; /* std::fs /* */ */ }";
    let code = self::code(source);
    assert!(uses_std(&code, "net") && !uses_std(&code, "fs"), "{code}");
}
