//! Hostile policies in Lua, in real processes: those of `tests/hostile`, to which files can be added.

use std::fs;
use std::time::{Duration, Instant};

use policy::cell::{Settings, Source};

use crate::Test;
use crate::rig::Rig;

pub const TESTS: &[Test] = &[
    ("hostile_policies_in_lua_are_ended", hostile),
    ("a_usual_policy_decides_with_its_tables", usual),
];

/// With `lpmlib`, whose engines are built at the first lookup, shut in already.
fn usual() {
    let text = policy::trial::USUAL;
    let mut rig = Rig::idle(Settings::default());
    rig.handle.load(Source::new("usual", &[("usual", text.as_bytes())]).unwrap()).unwrap();
    let ids: Vec<_> = (0..100).map(|_| rig.ask(0).unwrap()).collect();
    let found = rig.settle(Duration::from_secs(5));
    assert_eq!(found.len(), ids.len());
    let decided = found.iter().filter(|(verdict, _)| verdict.decision.is_some()).count();
    assert_eq!((decided, rig.status().last_failure), (ids.len(), None));
}

/// Each file of the folder: what its first packet does, and a part of the cause in its first line.
fn hostile() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/policies");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let cause = text.lines().next().and_then(|line| line.strip_prefix("-- cause:"));
        let cause = cause.unwrap_or_else(|| panic!("{name} has no cause")).trim();
        let policy = format!("lua_{name}");
        let settings = Settings { failures: 1000, ..Settings::default() };
        let mut rig = Rig::idle(settings);
        let source = Source::new(&policy, &[(&policy, text.as_bytes())]).unwrap();
        rig.handle.load(source).unwrap();
        let asked = Instant::now();
        let id = rig.ask(0).unwrap();
        let found = rig.settle(Duration::from_secs(5));
        let took = asked.elapsed();
        let configured = policy::ask::Verdict { id, forward: false, decision: None };
        assert_eq!(found[0].0, configured, "{name}");
        assert!(took < Duration::from_millis(200), "{name}: {took:?}");
        rig.until(name, |rig| rig.status().failures > 0);
        let said = rig.status().last_failure.unwrap();
        assert!(said.contains(cause), "{name}: {said}");
    }
}
