//! A supervisor on its thread, and a worker that asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use policy::ask::{Asker, Facts, Full, Matter, Question, Verdict};
use policy::cell::{Desk, Error, Event, Handle, Settings, Source, Status, Supervisor};

/// Both, ended with it.
pub struct Rig {
    pub handle: Handle,
    pub desk: Desk,
    pub open: HashMap<u32, Instant>,
    events: Arc<Mutex<Vec<Event>>>,
    next: u32,
    thread: Option<JoinHandle<()>>,
}

/// Processes of this binary.
pub fn settings() -> Settings {
    Settings { memory: 64 << 20, ..Settings::default() }
}

/// A policy without files but its text.
pub fn source(name: &str) -> Source {
    Source::new(name, &[("policy", name.as_bytes())]).expect("memory")
}

impl Rig {
    /// With a policy that serves.
    pub fn new(settings: Settings, policy: &str) -> Rig {
        let rig = Rig::idle(settings);
        rig.handle.load(source(policy)).expect("it begins");
        rig
    }

    /// Without any.
    pub fn idle(settings: Settings) -> Rig {
        let (supervisor, handle, mut desks) = Supervisor::new(settings).expect("descriptors");
        let events = Arc::new(Mutex::new(Vec::new()));
        let said = events.clone();
        let run = move || supervisor.run(|event| said.lock().unwrap().push(event), || {});
        let thread = Some(std::thread::spawn(run));
        let desk = desks.remove(0);
        Rig { handle, desk, open: HashMap::new(), events, next: 0, thread }
    }

    pub fn load(&self, policy: &str) -> Result<(), Error> {
        self.handle.load(source(policy))
    }

    pub fn status(&self) -> Status {
        self.handle.status().expect("it runs")
    }

    /// What was said so far: all that happened before the last answer of the supervisor, which
    /// reports at the end of the round in which it answers.
    pub fn events(&self) -> Vec<Event> {
        let _ = self.handle.status(); // of a round that begins behind that end
        self.events.lock().unwrap().clone()
    }

    /// Asks about a packet that begins with `first`.
    pub fn ask(&mut self, first: u8) -> Result<u32, Full> {
        let mut bytes = [self.next as u8; 100];
        bytes[0] = first;
        self.ask_about(&bytes)
    }

    /// Asks about a packet of these bytes.
    pub fn ask_about(&mut self, bytes: &[u8]) -> Result<u32, Full> {
        let id = self.next;
        let facts = Facts {
            outer_ethertype: 0x0800,
            inner_ethertype: 0x0800,
            l4_proto: 6,
            priority: 3,
            outer_ecn: 0,
            frag: false,
            upper_len: 40,
            outer_l3: 14,
            inner_l3: 34,
            l4: 54,
        };
        self.desk.ask(&Question { id, matter: Matter::Packet, facts, bytes })?;
        self.next += 1;
        self.open.insert(id, Instant::now());
        Ok(id)
    }

    /// A poll: what has come, each with the time that it took.
    pub fn poll(&mut self) -> Vec<(Verdict, Duration)> {
        let mut found = Vec::new();
        let open = &mut self.open;
        self.desk.verdicts(256, &mut |verdict| {
            let asked = open.remove(&verdict.id).expect("asked, and not answered yet");
            found.push((verdict, asked.elapsed()));
        });
        self.desk.flush();
        found
    }

    /// Polls until nothing is open, `most` at the longest.
    pub fn settle(&mut self, most: Duration) -> Vec<(Verdict, Duration)> {
        let begun = Instant::now();
        let mut found = self.poll();
        while !self.open.is_empty() && begun.elapsed() < most {
            found.extend(self.poll());
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(self.open.is_empty(), "{} open after {most:?}", self.open.len());
        found
    }

    /// Polls until it is so.
    pub fn until(&mut self, what: &str, so: impl Fn(&Rig) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.events());
            self.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}
