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
    for name in ["web", "dns"] {
        let (policy, capture) = (example(&format!("{name}.lua")), example(&format!("{name}.pcap")));
        let done = rutter(&["grantor", "policy", "test", &policy, &capture, "--file", &resolvers]);
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{name}");
        let list = std::fs::read_to_string(example(&format!("{name}.verdicts")));
        let list = list.expect("a file of the repository");
        // SOURCE > DESTINATION  PACKET  DECISION  # what it is
        for (want, line) in list.lines().zip(done.out.lines().skip(1)) {
            let want: Vec<_> = want.split("  ").collect();
            let (src, dst) = want[0].split_once(" > ").expect("a flow");
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words[..4], [src, dst, "1", want[1]], "{name}");
            assert!(line.ends_with(want[2]), "{name}: {line}");
        }
        assert_eq!(done.out.lines().count(), list.lines().count() + 3, "{name}");
    }
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

/// Whatever the policy does to its process: it is none of ours.
#[test]
fn what_ends_its_process_is_named() {
    let (scratch, capture) = (Scratch::new(), example("web.pcap"));
    let never = "(('a'):rep(40)):find(('a?'):rep(40) .. ('a*'):rep(40) .. 'b')";
    for (does, cause) in [
        ("require 'ffi'.cast('int *', 8)[0] = 1", "it touched memory that it does not have"),
        ("os.exit(0)", "it ended by itself"),
        ("io.open('/etc/passwd')", "it made a system call that it may not"),
        (never, "it gave no answer for 3 s, and was ended"),
    ] {
        let text = format!("function lookup_policy(i, p)\n  {does}\n  return true\nend");
        let begun = std::time::Instant::now();
        let policy = scratch.file("hostile.lua", &text);
        let done = rutter(&["grantor", "policy", "test", &policy, &capture]);
        assert_eq!(done.status, 1, "{does}: {}", done.err);
        assert!(done.out.contains(cause), "{does}: {}", done.out);
        let rest = format!("not asked: the policy's process ended: {cause}");
        assert!(done.out.contains(&rest), "{does}: {}", done.out);
        assert!(begun.elapsed().as_secs() < 30, "{does}");
    }
    let loads = scratch.file("loads.lua", "require 'ffi'.cast('int *', 8)[0] = 1");
    let done = rutter(&["grantor", "policy", "test", &loads, &capture]);
    assert_eq!((done.status, done.out.as_str()), (2, ""));
    assert!(done.err.contains("SIGSEGV"), "{}", done.err);
}
