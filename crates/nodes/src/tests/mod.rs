//! The registry of nodes, and whole routers.

pub(crate) mod replay;
mod router;

use std::path::PathBuf;

use super::{APPLICATIONS, nodes};

#[test]
fn every_node_has_a_name_a_line_of_help_and_a_header_card() {
    let files = files();
    for card in nodes() {
        assert!(!card.help.is_empty() && !card.help.contains('\n'), "{}", card.name);
        // A node of both families is called after the one that it is for.
        let both = card.name.replace("ip4_", "ip_").replace("ip6_", "ip_");
        let is = |file: &&PathBuf, name: &str| file.file_stem().unwrap() == name;
        let file = files.iter().find(|file| is(file, card.name) || is(file, &both));
        let text = std::fs::read_to_string(file.expect(card.name)).unwrap();
        let (names, _) = text.split_once(": ").unwrap();
        let named = names.starts_with("//! `") && names.contains(&format!("`{}`", card.name));
        assert!(named, "{}: the first line names it", card.name);
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(header.contains(&"//! ```text"), "{}: a figure of its edges", card.name);
        assert!(header.iter().any(|line| line.starts_with("//! | cost")), "{}: costs", card.name);
    }
    let found = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        let name = text.lines().find(|line| line.contains("const NAME: &'static str"));
        name.map_or(0, |name| if name.contains("= F::") { 2 } else { 1 })
    });
    assert_eq!(found.sum::<usize>(), nodes().count(), "a node is missing in the registry");
    let mut names: Vec<_> = nodes().map(|card| card.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), nodes().count());
}

/// What workers share is borrowed under the guard: a reference count is a
/// read-modify-write on a line of all workers, for each vector (docs/adr/0001).
#[test]
fn nodes_count_no_references() {
    // Ranges, which are copied.
    const HARMLESS: &[&str] = &["run.clone()"];
    let mut counted = Vec::new();
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        if !text.contains("fn process(") {
            continue; // what adds an application's nodes to a graph hands counted references out
        }
        let counts = |line: &&str| {
            let line = HARMLESS.iter().fold(line.to_string(), |line, it| line.replace(it, ""));
            line.contains(".clone()") || line.contains("Arc::clone")
        };
        let in_tests =
            ["tests", "testbed", "real"].iter().any(|it| file.ends_with(format!("{it}.rs")));
        if !in_tests {
            counted.extend(code.filter(counts).map(|line| format!("{}: {line}", file.display())));
        }
    }
    assert!(counted.is_empty(), "{counted:#?}");
}

/// The files of the nodes.
fn files() -> Vec<PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.join("parse"), root.join("out")];
    folders.extend(APPLICATIONS.iter().map(|(name, _)| root.join(name)));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let into = if path.is_dir() { &mut folders } else { &mut files };
            into.push(path);
        }
    }
    files
}
