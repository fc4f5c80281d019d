//! No test passes in silence where it could not run: it ends with `testing::skip`, which counts.

mod source;

use std::fs;
use std::path::{Path, PathBuf};

use source::{code, item, sources};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of the repository, with their text.
fn texts() -> Vec<(PathBuf, String)> {
    let files = ["crates", "fuzz"].iter().flat_map(|folder| sources(&root().join(folder)));
    let built = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "target");
    let text =
        |file: PathBuf| (file.clone(), fs::read_to_string(file).expect("a source can be read"));
    files.filter(|file| !built(file)).map(text).collect()
}

/// True when a `return` of `code` gives nothing back.
fn returns_nothing(code: &str) -> bool {
    code.match_indices("return").any(|(at, word)| {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        let rest = code[at + word.len()..].trim_start();
        !code[..at].ends_with(inside) && rest.starts_with([';', '}', ',', ')'])
    })
}

/// The functions of `code`: name, and the item from its name on.
fn functions(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.match_indices("fn ").map(|(at, word)| {
        let function = item(&code[at + word.len()..]);
        (function.split(['(', '<']).next().unwrap_or_default(), function)
    })
}

/// Tests in `code` that end early, by `return`, and neither say why nor call what does.
fn silent(code: &str) -> Vec<&str> {
    let says = |text: &str| text.contains("skip(") || text.contains("data(");
    let helpers = functions(code).filter(|(_, function)| says(function));
    let calls: Vec<String> = helpers.map(|(name, _)| format!("{name}(")).collect();
    let tests = code.match_indices("#[test]").map(|(at, _)| item(&code[at..]));
    let silent = tests.filter(|test| {
        let body = test.split_once('{').map_or("", |(_, body)| body);
        let said = says(body) || calls.iter().any(|call| body.contains(call));
        returns_nothing(body) && !said
    });
    silent.filter_map(|test| Some(functions(test).next()?.0)).collect()
}

#[test]
fn no_test_ends_early_without_a_word() {
    let mut faults = Vec::new();
    for (file, text) in texts() {
        let code = code(&text);
        faults.extend(silent(&code).iter().map(|test| format!("{}: {test}", file.display())));
    }
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

/// A line of output that nobody reads, and nothing counts.
#[test]
fn only_testing_says_that_something_was_skipped() {
    let prints = ["println!(\"", "print!(\"", "eprint!(\""].map(|print| format!("{print}skip"));
    let (mut faults, mut own) = (Vec::new(), 0);
    for (file, text) in texts() {
        let found = prints.iter().any(|print| text.contains(print));
        match found && file.ends_with("testing/src/lib.rs") {
            true => own += 1,
            false if found => faults.push(file.display().to_string()),
            false => {}
        }
    }
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
    assert_eq!(own, 1, "this test sees what it looks for");
}

#[test]
fn what_may_be_skipped_is_there() {
    let mut faults = Vec::new();
    let lines = testing::LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let Some(entry) = testing::Entry::parse(line) else {
            faults.push(format!("not NAME | SAYS | WHY: {line}"));
            continue;
        };
        let there = match entry.name.split_once("::") {
            Some((of, _)) => root().join("crates").join(of).exists(),
            None if entry.name == "*" => true,
            None => is_script(entry.name),
        };
        if !there {
            faults.push(format!("nothing has this name: {line}"));
        }
    }
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

/// A script of this name, or of a name that begins so where a `*` ends it.
fn is_script(name: &str) -> bool {
    let scripts = root().join("scripts");
    let Some(begin) = name.strip_suffix('*') else {
        return scripts.join(name).with_extension("sh").exists();
    };
    let (folder, begin) = begin.rsplit_once('/').unwrap_or(("", begin));
    let Ok(all) = fs::read_dir(scripts.join(folder)) else { return false };
    all.flatten().any(|file| {
        let name = file.file_name().into_string().unwrap_or_default();
        name.starts_with(begin) && name.ends_with(".sh")
    })
}

#[test]
fn the_scanner_sees_early_ends() {
    let test = |body: &str| format!("#[test]\nfn name() {{ {body} }}\n#[test] fn next() {{}}");
    for body in
        ["return;", "let Some(a) = b() else { return };", "match a { 1 => return, _ => () }"]
    {
        assert_eq!(silent(&test(body)), ["name"], "{body}");
    }
    let helped = test("let Some(a) = load(1) else { return };") + "fn load(n: u8) { data(n) }";
    assert!(silent(&helped).is_empty());
    for body in ["return skip(1);", "let Some(a) = data(1) else { return };", "let returned = 1;"] {
        assert!(silent(&test(body)).is_empty(), "{body}");
    }
}
