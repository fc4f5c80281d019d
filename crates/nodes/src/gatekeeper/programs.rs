//! The rules that decisions name by a number.

use std::sync::Arc;

use super::granted::Granted;
use super::rule::{Answer, Arrival, BadParameters, PROGRAMS, Page, Rule};
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

/// Rules by number.
#[derive(Clone)]
pub struct Programs(Box<[Option<Arc<dyn Rule>>; PROGRAMS]>);

impl Default for Programs {
    /// 0 is [`Granted`] and 1 is [`Declined`], which the stock policies name so.
    fn default() -> Self {
        let mut programs = Programs(Box::new([const { None }; PROGRAMS]));
        programs.set(0, Some(Arc::new(Granted)));
        programs.set(1, Some(Arc::new(Declined)));
        programs
    }
}

impl Programs {
    /// Puts a rule in, takes one out.
    pub fn set(&mut self, index: u8, rule: Option<Arc<dyn Rule>>) {
        self.0[usize::from(index)] = rule;
    }

    /// The rule of this number, if there is one.
    #[inline]
    pub fn get(&self, index: u8) -> Option<&dyn Rule> {
        self.0[usize::from(index)].as_deref()
    }
}
