//! What an instruction makes of what is known, and whether it may run.

use super::range::Range;
use super::state::{Place, State, Value};
use super::{Checked, DATA_OFF, field};
use crate::bpf::frame::BUFFER;
use crate::bpf::insn::{
    ADD, ALU, ALU64, ARSH, CALL, DIV, END, EXIT, Insn, JA, JEQ, JMP, JNE, LD_IMM64, LDX, LSH, MOD,
    MOV, NEG, RSH, ST, SUB, VARIABLE,
};
use crate::bpf::names::{Helper, Section, VARIABLES};
use crate::bpf::refused::{Reason, Region};
use crate::program::Page;

/// One pass over a program.
pub(super) struct Pass<'a> {
    pub(super) section: Section,
    pub(super) values: &'a [u64; VARIABLES],
    pub(super) checked: Checked,
}

impl Pass<'_> {
    /// The instruction runs. `second` is what follows it.
    pub(super) fn step(
        &mut self,
        state: &mut State,
        insn: Insn,
        second: Option<&Insn>,
    ) -> Result<(), Reason> {
        match insn.class() {
            _ if insn.code == LD_IMM64 => {
                let value = wide(insn, second)?;
                state.write(insn.dst, value)
            }
            LDX => {
                let value = self.load(state, insn)?;
                state.write(insn.dst, value)
            }
            ALU | ALU64 => {
                let value = arithmetic(state, insn)?;
                state.write(insn.dst, value)
            }
            JMP => match insn.op() {
                JA => Ok(()),
                CALL => self.call(state, insn),
                EXIT => state.number(0, Reason::AddressLeaks).map(drop),
                _ => compare(state, insn),
            },
            _ => store(state, insn),
        }
    }

    fn load(&mut self, state: &State, insn: Insn) -> Result<Value, Reason> {
        let (region, place) = address(state, insn.src, insn.off)?;
        let len = insn.size();
        let number = Value::Number(Range::of_bytes(len));
        match region {
            Region::Stack => state.load_stack(place, len),
            Region::Context => within(region, place, len, 0, self.section.context_len(), number),
            Region::Cookie => within(region, place, len, 0, size_of::<Page>(), number),
            Region::Descriptor if place.min == place.max => field(place.min, len),
            Region::Descriptor => Err(Reason::Outside(region, place.min, place.bytes(len).1)),
            Region::Packet => {
                let value = within(region, place, len, DATA_OFF, BUFFER, number)?;
                let end = place.bytes(len).1 as usize + 1; // it is within the buffer
                self.checked.reach = self.checked.reach.max(end);
                Ok(value)
            }
            Region::Variable(n) => {
                let exact = self.values.get(usize::from(n)).filter(|_| len == 8);
                let value = exact.map_or(number, |&value| Value::Number(Range::exact(value)));
                within(region, place, len, 0, 8, value)
            }
        }
    }

    fn call(&self, state: &mut State, insn: Insn) -> Result<(), Reason> {
        let helper = usize::try_from(insn.imm).ok().and_then(|n| self.section.helpers().get(n));
        let helper = helper.ok_or(Reason::UnknownHelper)?;
        if state.read(1)? != Value::Address(Region::Context, Place::ZERO) {
            return Err(Reason::Argument(1));
        }
        let found = match helper {
            Helper::Cookie => Value::Address(Region::Cookie, Place::ZERO),
            Helper::Descriptor => Value::Address(Region::Descriptor, Place::ZERO),
            Helper::Prepare => {
                state.number(2, |_| Reason::Argument(2))?;
                state.number(3, |_| Reason::Argument(3))?;
                Value::Number(Range::ALL)
            }
        };
        state.called();
        state.write(0, found)
    }
}

/// A wide immediate.
fn wide(insn: Insn, second: Option<&Insn>) -> Result<Value, Reason> {
    let high = second.ok_or(Reason::Jump)?.imm;
    if insn.src != VARIABLE {
        let number = u64::from(insn.imm as u32) | u64::from(high as u32) << 32;
        return Ok(Value::Number(Range::exact(number)));
    }
    let n = usize::try_from(insn.imm).ok().filter(|n| *n < VARIABLES && high == 0);
    let n = n.ok_or(Reason::UnknownName)?;
    Ok(Value::Address(Region::Variable(n as u8), Place::ZERO)) // two at most
}

/// Where a load or a store goes.
fn address(state: &State, register: u8, off: i16) -> Result<(Region, Place), Reason> {
    match state.read(register)? {
        Value::Address(region, place) => {
            let off = Range::exact(i64::from(off) as u64);
            Ok((region, place.moved(off, false)))
        }
        _ => Err(Reason::NoAddress(register)),
    }
}

/// `value`, if all bytes lie from `from` to before `end`.
fn within(
    region: Region,
    place: Place,
    len: usize,
    from: i64,
    end: usize,
    value: Value,
) -> Result<Value, Reason> {
    let (first, last) = place.bytes(len);
    if first < from || last >= end as i64 {
        return Err(Reason::Outside(region, first, last));
    }
    Ok(value)
}

fn store(state: &mut State, insn: Insn) -> Result<(), Reason> {
    let (region, place) = address(state, insn.dst, insn.off)?;
    let len = insn.size();
    let value = if insn.class() == ST {
        let number = insn.wide_imm() & Range::of_bytes(len).max;
        Value::Number(Range::exact(number))
    } else {
        state.read(insn.src)?
    };
    match (region, value) {
        (Region::Stack, value) => state.store_stack(place, len, value),
        (Region::Cookie, Value::Address(of, _)) => Err(Reason::AddressLeaks(of)),
        (Region::Cookie, _) => within(region, place, len, 0, size_of::<Page>(), value).map(drop),
        _ => Err(Reason::ReadOnly(region)),
    }
}

fn arithmetic(state: &State, insn: Insn) -> Result<Value, Reason> {
    let wide = insn.class() == ALU64;
    let op = insn.op();
    let by = match op {
        NEG | END => Value::Number(Range::exact(0)),
        _ if insn.by_register() => state.read(insn.src)?,
        _ => Value::Number(Range::exact(insn.wide_imm())),
    };
    if op == MOV {
        return match by {
            Value::Number(range) => Ok(Value::Number(if wide { range } else { range.low() })),
            Value::Address(region, _) if !wide => Err(Reason::AddressArithmetic(region)),
            value => Ok(value),
        };
    }
    match (state.read(insn.dst)?, by) {
        (Value::Number(a), Value::Number(b)) => number(insn, a, b).map(Value::Number),
        (Value::Address(region, place), Value::Number(by)) if wide && matches!(op, ADD | SUB) => {
            Ok(Value::Address(region, place.moved(by, op == SUB)))
        }
        (Value::Number(by), Value::Address(region, place)) if wide && op == ADD => {
            Ok(Value::Address(region, place.moved(by, false)))
        }
        (Value::Address(region, _), _) | (_, Value::Address(region, _)) => {
            Err(Reason::AddressArithmetic(region))
        }
        _ => Err(Reason::Uninitialised(insn.dst)),
    }
}

/// What is known of a number behind an operation.
fn number(insn: Insn, a: Range, b: Range) -> Result<Range, Reason> {
    let op = insn.op();
    if op == END {
        return Ok(Range::of_bytes(insn.imm as usize / 8)); // 16, 32 or 64: its form was looked at
    }
    if op == NEG {
        return Ok(if insn.class() == ALU { Range::ALL.low() } else { Range::ALL });
    }
    let wide = insn.class() == ALU64;
    let (a, b) = if wide { (a, b) } else { (a.low(), b.low()) };
    if matches!(op, DIV | MOD) && b.min == 0 {
        return Err(Reason::DivisionByZero);
    }
    if wide {
        return Ok(a.after(op, b));
    }
    let whole = b.max < 32 && (op != ARSH || a.max <= i32::MAX as u64);
    Ok(match op {
        RSH if !whole => Range { min: 0, max: a.max },
        LSH | ARSH if !whole => Range::ALL.low(),
        _ => a.after(op, b).low(),
    })
}

fn compare(state: &State, insn: Insn) -> Result<(), Reason> {
    let by = if insn.by_register() {
        state.read(insn.src)?
    } else {
        Value::Number(Range::exact(insn.wide_imm()))
    };
    match (state.read(insn.dst)?, by) {
        (Value::Number(_), Value::Number(_)) => Ok(()),
        // A helper's answer is never 0, whatever the engine; what it was moved to may be.
        (Value::Address(_, Place::ZERO), Value::Number(Range { min: 0, max: 0 }))
            if matches!(insn.op(), JEQ | JNE) && !insn.by_register() =>
        {
            Ok(())
        }
        (Value::Address(region, _), _) | (_, Value::Address(region, _)) => {
            Err(Reason::AddressCompared(region))
        }
        _ => Err(Reason::Uninitialised(insn.dst)),
    }
}
