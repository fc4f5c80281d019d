//! Messages of a process to its supervisor, which trusts them no more than a stranger's: a text
//! becomes a line in the log, and a message without meaning is valid input, too.

use super::control;
use super::history::Kind;
use super::process::Process;

/// A message.
pub(super) enum Word {
    /// The process is confined; the text lists rights that it should not have.
    Shut(Vec<String>),
    /// The process could serve.
    Ready,
    /// The policy does not start; the cause.
    Refused(String),
    /// The policy failed; how, in words.
    Failed(Kind, String),
    /// The policy lacks a resource and works without it; which.
    Remark(String),
    /// The result of a chunk, with its number.
    Done(u32, Result<String, String>),
    /// A message that no honest process sends.
    Wrong,
    /// No more messages: the process has ended.
    Gone,
}

impl Word {
    /// The next message of a process, if there is one.
    pub fn of(process: &Process, buffer: &mut [u8]) -> Option<Word> {
        let line = |bytes: &[u8]| control::line(bytes, TEXT);
        let (kind, rest) = match control::hear(&process.control, buffer) {
            Ok(Some(heard)) => heard,
            Ok(None) => return Some(Word::Gone),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return None,
            Err(_) => return Some(Word::Gone),
        };
        Some(match (kind, rest) {
            (control::SHUT, missing) => {
                let missing = &missing[..missing.len().min(TEXT)];
                let lines = missing.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                Word::Shut(lines.map(line).collect())
            }
            (control::READY, []) => Word::Ready,
            (control::REFUSED, cause) => Word::Refused(line(cause)),
            (control::FAILED, [0, cause @ ..]) => Word::Failed(Kind::Error, line(cause)),
            (control::FAILED, [1, cause @ ..]) => {
                let cause = format!("it took too long and was stopped: {}", line(cause));
                Word::Failed(Kind::Stop, cause)
            }
            (control::REMARK, remark) => Word::Remark(line(remark)),
            (control::DONE, [a, b, c, d, failed @ (0 | 1), rest @ ..]) => {
                let number = u32::from_ne_bytes([*a, *b, *c, *d]);
                let said = control::text(rest, control::MOST);
                Word::Done(number, if *failed == 0 { Ok(said) } else { Err(said) })
            }
            _ => Word::Wrong,
        })
    }
}

/// The most bytes of a cause.
const TEXT: usize = 512;
