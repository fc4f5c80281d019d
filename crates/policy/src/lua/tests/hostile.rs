//! Policies that mean ill, or are wrong. To add one: a line in [`POLICIES`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// What becomes of it.
enum End {
    /// No forward, no decision, an error that holds this text.
    Error(&'static str),
    /// It is stopped, at this line.
    Stopped(u32),
    /// A verdict like any other.
    Decides(bool, Option<ggu::Verdict>),
    /// Not in this process: what ends it is its process's end (`cell`).
    Cell,
}
use End::{Cell, Decides, Error as Fails, Stopped};

/// The name, the body of `lookup_policy(info, policy)` from line 2 on, and its end.
const POLICIES: &[(&str, &str, End)] = &[
    ("loop", "while true do end", Stopped(2)),
    ("loop that works", "local x = 0\nwhile true do x = x + 1 end", Stopped(3)),
    ("loop in pcall", "while true do pcall(function()\nwhile true do end end) end", Stopped(3)),
    ("loop in a coroutine", "coroutine.wrap(function() while true do end end)()", Stopped(2)),
    (
        "loop in an error's words",
        "error(setmetatable({}, { __tostring = function() while true do end end }))",
        Fails("test.lua:2: the error object is a table"),
    ),
    (
        "recursion",
        "local function f() return 1 + f() end\nreturn f()",
        Fails("test.lua:2: stack overflow"),
    ),
    ("error", "\nerror 'no'", Fails("test.lua:3: no")),
    ("error of nil", "error(nil)", Fails("the error object is a nil")),
    ("error that is a table", "\nerror {}", Fails("test.lua:3: the error object is a table")),
    ("error that is a number", "error(5, 0)", Fails("5")),
    ("index of nil", "return policy.params.nothing.x", Fails("test.lua:2: ")),
    (
        "memory bomb",
        "local t = {}\nwhile true do t[#t + 1] = ('x'):rep(1e6) .. #t end",
        Fails("not enough memory: test.lua:3"),
    ),
    (
        "memory bomb by ffi",
        "local t, ffi = {}, require 'ffi'\nwhile true do t[#t + 1] = ffi.new('char[?]', 1e6) end",
        Fails("not enough memory: test.lua:3"),
    ),
    (
        "table bomb",
        "local t = {}\nfor i = 1, 1e6 do t[i] = lpmlib.new_lpm(1e6, 1)\n\
        for a = 0, 1e5 do lpmlib.lpm_add(t[i], a, 32, a) end\n\
        assert(lpmlib.lpm_lookup(t[i], 0) >= 0) end",
        Fails("test.lua:"),
    ),
    ("states out of range", "policy.state = 4 return true", Fails("state 4, which does not exist")),
    ("the last state", "policy.state = 255 return true", Fails("state 255, which does not exist")),
    (
        "cookie too long",
        "policy.state = 3 policy.params.bpf.cookie_len = 65 return true",
        Fails("cookie_len is 65"),
    ),
    (
        "cookie far too long",
        "policy.state = 3 policy.params.bpf.cookie_len = 65535 return true",
        Fails("cookie_len is 65535"),
    ),
    ("no state", "return true", Decides(true, None)),
    ("no boolean", "policy.state = 2 return 'yes'", Decides(true, Some(DECLINED))),
    ("a number", "policy.state = 2 return 0", Decides(true, Some(DECLINED))),
    ("a pointer", "policy.state = 2 return info.l4_hdr", Decides(true, Some(DECLINED))),
    ("false", "policy.state = 2 return false", Decides(false, Some(DECLINED))),
    ("nil", "policy.state = 2 return nil", Decides(false, Some(DECLINED))),
    ("nothing", "policy.state = 2", Decides(false, Some(DECLINED))),
    (
        "flow overwritten",
        "policy.flow.proto = 7 policy.state = 2 return true",
        Decides(true, Some(DECLINED)),
    ),
    (
        "global libraries gone",
        "pcall = nil error = nil lpmlib = nil debug = nil type = nil\nreturn true",
        Decides(true, None),
    ),
    ("bad pattern", "(('a'):rep(40)):find(('a?'):rep(40) .. ('a*'):rep(40) .. 'b')", Cell),
    ("null", "require 'ffi'.cast('int *', 8)[0] = 1", Cell),
    ("memory of the host", "require 'ffi'.fill(info, 1e9)", Cell),
    ("end of the process", "os.exit(0)", Cell),
];
const DECLINED: ggu::Verdict = ggu::Verdict::Declined { expire_s: 0 };

/// Stops each call that takes longer than `limit`, until `work` is over.
fn watched<T>(stopper: &Stopper, limit: Duration, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut since, mut seen) = (Instant::now(), None);
            while !over.load(Ordering::Relaxed) {
                let running = stopper.running();
                if running != seen {
                    (since, seen) = (Instant::now(), running);
                } else if let Some(call) = running
                    && since.elapsed() > limit
                {
                    stopper.stop(call);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn options() -> Options {
    Options { memory: 32 << 20, tables: 32 << 20, ..Options::default() }
}

fn policy(body: &str) -> Policy {
    // What is right goes on: the packets of others.
    let source = format!(
        "local function bad(info, policy)\n{body}\nend\nfunction lookup_policy(info, policy)
        if info.l4_proto == 99 then return (bad(info, policy)) end
        policy.state = 2 policy.params.declined.expire_sec = 9 return true end"
    );
    Policy::load("test.lua", &source, &options()).expect("it loads")
}

#[test]
fn each_has_its_end_and_others_go_on() {
    let evil = asked("8.8.8.8", 99, 64, &[0; 20]);
    let good = asked("8.8.8.8", 6, 64, &[0; 20]);
    let fine = Some(ggu::Verdict::Declined { expire_s: 9 });
    for (name, body, end) in POLICIES {
        if matches!(end, Cell) {
            continue;
        }
        let mut policy = policy(body);
        let stopper = policy.stopper();
        // Warm, so that what runs is compiled.
        for round in 0..3 {
            for _ in 0..100 {
                assert_eq!(decide(&mut policy, &good).decision, fine, "{name}");
            }
            // Alone, among few, and in a loop of many.
            for before in [0, 3, 40] {
                let mut questions = vec![good.question(0); before];
                questions.push(evil.question(1));
                questions.push(good.question(2));
                let mut verdicts = Vec::new();
                let limit = if matches!(end, Stopped(_)) { 10 } else { 20_000 };
                let result = watched(&stopper, Duration::from_millis(limit), || {
                    policy.decide(&questions, &mut verdicts)
                });
                let first = verdicts.iter().take(before);
                assert!(first.clone().all(|v| v.forward && v.decision == fine), "{name}");
                assert_eq!(first.len(), before, "{name}");
                let rest = &verdicts[before..];
                match end {
                    Stopped(line) => {
                        let at = format!("test.lua:{line}");
                        assert_eq!(result, Err(Error::Stopped { at }), "{name}, round {round}");
                        assert!(rest.is_empty(), "{name}");
                        continue;
                    }
                    Fails(text) => {
                        let error = result.expect_err(name).to_string();
                        assert!(error.contains(text), "{name}: {error}");
                        assert_eq!((rest[0].forward, rest[0].decision), (false, None), "{name}");
                    }
                    Decides(forward, decision) => {
                        assert_eq!(result, Ok(()), "{name}");
                        assert_eq!(
                            (rest[0].forward, rest[0].decision),
                            (*forward, *decision),
                            "{name}"
                        );
                    }
                    Cell => unreachable!("left out above"),
                }
                assert_eq!(rest[1], Verdict { id: 2, forward: true, decision: fine }, "{name}");
            }
        }
    }
}

/// Fails where LuaJIT is built without CHECKHOOK: the loop is compiled, and never ends.
#[test]
fn an_endless_compiled_loop_is_stopped_within_50_ms() {
    let mut policy = load("function lookup_policy(i, p) while true do end end");
    let stopper = policy.stopper();
    let evil = asked("8.8.8.8", 6, 64, &[0; 20]);
    let took = thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            let call = loop {
                if let Some(call) = stopper.running() {
                    break call;
                }
                thread::yield_now();
            };
            // Long enough for the loop to be compiled.
            thread::sleep(Duration::from_millis(50));
            let asked = Instant::now();
            assert!(stopper.stop(call));
            while stopper.running() == Some(call) {
                if asked.elapsed() > Duration::from_secs(5) {
                    // Nothing else ends the loop.
                    eprintln!("LuaJIT has no CHECKHOOK: see .cargo/config.toml");
                    std::process::abort();
                }
                thread::sleep(Duration::from_micros(100));
            }
            asked.elapsed()
        });
        let result = policy.decide(&[evil.question(0)], &mut Vec::new());
        assert_eq!(result, Err(Error::Stopped { at: "test.lua:1".into() }));
        stopping.join().expect("it does not panic")
    });
    assert!(took < Duration::from_millis(50), "{took:?}");
}

#[test]
fn a_stop_meets_the_call_that_it_means() {
    let mut policy = load(STOCK);
    let stopper = policy.stopper();
    let web = asked("8.8.8.8", 6, 64, &to_port(80));
    assert_eq!(stopper.running(), None);
    assert!(!stopper.stop(0) && !stopper.stop(1), "nothing runs");
    decide(&mut policy, &web);
    assert!(!stopper.stop(1), "it is over");
    // Stops that come at any time: each call ends well or is stopped, the state serves on.
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Some(call) = stopper.running() {
                    stopper.stop(call);
                }
                thread::sleep(Duration::from_micros(20));
            }
        });
        let mut stopped = 0;
        for _ in 0..20_000 {
            let mut verdicts = Vec::new();
            match policy.decide(&[web.question(3)], &mut verdicts) {
                Ok(()) => assert!(verdicts[0].forward),
                Err(Error::Stopped { .. }) => stopped += 1,
                Err(error) => panic!("{error}"),
            }
        }
        over.store(true, Ordering::Relaxed);
        println!("{stopped} of 20,000 calls were stopped");
    });
    assert!(decide(&mut policy, &web).forward);
    assert_eq!(policy.exec("return debug.gethook()"), Ok("nil\t\t0".into()), "a hook is left");
    drop(policy);
    assert!(!stopper.stop(1), "the state is closed");
}

/// A policy that has to be stopped, and tells how much of it LuaJIT has compiled.
const STOPPED: &str = "
    local util = require 'jit.util'
    local function spin() while true do end end -- a closure in lookup_policy would not be compiled
    function lookup_policy(info, policy)
        if info.l4_proto == 99 then spin() end
        if info.l4_proto == 98 then while true do pcall(spin) end end
        if info.l4_proto == 97 then kept = {} while true do kept = { kept } end end
        return true
    end
    function traces() local n = 0 while util.traceinfo(n + 1) do n = n + 1 end return n end";

/// A hook that stays on is a check at each instruction, and keeps new code from being compiled.
#[test]
fn after_a_stop_no_hook_is_left() {
    let good = asked("8.8.8.8", 6, 64, &to_port(80));
    let none = Ok("nil\t\t0".into());
    for (proto, body) in [(99, "loop"), (98, "loop in pcall"), (97, "memory bomb")] {
        let evil = asked("8.8.8.8", proto, 64, &to_port(80));
        for before in [0, 3, 40] {
            let options = Options { memory: 16 << 20, ..options() };
            let mut policy = Policy::load("test.lua", STOPPED, &options).expect("it loads");
            assert_eq!(policy.exec("return debug.gethook()"), none);
            let mut questions = vec![good.question(0); before];
            questions.push(evil.question(1));
            let stopper = policy.stopper();
            let limit = if proto == 97 { 20_000 } else { 5 };
            let stopped = watched(&stopper, Duration::from_millis(limit), || {
                policy.decide(&questions, &mut Vec::new())
            });
            assert!(stopped.is_err(), "{body}");
            policy.caller.lua.set_memory_limit(0).expect("a limit");
            assert_eq!(policy.exec("return debug.gethook()"), none, "{body}, {before}");
            // Batches go on, and code is compiled again.
            policy.exec("kept = nil jit.flush()").expect("it runs");
            let questions = vec![good.question(0); 64];
            for _ in 0..20 {
                let mut verdicts = Vec::new();
                assert_eq!(policy.decide(&questions, &mut verdicts), Ok(()), "{body}");
                assert!(verdicts.len() == 64 && verdicts.iter().all(|verdict| verdict.forward));
            }
            assert_eq!(policy.exec("return debug.gethook()"), none, "{body}, {before}: later");
            let traces = policy.exec("return traces()").expect("it runs");
            assert_ne!(traces, "0", "{body}, {before}: nothing is compiled any more");
        }
    }
}

#[test]
fn a_policy_is_stopped_while_it_loads() {
    let prepared = Prepared::new(&options()).expect("a state");
    let stopper = prepared.stopper();
    let loaded = watched(&stopper, Duration::from_millis(10), || {
        prepared.load("test.lua", "local x\nwhile true do end")
    });
    assert_eq!(loaded.err(), Some(Error::Stopped { at: "test.lua:2".into() }));
}

/// A policy that counts how often it is asked, and the number after questions about these packets.
fn tries(policy: &mut Policy, asked: &[&Asked]) -> (String, Vec<bool>) {
    let questions: Vec<_> = asked.iter().zip(0..).map(|(asked, id)| asked.question(id)).collect();
    policy.exec("tries = 0").expect("it runs");
    policy.caller.lua.gc_collect().expect("it collects");
    let mut verdicts = Vec::new();
    policy.decide(&questions, &mut verdicts).expect_err("it throws");
    policy.caller.lua.set_memory_limit(0).expect("a limit");
    let forward = verdicts.iter().map(|verdict| verdict.forward).collect();
    (policy.exec("return tries").expect("it runs"), forward)
}

/// One collection, and one more try if that freed something: of an error its own words, at least.
#[test]
fn an_error_is_tried_again_where_a_collection_frees_memory() {
    let source = "function lookup_policy(i, p)
            tries = tries + 1
            if i.l4_proto == 99 then error 'no' end
            return true
        end";
    let evil = asked("8.8.8.8", 99, 64, &[0; 20]);
    let good = asked("8.8.8.8", 6, 64, &[0; 20]);
    let mut policy = load(source);
    assert_eq!(tries(&mut policy, &[&evil]), ("2".into(), vec![false]));
    // Two among up to 64 questions: one collection for both, and each has its second try.
    let answers = vec![true, false, true, false, true];
    assert_eq!(tries(&mut policy, &[&good, &evil, &good, &evil, &good]), ("7".into(), answers));
}

/// Memory that a policy keeps is not freed, so it is not asked again.
#[test]
fn an_error_is_not_tried_again_where_nothing_is_freed() {
    let source = "jit.off() kept = {}
        function lookup_policy(i, p)
            tries = tries + 1
            while true do kept = { kept } end
        end";
    let evil = asked("8.8.8.8", 99, 64, &[0; 20]);
    let options = Options { memory: 8 << 20, ..Options::default() };
    let mut policy = Policy::load("test.lua", source, &options).expect("it loads");
    assert_eq!(tries(&mut policy, &[&evil]), ("1".into(), vec![false]));
}
