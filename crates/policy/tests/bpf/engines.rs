//! Random programs: what the check takes never errs in the interpreter, which looks at each
//! access.

use policy::bpf::Engine;
use policy::bpf::assemble::*;
use policy::bpf::insn::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::cookie;
use super::random::{begin, end, frames, grown, made, piece};

/// Numbers that meet at their ends, signed and not.
const NUMBERS: [u64; 7] = [0, 1, 7, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX];

/// `JSLE` has the number that byte orders have in another class.
#[test]
fn comparisons_are_what_they_are_called() {
    type Is = fn(u64, u64) -> bool;
    let all: [(u8, Is); 11] = [
        (JEQ, |a, b| a == b),
        (JNE, |a, b| a != b),
        (JGT, |a, b| a > b),
        (JGE, |a, b| a >= b),
        (JLT, |a, b| a < b),
        (JLE, |a, b| a <= b),
        (JSET, |a, b| a & b != 0),
        (JSGT, |a, b| a as i64 > b as i64),
        (JSGE, |a, b| a as i64 >= b as i64),
        (JSLT, |a, b| (a as i64) < b as i64),
        (JSLE, |a, b| a as i64 <= b as i64),
    ];
    let frame = &frames()[0];
    let pairs = || NUMBERS.iter().flat_map(|a| NUMBERS.map(|b| (*a, b)));
    for ((op, is), (a, b)) in all.into_iter().flat_map(|one| pairs().map(move |pair| (one, pair))) {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&a.to_le_bytes());
        seed[8..].copy_from_slice(&b.to_le_bytes());
        let by_number = i32::try_from(b as i64).ok().map(|b| jump(op, 0, b, 1));
        for jump in [Some(jump_by(op, 0, 1, 1)), by_number].into_iter().flatten() {
            let lines = [begin(), mov(2, 1), jump, mov(2, 0), end()].concat();
            let mut page = cookie(&seed);
            made(&lines).unwrap().try_packet(&frame.arrival(1), 9, &mut page).unwrap();
            assert_eq!(page[16], is(a, b).into(), "{op:#04x} of {a} and {b}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_taken_does_no_harm(
        pieces in vec(piece(), 1..50), seed in vec(any::<u8>(), 64), now in any::<u64>()
    ) {
        let (_, checked) = grown(&pieces);
        let interpreted = checked.by(Engine::Interpreter).unwrap();
        // DPDK's compiler is trusted with programs of ours alone.
        prop_assert!(checked.by(Engine::Compiled).is_none());
        for frame in frames() {
            let arrival = frame.arrival(now);
            let mut pages = [cookie(&seed); 2];
            let given = checked.try_packet(&arrival, 9, &mut pages[0]);
            prop_assert!(given.is_some(), "the check took what it should not have");
            interpreted.packet(&arrival, 9, &mut pages[1]);
            prop_assert_eq!(pages[0], pages[1]);
        }
    }
}
