//! The offline commands as scripts see them: output, messages, exit status.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{Done, Scratch, rutter, rutter_with};

const TABLE: &str = "\
192.0.2.0/24 198.51.100.1
192.0.2.128/25 gw-b   # closer
198.51.100.0/24
2001:db8::/32 2001:db8::1
";

#[test]
fn lookup_prints_address_prefix_and_hop() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let done = rutter(&[
        "lookup",
        "--table",
        &table,
        "192.0.2.1",
        "2001:DB8:0::1",
        "192.0.2.200",
        "198.51.100.9",
    ]);
    assert_eq!(
        done.out,
        "192.0.2.1\t192.0.2.0/24\t198.51.100.1\n\
         2001:DB8:0::1\t2001:db8::/32\t2001:db8::1\n\
         192.0.2.200\t192.0.2.128/25\tgw-b\n\
         198.51.100.9\t198.51.100.0/24\t-\n"
    );
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let json =
        rutter(&["lookup", "-j", "--table", &table, "192.0.2.1", "198.51.100.9", "10.0.0.1"]);
    assert_eq!(
        json.out,
        "{\"addr\":\"192.0.2.1\",\"prefix\":\"192.0.2.0/24\",\"hop\":\"198.51.100.1\"}\n\
         {\"addr\":\"198.51.100.9\",\"prefix\":\"198.51.100.0/24\",\"hop\":null}\n\
         {\"addr\":\"10.0.0.1\",\"prefix\":null,\"hop\":null}\n"
    );
    assert_eq!(json.status, 1);
}

#[test]
fn lookup_status_1_where_there_is_no_route() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let done = rutter(&["lookup", "--table", &table, "10.0.0.1", "192.0.2.1"]);
    assert_eq!(done.out, "10.0.0.1\t-\t-\n192.0.2.1\t192.0.2.0/24\t198.51.100.1\n");
    assert_eq!((done.status, done.err.as_str()), (1, ""));
}

#[test]
fn lookup_names_malformed_addresses_and_answers_the_rest() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let input = "192.0.2.1 10.0.0.1\n\n  010.0.0.1\tfe80::1%eth0\n2001:db8::2";
    let done = rutter_with(&["lookup", "--table", &table, "-"], input);
    assert_eq!(
        done.out,
        "192.0.2.1\t192.0.2.0/24\t198.51.100.1\n10.0.0.1\t-\t-\n\
         2001:db8::2\t2001:db8::/32\t2001:db8::1\n"
    );
    assert_eq!(
        done.err,
        "rutter: standard input:3: not an IPv4 or IPv6 address: 010.0.0.1\n\
         rutter: standard input:3: not an IPv4 or IPv6 address: fe80::1%eth0\n"
    );
    assert_eq!(done.status, 2); // 2 beats the 1 of 10.0.0.1
    assert_eq!(rutter_with(&["lookup", "--table", &table], input).out, done.out);
    let done = rutter(&["lookup", "--table", &table, "192.0.2.1", "x"]);
    assert_eq!(done.err, "rutter: argument 2: not an IPv4 or IPv6 address: x\n");
    assert_eq!((done.status, done.out.lines().count()), (2, 1));
}

#[test]
fn a_damaged_table_is_answered_from_what_could_be_read() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "192.0.2.0/24 a\n10/8 b\n10.0.0.1/8 c\n10.0.0.0/8 c d\n");
    let done = rutter(&["lookup", "--table", &table, "192.0.2.1", "10.0.0.1"]);
    assert_eq!(done.out, "192.0.2.1\t192.0.2.0/24\ta\n10.0.0.1\t-\t-\n");
    assert_eq!(
        done.err.replace(&table, "T"),
        "rutter: T:2: expected an IPv4 or IPv6 prefix such as 192.0.2.0/24\n\
         rutter: T:3: host bits are set to the right of /8\n\
         rutter: T:4: expected `prefix next-hop`, found a third field\n"
    );
    assert_eq!(done.status, 2);
}

#[test]
fn duplicates_and_masked_prefixes_are_told_and_are_no_fault() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "10.0.0.0/8 a\n10.0.0.1/8 b\n");
    assert_eq!(rutter(&["lookup", "--table", &table, "10.0.0.1"]).status, 2);
    let done = rutter(&["lookup", "--mask", "--table", &table, "10.0.0.1"]);
    assert_eq!((done.status, done.out.as_str()), (0, "10.0.0.1\t10.0.0.0/8\tb\n"));
    assert_eq!(
        done.err.replace(&table, "T"),
        "rutter: T: 1 routes replaced by a later route of the same prefix\n\
         rutter: T: 1 routes with host bits cleared\n"
    );
}

#[test]
fn more_damage_than_is_worth_printing_is_counted() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "x y z\n".repeat(500));
    let done = rutter(&["lookup", "--table", &table, "10.0.0.1"]);
    assert!(done.err.ends_with(": 500 damaged places in all\n"), "{}", done.err);
    assert_eq!((done.status, done.err.lines().count()), (2, 21));
}

#[test]
fn files_that_are_no_tables() {
    let scratch = Scratch::new();
    let mut tar = vec![b'x'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (content, message) in [
        (&tar[..], "tar xf"),
        (b"\x28\xb5\x2f\xfd\0\0", "zstd"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "pcap"),
    ] {
        let table = scratch.file("table", content);
        let done = rutter(&["lookup", "--table", &table, "10.0.0.1"]);
        assert!(done.err.contains(message), "{}", done.err);
        assert_eq!((done.status, done.out.as_str()), (2, ""));
    }
    for missing in ["/nonexistent/table", &scratch.folder()] {
        let done = rutter(&["lookup", "--table", missing, "10.0.0.1"]);
        assert!(done.err.contains(missing), "{}", done.err);
        assert_eq!(done.status, 2);
    }
    let done = rutter(&["lookup", "--table", "internet:ten", "10.0.0.1"]);
    assert!(done.err.contains("expected a number of prefixes"), "{}", done.err);
    assert_eq!(done.status, 2);
}

#[test]
fn an_mrt_file_by_peer() {
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/formats_mrt/table_dump_v2");
    let done = rutter(&["lookup", "--table", seed, "192.0.2.1"]);
    assert_eq!(done.out, "192.0.2.1\t192.0.2.0/24\t198.51.100.1\n");
    let done = rutter(&["lookup", "--table", seed, "--peer", "2001:db8::", "192.0.2.1"]);
    assert_eq!(done.out, "192.0.2.1\t192.0.2.0/24\t198.51.100.2\n");
    let done = rutter(&["lookup", "--table", seed, "--peer", "192.0.2.77", "192.0.2.1"]);
    assert!(done.err.contains("peers here: 192.0.2.1, 2001:db8::\n"), "{}", done.err);
    assert_eq!(done.status, 2);
    // Cut off in the second record.
    let scratch = Scratch::new();
    let bytes = fs::read(seed).expect("a file of the repository");
    let cut = scratch.file("cut", &bytes[..bytes.len() - 5]);
    let done = rutter(&["lookup", "--table", &cut, "192.0.2.1"]);
    assert_eq!((done.status, done.out.lines().count()), (2, 1));
    assert!(done.err.contains(": record 3 at byte "), "{}", done.err);
}

#[test]
fn an_engine_is_used_for_its_families() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let done =
        rutter(&["lookup", "--table", &table, "--engine", "dir-24-8", "192.0.2.1", "2001:db8::1"]);
    assert_eq!(done.out, "192.0.2.1\t192.0.2.0/24\t198.51.100.1\n2001:db8::1\t-\t-\n");
    assert!(done.err.contains("dir-24-8 is for ipv4: 1 ipv6 prefixes"), "{}", done.err);
    assert_eq!(done.status, 1);

    let v4 = scratch.file("v4", "192.0.2.0/24 a\n");
    for command in ["lookup", "check"] {
        let mut args = vec![command, "--table", &v4, "--engine", "planb"];
        args.extend((command == "lookup").then_some("192.0.2.1"));
        let done = rutter(&args);
        assert!(done.err.contains("has no such prefix"), "{}", done.err);
        assert_eq!((done.status, done.out.as_str()), (2, ""));
    }
    let done = rutter(&["lookup", "--table", &v4, "--engine", "dir24-8", "192.0.2.1"]);
    assert!(done.err.contains("did you mean `dir-24-8`?"), "{}", done.err);
    assert!(done.err.contains("there are: "), "{}", done.err);
    assert_eq!(done.status, 2);
}

#[test]
fn an_engine_that_refuses_names_its_limit() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    // Tables larger than any file here would do; so does less memory than the engine needs
    // (128 MiB).
    for command in ["lookup", "check"] {
        let rest = if command == "lookup" { "192.0.2.1" } else { "" };
        let line = format!(
            "ulimit -v 120000; exec {} {command} --table {table} --engine sail-u {rest}",
            common::RUTTER
        );
        let done = Command::new("sh").args(["-c", &line]).output().expect("sh runs");
        let err = String::from_utf8_lossy(&done.stderr);
        let refusals = err.lines().filter(|line| line.starts_with("sail-u refuses: "));
        assert_eq!(refusals.count(), 1, "{err}");
        assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(2), &b""[..]), "{err}");
    }
}

#[test]
fn every_engine_agrees_with_a_table() {
    let engines: serde_json::Value = serde_json::from_str(&rutter(&["engines", "-j"]).out).unwrap();
    for engine in engines.as_array().expect("an array") {
        let name = engine["name"].as_str().expect("a name");
        if engine["kind"] == "exact" {
            let done = rutter(&["check", "--table", "internet:2", "--engine", name]);
            assert_eq!((done.status, done.out.as_str()), (2, ""));
            assert!(
                done.err.contains("is an engine for exact matches, not for prefixes"),
                "{}",
                done.err
            );
            continue;
        }
        let done = rutter(&["check", "-j", "--table", "internet:2000+2000", "--engine", name]);
        assert_eq!(done.status, 0, "{name}: {}", done.err);
        for line in done.out.lines() {
            let found: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(found["engine"], name);
            assert_eq!(found["prefixes"], 2000);
            assert_eq!(found["disagreements"], 0);
            assert!(found["addresses"].as_u64() > Some(1_000_000));
        }
    }
}

#[test]
fn check_applies_updates() {
    let seed =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/formats_mrt/updates_add_path");
    let args = ["check", "--table", "internet:500", "--engine", "dir-24-8", "--updates", seed];
    let done = rutter(&args);
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(done.out.contains("502 prefixes in ") && done.out.contains("2 changes in 1 batches"));
    assert!(done.out.ends_with(" 0 disagree\n"), "{}", done.out);
    let done = rutter(&[&args[..], &["--peer", "10.9.9.9"]].concat());
    assert!(done.err.contains("no route from peer 10.9.9.9"), "{}", done.err);
    assert_eq!(done.status, 2);
}

#[test]
fn engines_as_json() {
    let done = rutter(&["engines", "-j"]);
    let engines: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    for engine in engines.as_array().expect("an array") {
        let keys: Vec<_> = engine.as_object().expect("objects").keys().collect();
        assert_eq!(keys, ["families", "help", "kind", "limits", "name", "paper"]);
        let limits: Vec<_> = engine["limits"].as_object().expect("limits").keys().collect();
        assert_eq!(limits, ["max_hop", "max_len", "max_prefixes"]);
        assert!(["lpm", "exact"].contains(&engine["kind"].as_str().expect("a kind")));
    }
    let of = |kind: &str| {
        let all = engines.as_array().expect("an array").iter();
        all.filter(|engine| engine["kind"] == kind)
            .map(|engine| engine["name"].clone())
            .collect::<Vec<_>>()
    };
    assert!(of("lpm").contains(&"dir-24-8".into()) && of("exact").contains(&"mac-table".into()));
    let text = rutter(&["engines"]);
    assert!(text.out.contains("dir-24-8") && text.status == 0 && done.status == 0);
    assert!(text.out.contains("option fingerprint_bits = 16: "), "{}", text.out);
}

#[test]
fn completion_and_version() {
    for shell in ["bash", "zsh", "fish"] {
        let done = rutter(&["completion", shell]);
        assert!(done.out.contains("lookup") && done.status == 0, "{shell}");
    }
    let version = format!("rutter {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(rutter(&["version"]).out, version);
    assert_eq!(rutter(&["--version"]).out, version);
    assert!(rutter(&["version", "-j"]).out.starts_with("{\"name\":\"rutter\",\"version\":"));
}

#[test]
fn usage_errors_are_2() {
    for args in
        [&[][..], &["nonsense"], &["lookup"], &["lookup", "192.0.2.1"], &["check", "--table", "t"]]
    {
        let done = rutter(args);
        assert_eq!((done.status, done.out.as_str()), (2, ""), "{args:?}");
        assert!(done.err.contains("Usage: rutter"), "{}", done.err);
    }
}

#[test]
fn an_interrupt_is_130() {
    let mut child = Command::new(common::RUTTER)
        .args(["lookup", "--table", "internet:10", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"192.0.2.1\n").expect("it reads");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("an answer before the next question");
    assert_eq!(line, "192.0.2.1\t-\t-\n");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_is_not_complained_about() {
    let mut child = Command::new(common::RUTTER)
        .args(["lookup", "--table", "internet:10", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("it is piped");
    let _ = stdin.write_all("192.0.2.1\n".repeat(20_000).as_bytes());
    drop(stdin);
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    assert_eq!(done.status.code(), Some(141));
}

/// Enough to be answered in blocks.
fn many() -> String {
    let addresses = (0..40_000_u32).map(|i| match i % 4 {
        0 => format!("192.0.2.{}\n", i % 256),
        1 => format!("2001:db8::{i:x}\n"),
        2 => format!("10.{}.{}.1 ", i % 200, i % 7),
        _ => format!("198.51.100.{}\n", i % 256),
    });
    addresses.collect()
}

#[test]
fn blocks_are_answered_as_single_addresses_are() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let addresses = many();
    // JSON is answered one by one.
    let one_by_one = rutter_with(&["lookup", "-j", "--table", &table], &addresses);
    let lines = |done: &str, with_prefix: bool| -> String {
        let line = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| value[key].as_str().unwrap_or("-").to_string();
            match with_prefix {
                true => format!("{}\t{}\t{}\n", text("addr"), text("prefix"), text("hop")),
                false => format!("{}\t{}\n", text("addr"), text("hop")),
            }
        };
        done.lines().map(line).collect()
    };
    for (more, with_prefix) in [(&[][..], true), (&["--no-prefix"], false)] {
        for threads in ["1", "3"] {
            let args = [&["lookup", "--table", &table, "--threads", threads][..], more].concat();
            let done = rutter_with(&args, &addresses);
            assert_eq!((done.status, done.err.as_str()), (1, ""), "{args:?}");
            assert!(done.out == lines(&one_by_one.out, with_prefix), "{args:?}");
        }
    }
}

#[test]
fn blocks_name_malformed_addresses_by_their_lines() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let mut addresses = many();
    let lines = addresses.lines().count();
    addresses += "\n\nx.y 192.0.2.1 010.0.0.1\n";
    for threads in ["1", "2"] {
        let done = rutter_with(&["lookup", "--table", &table, "--threads", threads], &addresses);
        let bad = |word| {
            let line = lines + 3;
            format!("rutter: standard input:{line}: not an IPv4 or IPv6 address: {word}\n")
        };
        assert_eq!(done.err, bad("x.y") + &bad("010.0.0.1"));
        assert_eq!((done.status, done.out.lines().count()), (2, 40_001));
    }
}

#[test]
fn a_table_comes_from_standard_input() {
    let done = rutter_with(&["lookup", "--table", "-", "192.0.2.200", "10.0.0.1"], TABLE);
    assert_eq!(done.out, "192.0.2.200\t192.0.2.128/25\tgw-b\n10.0.0.1\t-\t-\n");
    let both = rutter_with(&["lookup", "--table", "-"], TABLE);
    let says = "rutter: the table comes from standard input: give the addresses as arguments\n";
    assert_eq!((both.status, both.err.as_str()), (2, says));
}

#[test]
fn an_empty_table_warns() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "# nothing\n");
    let done = rutter(&["lookup", "--table", &table, "192.0.2.1"]);
    assert_eq!(done.out, "192.0.2.1\t-\t-\n");
    assert_eq!(
        (done.status, done.err),
        (1, format!("rutter: {table}: there is no prefix in it\n"))
    );
}

#[test]
fn engines_take_options_everywhere() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let done = rutter(&["lookup", "--table", &table, "--engine", "dxr:k=16", "192.0.2.200"]);
    assert_eq!(done.out, "192.0.2.200\t192.0.2.128/25\tgw-b\n");
    let done = rutter(&["check", "--table", &table, "--engine", "poptrie:s=12"]);
    assert_eq!((done.status, done.out.lines().count()), (0, 2), "{}", done.err);
    let done = rutter(&["check", "--table", &table, "--engine", "dxr:no=1"]);
    assert!(done.err.contains("dxr refuses: there is no option no\n"), "{}", done.err);
    assert_eq!(done.status, 2);
    let done = rutter(&["check", "--table", &table, "--engine", "dxr:k"]);
    assert!(done.err.contains("expected an engine, as NAME or NAME:OPTION=VALUE"), "{}", done.err);
    assert_eq!(done.status, 2);
}

#[test]
fn all_engines_are_checked_in_turn() {
    let scratch = Scratch::new();
    let table = scratch.file("table", "10.0.0.0/8 a\n10.1.0.0/16 b\n");
    let done = limited(&["check", "--table", &table, "--engine", "all"]);
    let names: Vec<_> = done.out.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"dxr") && names.contains(&"rutter4"), "{}", done.out);
    assert!(!names.contains(&"rutter6"), "there is no IPv6: {}", done.out);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
}

/// Runs with a limit of 1.5 GB for address space, and one of 0.8 GB for what may be written:
/// that is what a machine counts which does not overcommit.
fn limited(args: &[&str]) -> Done {
    let limits = "ulimit -v 1500000 && ulimit -d 800000 && exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", limits, "sh", common::RUTTER]).args(args).stdin(Stdio::null());
    let done = shell.output().expect("there is a shell");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let status = done.status.code().expect("no signal ended it");
    Done { status, out: text(done.stdout), err: text(done.stderr) }
}

/// A table of one family needs no engine for the other, and none takes gigabytes of address
/// space for a few routes.
#[test]
fn a_limit_of_address_space_is_kept() {
    let scratch = Scratch::new();
    let engines: serde_json::Value = serde_json::from_str(&rutter(&["engines", "-j"]).out).unwrap();
    let mut looked_up = 0;
    for (family, line, address) in [
        ("ipv4", "192.0.2.0/24 a", "192.0.2.7"),
        ("ipv6", "2001:db8:1:2::/64 a", "2001:db8:1:2::7"),
    ] {
        let table = scratch.file("table", format!("{line}\n"));
        let prefix = line.split(' ').next().unwrap();
        let found = |engine: &[&str]| {
            let done = limited(&[&["lookup", "--table", &table, address], engine].concat());
            assert_eq!(done.out, format!("{address}\t{prefix}\ta\n"), "{engine:?} {}", done.err);
        };
        found(&[]);
        for engine in engines.as_array().expect("an array") {
            let families = engine["families"].as_array().expect("an array");
            if engine["kind"] == "lpm" && families.contains(&family.into()) {
                found(&["--engine", engine["name"].as_str().expect("a name")]);
                looked_up += 1;
            }
        }
    }
    assert!(looked_up > 25, "{looked_up}");
    // The table and both engines, as they are for a network's edge.
    let done = limited(&["lookup", "--table", "internet:100000+50000", "192.0.2.7"]);
    assert!(done.out.starts_with("192.0.2.7\t"), "{}", done.err);
    assert!(done.status <= 1 && done.err.is_empty(), "{}: {}", done.status, done.err);
}
