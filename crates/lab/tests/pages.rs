//! The documents: lines that fit into 120 columns, and links to files that are there (a heading
//! within one is not looked for).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every document of the repository.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs"), root.join("examples")];
    let others = ["fuzz/README.md", "crates/policy/tests/hostile/README.md"];
    let mut pages: Vec<_> =
        ["README.md", "CHANGELOG.md"].iter().chain(&others).map(|page| root.join(page)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("it can be read").path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    pages.extend(path.extension().is_some_and(|ext| ext == "md").then_some(path))
                }
            }
        }
    }
    pages
}

/// The lines outside of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().zip(1..).filter_map(move |(line, n)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        (!is_code && !fence).then_some((n, line))
    })
}

/// What is at fault in a document, each with its line.
fn faults(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().expect("a file has a folder");
    let mut faults = Vec::new();
    for (n, line) in prose(text) {
        if line.chars().count() > WIDTH && !line.starts_with('|') {
            faults.push(format!("{}:{n}: {} columns", page.display(), line.chars().count()));
        }
        let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for to in links.map(|(to, _)| to.split('#').next().unwrap_or_default()) {
            if !to.is_empty() && !to.contains("://") && !folder.join(to).exists() {
                faults.push(format!("{}:{n}: no {to}", page.display()));
            }
        }
    }
    faults
}

#[test]
fn documents_fit_and_their_links_lead_somewhere() {
    let pages = pages();
    assert!(pages.len() > 20, "{pages:?}");
    let text = |page: &PathBuf| fs::read_to_string(page).expect("it is text");
    let faults: Vec<_> = pages.iter().flat_map(|page| faults(page, &text(page))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `scripts/profile.py` makes the page, and has a list of its own.
#[test]
fn every_engine_has_a_profile() {
    use lookup::exact;
    use lookup::lpm::Engines;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/PROFILES.md");
    let page = fs::read_to_string(page).expect("it is text");
    let names = (u32::engines().iter().map(|entry| entry.card.name))
        .chain(u128::engines().iter().map(|entry| entry.card.name))
        .chain(exact::engines().iter().map(|entry| entry.card.name))
        .chain(exact::flow::engines().iter().map(|entry| entry.card.name));
    let absent: Vec<_> = names
        .filter(|name| *name != "oracle" && !page.contains(&format!("| `{name}` |")))
        .collect();
    assert!(absent.is_empty(), "no profile of {absent:?}");
}

/// `scripts/goals.py` fills the table, and asks for a reason where a goal is missed.
#[test]
fn goals_have_the_figures_of_the_records() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/goals.py");
    let ran = Command::new("python3").arg(script).arg("--check").output();
    let ran = ran.expect("make deps-test installs python3");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn long_lines_and_dead_links_are_found() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let long = "x".repeat(WIDTH + 1);
    let text = format!(
        "{long}\n[a](nowhere.md) [b](docs/ARCHITECTURE.md#x) [c](#d)\n| {long}\n```\n{long}\n```\n"
    );
    let found = faults(&page, &text);
    assert!(found.len() == 2 && found[0].ends_with(":1: 121 columns"), "{found:?}");
    assert!(found[1].ends_with(":2: no nowhere.md"), "{found:?}");
}

/// Columns of a line, but for those of tables and code.
const WIDTH: usize = 120;
