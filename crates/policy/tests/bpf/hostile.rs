//! Objects that would do harm, or might: each is refused, at the instruction, with the reason.
//!
//! A case is a function (`init` or `pkt`), what it is made of, and what the refusal says.

use policy::bpf::assemble::*;
use policy::bpf::insn::*;
use policy::bpf::{self, Checked, MOST_INSTRUCTIONS};

use super::CLOCK;

/// `pkt` begins so: r6 the context, r7 the cookie, r8 the descriptor.
fn begin() -> Lines {
    let cookie = [copy(6, 1), call("pkt_ctx_to_cookie"), copy(7, 0)].concat();
    [cookie, copy(1, 6), call("pkt_ctx_to_pkt"), copy(8, 0)].concat()
}

/// `begin`, and then r9 the packet's first byte.
fn data() -> Lines {
    let data = [load(8, 9, 8, 0), load(2, 1, 8, 16), arithmetic_by(ADD, 9, 1)].concat();
    [begin(), data].concat()
}

fn end() -> Lines {
    [mov(0, 1), exit()].concat()
}

/// `pkt` of these, with its end, is refused with what is said.
#[track_caller]
fn refused(parts: &[Lines], says: &str) {
    let pkt = [parts.concat(), end()].concat();
    whole(&pkt, says);
}

#[track_caller]
fn whole(pkt: &[Line], says: &str) {
    let object = object(&end(), pkt);
    let refused = bpf::load(&object, CLOCK).err().map(|refused| refused.to_string());
    assert_eq!(refused.as_deref(), Some(&*format!("pkt: {says}")));
}

/// `pkt` of these is taken: what is refused beside it is refused for its own sake.
#[track_caller]
fn taken(parts: &[Lines]) {
    let pkt = [parts.concat(), end()].concat();
    let checked = Checked::new(&object(&end(), &pkt), CLOCK);
    checked.unwrap_or_else(|refused| panic!("{refused}"));
}

#[test]
fn the_packet_s_descriptor_is_not_written() {
    let says = |at| format!("instruction {at}: the packet's descriptor is not to be written");
    for (off, what) in [(0, "buf_addr"), (16, "data_off"), (64, "next"), (36, "pkt_len")] {
        refused(&[begin(), mov(1, 0), store(8, 8, off, 1)], &says(7));
        refused(&[begin(), put(2, 8, off, 99)], &says(6));
        // By way of the stack.
        let spilt = [store(8, 10, -8, 8), load(8, 2, 10, -8), put(4, 2, off, 1)].concat();
        refused(&[begin(), spilt], &says(8));
        println!("{what}");
    }
    // Atomic addition is a store, too.
    refused(
        &[begin(), mov(1, 1), raw(0xdb, 8, 1, 0, 0)],
        "instruction 7: unknown instruction 0xdb",
    );
}

#[test]
fn of_the_descriptor_a_few_fields_are_read() {
    for (len, off) in [(8, 0), (2, 16), (4, 36), (8, 72), (4, 72), (2, 72), (1, 73), (1, 79)] {
        taken(&[begin(), load(len, 1, 8, off)]);
    }
    // next, pool, a part of buf_addr, data_off with what is beside it, in front, behind.
    let others = [(8, 64), (8, 56), (4, 0), (4, 16), (8, 16), (2, 36), (8, -8), (8, 80), (8, 73)];
    for (len, off) in others {
        let says = format!("the packet's descriptor has no field of {len} bytes at {off}");
        refused(&[begin(), load(len, 1, 8, off)], &format!("instruction 6: {says}"));
    }
    // At a place that the packet says.
    let place = [load(4, 1, 8, 36), arithmetic(AND, 1, 8), arithmetic_by(ADD, 8, 1)].concat();
    let says = "instruction 9: bytes 0 to 15 are not all in the packet's descriptor";
    refused(&[begin(), place, load(8, 1, 8, 0)], says);
}

#[test]
fn a_forged_address_is_a_number() {
    let says = |at| format!("instruction {at}: r1 is no address");
    refused(&[begin(), wide(1, 0xdead_beef_0000), load(1, 2, 1, 0)], &says(8));
    refused(&[begin(), mov(1, 8), put(8, 1, 0, 0)], &says(7));
    refused(&[begin(), load(8, 1, 7, 0), load(8, 2, 1, 0)], &says(7));
    // From the packet, and from the context's time.
    refused(&[data(), load(8, 1, 9, 0), load(8, 2, 1, 0)], &says(10));
    refused(&[begin(), load(8, 1, 6, 0), put(8, 1, 0, 0)], &says(7));
}

#[test]
fn the_packet_is_read_within_the_room_that_is_proved() {
    taken(&[data(), load(8, 1, 9, 0), load(1, 1, 9, 1_023)]);
    let says =
        |at, from, to| format!("instruction {at}: bytes {from} to {to} are not all in the packet");
    refused(&[data(), load(1, 1, 9, -1)], &says(9, 127, 127));
    refused(&[data(), load(8, 1, 9, 1_017)], &says(9, 1_145, 1_152));
    refused(&[begin(), load(8, 9, 8, 0), load(1, 1, 9, 0)], &says(7, 0, 0));
    // What the packet says of its length is not proof of ours.
    let far = [load(4, 1, 8, 36), arithmetic_by(ADD, 9, 1)].concat();
    refused(&[data(), far.clone(), load(1, 1, 9, 0)], &says(11, 128, 128 + u64::from(u32::MAX)));
    // A comparison is.
    let near = [load(4, 1, 8, 36), jump(JGT, 1, 1_000, 2), arithmetic_by(ADD, 9, 1)].concat();
    taken(&[data(), near, load(1, 1, 9, 0)]);
    let signed = [load(8, 1, 7, 0), jump(JSGT, 1, 1_000, 2), arithmetic_by(ADD, 9, 1)].concat();
    let says = "instruction 12: nothing bounds the place in the packet";
    refused(&[data(), signed, load(1, 1, 9, 0)], says);
    // The largest headers that the descriptor has room for.
    let lengths = [load(2, 1, 8, 72), copy(2, 1), arithmetic(AND, 1, 127), arithmetic(RSH, 2, 7)];
    let sum = [arithmetic_by(ADD, 9, 1), arithmetic_by(ADD, 9, 2)].concat();
    taken(&[data(), lengths.concat(), sum, load(8, 1, 9, 13)]);
    let of_no_bound =
        [load(8, 1, 7, 0), arithmetic_by(ADD, 9, 1), arithmetic_by(SUB, 9, 1)].concat();
    let says = "instruction 12: nothing bounds the place in the packet";
    refused(&[data(), of_no_bound, load(1, 1, 9, 0)], says);
}

#[test]
fn the_packet_is_not_written() {
    let says = "instruction 9: the packet is not to be written";
    refused(&[data(), put(1, 9, 0, 0)], says);
    refused(&[data(), store(8, 9, 0, 7)], says);
}

#[test]
fn context_and_variables_are_not_written() {
    refused(&[put(8, 1, 0, 0)], "instruction 0: the context is not to be written");
    let says = "instruction 2: a variable is not to be written";
    refused(&[variable(1, "cycles_per_ms"), put(8, 1, 0, 0)], says);
}

#[test]
fn nothing_is_read_behind_the_end() {
    taken(&[load(4, 1, 1, 20)]);
    refused(&[load(8, 1, 1, 20)], "instruction 0: bytes 20 to 27 are not all in the context");
    refused(&[load(1, 1, 1, -1)], "instruction 0: bytes -1 to -1 are not all in the context");
    taken(&[begin(), load(8, 1, 7, 56)]);
    let cookie = "are not all in the cookie";
    refused(&[begin(), load(8, 1, 7, 57)], &format!("instruction 6: bytes 57 to 64 {cookie}"));
    refused(&[begin(), load(8, 1, 7, 64)], &format!("instruction 6: bytes 64 to 71 {cookie}"));
    refused(&[begin(), put(1, 7, -1, 0)], &format!("instruction 6: bytes -1 to -1 {cookie}"));
    refused(&[begin(), put(8, 7, 60, 0)], &format!("instruction 6: bytes 60 to 67 {cookie}"));
    // An index that the cookie has.
    let index = |mask| {
        let index = [load(1, 1, 7, 0), arithmetic(AND, 1, mask), arithmetic_by(ADD, 7, 1)];
        [begin(), index.concat()].concat()
    };
    taken(&[index(56), load(8, 1, 7, 0)]);
    let says = format!("instruction 9: bytes 0 to 70 {cookie}");
    refused(&[index(63), load(8, 1, 7, 0)], &says);
    let back = [index(63), arithmetic(SUB, 7, 1)].concat();
    refused(&[back, put(1, 7, 0, 0)], &format!("instruction 10: bytes -1 to 62 {cookie}"));
    let variable = [variable(1, "cycles_per_sec"), load(8, 1, 1, 8)].concat();
    refused(&[variable], "instruction 2: bytes 8 to 15 are not all in a variable");
    // Out and in again, past the end of numbers.
    let far = wide(1, i64::MAX as u64);
    let round = [far, arithmetic_by(ADD, 7, 1), arithmetic_by(ADD, 7, 1), arithmetic(ADD, 7, 2)];
    let says = "instruction 11: nothing bounds the place in the cookie";
    refused(&[begin(), round.concat(), load(8, 1, 7, 0)], says);
}

#[test]
fn the_stack_has_512_bytes_and_no_past() {
    taken(&[put(8, 10, -512, 1), load(8, 1, 10, -512)]);
    refused(&[put(8, 10, -520, 1)], "instruction 0: bytes -520 to -513 are not all in the stack");
    refused(&[put(8, 10, 0, 1)], "instruction 0: bytes 0 to 7 are not all in the stack");
    let says = |at, place| format!("instruction {at}: the stack may have no value at {place}");
    refused(&[load(8, 1, 10, -8)], &says(0, -8));
    refused(&[put(4, 10, -8, 1), load(8, 1, 10, -8)], &says(1, -8));
    // Written on one way only.
    let one_way = [mov(2, 0), jump(JEQ, 2, 0, 1), put(8, 10, -8, 1)].concat();
    refused(&[one_way, load(8, 1, 10, -8)], &says(3, -8));
    let unaligned = "one aligned place of the stack has to be named";
    refused(&[put(8, 10, -12, 1)], &format!("instruction 0: {unaligned}"));
    let somewhere = [load(1, 2, 1, 19), arithmetic(AND, 2, 8), copy(3, 10)].concat();
    let somewhere = [somewhere, arithmetic_by(SUB, 3, 2)].concat();
    refused(&[somewhere, put(1, 3, -16, 1)], &format!("instruction 4: {unaligned}"));
    refused(&[mov(10, 0)], "instruction 0: r10 is not to be written");
}

#[test]
fn registers_have_values_before_they_are_read() {
    refused(&[copy(2, 3)], "instruction 0: r3 may have no value");
    refused(&[arithmetic(ADD, 0, 1)], "instruction 0: r0 may have no value");
    refused(&[jump(JEQ, 5, 0, 0)], "instruction 0: r5 may have no value");
    whole(&exit(), "instruction 0: r0 may have no value");
    // A call leaves nothing in the first five.
    refused(
        &[mov(2, 1), call("pkt_ctx_to_cookie"), copy(3, 2)],
        "instruction 2: r2 may have no value",
    );
    let one_way = [jump(JNE, 10, 0, 1), mov(2, 1), copy(3, 2)].concat();
    refused(&[one_way], "instruction 2: r2 may have no value");
    // An address in two regions is none.
    let two = [load(8, 1, 6, 0), jump(JEQ, 1, 0, 1), copy(7, 8), put(1, 7, 0, 0)].concat();
    refused(&[begin(), two], "instruction 9: r7 may have no value");
    refused(&[raw(ALU64 | MOV, 12, 0, 0, 0)], "instruction 0: there is no register r12");
}

#[test]
fn addresses_stay_inside() {
    let leaks = |at, of| format!("instruction {at}: an address in {of} would leak");
    refused(&[begin(), store(8, 7, 0, 7)], &leaks(6, "the cookie"));
    refused(&[begin(), store(8, 7, 0, 8)], &leaks(6, "the packet's descriptor"));
    refused(&[begin(), store(8, 7, 0, 10)], &leaks(6, "the stack"));
    refused(&[begin(), store(4, 7, 0, 6)], &leaks(6, "the context"));
    whole(&[copy(0, 1), exit()].concat(), &leaks(1, "the context"));
    // Bit by bit.
    let number =
        |at, of| format!("instruction {at}: an address in {of} is no number to calculate with");
    for op in [AND, OR, XOR, LSH, RSH, ARSH, MUL, DIV, MOD] {
        refused(&[begin(), arithmetic(op, 7, 1)], &number(6, "the cookie"));
    }
    refused(&[begin(), arithmetic(NEG, 7, 0)], &number(6, "the cookie"));
    refused(&[begin(), arithmetic_by(SUB, 7, 8)], &number(6, "the cookie"));
    refused(&[begin(), arithmetic_by(ADD, 7, 7)], &number(6, "the cookie"));
    refused(&[begin(), raw(ALU | MOV | X, 1, 7, 0, 0)], &number(6, "the cookie"));
    refused(&[begin(), raw(ALU | END | X, 7, 0, 0, 64)], &number(6, "the cookie"));
    refused(&[begin(), store(8, 10, -8, 7), load(4, 1, 10, -8)], &number(7, "the cookie"));
    refused(&[begin(), store(4, 10, -8, 7)], &number(6, "the cookie"));
    let compared = "an address in the cookie is compared with something else than 0";
    refused(&[begin(), jump_by(JGT, 7, 8, 0)], &format!("instruction 6: {compared}"));
    refused(&[begin(), jump(JGT, 7, 0, 0)], &format!("instruction 6: {compared}"));
    refused(&[begin(), jump(JEQ, 7, 4, 0)], &format!("instruction 6: {compared}"));
    refused(
        &[begin(), arithmetic(ADD, 7, 4), jump(JEQ, 7, 0, 0)],
        &format!("instruction 7: {compared}"),
    );
    taken(&[begin(), jump(JEQ, 7, 0, 0)]);
    // Half of an address that a number was written over.
    let half = [store(8, 10, -8, 7), put(4, 10, -8, 0), load(4, 1, 10, -4)].concat();
    refused(&[begin(), half], "instruction 8: the stack may have no value at -4");
}

#[test]
fn loops_are_refused_and_jumps_lead_somewhere() {
    refused(&[mov(0, 0), goto(-1)], "instruction 1: a loop");
    refused(&[mov(0, 0), goto(-2)], "instruction 1: a loop");
    let counted = [mov(1, 10), arithmetic(SUB, 1, 1), jump(JNE, 1, 0, -2)].concat();
    refused(&[counted], "instruction 2: a loop");
    // Back, and never round: a compiler makes such.
    let back = [mov(0, 0), goto(2), mov(0, 1), exit(), jump(JEQ, 0, 0, -3)].concat();
    taken(&[back]);
    for off in [2, 100, -3, i16::MIN, i16::MAX] {
        refused(&[mov(0, 0), goto(off)], "instruction 1: the jump leads to no instruction");
    }
    // Into the second half of another: its bytes would be one.
    let middle = [jump(JEQ, 10, 0, 1), wide(0, 0x95)].concat();
    refused(&[middle], "instruction 0: the jump leads to no instruction");
    refused(&[goto(1), mov(3, 0)], "instruction 1: nothing leads here");
    whole(&mov(0, 1), "instruction 0: the jump leads to no instruction");
    whole(
        &[mov(0, 1), wide(1, 1)[..1].to_vec()].concat(),
        "instruction 1: the jump leads to no instruction",
    );
}

#[test]
fn what_is_divided_by_is_not_0() {
    let says = |at| format!("instruction {at}: the divisor may be 0");
    for op in [DIV, MOD] {
        refused(&[mov(1, 7), arithmetic(op, 1, 0)], &says(1));
        refused(&[begin(), load(8, 1, 7, 0), mov(2, 9), arithmetic_by(op, 2, 1)], &says(8));
        // 2^32 is 0 in 32 bits.
        let low = [wide(1, 1 << 32), mov(2, 9), raw(ALU | op | X, 2, 1, 0, 0)].concat();
        refused(&[low], &says(3));
        let seen =
            [load(8, 1, 7, 0), mov(2, 9), jump(JEQ, 1, 0, 1), arithmetic_by(op, 2, 1)].concat();
        taken(&[begin(), seen]);
        let clock = [variable(1, "cycles_per_sec"), load(8, 1, 1, 0), mov(2, 9)].concat();
        taken(&[clock, arithmetic_by(op, 2, 1)]);
    }
}

#[test]
fn helpers_are_called_with_what_they_want() {
    refused(&[call("memcpy")], "instruction 0: the call is of no helper");
    refused(&[call("init_ctx_to_cookie")], "instruction 0: the call is of no helper");
    // By number: the compiler's form of a call inside, and one that nobody resolved.
    refused(&[raw(JMP | CALL, 0, 0, 0, 1)], "instruction 0: the call is of no helper");
    refused(&[raw(JMP | CALL, 0, 1, 0, 1)], "instruction 0: the call is of no helper");
    refused(&[mov(1, 0), call("pkt_ctx_to_pkt")], "instruction 1: argument 1 is of another kind");
    refused(
        &[begin(), copy(1, 7), call("pkt_ctx_to_pkt")],
        "instruction 7: argument 1 is of another kind",
    );
    let moved = [arithmetic(ADD, 1, 8), call("pkt_ctx_to_pkt")].concat();
    refused(&[moved], "instruction 1: argument 1 is of another kind");
    let prepare = |priority, direct| {
        [begin(), copy(1, 6), priority, direct, call("gk_bpf_prep_for_tx")].concat()
    };
    taken(&[prepare(mov(2, 1), mov(3, 0))]);
    refused(&[prepare(copy(2, 7), mov(3, 0))], "instruction 9: argument 2 is of another kind");
    refused(&[prepare(mov(2, 1), copy(3, 10))], "instruction 9: argument 3 is of another kind");
    refused(&[prepare(mov(2, 1), mov(4, 0))], "instruction 9: r3 may have no value");
    refused(&[variable(1, "password")], "instruction 0: nothing has the name that is wanted here");
    refused(
        &[raw(LD_IMM64, 1, 15, 0, 0), raw(0, 0, 0, 0, 0)],
        "instruction 0: a field that is not used is not 0",
    );
    refused(
        &[raw(LD_IMM64, 1, 1, 0, 0), raw(0, 0, 0, 0, 0)],
        "instruction 0: a field that is not used is not 0",
    );
}

#[test]
fn instructions_are_known_ones() {
    // Packet access of old, set v3's jumps, atomics, a tail call's class, calls by register.
    for code in [0x20, 0x28, 0x30, 0x40, 0x50, 0x06, 0x16, 0x1e, 0xc3, 0xdb, 0x8d, 0xe5, 0xf7, 0xdf]
    {
        let says = format!("instruction 0: unknown instruction {code:#04x}");
        refused(&[raw(code, 0, 0, 0, 0)], &says);
    }
    let unused = "instruction 0: a field that is not used is not 0";
    refused(&[raw(ALU64 | MOV, 1, 2, 0, 0)], unused);
    refused(&[raw(ALU64 | MOV, 1, 0, 4, 0)], unused);
    refused(&[raw(ALU64 | MOV | X, 1, 1, 0, 4)], unused);
    refused(&[raw(ALU | END, 1, 0, 0, 24)], unused);
    refused(
        &[raw(LD_IMM64, 1, 0, 0, 0), raw(0, 1, 0, 0, 0)],
        "instruction 1: a field that is not used is not 0",
    );
    refused(&[raw(LD_IMM64, 1, 0, 0, 0), exit()], "instruction 1: unknown instruction 0x95");
    for by in [-1, 64] {
        refused(
            &[mov(1, 1), arithmetic(LSH, 1, by)],
            &format!("instruction 1: a shift by {by} bits"),
        );
    }
    refused(&[mov(1, 1), raw(ALU | RSH, 1, 0, 0, 32)], "instruction 1: a shift by 32 bits");
}

#[test]
fn programs_have_a_length() {
    let long = |n: usize| [vec![mov(0, 1)[0]; n - 1], exit()].concat();
    let object = |n| object(&end(), &long(n));
    assert!(Checked::new(&object(MOST_INSTRUCTIONS), CLOCK).is_ok());
    let refused = |object: &[u8]| Checked::new(object, CLOCK).err().unwrap().to_string();
    let says = "pkt: 4097 instructions, and 4096 are the most";
    assert_eq!(refused(&object(MOST_INSTRUCTIONS + 1)), says);
    assert_eq!(refused(&self::object(&end(), &[])), "pkt: 0 bytes are no instructions");
    assert_eq!(refused(&self::object(&[], &end())), "init: 0 bytes are no instructions");
}

/// As many ways as 2 to the power of 1,300: each instruction is looked at once.
#[test]
fn a_check_takes_no_longer_than_the_program_is_long() {
    let fork = [jump(JEQ, 1, 0, 1), arithmetic(ADD, 2, 1)].concat();
    let forks = vec![fork; 1_300].concat();
    let begin = [begin(), load(8, 1, 7, 0), mov(2, 0)].concat();
    let start = std::time::Instant::now();
    taken(&[begin, forks]);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn files_that_are_no_objects_are_refused() {
    let refused = |object: &[u8]| bpf::load(object, CLOCK).err().unwrap().to_string();
    let good = object(&end(), &end());
    assert_eq!(refused(b""), "no ELF object for eBPF");
    assert_eq!(refused(&[0; 4_096]), "no ELF object for eBPF");
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(refused(&own), "no ELF object for eBPF");
    for len in 0..good.len() {
        assert!(bpf::load(&good[..len], CLOCK).is_err(), "{len}");
    }
    // Not the section's name.
    let renamed = String::from_utf8_lossy(&good).replace("init\0", "tini\0");
    assert!(bpf::load(renamed.as_bytes(), CLOCK).is_err());
}

/// Each file of `tests/hostile/programs` is refused as it says.
#[test]
fn files_of_programs_are_refused_as_they_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/programs");
    let mut cases = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let says = text.lines().find_map(|line| line.strip_prefix("# refused: "));
        let (init, pkt) = text.split_once("\npkt:\n").expect("it has a function for packets");
        let init = init.split_once("\ninit:\n").map_or(end(), |(_, init)| listed(init));
        let refused = Checked::new(&object(&init, &listed(pkt)), CLOCK);
        let refused = refused.expect_err("it does harm").to_string();
        assert_eq!(Some(&refused[..]), says, "{}", path.display());
        cases += 1;
    }
    assert!(cases > 10);
}

/// An instruction a line, and the name that it wants.
fn listed(text: &str) -> Lines {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let bytes = words[..8].iter().map(|byte| u8::from_str_radix(byte, 16).unwrap());
        let bytes: Vec<u8> = bytes.collect();
        let name = words.get(8).map(|name| &*name.to_string().leak());
        Line { insn: Insn::parse(bytes.try_into().unwrap()), name }
    };
    lines.map(line).collect()
}
