//! A policy: questions, and chunks.

use mlua::{Function, Value};
use wire::ggu;

use super::call::{Callee, Caller, Failed};
use super::error::{Error, at};
use super::layout;
use super::native::Library;
use super::slots::{BATCH, Slots};
use super::stop::Stopper;
use crate::ask::{Matter, Question, Verdict};

/// A policy.
pub struct Policy {
    pub(super) name: String,
    // Dropped first: it closes the state, which knows where the others lie.
    pub(super) caller: Caller,
    pub(super) call: Callees,
    pub(super) functions: Functions,
    pub(super) slots: Slots,
    pub(super) library: Box<Library>,
    /// `lookup_policy`, and `lookup_policy_batch`, are defined.
    pub(super) defines: (bool, bool),
    /// Questions of the last call at which it failed.
    pub(super) failed: Vec<u32>,
    /// How often the line of an error is still looked for.
    pub(super) looks: u32,
}

/// The first error of a call. It is written to a place only when there is one: a `Result` that each
/// step returns costs more than some decisions.
struct First(Option<Error>);

impl First {
    #[cold]
    fn note(&mut self, error: Error) {
        self.0.get_or_insert(error);
    }
}

/// The driver's functions that are called for packets.
pub(super) struct Callees {
    pub one: Callee,
    pub each: Callee,
    pub batch: Callee,
    pub punish: Callee,
    pub compile: Callee,
}

/// Its other functions.
pub(super) struct Functions {
    pub defines: Function,
    pub exec: Function,
    pub load: Function,
}

impl Policy {
    /// Stops a call from another thread.
    pub fn stopper(&self) -> Stopper {
        self.caller.stopper()
    }

    /// Asks; `verdicts` gets one of each question, in order. Where a policy throws an
    /// error, or decides what is none, that question's is neither forward nor a decision;
    /// of fragments' punishment it is 600 seconds of nothing.
    ///
    /// Where it throws, memory is collected, and if that freed some it is asked once more,
    /// as a deployed Grantor does; here once for up to 64 questions, so that nobody's
    /// packets buy a collection each.
    ///
    /// # Errors
    /// The first error. If it is [`Error::Stopped`], the question at that moment and all behind it
    /// have no verdict.
    pub fn decide(
        &mut self,
        questions: &[Question<'_>],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Error> {
        let mut first = First(None);
        self.failed.clear();
        self.caller.begin();
        for part in questions.chunks(BATCH) {
            let mut collected = None;
            self.decide_part(part, verdicts, &mut collected, &mut first);
            if self.caller.stopped() {
                break;
            }
        }
        match (self.caller.end(), first.0) {
            (Some(at), _) => Err(Error::Stopped { at }),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(()),
        }
    }

    /// The questions at which the last [`Policy::decide`] failed: their verdicts are not the
    /// policy's.
    pub fn failed(&self) -> &[u32] {
        &self.failed
    }

    /// A note that some tables lack their usual engine because memory is short; each note is returned once.
    pub fn remark(&mut self) -> Option<String> {
        let Policy { library, .. } = self;
        library.remark()
    }

    /// Runs a chunk in the policy's state; returns its results as text, separated by tabs.
    ///
    /// # Errors
    /// When it is not Lua, throws, or is stopped.
    pub fn exec(&mut self, chunk: &str) -> Result<String, Error> {
        let (ran, text) = self.run(|own| own.functions.exec.call(chunk))?;
        self.define()?;
        if ran == Some(true) { Ok(text) } else { Err(self.thrown(text)) }
    }

    fn decide_part(
        &mut self,
        part: &[Question<'_>],
        verdicts: &mut Vec<Verdict>,
        collected: &mut Option<bool>,
        first: &mut First,
    ) {
        for (i, question) in part.iter().enumerate() {
            self.slots.put(i, question);
        }
        let packets = part.iter().all(|question| question.matter == Matter::Packet);
        if self.defines.1 && packets {
            match self.batch(part, collected) {
                Ok(()) => return self.take(part, 0, verdicts, first),
                Err(failed) if self.caller.stopped() => return first.note(self.error(failed)),
                // One by one: the others' decisions are not lost with one packet's.
                Err(_) => part.iter().enumerate().for_each(|(i, q)| self.slots.put(i, q)),
            }
        }
        let mut done = 0;
        while done < part.len() {
            let run = part[done..].iter().take_while(|q| q.matter == Matter::Packet).count();
            if run > 0 && !self.defines.0 {
                self.batch_of_one(&part[done], verdicts, collected, first);
                if self.caller.stopped() {
                    return;
                }
                done += 1;
                continue;
            }
            self.slots.come(done);
            let asked = if run >= LOOP {
                self.caller.call(self.call.each, &[done, done + run]).map(|_| run)
            } else if run > 0 {
                self.caller.call(self.call.one, &[done]).map(|_| 1)
            } else {
                self.punish(part, done, verdicts, collected, first);
                if self.caller.stopped() {
                    return;
                }
                done += 1;
                continue;
            };
            match asked {
                Ok(n) => {
                    self.take(&part[done..done + n], done, verdicts, first);
                    done += n;
                }
                Err(failed) => {
                    let at = self.slots.reached().clamp(done, done + run - 1);
                    self.take(&part[done..at], done, verdicts, first);
                    if self.caller.stopped() {
                        return;
                    }
                    let again = self.again(self.call.one, part, at, failed, collected);
                    if self.caller.stopped() {
                        return;
                    }
                    match again {
                        Ok(_) => self.take(&part[at..=at], at, verdicts, first),
                        Err(failed) => {
                            self.refuse(&part[at..=at], verdicts);
                            first.note(self.error(failed));
                        }
                    }
                    done = at + 1;
                }
            }
        }
    }

    /// The part in Lua alone, for the questions in all slots: in one call, or in one call for each.
    #[cfg(test)]
    pub(super) fn ask_again(&mut self, at_once: bool) {
        let (callee, calls) = if at_once { (self.call.each, 1) } else { (self.call.one, BATCH) };
        for at in 0..calls {
            let done = self.caller.call(callee, &[at, BATCH]);
            assert!(done.is_ok(), "it decides");
        }
    }

    /// Asks about all of them at once.
    fn batch(&mut self, part: &[Question<'_>], collected: &mut Option<bool>) -> Result<(), Failed> {
        let asked = self.caller.call(self.call.batch, &[part.len()]);
        let Err(failed) = asked else { return Ok(()) };
        if self.caller.stopped() || !self.collect(collected) {
            return Err(failed);
        }
        part.iter().enumerate().for_each(|(i, question)| self.slots.put(i, question));
        self.caller.call(self.call.batch, &[part.len()]).map(|_| ())
    }

    /// Asks a policy that decides only about batches about one packet.
    fn batch_of_one(
        &mut self,
        question: &Question<'_>,
        verdicts: &mut Vec<Verdict>,
        collected: &mut Option<bool>,
        first: &mut First,
    ) {
        let part = std::slice::from_ref(question);
        // What has this slot has its verdict.
        self.slots.put(0, question);
        match self.batch(part, collected) {
            Ok(()) => self.take(part, 0, verdicts, first),
            Err(failed) => {
                self.refuse(part, verdicts);
                first.note(self.error(failed));
            }
        }
    }

    /// Asks about the punishment for fragments.
    fn punish(
        &mut self,
        part: &[Question<'_>],
        at: usize,
        verdicts: &mut Vec<Verdict>,
        collected: &mut Option<bool>,
        first: &mut First,
    ) {
        let asked = match self.caller.call(self.call.punish, &[at]) {
            Err(failed) if !self.caller.stopped() => {
                self.again(self.call.punish, part, at, failed, collected)
            }
            asked => asked,
        };
        if self.caller.stopped() {
            return;
        }
        let mut own = First(None);
        let before = verdicts.len();
        let there = match asked {
            Ok(true) => {
                self.take(&part[at..=at], at, verdicts, &mut own);
                own.0.is_none()
            }
            // It has no such function.
            Ok(false) => false,
            Err(failed) => {
                own.note(self.error(failed));
                false
            }
        };
        if !there {
            verdicts.truncate(before);
            self.failed.retain(|id| *id != part[at].id); // it has a decision
            verdicts.push(Verdict { decision: Some(PUNISHMENT), ..nothing(&part[at]) });
        }
        verdicts[before].forward = false;
        own.0.into_iter().for_each(|error| first.note(error));
    }

    /// Asks again, if a collection has freed memory. A second error for want of memory has the line
    /// that ran last.
    fn again(
        &mut self,
        callee: Callee,
        part: &[Question<'_>],
        at: usize,
        failed: Failed,
        collected: &mut Option<bool>,
    ) -> Result<bool, Failed> {
        if !self.collect(collected) {
            return Err(failed);
        }
        self.slots.put(at, &part[at]);
        // Errors for want of memory, and those of compiled code that has no stack, pass the handler,
        // which would note the line.
        let has_line =
            failed.line.is_some() || super::error::at(&self.name, &failed.message).is_some();
        if has_line || self.looks == 0 {
            return self.caller.call(callee, &[at]);
        }
        self.looks -= 1;
        let _ = self.caller.call(self.call.compile, &[0]);
        if failed.memory {
            self.caller.note_lines();
        }
        let again = self.caller.call(callee, &[at]);
        self.caller.pass_lines();
        let _ = self.caller.call(self.call.compile, &[1]);
        again
    }

    /// Collects once for these questions; returns whether that freed memory.
    fn collect(&self, collected: &mut Option<bool>) -> bool {
        *collected.get_or_insert_with(|| {
            let lua = &self.caller.lua;
            let before = lua.used_memory();
            lua.gc_collect().is_ok() && lua.used_memory() < before
        })
    }

    /// Copies the verdicts of `part` out, the first of them from slot `from`.
    fn take(
        &mut self,
        part: &[Question<'_>],
        from: usize,
        verdicts: &mut Vec<Verdict>,
        first: &mut First,
    ) {
        let begin = verdicts.len();
        verdicts.extend(part.iter().map(nothing));
        for (verdict, i) in verdicts[begin..].iter_mut().zip(from..) {
            let taken = self.slots.take(i, |forward, policy| {
                verdict.forward = forward;
                layout::decision(policy, &mut verdict.decision)
            });
            if let Err(bad) = taken {
                verdict.forward = false;
                self.failed.push(verdict.id);
                first.note(Error::Decision { name: self.name.clone(), bad });
            }
        }
    }

    fn refuse(&mut self, part: &[Question<'_>], verdicts: &mut Vec<Verdict>) {
        if !self.caller.stopped() {
            self.failed.extend(part.iter().map(|question| question.id));
            verdicts.extend(part.iter().map(nothing));
        }
    }

    fn error(&self, failed: Failed) -> Error {
        let Failed { memory, message, line } = failed;
        let place = line.map(|line| format!("{}:{line}", self.name));
        match place {
            _ if memory => Error::Memory { message: place.unwrap_or(message) },
            // The stack had no room for words about the place.
            Some(place) if at(&self.name, &message).is_none() => {
                self.thrown(format!("{place}: {message}"))
            }
            _ => self.thrown(message),
        }
    }

    pub(super) fn thrown(&self, message: String) -> Error {
        if message.starts_with(NO_MEMORY) {
            return Error::Memory { message: at(&self.name, &message).unwrap_or_default() };
        }
        // An object that is not a string carries no line.
        match at(&self.name, &message) {
            Some(place) if !message.lines().next().unwrap_or("").contains(&place) => {
                Error::Thrown { message: format!("{place}: {message}") }
            }
            _ => Error::Thrown { message },
        }
    }

    /// Runs a function of the driver that returns success and a text.
    pub(super) fn run(
        &mut self,
        call: impl FnOnce(&Self) -> mlua::Result<(Option<bool>, Value)>,
    ) -> Result<(Option<bool>, String), Error> {
        self.caller.begin();
        let result = call(self);
        if let Some(at) = self.caller.end() {
            return Err(Error::Stopped { at });
        }
        match result {
            Ok((ran, Value::String(text))) => Ok((ran, text.to_string_lossy())),
            Ok((ran, _)) => Ok((ran, String::new())),
            Err(mlua::Error::MemoryError(message)) => Err(Error::Memory { message }),
            Err(error) => Err(Error::Thrown { message: error.to_string() }),
        }
    }

    /// Finds the functions that the policy defines.
    pub(super) fn define(&mut self) -> Result<(), Error> {
        let defines: u8 = self.functions.defines.call(()).map_err(|_| Error::NoState)?;
        self.defines = (defines & 1 != 0, defines & 2 != 0);
        Ok(())
    }
}

/// Neither forward nor a decision.
fn nothing(question: &Question<'_>) -> Verdict {
    Verdict { id: question.id, forward: false, decision: None }
}

/// How often a policy's line is looked for: each time costs its compiled code, and a second try that
/// takes too long is stopped, with the rest of its batch.
pub(super) const LOOKS: u32 = 32;
/// More packets than this are a loop in Lua. A short loop often ends before LuaJIT has compiled it;
/// after several such tries it never compiles it.
const LOOP: usize = 16;
/// The punishment of a flow with incomplete fragments, where the policy does not answer.
const PUNISHMENT: ggu::Verdict = ggu::Verdict::Declined { expire_s: 600 };
/// LuaJIT's words.
const NO_MEMORY: &str = "not enough memory";
