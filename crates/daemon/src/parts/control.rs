//! The control thread: owns the tables' writing side, takes events from feeds
//! and calls from the API, and does what is due.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tables::{Control, Event};

use crate::error::{Doing, Error};
use crate::threads::{Pulse, Threads};

/// The running control thread.
pub struct ControlThread {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// The way to the control thread; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    messages: SyncSender<Message>,
    /// What does not wait behind messages.
    first: First,
}

type First = Arc<Mutex<Vec<Call>>>;
type Call = Box<dyn FnOnce(&mut Control) + Send>;

enum Message {
    Events(Vec<Event>),
    Call(Call),
    /// There may be a call that comes first.
    Look,
    Stop,
}

impl ControlThread {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(control: Control, threads: &Threads) -> Result<ControlThread, Error> {
        // A feed that is faster than the tables waits here, not in memory.
        let (sender, messages) = mpsc::sync_channel(WAITING);
        let pulse = threads.pulse("control");
        let first = First::default();
        let theirs = first.clone();
        let thread = threads.fatal("control", move || run(control, &messages, &theirs, &pulse));
        let thread = Some(thread.doing(|| "start the control thread".into())?);
        Ok(ControlThread { handle: Handle { messages: sender, first }, thread })
    }

    /// A way to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        // It may have ended by itself: by a panic, which was logged.
        let _ = self.handle.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Hands events over; waits while the control thread is behind. False when
    /// it has ended.
    pub fn events(&self, events: Vec<Event>) -> bool {
        self.messages.send(Message::Events(events)).is_ok()
    }

    /// Runs `f` on the control thread before what waits for it, and does not wait: a
    /// lost link does not queue behind a hundred thousand routes.
    pub fn first(&self, f: impl FnOnce(&mut Control) + Send + 'static) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(f));
        // Full, and it looks before the next message anyway; or it has ended.
        let _ = self.messages.try_send(Message::Look);
    }

    /// Runs `f` on the control thread and waits for the answer.
    ///
    /// # Errors
    /// When the control thread has ended.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Control) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (answer, answered) = mpsc::channel();
        let call: Call = Box::new(move |control| {
            let _ = answer.send(f(control)); // the caller may be gone
        });
        let gone = Error::Gone { thread: "control" };
        if self.messages.send(Message::Call(call)).is_err() {
            return Err(gone);
        }
        answered.recv().map_err(|_| gone)
    }
}

fn run(mut control: Control, messages: &Receiver<Message>, first: &First, pulse: &Pulse) {
    let look = |control: &mut Control| {
        let mut waiting = first.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = std::mem::take(&mut *waiting);
        drop(waiting);
        calls.into_iter().for_each(|call| call(control));
    };
    let mut due = Instant::now() + control.pause();
    loop {
        pulse.beat();
        let left = due.saturating_duration_since(Instant::now());
        let message = messages.recv_timeout(left);
        look(&mut control);
        match message {
            Ok(Message::Events(events)) => {
                for some in events.chunks(AT_ONCE) {
                    control.handle(some);
                    look(&mut control);
                }
            }
            Ok(Message::Call(call)) => call(&mut control),
            Ok(Message::Look) => {}
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Whatever it was, something may be due sooner.
        due = due.min(Instant::now() + control.pause().min(AFTER));
        if Instant::now() >= due {
            control.tick();
            due = Instant::now() + control.pause();
        }
    }
}

/// Batches of events that may wait.
const WAITING: usize = 64;
/// The rest of a message's work is done within this time.
const AFTER: Duration = Duration::from_millis(100);
/// Events taken in between two looks: a millisecond or two.
const AT_ONCE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use lookup::sync::Domain;
    use tables::{Limits, VrfConfig};

    #[test]
    fn what_comes_first_does_not_wait_behind_messages() {
        let threads = Threads::default();
        let control = Control::new(&Domain::new(), Limits::default(), &VrfConfig::default());
        let control = ControlThread::start(control.unwrap(), &threads).unwrap();
        let (handle, busy) = (control.handle(), control.handle());
        let (begun, begins) = mpsc::channel();
        let (order, done) = mpsc::channel();
        let (later, last) = (order.clone(), order.clone());
        let holds = std::thread::spawn(move || {
            busy.call(move |_| {
                begun.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            })
        });
        begins.recv().unwrap();
        let waits = control.handle();
        let waits = std::thread::spawn(move || waits.call(move |_| later.send("a message")));
        std::thread::sleep(Duration::from_millis(20));
        for _ in 0..2 * WAITING {
            let order = order.clone();
            handle.first(move |_| order.send("first").unwrap());
        }
        holds.join().unwrap().unwrap();
        waits.join().unwrap().unwrap().unwrap();
        let all: Vec<_> = done.try_iter().collect();
        assert_eq!((all.len(), all.last()), (2 * WAITING + 1, Some(&"a message")));
        // It is woken where nothing else does.
        handle.first(move |_| last.send("alone").unwrap());
        assert_eq!(done.recv_timeout(Duration::from_secs(5)), Ok("alone"));
    }
}
