//! The text of the specification, sentence by sentence, in 128 bits and without a table.

use super::*;

/// The deployed entry, its times in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Model {
    Request { last_seen: u64, last_priority: u32, allowance: u32 },
    Granted { renew_at: u64, rate_kib: u64, budget: u64, send_at: u64, step: u64 },
    Declined,
}

impl Model {
    fn fresh(now: u64) -> Model {
        Model::Request { last_seen: now, last_priority: 38, allowance: 7 }
    }

    fn packet(&mut self, rate: Rate, expires: &mut u64, now: u64, len: u32) -> Verdict {
        if !matches!(self, Model::Request { .. }) && now >= *expires {
            *self = Model::fresh(now);
            *expires = now.saturating_add(rate.ticks(1 << 42));
        }
        match self {
            Model::Declined => Verdict::Declined,
            Model::Granted { renew_at, rate_kib, budget, send_at, step } => {
                if now >= *renew_at {
                    *renew_at = now.saturating_add(rate.ticks(S.into()));
                    *budget = *rate_kib * 1_024;
                }
                if u64::from(len) > *budget {
                    return Verdict::OverBudget;
                }
                *budget -= u64::from(len);
                if now >= *send_at {
                    *send_at = now.saturating_add(*step);
                    return Verdict::Granted(2);
                }
                Verdict::Granted(1)
            }
            Model::Request { last_seen, last_priority, allowance } => {
                let d = if now < *last_seen { 0 } else { rate.ps(now - *last_seen) };
                let base = (0..=63).rev().find(|bit| d >= 1 << bit).unwrap_or(0);
                *last_seen = now;
                if base < *last_priority && *allowance > 0 {
                    *allowance -= 1;
                } else {
                    *last_priority = base;
                    *allowance = 7;
                    *expires = now.saturating_add(rate.ticks(1 << (base + 4).min(63)));
                }
                Verdict::Request((*last_priority + 3).min(63) as u8)
            }
        }
    }

    fn decide(rate: Rate, expires: &mut u64, now: u64, decision: &Decision) -> Model {
        *expires = now.saturating_add(rate.ticks(u128::from(decision.expire_s()) * u128::from(S)));
        match *decision {
            Decision::Granted { rate_kib, next_renewal_ms, renewal_step_ms, .. } => {
                let millis = |ms: u32| rate.ticks(u128::from(ms) * u128::from(MS));
                Model::Granted {
                    renew_at: now.saturating_add(rate.ticks(S.into())),
                    rate_kib: rate_kib.into(),
                    budget: u64::from(rate_kib) * 1_024,
                    send_at: now.saturating_add(millis(next_renewal_ms)),
                    step: millis(renewal_step_ms),
                }
            }
            _ => Model::Declined,
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Packet(u32),
    Decision(Decision),
}

fn events() -> impl Strategy<Value = Vec<(i128, Event)>> {
    let power = || (0_u32..50).prop_flat_map(|bits| (1_i128 << bits)..(2 << bits));
    // Mostly forwards, by all orders of magnitude; sometimes back, sometimes far away.
    let pass = prop_oneof![
        8 => power(),
        2 => Just(0),
        1 => power().prop_map(|ticks| -ticks),
        1 => Just(i128::from(u64::MAX)),
        1 => Just(-i128::from(u64::MAX)),
    ];
    let granted = (0_u32..4, 0_u32..20, 0_u32..3_000, 0_u32..3_000).prop_map(
        |(rate_kib, expire_s, next_renewal_ms, renewal_step_ms)| Decision::Granted {
            rate_kib,
            expire_s,
            next_renewal_ms,
            renewal_step_ms,
        },
    );
    let event = prop_oneof![
        8 => (0_u32..1_600).prop_map(Event::Packet),
        1 => granted.prop_map(Event::Decision),
        1 => (0_u32..20).prop_map(|expire_s| Event::Decision(Decision::Declined { expire_s })),
    ];
    proptest::collection::vec((pass, event), 1..80)
}

proptest! {
    #[test]
    fn the_machine_is_the_text(events in events(), which in 0..6_usize, start: u64) {
        let rate = rates()[which];
        let times = Times::new(rate);
        let programs = Programs::default();
        let machine = Machine { times: &times, programs: &programs };
        let mut now = start;
        let mut entry = Entry::fresh(&machine, now);
        let (mut model, mut expires) =
            (Model::fresh(now), now.saturating_add(rate.ticks(1 << 42)));
        for (pass, event) in events {
            now = (i128::from(now) + pass).clamp(0, u64::MAX.into()) as u64;
            match event {
                Event::Packet(len) => {
                    let wanted = model.packet(rate, &mut expires, now, len);
                    prop_assert_eq!(entry.packet(&machine, now, len), wanted);
                }
                Event::Decision(decision) => {
                    model = Model::decide(rate, &mut expires, now, &decision);
                    entry.decide(&machine, now, &decision);
                }
            }
            prop_assert_eq!(entry.expires, expires);
        }
    }

    /// Every value of the bytes is a state.
    #[test]
    fn any_state(state: [u8; 16], page: Option<[u8; 32]>, expires: u64, now: u64, len: u32) {
        with(exact(), |machine| {
            let mut page = page.map(|half| [half, half].concat().try_into().unwrap());
            let (mut expires, mut state) = (expires, state);
            for now in [now, now.wrapping_add(1), 0, u64::MAX] {
                let page: Option<&mut Page> = page.as_mut();
                let mut flow = Flow { expires: &mut expires, state: &mut state, page };
                machine.packet(&mut flow, &Arrival { now, len, link: &[], packet: &[] });
            }
        });
    }
}
