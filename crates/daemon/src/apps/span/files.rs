//! The thread that writes what mirrors copy into files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::io::pcap::{ETHERNET, Style, Writer};
use graph::ring::frames::Consumer;
use rustix::fs::OFlags;

use crate::error::{Doing, Error};
use crate::parts::watch::Clock;
use crate::threads::Threads;

type Out = Writer<BufWriter<File>>;

/// The running thread. Dropped, it writes what is there still, and ends.
pub(super) struct Files {
    messages: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Open(usize, Box<Out>),
    /// What was copied before is written when it is answered.
    Close(usize, mpsc::Sender<()>),
    /// The mirrors whose file failed, and why.
    Faults(mpsc::Sender<HashMap<usize, String>>),
    Stop,
}

/// Makes a file, or empties it. A link is refused: whoever may write to the folder would
/// otherwise choose what is overwritten.
pub(super) fn create(path: &str) -> io::Result<Box<Out>> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = BufWriter::new(options.open(path)?);
    Ok(Box::new(Writer::new(file, Style::of(path), ETHERNET)?))
}

impl Files {
    /// Starts it; `rings` are the workers'.
    pub(super) fn start(rings: Vec<Consumer>, threads: &Threads) -> Result<Files, Error> {
        let (messages, received) = mpsc::sync_channel(4);
        let clock = Clock::new();
        let (open, faults) = (HashMap::new(), HashMap::new());
        let mut writing = Writing { rings, open, faults, clock, flushed: Instant::now() };
        let thread = threads.fatal("span", move || writing.run(&received));
        Ok(Files { messages, thread: Some(thread.doing(|| "start the span thread".into())?) })
    }

    /// Writes what mirror `number` copies into `file`. (The thread ends with this only: a
    /// message that does not arrive is one of a panic, which was printed.)
    pub(super) fn open(&self, number: usize, file: Box<Out>) {
        let _ = self.messages.send(Message::Open(number, file));
    }

    /// Ends the file of mirror `number`.
    pub(super) fn close(&self, number: usize) {
        let (done, closed) = mpsc::channel();
        let _ = self.messages.send(Message::Close(number, done));
        let _ = closed.recv();
    }

    /// Why files are not written any more, by mirror.
    pub(super) fn faults(&self) -> HashMap<usize, String> {
        let (answer, answered) = mpsc::channel();
        let _ = self.messages.send(Message::Faults(answer));
        answered.recv().unwrap_or_default()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop); // it may have ended by a panic
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writing {
    rings: Vec<Consumer>,
    open: HashMap<usize, Box<Out>>,
    faults: HashMap<usize, String>,
    clock: Clock,
    flushed: Instant,
}

impl Writing {
    fn run(&mut self, messages: &Receiver<Message>) {
        let mut busy = false;
        loop {
            let message = messages.recv_timeout(if busy { Duration::ZERO } else { PAUSE });
            busy = self.write();
            match message {
                Ok(Message::Open(number, file)) => {
                    self.faults.remove(&number);
                    self.open.insert(number, file);
                }
                Ok(Message::Close(number, done)) => {
                    self.write_all();
                    self.open.remove(&number);
                    self.faults.remove(&number);
                    let _ = done.send(()); // whoever asked may be gone
                }
                Ok(Message::Faults(answer)) => {
                    let _ = answer.send(self.faults.clone());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return self.write_all();
                }
            }
            if self.flushed.elapsed() > FLUSH {
                self.flush();
            }
        }
    }

    /// Writes some of what is in the rings; true where there may be more. What is of no
    /// open file was copied while it was being closed.
    fn write(&mut self) -> bool {
        let Writing { rings, open, faults, clock, .. } = self;
        let mut busy = false;
        for ring in rings {
            for i in 0..BATCH {
                let written = ring.pop(|meta, frame| {
                    let file = open.get_mut(&(meta.info as usize))?;
                    let written = file.write(frame, clock.unix_ns(meta.time));
                    written.err().map(|error| (meta.info as usize, error))
                });
                match written {
                    None => break,
                    Some(Some((number, error))) => fail(open, faults, number, &error),
                    Some(None) => busy |= i + 1 == BATCH,
                }
            }
        }
        busy
    }

    /// Writes what the rings hold now: not for ever, where others go on to fill them.
    fn write_all(&mut self) {
        for _ in 0..ROUNDS {
            if !self.write() {
                break;
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        let failed = |(number, file): (&usize, &mut Box<Out>)| Some((*number, file.flush().err()?));
        let failed: Vec<_> = self.open.iter_mut().filter_map(failed).collect();
        for (number, error) in failed {
            fail(&mut self.open, &mut self.faults, number, &error);
        }
    }
}

fn fail(
    open: &mut HashMap<usize, Box<Out>>,
    faults: &mut HashMap<usize, String>,
    number: usize,
    error: &io::Error,
) {
    tracing::error!("the file of a span is not written any more: {error}");
    open.remove(&number);
    faults.insert(number, error.to_string());
}

/// Frames of a ring written at once.
const BATCH: usize = 1024;
/// Batches that a ring holds of the shortest frames, and some more.
const ROUNDS: usize = 64;
/// Between looks at the rings.
const PAUSE: Duration = Duration::from_millis(5);
/// Between writes of what is buffered.
const FLUSH: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let folder = std::env::temp_dir().join(format!("rutter-span-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (victim, link) = (folder.join("victim"), folder.join("link.pcap"));
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(create(link.to_str().unwrap()).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert!(create(folder.join("own.pcap").to_str().unwrap()).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
