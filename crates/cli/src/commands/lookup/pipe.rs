//! Standard input in blocks of whole words, answered by one thread or several, in order.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::Fibs;
use super::bulk::{Answers, Bulk, LONGEST, Scratch};
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// Answers input as it comes, so that a person or a coprocess sees each answer before the next
/// question: a block is the input that was there to be read.
pub fn from_stdin(fibs: &Fibs, threads: usize, cx: &mut Context) -> Result<Status, Error> {
    let mut blocks = Blocks::of_stdin()?;
    let mut told = Told::new(blocks.total, fibs.args.output.is_some());
    // A few are answered before there is a table for many.
    let (mut block, mut few, mut waits) = (Vec::new(), 0, false);
    while few < FEW && !waits {
        if !blocks.next(&mut block, SMALL)? {
            return Ok(told.status);
        }
        few += block.len();
        waits = few > FEW;
        if !waits {
            told.few(fibs, &block, cx)?;
        }
    }
    let bulk = fibs.bulk()?;
    if threads == 1 || bulk.on_device() {
        let (mut scratch, mut answers) = (Scratch::default(), Answers::default());
        let most = if bulk.on_device() { HUGE } else { MEDIUM };
        let next = |blocks: &mut Blocks, block: &mut Vec<u8>| match bulk.on_device() {
            true => blocks.fill(block, most),
            false => blocks.next(block, most),
        };
        while std::mem::take(&mut waits) || next(&mut blocks, &mut block)? {
            bulk.answer(&block, &mut scratch, &mut answers)?;
            told.all(&answers, &blocks, cx)?;
        }
        return Ok(told.finish());
    }
    let first = waits.then_some(block);
    std::thread::scope(|scope| {
        let start = || {
            let (to, blocks) = sync_channel(1);
            let (answers, from) = sync_channel(1);
            let bulk = &bulk;
            scope.spawn(move || work(bulk, &blocks, &answers));
            Lane { to, from, busy: false, spare: Some((Vec::new(), Answers::default())) }
        };
        let mut lanes: Vec<Lane> = (0..threads).map(|_| start()).collect();
        share(&mut lanes, &mut blocks, first, &mut told, cx)?;
        Ok(told.finish())
    })
}

/// One thread's blocks and answers, which go to and fro.
struct Lane {
    to: SyncSender<(Vec<u8>, Answers)>,
    from: Receiver<(Vec<u8>, Result<Answers, Error>)>,
    busy: bool,
    spare: Option<(Vec<u8>, Answers)>,
}

fn work(
    bulk: &Bulk<'_>,
    blocks: &Receiver<(Vec<u8>, Answers)>,
    done: &SyncSender<(Vec<u8>, Result<Answers, Error>)>,
) {
    let mut scratch = Scratch::default();
    while let Ok((block, mut answers)) = blocks.recv() {
        let answered = bulk.answer(&block, &mut scratch, &mut answers).map(|()| answers);
        if done.send((block, answered)).is_err() {
            return;
        }
    }
}

/// Deals blocks round, and writes the answers in the same order.
fn share(
    lanes: &mut [Lane],
    blocks: &mut Blocks,
    mut first: Option<Vec<u8>>,
    told: &mut Told,
    cx: &mut Context,
) -> Result<(), Error> {
    let (mut turn, mut more) = (0, true);
    loop {
        let lane = &mut lanes[turn];
        if lane.busy {
            // The thread ends when this one has dropped its lane, no earlier.
            let (block, answers) = lane.from.recv().expect("the thread is at work");
            let answers = answers?;
            told.all(&answers, blocks, cx)?;
            (lane.busy, lane.spare) = (false, Some((block, answers)));
        }
        let (mut block, answers) = lane.spare.take().expect("it is not busy");
        more = more
            && match first.take() {
                Some(there) => {
                    block = there;
                    true
                }
                None => blocks.fill(&mut block, LARGE)?,
            };
        if more {
            lane.to.send((block, answers)).expect("the thread is waiting");
            lane.busy = true;
        } else {
            lane.spare = Some((block, answers));
            if lanes.iter().all(|lane| !lane.busy) {
                return Ok(());
            }
        }
        turn = (turn + 1) % lanes.len();
    }
}

/// The status so far, and the state of the reports on the way.
struct Told {
    status: Status,
    /// The line that comes next.
    line: u64,
    addresses: u64,
    progress: Option<Progress>,
}

/// The line on a terminal.
pub struct Progress {
    total: u64,
    begun: Instant,
    shown: Option<Instant>,
}

impl Told {
    fn new(total: u64, to_file: bool) -> Self {
        let progress = Progress::on_terminal(total, to_file);
        Told { status: Status::Success, line: 1, addresses: 0, progress }
    }

    fn few(&mut self, fibs: &Fibs, block: &[u8], cx: &mut Context) -> Result<(), Error> {
        for line in block.split_inclusive(|&byte| byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            for word in text.split_ascii_whitespace() {
                let line = self.line;
                let answered =
                    super::answer(fibs, word, format_args!("standard input:{line}"), cx)?;
                self.status = self.status.max(answered);
                self.addresses += 1;
            }
            self.line += u64::from(line.ends_with(b"\n"));
        }
        Ok(cx.out.flush()?)
    }

    fn all(&mut self, answers: &Answers, blocks: &Blocks, cx: &mut Context) -> Result<(), Error> {
        if !answers.faults.is_empty() {
            Progress::wipe();
        }
        for (line, word) in &answers.faults {
            let line = self.line + line;
            warn(format_args!("standard input:{line}: not an IPv4 or IPv6 address: {word}"));
            self.status = Status::Fault;
        }
        if answers.unrouted {
            self.status = self.status.max(Status::No);
        }
        self.line += answers.read;
        self.addresses += answers.addresses;
        cx.out.write_all(&answers.lines)?;
        cx.out.flush()?;
        if let Some(progress) = &mut self.progress {
            progress.show(self.addresses, blocks.read);
        }
        Ok(())
    }

    fn finish(self) -> Status {
        Progress::wipe();
        self.status
    }
}

impl Progress {
    /// The progress over this many bytes, or 0 if the number is unknown; none where nobody would see it.
    pub fn on_terminal(total: u64, to_file: bool) -> Option<Self> {
        // Where the answers go to the same terminal, they show how far it is.
        let shows = stderr().is_terminal() && (to_file || !stdout().is_terminal());
        shows.then(|| Progress { total, begun: Instant::now(), shown: None })
    }

    /// Takes the line away, if it is there: before a warning, and at the end.
    pub fn wipe() {
        if SHOWN.swap(false, Ordering::Relaxed) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }

    /// Shows how far it is: addresses that are answered, bytes that are read.
    pub fn show(&mut self, addresses: u64, read: u64) {
        let now = Instant::now();
        if now < self.shown.map_or(self.begun + PATIENCE, |last| last + REDRAW) {
            return;
        }
        self.shown = Some(now);
        let text = self.text(addresses, read, now - self.begun);
        let _ = write!(stderr(), "\r\x1b[K{text}");
        SHOWN.store(true, Ordering::Relaxed);
    }

    fn text(&self, addresses: u64, read: u64, so_far: Duration) -> String {
        let millions = addresses as f64 / 1e6;
        let rate = millions / so_far.as_secs_f64();
        let left = match (read * 100).checked_div(self.total) {
            Some(percent) if read > 0 => {
                let rest = self.total.saturating_sub(read) as f64 / read as f64;
                format!(", {percent} %, {:.0} s left", rest * so_far.as_secs_f64())
            }
            _ => String::new(),
        };
        format!("{millions:.1} million addresses, {rate:.1} million a second{left}")
    }
}

/// Standard input, a block of whole words at a time.
pub struct Blocks {
    input: Box<dyn Read>,
    /// The beginning of a word whose end was not read yet.
    begun: Vec<u8>,
    /// A word is longer than any address, and the rest of it is ignored.
    passing: bool,
    ended: bool,
    /// Bytes of a file; 0 of anything else.
    total: u64,
    read: u64,
}

impl Blocks {
    pub fn of_stdin() -> Result<Self, Error> {
        widen();
        let file = File::from(stdin().as_fd().try_clone_to_owned().map_err(Error::Input)?);
        let data = file.metadata().map_err(Error::Input)?;
        let total = if data.is_file() { data.len() } else { 0 };
        Ok(Blocks { total, ..Blocks::new(file) })
    }

    fn new(input: impl Read + 'static) -> Self {
        let (begun, input) = (Vec::new(), Box::new(input));
        Blocks { input, begun, passing: false, ended: false, total: 0, read: 0 }
    }

    /// The words that are there to be read, of about `most` bytes; false at the end.
    pub fn next(&mut self, block: &mut Vec<u8>, most: usize) -> Result<bool, Error> {
        block.clear();
        block.append(&mut self.begun);
        while !self.ended {
            let before = block.len();
            block.resize(before + most, 0);
            let read = match self.input.read(&mut block[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(Error::Input(error)),
                Ok(0) => {
                    self.ended = true;
                    0
                }
                Ok(read) => read,
            };
            block.truncate(before + read);
            self.read += read as u64;
            self.pass(block, before);
            if self.ended {
                break;
            }
            if let Some(last) = block.iter().rposition(u8::is_ascii_whitespace) {
                self.begun.extend_from_slice(&block[last + 1..]);
                block.truncate(last + 1);
                self.cut();
                return Ok(true);
            }
            // One word so far: of a long one memory keeps the beginning.
            self.passing |= block.len() > LONGEST;
            block.truncate(LONGEST + 1);
        }
        Ok(!block.is_empty())
    }

    /// As [`Blocks::next`], but waits until there are `most` bytes, or what comes has taken its
    /// time.
    fn fill(&mut self, block: &mut Vec<u8>, most: usize) -> Result<bool, Error> {
        let (mut piece, mut any, begun) = (Vec::new(), false, Instant::now());
        block.clear();
        while block.len() < most
            && !(any && begun.elapsed() > REDRAW)
            && self.next(&mut piece, most - block.len())?
        {
            block.extend_from_slice(&piece);
            any = true;
        }
        Ok(any)
    }

    /// Skips the rest of a word that is too long, in the bytes that were read behind `before`.
    fn pass(&mut self, block: &mut Vec<u8>, before: usize) {
        if self.passing {
            let rest = &block[before..];
            let end = rest.iter().position(u8::is_ascii_whitespace);
            self.passing = end.is_none();
            block.drain(before..before + end.unwrap_or(rest.len()));
        }
    }

    fn cut(&mut self) {
        if self.begun.len() > LONGEST {
            self.begun.truncate(LONGEST + 1);
            self.passing = true;
        }
    }
}

/// Gives standard input and output, where they are pipes, room for [`PIPE`] bytes: with the
/// 64 KiB that pipes have, this process and its neighbours wait for each other at every block.
pub fn widen() {
    for pipe in [stdin().as_fd(), stdout().as_fd()] {
        // What is no pipe, or may not be larger, stays as it is.
        if rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|size| size < PIPE) {
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
        }
    }
}

/// Bytes that are answered before there is a table for many.
const FEW: usize = 16 << 10;

/// Bytes of a block.
pub const SMALL: usize = 64 << 10;
const MEDIUM: usize = 256 << 10;
const LARGE: usize = 1 << 20;
/// Room in a pipe: the most that a process without privileges may ask for by default.
const PIPE: usize = 1 << 20;
/// Of one that several batches are made of.
const HUGE: usize = 16 << 20;

/// Whether the line is on the terminal. A process has one, and one thread that shows it.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Before progress is shown.
const PATIENCE: Duration = Duration::from_millis(500);
const REDRAW: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at each read.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(buf.len()).min(self.0.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    #[test]
    fn input_of_any_length_is_read_in_blocks_of_whole_words() {
        let text = format!("{}\n{} 2.2.2.2\n3.3.3.3", "1.1.1.1 ".repeat(200), "x".repeat(3000));
        for (step, most) in [(7, 50), (1, 1), (5000, 64), (5000, 1 << 16)] {
            let mut blocks = Blocks::new(Slow(text.clone().into_bytes(), step));
            let (mut block, mut words, mut lines) = (Vec::new(), Vec::new(), 0);
            while blocks.next(&mut block, most).unwrap() {
                assert!(block.len() <= most + 2 * LONGEST + 2, "{step} {most}: {}", block.len());
                lines += block.iter().filter(|&&byte| byte == b'\n').count();
                let text = String::from_utf8(block.clone()).unwrap();
                words.extend(text.split_ascii_whitespace().map(str::to_string));
            }
            assert_eq!((words.len(), lines), (203, 2), "{step} {most}");
            assert!(words[..200].iter().all(|word| word == "1.1.1.1"));
            assert!(words[200].starts_with("xxx") && words[200].len() > LONGEST);
            assert_eq!(words[201..], ["2.2.2.2", "3.3.3.3"]);
            assert_eq!(blocks.read, text.len() as u64);
        }
    }

    #[test]
    fn progress_says_how_long_it_takes() {
        let progress = Progress { total: 1000, begun: Instant::now(), shown: None };
        let text = progress.text(25_000_000, 250, Duration::from_secs(2));
        assert_eq!(text, "25.0 million addresses, 12.5 million a second, 25 %, 6 s left");
        let pipe = Progress { total: 0, ..progress };
        let text = pipe.text(25_000_000, 250, Duration::from_secs(2));
        assert_eq!(text, "25.0 million addresses, 12.5 million a second");
    }
}
