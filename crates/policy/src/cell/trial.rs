//! A policy in one process of its own, which is asked about a capture's packets: `rutter grantor
//! policy test`, without a worker.
//!
//! ```text
//!  Trial ─ the policy's text, tables, all questions ─► process: a Decider that is asked by chunks
//!        ─ "7" ───────────────────────────────────────► what the policy decides of question 7
//!        ─ "time 64" ─────────────────────────────────► nanoseconds of a decision
//! ```

use std::time::{Duration, Instant};

use super::child::{Decider, Handed, Stop};
use super::layout::{self, FACTS};
use super::process::{self, Process};
use super::settings::Settings;
use super::source::Source;
use super::status::Error;
use super::word::Word;
use super::{control, lua};
use crate::ask::{Question, Verdict};
use crate::lua::{Options, Policy};
use crate::trial::{Request, Words};

/// The parts of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The policy's name.
    pub name: &'a str,
    /// Its text.
    pub text: &'a [u8],
    /// Its files, each with a name ([`file_name`](super::file_name)).
    pub tables: &'a [(&'a str, &'a [u8])],
    /// Bytes of each packet that it sees, at most.
    pub captured: usize,
    /// Engines of its IPv4 and IPv6 tables, in the notation of
    /// [`lookup::lpm::Choice`]; empty: the default engines.
    pub engines: [&'a str; 2],
}

/// A policy in its process.
#[derive(Debug)]
pub struct Trial {
    process: Process,
    buffer: Vec<u8>,
    number: u32,
    /// Calls that were stopped.
    slow: u32,
    /// Why the process answers no more.
    over: Option<String>,
}

/// A policy's decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decided {
    /// The packet goes on.
    pub forward: bool,
    /// The decision about its flow, in words.
    pub decision: Option<String>,
}

impl Trial {
    /// Starts the process, which holds these questions. It is the running binary's hidden command
    /// with [`WORD`] behind it, which calls [`make`]. The calling thread must outlive it.
    ///
    /// # Errors
    /// When the policy does not start.
    pub fn begin(setup: &Setup<'_>, requests: &[Request]) -> Result<Trial, Error> {
        let refused = |cause: String| Error::Refused { policy: setup.name.to_owned(), cause };
        let questions = emit(requests);
        let mut files = vec![(setup.name, setup.text)];
        files.extend(setup.tables);
        files.push((QUESTIONS, &questions));
        let source = Source::new(setup.name, &files).map_err(|error| refused(error.to_string()))?;
        let mut settings = Settings {
            workers: 1, // the ring has room for the line at which it ends
            depth: 1,
            captured: u32::try_from(setup.captured).unwrap_or(u32::MAX),
            limit: LIMIT / 5, // a chunk may take five times as long
            load: LOAD,
            memory: (LUA + TABLES) as u64,
            engines: setup.engines.map(str::to_owned),
            ..Settings::default()
        };
        settings.command.push(WORD.into());
        let process = Process::start((1, 0), &source, &settings);
        let process = process.map_err(|error| refused(error.to_string()))?;
        let buffer = vec![0; control::MOST];
        let mut trial = Trial { process, buffer, number: 0, slow: 0, over: None };
        match trial.hear(LOAD + LIMIT, &|word| matches!(word, Word::Ready)) {
            Ok(_) => Ok(trial),
            Err(cause) => Err(refused(cause)),
        }
    }

    /// The decision about a request, by the request's index.
    ///
    /// # Errors
    /// When the policy fails, with its line where that is known.
    pub fn ask(&mut self, request: usize) -> Result<Decided, String> {
        let said = self.call(&request.to_string())?;
        let mut lines = said.lines();
        let forward = lines.next() == Some(FORWARD);
        let decision = lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
        Ok(Decided { forward, decision })
    }

    /// Nanoseconds of a decision, with this many questions at once. It is measured for a while, in
    /// which other work on this machine can only add time.
    ///
    /// # Errors
    /// When the policy fails.
    pub fn time(&mut self, at_once: usize) -> Result<f64, String> {
        let said = self.call(&format!("{TIME}{at_once}"))?;
        said.parse().map_err(|_| "it gave no time".to_owned())
    }

    fn call(&mut self, chunk: &str) -> Result<String, String> {
        if let Some(over) = &self.over {
            return Err(format!("not asked: {over}"));
        }
        if self.slow == STOPS {
            return Err(format!("not asked: the policy was stopped {STOPS} times"));
        }
        self.number += 1;
        let (number, begun) = (self.number, Instant::now());
        let sent =
            self.process.send(control::EXEC, &[&number.to_ne_bytes(), chunk.as_bytes()], &[]);
        let is_it = |word: &Word| matches!(word, Word::Done(of, _) if *of == number);
        let heard = match sent {
            Ok(()) => self.hear(3 * LIMIT, &is_it),
            Err(error) => Err(error.to_string()),
        };
        self.slow += u32::from(begun.elapsed() >= LIMIT);
        match heard {
            Ok(Word::Done(_, result)) => result,
            Ok(_) => Err("it gave no answer".into()), // cannot be: `is_it`
            Err(cause) => {
                self.over = Some(format!("the policy's process ended: {cause}"));
                Err(cause)
            }
        }
    }

    /// Waits for a message, or returns why none comes.
    fn hear(&mut self, most: Duration, is_it: &dyn Fn(&Word) -> bool) -> Result<Word, String> {
        use std::os::fd::AsFd;
        let begun = Instant::now();
        loop {
            match Word::of(&self.process, &mut self.buffer) {
                Some(word) if is_it(&word) => return Ok(word),
                Some(Word::Refused(cause)) => return Err(cause),
                Some(Word::Gone) => return Err(self.ended()),
                Some(Word::Shut(_) | Word::Failed(..) | Word::Remark(_)) => {}
                Some(_) => return Err("it said what no process of a policy says".into()),
                None if begun.elapsed() > most => {
                    self.process.end();
                    let cause =
                        format!("it gave no answer for {} s, and was ended", most.as_secs());
                    return Err(self.process.with_line(cause));
                }
                None => {
                    let files = [self.process.control.as_fd()];
                    control::wait(&files, Some(LOOK)).map_err(|error| error.to_string())?;
                }
            }
        }
    }

    /// How the process ended, after its end of the socket was closed.
    fn ended(&mut self) -> String {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if let Some(status) = self.process.ended() {
                return self.process.with_line(process::words(status));
            }
            std::thread::sleep(LOOK);
        }
        self.process.end();
        "it closed its socket".into()
    }
}

/// The decider in the process, chosen by the words behind [`WORD`].
///
/// # Errors
/// When the policy does not load.
pub fn make(handed: &Handed, engines: [&str; 2]) -> Result<Box<dyn Decider>, String> {
    let options = Options { memory: LUA, tables: TABLES, ..Options::default() };
    let questions = handed.file(QUESTIONS).unwrap_or_default().to_vec();
    Ok(Box::new(Asked { policy: lua::load(handed, options, engines)?, questions }))
}

/// In the process.
struct Asked {
    policy: Policy,
    questions: Vec<u8>,
}

impl Decider for Asked {
    fn decide(&mut self, _: &[Question<'_>], _: &mut Vec<Verdict>) -> Result<(), String> {
        Err("nobody asks so".into()) // nothing is put into the ring
    }

    fn exec(&mut self, chunk: &str) -> Result<String, String> {
        let all: Vec<_> = parse(&self.questions).collect();
        let mut verdicts = Vec::new();
        if let Some(at_once) = chunk.strip_prefix(TIME) {
            let at_once = at_once.parse::<usize>().map_err(|error| error.to_string())?;
            return time(&mut self.policy, &all, at_once.max(1)).map(|ns| ns.to_string());
        }
        let at: usize = chunk.parse().map_err(|_| format!("no question {chunk}"))?;
        let question = all.get(at).ok_or_else(|| format!("no question {chunk}"))?;
        let decided = self.policy.decide(&[*question], &mut verdicts);
        decided.map_err(|error| error.to_string())?;
        let verdict = verdicts.first().ok_or("the policy gave no verdict")?;
        let decision = verdict.decision.map(|decision| Words(&decision).to_string());
        let forward = if verdict.forward { FORWARD } else { "drop" };
        Ok(format!("{forward}\n{}", decision.unwrap_or_default()))
    }

    fn stopper(&self) -> Option<Stop> {
        Some(lua::stop(self.policy.stopper()))
    }
}

/// Nanoseconds of a decision where `len` questions come at once.
fn time(policy: &mut Policy, all: &[Question<'_>], len: usize) -> Result<f64, String> {
    if all.is_empty() {
        return Err("there are no questions".into());
    }
    let questions: Vec<_> = all.iter().cycle().take(all.len().max(len).max(64)).copied().collect();
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(len);
    let (start, mut decisions) = (Instant::now(), 0);
    while start.elapsed() < SLICE {
        for part in questions.chunks_exact(len) {
            verdicts.clear();
            policy.decide(part, &mut verdicts).map_err(|error| error.to_string())?;
            decisions += len;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / decisions as f64)
}

fn emit(requests: &[Request]) -> Vec<u8> {
    let mut all = Vec::new();
    for (request, id) in requests.iter().zip(0..) {
        let question = request.question(id);
        all.extend(layout::facts(&question, question.bytes.len() as u32));
        all.extend(question.bytes);
    }
    all
}

fn parse(mut all: &[u8]) -> impl Iterator<Item = Question<'_>> {
    (0..).map_while(move |id| {
        let (facts, rest) = all.split_first_chunk::<FACTS>()?;
        let (question, len) = layout::parse_facts(id, facts);
        let (bytes, rest) = rest.split_at_checked(len as usize)?;
        all = rest;
        Some(Question { bytes, ..question })
    })
}

/// The word behind the hidden command for a trial's process. Two more words follow, its engines.
pub const WORD: &str = "trial";
/// The name of the file with all questions; a user's file cannot have it.
const QUESTIONS: &str = "\0questions";
const FORWARD: &str = "forward";
const TIME: &str = "time ";
/// The longest time of a call before it is stopped. After three times as long, the process is ended.
const LIMIT: Duration = Duration::from_secs(1);
/// How long the policy may take to load.
const LOAD: Duration = Duration::from_secs(5);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(5);
/// Calls that are stopped before the process is asked no more.
const STOPS: u32 = 3;
/// The duration of a measurement.
const SLICE: Duration = Duration::from_millis(50);
/// Bytes of a Lua state, and of its tables.
const LUA: usize = 256 << 20;
const TABLES: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_as_they_are() {
        let (src, dst) = ("192.0.2.1:7".parse().unwrap(), "203.0.113.5:53".parse().unwrap());
        let frame = wire::build::Frame::udp4(src, dst).payload(&[1, 2, 3, 4]).build();
        let request = Request::of(&frame).expect("a packet");
        let bytes = emit(&[request.clone(), request.clone()]);
        let all: Vec<_> = parse(&bytes).collect();
        assert_eq!(all.len(), 2);
        for (question, id) in all.iter().zip(0..) {
            let want = request.question(id);
            assert_eq!((question.id, question.facts), (want.id, want.facts));
            assert_eq!((question.matter, question.bytes), (want.matter, want.bytes));
        }
        assert_eq!(parse(&bytes[..bytes.len() - 1]).count(), 1);
    }
}
