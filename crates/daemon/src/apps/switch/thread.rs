//! The bridge thread: learns what workers see, and answers for the MAC table.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use graph::Bell;
use graph::ring::spsc;
use lookup::sync::Domain;
use nodes::switch::loops::Loops;
use tables::bridge::DomainId;
use tables::macs::Learn;
use tables::switch::{BridgeConfig, Looped, Member, Notice, Switch};
use tables::{Forwarding, PortId};

use super::config::{Bridge as Configured, BridgePort, Bridges};
use crate::config::{self, Config};
use crate::error::{Doing, Error};
use crate::parts::devices::Port;
use crate::threads::{Pulse, Threads};

/// The running bridge thread.
pub struct BridgeThread {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// The way to the bridge thread; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    messages: SyncSender<Message>,
    bell: Bell,
}

type Call = Box<dyn FnOnce(&mut Switch) + Send>;

enum Message {
    Call(Call),
    Stop,
}

impl BridgeThread {
    /// Starts it for the bridges of the configuration; `seen` are the workers' rings, `loops`
    /// what they saw of probes, and `bell` what wakes it for these.
    ///
    /// # Errors
    /// When there is no memory for the tables, or no thread to be had.
    pub fn start(
        config: &Config,
        ports: &[Port],
        (forwarding, domain): (&Arc<Forwarding>, &Arc<Domain>),
        (seen, loops, bell): (Vec<spsc::Consumer<Learn>>, Arc<Loops>, Bell),
        threads: &Threads,
    ) -> Result<BridgeThread, Error> {
        let switch = switch(config, ports, forwarding, domain)?;
        let names = ports.iter().map(|port| port.config.name.clone()).collect();
        let (sender, messages) = mpsc::sync_channel(16);
        let domain = domain.clone();
        let handle = Handle { messages: sender, bell: bell.clone() };
        let (forwarding, batch) = (forwarding.clone(), Vec::new());
        let mut bridge = Bridge { switch, seen, loops, bell, batch, names, forwarding, domain };
        let pulse = threads.pulse("bridge");
        let thread = threads.fatal("bridge", move || bridge.run(&messages, &pulse));
        let thread = Some(thread.doing(|| "start the bridge thread".into())?);
        Ok(BridgeThread { handle, thread })
    }

    /// A way to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for BridgeThread {
    fn drop(&mut self) {
        // It may have ended by itself: by a panic, which was logged.
        let _ = self.handle.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Runs `f` on the bridge thread and waits for the answer.
    ///
    /// # Errors
    /// When the bridge thread has ended.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (answer, answered) = mpsc::channel();
        let call: Call = Box::new(move |switch| {
            let _ = answer.send(f(switch)); // the caller may be gone
        });
        let gone = Error::Gone { thread: "bridge" };
        if !self.send(Message::Call(call)) {
            return Err(gone);
        }
        answered.recv().map_err(|_| gone)
    }

    /// False where the thread has ended.
    fn send(&self, message: Message) -> bool {
        let sent = self.messages.send(message).is_ok();
        self.bell.wake();
        sent
    }
}

/// The thread's own state.
struct Bridge {
    switch: Switch,
    seen: Vec<spsc::Consumer<Learn>>,
    loops: Arc<Loops>,
    bell: Bell,
    /// What one of them has brought.
    batch: Vec<Learn>,
    /// Of ports, by number.
    names: Vec<String>,
    forwarding: Arc<Forwarding>,
    domain: Arc<Domain>,
}

impl Bridge {
    fn run(&mut self, messages: &Receiver<Message>, pulse: &Pulse) {
        let mut pause = BUSY;
        let mut reader = self.domain.register("bridge");
        reader.offline();
        loop {
            pulse.beat();
            let call = match messages.try_recv() {
                Ok(Message::Call(call)) => Some(call),
                Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => None,
            };
            let (now, called) = (Instant::now(), call.is_some());
            let learnt = self.learn(now);
            // After what workers saw before the question, or a host whose frame has
            // been answered would be unknown for as long as the pause.
            if let Some(call) = call {
                call(&mut self.switch);
            }
            for sighting in self.loops.sightings() {
                if self.switch.loop_seen(sighting, now) {
                    self.loops.ask(sighting.domain);
                }
            }
            self.switch.sweep(now);
            reader.online();
            self.switch.answer_to(self.forwarding.ifaces.load(reader.guard()));
            reader.offline();
            self.domain.reclaim();
            for notice in self.switch.take_notices() {
                self.tell(notice);
            }
            if learnt > 0 {
                self.bell.get_up();
                pause = BUSY;
            } else if called {
                continue; // another may wait
            } else {
                pause = (pause * 2).min(IDLE);
            }
            if pause < IDLE {
                self.bell.wait(pause);
            } else if self.bell.is_asleep() {
                self.bell.wait(self.due(now));
            } else {
                self.bell.lie_down(); // and all is looked at once more
            }
        }
    }

    /// How long it may sleep where nobody wakes it.
    fn due(&self, now: Instant) -> Duration {
        let routed = self.switch.bridges().iter().any(|bridge| !bridge.routed.is_empty());
        let longest = if routed { MACVLANS } else { LONGEST };
        let due = self.switch.due(now).saturating_duration_since(now).clamp(BUSY, longest);
        if self.domain.waiting() > 0 { due.min(IDLE) } else { due }
    }

    /// Takes in a batch of what each worker saw.
    fn learn(&mut self, now: Instant) -> usize {
        let mut learnt = 0;
        for ring in &mut self.seen {
            self.batch.clear();
            self.batch.extend(std::iter::from_fn(|| ring.pop()).take(BATCH));
            self.switch.learn_all(&self.batch, now);
            learnt += self.batch.len();
        }
        learnt
    }

    fn tell(&self, notice: Notice) {
        let name = |port: u16| self.names.get(usize::from(port)).map_or("?", String::as_str);
        match notice {
            Notice::Flapping { key, port, home } => {
                let mac = config::Mac(key.octets());
                let (bridge, vlan) = self.switch.name(DomainId(key.domain())).unwrap_or(("?", 0));
                let held = match home {
                    Some(home) => format!("it stays at port {}, where it was before", name(home)),
                    None => "frames to it are flooded, since it has stayed nowhere for long".into(),
                };
                tracing::warn!(
                    "bridge {bridge}, VLAN {vlan}: {mac} keeps moving, last to port {} \
                     (a loop, or a forged address?): for a minute, {held}",
                    name(port)
                );
            }
            Notice::Loop(Looped { sighting, out, retry, since, .. }) => {
                let (bridge, vlan) = self.switch.name(sighting.domain).unwrap_or(("?", 0));
                let what = if out { "is out of use" } else { "stays in use" };
                tracing::error!(
                    "bridge {bridge}, VLAN {vlan}: a loop: port {} receives the probes that {} sends; \
                     it {what}, and is tested again in {} s",
                    name(sighting.port),
                    name(sighting.sender),
                    (retry - since).as_secs()
                );
            }
            Notice::LoopOver(port) => {
                tracing::info!(
                    "port {}: no probe has come back lately: it is in use again",
                    name(port)
                );
            }
        }
    }
}

fn switch(
    config: &Config,
    ports: &[Port],
    forwarding: &Arc<Forwarding>,
    domain: &Arc<Domain>,
) -> Result<Switch, Error> {
    let count = config.ports.len() as u16;
    let number = |name: &str| config.ports.iter().position(|port| port.name == name);
    let all = Bridges::of(config);
    let bridges = all.iter().map(|bridge| bridge_config(bridge, &config.ports));
    let macs: Vec<[u8; 6]> = all.iter().map(|bridge| mac_of(bridge, ports)).collect();
    fn refused(error: impl std::fmt::Display) -> Error {
        Error::Bridge { reason: error.to_string() }
    }
    let switch = Switch::new(forwarding, domain, bridges.collect(), (count, &macs));
    let mut switch = switch.map_err(refused)?;
    for port in ports {
        switch.set_link(port.number, port.device.link().up);
    }
    for bridge in all {
        for entry in &bridge.macs {
            let domain = switch.domain(&bridge.name, entry.vlan).unwrap_or_default();
            let port = number(&entry.port).unwrap_or_default() as u16;
            switch.insert_static(entry.mac.0, domain, port).map_err(refused)?;
        }
    }
    Ok(switch)
}

fn bridge_config(bridge: &Configured, ports: &[config::Port]) -> BridgeConfig {
    let number = |name: &str| ports.iter().position(|port| port.name == name);
    let port = |name: &str| ports.iter().find(|port| port.name == name);
    let member = |member: &BridgePort| Member {
        port: PortId(number(&member.port).unwrap_or_default() as u16),
        mode: member.mode.clone(),
        isolated: member.isolated,
        max_macs: member.max_macs,
        flood: member.flood,
        mtu: port(&member.port).map_or(u16::MAX, |port| port.interface.mtu),
    };
    let own = bridge.interface.iter().map(|_| 0);
    BridgeConfig {
        name: bridge.name.clone(),
        members: bridge.ports.iter().map(member).collect(),
        routed: own.chain(bridge.vlans.iter().map(|(vlan, _)| *vlan)).collect(),
        max_macs: bridge.max_macs,
        when_full: bridge.when_full,
        ageing: bridge.ageing,
        link_local: bridge.link_local,
        loops: bridge.loops,
    }
}

/// The hardware address of a bridge's routed interface.
fn mac_of(bridge: &Configured, ports: &[Port]) -> [u8; 6] {
    let first = bridge.ports.first().map(|member| &member.port);
    let port = ports.iter().find(|port| Some(&port.config.name) == first);
    port.map(|port| port.mac.0).unwrap_or_default()
}

/// Messages of a worker taken in at once.
const BATCH: usize = 65_536;
/// Between looks while stations come.
const BUSY: Duration = Duration::from_millis(1);
/// No station for so long, and workers wake it. Also between looks at what is to be freed.
const IDLE: Duration = Duration::from_millis(32);
/// Between looks at the macvlans on routed interfaces: the thread that follows them does not ring.
const MACVLANS: Duration = Duration::from_millis(100);
/// It still has a pulse.
const LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::devices;
    use crate::threads::tests::death_of;
    use lookup::exact::Key;
    use tables::macs::ABSENT;

    #[test]
    fn a_panic_of_the_bridge_thread_is_a_death() {
        let text = "workers = [0]\nbuffers = 4096\n[ports.p0]\ndevice = \"mem\"\n\
            [ports.p1]\ndevice = \"mem\"\n[bridge.lan]\nports = [\"p0\", \"p1\"]\n";
        let config = Config::parse("t", text).unwrap();
        let ports = devices::open(&config).unwrap();
        let (domain, threads) = (Domain::new(), Threads::default());
        let forwarding = Forwarding::new(&domain);
        let tables = (&forwarding, &domain);
        let bell = Bell::new().unwrap();
        let seen = (Vec::new(), Loops::new(2, [1, 2], Some(bell.clone())), bell);
        let thread = BridgeThread::start(&config, &ports, tables, seen, &threads).unwrap();
        let called = thread.handle().call(|_| panic!("planted in bridge"));
        assert!(matches!(called, Err::<(), _>(Error::Gone { thread: "bridge" })));
        let death = death_of(&threads);
        assert!(death.thread == "bridge" && death.cause.ends_with("planted in bridge"));
    }

    /// It would look by itself a second later at most.
    #[test]
    fn a_station_is_learnt_at_once_by_a_thread_that_sleeps() {
        let text = "workers = [0]\nbuffers = 4096\n[ports.p0]\ndevice = \"mem\"\n\
            [ports.p1]\ndevice = \"mem\"\n[bridge.lan]\nports = [\"p0\", \"p1\"]\n";
        let config = Config::parse("t", text).unwrap();
        let ports = devices::open(&config).unwrap();
        let (domain, threads, bell) = (Domain::new(), Threads::default(), Bell::new().unwrap());
        let forwarding = Forwarding::new(&domain);
        let (mut learn, learnt) = spsc::ring(16);
        let seen = (vec![learnt], Loops::new(2, [1, 2], Some(bell.clone())), bell.clone());
        let tables = (&forwarding, &domain);
        let _thread = BridgeThread::start(&config, &ports, tables, seen, &threads).unwrap();
        let mut reader = domain.register("test");
        let mut took: Vec<Duration> = (1..=5)
            .map(|n| {
                while !bell.is_asleep() {
                    std::thread::sleep(BUSY);
                }
                std::thread::sleep(IDLE);
                let (begun, key) = (Instant::now(), Key::new(n, 1));
                assert!(learn.push(Learn { key, port: 1 }).is_ok());
                bell.ring();
                let mut found = [ABSENT];
                while found == [ABSENT] {
                    assert!(begun.elapsed() < Duration::from_secs(10), "station {n} is unknown");
                    reader.quiesce();
                    forwarding.macs.lookup_batch(reader.guard(), &[key], &mut found);
                }
                begun.elapsed()
            })
            .collect();
        took.sort_unstable();
        assert!(took[2] < Duration::from_millis(200), "{took:?}");
    }
}
