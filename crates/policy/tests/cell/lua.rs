//! Hostile policies in Lua, in real processes: those of `tests/hostile`, to which files can be added.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use policy::ask::Instead;
use policy::cell::{Event, Settings, Source, file_name};
use wire::ggu;

use crate::Test;
use crate::hostile::{Among, MOST, in_time};
use crate::rig::Rig;

pub const TESTS: &[Test] = &[
    ("hostile_policies_in_lua_are_ended", hostile),
    ("what_ends_a_process_is_said_with_the_flow_and_once", named),
    ("words_of_clients_in_errors_hide_no_other_cause", words),
    ("compiled_code_says_no_line_but_its_own", compiled),
    ("the_line_is_said_at_which_a_source_does_not_load", loading),
    ("a_usual_policy_decides_with_its_tables", usual),
    ("each_process_has_a_number_of_its_own", numbered),
    ("a_table_without_room_for_its_usual_engine_answers_and_that_is_said", small),
    ("a_process_is_replaced_while_others_go_on_failing", replaced),
    ("tables_have_the_engine_that_is_configured", engines),
    ("a_million_prefixes_from_a_file_fit_by_default", million),
    ("a_policy_gets_as_much_of_a_packet_as_configured_and_reads_its_files", whole),
];

/// With `lpmlib`, whose engines are built at the first lookup, shut in already.
fn usual() {
    let text = policy::trial::USUAL;
    let mut rig = Rig::idle(settings_of(500));
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
    let mut rig = Rig::idle(Settings { processes: 3, ..settings_of(500) });
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

/// Ten thousand prefixes, in a process that has not the 192 MiB that `dxr` reserves: a small
/// engine answers as the prefixes themselves do, behind changes, too.
fn small() {
    let text = SMALL;
    let engines = ["dxr", ""].map(str::to_owned);
    let mut rig = Rig::idle(Settings { memory: 180 << 20, engines, ..settings_of(500) });
    rig.handle.load(Source::new("lua_small", &[("lua_small", text.as_bytes())]).unwrap()).unwrap();
    (0..40).for_each(|_| _ = rig.ask(0).unwrap());
    let found = rig.settle(Duration::from_secs(10));
    assert!(found.iter().all(|(verdict, _)| verdict.forward), "{:?}", rig.status());
    let said = "a table has engine lulea, which is slower: engine dxr wants more memory";
    rig.until("a remark", |rig| !rig.status().remarks.is_empty());
    assert!(rig.status().remarks[0].starts_with(said), "{:?}", rig.status().remarks);
    // Where there is room, nothing is said: the usual engine reserves no more than it needs.
    let mut rig = Rig::idle(settings_of(500));
    rig.handle.load(Source::new("lua_small", &[("lua_small", text.as_bytes())]).unwrap()).unwrap();
    rig.ask(0).unwrap();
    assert!(rig.settle(Duration::from_secs(10))[0].0.forward);
    assert_eq!(rig.status().remarks, [""; 0]);
}

/// A policy that crashes for one packet among many: its flow is named, and one cause is reported once.
fn named() {
    let one = r#"
local ffi = require "ffi"
function lookup_policy(packet, policy)
  if ffi.cast("uint8_t *", packet.l2_hdr)[0] == 2 then ffi.cast("int *", 8)[0] = 1 end
  return true
end
"#;
    for (text, places, words) in [
        // In a call of its own, and in a loop.
        (one.to_owned(), &[(3, 1), (40, 33)][..], "in lookup_policy about "),
        (
            format!("{one}{}", policy::trial::BATCH),
            &[(40, 0)],
            "in lookup_policy_batch, 40 packets, the first about ",
        ),
    ] {
        let mut rig = Rig::idle(Settings { failures: 1000, ..settings_of(50) });
        rig.handle.load(Source::new("lua_one", &[("lua_one", text.as_bytes())]).unwrap()).unwrap();
        for (count, at) in places {
            rig.until("a spare", |rig| {
                let status = rig.status();
                let is = |stage| status.processes.iter().any(|one| one.stage == stage);
                is("serving") && is("ready")
            });
            let ids: Vec<_> =
                (0..*count).map(|i| rig.ask(if i == *at { 2 } else { 0 }).unwrap()).collect();
            rig.settle(Duration::from_secs(5));
            let byte = ids[*at] as u8;
            let flow = format!("{words}{byte}.{byte}.{byte}.{byte} > {byte}.{byte}.{byte}.{byte}");
            rig.until("the flow", |rig| {
                let said = rig.status().last_failure.unwrap_or_default();
                said.starts_with("lua_one:4: ") && said.ends_with(&flow)
            });
        }
        let failed = |event: &&Event| matches!(event, Event::Failed { .. });
        assert_eq!(rig.events().iter().filter(failed).count(), 1, "{:?}", rig.events());
    }
}

/// Errors with what clients send in their words are one cause; a loop and a crash later are reported.
fn words() {
    let text = r#"
local ffi = require "ffi"
function lookup_policy(packet, policy)
  local bytes = ffi.cast("uint8_t *", packet.l2_hdr)
  if bytes[0] == 1 then error("an odd packet from " .. bytes[1]) end
  while bytes[0] == 2 do end
  if bytes[0] == 3 then ffi.cast("int *", 8)[0] = 1 end
  return true
end
"#;
    let mut rig = Rig::idle(Settings { failures: 1000, ..settings_of(50) });
    rig.handle.load(Source::new("lua_odd", &[("lua_odd", text.as_bytes())]).unwrap()).unwrap();
    for _ in 0..40 {
        rig.ask(1).unwrap();
        rig.settle(Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(6)); // a process reports no more often
    }
    rig.until("most errors", |rig| rig.status().failures > 33);
    let reported = |rig: &Rig, cause: &str| {
        let events = rig.events();
        let of =
            |event: &&Event| matches!(event, Event::Failed { cause: of, .. } if of.contains(cause));
        events.iter().filter(of).count()
    };
    assert_eq!(reported(&rig, "lua_odd:5: an odd packet from "), 1, "{:?}", rig.events());
    for (first, cause) in [(2, "was stopped: lua_odd:6"), (3, "SIGSEGV")] {
        rig.ask(first).unwrap();
        rig.settle(Duration::from_secs(5));
        rig.until(cause, |rig| reported(rig, cause) == 1);
    }
}

/// A policy whose code is compiled before it crashes: LuaJIT may not know the line, but it is none
/// of another function.
fn compiled() {
    let text = r#"
local ffi, policylib = require "ffi", require "gatekeeper/policylib"
local function never(x)
  return x * 2
end
local function read(at)
  return ffi.cast("uint8_t *", at)[0]
end
function lookup_policy(packet, policy)
  local sum = never(1)
  for i = 1, 200 do
    sum = sum + read(packet.l2_hdr)
  end
  if read(packet.l2_hdr) == 2 then
    for i = 1, 200 do sum = sum + read(8) end
  end
  return sum > 0
end
"#;
    let mut rig = Rig::idle(Settings { failures: 1000, ..settings_of(50) });
    rig.handle.load(Source::new("lua_hot", &[("lua_hot", text.as_bytes())]).unwrap()).unwrap();
    for _ in 0..100 {
        (0..40).for_each(|_| _ = rig.ask(0).unwrap());
        rig.settle(Duration::from_secs(5));
    }
    rig.ask(2).unwrap();
    rig.settle(Duration::from_secs(5));
    rig.until("a failure", |rig| rig.status().last_failure.is_some());
    let said = rig.status().last_failure.unwrap();
    let line = said.strip_prefix("lua_hot:").and_then(|rest| rest.split(':').next());
    let line = line.map(|line| line.parse::<u32>().expect("a number"));
    assert!(line.is_none_or(|line| (7..=18).contains(&line)), "{said}");
}

/// A source that crashes, or is inside a C function for ever.
fn loading() {
    let never = "string.find(string.rep('a', 5000), string.rep('a*', 50) .. 'b')";
    let crash = "require('ffi').cast('int *', 8)[0] = 1";
    for (does, cause) in [(never, "it is not ready after 200 ms"), (crash, "SIGSEGV")] {
        let settings = Settings { load: Duration::from_millis(200), ..Settings::default() };
        let text = format!("local function f()\n  {does}\nend\nf()");
        let source = Source::new("lua_loads", &[("lua_loads", text.as_bytes())]).unwrap();
        let refused = Rig::idle(settings).handle.load(source).expect_err(does).to_string();
        assert!(refused.contains("lua_loads:2: ") && refused.contains(cause), "{refused}");
    }
}

/// A policy that loops for some packets and crashes for others: the loops delay no process.
fn replaced() {
    let text = r#"
local ffi, policylib = require "ffi", require "gatekeeper/policylib"
function lookup_policy(packet, policy)
  local first = ffi.cast("uint8_t *", packet.l2_hdr)[0]
  while first == 1 do end
  if first == 2 then ffi.cast("int *", 0)[0] = 1 end
  return policylib.decision_granted(policy, 1, 2, 3, 4)
end
"#;
    let settings = Settings { processes: 2, failures: 100_000, ..Settings::default() };
    let mut rig = Rig::idle(settings);
    rig.handle.load(Source::new("lua_both", &[("lua_both", text.as_bytes())]).unwrap()).unwrap();
    let serving = |rig: &Rig| -> Vec<_> {
        let all = rig.status().processes.into_iter();
        all.filter(|one| one.stage == "serving").map(|one| one.pid).collect()
    };
    rig.until("a spare", |rig| rig.status().processes.len() == 3);
    assert_eq!((serving(&rig).len(), rig.status().restarts), (2, 0));
    let begun = Instant::now();
    // One crash after the other, beside loops that never pause.
    loop {
        let (restarts, all_serve) = (rig.status().restarts, serving(&rig).len() == 2);
        if restarts >= 6 && all_serve {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", rig.status());
        // One for each process: behind a loop it would be stopped with it.
        while rig.open.len() < 2 {
            let crashes = restarts < 6 && all_serve && rig.open.is_empty();
            rig.ask(if crashes { 2 } else { 1 }).unwrap();
        }
        rig.poll();
        std::thread::sleep(Duration::from_millis(1));
    }
    rig.settle(Duration::from_secs(10));
}

/// The engines of the settings serve, of each family its own.
fn engines() {
    let of =
        |engines: [&str; 2]| Settings { engines: engines.map(str::to_owned), ..settings_of(500) };
    let source = || Source::new("lua_small", &[("lua_small", SMALL.as_bytes())]).unwrap();
    let mut rig = Rig::idle(of(["lulea", "bloomfwd6"]));
    rig.handle.load(source()).unwrap();
    (0..4).for_each(|_| _ = rig.ask(0).unwrap());
    let found = rig.settle(Duration::from_secs(10));
    assert!(found.iter().all(|(verdict, _)| verdict.forward), "{:?}", rig.status());
    assert_eq!(rig.status().remarks, [""; 0]);
    let refused = Rig::idle(of(["", "rutter4"])).handle.load(source()).expect_err("it is IPv4's");
    assert!(refused.to_string().contains("no engine rutter4 for ipv6"), "{refused}");
}

/// A million prefixes in a file, read by a process that has the memory that it has by default.
fn million() {
    let mut file = String::new();
    for i in 0..1_000_000_u32 {
        let [_, a, b, c] = (i * 7 % (1 << 20)).to_be_bytes();
        _ = writeln!(file, "{}.{b}.{c}.0/24 {}", 1 + a, i * 7 % (1 << 20) % 251);
    }
    let text = r#"
local ffi, policylib = require "ffi", require "gatekeeper/policylib"
local prefixes = lpmlib.lpm_from_file("members")
local step = 0
function lookup_policy(packet, policy)
  for i = 1, 500 do
    step = (step * 69069 + 12345) % 2 ^ 32
    local net = math.floor(step / 256) % 2 ^ 20
    local ip = policylib.c.gt_cpu_to_be_32((net + 65536) * 256 + step % 256)
    local label = lpmlib.lpm_lookup(prefixes, ip)
    if label ~= net % 251 and label ~= -2 then error(net .. " has " .. label) end
    if label >= 0 then found = (found or 0) + 1 end
  end
  return found > 400
end
"#;
    let mut rig = Rig::idle(Settings { limit: Duration::from_secs(20), ..Settings::default() });
    let files = [("lua_million", text.as_bytes()), ("members", file.as_bytes())];
    rig.handle.load(Source::new("lua_million", &files).unwrap()).unwrap();
    (0..4).for_each(|_| _ = rig.ask(0).unwrap());
    let found = rig.settle(Duration::from_secs(60));
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|(verdict, _)| verdict.forward), "{:?}", rig.status());
}

/// Byte 1,200 decides, by a file that the policy opens by its path; another is one of prefixes.
fn whole() {
    let text = r#"
local ffi = require "ffi"
local marks = {}
for line in io.lines "/etc/lists/marks.txt" do marks[tonumber(line)] = true end
local prefixes = lpmlib.lpm_from_file("prefixes", 3)
local label = lpmlib.lpm_lookup(prefixes, (lpmlib.str_to_prefix "192.0.2.7/32"))
function lookup_policy(packet, policy)
  policy.state = 2
  policy.params.declined.expire_sec = label
  return marks[ffi.cast("uint8_t *", packet.l2_hdr)[1200]]
end
"#;
    let [marks, prefixes] = ["marks", "prefixes"]
        .map(|name| file_name(name, format!("/etc/lists/{name}.txt").as_ref()));
    let files = [
        ("lua_whole", text.as_bytes()),
        (&*marks, &b"7\n9\n"[..]),
        (&*prefixes, &b"192.0.2.0/24\n"[..]),
    ];
    for captured in [256, 65_535] {
        let mut rig = Rig::idle(Settings { captured, depth: 16, ..settings_of(100) });
        rig.handle.load(Source::new("lua_whole", &files).unwrap()).unwrap();
        let mut bytes = [0; 9_000];
        let asked = [7, 8, 9].map(|mark| {
            bytes[1_200] = mark;
            (rig.ask_about(&bytes).unwrap(), captured > 1_200 && mark != 8)
        });
        let found = rig.settle(Duration::from_secs(5));
        for (id, forward) in asked {
            let (verdict, _) = found.iter().find(|(verdict, _)| verdict.id == id).unwrap();
            let decision = Some(ggu::Verdict::Declined { expire_s: 3 });
            assert_eq!((verdict.forward, verdict.decision), (forward, decision), "{captured}");
        }
    }
}

/// Ten thousand prefixes, which are asked and changed.
const SMALL: &str = r#"
local ffi, policylib = require "ffi", require "gatekeeper/policylib"
local to_be = policylib.c.gt_cpu_to_be_32
local prefixes = lpmlib.new_lpm(20000, 1)
for i = 0, 9999 do
  lpmlib.lpm_add(prefixes, to_be(i * 65536 * 6 + i), 20 + i % 9, i % 200)
end
local step = 0
local function lookups(n)
  for i = 1, n do
    step = (step * 69069 + 12345) % 2 ^ 32
    local ip = to_be(i % 2 == 0 and step or (step % 10000) * 65536 * 6 + step % 10000)
    lpmlib.lpm_lookup(prefixes, ip)
    lpmlib.lpm_debug_lookup(prefixes, ip)
  end
end
function lookup_policy(packet, policy)
  lookups(500)
  lpmlib.lpm_add(prefixes, to_be(step), 32, 7)
  lookups(500)
  return policylib.decision_granted(policy, 1, 2, 3, 4)
end
"#;

/// Behind a hostile policy: it has the bad packets alone.
const GOOD: &str = r#"
local harm = lookup_policy
function lookup_policy(packet, policy)
  if require("ffi").cast("uint8_t *", packet.l2_hdr)[0] == 0xff then return harm(packet, policy) end
  policy.state = 2
  policy.params.declined.expire_sec = 3
  return true
end
"#;
/// What is configured.
const DECLINED: ggu::Verdict = ggu::Verdict::Declined { expire_s: 7 };

fn settings_of(limit_ms: u64) -> Settings {
    Settings { limit: Duration::from_millis(limit_ms), ..Settings::default() }
}

/// Each file of the folder: what a bad packet does, and a part of the cause in its first line.
/// Decisions about good packets go on.
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
        in_time(name, || harm(name, &text, cause));
    }
}

/// How long the slowest packet waited.
fn harm(name: &str, text: &str, cause: &str) -> Duration {
    let policy = format!("lua_{name}");
    let instead = Instead { forward: true, decision: Some(DECLINED) };
    let mut settings = Settings { failures: 1000, instead, ..Settings::default() };
    if name.starts_with("memory") {
        // By default the time limit may come first.
        (settings.memory, settings.limit) = (16 << 20, Duration::from_millis(150));
    }
    let mut rig = Rig::idle(settings);
    let text = format!("{text}{GOOD}");
    rig.handle.load(Source::new(&policy, &[(&policy, text.as_bytes())]).unwrap()).unwrap();
    rig.until("a spare", |rig| rig.status().processes.iter().any(|one| one.stage == "ready"));
    let Among { bad, good, found } = Among::ask(&mut rig);
    let of = |id| found.iter().find(|(verdict, _)| verdict.id == id).expect("settled").0;
    assert_eq!(of(bad), instead.verdict(bad), "{name}");
    let slowest = found.iter().map(|(_, took)| *took).max().expect("the bad one");
    if slowest >= MOST {
        return slowest;
    }
    let late: Vec<_> = good.iter().filter(|(_, asked)| *asked > MOST).collect();
    assert!(late.len() > 50, "{name}: {}", late.len());
    for (id, _) in late {
        assert_eq!(of(*id).decision, Some(ggu::Verdict::Declined { expire_s: 3 }), "{name}");
    }
    rig.until(name, |rig| rig.status().failures > 0);
    let said = rig.status().last_failure.unwrap();
    // Which limit comes first may depend on the machine.
    assert!(cause.split(" | ").any(|cause| said.contains(cause)), "{name}: {said}");
    // With what it was asked, where the process ended.
    let about = "in lookup_policy about 0.0.0.0 > 0.0.0.0";
    let ends = ["SIG", "no verdict", "system call", "by itself"];
    let has_ended = ends.iter().any(|end| said.contains(end));
    assert_eq!(said.ends_with(about), has_ended, "{name}: {said}");
    // With the policy's line: but the kernel ends a process that makes such a call at once, and
    // one that ends by itself says nothing.
    let has_line = said.contains(&format!("{policy}:3"));
    let lacks = said.contains("system call") || said.contains("by itself");
    // A stack that is full may have no room for it, also after a collection that freed nothing.
    assert!(has_line != lacks || name == "recursion", "{name}: {said}");
    slowest
}
