//! What each application has, and says of itself.

use std::path::Path;

use super::super::{APPLICATIONS, example, sections};
use crate::app::Requests;
use crate::config::section::Check;

#[test]
fn an_application_has_a_folder_here_and_one_in_nodes() {
    let here: Vec<_> = APPLICATIONS.iter().map(|application| application.name()).collect();
    let nodes: Vec<_> = nodes::APPLICATIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(here, nodes, "in the same order");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/apps");
    assert!(here.iter().all(|name| root.join(name).join("mod.rs").is_file()), "{here:?}");
}

#[test]
fn each_request_says_what_it_changes() {
    for application in APPLICATIONS {
        let Requests { all, changes, reads } = application.requests();
        let of_changes = changes.iter().flat_map(|change| change.requests);
        let mut said: Vec<_> = of_changes.chain(reads).copied().collect();
        let mut all = all.to_vec();
        said.sort_unstable();
        all.sort_unstable();
        assert!(!all.is_empty() && said == all, "{}: {said:?}, {all:?}", application.name());
        for change in changes {
            let known = sections().any(|section| section.path == change.section);
            assert!(known && change.by.starts_with("rutter "), "{change:?}");
        }
    }
}

#[test]
fn the_example_says_what_a_running_instance_can_change() {
    let example = example(false);
    let at = |text: &str| example.find(text).unwrap_or_else(|| panic!("{text}: {example}"));
    let engine = at("# At run time: rutter fib engine set\n[vrf.main]");
    assert!(at("[ports.p0]") < engine);
    at("# At run time: rutter route add|del\n# [[route]]");
    assert_eq!(example.matches("# At run time: rutter span add|del\n").count(), 1);
    for change in APPLICATIONS.iter().flat_map(|application| application.requests().changes) {
        at(&format!("# At run time: {}\n", change.by));
    }
}

/// A default is what the key takes, or says in words what holds without.
#[test]
fn defaults_are_what_keys_take() {
    for key in sections().flat_map(|section| section.keys) {
        let default = key.default.unwrap_or_default();
        match key.check {
            Check::Own => {}
            Check::Flag => assert!(["true", "false"].contains(&default), "{}", key.name),
            Check::Number(least, most) => {
                let number = default.replace('_', "").parse::<u64>();
                let fits = number.is_ok_and(|number| (least..=most).contains(&number));
                assert!(fits || key.example != default, "{}", key.name);
            }
            Check::Word(words) => {
                assert!(words.contains(&default.trim_matches('"')), "{}", key.name);
            }
        }
        assert!(!key.help.is_empty(), "{}", key.name);
    }
}
