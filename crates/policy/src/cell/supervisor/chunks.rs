//! Chunks that processes run, and the answers of the processes.

use std::sync::mpsc::Sender;
use std::time::Instant;

use crate::cell::control;
use crate::cell::process::{Process, Stage};
use crate::cell::status::Executed;

/// The chunks that lack an answer.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    last: u32,
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    number: u32,
    reply: Sender<Vec<Executed>>,
    /// Processes that have not answered yet.
    waits: Vec<u32>,
    answers: Vec<Executed>,
}

impl Chunks {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Sends a chunk to all processes that serve or are ready to serve.
    pub fn put(&mut self, chunk: String, reply: Sender<Vec<Executed>>, processes: &mut [Process]) {
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        let mut open = Open { number, reply, waits: Vec::new(), answers: Vec::new() };
        let able = |process: &&mut Process| matches!(process.stage, Stage::Ready | Stage::Serving);
        for process in processes.iter_mut().filter(able) {
            let busy = process.chunk.is_some();
            let parts = [&number.to_ne_bytes()[..], chunk.as_bytes()];
            match process.send(control::EXEC, &parts, &[]) {
                _ if busy => open.answer(process.id(), Err("it is at another chunk".into())),
                Ok(()) => {
                    process.chunk = Some((number, Instant::now()));
                    open.waits.push(process.id());
                }
                Err(error) => open.answer(process.id(), Err(error.to_string())),
            }
        }
        self.open.push(open);
        self.finish();
    }

    /// A process answered, or ended without an answer.
    pub fn answer(&mut self, number: u32, pid: u32, result: Result<String, String>) {
        let Some(open) = self.open.iter_mut().find(|open| open.number == number) else { return };
        if let Some(at) = open.waits.iter().position(|waits| *waits == pid) {
            open.waits.swap_remove(at);
            open.answer(pid, result);
        }
        self.finish();
    }

    fn finish(&mut self) {
        for open in self.open.extract_if(.., |open| open.waits.is_empty()) {
            let _ = open.reply.send(open.answers);
        }
    }
}

impl Open {
    fn answer(&mut self, pid: u32, result: Result<String, String>) {
        self.answers.push(Executed { pid, result });
    }
}
