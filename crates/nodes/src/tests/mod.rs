//! The registry of nodes, and whole routers.

mod one_box;
mod punt;
pub(crate) mod replay;
mod router;
mod shield;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;

use graph::testing::uncounted;

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

/// The tests that assert that nodes allocate nothing hold what workers share by this, too.
#[test]
fn whoever_counts_a_reference_ends_the_process() {
    let shared = Arc::new(0);
    if std::env::var_os(IN_CHILD).is_some() {
        let _held = uncounted(&shared);
        drop(shared.clone());
    } else {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "tests::whoever_counts_a_reference_ends_the_process";
        let child = child.args(["--exact", name]).env(IN_CHILD, "1").output().unwrap();
        assert!(!child.status.success() && child.status.code().is_none(), "{child:?}");
        drop(uncounted(&shared));
        assert_eq!(Arc::strong_count(&shared.clone()), 2, "counted again");
    }
}

const IN_CHILD: &str = "RUTTER_COUNTS_A_REFERENCE";

/// The files of the nodes; a test's own nodes are in no registry.
fn files() -> Vec<PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.join("parse"), root.join("out")];
    folders.extend(APPLICATIONS.iter().map(|(name, _)| root.join(name)));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == "tests" {
                continue;
            }
            let into = if path.is_dir() { &mut folders } else { &mut files };
            into.push(path);
        }
    }
    files
}
