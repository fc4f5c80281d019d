//! Messages of a process to its supervisor, which trusts them no more than a stranger's: a text
//! is a line for the log, and a message without meaning is a word, too.

use super::control;
use super::process::Process;

/// What it said.
pub(super) enum Word {
    /// It is shut in; what it has that it should not.
    Shut(Vec<String>),
    /// It could serve.
    Ready,
    /// Its policy does not begin: why.
    Refused(String),
    /// Its policy failed: how.
    Failed(String),
    /// Its policy does with less than it should have: what.
    Remark(String),
    /// What a chunk came to, by its number.
    Done(u32, Result<String, String>),
    /// What no process of ours says.
    Wrong,
    /// Nothing more: it has ended.
    Gone,
}

impl Word {
    /// The next thing that a process has said, if it has.
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
            (control::FAILED, [0, cause @ ..]) => Word::Failed(line(cause)),
            (control::FAILED, [1, cause @ ..]) => {
                Word::Failed(format!("it took too long and was stopped: {}", line(cause)))
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

/// Bytes of a cause.
const TEXT: usize = 512;
