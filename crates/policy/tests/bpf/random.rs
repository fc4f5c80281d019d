//! Random programs, of which the check takes most pieces.

use policy::bpf::assemble::*;
use policy::bpf::insn::*;
use policy::bpf::{Checked, Refused};
use proptest::prelude::*;
use proptest::sample::select;

use super::CLOCK;
use super::packets::{Frame, tcp, v4, v6};

/// r6 is the context, r7 the cookie, r8 the descriptor, r9 the packet's first byte; the
/// others are numbers from the cookie.
pub fn begin() -> Lines {
    let pages = [copy(6, 1), call("pkt_ctx_to_cookie"), copy(7, 0), copy(1, 6)].concat();
    let packet = [call("pkt_ctx_to_pkt"), copy(8, 0), load(8, 9, 8, 0)].concat();
    let data = [load(2, 1, 8, 16), arithmetic_by(ADD, 9, 1)].concat();
    let numbers = (0..6_u8).flat_map(|n| load(8, n, 7, 8 * i16::from(n)));
    [pages, packet, data, numbers.collect()].concat()
}

/// Some pieces of programs: most of them are good ones.
pub fn piece() -> impl Strategy<Value = Lines> {
    let number = || 0..6_u8;
    let one = || prop_oneof![12 => 0..6_u8, 1 => 6..11_u8];
    let op = || select(vec![ADD, SUB, MUL, OR, AND, LSH, RSH, NEG, XOR, MOV, ARSH, DIV, MOD, END]);
    let imm = || {
        let near = -2..70_i32;
        let powers = (0..31_u32, -1..2_i32).prop_map(|(bit, beside)| (1 << bit) + beside);
        prop_oneof![3 => near, 2 => powers, 1 => any::<i32>()]
    };
    let len = || select(vec![1_usize, 2, 4, 8]);
    let class = || select(vec![ALU, ALU64, ALU64]);
    let jump_op = || select(vec![JEQ, JNE, JGT, JGE, JLT, JLE, JSET, JSGT, JSGE, JSLT, JSLE]);
    let with_imm = (class(), op(), one(), imm()).prop_map(|(class, op, dst, imm)| {
        let imm = if op == END { [16, 32, 64][imm.unsigned_abs() as usize % 3] } else { imm };
        let imm = if matches!(op, LSH | RSH | ARSH) { imm & 31 } else { imm };
        let (class, imm) = if op == END { (ALU, imm) } else { (class, imm) };
        raw(class | op, dst, 0, 0, if op == NEG { 0 } else { imm })
    });
    let by_register = (class(), op(), one(), one()).prop_map(|(class, op, dst, src)| match op {
        END => raw(ALU | END | X, dst, 0, 0, 32),
        NEG => raw(class | NEG, dst, 0, 0, 0),
        // A divisor that is known not to be 0.
        DIV | MOD => [raw(class | OR, src, 0, 0, 1), raw(class | op | X, dst, src, 0, 0)].concat(),
        _ => raw(class | op | X, dst, src, 0, 0),
    });
    let skip = (jump_op(), one(), one(), imm(), any::<bool>(), 0..6_i16).prop_map(
        |(op, dst, src, imm, by, off)| match by {
            true => jump_by(op, dst, src, off),
            false => jump(op, dst, imm, off),
        },
    );
    let cookie_load =
        (len(), number(), -2..66_i16).prop_map(|(len, dst, off)| load(len, dst, 7, off));
    let cookie_store =
        (len(), one(), 0..60_i16).prop_map(|(len, src, off)| store(len, 7, off, src));
    let stack = (len(), one(), 0..8_i16, any::<bool>()).prop_map(|(len, n, slot, stores)| {
        let off = -8 * slot - len as i16;
        if stores { store(len, 10, off, n) } else { load(len, n.min(5), 10, off) }
    });
    let filled = (number(), 1..9_i16).prop_map(|(n, slot)| {
        [store(8, 10, -8 * slot, n), load(8, (n + 1) % 6, 10, -8 * slot)].concat()
    });
    let context = (len(), number(), 0..24_i16).prop_map(|(len, dst, off)| load(len, dst, 6, off));
    let field = (number(), select(vec![(4_usize, 36), (2, 72), (1, 74), (8, 72), (2, 16)]));
    let field = field.prop_map(|(dst, (len, off))| load(len, dst, 8, off));
    let packet = (len(), number(), 0..1_030_i16).prop_map(|(len, dst, off)| load(len, dst, 9, off));
    // To a place that a number says, which is bounded, mostly.
    let indexed = (
        len(),
        number(),
        select(vec![63, 32, 127, 1_023, -1]),
        select(vec![7_u8, 9]),
        any::<bool>(),
    );
    let indexed = indexed.prop_map(|(len, n, mask, base, stores)| {
        let other = (n + 1) % 6;
        let at =
            [arithmetic(AND, n, mask), copy(other, base), arithmetic_by(ADD, other, n)].concat();
        let access = if stores { store(len, other, 0, n) } else { load(len, n, other, 0) };
        [at, access, mov(other, 3)].concat()
    });
    let clock = (number(), select(vec!["cycles_per_sec", "cycles_per_ms"]));
    let clock = clock.prop_map(|(dst, name)| [variable(dst, name), load(8, dst, dst, 0)].concat());
    let big = (number(), any::<u64>()).prop_map(|(dst, number)| wide(dst, number));
    let prepare = (0..70_i32, any::<bool>()).prop_map(|(priority, direct)| {
        let arguments = [copy(1, 6), mov(2, priority), mov(3, direct.into())].concat();
        let numbers = (1..6_u8).flat_map(|n| mov(n, n.into())).collect();
        [arguments, call("gk_bpf_prep_for_tx"), numbers].concat()
    });
    prop_oneof![
        5 => with_imm, 5 => by_register, 5 => skip, 2 => cookie_load, 3 => cookie_store, 1 => stack,
        2 => filled, 1 => context, 2 => field, 1 => packet, 3 => indexed, 1 => clock, 1 => big,
        1 => prepare,
    ]
}

/// All numbers go into the cookie, and the answer is the lowest bits of one.
pub fn end() -> Lines {
    let numbers = (0..6_u8).flat_map(|n| store(8, 7, 8 * i16::from(n), n));
    [numbers.collect(), arithmetic(AND, 0, 3), exit()].concat()
}

/// `pkt` behind an `init` that does nothing.
pub fn made(lines: &[Line]) -> Result<Checked, Refused> {
    Checked::new(&object(&[mov(0, 0), exit()].concat(), lines), CLOCK)
}

/// A program of pieces that the check took, one after the other: what it refuses is left out.
pub fn grown(pieces: &[Lines]) -> (Lines, Checked) {
    // Jumps lead over as much as follows, and there is always enough of it.
    let tail = [(0..8).flat_map(|_| mov(5, 1)).collect(), end()].concat();
    let made = |lines: &Lines| made(&[&lines[..], &tail].concat());
    let mut lines = begin();
    let mut checked = made(&lines).unwrap();
    for piece in pieces {
        let more = [&lines[..], piece].concat();
        if let Ok(taken) = made(&more) {
            (lines, checked) = (more, taken);
        }
    }
    ([lines, tail].concat(), checked)
}

/// A packet each of IPv4, IPv4 with a tag and options, IPv6.
pub fn frames() -> Vec<Frame> {
    let mut long = tcp(1, 2, 3);
    long.bytes.extend((0..1_500).map(|n| n as u8));
    vec![v4(&tcp(80, 443, 2), 0, 0), v4(&long, 5, 1), v6(&long, 3, 2)]
}
