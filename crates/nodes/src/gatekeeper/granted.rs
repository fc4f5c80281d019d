//! The built-in grant: so many bytes a second.
//!
//! ```text
//!  parameters  rate in KiB │ next renewal in ms │ renewal step in ms                 12 bytes, little-endian
//!  state       window's end │ bytes left │ next renewal │ renewal step │ rate in KiB  36 bytes, times in ticks
//! ```
//!
//! A window of one second begins with the first packet behind the end of the last one,
//! and nothing is carried over.

use super::rule::{Answer, Arrival, BadParameters, GRANTED, Page, RENEWAL, Rule};
use super::times::Times;

/// Lets through what the flow's budget allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Granted;

/// The parameters, as a program's page has them.
pub fn parameters(rate_kib: u32, next_renewal_ms: u32, renewal_step_ms: u32) -> Page {
    let mut page = [0; 64];
    for (place, value) in [rate_kib, next_renewal_ms, renewal_step_ms].into_iter().enumerate() {
        page[4 * place..][..4].copy_from_slice(&value.to_le_bytes());
    }
    page
}

/// The rate in KiB, and the bytes of it that a packet at `now` would find left.
pub(super) fn budget_at(page: &Page, now: u64) -> (u32, u64) {
    let state = State::load(page);
    let left = if now >= state.window_end { budget(state.rate_kib) } else { state.left };
    (state.rate_kib, left)
}

impl Rule for Granted {
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        let word = |place: usize| u32::from_le_bytes(part(page, 4 * place));
        let [rate_kib, next_renewal_ms, renewal_step_ms] = [0, 1, 2].map(word);
        let state = State {
            window_end: now.saturating_add(times.second()),
            left: budget(rate_kib),
            renewal: now.saturating_add(times.millis(next_renewal_ms)),
            step: times.millis(renewal_step_ms),
            rate_kib,
        };
        *page = [0; 64];
        state.store(page);
        page[STEP..RATE].copy_from_slice(&state.step.to_le_bytes());
        page[RATE..RATE + 4].copy_from_slice(&rate_kib.to_le_bytes());
        Ok(())
    }

    #[inline]
    fn packet(&self, times: &Times, arrival: &Arrival<'_>, _: u64, page: &mut Page) -> Answer {
        let mut state = State::load(page);
        let now = arrival.now;
        if now >= state.window_end {
            state.window_end = now.saturating_add(times.second());
            state.left = budget(state.rate_kib);
        }
        let Some(left) = state.left.checked_sub(arrival.len.into()) else {
            state.store(page); // the window may be a new one
            return Answer::OverBudget;
        };
        state.left = left;
        let mut dscp = GRANTED;
        if now >= state.renewal {
            state.renewal = now.saturating_add(state.step);
            dscp = RENEWAL;
        }
        state.store(page);
        Answer::Send(dscp)
    }
}

#[derive(Clone, Copy)]
struct State {
    window_end: u64,
    left: u64,
    renewal: u64,
    step: u64,
    rate_kib: u32,
}

impl State {
    #[inline]
    fn load(page: &Page) -> State {
        let word = |at| u64::from_le_bytes(part(page, at));
        State {
            window_end: word(WINDOW_END),
            left: word(LEFT),
            renewal: word(RENEWAL_AT),
            step: word(STEP),
            rate_kib: u32::from_le_bytes(part(page, RATE)),
        }
    }

    /// Writes what a packet changes.
    #[inline]
    fn store(&self, page: &mut Page) {
        for (at, value) in
            [(WINDOW_END, self.window_end), (LEFT, self.left), (RENEWAL_AT, self.renewal)]
        {
            page[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
}

fn budget(rate_kib: u32) -> u64 {
    u64::from(rate_kib) * 1_024
}

/// `N` bytes of a page.
#[inline(always)]
fn part<const N: usize>(page: &Page, at: usize) -> [u8; N] {
    wire::bytes::array(page, at)
}

const WINDOW_END: usize = 0;
const LEFT: usize = 8;
const RENEWAL_AT: usize = 16;
const STEP: usize = 24;
const RATE: usize = 32;
