//! What is known at a place of a program: of each register, and of the stack.

use super::range::Range;
use crate::bpf::insn::{FRAME, REGISTERS, STACK};
use crate::bpf::refused::{Reason, Region};

/// What a register or a slot of the stack holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Value {
    /// Nothing that may be read.
    None,
    Number(Range),
    /// An address: so far from where the region begins, of the stack from where it ends.
    Address(Region, Place),
}

/// Distances, both ends among them; [`i64::MIN`] and [`i64::MAX`] for what nothing bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) min: i64,
    pub(super) max: i64,
}

impl Place {
    pub(super) const ZERO: Place = Place { min: 0, max: 0 };
    const ANYWHERE: Place = Place { min: i64::MIN, max: i64::MAX };

    /// Moved by a number, towards the end or, with `back`, towards the start.
    pub(super) fn moved(self, by: Range, back: bool) -> Place {
        let Some((min, max)) = by.signed() else { return Place::ANYWHERE };
        let moved = if back {
            self.min.checked_sub(max).zip(self.max.checked_sub(min))
        } else {
            self.min.checked_add(min).zip(self.max.checked_add(max))
        };
        // A place that nothing bounds stays one: sums with its ends mean nothing.
        let known = self.min != i64::MIN && self.max != i64::MAX;
        moved.filter(|_| known).map_or(Place::ANYWHERE, |(min, max)| Place { min, max })
    }

    /// First and last of `len` bytes.
    pub(super) fn bytes(self, len: usize) -> (i64, i64) {
        (self.min, self.max.saturating_add(len as i64 - 1))
    }
}

impl Value {
    fn join(self, other: Value) -> Value {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => Value::Number(a.join(b)),
            (Value::Address(a, p), Value::Address(b, q)) if a == b => {
                Value::Address(a, Place { min: p.min.min(q.min), max: p.max.max(q.max) })
            }
            _ => Value::None,
        }
    }
}

/// Eight bytes of the stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot {
    /// Which bytes were written. All, where the value is an address.
    written: u8,
    /// What all eight bytes hold together; [`Value::None`] where none was written.
    value: Value,
}

impl Slot {
    const EMPTY: Slot = Slot { written: 0, value: Value::None };

    fn join(self, other: Slot) -> Slot {
        match self.value.join(other.value) {
            Value::None => Slot::EMPTY,
            value => Slot { written: self.written & other.written, value },
        }
    }
}

/// What is known where an instruction begins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct State {
    registers: [Value; REGISTERS],
    stack: [Slot; STACK / 8],
}

impl State {
    /// Where a program begins: the context's address, and the stack's.
    pub(super) fn first() -> State {
        let mut registers = [Value::None; REGISTERS];
        registers[1] = Value::Address(Region::Context, Place::ZERO);
        registers[usize::from(FRAME)] = Value::Address(Region::Stack, Place::ZERO);
        State { registers, stack: [Slot::EMPTY; STACK / 8] }
    }

    /// What is known on both ways that meet here.
    pub(super) fn join(&mut self, other: &State) {
        for (one, other) in self.registers.iter_mut().zip(&other.registers) {
            *one = one.join(*other);
        }
        for (one, other) in self.stack.iter_mut().zip(&other.stack) {
            *one = one.join(*other);
        }
    }

    /// A register's value.
    pub(super) fn read(&self, register: u8) -> Result<Value, Reason> {
        match self.registers.get(usize::from(register)) {
            None => Err(Reason::Register(register)),
            Some(Value::None) => Err(Reason::Uninitialised(register)),
            Some(&value) => Ok(value),
        }
    }

    /// A register that has to be a number.
    pub(super) fn number(
        &self,
        register: u8,
        leaks: fn(Region) -> Reason,
    ) -> Result<Range, Reason> {
        match self.read(register)? {
            Value::Number(range) => Ok(range),
            Value::Address(region, _) => Err(leaks(region)),
            Value::None => Err(Reason::Uninitialised(register)),
        }
    }

    pub(super) fn write(&mut self, register: u8, value: Value) -> Result<(), Reason> {
        let frame = register == FRAME;
        let place = self.registers.get_mut(usize::from(register)).filter(|_| !frame);
        *place.ok_or(Reason::Register(register))? = value;
        Ok(())
    }

    /// More is known of a register's number.
    pub(super) fn narrow(&mut self, register: u8, range: Range) {
        if let Some(Value::Number(known)) = self.registers.get_mut(usize::from(register)) {
            *known = range;
        }
    }

    /// Registers that a call leaves without a value.
    pub(super) fn called(&mut self) {
        self.registers[1..=5].fill(Value::None);
    }

    /// What lies at a place of the stack.
    pub(super) fn load_stack(&self, place: Place, len: usize) -> Result<Value, Reason> {
        let (slot, bytes) = slot(place, len)?;
        let Slot { written, value } = self.stack[slot];
        if written & bytes != bytes {
            return Err(Reason::UninitialisedStack(place.min));
        }
        match value {
            value if len == 8 => Ok(value),
            Value::Address(region, _) => Err(Reason::AddressArithmetic(region)),
            _ => Ok(Value::Number(Range::of_bytes(len))),
        }
    }

    /// Puts a value there.
    pub(super) fn store_stack(
        &mut self,
        place: Place,
        len: usize,
        value: Value,
    ) -> Result<(), Reason> {
        let (slot, bytes) = slot(place, len)?;
        let slot = &mut self.stack[slot];
        *slot = match (value, slot.value) {
            (value, _) if len == 8 => Slot { written: 0xff, value },
            (Value::Address(region, _), _) => return Err(Reason::AddressArithmetic(region)),
            // What is left of an address is not to be read.
            (_, Value::Address(..)) => Slot { written: bytes, value: Value::Number(Range::ALL) },
            _ => Slot { written: slot.written | bytes, value: Value::Number(Range::ALL) },
        };
        Ok(())
    }
}

/// The slot of a place, and which of its bytes.
fn slot(place: Place, len: usize) -> Result<(usize, u8), Reason> {
    let (from, to) = place.bytes(len);
    if from < -(STACK as i64) || to >= 0 {
        return Err(Reason::Outside(Region::Stack, from, to));
    }
    let at = (from + STACK as i64) as usize;
    if place.min != place.max || !at.is_multiple_of(len) {
        return Err(Reason::StackPlace);
    }
    Ok((at / 8, (((1_u16 << len) - 1) << (at % 8)) as u8))
}
