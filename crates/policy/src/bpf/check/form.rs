//! Whether an instruction is one: known code, nothing in fields that it does not use.

use crate::bpf::insn::{
    ADD, ALU, ALU64, ARSH, CALL, END, EXIT, FRAME, Insn, JA, JEQ, JLT, JMP, JSGE, JSLE, LD_IMM64,
    LDX, LSH, MEM, NEG, RSH, ST, STX, VARIABLE, X,
};
use crate::bpf::refused::Reason;

/// An instruction, or the first half of a wide one. Registers that it reads are looked at
/// where it runs.
pub(super) fn first(insn: &Insn) -> Result<(), Reason> {
    let unknown = Err(Reason::Opcode(insn.code));
    // What is used: registers, offset, immediate.
    let (dst, src, off, imm) = match insn.class() {
        _ if insn.code == LD_IMM64 => (true, insn.src == VARIABLE, false, true),
        LDX if insn.code & 0xe0 == MEM => (true, true, true, false),
        ST if insn.code & 0xe0 == MEM => (true, false, true, true),
        STX if insn.code & 0xe0 == MEM => (true, true, true, false),
        ALU | ALU64 => match insn.op() {
            NEG if insn.by_register() => return unknown,
            NEG => (true, false, false, false),
            END if insn.class() == ALU64 => return unknown,
            END if ![16, 32, 64].contains(&insn.imm) => return Err(Reason::Unused),
            END => (true, false, false, true),
            LSH | RSH | ARSH if !insn.by_register() => {
                let bits = if insn.class() == ALU { 32 } else { 64 };
                if !(0..bits).contains(&insn.imm) {
                    return Err(Reason::Shift(insn.imm));
                }
                (true, false, false, true)
            }
            ADD..=ARSH => (true, insn.by_register(), false, !insn.by_register()),
            _ => return unknown,
        },
        JMP => match insn.op() {
            JA | CALL | EXIT if insn.by_register() => return unknown,
            JA => (false, false, true, false),
            CALL => (false, false, false, true),
            EXIT => (false, false, false, false),
            JEQ..=JSGE | JLT..=JSLE => (true, insn.code & X != 0, true, insn.code & X == 0),
            _ => return unknown,
        },
        _ => return unknown,
    };
    let zero = |used: bool, value: i32| used || value == 0;
    let unused = zero(dst, insn.dst.into()) && zero(src, insn.src.into());
    if !(unused && zero(off, insn.off.into()) && zero(imm, insn.imm)) {
        return Err(Reason::Unused);
    }
    let variable = insn.code == LD_IMM64;
    match [(dst, insn.dst), (src && !variable, insn.src)]
        .iter()
        .find(|(used, n)| *used && *n > FRAME)
    {
        Some(&(_, n)) => Err(Reason::Register(n)),
        None => Ok(()),
    }
}

/// The second half of a wide instruction.
pub(super) fn second(insn: &Insn) -> Result<(), Reason> {
    match *insn {
        Insn { code: 0, dst: 0, src: 0, off: 0, .. } => Ok(()),
        Insn { code: 0, .. } => Err(Reason::Unused),
        Insn { code, .. } => Err(Reason::Opcode(code)),
    }
}
