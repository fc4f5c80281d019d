//! The rules that decisions name by a number.

use std::sync::Arc;

use super::granted::Granted;
use super::rule::{Answer, Arrival, BadParameters, PROGRAMS, Page, Rule};
use super::state::EDITIONS;
use super::times::Times;

/// Nothing passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declined;

impl Rule for Declined {
    fn init(&self, _: &Times, _: u64, _: &mut Page) -> Result<(), BadParameters> {
        Ok(())
    }

    #[inline]
    fn packet(&self, _: &Times, _: &Arrival<'_>, _: u64, _: &mut Page) -> Answer {
        Answer::Decline
    }
}

/// Rules by number; published.
#[derive(Clone)]
pub struct Programs {
    rules: Box<[Option<Arc<dyn Rule>>; PROGRAMS]>,
    /// Which of those that a number has had: a page is read by the one alone that has written it.
    editions: Box<[u8; PROGRAMS]>,
}

impl Default for Programs {
    /// 0 is [`Granted`] and 1 is [`Declined`], which the stock policies name so.
    fn default() -> Self {
        let rules = Box::new([const { None }; PROGRAMS]);
        let mut programs = Programs { rules, editions: Box::new([0; PROGRAMS]) };
        programs.set(0, Some(Arc::new(Granted)));
        programs.set(1, Some(Arc::new(Declined)));
        programs
    }
}

impl Programs {
    /// Puts a rule in, takes one out. It reads what the one before it has written.
    pub fn set(&mut self, index: u8, rule: Option<Arc<dyn Rule>>) {
        self.rules[usize::from(index)] = rule;
    }

    /// Says that the rule of a number is another than it was: flows that were decided for one of
    /// another edition ask again. They are known by 6 bits of it.
    pub fn set_edition(&mut self, index: u8, edition: u64) {
        self.editions[usize::from(index)] = (edition % u64::from(EDITIONS)) as u8;
    }

    /// The rule of this number, if there is one.
    #[inline]
    pub fn get(&self, index: u8) -> Option<&dyn Rule> {
        self.rules[usize::from(index)].as_deref()
    }

    /// The edition of the rule of this number.
    #[inline]
    pub fn edition(&self, index: u8) -> u8 {
        self.editions[usize::from(index)]
    }
}
