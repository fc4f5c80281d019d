//! In which order the instructions can run: none before those that lead to it.

use crate::bpf::insn::{CALL, EXIT, Insn, JA, JMP, LD_IMM64};
use crate::bpf::refused::Reason;

/// Where an instruction leads: on, and by a jump.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Next {
    pub(super) on: Option<usize>,
    pub(super) jump: Option<usize>,
}

/// Where the instruction at `at` leads. Each place is one at which an instruction begins.
pub(super) fn next(code: &[Insn], second: &[bool], at: usize) -> Result<Next, Reason> {
    let insn = code[at];
    let to = |by: i64| {
        let to = usize::try_from(at as i64 + by).ok();
        to.filter(|to| second.get(*to) == Some(&false)).ok_or(Reason::Jump).map(Some)
    };
    let jump = 1 + i64::from(insn.off);
    match (insn.class(), insn.op()) {
        (JMP, EXIT) => Ok(Next::default()),
        (JMP, JA) => Ok(Next { on: None, jump: to(jump)? }),
        (JMP, op) if op != CALL => Ok(Next { on: to(1)?, jump: to(jump)? }),
        _ if insn.code == LD_IMM64 => Ok(Next { on: to(2)?, jump: None }),
        _ => Ok(Next { on: to(1)?, jump: None }),
    }
}

/// Which instructions are the second half of one before.
pub(super) fn second_halves(code: &[Insn]) -> Vec<bool> {
    let mut second = vec![false; code.len()];
    for at in 1..code.len() {
        second[at] = code[at - 1].code == LD_IMM64 && !second[at - 1];
    }
    second
}

/// All instructions, each behind all that lead to it.
pub(super) fn order(code: &[Insn], second: &[bool]) -> Result<Vec<usize>, (usize, Reason)> {
    let mut seen = vec![Seen::Not; code.len()];
    let mut order = Vec::with_capacity(code.len());
    // Depth first: an instruction, and how many of its ways have been gone.
    let mut open = vec![(0, 0)];
    seen[0] = Seen::Open;
    while let Some((at, gone)) = open.last_mut() {
        let at = *at;
        let Next { on, jump } = next(code, second, at).map_err(|reason| (at, reason))?;
        let way = [on, jump].get(*gone).copied();
        *gone += 1;
        match way {
            Some(Some(to)) => match seen[to] {
                Seen::Not => {
                    seen[to] = Seen::Open;
                    open.push((to, 0));
                }
                Seen::Open => return Err((at, Reason::Loop)),
                Seen::Done => {}
            },
            Some(None) => {}
            None => {
                seen[at] = Seen::Done;
                order.push(at);
                open.pop();
            }
        }
    }
    let missed = (0..code.len()).find(|&at| seen[at] == Seen::Not && !second[at]);
    match missed {
        Some(at) => Err((at, Reason::Unreachable)),
        None => {
            order.reverse();
            Ok(order)
        }
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Seen {
    Not,
    Open,
    Done,
}
