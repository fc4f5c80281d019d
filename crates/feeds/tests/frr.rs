//! FRR's zebra, unmodified, feeds the data plane by FPM.

mod namespace;

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use feeds::fpm::{Fpm, PORT, Rules};
use feeds::netlink::Mirror;
use lookup::sync::Domain;
use namespace::{in_namespace, ip};
use tables::event::{Event, Source};
use tables::show::RouteInfo;
use tables::{Control, Iface, Limits, VrfConfig, VrfId};

#[test]
fn routes_of_zebra() {
    if !Path::new(DAEMONS).join("zebra").exists() {
        return testing::skip("FRR is not installed");
    }
    if testing::in_user_namespace() {
        return testing::skip("FRR changes to its own user, which a user namespace does not have");
    }
    in_namespace(|| {
        for command in [
            "link set lo up",
            "link add p0 type veth peer name p0x",
            "link set p0 up",
            "link set p0x up",
            "address add 10.0.0.1/24 dev p0",
        ] {
            ip(command);
        }
        let mut b = Bench::new();
        let directory = std::env::temp_dir().join(format!("feeds-frr-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // FRR's daemons run as a user of their own.
        std::fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        let zebra = Daemon::start("zebra", "fpm address 127.0.0.1 port 2620\n", &directory);
        b.until("zebra connects", |b| b.fpm.counters().connected);
        let statics = "ip route 203.0.113.0/24 10.0.0.2\nip route 198.51.100.0/24 blackhole\n\
                       ip route 192.0.2.0/24 10.0.0.2\nip route 192.0.2.0/24 10.0.0.3\n";
        let staticd = Daemon::start("staticd", statics, &directory);
        b.until("a route by a gateway", |b| b.paths("203.0.113.9") == ["10.0.0.2"]);
        b.until("two gateways", |b| b.paths("192.0.2.9") == ["10.0.0.2", "10.0.0.3"]);
        b.until("a blackhole", |b| b.route("198.51.100.9").is_some());
        b.until("the connected network", |b| b.route("10.0.0.9").is_some());
        assert_eq!(b.route("203.0.113.9").unwrap().source, Source::Fpm);
        assert_eq!(b.route("10.0.0.9").unwrap().source, Source::Kernel);
        drop(staticd);
        b.until("they go with their daemon", |b| b.route("203.0.113.9").is_none());
        let staticd = Daemon::start("staticd", statics, &directory);
        b.until("and come back", |b| b.paths("203.0.113.9") == ["10.0.0.2"]);
        drop(zebra);
        b.until("zebra is gone", |b| !b.fpm.counters().connected);
        assert_eq!(b.paths("203.0.113.9"), ["10.0.0.2"], "what is there serves on");
        drop(staticd); // it may write into its folder
        std::fs::remove_dir_all(directory).unwrap();
    });
}

struct Bench {
    control: Control,
    mirror: Mirror,
    fpm: Fpm,
}

impl Bench {
    fn new() -> Bench {
        let config = VrfConfig { source: Source::Fpm, ..VrfConfig::default() };
        let mut control = Control::new(&Domain::new(), Limits::default(), &config).unwrap();
        control.add_iface(Iface { name: "p0".into(), ..Iface::default() }).unwrap();
        let fpm = Fpm::listen((Ipv4Addr::LOCALHOST, PORT).into(), Rules::default()).unwrap();
        Bench { control, mirror: Mirror::open(1 << 20).unwrap(), fpm }
    }

    fn until(&mut self, what: &str, is: impl Fn(&Bench) -> bool) {
        let start = Instant::now();
        while !is(self) {
            let control = &mut self.control;
            let mut sink = |events: &[Event]| control.handle(events);
            self.mirror.poll(Duration::from_millis(10), &mut sink).unwrap();
            self.fpm.poll(Duration::from_millis(10), &mut sink).unwrap();
            self.control.tick();
            let state = (self.fpm.counters(), self.control.counters());
            assert!(start.elapsed() < Duration::from_secs(40), "{what}: {state:?}");
        }
    }

    fn route(&self, ip: &str) -> Option<RouteInfo> {
        self.control.route_to(VrfId(0), ip.parse().unwrap())
    }

    fn paths(&self, ip: &str) -> Vec<String> {
        let paths = self.route(ip).into_iter().flat_map(|route| route.paths);
        let mut paths: Vec<_> = paths.filter_map(|p| Some(p.via?.to_string())).collect();
        paths.sort();
        paths
    }
}

/// A daemon of FRR; ends with its value.
struct Daemon(Child);

impl Daemon {
    fn start(name: &str, configuration: &str, directory: &Path) -> Daemon {
        let file = |end: &str| directory.join(format!("{name}.{end}"));
        std::fs::write(file("conf"), configuration).unwrap();
        let mut command = Command::new(Path::new(DAEMONS).join(name));
        command.arg("-f").arg(file("conf")).arg("-i").arg(file("pid"));
        command.arg("-z").arg(directory.join("zserv")).arg("--vty_socket").arg(directory);
        command.args(["-P", "0"]);
        if name == "zebra" {
            command.args(["-M", "dplane_fpm_nl"]);
        }
        Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }
}

const DAEMONS: &str = "/usr/lib/frr";
