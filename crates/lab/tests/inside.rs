//! The direction inside each crate, as a test. Between crates no arrow runs back up
//! (`layers.rs`); inside a crate none runs in a circle.
//!
//! The rule: a folder's modules (a file, or a folder with all below it, each) import one
//! another without circles, at every level of the tree. An arrow runs from the module that
//! names a path (`crate::…`, `super::…`, in a `use` or in code) to the module that *holds*
//! what is named: a `use` in a `lib.rs` or `mod.rs` that hands a name on is followed, and is
//! no arrow itself. Between a module and those below it there are no arrows: `mod.rs` is
//! where a folder's parts meet and what they share; what it hands on to one part from
//! another is an arrow between the two. Tests and comments count for nothing.
//!
//! Names are followed as text: what a macro makes or a glob brings is seen only where the
//! item's definition can be found in the module.

mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use source::tree::{Module, Tree};

/// Circles that are known and are to go: a crate, and the modules of one folder that
/// import one another. The list only shrinks: one that is gone must leave it.
const KNOWN: &[(&str, &[&str])] = &[];

/// The roots of a crate's library and binaries.
fn roots(package: &Path) -> Vec<PathBuf> {
    let src = package.join("src");
    let binaries = fs::read_dir(src.join("bin")).into_iter().flatten();
    let binaries = binaries.map(|entry| entry.expect("it can be read").path().join("main.rs"));
    [src.join("lib.rs"), src.join("main.rs")]
        .into_iter()
        .chain(binaries)
        .filter(|root| root.exists())
        .collect()
}

/// The crates by name, each with its roots.
fn crates() -> Vec<(String, Vec<PathBuf>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let packages = fs::read_dir(folder).expect("the crates are there");
    let mut crates: Vec<_> = packages
        .map(|package| {
            let package = package.expect("it can be read").path();
            let name = package.file_name().and_then(|name| name.to_str()).expect("a plain name");
            (name.to_owned(), roots(&package))
        })
        .collect();
    crates.sort();
    crates
}

/// `faults`, or nothing.
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn no_files_of_a_crate_import_one_another_in_circles() {
    let mut known: BTreeSet<(String, BTreeSet<String>)> = KNOWN
        .iter()
        .map(|(name, circle)| {
            let circle = circle.iter().map(|module| (*module).to_owned()).collect();
            ((*name).to_owned(), circle)
        })
        .collect();
    let mut faults = Vec::new();
    for (name, roots) in crates() {
        for (circle, arrows) in roots.iter().flat_map(|root| Tree::read(root).circles()) {
            let circle: BTreeSet<String> = circle.iter().map(|at| at.join("::")).collect();
            if !known.remove(&(name.clone(), circle.clone())) {
                let circle: Vec<_> = circle.into_iter().collect();
                let arrows = arrows.join("\n      ");
                faults.push(format!("{name}: {}\n      {arrows}", circle.join(" ")));
            }
        }
    }
    faults.extend(known.into_iter().map(|(name, circle)| {
        format!("{name}: {circle:?} is no circle any more: take it from the list")
    }));
    none(faults);
}

/// What a `lib.rs` or `main.rs` says of its modules, line by line from the top.
fn said(source: &str) -> Option<Vec<Vec<String>>> {
    let lines = source.lines().skip_while(|line| !line.contains(INSIDE));
    let block = lines.skip_while(|line| *line != "//! ```text").skip(1);
    let block = block.take_while(|line| *line != "//! ```");
    let words =
        |line: &str| line.trim_start_matches("//!").split_whitespace().map(str::to_owned).collect();
    Some(block.map(words).collect()).filter(|lines: &Vec<Vec<String>>| !lines.is_empty())
}

/// How the modules of a root lie over one another: each in the lowest line that it can.
fn lines(tree: &Tree) -> Vec<Vec<String>> {
    let arrows = tree.arrows();
    let below = |name: &String| {
        let root = arrows.get(&Vec::new()).into_iter().flatten();
        root.filter(|((from, _), _)| from == name)
            .map(|((_, to), _)| to.clone())
            .collect::<Vec<_>>()
    };
    let mut left: BTreeSet<String> =
        tree.0.keys().filter(|place| place.len() == 1).map(|place| place[0].clone()).collect();
    let mut lines: Vec<Vec<String>> = Vec::new();
    while !left.is_empty() {
        let free = |name: &&String| !below(name).iter().any(|to| left.contains(to));
        let line: Vec<String> = left.iter().filter(free).cloned().collect();
        if line.is_empty() {
            break; // a circle
        }
        left.retain(|name| !line.contains(name));
        lines.insert(0, line);
    }
    lines
}

#[test]
fn each_root_says_the_direction_of_its_inside() {
    let mut faults = Vec::new();
    for (name, roots) in crates() {
        if KNOWN.iter().any(|(known, _)| *known == name) {
            continue;
        }
        for root in roots {
            let tree = Tree::read(&root);
            let want = lines(&tree);
            if want.len() < 2 {
                continue;
            }
            let text = fs::read_to_string(&root).expect("it was read above");
            if let Err(fault) = holds(&tree, said(&text).unwrap_or_default()) {
                let want: Vec<_> = want.iter().map(|line| line.join(" ")).collect();
                let want = want.join("\n//!   ");
                let block = format!("//! {INSIDE}\n//!\n//! ```text\n//!   {want}\n//! ```");
                faults.push(format!("{}: {fault}; for example:\n{block}", root.display()));
            }
        }
    }
    none(faults);
}

/// Whether each arrow of the root leads from a line of `said` to one below it.
fn holds(tree: &Tree, said: Vec<Vec<String>>) -> Result<(), String> {
    let line = |name: &String| {
        said.iter().position(|line| line.contains(name)).ok_or(format!("it does not name {name}"))
    };
    for place in tree.0.keys().filter(|place| place.len() == 1) {
        line(&place[0])?;
    }
    for name in said.iter().flatten() {
        let place = vec![name.clone()];
        if !tree.0.contains_key(&place) {
            return Err(format!("it names {name}, which is no module"));
        }
    }
    for ((from, to), why) in tree.arrows().get(&Vec::new()).into_iter().flatten() {
        if line(from)? >= line(to)? {
            return Err(format!("{from} does not lie above {to}: {why}"));
        }
    }
    Ok(())
}

/// What introduces the lines of modules in the documentation of a root.
const INSIDE: &str = "Inside, a module imports only modules of the lines below its own:";

/// The modules of a made-up crate, by place and code.
fn made(files: &[(&str, &str)]) -> Tree {
    let place = |path: &str| -> Vec<String> {
        path.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let files = files.iter().map(|(path, code)| (place(path), Module::of(&source::code(code))));
    Tree(files.collect())
}

#[test]
fn circles_are_seen_through_what_hands_names_on() {
    let circles = |files: &[(&str, &str)]| made(files).circles().len();
    let root = ("", "pub use b::Thing; pub use a::make as maker;");
    // The same circle, named plainly, through the root, under another name, in braces.
    for back in ["crate::a::make()", "crate::maker()", "super::maker()", "super::{maker, Thing}"] {
        let b = format!("pub struct Thing; use {back};").replace("()", "");
        let a = "pub fn make() { let _ = crate::Thing; }";
        assert_eq!(circles(&[root, ("a", a), ("b", &b)]), 1, "{back}");
    }
    // One way; and what a comment, a string or a test says is no arrow.
    let a = "use super::Thing; pub fn make() {}";
    let b = "pub struct Thing; // crate::a\nconst T: &str = \"crate::a\"; \
             #[cfg(test)] use crate::a; #[cfg(test)] mod tests { use crate::a::make; }";
    assert_eq!(circles(&[root, ("a", a), ("b", b)]), 0);
    // A folder is one thing from outside, and has a direction of its own.
    let folder = [("", ""), ("a", "mod x; mod y; const N: u8 = 1;"), ("b", "use crate::a::x;")];
    let inside = |x, y| [&folder[..], &[("a::x", x), ("a::y", y)]].concat();
    assert_eq!(circles(&inside("use super::N;", "use crate::b;")), 1);
    assert_eq!(circles(&inside("use super::y;", "use super::x;")), 1);
    assert_eq!(circles(&inside("use super::N; use super::y;", "")), 0);
    // Through a glob.
    let all = ("", "pub use b::*;");
    assert_eq!(
        circles(&[all, ("a", "use crate::Thing;"), ("b", "pub struct Thing; use crate::a;")]),
        1
    );
}

#[test]
fn a_direction_that_is_said_must_hold() {
    let tree = made(&[("", ""), ("a", "use crate::b;"), ("b", "")]);
    let lines = |text: &str| {
        said(&format!("//! {INSIDE}\n//!\n//! ```text\n{text}//! ```\n")).unwrap_or_default()
    };
    assert_eq!(holds(&tree, lines("//!   a\n//!   b\n")), Ok(()));
    for wrong in ["", "//!   a\n", "//!   a b\n", "//!   b\n//!   a\n", "//!   a\n//!   b c\n"] {
        assert!(holds(&tree, lines(wrong)).is_err(), "{wrong}");
    }
    assert_eq!(crate::lines(&tree), [["a"], ["b"]]);
}
