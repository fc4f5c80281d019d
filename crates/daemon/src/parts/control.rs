//! The control thread: owns the tables' writing side, takes events from feeds
//! and calls from the API, and does what is due.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Instant;

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
pub struct Handle(SyncSender<Message>);

type Call = Box<dyn FnOnce(&mut Control) + Send>;

enum Message {
    Events(Vec<Event>),
    Call(Call),
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
        let thread = threads.fatal("control", move || run(control, &messages, &pulse));
        let thread = Some(thread.doing(|| "start the control thread".into())?);
        Ok(ControlThread { handle: Handle(sender), thread })
    }

    /// A way to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        // It may have ended by itself: by a panic, which was logged.
        let _ = self.handle.0.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Hands events over; waits while the control thread is behind. False when
    /// it has ended.
    pub fn events(&self, events: Vec<Event>) -> bool {
        self.0.send(Message::Events(events)).is_ok()
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
            let _ = answer.send(f(control)); // whoever asked may be gone
        });
        let gone = Error::Gone { thread: "control" };
        if self.0.send(Message::Call(call)).is_err() {
            return Err(gone);
        }
        answered.recv().map_err(|_| gone)
    }
}

fn run(mut control: Control, messages: &Receiver<Message>, pulse: &Pulse) {
    let mut due = Instant::now() + control.pause();
    loop {
        pulse.beat();
        let left = due.saturating_duration_since(Instant::now());
        match messages.recv_timeout(left) {
            Ok(Message::Events(events)) => control.handle(&events),
            Ok(Message::Call(call)) => call(&mut control),
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if Instant::now() >= due {
            control.tick();
            due = Instant::now() + control.pause();
        }
    }
}

/// Batches of events that may wait.
const WAITING: usize = 64;
