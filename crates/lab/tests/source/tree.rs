//! The modules of a crate, and which names which: by the rule in `inside.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where a module is: the names from the crate's root on.
pub type Place = Vec<String>;

/// One module: a file.
#[derive(Default)]
pub struct Module {
    /// The names of its items.
    defined: BTreeSet<String>,
    /// The paths that it names, as written, the first word included.
    named: Vec<Place>,
    /// What its `use` declarations bring: a name, or `*`, and the path.
    brought: Vec<(String, Place)>,
}

/// The modules of one root: a library or a binary.
pub struct Tree(pub BTreeMap<Place, Module>);

impl Tree {
    /// The modules below `root`, a `lib.rs` or `main.rs`.
    pub fn read(root: &Path) -> Tree {
        let folder = root.parent().expect("a file lies in a folder");
        let mut files = BTreeMap::new();
        for file in super::sources(folder) {
            let inside = file.strip_prefix(folder).expect("it was found there");
            let mut place: Place = inside
                .with_extension("")
                .iter()
                .map(|name| name.to_str().expect("a plain name").to_owned())
                .collect();
            match place.last().map(String::as_str) {
                _ if file == root => place.clear(),
                // Roots of their own.
                Some("lib" | "main") if place.len() == 1 => continue,
                Some("mod") => drop(place.pop()),
                _ => {}
            }
            if place.first().is_some_and(|first| first == "bin") {
                continue;
            }
            files.insert(place, super::code(&fs::read_to_string(file).expect("it is there")));
        }
        let tests: BTreeSet<Place> = files
            .iter()
            .flat_map(|(place, code)| {
                super::test_modules(code)
                    .into_iter()
                    .map(move |name| [&place[..], &[name]].concat())
            })
            .collect();
        files.retain(|place, _| !(0..=place.len()).any(|n| tests.contains(&place[..n])));
        Tree(files.into_iter().map(|(place, code)| (place, Module::of(&code))).collect())
    }

    /// The module that holds what `path`, named in `from`, means; `None` for another
    /// crate's. `patience` ends circles of `use` declarations.
    fn holder(&self, from: &[String], path: &[String], patience: usize) -> Option<Place> {
        let mut here = from.to_vec();
        let mut words = path.iter();
        let mut first = true;
        while let Some(word) = words.next() {
            match word.as_str() {
                "crate" => here.clear(),
                "super" => drop(here.pop()),
                "self" => {}
                _ => {
                    let below = [&here[..], std::slice::from_ref(word)].concat();
                    if self.0.contains_key(&below) {
                        here = below;
                    } else if let Some(path) = self.brought(&here, word).filter(|_| patience > 0) {
                        let path: Place = path.iter().chain(words).cloned().collect();
                        return self.holder(&here, &path, patience - 1);
                    } else if let Some(place) = self.by_glob(&here, word, patience) {
                        return Some(place);
                    } else {
                        return (!first).then_some(here);
                    }
                }
            }
            first = false;
        }
        Some(here)
    }

    fn brought(&self, place: &[String], name: &str) -> Option<&Place> {
        let module = self.0.get(place).filter(|module| !module.defined.contains(name))?;
        let (_, path) = module.brought.iter().find(|(brought, _)| brought == name)?;
        // `use clap;` names another crate.
        (path.len() > 1 || path.first().is_some_and(|word| word != name)).then_some(path)
    }

    /// The module whose item `name` a glob in `place` brings.
    fn by_glob(&self, place: &[String], name: &str, patience: usize) -> Option<Place> {
        let module = self.0.get(place)?;
        if patience == 0 || module.defined.contains(name) {
            return None;
        }
        let globs = module.brought.iter().filter(|(brought, _)| brought == "*");
        globs.filter_map(|(_, path)| self.holder(place, path, patience - 1)).find_map(|of| {
            if self.0.get(&of)?.defined.contains(name) {
                return Some(of);
            }
            let path = self.brought(&of, name)?;
            self.holder(&of, path, patience - 1)
        })
    }

    /// The arrows between the modules of each folder, each with a place that names it.
    pub fn arrows(&self) -> BTreeMap<Place, BTreeMap<(String, String), String>> {
        let mut arrows: BTreeMap<Place, BTreeMap<_, _>> = BTreeMap::new();
        for (from, module) in &self.0 {
            for path in &module.named {
                let Some(to) = self.holder(from, path, PATIENCE) else { continue };
                let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (from.get(same), to.get(same)) {
                    let why = format!("{} names {}", from.join("::"), path.join("::"));
                    let folder = arrows.entry(from[..same].to_vec()).or_default();
                    folder.entry((a.clone(), b.clone())).or_insert(why);
                }
            }
        }
        arrows
    }

    /// The modules of each folder that import one another in circles, with the arrows.
    pub fn circles(&self) -> Vec<(BTreeSet<Place>, Vec<String>)> {
        let mut circles = Vec::new();
        for (folder, arrows) in self.arrows() {
            let mut left: BTreeSet<&String> = arrows.keys().map(|(from, _)| from).collect();
            while let Some(one) = left.pop_first() {
                let (down, up) = (reached(one, &arrows, false), reached(one, &arrows, true));
                let circle: BTreeSet<&String> = down.intersection(&up).copied().collect();
                left.retain(|name| !circle.contains(name));
                if circle.len() > 1 {
                    let inside = |(from, to): &&(String, String)| {
                        circle.contains(from) && circle.contains(to)
                    };
                    let why = arrows
                        .keys()
                        .filter(inside)
                        .map(|arrow| format!("{} -> {}: {}", arrow.0, arrow.1, arrows[arrow]));
                    let why = why.collect();
                    let place = |name: &&String| [&folder[..], &[(*name).clone()]].concat();
                    circles.push((circle.iter().map(place).collect(), why));
                }
            }
        }
        circles
    }
}

/// `from` and all to which arrows lead from it; or from which arrows lead to it.
fn reached<'a>(
    from: &'a String,
    arrows: &'a BTreeMap<(String, String), String>,
    against: bool,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::from([from]);
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        for (a, b) in arrows.keys() {
            let (a, b) = if against { (b, a) } else { (a, b) };
            if a == at && found.insert(b) {
                waiting.push(b);
            }
        }
    }
    found
}

impl Module {
    pub fn of(code: &str) -> Module {
        let code = super::without_tests(code);
        let words = words(&code);
        let items = words.windows(2).filter(|pair| ITEMS.contains(&pair[0]));
        let defined = items.map(|pair| pair[1].to_owned()).collect();
        let (mut named, mut brought) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < words.len() {
            let before = at.checked_sub(1).map(|at| words[at]);
            match words[at] {
                "use" => {
                    let mut leaves = Vec::new();
                    at = leaf_paths(&words, at + 1, &[], &mut leaves);
                    named.extend(
                        leaves.iter().map(|(_, path)| path).filter(|p| is_ours(p)).cloned(),
                    );
                    brought.extend(leaves);
                }
                "crate" | "super" | "self"
                    if before != Some("::") && words.get(at + 1) == Some(&"::") =>
                {
                    let mut path = vec![words[at].to_owned()];
                    while words.get(at + 1) == Some(&"::")
                        && words.get(at + 2).is_some_and(|word| is_name(word))
                    {
                        path.push(words[at + 2].to_owned());
                        at += 2;
                    }
                    named.push(path);
                    at += 1;
                }
                _ => at += 1,
            }
        }
        Module { defined, named, brought }
    }
}

/// The leaves of the tree of a `use` that starts at `at`: the name that each brings, and
/// its path. Returns where it ends.
fn leaf_paths(
    words: &[&str],
    mut at: usize,
    before: &[String],
    leaves: &mut Vec<(String, Place)>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(&word) = words.get(at) {
        at += 1;
        match word {
            "::" => {}
            "{" => {
                while words.get(at).is_some_and(|word| *word != "}") {
                    at = leaf_paths(words, at, &path, leaves);
                    at += usize::from(words.get(at) == Some(&","));
                }
                return at + 1;
            }
            "*" => {
                leaves.push(("*".to_owned(), path));
                return at;
            }
            "as" => {
                let name = words.get(at).copied().unwrap_or_default().to_owned();
                leaves.push((name, path));
                return at + 1;
            }
            // `self` in braces is what is before them.
            "self" if !before.is_empty() => {}
            word if is_name(word) => path.push(word.to_owned()),
            _ => {
                at -= 1;
                break;
            }
        }
    }
    if let Some(name) = path.last().cloned() {
        leaves.push((name, path));
    }
    at
}

/// True for a path that starts in this crate for certain.
fn is_ours(path: &Place) -> bool {
    path.first().is_some_and(|word| ["crate", "super", "self"].contains(&word.as_str()))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and all other signs one by one.
fn words(code: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let len = if in_name(first) {
            rest.find(|c: char| !in_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        words.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    words
}

/// A name handed on more often than this is one in a circle of `use` declarations.
const PATIENCE: usize = 16;

/// What is before the name of an item.
const ITEMS: [&str; 9] =
    ["struct", "enum", "trait", "fn", "type", "const", "static", "union", "macro_rules"];
