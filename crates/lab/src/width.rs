//! How much of a core there is: the instructions that it does in a cycle.
//!
//! Two hardware threads of one core take turns at its front end, cycle by cycle. A loop of
//! instructions that wait for nothing does as many in a cycle as the front end can give it,
//! mostly six; beside a neighbour about half of them, whatever the neighbour does. A loop of
//! vector instructions would not show it: of these a core does three a cycle, and has them
//! still if the front end gives three.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::clock::chain_ghz;

/// How many instructions a cycle the core does now, in 3 µs: the best of two short loops, over
/// the clock. The clock is measured before and after the loops: where it rises meanwhile, as after
/// a pause, or the host takes the core away, the loops would seem to do more than they can.
pub fn width() -> f64 {
    let before = chain_ghz(LINKS);
    let loops = loop_rate().max(loop_rate());
    let width = loops / before.max(chain_ghz(LINKS)).max(1e-9);
    WIDTHS[((width * STEPS) as usize).min(WIDTHS.len() - 1)].fetch_add(1, Ordering::Relaxed);
    width
}

/// The least [`width`] of a core that nobody else uses: clearly less than the most that was found
/// in this process.
pub fn quiet() -> f64 {
    QUIET * widest()
}

/// The largest [`width`] found in this process, but for the largest hundredth: one that was wrong
/// must not decide what all others are compared with.
fn widest() -> f64 {
    let counts = || WIDTHS.iter().map(|count| count.load(Ordering::Relaxed));
    let (mut above, most) = (0, counts().sum::<u32>() / 100);
    let of_them = |(_, count): &(usize, u32)| {
        above += count;
        above > most
    };
    let found = (0..WIDTHS.len()).rev().zip(counts().rev()).find(of_them);
    found.map_or(0.0, |(step, _)| step as f64 / STEPS)
}

/// Instructions a nanosecond.
fn loop_rate() -> f64 {
    let start = Instant::now();
    wide(ROUNDS);
    f64::from(ROUNDS * A_ROUND) / start.elapsed().as_nanos().max(1) as f64
}

/// So many rounds of [`A_ROUND`] instructions that wait for nothing: of six, five use as many
/// units for whole numbers as a core has, and one none.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn wide(rounds: u32) {
    macro_rules! six {
        () => {
            "add {a}, {k}\nadd {b}, {k}\nadd {c}, {k}\nadd {d}, {k}\nadd {e}, {k}\nnop\n"
        };
    }
    let [mut a, mut b, mut c, mut d, mut e] = [1_u64; 5];
    for _ in 0..rounds {
        // SAFETY: it changes but the registers and flags that it says it does.
        unsafe {
            std::arch::asm!(
                six!(), six!(), six!(), six!(), six!(), six!(), six!(), six!(),
                a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d,
                e = inout(reg) e, k = in(reg) 7_u64,
                options(nomem, nostack),
            );
        }
    }
}

/// As many operations in chains that do not wait for each other.
#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
fn wide(rounds: u32) {
    let (mut lanes, add, flip) = ([1_u64; 24], std::hint::black_box(3), std::hint::black_box(5));
    for _ in 0..rounds {
        lanes.iter_mut().for_each(|x| *x = x.wrapping_add(add) ^ flip);
    }
    std::hint::black_box(lanes);
}

const ROUNDS: u32 = 250;
const A_ROUND: u32 = 48;
/// Of a chain that shows the clock: 0.7 µs.
const LINKS: u32 = 2_000;

/// The share of the core's best beside which nobody else uses it.
const QUIET: f64 = 0.85;

/// How often each width was found, in steps of a hundredth.
static WIDTHS: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];
const STEPS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_a_plausible_width() {
        // A debug build makes the chain slower, at several instructions a link.
        assert!(width() > 0.5, "{}", width());
        // One that was wrong: of a hundred, it decides nothing.
        WIDTHS[4000].fetch_add(1, Ordering::Relaxed);
        for _ in 0..200 {
            width();
        }
        assert!((0.5..39.0).contains(&widest()) && quiet() < widest(), "{}", widest());
    }
}
