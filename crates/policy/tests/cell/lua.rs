//! Hostile policies in Lua, in real processes: those of `tests/hostile`, to which files can be added.

use std::fs;
use std::time::{Duration, Instant};

use policy::cell::{Settings, Source};

use crate::Test;
use crate::rig::Rig;

pub const TESTS: &[Test] = &[
    ("hostile_policies_in_lua_are_ended", hostile),
    ("a_usual_policy_decides_with_its_tables", usual),
    ("each_process_has_a_number_of_its_own", numbered),
    ("a_table_without_room_for_its_usual_engine_answers_and_that_is_said", small),
];

/// With `lpmlib`, whose engines are built at the first lookup, shut in already.
fn usual() {
    let text = policy::trial::USUAL;
    let mut rig = Rig::idle(Settings::default());
    rig.handle.load(Source::new("lua_usual", &[("lua_usual", text.as_bytes())]).unwrap()).unwrap();
    let ids: Vec<_> = (0..100).map(|_| rig.ask(0).unwrap()).collect();
    let found = rig.settle(Duration::from_secs(5));
    assert_eq!(found.len(), ids.len());
    let decided = found.iter().filter(|(verdict, _)| verdict.decision.is_some()).count();
    assert_eq!((decided, rig.status().last_failure), (ids.len(), None));
}

/// A file of its own for each process, an array by it: policies use `gt_lcore_id` for these.
fn numbered() {
    let text = policy::trial::USUAL;
    let mut rig = Rig::idle(Settings { processes: 3, ..Settings::default() });
    rig.handle.load(Source::new("lua_usual", &[("lua_usual", text.as_bytes())]).unwrap()).unwrap();
    rig.until("three processes", |rig| rig.handle.exec("return 1").unwrap().len() >= 3);
    let ask = "return require('gatekeeper/policylib').c.gt_lcore_id()";
    let answers = rig.handle.exec(ask).unwrap();
    let mut places: Vec<u32> =
        answers.into_iter().map(|one| one.result.unwrap().parse().unwrap()).collect();
    places.sort();
    // The spare is asked where it is ready.
    assert!(places.len() >= 3 && places.iter().all(|place| *place < 4), "{places:?}");
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
}

/// Ten thousand prefixes, in a process that has not the 256 MiB that `rutter4` reserves: a small
/// engine answers as the prefixes themselves do, behind changes, too.
fn small() {
    let text = r#"
local ffi, policylib = require "ffi", require "gatekeeper/policylib"
local to_be = policylib.c.gt_cpu_to_be_32
local prefixes = lpmlib.new_lpm(20000, 1)
for i = 0, 9999 do
  assert(lpmlib.lpm_add(prefixes, to_be(i * 65536 * 6 + i), 20 + i % 9, i % 200) == 0)
end
local step = 0
local function lookups(n)
  for i = 1, n do
    step = (step * 69069 + 12345) % 2 ^ 32
    local ip = to_be(i % 2 == 0 and step or (step % 10000) * 65536 * 6 + step % 10000)
    local found = lpmlib.lpm_lookup(prefixes, ip)
    if found ~= lpmlib.lpm_debug_lookup(prefixes, ip) then error("another label") end
  end
end
function lookup_policy(packet, policy)
  lookups(500)
  lpmlib.lpm_add(prefixes, to_be(step), 32, 7)
  lookups(500)
  return policylib.decision_granted(policy, 1, 2, 3, 4)
end
"#;
    let mut rig = Rig::idle(settings_of(500));
    rig.handle.load(Source::new("lua_small", &[("lua_small", text.as_bytes())]).unwrap()).unwrap();
    (0..40).for_each(|_| _ = rig.ask(0).unwrap());
    let found = rig.settle(Duration::from_secs(10));
    assert!(found.iter().all(|(verdict, _)| verdict.forward), "{:?}", rig.status());
    let said = "a table has engine lulea, which is slower: engine rutter4 wants more memory";
    rig.until("a remark", |rig| !rig.status().remarks.is_empty());
    assert!(rig.status().remarks[0].starts_with(said), "{:?}", rig.status().remarks);
    // Where there is room, nothing is said.
    let mut rig = Rig::idle(Settings { memory: 2 << 30, ..settings_of(500) });
    rig.handle.load(Source::new("lua_small", &[("lua_small", text.as_bytes())]).unwrap()).unwrap();
    rig.ask(0).unwrap();
    assert!(rig.settle(Duration::from_secs(10))[0].0.forward);
    assert_eq!(rig.status().remarks, [""; 0]);
}

fn settings_of(limit_ms: u64) -> Settings {
    Settings { limit: Duration::from_millis(limit_ms), ..Settings::default() }
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
        let mut settings = Settings { failures: 1000, ..Settings::default() };
        if name.starts_with("memory") {
            // By default the time limit may come first.
            (settings.memory, settings.limit) = (16 << 20, Duration::from_millis(150));
        }
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
        // Which limit comes first may depend on the machine.
        assert!(cause.split(" | ").any(|cause| said.contains(cause)), "{name}: {said}");
    }
}
