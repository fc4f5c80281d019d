//! `rutter-lab` as scripts see it: help, output, exit status.

use std::fmt::Write;
use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rutter-lab")).args(args).output().expect("it was built")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// `RUTTER_GOLDEN=write cargo test -p lab --test command` regenerates the golden.
#[test]
fn help_reads_as_reviewed() {
    let mut said = String::new();
    for command in [&[][..], &["list"], &["run"], &["gpu-suite"], &["judge"], &["report"]] {
        let done = lab(&[command, &["--help"]].concat());
        assert_eq!(done.status.code(), Some(0), "{command:?}");
        let words = command.iter().map(|word| format!(" {word}")).collect::<String>();
        writeln!(said, "$ rutter-lab{words} --help\n{}", text(done.stdout)).expect("a string");
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help.txt");
    if std::env::var_os("RUTTER_GOLDEN").is_some() {
        std::fs::write(golden, &said).expect("the repository can be written");
    }
    let want = std::fs::read_to_string(golden).expect("a file of the repository");
    assert!(
        said == want,
        "help changed: RUTTER_GOLDEN=write cargo test -p lab --test command, and review the diff"
    );
}

#[test]
fn a_report_without_records_says_so() {
    let folder = std::env::temp_dir().join(format!("rutter-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let done = lab(&["report", "-j", "--out", folder.to_str().expect("plain text")]);
    let made = folder.join("report.html").exists();
    std::fs::remove_dir_all(&folder).expect("it was made above");
    let said = (done.status.code(), text(done.stdout), made);
    assert_eq!(said, (Some(2), String::new(), false));
    let error = text(done.stderr);
    assert!(error.contains("there is no record in this folder"), "{error}");
}

#[test]
fn a_table_that_does_not_apply_is_refused() {
    let out = std::env::temp_dir().join(format!("rutter-no-table-{}", std::process::id()));
    let out = out.to_str().expect("plain text");
    let run = |names: &str, table| {
        let names: Vec<&str> = names.split(' ').collect();
        lab(&[&["run"], &names[..], &["--quick", "--table", table, "-o", out]].concat())
    };
    let takes_none = "cuckooswitch/table2 machine/limits lpm/scale";
    let done = run(takes_none, "internet:1000");
    let error = text(done.stderr);
    assert_eq!(done.status.code(), Some(2), "{error}");
    for name in takes_none.split(' ') {
        let said = format!("`--table internet:1000` does not apply to {name}:");
        assert!(error.contains(&said), "{name}: {error}");
    }
    // They measure one family, and there is none of it.
    let of_ipv4 = "dxr/table1 dxr/table2 dxr/fig3 dxr/fig4 dxr/fig5 dxr/fig6 sail/fig3.7 sail/fig3.8 \
                   sail/fig3.9 sail/fig3.11 sail/fig3.13 sail/table3.2 sail/table3.4 bloomfwd/fig1 \
                   bloomfwd/fig2 bloomfwd/fig3 bloomfwd/fig4 bloomfwd/fig5 bloomfwd/fig6 \
                   bloomfwd/table3";
    let of_ipv6 = "cuvpp/fig6 cuvpp/fig7 cuvpp/fig8 cuvpp/fig9 cuvpp/fig10 cuvpp/table2 cuvpp/table3 \
                   cuvpp/table4 sail/fig3.16 sail/fig3.17 sail/table3.5 bloomfwd/fig7 bloomfwd/fig8 \
                   bloomfwd/table4";
    for (table, names) in [("internet6:1000", of_ipv4), ("internet:1000", of_ipv6)] {
        let done = run(names, table);
        let error = text(done.stderr);
        assert_eq!(done.status.code(), Some(2), "{error}");
        for name in names.split(' ') {
            let said = format!("does not apply to {name}: it measures the other family");
            assert!(error.contains(&said), "{name}: {error}");
        }
    }
    assert!(!std::path::Path::new(out).exists(), "nothing was measured");
}

#[test]
fn an_engine_that_does_not_apply_is_refused() {
    for (name, engine) in [
        ("router/forward", "dxr"),
        ("cuckooswitch/table2", "cuckoo:batch=14"),
        ("gatekeeper/fig4.6", "rutter4"),
        ("exact/peers", "rutter4"),
        ("lpm/scale", "mac-table:isa=portable"),
        // It measures IPv4.
        ("dxr/table1", "rutter6"),
    ] {
        let done = lab(&["run", name, "--quick", "--engine", engine]);
        let (error, said) = (text(done.stderr), format!("`--engine {engine}` does not apply"));
        assert_eq!(done.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(&said), "{name}: {error}");
    }
}

#[test]
fn of_several_engines_those_that_apply_are_measured() {
    let out = std::env::temp_dir().join(format!("rutter-engines-{}", std::process::id()));
    let folder = out.to_str().expect("plain text");
    let engines = ["-e", "rutter6", "-e", "dxr:k=16"];
    let done = lab(&[&["run", "dxr/table1", "--quick", "-o", folder], &engines[..]].concat());
    let (error, record) = (text(done.stderr), std::fs::read(out.join("dxr-table1.json")));
    assert_eq!(done.status.code(), Some(0), "{error}");
    assert!(error.contains("`--engine rutter6` does not apply to dxr/table1"), "{error}");
    let record: serde_json::Value = serde_json::from_slice(&record.expect("a file")).unwrap();
    assert_eq!(record["engines"], serde_json::json!(["rutter6", "dxr:k=16"]));
    let rows = record["rows"].as_array().expect("rows");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["labels"]["engine"] == "dxr:k=16"));
    let report = lab(&["report", "--out", folder]);
    assert_eq!(report.status.code(), Some(0), "{}", text(report.stderr));
    let page = std::fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("dxr/table1 --quick --engine rutter6 --engine dxr:k=16"));
    std::fs::remove_dir_all(out).expect("it was made above");
}

#[test]
fn updates_that_do_not_apply_are_refused() {
    let done = lab(&["run", "dxr/table1", "--quick", "--updates", "none.gz"]);
    let error = text(done.stderr);
    assert!(done.status.code() == Some(2) && error.contains("none.gz"), "{error}");
    // An announcement of 10/8, RFC 6396 §4.4.3 and RFC 4271 §4.3.
    let peer = [0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2];
    let announce = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe8, 0x40, 3, 4, 192, 0, 2, 7];
    let message = [&[0, 0, 0, 20][..], &announce, &[8, 10]].concat();
    let body = [&peer[..], &[0xff; 16], &[0, 19 + message.len() as u8, 2], &message].concat();
    let header = [0, 0, 0, 1, 0, 16, 0, 4, 0, 0, 0, body.len() as u8];
    let file = std::env::temp_dir().join(format!("rutter-updates-{}", std::process::id()));
    std::fs::write(&file, [&header[..], &body].concat()).expect("a file");
    let done = lab(&["run", "dxr/table1", "--quick", "-u", file.to_str().expect("plain text")]);
    std::fs::remove_file(file).expect("it was made above");
    let error = text(done.stderr);
    assert_eq!(done.status.code(), Some(2), "{error}");
    assert!(error.contains("does not apply to dxr/table1: it replays no updates"), "{error}");
}

#[test]
fn experiments_are_listed_and_completed() {
    let listed = text(lab(&["list"]).stdout);
    let names = || listed.lines().filter_map(|line| line.split(' ').next());
    assert_eq!(names().count(), lab::experiments::all().len());
    let json: serde_json::Value = serde_json::from_slice(&lab(&["-j", "list"]).stdout).unwrap();
    assert_eq!(json[0]["name"], names().next().unwrap_or_default());
    let words = text(lab(&["words"]).stdout);
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[..6], ["list", "run", "gpu-suite", "judge", "report", "all"]);
    assert!(names().all(|name| words.contains(&name)));
    let groups = words.iter().filter(|word| !word.contains('/')).count();
    assert_eq!(words.len(), groups + names().count());
}

#[test]
fn mistakes_are_2() {
    for args in [&[][..], &["nonsense"], &["run"], &["run", "no/such"], &["report", "-o", "/none"]]
    {
        let done = lab(args);
        assert_eq!((done.status.code(), text(done.stdout).as_str()), (Some(2), ""), "{args:?}");
    }
    let error = text(lab(&["run", "no/such"]).stderr);
    assert!(error.contains("rutter-lab: no experiment is called `no/such`"), "{error}");
    let near = |name, meant: &str| {
        let error = text(lab(&["run", name]).stderr);
        assert!(error.contains(&format!("did you mean `{meant}`?")), "{error}");
    };
    near("dxr/fg3", "dxr/fig3");
    near("bloomfwt", "bloomfwd");
}

/// Small enough that a debug build takes seconds: the records have rows and verdicts.
#[test]
fn our_own_questions_are_answered_of_small_tables() {
    let out = std::env::temp_dir().join(format!("rutter-science-{}", std::process::id()));
    let folder = out.to_str().expect("plain text");
    let done = lab(&["run", "science", "--quick", "--table", "internet:2000+500", "-o", folder]);
    let error = text(done.stderr);
    assert_eq!(done.status.code(), Some(0), "{error}");
    for (name, figure) in [("verdicts", "ratio"), ("contended", "kept"), ("tails", "p999_ns")] {
        let file = out.join(format!("science-{name}.json"));
        let Ok(record) = std::fs::read(file) else {
            // They say what they need: a core for the other side.
            assert!(error.contains("needs two cores"), "{name}: {error}");
            continue;
        };
        let record: serde_json::Value = serde_json::from_slice(&record).expect("a record");
        let rows = record["rows"].as_array().expect("rows");
        let measured = rows.iter().filter(|row| row["figures"][figure]["median"].is_number());
        assert!(measured.count() >= 8, "{name}: {rows:?}");
        assert!(record["verdicts"].as_array().is_some_and(|all| !all.is_empty()), "{name}");
    }
    std::fs::remove_dir_all(out).expect("it was made above");
}
