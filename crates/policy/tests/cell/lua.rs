//! Hostile policies in Lua, in real processes. To add one: a line in [`HOSTILE`].

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
    let text = include_str!("../../src/lua/tests/stock.lua");
    let mut rig = Rig::idle(Settings::default());
    rig.handle.load(Source::new("usual", &[("usual", text.as_bytes())]).unwrap()).unwrap();
    let ids: Vec<_> = (0..100).map(|_| rig.ask(0).unwrap()).collect();
    let found = rig.settle(Duration::from_secs(5));
    assert_eq!(found.len(), ids.len());
    let decided = found.iter().filter(|(verdict, _)| verdict.decision.is_some()).count();
    assert_eq!((decided, rig.status().last_failure), (ids.len(), None));
}

/// What `lookup_policy` does in its second line, and a part of the cause.
const HOSTILE: &[(&str, &str, &str)] = &[
    ("loop", "while true do end", "lua_loop:2"),
    ("pcall", "while true do pcall(function() while true do end end) end", "lua_pcall:2"),
    ("pattern", "string.find(string.rep('a', 5000), string.rep('a*', 50) .. 'b')", "no verdict"),
    ("null", "local x = require('ffi').cast('int *', 8)[0]", "SIGSEGV"),
    ("memory", "local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end", ""),
    ("error", "error('no')", "lua_error:2"),
];

fn hostile() {
    for (name, does, cause) in HOSTILE {
        let policy = format!("lua_{name}");
        let settings = Settings { failures: 1000, ..Settings::default() };
        let mut rig = Rig::idle(settings);
        let text = format!("function lookup_policy(pkt_info, policy)\n{does}\nreturn true end");
        let whole = format!("{text}\nfunction lookup_frag_punish_policy(policy) end");
        let source = Source::new(&policy, &[(&policy, whole.as_bytes())]).unwrap();
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
