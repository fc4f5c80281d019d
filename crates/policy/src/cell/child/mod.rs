//! A process in which a policy runs: what the hidden command `rutter policy-cell` does.
//!
//! ```text
//!  begin ─► hears how it is to be, gets rings and files ─► shuts itself in ─► makes the
//!  decider ─► ready ─► questions, verdicts, chunks … until the socket or a signal ends it
//! ```

mod filter;
mod rings;
mod sandbox;
mod serve;
mod signals;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use rings::{BATCH, End};

use self::watch::Watch;
use super::begin::Begin;
use super::control;
use super::layout::{LINE, Layout};
use super::shared::{Own, Window};
use crate::ask::{Question, Verdict};

/// Stops the running call of a decider, from another thread.
pub type Stop = Box<dyn Fn() + Send>;

/// Finds the line of the policy that runs, from 1; 0: none is known.
pub type LineOf = unsafe fn() -> u32;

/// The code that decides. Neither its process nor the worker trusts it.
pub trait Decider {
    /// Appends a verdict for each question.
    ///
    /// # Errors
    /// When it failed, with the policy's line where that is known: questions without a
    /// verdict get the configured one.
    fn decide(
        &mut self,
        questions: &[Question<'_>],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), String>;

    /// Runs a chunk in the policy's state; returns its result.
    ///
    /// # Errors
    /// When it failed.
    fn exec(&mut self, chunk: &str) -> Result<String, String>;

    /// What ends [`Decider::decide`] and [`Decider::exec`] early, with an error.
    fn stopper(&self) -> Option<Stop> {
        None
    }

    /// A resource that it lacks and works without, for the operator, if it was not reported yet.
    fn remark(&mut self) -> Option<String> {
        None
    }

    /// A stop is over, or came too late: the next call runs.
    fn resume(&mut self) {}
}

/// The parts that a process received.
#[derive(Debug)]
pub struct Handed {
    /// The policy's name.
    pub name: String,
    /// Bytes of each packet that it sees, at most.
    pub captured: usize,
    /// Bytes of memory that the process may take in addition to those at its start.
    pub memory: u64,
    /// Its process's place among those that live: different for all that decide at a time.
    pub place: u32,
    watch: Arc<Watch>,
    load: Duration,
    files: Vec<(String, Arc<Mapped>)>,
    rings: Vec<[(usize, usize); 2]>,
}

#[derive(Debug)]
struct Mapped(Option<Window>, usize);

impl Handed {
    /// The policy's text: its first file.
    pub fn text(&self) -> &[u8] {
        self.files.first().map_or(&[], |(_, file)| file.bytes())
    }

    /// The names of its files; the first is that of its text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| &**name)
    }

    /// Addresses and lengths of the rings to each worker, questions and verdicts: for tests that
    /// write there.
    #[doc(hidden)]
    pub fn rings(&self) -> &[[(usize, usize); 2]] {
        &self.rings
    }

    /// Stops the decider while it is made, should that take too long: the policy is then refused
    /// with the line at which it was. Without a stopper its process is killed, and the line stays
    /// unknown.
    pub fn stop_by(&self, stop: Stop) {
        self.watch.arm(Some(stop), self.load);
    }

    /// Finds the policy's line where the process crashes, or where a C function does not return.
    /// The calling thread is the one that decides.
    ///
    /// # Safety
    /// `line_of` may be called in a signal handler of the calling thread, at any moment until the
    /// process ends.
    pub unsafe fn line_by(&self, line_of: LineOf) {
        // SAFETY: passed on.
        unsafe { signals::line_by(line_of) };
    }

    /// A file by its name.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(found, _)| found == name).map(|(_, file)| file.bytes())
    }

    /// The same, for who keeps it longer.
    pub fn shared(&self, name: &str) -> Option<Arc<dyn AsRef<[u8]> + Send + Sync>> {
        let (_, file) = self.files.iter().find(|(found, _)| found == name)?;
        Some(file.clone())
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Mapped {
    fn bytes(&self) -> &[u8] {
        let Mapped(window, len) = self;
        // SAFETY: `Source::new` has written it without a mapping, then sealed it against any other
        // writer and any change of its size, before it was handed over.
        window.as_ref().map_or(&[], |window| unsafe { window.bytes(0, *len) })
    }
}

/// The main function of the process: its standard input is the supervisor's socket. `make` makes
/// the decider, already confined. A process with other threads is refused: a policy may reach all
/// of its memory, and its descriptors are closed. Once a decider exists, nothing else runs in it.
pub fn main(make: impl FnOnce(&Handed) -> Result<Box<dyn Decider>, String>) -> ExitCode {
    match run(make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a socket there is no supervisor to report to.
            let _ = control::tell(io::stdin().as_fd(), control::REFUSED, &error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(make: impl FnOnce(&Handed) -> Result<Box<dyn Decider>, String>) -> io::Result<()> {
    if !sandbox::is_alone()? {
        return Err(io::Error::other("a process of a policy has one thread"));
    }
    sandbox::begin()?;
    // Standard output and error stay as they were: closed, under a daemon.
    sandbox::close_from(3)?;
    let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    let order = Order::hear(&socket)?;
    let bell = Arc::new(order.bell);
    rustix::io::ioctl_fionbio(&socket, true)?;
    let control = Arc::new(socket);
    let bounds = sandbox::Bounds {
        user: u32::try_from(order.begin.user).ok(),
        memory: order.begin.memory,
        parent: order.begin.parent as u32,
    };
    let missing = sandbox::shut(bounds)?;
    if let Some([_, (verdicts, _)]) = order.handed.rings.first() {
        let word = std::ptr::with_exposed_provenance_mut(verdicts + LINE);
        // SAFETY: aligned, in memory that is mapped until the process ends; the ring's end does not
        // use this word.
        unsafe { signals::note_in(word) };
    }
    let watch = order.handed.watch.clone();
    watch.arm(None, order.handed.load);
    std::panic::set_hook(Box::new(|_| {}));
    watch::start(watch.clone(), control.clone(), bell.clone())?;
    // SAFETY: nothing of this process's refers to them later.
    (0..3).for_each(|file| unsafe { rustix::io::close(file) });
    sandbox::no_more()?;
    let say = |kind, parts: &[&[u8]]| control::say(&control, kind, parts);
    if let Err(why) = sandbox::close(&[bell.as_fd(), control.as_fd()]) {
        say(control::REFUSED, &[why.as_bytes()])?;
        return Err(io::Error::other(why));
    }
    say(control::SHUT, &[missing.join("\n").as_bytes()])?;
    watch.begin();
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| make(&order.handed)));
    watch.end();
    let mut decider = match made.unwrap_or_else(|panic| Err(serve::words(&*panic))) {
        Ok(decider) => decider,
        Err(why) => {
            say(control::REFUSED, &[&why.as_bytes()[..why.len().min(MOST)]])?;
            exit(1);
        }
    };
    watch.arm(decider.stopper(), Duration::from_millis(order.begin.limit_ms));
    say(control::READY, &[])?;
    let spin = match order.begin.spin_us {
        u64::MAX => None,
        us => Some(Duration::from_micros(us)),
    };
    let (ends, is_asked) = (order.ends, false);
    let mut server = serve::Server { ends, watch, bell, control, spin, is_asked };
    server.run(&mut *decider);
    exit(1)
}

/// The longest text of its messages.
const MOST: usize = control::MOST - 64;

/// Ends the process at once: nothing needs to be closed, and nothing could be.
fn exit(status: i32) -> ! {
    // SAFETY: does not come back.
    unsafe { libc::_exit(status) }
}

/// Its configuration.
struct Order {
    begin: Begin,
    bell: OwnedFd,
    ends: Vec<End>,
    handed: Handed,
}

impl Order {
    fn hear(socket: &OwnedFd) -> io::Result<Order> {
        let mut buffer = vec![0; control::MOST];
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let (mut begun, mut ends, mut files, mut rings) = (None, vec![], vec![], vec![]);
        loop {
            let message = control::receive(socket.as_fd(), &mut buffer)?;
            let (kind, rest, mut given) = message.ok_or_else(wrong)?;
            match kind {
                control::BEGIN => {
                    let (begin, name) = Begin::parse(rest).ok_or_else(wrong)?;
                    begun = Some((begin, name.to_owned(), given.pop().ok_or_else(wrong)?));
                }
                control::RINGS => {
                    let (begin, ..) = begun.as_ref().ok_or_else(wrong)?;
                    let layout = Layout::new(begin.depth as u32, begin.captured as u32);
                    let [questions, verdicts] = given.try_into().map_err(|_| wrong())?;
                    let questions = Window::map(questions.as_fd(), layout.questions())?;
                    // SAFETY: the one of this file in this process.
                    let verdicts = unsafe { Own::map(verdicts.as_fd(), layout.verdicts()) }?;
                    rings.push([questions.place(), verdicts.window().place()]);
                    ends.push(End::new(layout, questions, verdicts));
                }
                control::FILE => {
                    let (len, name) = rest.split_first_chunk().ok_or_else(wrong)?;
                    let len = u64::from_ne_bytes(*len) as usize;
                    let file = given.pop().ok_or_else(wrong)?;
                    let window = match len {
                        0 => None,
                        _ => Some(Window::map(file.as_fd(), len)?),
                    };
                    let mapped = Arc::new(Mapped(window, len));
                    files.push((String::from_utf8_lossy(name).into_owned(), mapped));
                }
                control::GO => {
                    let (begin, name, bell) = begun.ok_or_else(wrong)?;
                    let (captured, place) = (begin.captured as usize, begin.place as u32);
                    let load = Duration::from_millis(begin.load_ms);
                    let handed = Handed {
                        name,
                        captured,
                        memory: begin.memory,
                        place,
                        watch: Arc::default(),
                        load,
                        files,
                        rings,
                    };
                    return Ok(Order { begin, bell, ends, handed });
                }
                _ => return Err(wrong()),
            }
        }
    }
}
