//! The registry of experiments: a folder a paper or part, its experiments listed in its
//! `mod.rs`. A new one is a file in a folder and a line in that list; a new folder is a
//! line with its title in the list of this file.

use std::sync::LazyLock;

use crate::Experiment;

/// The experiments of a folder, in the order in which they are listed and run: `mod FILE:
/// NAME` declares the file and lists its experiment, `in FILE: NAME` lists one more of it,
/// `: NAME` one of the list's own file.
macro_rules! experiments {
    ($($(mod $new:ident)? $(in $old:ident)?: $experiment:ident,)*) => {
        $($(mod $new;)?)*

        pub(super) static ALL: &[&dyn $crate::Experiment] =
            &[$(&$($new::)?$($old::)?$experiment),*];
    };
}

/// The folders, in the same order, each with its title in reports.
macro_rules! folders {
    ($($folder:ident: $title:literal,)*) => {
        $(mod $folder;)*

        static FOLDERS: &[&[&dyn Experiment]] = &[$($folder::ALL),*];

        static TITLES: &[(&str, &str)] = &[$((stringify!($folder), $title)),*];
    };
}

folders! {
    machine: "The machine",
    lpm: "Longest-prefix match: all engines and rivals",
    dxr: "DXR (Zec, Rizzo, Mikuc 2012)",
    sail: "SAIL (thesis, chapter 3)",
    bloomfwd: "Bloomfwd",
    offload: "Bulk lookup: devices, and all cores",
    cuvpp: "CuVPP",
    exact: "Exact match: all tables and rivals",
    cuckooswitch: "CuckooSwitch",
    gatekeeper: "Gatekeeper (thesis, chapter 4)",
    grantor: "The Grantor",
    router: "The router",
    switch: "The switch",
    science: "Our own questions",
}

pub mod fixed;

pub use router::{serve_hugepages, serve_memory};

/// All experiments, in the order in which they are listed and run.
pub fn all() -> &'static [&'static dyn Experiment] {
    static ALL: LazyLock<Vec<&dyn Experiment>> = LazyLock::new(|| FOLDERS.concat());
    &ALL
}

/// What reports call a folder: the part of a name before the slash.
pub fn title(folder: &str) -> &str {
    TITLES.iter().find(|(name, _)| *name == folder).map_or(folder, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::all;

    #[test]
    fn every_experiment_has_a_card() {
        let mut names = BTreeSet::new();
        for card in all().iter().map(|experiment| experiment.card()) {
            let (group, figure) = card.name.split_once('/').expect("a name is `group/figure`");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            assert!(!group.is_empty() && !figure.is_empty(), "{}", card.name);
            assert_ne!(super::title(group), group, "{} lies in a folder of that name", card.name);
            assert!(group.chars().all(plain) && figure.chars().all(plain), "{}", card.name);
            assert!(names.insert(card.name), "{} is listed twice", card.name);
            for text in [card.help, card.source, card.claim] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", card.name);
            }
            let [full, quick] = [false, true].map(|quick| card.takes.seconds(quick));
            assert!(quick > 0.0 && quick <= full && full < 3600.0, "{} takes so long?", card.name);
            assert!(!card.plots.is_empty(), "{} draws nothing", card.name);
        }
    }

    /// A file that holds an experiment opens by naming it.
    #[test]
    fn every_experiment_is_named_by_the_header_of_its_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/experiments");
        let headers = headers(&folder);
        for card in all().iter().map(|experiment| experiment.card()) {
            let (group, figure) = card.name.split_once('/').expect("see above");
            let (full, short) = (format!("`{}`", card.name), format!("`{figure}`"));
            let place = format!("name: \"{}\",", card.name);
            let (header, _) = headers
                .iter()
                .find(|(_, source)| source.contains(&place))
                .unwrap_or_else(|| panic!("no file holds the card of {}", card.name));
            // `dxr/fig3` and, behind another of its group, `fig5`.
            let named = header.contains(&format!("`{group}/")) && header.contains(&short);
            assert!(named || header.contains(&full), "the file of {full} does not open with it");
        }
    }

    /// The module documentation of each file below `folder`, and the file's text.
    fn headers(folder: &Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("a folder of the sources can be read").path();
            if path.is_dir() {
                found.extend(headers(&path));
                continue;
            }
            let source = fs::read_to_string(path).expect("a source can be read");
            let lines = source.lines().take_while(|line| line.starts_with("//!"));
            let header = lines.map(|line| line.trim_start_matches("//!")).collect();
            found.push((header, source));
        }
        found
    }
}
