//! The registry of nodes, and whole routers.

pub(crate) mod replay;
mod router;

use std::path::PathBuf;

use super::nodes;

#[test]
fn every_node_has_a_name_a_line_of_help_and_a_header_card() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for folder in ["parse", "switch", "router/l3", "router/rewrite", "out"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            files.push(entry.unwrap().path());
        }
    }
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
