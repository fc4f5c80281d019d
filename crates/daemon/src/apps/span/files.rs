//! The thread that writes what mirrors copy into files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::io::pcap::{ETHERNET, Style, Writer};
use graph::ring::frames::Consumer;
use rustix::fs::OFlags;

use crate::error::{Doing, Error};
use crate::parts::watch::Clock;
use crate::threads::Threads;
use crate::trusted;

type Out = Writer<BufWriter<File>>;

/// The running thread. Dropped, it writes what is there still, and ends.
pub(super) struct Files {
    messages: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Rings(Vec<Consumer>),
    /// Answered once frames of it are written.
    Open(usize, Box<Out>, mpsc::Sender<()>),
    /// The copies before it are written when it is answered.
    Close(usize, mpsc::Sender<()>),
    /// The mirrors whose file failed, and why.
    Faults(mpsc::Sender<HashMap<usize, String>>),
    Stop,
}

/// A file, however it is named: device and inode.
pub(super) type Id = (u64, u64);

/// Makes a file, or empties it, unless it is one of those that are `taken`. What others may
/// have planted is refused, links among it: they would otherwise choose what is overwritten.
/// So is what is no plain file: a pipe without a reader would never be opened.
pub(super) fn create(path: &str, taken: &[Id]) -> io::Result<(Id, Box<Out>)> {
    trusted::target(Path::new(path))?;
    let plain = || io::Error::other("expected a plain file, or none");
    // Asked first for the message; what holds is how it is opened.
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(plain());
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = options.open(path)?;
    let found = file.metadata()?;
    let id = (found.dev(), found.ino());
    if !found.is_file() {
        return Err(plain());
    }
    if taken.contains(&id) {
        return Err(io::Error::other("another span writes this file"));
    }
    ::io::pcap::vet(&found)?;
    file.set_len(0)?;
    Ok((id, Box::new(Writer::new(BufWriter::new(file), Style::of(path), ETHERNET)?)))
}

impl Files {
    /// Starts it.
    pub(super) fn start(threads: &Threads) -> Result<Files, Error> {
        let (messages, received) = mpsc::sync_channel(4);
        let clock = Clock::new();
        let (open, faults) = (HashMap::new(), HashMap::new());
        let rings = Vec::new();
        let mut writing = Writing { rings, open, faults, clock, flushed: Instant::now() };
        let thread = threads.fatal("span", move || writing.run(&received));
        Ok(Files { messages, thread: Some(thread.doing(|| "start the span thread".into())?) })
    }

    /// From now on it takes what is in these rings: those of the workers.
    pub(super) fn attach(&self, rings: Vec<Consumer>) {
        let _ = self.messages.send(Message::Rings(rings));
    }

    /// Writes what mirror `number` copies into `file`. (The thread ends with this only: a
    /// message that does not arrive is one of a panic, which was printed.)
    pub(super) fn open(&self, number: usize, file: Box<Out>) {
        let (done, opened) = mpsc::channel();
        let _ = self.messages.send(Message::Open(number, file, done));
        let _ = opened.recv();
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
                Ok(Message::Rings(rings)) => self.rings.extend(rings),
                Ok(Message::Open(number, file, done)) => {
                    self.faults.remove(&number);
                    self.open.insert(number, file);
                    let _ = done.send(()); // the caller may be gone
                }
                Ok(Message::Close(number, done)) => {
                    self.write_all();
                    self.open.remove(&number);
                    self.faults.remove(&number);
                    let _ = done.send(()); // the caller may be gone
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
    tracing::error!("the file of a span is no longer written: {error}");
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
    use std::path::PathBuf;

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("rutter-span-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = folder("link");
        let (victim, link) = (folder.join("victim"), folder.join("link.pcap"));
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(create(link.to_str().unwrap(), &[]).is_err());
        std::os::unix::fs::symlink(&folder, folder.join("below")).unwrap();
        assert!(create(folder.join("below/own.pcap").to_str().unwrap(), &[]).is_err());
        assert!(!folder.join("own.pcap").exists());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert!(create(folder.join("own.pcap").to_str().unwrap(), &[]).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let folder = folder("pipe");
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.to_str().unwrap(), folder.to_str().unwrap(), "/dev/null"] {
            let (path, (sent, came)) = (path.to_string(), mpsc::channel());
            std::thread::spawn(move || sent.send(create(&path, &[]).is_err()));
            assert_eq!(came.recv_timeout(Duration::from_secs(5)), Ok(true));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn one_file_is_one_however_it_is_named() {
        let folder = folder("twice");
        let (file, other) = (folder.join("a.pcap"), folder.join("b.pcap"));
        let (id, mut out) = create(file.to_str().unwrap(), &[]).unwrap();
        out.flush().unwrap();
        std::fs::hard_link(&file, &other).unwrap();
        let size = std::fs::metadata(&file).unwrap().len();
        let again = folder.join("../").join(folder.file_name().unwrap()).join("a.pcap");
        for path in [&file, &other, &again] {
            let refused = create(path.to_str().unwrap(), &[id]).err().expect("refused");
            assert!(refused.to_string().contains("another span"), "{refused}");
        }
        assert_eq!(std::fs::metadata(&file).unwrap().len(), size, "and is not emptied");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_full_disk_is_the_fault_of_one_mirror() {
        let folder = folder("full");
        let (mut ring, consumer) = graph::ring::frames::ring(1 << 16);
        let files = Files::start(&Threads::default()).unwrap();
        files.attach(vec![consumer]);
        let full = BufWriter::new(File::options().write(true).open("/dev/full").unwrap());
        files.open(0, Box::new(Writer::new(full, Style::Pcap, ETHERNET).unwrap()));
        let good = folder.join("good.pcap");
        files.open(1, create(good.to_str().unwrap(), &[]).unwrap().1);
        for info in [0, 1] {
            let meta = graph::ring::frames::Meta { info, ..Default::default() };
            assert!(ring.push(meta, &[&[7; 60]]));
        }
        let begun = Instant::now();
        let fault = loop {
            match files.faults().remove(&0) {
                Some(fault) => break fault,
                None => assert!(begun.elapsed() < Duration::from_secs(5), "no fault"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(fault.contains("No space left"), "{fault}");
        assert_eq!(files.faults().len(), 1);
        files.close(1);
        assert_eq!(std::fs::metadata(&good).unwrap().len(), 24 + 16 + 60);
        drop(files);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
