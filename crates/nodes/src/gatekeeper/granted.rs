//! The built-in grant: so many bytes a second.
//!
//! ```text
//!  parameters  rate in KiB │ next renewal in ms │ renewal step in ms                 12 bytes, little-endian
//!  state       window's end │ bytes left │ next renewal │ renewal step │ rate in KiB  36 bytes, times in ticks
//! ```
//!
//! A window of one second begins with the first packet behind the end of the last one,
//! and nothing is carried over.

use super::rule::{Answer, Arrival, BadParameters, Budget, GRANTED, Page, RENEWAL, Rule};
use super::rule::{Words, put_words};
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

impl Rule for Granted {
    fn init(&self, times: &Times, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        let parameter = |place: usize| u32::from_le_bytes(part(page, 4 * place));
        let [rate_kib, next_renewal_ms, renewal_step_ms] = [0, 1, 2].map(parameter);
        put_words(page, words(times, now, [rate_kib, next_renewal_ms, renewal_step_ms]));
        Ok(())
    }

    #[inline]
    fn packet(&self, times: &Times, arrival: &Arrival<'_>, _: u64, page: &mut Page) -> Answer {
        match spend(times, arrival.now, arrival.len, page) {
            Some(dscp) => Answer::Send(dscp),
            None => Answer::OverBudget,
        }
    }

    fn budget(&self, page: &Page, now: u64) -> Option<Budget> {
        let rate_kib = u32::from_le_bytes(part(page, RATE));
        let left = if now >= word(page, WINDOW_END) { budget(rate_kib) } else { word(page, LEFT) };
        Some(Budget { rate_kib, left })
    }
}

/// The state of a flow that is granted so much now: rate in KiB a second, next renewal and renewal
/// step in milliseconds.
#[inline(always)]
pub(super) fn words(times: &Times, now: u64, [rate_kib, next_ms, step_ms]: [u32; 3]) -> Words {
    let mut words = [0; 8];
    words[WINDOW_END / 8] = now.saturating_add(times.second());
    words[LEFT / 8] = budget(rate_kib);
    words[RENEWAL_AT / 8] = now.saturating_add(times.millis(next_ms));
    words[STEP / 8] = times.millis(step_ms);
    words[RATE / 8] = rate_kib.into();
    words
}

/// A packet of `len` bytes comes: its DSCP, or `None` beyond the budget.
#[inline]
pub(super) fn spend(times: &Times, now: u64, len: u32, page: &mut Page) -> Option<u8> {
    if now >= word(page, WINDOW_END) {
        put(page, WINDOW_END, now.saturating_add(times.second()));
        put(page, LEFT, budget(u32::from_le_bytes(part(page, RATE))));
    }
    put(page, LEFT, word(page, LEFT).checked_sub(len.into())?);
    if now < word(page, RENEWAL_AT) {
        return Some(GRANTED);
    }
    let step = word(page, STEP);
    put(page, RENEWAL_AT, now.saturating_add(step));
    Some(RENEWAL)
}

#[inline(always)]
fn word(page: &Page, at: usize) -> u64 {
    u64::from_le_bytes(part(page, at))
}

#[inline(always)]
fn put(page: &mut Page, at: usize, word: u64) {
    page[at..at + 8].copy_from_slice(&word.to_le_bytes());
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
