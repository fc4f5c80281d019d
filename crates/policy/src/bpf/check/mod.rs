//! Checks, before a program runs, that it can do no harm: a program that passes does not read or
//! write outside its own regions, leak an address, or run for ever.
//!
//! ```text
//!  instructions ─► forms: known codes ─► order: no loop, none unreachable
//!               ─► in that order, each once: what registers and stack hold ─► accesses
//! ```
//!
//! | cost | one pass: a program of 4,096 instructions at most, 64 slots and 11 registers at each |
//! |------|--------------------------------------------------------------------------------------|
//!
//! Where paths meet, the check keeps only facts that hold on each path: an address in two regions
//! is no address. A number has bounds, which comparisons narrow; the check follows both sides of a
//! comparison, even an impossible one.
//!
//! Where DPDK is installed, its own check runs after this one. DPDK's check takes fields of the
//! descriptor for numbers of any size, and lets a program write `buf_addr`, `next` and
//! `data_off` (22.11).

mod form;
mod order;
mod range;
mod state;
mod step;

use self::order::{next, order, second_halves};
use self::range::{Range, opposite};
use self::state::{State, Value};
use super::insn::{EXIT, Insn, JMP};
use super::names::{Section, VARIABLES};
use super::refused::{Reason, Refused, Region};

/// What is known of a program that passed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Checked {
    /// The end of what it reads of the packet's buffer; 0 where it reads nothing.
    pub(super) reach: usize,
}

/// Looks a program over.
pub(super) fn check(
    section: Section,
    code: &[Insn],
    values: &[u64; VARIABLES],
) -> Result<Checked, Refused> {
    let refused = |at, reason| Refused { section: Some(section), at: Some(at), reason };
    if code.is_empty() {
        return Err(Refused { section: Some(section), at: None, reason: Reason::Length(0) });
    }
    if code.len() > super::MOST_INSTRUCTIONS {
        let reason = Reason::TooLong(code.len());
        return Err(Refused { section: Some(section), at: None, reason });
    }
    let second = second_halves(code);
    for (at, insn) in code.iter().enumerate() {
        let formed = if second[at] { form::second(insn) } else { form::first(insn) };
        formed.map_err(|reason| refused(at, reason))?;
    }
    let order = order(code, &second).map_err(|(at, reason)| refused(at, reason))?;
    let mut at_start: Vec<Option<Box<State>>> = vec![None; code.len()];
    at_start[0] = Some(Box::new(State::first()));
    let mut pass = step::Pass { section, values, checked: Checked::default() };
    for at in order {
        // Each is behind what leads to it, so that its state is whole and no longer wanted.
        let Some(mut state) = at_start[at].take() else {
            return Err(refused(at, Reason::Unreachable));
        };
        let insn = code[at];
        pass.step(&mut state, insn, code.get(at + 1)).map_err(|reason| refused(at, reason))?;
        let next = next(code, &second, at).map_err(|reason| refused(at, reason))?;
        let mut meet = |to: usize, state: &State| match &mut at_start[to] {
            Some(known) => known.join(state),
            place => *place = Some(Box::new(state.clone())),
        };
        if insn.class() == JMP && insn.op() != EXIT && next.on.is_some() && next.jump.is_some() {
            let mut taken = state.clone();
            narrow(&mut taken, insn, Some(insn.op()));
            next.jump.into_iter().for_each(|to| meet(to, &taken));
            narrow(&mut state, insn, opposite(insn.op()));
        } else {
            next.jump.into_iter().for_each(|to| meet(to, &state));
        }
        next.on.into_iter().for_each(|to| meet(to, &state));
    }
    Ok(pass.checked)
}

/// Takes over what a comparison says of its numbers.
fn narrow(state: &mut State, insn: Insn, holds: Option<u8>) {
    let Some(op) = holds else { return };
    let Ok(Value::Number(a)) = state.read(insn.dst) else { return };
    let b = if insn.by_register() {
        let Ok(Value::Number(b)) = state.read(insn.src) else { return };
        b
    } else {
        Range::exact(insn.wide_imm())
    };
    let (a, b) = Range::where_holds(op, a, b);
    state.narrow(insn.dst, a);
    if insn.by_register() && insn.src != insn.dst {
        state.narrow(insn.src, b);
    }
}

/// Where the packet begins in its buffer.
const DATA_OFF: i64 = super::frame::DATA_OFF as i64;

/// Fields of the descriptor that a program may read.
fn field(at: i64, len: usize) -> Result<Value, Reason> {
    match (at, len) {
        (0, 8) => Ok(Value::Address(Region::Packet, state::Place::ZERO)),
        (16, 2) => Ok(Value::Number(Range::exact(DATA_OFF as u64))),
        (36, 4) => Ok(Value::Number(Range::of_bytes(4))),
        (72..80, _) if at + len as i64 <= 80 => Ok(Value::Number(Range::of_bytes(len))),
        _ => Err(Reason::Field(at, len)),
    }
}
