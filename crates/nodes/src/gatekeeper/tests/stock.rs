//! The stock program `granted` does what is built in, to the byte of its page.

use policy::bpf::stock::STOCK;
use policy::bpf::{Clock, load};
use policy::program::Program;

use super::*;
use crate::gatekeeper::granted::{Granted, parameters};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// At clocks with whole ticks in a millisecond: programs know no parts of one.
    #[test]
    fn the_program_granted_does_what_is_built_in(
        clock in 0..3_usize, begin in any::<u32>(), rate_kib in 0..9_u32,
        next in 0..5_000_u32, step in 0..5_000_u32,
        packets in proptest::collection::vec((0..600_u64, -1..2_i64, 0..4_000_u32), 1..80)
    ) {
        let times = Times::new([rate(1_000, 1), rate(2, 1), rate(1, 1)][clock]);
        let ms = times.millis(1);
        let clock = Clock { cycles_per_sec: times.second(), cycles_per_ms: ms };
        prop_assert_eq!(times.millis(u32::MAX), ms * u64::from(u32::MAX));
        let program = load(STOCK[0].object, clock).unwrap();
        let mut now = u64::from(begin);
        let mut built_in = parameters(rate_kib, next, step);
        let mut page = built_in;
        Granted.init(&times, now, &mut built_in).unwrap();
        Program::init(&*program, now, &mut page).unwrap();
        prop_assert_eq!(page, built_in);
        let mut packet = [0; 20];
        packet[0] = 0x45;
        for (after, beside, len) in packets {
            now = (now + after * ms).saturating_add_signed(beside);
            let arrival = Arrival { now, len, link: &[0; 14], packet: &packet };
            let wanted = match Granted.packet(&times, &arrival, u64::MAX, &mut built_in) {
                Answer::OverBudget => Answer::Decline, // a program has one word for both
                other => other,
            };
            prop_assert_eq!(Program::packet(&*program, &arrival, u64::MAX, &mut page), wanted);
            prop_assert_eq!(page, built_in);
        }
    }
}
