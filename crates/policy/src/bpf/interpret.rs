//! Runs a program instruction by instruction. The interpreter is always available, and defines
//! the behaviour of compiled programs.
//!
//! An address is a number of the interpreter's own, with the region in its upper byte. Each access
//! is looked up at run time, so a gap in the check could cause no more than a wrong answer.

use super::frame::{BUFFER, DESCRIPTOR};
use super::insn::{
    ADD, ALU, ALU64, AND, ARSH, CALL, DIV, END, EXIT, FRAME, Insn, JA, JEQ, JGE, JGT, JLE, JLT,
    JMP, JNE, JSET, JSGE, JSGT, JSLE, JSLT, LD_IMM64, LDX, LSH, MOD, MOV, MUL, NEG, OR, REGISTERS,
    RSH, ST, STACK, STX, SUB, VARIABLE, XOR,
};
use super::names::{Helper, Prepared, Section, VARIABLES};
use crate::program::Page;

/// A program did what its check should have refused; the number is the instruction's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Fault(pub(super) usize);

/// The memory and the registers of a program.
pub(super) struct Interpreter<'a> {
    pub(super) section: Section,
    pub(super) code: &'a [Insn],
    pub(super) values: &'a [u64; VARIABLES],
    pub(super) context: &'a [u8],
    pub(super) cookie: &'a mut Page,
    pub(super) descriptor: &'a [u8; DESCRIPTOR],
    pub(super) buffer: &'a [u8; BUFFER],
    pub(super) prepared: Prepared,
}

/// The place of the packet's buffer.
pub(super) const BUF_ADDR: u64 = PACKET << SHIFT;

impl Interpreter<'_> {
    /// Runs the program to its end.
    pub(super) fn run(&mut self) -> Result<u64, Fault> {
        let mut registers = [0; REGISTERS];
        let mut stack = [0; STACK];
        registers[1] = CONTEXT << SHIFT;
        registers[usize::from(FRAME)] = (STACK_AT << SHIFT) + STACK as u64;
        let mut at = 0;
        // No instruction runs twice.
        for _ in 0..self.code.len() {
            match self.step(at, &mut registers, &mut stack).ok_or(Fault(at))? {
                Some(next) => at = next,
                None => return Ok(registers[0]),
            }
        }
        Err(Fault(at))
    }

    /// The next instruction, if the program continues; an error is a fault.
    fn step(
        &mut self,
        at: usize,
        registers: &mut [u64; REGISTERS],
        stack: &mut [u8; STACK],
    ) -> Option<Option<usize>> {
        let insn = *self.code.get(at)?;
        let a = *registers.get(usize::from(insn.dst))?;
        let source = usize::from(insn.src);
        let mut next = at + 1;
        let value = match insn.class() {
            _ if insn.code == LD_IMM64 => {
                let high = u64::from(self.code.get(at + 1)?.imm as u32) << 32;
                next += 1;
                match insn.src {
                    VARIABLE => (VARIABLES_AT << SHIFT) + 8 * u64::try_from(insn.imm).ok()?,
                    _ => u64::from(insn.imm as u32) | high,
                }
            }
            LDX => self.load(place(*registers.get(source)?, insn.off), insn.size(), stack)?,
            ST => {
                self.store(place(a, insn.off), insn.wide_imm(), insn.size(), stack)?;
                return Some(Some(next));
            }
            STX => {
                let value = *registers.get(source)?;
                self.store(place(a, insn.off), value, insn.size(), stack)?;
                return Some(Some(next));
            }
            class => {
                // Of a byte order the bit says which; a jump has the same number as that (`JSLE`).
                let orders = class == ALU && insn.op() == END;
                let b = match insn.by_register() && !orders {
                    true => *registers.get(source)?,
                    false => insn.wide_imm(),
                };
                match (class, insn.op()) {
                    (JMP, EXIT) => return Some(None),
                    (JMP, CALL) => {
                        registers[0] = self.call(insn, registers)?;
                        registers[1..=5].fill(0);
                        return Some(Some(next));
                    }
                    (JMP, op) => {
                        if jumps(op, a, b)? {
                            next = usize::try_from(next as i64 + i64::from(insn.off)).ok()?;
                        }
                        return Some(Some(next));
                    }
                    (ALU64, op) => wide(op, a, b)?,
                    (ALU, END) => swapped(insn, a)?,
                    (ALU, op) => narrow(op, a as u32, b as u32)?.into(),
                    _ => return None,
                }
            }
        };
        registers[usize::from(insn.dst)] = value; // it was read above
        Some(Some(next))
    }

    fn call(&mut self, insn: Insn, registers: &[u64; REGISTERS]) -> Option<u64> {
        match self.section.helpers().get(usize::try_from(insn.imm).ok()?)? {
            Helper::Cookie => Some(COOKIE << SHIFT),
            Helper::Descriptor => Some(DESCRIPTOR_AT << SHIFT),
            Helper::Prepare => Some(self.prepared.prepare(registers[2], registers[3])),
        }
    }

    fn load(&self, address: u64, len: usize, stack: &[u8; STACK]) -> Option<u64> {
        let variables = self.values.map(u64::to_le_bytes);
        let region = match address >> SHIFT {
            CONTEXT => self.context,
            COOKIE => &self.cookie[..],
            DESCRIPTOR_AT => &self.descriptor[..],
            PACKET => &self.buffer[..],
            STACK_AT => &stack[..],
            VARIABLES_AT => variables.as_flattened(),
            _ => return None,
        };
        let at = usize::try_from(address & PLACE).ok()?;
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(region.get(at..at.checked_add(len)?)?);
        Some(u64::from_le_bytes(bytes))
    }

    fn store(
        &mut self,
        address: u64,
        value: u64,
        len: usize,
        stack: &mut [u8; STACK],
    ) -> Option<()> {
        let region = match address >> SHIFT {
            COOKIE => &mut self.cookie[..],
            STACK_AT => &mut stack[..],
            _ => return None,
        };
        let at = usize::try_from(address & PLACE).ok()?;
        let place = region.get_mut(at..at.checked_add(len)?)?;
        place.copy_from_slice(&value.to_le_bytes()[..len]);
        Some(())
    }
}

fn place(address: u64, off: i16) -> u64 {
    address.wrapping_add(i64::from(off) as u64)
}

fn jumps(op: u8, a: u64, b: u64) -> Option<bool> {
    let (signed_a, signed_b) = (a as i64, b as i64);
    Some(match op {
        JA => true,
        JEQ => a == b,
        JNE => a != b,
        JGT => a > b,
        JGE => a >= b,
        JLT => a < b,
        JLE => a <= b,
        JSET => a & b != 0,
        JSGT => signed_a > signed_b,
        JSGE => signed_a >= signed_b,
        JSLT => signed_a < signed_b,
        JSLE => signed_a <= signed_b,
        _ => return None,
    })
}

/// 64-bit arithmetic. A shift uses the lowest six bits of its count.
fn wide(op: u8, a: u64, b: u64) -> Option<u64> {
    Some(match op {
        ADD => a.wrapping_add(b),
        SUB => a.wrapping_sub(b),
        MUL => a.wrapping_mul(b),
        DIV => a.checked_div(b)?,
        MOD => a.checked_rem(b)?,
        OR => a | b,
        AND => a & b,
        XOR => a ^ b,
        LSH => a.wrapping_shl(b as u32),
        RSH => a.wrapping_shr(b as u32),
        ARSH => (a as i64).wrapping_shr(b as u32) as u64,
        NEG => a.wrapping_neg(),
        MOV => b,
        _ => return None,
    })
}

/// 32-bit arithmetic. A shift uses the lowest five bits of its count.
fn narrow(op: u8, a: u32, b: u32) -> Option<u32> {
    Some(match op {
        ADD => a.wrapping_add(b),
        SUB => a.wrapping_sub(b),
        MUL => a.wrapping_mul(b),
        DIV => a.checked_div(b)?,
        MOD => a.checked_rem(b)?,
        OR => a | b,
        AND => a & b,
        XOR => a ^ b,
        LSH => a.wrapping_shl(b),
        RSH => a.wrapping_shr(b),
        ARSH => (a as i32).wrapping_shr(b) as u32,
        NEG => a.wrapping_neg(),
        MOV => b,
        _ => return None,
    })
}

fn swapped(insn: Insn, a: u64) -> Option<u64> {
    Some(match (insn.imm, insn.by_register()) {
        (16, true) => (a as u16).swap_bytes().into(),
        (32, true) => (a as u32).swap_bytes().into(),
        (64, true) => a.swap_bytes(),
        (16, false) => (a as u16).into(),
        (32, false) => (a as u32).into(),
        (64, false) => a,
        _ => return None,
    })
}

const SHIFT: u32 = 56;
const PLACE: u64 = (1 << SHIFT) - 1;
const CONTEXT: u64 = 1;
const COOKIE: u64 = 2;
const DESCRIPTOR_AT: u64 = 3;
const PACKET: u64 = 4;
const STACK_AT: u64 = 5;
const VARIABLES_AT: u64 = 6;
