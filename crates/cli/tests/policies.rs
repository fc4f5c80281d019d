//! `rutter grantor policy test`, over the examples.

mod common;

use common::{Scratch, rutter};

/// A file of the examples.
fn example(name: &str) -> String {
    format!("{}/../../examples/policies/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn each_flow_of_a_capture_has_its_verdict() {
    let resolvers = format!("resolvers={}", example("resolvers.txt"));
    // The packets of each flow of real clients; otherwise each flow has one.
    let cases: [(&str, &str, &[u64]); 4] = [
        ("web", "web", &[]),
        ("dns", "dns", &[]),
        ("web", "web-clients", &[8, 5, 8, 2, 2, 3, 1, 1, 1, 1, 1, 4, 2]),
        ("dns", "dns-clients", &[1, 1, 1, 1, 1, 1, 1, 6, 6, 1, 2, 1, 1]),
    ];
    for (policy, name, packets) in cases {
        let (policy, capture) =
            (example(&format!("{policy}.lua")), example(&format!("{name}.pcap")));
        let done = rutter(&["grantor", "policy", "test", &policy, &capture, "--file", &resolvers]);
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{name}");
        let list = std::fs::read_to_string(example(&format!("{name}.verdicts")));
        let list = list.expect("a file of the repository");
        // SOURCE > DESTINATION  PACKET  DECISION  # what it is
        for (at, (want, line)) in list.lines().zip(done.out.lines().skip(1)).enumerate() {
            let packets = packets.get(at).unwrap_or(&1).to_string();
            let want: Vec<_> = want.split("  ").collect();
            let (src, dst) = want[0].split_once(" > ").expect("a flow");
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words[..4], [src, dst, &*packets, want[1]], "{name}");
            assert!(line.ends_with(want[2]), "{name}: {line}");
        }
        assert_eq!(done.out.lines().count(), list.lines().count() + 3, "{name}");
    }
}

/// Where the tests run as root, as another user, who has no capability.
#[test]
fn it_needs_no_root() {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").expect("a process").uid() != 0 {
        return; // the other tests do that
    }
    // Folders above the repository may be closed to others.
    let scratch = Scratch::new();
    let [policy, capture] = ["web.lua", "web.pcap"]
        .map(|name| scratch.file(name, std::fs::read(example(name)).expect("a file of ours")));
    let binary = format!("{}/rutter", scratch.folder());
    std::fs::copy(common::RUTTER, &binary).expect("room for the binary");
    let mut setpriv = std::process::Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    setpriv.args(["--bounding-set=-all", &binary, "grantor", "policy", "test", &policy, &capture]);
    let Ok(done) = setpriv.output() else { return testing::skip("setpriv is not installed") };
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    if err.starts_with("setpriv:") {
        return testing::skip(format_args!("no other user: {err}"));
    }
    assert_eq!((done.status.code(), &*err), (Some(0), ""), "{out}");
    let list = std::fs::read_to_string(example("web.verdicts")).expect("a file of ours");
    assert_eq!(out.lines().count(), list.lines().count() + 3, "{out}");
}

/// Frames that a Grantor drops before it asks are counted, by the name of its counter.
#[test]
fn what_a_grantor_drops_is_left_out_by_name() {
    let scratch = Scratch::new();
    let file = std::fs::read(example("dns.pcap")).expect("a file of ours");
    // The last byte of the first packet's checksum: behind two headers, at 14 + 11 of its frame.
    let mut damaged = file.clone();
    damaged[24 + 16 + 14 + 11] ^= 1;
    let capture = scratch.file("damaged.pcap", damaged);
    let done = rutter(&["grantor", "policy", "test", &example("dns.lua"), &capture]);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let line = "11 flows, 12 frames, 1 of them not asked about (1 inner_checksum)";
    assert!(done.out.lines().any(|found| found == line), "{}", done.out);
    let done = rutter(&["grantor", "policy", "test", &example("dns.lua"), &capture, "-j"]);
    assert!(done.out.contains("\"left_out\":{\"inner_checksum\":1}"), "{}", done.out);
}

#[test]
fn what_fails_says_so_by_its_line_and_status() {
    let scratch = Scratch::new();
    let capture = example("web.pcap");
    let test = |policy: &str| rutter(&["grantor", "policy", "test", policy, &capture, "-j"]);
    let throws = scratch.file("throws.lua", "function lookup_policy(i, p)\n  error 'no'\nend");
    let done = test(&throws);
    assert_eq!(done.status, 1);
    assert!(done.out.contains("throws.lua:2: no"), "{}", done.out);
    assert!(done.out.contains("\"batched_ns\":null"), "{}", done.out);
    let silent = scratch.file("silent.lua", "function lookup_policy() return true end");
    assert_eq!(test(&silent).status, 1, "no flow has a decision");
    for source in ["while true do end", "while true do pcall(function() while true do end end) end"]
    {
        let text = format!("function lookup_policy(i, p)\n  {source}\nend");
        let done = test(&scratch.file("endless.lua", &text));
        assert_eq!(done.status, 1, "{}", done.err);
        assert!(done.out.contains("endless.lua:2"), "{}", done.out);
        assert!(done.out.contains("not asked: the policy was stopped 3 times"), "{}", done.out);
    }
    let done = test(&scratch.file("endless.lua", "\nwhile true do end"));
    assert_eq!(done.status, 2);
    assert!(done.err.contains("endless.lua:2"), "{}", done.err);
    let none = scratch.file("none.lua", "x = 1");
    let done = test(&none);
    assert_eq!((done.status, done.out.as_str()), (2, ""));
    assert!(done.err.contains("none.lua defines no function lookup_policy"), "{}", done.err);
    let done = rutter(&["grantor", "policy", "test", &throws, &throws]);
    assert_eq!(done.status, 2);
    assert!(done.err.contains("neither pcap nor pcapng"), "{}", done.err);
}

#[test]
fn a_policy_reads_its_files_by_name_and_path_and_no_others() {
    let (scratch, capture) = (Scratch::new(), example("dns.pcap"));
    let list = scratch.file("list.txt", "one\n");
    let text = format!(
        "for _, name in ipairs {{ 'list', '{list}' }} do\n  assert(io.lines(name)() == 'one')\nend
        function lookup_policy(info, policy) policy.state = 2 return true end"
    );
    let policy = scratch.file("reads.lua", text);
    let test = |name: &str| {
        let file = format!("{name}={list}");
        rutter(&["grantor", "policy", "test", &policy, &capture, "--file", &file])
    };
    let done = test("list");
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let done = test("other");
    assert_eq!(done.status, 2);
    let cause = "reads.lua:2: list: no such file was given to the policy";
    assert!(done.err.contains(cause), "{}", done.err);
}

/// Whatever the policy does to its process: it is none of ours.
#[test]
fn what_ends_its_process_is_named() {
    let (scratch, capture) = (Scratch::new(), example("web.pcap"));
    let never = "(('a'):rep(40)):find(('a?'):rep(40) .. ('a*'):rep(40) .. 'b')";
    let line = "hostile.lua:2: ";
    for (does, line, cause) in [
        ("require 'ffi'.cast('int *', 8)[0] = 1", line, "it touched memory that it does not have"),
        ("os.exit(0)", "", "it ended by itself"),
        ("loadfile('/etc/passwd')", "", "it made a system call that it may not"),
        (never, line, "it gave no answer for 3 s, and was ended"),
    ] {
        let text = format!("function lookup_policy(i, p)\n  {does}\n  return true\nend");
        let begun = std::time::Instant::now();
        let policy = scratch.file("hostile.lua", &text);
        let done = rutter(&["grantor", "policy", "test", &policy, &capture]);
        assert_eq!(done.status, 1, "{does}: {}", done.err);
        assert!(done.out.contains(cause), "{does}: {}", done.out);
        let rest = format!("not asked: the policy's process ended: {line}{cause}");
        assert!(done.out.contains(&rest), "{does}: {}", done.out);
        assert!(begun.elapsed().as_secs() < 30, "{does}");
    }
    let loads = scratch.file("loads.lua", "require 'ffi'.cast('int *', 8)[0] = 1");
    let done = rutter(&["grantor", "policy", "test", &loads, &capture]);
    assert_eq!((done.status, done.out.as_str()), (2, ""));
    let cause = "loads.lua:1: it touched memory that it does not have (SIGSEGV)";
    assert!(done.err.contains(cause), "{}", done.err);
}
