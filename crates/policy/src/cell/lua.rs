//! A policy in Lua as the decider of a process.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};

use lookup::lpm::Choice;

use super::child::{Decider, Handed, Stop};
use super::layout::AT;
use crate::ask::{Question, Verdict};
use crate::lua::{Bytes, Mark, Options, Policy, Prepared, Stopper};

struct InLua(Policy);

/// The policy that the process received: its first file is its text, the others are tables. The
/// engines are those of [`super::Settings`].
///
/// # Errors
/// When it does not load.
pub fn make(handed: &Handed, engines: [&str; 2]) -> Result<Box<dyn Decider>, String> {
    // The limit of the process bounds state and tables. A state that meets its own limit first has
    // an error with a line, and the process goes on.
    let memory = usize::try_from(handed.memory).unwrap_or(usize::MAX);
    let memory = if memory < 2 * RESERVED { 0 } else { memory - RESERVED };
    let options = Options { memory, tables: 0, ..Options::default() };
    Ok(Box::new(InLua(load(handed, options, engines)?)))
}

/// The same with these options, without the files whose names begin with a zero.
pub(super) fn load(
    handed: &Handed,
    mut options: Options,
    engines: [&str; 2],
) -> Result<Policy, String> {
    for (choice, engine) in engines.iter().zip([&mut options.engine4, &mut options.engine6]) {
        let choice: Choice = choice.parse().map_err(|bad| format!("{bad}"))?;
        *engine = (choice.name, choice.options);
    }
    // Tables would read in `/proc` how much memory is free, and a process that opens a file is ended.
    lookup::pages::trust();
    let text = std::str::from_utf8(handed.text()).map_err(|error| error.to_string())?;
    let names = handed.names().skip(1).filter(|name| !name.starts_with('\0'));
    let named: Vec<_> =
        names.filter_map(|name| Some((name, Bytes::new(handed.shared(name)?)))).collect();
    // A path is a name where no file has that name.
    let paths = named.iter().map(|(name, file)| (ways(name).1.to_owned(), file.clone()));
    let mut files: BTreeMap<_, _> = paths.collect();
    files.extend(named.iter().map(|(name, file)| (ways(name).0.to_owned(), file.clone())));
    let (snap, worker) = (handed.captured, handed.place);
    let mark = mark(handed);
    let options = Options { files, snap, worker, mark, ..options };
    let prepared = Prepared::new(&options).map_err(|error| error.to_string())?;
    handed.stop_by(stop(prepared.stopper()));
    // SAFETY: this thread's state; where it is closed, there is none to look at.
    unsafe { handed.line_by(prepared.line_now()) };
    prepared.load(&handed.name, text).map_err(|error| error.to_string())
}

/// Name and path of a file, as [`super::file_name`] writes them.
fn ways(name: &str) -> (&str, &str) {
    name.split_once('=').unwrap_or((name, name))
}

/// The word of its first ring in which it reports at which question it is.
fn mark(handed: &Handed) -> Option<Mark> {
    let [_, (verdicts, _)] = *handed.rings().first()?;
    let at = NonNull::new(ptr::with_exposed_provenance_mut(verdicts + AT))?;
    // SAFETY: aligned, in memory that is mapped until the process ends; the ring's end does not
    // use this word.
    Some(unsafe { Mark::new(at) })
}

impl Decider for InLua {
    fn decide(
        &mut self,
        questions: &[Question<'_>],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), String> {
        let decided = self.0.decide(questions, verdicts);
        if decided.is_err() {
            // These questions get the configured verdict.
            let failed = self.0.failed();
            verdicts.retain(|verdict| !failed.contains(&verdict.id));
        }
        decided.map_err(|error| error.to_string())
    }

    fn exec(&mut self, chunk: &str) -> Result<String, String> {
        self.0.exec(chunk).map_err(|error| error.to_string())
    }

    fn remark(&mut self) -> Option<String> {
        self.0.remark()
    }

    fn stopper(&self) -> Option<Stop> {
        Some(stop(self.0.stopper()))
    }
}

/// Bytes of a process's memory that are not for the Lua state: machine code, slots, our own.
const RESERVED: usize = 8 << 20;

/// Stops the running call.
pub(super) fn stop(stopper: Stopper) -> Stop {
    Box::new(move || {
        if let Some(call) = stopper.running() {
            stopper.stop(call);
        }
    })
}
