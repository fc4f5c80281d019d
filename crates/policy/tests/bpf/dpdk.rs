//! DPDK's interpreter and compiler beside ours, each in a process of its own: what the compiler
//! makes of some programs does what they do not say.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use policy::bpf::assemble::*;
use policy::bpf::insn::*;
use policy::bpf::{Checked, Engine};
use policy::program::{Answer, Program};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

use super::cookie;
use super::random::{begin, end, frames, grown, made, piece};

/// Answers and pages, packet after packet.
type Outcome = [u8; 3 * (2 + 64)];

/// What a program does with three packets.
fn outcome(program: &dyn Program, now: u64, seed: &[u8]) -> Outcome {
    let mut all = [0; size_of::<Outcome>()];
    for (frame, out) in frames().iter().zip(all.chunks_mut(2 + 64)) {
        let mut page = cookie(seed);
        let answer = program.packet(&frame.arrival(now), 9, &mut page);
        let answer = match answer {
            Answer::Send(priority) => [1, priority],
            Answer::Direct => [2, 0],
            Answer::Decline => [3, 0],
            Answer::OverBudget => [4, 0],
            Answer::Fail => [5, 0],
            Answer::Undecided => [6, 0],
        };
        out[..2].copy_from_slice(&answer);
        out[2..].copy_from_slice(&page);
    }
    all
}

/// The same in a process of its own: nothing where that ended otherwise than by itself, or not.
fn apart(program: &dyn Program, now: u64, seed: &[u8]) -> Option<Outcome> {
    let mut ends = [0; 2];
    // SAFETY: it writes two descriptors, for which there is room.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child has this thread alone, and does what needs none of the others; the C
    // library's memory is in order behind a fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // It may fault, and no handler is to report that: a sanitizer's would take it for ours.
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
            // SAFETY: the process ends by it, which is what a fault does without a handler.
            unsafe { libc::signal(fault, libc::SIG_DFL) };
        }
        // SAFETY: it ends with it, if it runs for ever.
        unsafe { libc::alarm(MOST.as_secs() as u32) };
        let found = outcome(program, now, seed);
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(ends[1], found.as_ptr().cast(), found.len()) };
        // SAFETY: nothing of this process is to be tidied up.
        unsafe { libc::_exit(i32::from(written != found.len() as isize)) };
    }
    let mut found = [0; size_of::<Outcome>()];
    // SAFETY: it is ours, and closed once.
    unsafe { libc::close(ends[1]) };
    // SAFETY: the room is there. What the child writes at once comes at once.
    let read = unsafe { libc::read(ends[0], found.as_mut_ptr().cast(), found.len()) };
    // SAFETY: as above.
    unsafe { libc::close(ends[0]) };
    let mut status = 0;
    // SAFETY: it is a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    (status == 0 && read == found.len() as isize).then_some(found)
}

/// By DPDK.
fn dpdk(checked: &Checked, engine: Engine) -> Option<Arc<dyn Program>> {
    // SAFETY: `apart` runs it.
    unsafe { checked.by_dpdk(engine) }
}

/// Which of DPDK's engines do something else than ours; nothing where its check refuses.
fn compare(checked: &Checked, now: u64, seed: &[u8]) -> Option<Vec<Engine>> {
    let ours = checked.by(Engine::Interpreter).unwrap();
    let ours = outcome(&*ours, now, seed);
    let mut wrong = Vec::new();
    for engine in [Engine::Interpreter, Engine::Compiled] {
        if apart(&*dpdk(checked, engine)?, now, seed) != Some(ours) {
            wrong.push(engine);
        }
    }
    Some(wrong)
}

/// Forms of an instruction that DPDK 22.11 interprets or compiles wrongly. Jumps over long ways
/// are others.
fn form(Insn { code, dst, src, imm, .. }: Insn) -> [(Engine, Option<&'static str>); 2] {
    let (class, op, by) = (code & 7, code & 0xf0, code & X != 0);
    let (alu, itself) = (matches!(class, ALU | ALU64), by && src == dst);
    let interpreted = match (class, op) {
        (ALU, END) if !by && imm < 64 => Some("to little-endian"),
        _ => None,
    };
    let compiled = match op {
        JSET if class == JMP && !by && i8::try_from(imm).is_ok() => Some("jset by a byte"),
        LSH | RSH | ARSH if alu && itself && dst != 4 => Some("shift by itself"),
        DIV | MOD if class == ALU && by && dst != 0 => Some("division of 32 bits by a register"),
        DIV | MOD if alu && itself && matches!(dst, 0 | 3) => Some("division by itself"),
        _ => None,
    };
    [(Engine::Interpreter, interpreted), (Engine::Compiled, compiled)]
}

/// As [`form`], of all instructions.
fn forms(lines: &[Line], of: Engine) -> Vec<&'static str> {
    let all = lines.iter().flat_map(|line| form(line.insn));
    let mut found: Vec<_> =
        all.filter_map(|(engine, form)| form.filter(|_| engine == of)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn shown(Line { insn: Insn { code, dst, src, off, imm }, name }: &Line) -> String {
    format!("{code:#04x} r{dst} r{src} off {off} imm {imm} {}", name.unwrap_or_default())
}

/// What differs has a form that is known to. `RUTTER_PROGRAMS` says how many are made, others at
/// each run; without it they are the same ones, since any program may be compiled wrongly by chance.
#[test]
fn random_programs_in_dpdk() {
    let wanted = std::env::var("RUTTER_PROGRAMS").ok();
    let cases = wanted.as_ref().map_or(200, |n| n.parse().unwrap());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let counts = RefCell::new(BTreeMap::<String, u64>::new());
    let count = |what: String| *counts.borrow_mut().entry(what).or_default() += 1;
    let input = (vec(piece(), 1..50), vec(any::<u8>(), 64), any::<u64>());
    let mut runner = match wanted {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let ran = runner.run(&input, |(pieces, seed, now)| {
        let (lines, checked) = grown(&pieces);
        let Some(wrong) = compare(&checked, now, &seed) else {
            count("refused".into());
            return Ok(());
        };
        for engine in [Engine::Interpreter, Engine::Compiled] {
            let (wrong, forms) = (wrong.contains(&engine), forms(&lines, engine));
            count(format!("{engine:?} {} {forms:?}", if wrong { "differs" } else { "agrees" }));
            prop_assert!(!wrong || !forms.is_empty(), "{engine:?}");
        }
        Ok(())
    });
    println!("{:#?}", counts.borrow());
    if let Err(TestError::Fail(why, (pieces, seed, now))) = ran {
        let shown: Vec<String> = grown(&pieces).0.iter().map(shown).collect();
        panic!("{why}:\n{}\nseed {seed:?}, now {now}", shown.join("\n"));
    }
}

/// Numbers as the beginning of a page.
fn words(words: [u64; 6]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What is wrong of `body` with these numbers in r0 to r5.
fn body(body: &[Lines], numbers: [u64; 6]) -> Option<Vec<Engine>> {
    let lines = [begin(), body.concat(), end()].concat();
    let checked = made(&lines).unwrap_or_else(|refused| panic!("{refused}: {body:?}"));
    compare(&checked, 1, &words(numbers))
}

/// Each instruction that calculates or compares, alone.
#[test]
fn each_instruction_in_dpdk() {
    let numbers = [
        0,
        1,
        7,
        0x80,
        0x1234_5678,
        0xffff_ffff,
        1 << 32,
        0x9abc_def0_1234_5678,
        1 << 63,
        u64::MAX,
    ];
    let mut found = BTreeMap::<(String, &str), u64>::new();
    let mut try_one = |insn: Insn, before: Lines, behind: Lines| {
        let line = raw(insn.code, insn.dst, insn.src, insn.off, insn.imm);
        for (n, one) in numbers.iter().enumerate() {
            let other = numbers[(n * 7 + 3 + usize::from(insn.code)) % numbers.len()];
            let mut all = [0x1111_2222_3333_4444_u64, 5, 0xfff1_2222_3333_4444, 9, 2, 6];
            all[usize::from(insn.src)] = other;
            all[usize::from(insn.dst)] = *one;
            let Some(wrong) = body(&[before.clone(), line.clone(), behind.clone()], all) else {
                continue;
            };
            for (engine, form) in form(insn) {
                let wrong = wrong.contains(&engine);
                assert!(!wrong || form.is_some(), "{engine:?}: {insn:?} of {all:x?}");
                if let Some(form) = form {
                    *found.entry((format!("{engine:?}"), form)).or_default() += u64::from(wrong);
                }
            }
        }
    };
    let registers =
        [(0, 0), (3, 3), (1, 1), (4, 4), (0, 3), (3, 0), (1, 2), (4, 1), (1, 4), (2, 3)];
    for (class, op) in [ALU, ALU64]
        .into_iter()
        .flat_map(|class| (ADD..=ARSH).step_by(16).map(move |op| (class, op)))
    {
        for (dst, src) in registers {
            let (before, imms) = match op {
                NEG => (vec![], &[0][..]),
                LSH | RSH | ARSH => (arithmetic(AND, src, 31), &[0, 1, 31][..]),
                DIV | MOD => (raw(class | OR, src, 0, 0, 1), &[1, 7, 1 << 20][..]),
                _ => (vec![], &[0, 1, -1, 127, 128, -128, -129, i32::MIN, i32::MAX][..]),
            };
            if op != NEG {
                let code = class | op | X;
                try_one(Insn { code, dst, src, off: 0, imm: 0 }, before, vec![]);
            }
            for &imm in imms.iter().filter(|_| src == dst && dst < 2) {
                let code = class | op;
                try_one(Insn { code, dst, src: 0, off: 0, imm }, vec![], vec![]);
            }
        }
    }
    for (by, imm) in [0, X].into_iter().flat_map(|by| [16, 32, 64].map(|imm| (by, imm))) {
        try_one(Insn { code: ALU | END | by, dst: 1, src: 0, off: 0, imm }, vec![], vec![]);
    }
    for op in [JEQ, JNE, JGT, JGE, JLT, JLE, JSET, JSGT, JSGE, JSLT, JSLE] {
        let behind = [mov(5, 77), mov(4, 78)].concat();
        for (dst, src) in [(1, 2), (0, 3), (4, 4)] {
            let code = JMP | op | X;
            try_one(Insn { code, dst, src, off: 1, imm: 0 }, vec![], behind.clone());
        }
        for imm in [0, 1, -1, 127, 128, -128, -129, i32::MIN, i32::MAX] {
            try_one(Insn { code: JMP | op, dst: 1, src: 0, off: 1, imm }, vec![], behind.clone());
        }
    }
    println!("{found:#?}");
    let right: Vec<_> = found.iter().filter(|(_, wrong)| **wrong == 0).collect();
    if !right.is_empty() {
        testing::skip(format!("this DPDK is right with {right:?}"));
    }
}

/// So many bytes of machine code.
fn pad(bytes: usize) -> Lines {
    let (long, short) = match bytes % 4 {
        0 => (bytes / 4, 0),
        rest => ((bytes - 3 * (4 - rest)) / 4, 4 - rest),
    };
    let long = (0..long).flat_map(|_| arithmetic(ADD, 2, 1));
    long.chain((0..short).flat_map(|_| copy(2, 3))).collect()
}

/// Distances that do not fit the byte that was chosen for them, and lengths that agree by chance.
#[test]
fn jumps_in_dpdk() {
    let (mut back, mut exits, mut chance) = (0, 0, 0);
    let compiled = |lines: &[Lines]| {
        let wrong =
            compare(&made(&lines.concat()).unwrap(), 1, &words([1, 3, 3, 4, 5, 6])).unwrap();
        assert!(!wrong.contains(&Engine::Interpreter));
        u32::from(!wrong.is_empty())
    };
    for bytes in 60..100 {
        let (pad, end) = (pad(bytes), end());
        let n = (pad.len() + end.len()) as i16;
        back += compiled(&[begin(), goto(n), pad.clone(), end.clone(), goto(-n - 1)]);
        let over = jump(JEQ, 1, 3, end.len() as i16);
        exits += compiled(&[begin(), over, end.clone(), pad, end]);
    }
    // A prologue for r6 to r9 has 24 bytes: as many as six jumps lose in the second pass.
    for bytes in 100..150 {
        let pad = pad(bytes);
        let five: Lines = (0..5).flat_map(|n| jump(JEQ, 1, n, 0)).collect();
        chance += compiled(&[begin(), jump(JEQ, 1, 3, pad.len() as i16), pad, five, end()]);
    }
    println!("wrong: {back} jumps back, {exits} exits, {chance} by chance");
    if back.min(exits).min(chance) == 0 {
        testing::skip("this DPDK is right with some of them");
    }
}

const MOST: Duration = Duration::from_secs(2);
