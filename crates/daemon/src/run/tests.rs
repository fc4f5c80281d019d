//! Runs that end by themselves: a thread of theirs is made to die by what a test
//! plants (a node, a call), and what is left behind is looked at.

use std::path::Path;
use std::thread::JoinHandle;

use graph::{Builder, Graph, NoDrop, NoEdge, Node, View};

use super::*;
use crate::config::Config;

#[path = "../../../feeds/tests/namespace/mod.rs"]
mod namespace;

#[test]
fn ignored_signals_are_found() {
    let status = "Name:\trutter\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
    assert!(ignores(status, SIGHUP));
    assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
    assert!(!ignores("", SIGHUP));
}

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

/// A router of the configuration in `text` runs in the namespace of this thread,
/// `plant` harms it, and it ends by that within a second or two.
fn ends(folder: &Path, text: &str, plant: impl FnOnce(&Running)) -> Error {
    let config = Config::parse("t", text).unwrap();
    let text = Text { file: "t".into(), text: text.into() };
    let options = Options { text, socket: folder.join("api.sock") };
    let instance = Instance::claim(&options.socket, "t").unwrap();
    let (stop, stopped) = mpsc::channel();
    let running = Running::start(config, &options, &instance, stop, Threads::default()).unwrap();
    let running = running.serve(&instance).unwrap();
    plant(&running);
    let begun = Instant::now();
    let error = running.wait(&stopped, Notifier::default()).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(!options.socket.exists());
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

/// With a kernel: a tap, its settings, and what they were before.
#[test]
fn after_a_death_settings_are_as_before_and_the_taps_stay() {
    namespace::in_namespace(|| {
        if !Path::new("/dev/net/tun").exists() {
            return testing::skip("no /dev/net/tun");
        }
        namespace::ip("link set lo up");
        let folder = Folder::new("dies-kernel");
        let setting = |key: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/{key}"));
            text.map(|text| text.trim().to_string()).unwrap_or_default()
        };
        let keys = ["ipv6/conf/all/forwarding", "ipv6/conf/lo/forwarding"];
        let before = keys.map(setting);
        let text = "workers = [0]\nbuffers = 4096\n[ports.p0]\ndevice = \"tap:x0\"\n\
            addresses = [\"10.0.1.1/24\"]\n";
        let record = folder.0.join("api.sock.settings");
        let plant = |running: &Running| {
            assert!(record.exists(), "settings are changed");
            assert_eq!(setting("ipv4/conf/p0/forwarding"), "1");
            plant_node(running);
        };
        let (thread, cause) = death(ends(&folder.0, text, plant));
        assert_eq!(thread, "worker-0", "{cause}");
        assert_eq!(keys.map(setting), before);
        assert_eq!(setting("ipv4/conf/p0/forwarding"), "0");
        assert!(!record.exists(), "nothing is left to be given back");
        namespace::ip("link show p0"); // or it panics
    });
}
