//! What deployed policies rely on: names, types and results of the libraries, and files.

use std::sync::Arc;

use super::*;

/// Files by name.
fn files<const N: usize>(files: [(&str, &str); N]) -> Options {
    let files =
        files.map(|(name, text)| (name.to_owned(), Bytes::new(Arc::new(text.as_bytes().to_vec()))));
    Options { files: files.into(), ..Options::default() }
}

#[test]
fn a_policy_for_the_deployed_system_runs_unchanged() {
    let options = files([
        ("/etc/lists/none4.txt", "10.0.0.0/8\n192.0.2.0/25\n192.0.2.128/26\n192.0.3.1/32"),
        ("/etc/lists/none6.txt", "fc00::/7\n2001:db8:bad::/48\n2001:db8:bad:1::/64\n"),
    ]);
    let text = include_str!("deployed.lua");
    let mut policy = Policy::load("deployed.lua", text, &options).expect("it loads");
    let made = policy.exec("return rules4, tbl8s4, rules6, tbl8s6").expect("it runs");
    assert_eq!(made, "4\t2\t3\t5");
    let declined = (false, program(1, 60, &[]));
    let granted = (true, program(0, 2, &[1, 3, 4]));
    let server = (true, program(4, 2, &[2000, 3, 4 | 1 << 24 | 1 << 28, 80, 0, 0, 0, 0, 53 << 16]));
    let cases = [
        ("10.1.2.3", declined),
        ("192.0.2.129", declined),
        ("198.51.100.7", granted),
        ("8.8.8.8", server),
        ("fd00::1", declined),
        ("2001:db8:bad:1::1", declined),
        ("2600::8", granted),
        ("2a00::8", server),
    ];
    // Compiled, too.
    for _ in 0..100 {
        for (src, (forward, decision)) in cases {
            let verdict = decide(&mut policy, &asked(src, 6, 64, &to_port(80)));
            assert_eq!((verdict.forward, verdict.decision), (forward, decision), "{src}");
        }
    }
}

/// As a process has only these, none of them makes a system call.
#[test]
fn files_are_read_as_lua_reads_them() {
    let options = files([("text", "one\n\nthree 3"), ("empty", "")]);
    let mut policy = Policy::load("test.lua", STOCK, &options).expect("it loads");
    for (text, expected) in [
        (
            "local t = {} for line in io.lines 'text' do t[#t + 1] = line end return unpack(t)",
            "one\t\tthree 3",
        ),
        (
            "local f = io.open('text', 'r') return f:read(), f:read '*a', f:read '*l', f:read '*a'",
            "one\t\nthree 3\tnil\t",
        ),
        (
            "local f = io.open('text', 'rb') return f:read(2), f:lines()(), f:read(99), f:read(1)",
            "on\te\t\nthree 3\tnil",
        ),
        ("return io.lines 'empty'(), io.open 'empty':read '*a'", "nil\t"),
        (
            "return io.open '/etc/passwd'",
            "nil\t/etc/passwd: no such file was given to the policy\t2",
        ),
        ("return io.open('text', 'w')", "nil\ttext: a policy only reads files\t13"),
        (
            "local f = io.open 'text' return f:close(), pcall(f.read, f)",
            "true\tfalse\tthe file is closed",
        ),
        (
            "local f = io.open 'text' return (pcall(f.read, f, -1)), (pcall(f.read, f, 0 / 0)), f:read()",
            "false\tfalse\tone",
        ),
    ] {
        assert_eq!(policy.exec(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_there_is_an_error_with_its_line() {
    for (text, cause) in [
        ("io.lines '/etc/none.txt'", "/etc/none.txt: no such file was given to the policy"),
        ("assert(io.open '/etc/none.txt')", "/etc/none.txt: no such file was given to the policy"),
        ("require 'socket'", "module 'socket' not found"),
        (
            "local t = lpmlib.new_lpm(1, 1) lpmlib.lpm_add(t, 1, 8, 1) lpmlib.lpm_add(t, 2, 8, 1)",
            "lpm_add: 2.0.0.0/8: the table is full",
        ),
    ] {
        let source = format!("function lookup_policy() end\n{text}\n");
        let error = Policy::load("test.lua", &source, &Options::default()).err();
        let error = error.expect("it throws").to_string();
        assert!(error.starts_with("test.lua:2: ") && error.contains(cause), "{error}");
    }
}
