//! Runs that end by themselves: a thread of theirs is made to die by what a test
//! plants (a node, a call), and what is left behind is looked at.

use std::path::Path;
use std::thread::JoinHandle;

use graph::{Builder, Graph, NoDrop, NoEdge, Node, View};

use super::signals::ignores;
use super::*;
use crate::config::Config;
use crate::namespace;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

#[test]
fn ignored_signals_are_found() {
    let status = "Name:\trutter\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
    assert!(ignores(status, SIGHUP));
    assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
    assert!(!ignores("", SIGHUP));
}

mod grantor;
mod one_box;
mod shield;

graph::labels! { enum Never { Next = "next" } }

/// A node with a fault.
struct Faulty;

impl Node for Faulty {
    type Edge = Never;
    type Drop = NoDrop;
    const NAME: &'static str = "faulty";
    const HELP: &'static str = "panics at its first packet";

    fn process(&mut self, _: &mut View<'_, Self>) {
        panic!("planted in a node");
    }
}

struct Drop;

impl Node for Drop {
    type Edge = NoEdge;
    type Drop = NoDrop;
    const NAME: &'static str = "drop";
    const HELP: &'static str = "frees";

    fn process(&mut self, v: &mut View<'_, Self>) {
        v.free();
    }
}

/// A graph whose first packet is there, and meets [`Faulty`].
fn faulty() -> Graph {
    let pool = ::io::Pool::new(&::io::PoolConfig { packets: 256, ..Default::default() }).unwrap();
    let (mut device, peer) = ::io::mem::connect("planted", [2, 0, 0, 0, 0, 9], &pool);
    let builder = Builder::new("faulty").node(Faulty).node(Drop).connect("faulty", "next", "drop");
    let mut graph = builder.build(0).unwrap();
    graph.ports().set(9, ::io::Device::start(&mut device, 1).unwrap().remove(0));
    peer.push(&[0; 60]);
    graph
}

/// A folder that goes again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("rutter-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl std::ops::Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // a folder that stays hinders nobody
    }
}

/// A router of the configuration in `text` that runs in the namespace of this thread.
fn start(folder: &Path, text: &str) -> (Running, Receiver<Stop>, Instance) {
    let config = Config::parse("t", text).unwrap();
    let text = Text { file: "t".into(), text: text.into() };
    let options = Options { text, socket: folder.join("api.sock") };
    let instance = Instance::claim(&options.socket, "t").unwrap();
    let (stop, stopped) = mpsc::channel();
    let (door, rights) = ((stop, Threads::default()), Reduced::nothing());
    let running = Running::start(config, &options, &instance, door, rights).unwrap();
    (running.serve(&instance).unwrap(), stopped, instance)
}

/// One that `plant` harms, and that ends by it within a second or two.
fn ends(folder: &Path, text: &str, plant: impl FnOnce(&Running)) -> Error {
    let (running, stopped, instance) = start(folder, text);
    plant(&running);
    let begun = Instant::now();
    let error = running.wait(&stopped, Notifier::default(), &instance).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(!instance.socket().exists());
    error
}

fn death(error: Error) -> (String, String) {
    match error {
        Error::Died { death } => (death.thread, death.cause),
        other => panic!("not of a death: {other}"),
    }
}

fn plant_node(running: &Running) {
    let workers = running.state.workers.read().unwrap();
    drop(workers.as_ref().unwrap().threads[0].swap(faulty()));
}

const OFFLINE: &str = "workers = [0]\nbuffers = 4096\n[ports.p0]\ndevice = \"mem\"\n\
    addresses = [\"10.0.1.1/24\"]\n";

#[test]
fn a_node_that_panics_ends_the_run_with_its_cause() {
    let folder = Folder::new("dies-node");
    let (thread, cause) = death(ends(&folder.0, OFFLINE, plant_node));
    assert_eq!(thread, "worker-0");
    assert!(cause.ends_with("planted in a node") && cause.contains("run/tests.rs:"), "{cause}");
}

#[test]
fn so_does_the_control_thread() {
    let folder = Folder::new("dies-control");
    let control = |running: &Running| {
        let called = running.state.control.call(|_| panic!("planted in control"));
        assert!(matches!(called, Err::<(), _>(Error::Gone { thread: "control" })));
    };
    assert_eq!(death(ends(&folder.0, OFFLINE, control)).0, "control");
}

#[test]
fn a_panic_under_a_lock_keeps_nobody_from_stopping() {
    let folder = Folder::new("dies-lock");
    let harm = |running: &Running| {
        let (state, threads) = (running.state.clone(), running.threads.clone());
        let hold = move || {
            let _workers = state.workers.write().unwrap();
            let _ports = state.ports.lock().unwrap();
            let _stalled = state.stalled.lock().unwrap();
            panic!("planted under locks");
        };
        let holder: JoinHandle<()> = threads.fatal("holder", hold).unwrap();
        assert!(holder.join().is_err());
        assert!(running.state.workers.is_poisoned() && running.state.ports.is_poisoned());
    };
    assert_eq!(death(ends(&folder.0, OFFLINE, harm)).0, "holder");
}

const TAP: &str = "workers = [0]\nbuffers = 4096\n[ports.p0]\ndevice = \"tap:x0\"\n\
    addresses = [\"10.0.1.1/24\"]\n";

fn setting(key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{key}"));
    text.map(|text| text.trim().to_string()).unwrap_or_default()
}

/// Settings that a router with a tap changes.
const KEYS: [&str; 2] = ["ipv6/conf/all/forwarding", "ipv6/conf/lo/forwarding"];

/// With a kernel: a tap, its settings, and what they were before.
#[test]
fn after_a_death_settings_are_as_before_and_the_taps_stay() {
    namespace::in_namespace(|| {
        if !Path::new("/dev/net/tun").exists() {
            return testing::skip("no /dev/net/tun");
        }
        namespace::ip("link set lo up");
        let folder = Folder::new("dies-kernel");
        let before = KEYS.map(setting);
        let record = folder.0.join("api.sock.settings");
        let plant = |running: &Running| {
            assert!(record.exists(), "settings are changed");
            assert_eq!(setting("ipv4/conf/p0/forwarding"), "1");
            plant_node(running);
        };
        let (thread, cause) = death(ends(&folder.0, TAP, plant));
        assert_eq!(thread, "worker-0", "{cause}");
        assert_eq!(KEYS.map(setting), before);
        assert_eq!(setting("ipv4/conf/p0/forwarding"), "0");
        assert!(!record.exists(), "nothing is left to be given back");
        namespace::ip("link show p0"); // or it panics
    });
}

/// What others have called so before is found by the check, not by the start.
#[test]
fn a_check_finds_what_is_in_the_way_on_this_machine() {
    namespace::in_namespace(|| {
        namespace::ip("link add p0 type veth peer name v0");
        namespace::ip("address add 10.0.9.1/24 dev v0");
        namespace::ip("link add v1 type veth peer name v2");
        let found = |text: &str| {
            let config = Config::parse("t", text).unwrap();
            let (refused, absent) = check(&config, &Text { file: "t".into(), text: text.into() });
            (refused.to_string(), absent.to_string())
        };
        let fine = found("[ports.p1]\ndevice = \"packet:v1\"\n");
        assert_eq!(fine, (String::new(), String::new()));
        let (refused, _) = found("[ports.p0]\ndevice = \"packet:v1\"\n");
        let place = "t:1:1: ports.p0: the kernel has an interface `p0` already";
        assert!(refused.starts_with(place) && refused.contains("ip link set p0 name"), "{refused}");
        let (refused, _) = found("[ports.p1]\ndevice = \"packet:v0\"\n");
        let place = "t:2:10: ports.p1.device: v0 has the address 10.0.9.1/24";
        assert!(refused.starts_with(place) && refused.contains("ip address del"), "{refused}");
        let (refused, absent) = found("[ports.p1]\ndevice = \"packet:v7\"\n");
        assert!(refused.is_empty() && absent.contains("did you mean"), "{refused} {absent}");
    });
}

/// A client that is still connected holds the applications.
#[test]
fn a_mirror_s_file_is_whole_after_a_stop_whoever_is_connected() {
    let folder = Folder::new("whole");
    let file = folder.0.join("copies.pcap");
    let span = format!("[span.x]\nports = [\"p0\"]\nfile = \"{}\"\n", file.display());
    let (running, _stopped, _instance) = start(&folder.0, &format!("{OFFLINE}{span}"));
    let _held = running.apps.clone();
    running.stop(Remove::Nothing).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 24, "its header");
}

/// Where a process of [`is_stuck`] has its socket, and what it runs.
const STUCK: (&str, &str) = ("RUTTER_TEST_STUCK", "RUTTER_TEST_STUCK_CONFIG");

/// The process of [`stuck_in`]: a thread dies while it holds the kernel's lock, and the
/// workers are held for ever by another. Does nothing in the tests' own process.
#[test]
fn is_stuck() {
    if let [Ok(folder), Ok(text)] = [STUCK.0, STUCK.1].map(std::env::var) {
        be_stuck(Path::new(&folder), &text);
    }
}

fn be_stuck(folder: &Path, text: &str) {
    let (mut running, stopped, instance) = start(folder, text);
    running.limit = Duration::from_millis(500);
    let (state, threads) = (running.state.clone(), running.threads.clone());
    let (held, holds) = mpsc::channel();
    let hold = move || {
        let _workers = state.workers.read().unwrap();
        held.send(()).unwrap();
        loop {
            std::thread::park();
        }
    };
    threads.contained("holder", hold).unwrap();
    holds.recv().unwrap();
    let state = running.state.clone();
    let die = move || {
        let _kernel = state.kernel.as_ref().map(|kernel| kernel.lock().unwrap());
        panic!("planted under the kernel's lock");
    };
    let died: JoinHandle<()> = threads.fatal("planted", die).unwrap();
    assert!(died.join().is_err());
    let _ = running.wait(&stopped, Notifier::default(), &instance);
    panic!("the stop has ended by itself");
}

/// Runs [`is_stuck`] in a process of its own, in the namespace of this thread: it ends by
/// the limit of a stop.
fn stuck_in(folder: &Path, text: &str) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "run::tests::is_stuck", "--nocapture"]);
    child.env(STUCK.0, folder).env(STUCK.1, text);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(DIED.into()), "{said}");
}

#[test]
fn a_stop_after_a_death_has_a_limit() {
    let folder = Folder::new("stuck");
    stuck_in(&folder.0, OFFLINE);
}

/// Also where the thread that died has left the kernel's lock poisoned.
#[test]
fn at_the_limit_settings_are_given_back() {
    namespace::in_namespace(|| {
        if !Path::new("/dev/net/tun").exists() {
            return testing::skip("no /dev/net/tun");
        }
        namespace::ip("link set lo up");
        let folder = Folder::new("stuck-kernel");
        let before = KEYS.map(setting);
        stuck_in(&folder.0, TAP);
        assert_eq!(KEYS.map(setting), before);
        assert_eq!(setting("ipv4/conf/p0/forwarding"), "0");
        assert!(!folder.0.join("api.sock.settings").exists(), "nothing is left to be given back");
        namespace::ip("link show p0"); // or it panics
    });
}

/// A process that goes on after a run, as this one of the tests does, must not end by the
/// limit of that run's stop.
#[test]
fn the_limit_ends_with_the_stop() {
    let folder = Folder::new("over");
    let (mut running, stopped, instance) = start(&folder.0, OFFLINE);
    running.limit = Duration::from_millis(1500);
    plant_node(&running);
    let state = Arc::downgrade(&running.state);
    assert_eq!(
        death(running.wait(&stopped, Notifier::default(), &instance).unwrap_err()).0,
        "worker-0"
    );
    let begun = Instant::now();
    while state.strong_count() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "somebody waits still");
        std::thread::sleep(Duration::from_millis(5));
    }
}
